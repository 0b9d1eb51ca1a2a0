"""Settings of learners, selectors and problems, each declared once as a field of its class.

A class decorated with `configurable` is a dataclass: its annotated fields, including inherited ones, are the arguments
of its constructor. `setting` gives a field its default, its check (from `equipoise.settings.checks`, or any function of
a name and a value that returns the value in its proper type or raises an error) and, if the value is not plain data,
how to convert it to and from plain data. Constructor, `config`, `from_config`, `clone`, `repr` and equality follow from
the fields. If the name of an argument is also that of a method, the field has another name and `alias` is the argument.

`doc` describes a setting, in the class that declares it. The "Parameters" section of every class docstring is assembled
from these texts and the defaults; `describe` replaces the text of an inherited setting. `value` does the same for small
frozen values, such as bounds.

>>> from equipoise.settings.checks import count, positive
>>> @configurable
... class Ruler(Configured):
...     'A straight ruler.'
...
...     length: int = setting("Number of units.", count, kw_only=False)
...     unit: float = setting("Length of a unit in meters, positive.", positive, default=1.0)
>>> Ruler(3), Ruler(3).config(), Ruler.from_config({"length": 3}) == Ruler(3)
(Ruler(3), {'length': 3, 'unit': 1.0}, True)
>>> Ruler(3, unit=-1.0)
Traceback (most recent call last):
    ...
equipoise.errors.InvalidArgument: unit is -1.0, but must be positive, at least 1e-100
>>> print(Ruler.__doc__)
A straight ruler.
<BLANKLINE>
Parameters
----------
length
    Number of units.
unit
    Length of a unit in meters, positive. Default: 1.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import MISSING, Field, fields
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar, dataclass_transform, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument, UnknownName, UnknownSetting
from equipoise.types import Array, Config, Plain, State

T = TypeVar("T")
Check = Callable[[str, Any], Any]


class Numbers(Protocol):
    """For type checkers: a setting that is given as anything array-like and stored as an array."""

    def __get__(self, instance: object, owner: object) -> Array: ...

    def __set__(self, instance: object, value: ArrayLike) -> None: ...


def setting(
    doc: str = "",
    check: Check | None = None,
    *,
    default: Any = MISSING,
    encode: Callable[[Any], Plain] | None = None,
    decode: Callable[[Plain], Any] | None = None,
    kw_only: Any = MISSING,
    alias: str | None = None,
    derived: str = "",
    repr: bool = True,
    added: bool = False,
) -> Any:
    """Declare a setting; it is required if it has no default.

    Parameters
    ----------
    doc
        Sentences that describe the setting. The assembled docstring adds the default, unless it is None or `doc` has
        "Default:".
    check
        Function of the name and the value that returns the value to store, or raises an error.
    default
        Default value.
    encode, decode
        Functions that convert the value to and from plain data.
    kw_only
        Whether the argument must be given by name. Default: as in other settings of the class, which `configurable`
        takes by name and `value` also by position.
    alias
        Name of the argument, if it differs from the name of the field.
    derived
        Name of the method that returns the value if None is given.
    repr
        Whether the `repr` of a `value` shows it.
    added
        Whether files exist that were written before the setting: `config` then leaves out the default.
    """
    rules = {"check": check, "encode": encode or _plain, "decode": decode, "alias": alias}
    metadata = {**rules, "derived": derived, "doc": doc, "added": added}
    return dataclasses.field(default=default, kw_only=kw_only, repr=repr, metadata=metadata)


@dataclass_transform(kw_only_default=True, field_specifiers=(setting, dataclasses.field))
def configurable(cls: type[T]) -> type[T]:
    """Make the annotated fields of a class, its settings, the arguments of its constructor."""
    data_class = _documented(cls, dataclasses.dataclass(eq=False, repr=False, kw_only=True))
    dataclass_init: Any = data_class.__init__
    field_names = {_argument(field): field.name for field in settings_of(data_class)}

    @functools.wraps(dataclass_init)
    def init(self: Any, *args: Any, **settings: Any) -> None:
        for name in settings:
            if name not in field_names:
                raise UnknownSetting(f"setting of {type(self).__name__}", name, field_names)
        dataclass_init(self, *args, **{field_names[name]: value for name, value in settings.items()})

    arguments = {name: argument for argument, name in field_names.items()}
    signature = inspect.signature(dataclass_init)
    parameters = [each.replace(name=arguments.get(each.name, each.name)) for each in signature.parameters.values()]
    init.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    data_class.__init__ = init  # type: ignore[method-assign]
    return data_class


@dataclass_transform(frozen_default=True, field_specifiers=(setting, dataclasses.field))
def value(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass of the settings that it declares, with the checks and docs of these.

    One with a `__post_init__` of its own calls `check_settings` there, and then checks what settings mean together.
    """
    if "__post_init__" not in vars(cls):
        cls.__post_init__ = check_settings  # type: ignore[attr-defined]
    return _documented(cls, dataclasses.dataclass(frozen=True))


def _documented(cls: type[T], decorate: Callable[[type[T]], type[T]]) -> type[T]:
    text, data_class = cls.__doc__, decorate(cls)
    if text is not None:
        data_class.__doc__ = _Docstring(text)  # type: ignore[assignment]  # a descriptor that returns the string
    return data_class


def check_settings(part: object) -> None:
    """Replace every setting by what its check returns."""
    for each in settings_of(type(part)):
        check = each.metadata["check"]
        if check is not None:
            object.__setattr__(part, each.name, check(_argument(each), getattr(part, each.name)))


