"""A part without its kernels."""

from typing import Any


class Plain:
    """The same part without its kernels: a learner, problem or selector of a user's own."""

    def __init__(self, part: Any, **changed: Any) -> None:
        self._part = part
        self.__dict__.update(changed)

    def __getattr__(self, name: str) -> Any:
        if name == "kernels":
            raise AttributeError(name)
        return getattr(self._part, name)
