"""Settings of learners, selectors and problems, each declared once as a field of its class.

A class decorated with `configurable` is a dataclass: its annotated fields, including inherited ones, are the arguments
of its constructor. `setting` gives a field its default, its check (from `equipoise.settings.checks`, or any function of
a name and a value that returns the value in its proper type or raises an error) and, if the value is not plain data,
how to convert it to and from plain data. Constructor, `config`, `from_config`, `clone`, `repr` and equality follow from
the fields. If the name of an argument is also that of a method, the field has another name and `alias` is the argument.
If a setting was renamed, `deprecated` is its old argument, which constructor and attribute accept with a warning.

>>> from equipoise.settings.checks import count, positive
>>> @configurable
... class Ruler(Configured):
...     length: int = setting(check=count, kw_only=False)
...     unit: float = setting(default=1.0, check=positive)
>>> Ruler(3), Ruler(3).config(), Ruler.from_config({"length": 3}) == Ruler(3)
(Ruler(3), {'length': 3, 'unit': 1.0}, True)
>>> Ruler(3, unit=-1.0)
Traceback (most recent call last):
    ...
equipoise.errors.InvalidArgument: unit is -1.0, but must be positive, at least 1e-100
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Protocol, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.types import Array, Config, Plain

T = TypeVar("T")
Check = Callable[[str, Any], Any]


class Numbers(Protocol):
    """For type checkers: a setting that is given as anything array-like and stored as an array."""

    def __get__(self, instance: object, owner: object) -> Array: ...

    def __set__(self, instance: object, value: ArrayLike) -> None: ...


def setting(
    *,
    default: Any = MISSING,
    check: Check | None = None,
    encode: Callable[[Any], Plain] | None = None,
    decode: Callable[[Plain], Any] | None = None,
    kw_only: bool = True,
    alias: str | None = None,
    deprecated: str | None = None,
) -> Any:
    """A setting; required if it has no default. `encode` and `decode` convert to and from plain data."""
    rules = {"check": check, "encode": encode or _plain, "decode": decode, "alias": alias, "deprecated": deprecated}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=rules)


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
def configurable(cls: type[T]) -> type[T]:
    """Make the annotated fields of a class, its settings, the arguments of its constructor."""
    data_class = dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    dataclass_init: Any = data_class.__init__
    field_names = {_argument(field): field.name for field in settings_of(data_class)}
    renamed = former_names(data_class)

    @functools.wraps(dataclass_init)
    def init(self: Any, *args: Any, **settings: Any) -> None:
        for former in renamed.keys() & settings.keys():
            _warn_deprecated(former, renamed[former])
        settings = with_current_names(data_class, settings)
        for name in settings:
            if name not in field_names:
                raise UnknownSetting(f"setting of {type(self).__name__}", name, field_names)
        dataclass_init(self, *args, **{field_names[name]: value for name, value in settings.items()})

    arguments = {name: argument for argument, name in field_names.items()}
    signature = inspect.signature(dataclass_init)
    parameters = [each.replace(name=arguments.get(each.name, each.name)) for each in signature.parameters.values()]
    init.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    data_class.__init__ = init  # type: ignore[method-assign]
    for former, current in renamed.items():
        setattr(data_class, former, _deprecated_attribute(former, current))
    return data_class


def former_names(cls: type[Any]) -> dict[str, str]:
    """The deprecated arguments of a configurable class, with the current name of each."""
    return {each.metadata["deprecated"]: _argument(each) for each in settings_of(cls) if each.metadata["deprecated"]}


def with_current_names(cls: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with deprecated names replaced by current ones."""
    renamed = former_names(cls)
    for former in renamed.keys() & settings.keys():
        if renamed[former] in settings:
            raise InvalidArgument(
                f"{former} is {settings[former]!r}, but must not be given together with {renamed[former]}"
            )
    return {renamed.get(name, name): value for name, value in settings.items()}


def _deprecated_attribute(former: str, current: str) -> property:
    def read(self: Any) -> Any:
        _warn_deprecated(former, current)
        return getattr(self, current)

    return property(read, doc=f"Deprecated: the former name of `{current}`.")


def _warn_deprecated(former: str, current: str) -> None:
    message = f"{former} is deprecated and will be removed in equipoise 0.3: use {current}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def optional(check: Check) -> Check:
    """The check of a setting that may also be None."""
    return lambda name, value: None if value is None else check(name, value)


class Configured:
    """Base of all configurable classes. `_set_up` is called after all settings have been checked."""

    def __post_init__(self) -> None:
        for each in settings_of(type(self)):
            check = each.metadata["check"]
            if check is not None:
                setattr(self, each.name, check(_argument(each), getattr(self, each.name)))
        self._set_up()

    def _set_up(self) -> None:
        """Initialize everything that is derived from the settings."""

    def config(self) -> Config:
        """The constructor's arguments, as plain data."""
        return {_argument(each): each.metadata["encode"](self._as_given(each)) for each in settings_of(type(self))}

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        """A new object with the settings in `config`."""
        decoders = {_argument(field): field.metadata["decode"] for field in settings_of(cls)}
        current = with_current_names(cls, config)
        for name in current:
            if name not in decoders:
                raise UnknownSetting(f"setting of {cls.__name__}", name, decoders)
        return cls(**{name: decoders[name](value) if decoders[name] else value for name, value in current.items()})

    def clone(self, **changes: Any) -> Self:
        """A new object with the same settings but for `changes`, in its initial state."""
        given = {_argument(each): self._as_given(each) for each in settings_of(type(self))}
        return type(self)(**{**given, **changes})

    def __repr__(self) -> str:
        arguments = []
        for field in settings_of(type(self)):
            value = self._as_given(field)
            if not field.kw_only:
                arguments.append(repr(value))
            elif not equal_data(value, self._default_of(field)):
                arguments.append(f"{_argument(field)}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _as_given(self, each: Field[Any]) -> Any:
        """The value of a setting; override it if the attribute holds another one than was given."""
        return getattr(self, each.name)

    def _default_of(self, each: Field[Any]) -> object:
        """The default of a setting; override it if the default depends on other settings."""
        return each.default

    def __eq__(self, other: object) -> bool:
        """Objects are equal if they have the same class, the same settings and, if they learn, the same state."""
        if type(self) is not type(other) or not isinstance(other, Configured):
            return NotImplemented
        mine, theirs = self.config(), other.config()
        return equal_data(mine, theirs) and equal_data(_state_of(self), _state_of(other))

    __hash__ = None  # type: ignore[assignment]  # mutable


def settings_of(cls: type[Any]) -> tuple[Field[Any], ...]:
    """The settings of a configurable class, in the order of its constructor."""
    return tuple(sorted((each for each in fields(cls) if each.init), key=lambda each: bool(each.kw_only)))


def _argument(each: Field[Any]) -> str:
    """The name of a setting as an argument of the constructor."""
    return each.metadata["alias"] or each.name


def _state_of(part: Any) -> object:
    return part.state() if callable(getattr(part, "state", None)) else None


def _plain(value: Any) -> Plain:
    return list(value) if isinstance(value, tuple) else value


def equal_data(one: Any, other: Any) -> bool:
    """Equality of plain data that compares arrays by value and dtype, and in which nan equals nan."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        first, second = np.asarray(one), np.asarray(other)
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal_data(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_data, one, other))
    return bool(one == other) or (one != one and other != other)
