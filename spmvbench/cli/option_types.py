"""Types of options: lists of words, finite numbers, sizes in bytes, seconds, per cent; and the option `--results`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from spmvbench.errors import UsageError

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic from click 8.4 on only

# For commands that write one file (`paths.output`). Not normalized: "./-" is a file, "-" is standard output.
OUTPUT = click.Path(dir_okay=False, allow_dash=True)
# For commands that read runs.
results = click.option("--results", default="results", metavar="DIR", help="Folder of the runs.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
real_part = click.option(
    "--real-part", is_flag=True, help="Take the real part of complex matrices, which are refused otherwise."
)
seed = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    help="Random seed of generated values, those of x and of patterns included.",
)

# For commands that take programs as formats.
program = click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="FILE",
    help="A program of your own beside the formats, see spmvbench program: ./libmine.so[tile=8], or a Python file. "
    "Repeatable.",
)


def gathered(name: str, made: Callable[[dict[str, Any]], Any], *parameters: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that gives a command these options as one parameter.

    made: takes their values out of all values, and returns that of the parameter.
    """

    def decorator(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_one(**values: Any) -> Any:
            return command(**{name: made(values)}, **values)

        for parameter in reversed(parameters):
            with_one = parameter(with_one)
        return with_one

    return decorator


class Checked(ParamType):
    """A value that is checked: a UsageError of the check becomes an error of the option.

    name: in the help. check: gets the module `runner.arguments`, the option's name, and the value.
    """

    def __init__(self, name: str, check: Callable[[Any, str, Any], Any]):
        self.name, self.check = name, check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What the check returns."""
        from spmvbench.runner import arguments

        try:
            return self.check(arguments, (param and param.name) or "it", value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def words(*known: str) -> Checked:
    """Comma-separated words without repeats, in the order given. known: the allowed words; none: any."""
    return Checked("list", lambda checks, _, value: checks.words(value, known))


def number(low: float, high: float = float("inf")) -> Checked:
    """A finite number from `low` to `high`."""
    return Checked("number", lambda checks, name, value: checks.number(name, value, low, high))


def _percent(value: Any) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", str(value).strip())
    if not match or float(match[1]) > 1000:
        raise UsageError(f"{value!r} is not a percentage from 0 to 1000: write 5 or 5%")
    return float(match[1]) / 100


SIZE = Checked("size", lambda checks, _, value: checks.size(value))  # with or without a decimal unit: 500MB, 2GB
SECONDS = Checked("seconds", lambda checks, _, value: checks.seconds(value))
PERCENT = Checked("percent", lambda _, __, value: _percent(value))  # with or without the sign, as a fraction