def describe(**docs: str) -> Callable[[type[T]], type[T]]:
    """Replace the docs of inherited settings, given by argument, where a class uses them in a sharper sense."""

    def replace_docs(cls: type[T]) -> type[T]:
        own: dict[str, Field[Any]] = vars(cls)["__dataclass_fields__"]
        inherited = {_argument(each): each for each in settings_of(cls)}
        for argument, doc in docs.items():
            each = copy(inherited[argument])
            each.metadata = MappingProxyType({**each.metadata, "doc": doc})
            own[each.name] = each
        return cls

    return replace_docs


class _Docstring:
    """The docstring of a class: its own text, with a section on its settings that is assembled when it is read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type[Any]) -> str:
        text, settings = inspect.cleandoc(self._text), settings_of(owner)
        if not settings:
            return text
        section = "\n".join(
            ("Parameters", "----------", *(parameter_entry(_argument(each), each) for each in settings))
        )
        head, *rest = re.split(r"\n\n(?=\w+\n-+\n|>>>)", text, maxsplit=1)
        return "\n\n".join((head, section, *rest))


def parameter_entry(argument: str, each: Field[Any]) -> str:
    """Return the numpydoc entry of a setting."""
    doc, default = each.metadata["doc"], each.default
    if default is not MISSING and default is not None and "Default:" not in doc:
        doc += f" Default: {_written(default)}."
    return f"{argument}\n{textwrap.fill(doc, 112, initial_indent='    ', subsequent_indent='    ')}"


def _written(default: object) -> str:
    if isinstance(default, str):
        return f'"{default}"'
    return f"{default:g}" if isinstance(default, float) else repr(default)


def optional(check: Check) -> Check:
    """The check of a setting that may also be None."""
    return lambda name, value: None if value is None else check(name, value)


class Configured:
    """Base of all configurable classes. `_set_up` is called after all settings have been checked."""

    _unstated: frozenset[str] = frozenset()  # settings that were given as None and have their value from elsewhere

    def __post_init__(self) -> None:
        check_settings(self)
        self._set_up()

    def _set_up(self) -> None:
        """Initialize everything that is derived from the settings; extend it, and call this first."""
        for each in settings_of(type(self)):
            if each.metadata["derived"] and getattr(self, each.name) is None:
                setattr(self, each.name, self._default_of(each))

    def config(self) -> Config:
        """The constructor's arguments, as plain data."""
        given = {each: self._as_given(each) for each in settings_of(type(self))}
        left_out = {each for each, value in given.items() if each.metadata["added"] and value == each.default}
        return {_argument(each): each.metadata["encode"](given[each]) for each in given if each not in left_out}

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        """A new object with the settings in `config`."""
        decoders = {_argument(field): field.metadata["decode"] for field in settings_of(cls)}
        for name in config:
            if name not in decoders:
                raise UnknownSetting(f"setting of {cls.__name__}", name, decoders)
        return cls(**{name: decoders[name](value) if decoders[name] else value for name, value in config.items()})

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
            elif (value is not None or not field.metadata["derived"]) and not equal_data(
                value, self._default_of(field)
            ):
                arguments.append(f"{_argument(field)}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _as_given(self, each: Field[Any]) -> Any:
        return None if each.name in self._unstated else getattr(self, each.name)

    def _default_of(self, each: Field[Any]) -> object:
        return getattr(self, each.metadata["derived"])() if each.metadata["derived"] else each.default

    def __eq__(self, other: object) -> bool:
        """Objects are equal if they have the same class, the same settings and, if they learn, the same state."""
        if type(self) is not type(other) or not isinstance(other, Configured):
            return NotImplemented
        mine, theirs = self.config(), other.config()
        return equal_data(mine, theirs) and equal_data(_state_of(self), _state_of(other))

    __hash__ = None  # type: ignore[assignment]  # mutable


def named_part(kind: str, given: Any, base: Any, classes: Mapping[str, type[Any]], key: str = "class") -> Any:
    """Return a part that is given as an object of `base`, or as {key: name of its class, setting: value, ...}."""
    if isinstance(given, base):
        return given
    if not isinstance(given, Mapping) or key not in given:
        raise InvalidArgument(f"{kind} is {given!r:.80}, but must be one of {', '.join(classes)}")
    name = str(given[key])
    if name not in classes:
        raise UnknownName(kind, name, classes)
    cls, settings = classes[name], {argument: value for argument, value in given.items() if argument != key}
    if issubclass(cls, Configured):
        return cls.from_config(settings)
    try:
        return cls(**settings)
    except TypeError:
        raise InvalidArgument(f"{kind} {name!r} has settings {settings!r}, but must have those of its class") from None


def settings_of(cls: type[Any]) -> tuple[Field[Any], ...]:
    """The settings of a configurable class, in the order of its constructor."""
    return tuple(sorted((each for each in fields(cls) if each.init), key=lambda each: bool(each.kw_only)))


def _argument(each: Field[Any]) -> str:
    """The name of a setting as an argument of the constructor."""
    return each.metadata["alias"] or each.name


@runtime_checkable
class HasState(Protocol):
    """A part that learns."""

    def state(self) -> State:
        """Everything learned, as arrays."""


def _state_of(part: object) -> object:
    return part.state() if isinstance(part, HasState) and callable(part.state) else None


def _plain(value: Any) -> Plain:
    if isinstance(value, np.ndarray):
        return value.tolist()
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
