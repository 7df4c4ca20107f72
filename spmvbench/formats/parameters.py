"""Parameters of a format: typed settings, with a default and a range, that users write as ``key[name=value]``."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast, overload

from spmvbench.errors import UsageError, did_you_mean

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`functools.cache` of a function of a format's class: mypy takes no class for hashable."""
    return cast(Callable[Arguments, Result], cache(function))


Setting = TypeVar("Setting", bound=bool | int | float | str)


class Parameter(Generic[Setting]):
    """A typed setting of a format, written ``key[name=value]`` on the command line.

    The type is the default's: a truth value, a number below 2^63, or a text. Read from the class it is the Parameter
    itself, from an instance the value used. Raises UsageError for a value of another type, outside `choices`, or
    outside low..high.
    """

    def __init__(
        self,
        default: Setting,
        doc: str,
        *,
        choices: Sequence[Setting] = (),
        low: float | None = None,
        high: float | None = None,
    ):
        if not isinstance(default, bool | int | float | str):
            raise TypeError(f"the default of a parameter is a truth value, a number or a text, not {default!r}")
        self.default, self.doc, self.choices, self.low, self.high = default, doc, tuple(choices), low, high
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Parametrised, owner: type) -> Setting: ...
    def __get__(self, instance: Parametrised | None, owner: type | None = None) -> Any:
        return self if instance is None else instance.params[self.name]

    def defaulting(self, default: Setting) -> Parameter[Setting]:
        """The same parameter with another default, for a format that differs in nothing else."""
        return Parameter(default, self.doc, choices=self.choices, low=self.low, high=self.high)

    @property
    def range(self) -> str:
        """The allowed values, as documentation shows them."""
        if self.choices:
            return ", ".join(str(choice) for choice in self.choices)
        if isinstance(self.default, bool):
            return "true, false"
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" <= {self.high}"
        return f"{low}{type(self.default).__name__}{high}"

    def check(self, value: Any) -> Setting:
        """The value in the parameter's type (text is parsed)."""
        kind, given = type(self.default), value
        try:
            if kind is bool and isinstance(value, str):
                value = {"true": True, "1": True, "false": False, "0": False}[value.lower()]
            elif kind is int and isinstance(value, float) and value != int(value):
                raise ValueError
            value = kind(value)
            if isinstance(value, int | float) and not abs(value) < 2**63:  # nor is NaN less
                raise ValueError
        except (ValueError, TypeError, KeyError, OverflowError):
            raise UsageError(f"parameter {self.name} takes {self.range}, not {reprlib.repr(given)}") from None
        outside = (self.low is not None and value < self.low) or (self.high is not None and value > self.high)
        if outside or (self.choices and value not in self.choices):
            raise UsageError(f"parameter {self.name} takes {self.range}, not {reprlib.repr(given)}")
        return cast(Setting, value)


class Parametrised:
    """What has Parameters as class attributes, and on an instance the value of each in `params`."""

    key: ClassVar[str] = ""
    params: Mapping[str, Any]

    @classmethod
    def parameters(cls) -> dict[str, Parameter[Any]]:
        """The parameters by name."""
        return dict(_parameters(cls))

    @classmethod
    def resolve(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter's value: what was given, checked, and defaults for the rest. Raises UsageError."""
        known = _parameters(cls)
        found = {name: p.default for name, p in known.items()}
        for name, value in params.items():
            if (p := known.get(name)) is None:
                hint = did_you_mean(name, list(known)) or f"; it takes {', '.join(known) or 'none'}"
                raise UsageError(f"{cls.key} has no parameter {name}{hint}")
            if value is not p.default:  # which most are, and each conversion asks
                found[name] = p.check(value)
        return found


@cached
def _parameters(cls: type[Parametrised]) -> dict[str, Parameter[Any]]:
    # Kept: to look through all members takes as long as several SpMVs, and is part of every conversion.
    return {name: p for name, p in inspect.getmembers_static(cls) if isinstance(p, Parameter)}
