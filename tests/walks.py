"""Which files of the package an operation passes, counted by a profiler hook."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import equipoise

PACKAGE = Path(equipoise.__file__).parent
REPEATS = 5


class Walk:
    """Notes the files of the package whose functions run, in this thread and in those that start meanwhile."""

    def __init__(self) -> None:
        self._files: set[str] = set()

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._files.add(frame.f_code.co_filename)

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hook the threads."""
        before = sys.getprofile()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)
            sys.setprofile(before)

    def files(self, operation: Callable[[int], object]) -> set[str]:
        """Return the files that every call of `operation` passes; background tasks run during some calls only."""
        walks = []
        for number in range(REPEATS):
            self._files = set()
            operation(number)
            walks.append(self._files)
        paths = (Path(file) for file in set.intersection(*walks))
        return {str(path.relative_to(PACKAGE)) for path in paths if path.is_relative_to(PACKAGE)}
