"""Types of options: lists of words, finite numbers, sizes in bytes, seconds, per cent; and the option `--results`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spmvbench.errors import UsageError

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic from click 8.4 on only

Value = TypeVar("Value")

# For commands that write one file (`paths.output`). Not normalized: "./-" is a file, "-" is standard output.
OUTPUT = click.Path(dir_okay=False, allow_dash=True)
# For commands that read runs.
results = click.option("--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs.")

# For commands that take programs as formats.
program = click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="FILE",
    help="A program of your own beside the formats, see spmvbench program: ./libmine.so[tile=8], or a Python file. "
    "Repeatable.",
)


def _checked(
    kind: ParamType,
    check: Callable[[], Value],
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Value:
    """The value that a check of `runner.arguments` returns; its UsageError becomes an error of the option."""
    try:
        return check()
    except UsageError as error:
        kind.fail(str(error), param, ctx)


class Words(ParamType):
    """Comma-separated words without repeats, in the order given. known: the allowed words; none: any."""

    name = "list"

    def __init__(self, *known: str):
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The words of a list. Fails for an unknown one."""
        from spmvbench.runner import arguments

        return _checked(self, lambda: arguments.words(value, self.known), param, ctx)


class Bytes(ParamType):
    """A number of bytes, optionally with a decimal unit: 500MB, 2GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        from spmvbench.runner import arguments

        return _checked(self, lambda: arguments.size(value), param, ctx)


class Number(ParamType):
    """A finite number from `low` to `high`."""

    name = "number"

    def __init__(self, low: float, high: float = float("inf")):
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        from spmvbench.runner import arguments

        return _checked(
            self, lambda: arguments.number(param.name or "" if param else "it", value, self.low, self.high), param, ctx
        )


class Seconds(ParamType):
    """A number of seconds, above 0 and below two weeks."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        from spmvbench.runner import arguments

        return _checked(self, lambda: arguments.seconds(value), param, ctx)


class Percent(ParamType):
    """A percentage, with or without the sign, as a fraction: 0.05 for 5 %."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The percentage as a fraction."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", str(value).strip())
        if not match or float(match[1]) > 1000:
            self.fail(f"{value!r} is not a percentage from 0 to 1000: write 5 or 5%", param, ctx)
        return float(match[1]) / 100
