"""Types of options: lists of known words, sizes in bytes, lengths of time; and the option that finds runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from spmvbench.errors import UsageError

# Of the commands that write one file, by `paths.output`: as it is typed, for "./-" is a file and "-" is none.
OUTPUT = click.Path(dir_okay=False, allow_dash=True)
# Of the commands that read runs.
results = click.option("--results", default="results", show_default=True, metavar="DIR", help="Where runs lie.")


def _checked(
    kind: click.ParamType,
    check: Callable[..., Any],
    *values: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    """What a check of `bench.options` returns; its sentence with the name of the option before it."""
    try:
        return check(*values)
    except UsageError as error:
        kind.fail(str(error), param, ctx)


class Words(click.ParamType):
    """Words of a known few, or any where none are named, separated by commas; without repeats, in the order given."""

    name = "list"

    def __init__(self, *known: str):
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The words of a list, each of them known."""
        from spmvbench.runner import options

        return _checked(self, options.words, value, self.known, param=param, ctx=ctx)


class Bytes(click.ParamType):
    """A count of bytes, with a decimal unit if wanted: 500MB, 2GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        from spmvbench.runner import options

        return _checked(self, options.size, value, param=param, ctx=ctx)


class Seconds(click.ParamType):
    """A length of time, above 0 and below a fortnight."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        from spmvbench.runner import options

        return _checked(self, options.seconds, value, param=param, ctx=ctx)


class Percent(click.ParamType):
    """A share in per cent, with or without the sign; as a share, 0.05 for 5 %."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share, as a number of which 1 is all."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", str(value).strip())
        if not match or float(match[1]) > 1000:
            self.fail(f"{value!r} is no share in per cent from 0 to 1000: write 5 or 5%", param, ctx)
        return float(match[1]) / 100
