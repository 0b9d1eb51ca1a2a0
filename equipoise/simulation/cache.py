"""Compiled drivers on disk: one folder per bound loop, in a private cache folder of the user.

The name of a driver's folder is a digest of the bound source, of the source of every module that its kernels import,
and of everything else that affects the machine code. So the cache is never stale; the least recently used drivers are
deleted when it grows beyond `MAX_BYTES`. The files hold Numba's pickles and machine code, which can execute arbitrary
code. They are loaded only from a folder that belongs to the user and that no other user can write to, and only if their
digests are those that a process of this user has stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import platform
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

from equipoise.simulation.binding import TEMPLATE, Binding, Function
from equipoise.simulation.sources import changed_since_start, code_digest
from equipoise.storage.files import write_atomic

try:
    import fcntl
except ImportError:  # without locks two processes may compile the same driver, which is harmless
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("equipoise")
MAX_BYTES = 512 * 2**20
SUMS = "sums.json"  # the digest of every file in the folder
OWN_MODULES = ("equipoise.simulation.rounds", "equipoise.simulation.compiler", "equipoise.simulation.normals")


def cache_folder() -> Path:
    """The folder EQUIPOISE_CACHE, or "equipoise" in the user's cache folder."""
    if chosen := os.environ.get("EQUIPOISE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "equipoise"


@cache
def private_folder(folder: Path) -> Path | None:
    """The folder, created if necessary; None, with a warning in the log, if it cannot be used or is not private."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise PermissionError("it is not a folder")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise PermissionError("it belongs to another user")
        if os.name == "posix" and found.st_mode & 0o022:
            raise PermissionError("other users can write to it")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError("it is not writable")
    except (OSError, RuntimeError) as error:
        logger.warning("drivers are compiled at every start: the cache %s cannot be used: %s", folder, error)
        return None
    return folder


def find_entry(binding: Binding, versions: Iterable[str]) -> Entry | None:
    """The cache entry of a binding; None if a kernel has no source file or its file has changed since the import."""
    folder = private_folder(cache_folder())
    kernels = binding.kernels
    if folder is None or not all(map(_importable, kernels.values())):
        return None
    imports = [f"from {f.__module__} import {f.__qualname__} as {name}" for name, f in sorted(kernels.items())]
    text = "\n".join((TEMPLATE, *imports, *binding.text(), ""))
    modules = {*OWN_MODULES, *(function.__module__ for function in kernels.values())}
    if changed_since_start(modules):
        return None
    about = (text, code_digest(modules), sys.version, platform.machine(), *versions)
    digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:40]
    try:
        return Entry(folder, digest, text)
    except OSError as error:
        logger.warning("a driver is compiled in memory: %s cannot be written: %s", folder, error)
        return None


def _importable(function: Function) -> bool:
    """Whether another process can import the function by its name from a file."""
    if not isinstance(function, FunctionType):
        return False
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    named = module is not None and getattr(module, function.__qualname__, None) is function
    return named and function.__module__ != "__main__" and file is not None and Path(file).is_file()


class Entry:
    def __init__(self, root: Path, digest: str, text: str) -> None:
        self.folder = root / digest
        self._source = self.folder / f"driver_{digest[:16]}.py"
        self._text = text
        self._write_source()

    def _write_source(self) -> None:
        if not self._source.is_file():
            # The rename is atomic; if another process was faster, its folder has the same content.
            made = self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(6)}")
            made.mkdir(mode=0o700)
            (made / self._source.name).write_text(self._text, encoding="utf-8")
            os.utime(made / self._source.name, (0, 0))  # older versions of Numba compare times
            with contextlib.suppress(OSError):
                if self.folder.is_dir() and not self._source.is_file():  # unusable
                    shutil.rmtree(self.folder)
                made.rename(self.folder)
            shutil.rmtree(made, ignore_errors=True)
        if self._source.read_text(encoding="utf-8") != self._text:
            write_atomic(self._source, self._text.encode())
            os.utime(self._source, (0, 0))

    def module(self, name: str) -> ModuleType:
        """The bound module; a unique name keeps its symbols apart from those of other drivers."""
        spec = importlib.util.spec_from_file_location(f"{name}.{self._source.stem}", self._source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # Numba looks it up when it loads machine code
        spec.loader.exec_module(module)
        return module

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder; machine code whose digests do not match is deleted first."""
        with (self.folder / "lock").open("a") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            kept = self._kept_sums()
            if self._sums() != kept:
                self.clear()
            yield
            after = self._sums()
            if after != kept:
                write_atomic(self.folder / SUMS, json.dumps(after).encode())
                prune(self.folder.parent, self.folder)
            os.utime(self.folder)

    def clear(self) -> None:
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)

    def _sums(self) -> dict[str, str]:
        files = sorted((self.folder / "__pycache__").glob("*.nb[ic]"))
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def _kept_sums(self) -> dict[str, str] | None:
        try:
            kept = json.loads((self.folder / SUMS).read_bytes())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else None


def prune(root: Path, latest: Path) -> None:
    """Delete the least recently used drivers until the cache takes at most `MAX_BYTES`."""
    folders = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # another process may delete it at the same time
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            folders.append((folder.stat().st_mtime, size, folder))
    total = sum(size for _, size, _ in folders)
    for _, size, folder in sorted(folders):
        if total > MAX_BYTES and folder != latest:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
