"""Types of options: lists of known words, sizes in bytes, lengths of time; and the option that finds runs."""

from __future__ import annotations

import re
from typing import Any

import click

# Of the commands that read runs.
results = click.option("--results", default="results", show_default=True, metavar="DIR", help="Where runs lie.")


class Words(click.ParamType):
    """Words of a known few, or any where none are named, separated by commas; without repeats, in the order given."""

    name = "list"

    def __init__(self, *known: str):
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(dict.fromkeys(filter(None, (word.strip() for word in value.split(",")))))
        for word in words:
            if self.known and word not in self.known:
                self.fail(f"{word!r} is none of {', '.join(self.known)}", param, ctx)
        if not words:
            self.fail(f"give one or more of {', '.join(self.known)}" if self.known else "give one or more", param, ctx)
        return words


class Bytes(click.ParamType):
    """A count of bytes, with a decimal unit if wanted: 500MB, 2GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", str(value))
        count = float(match[1]) * 1000 ** " kMGT".index(match[2] or " ") if match else 0
        if not 1 <= count < 2**63:
            self.fail(f"{value!r} is no size: write 500MB or 2GB", param, ctx)
        return int(count)


class Seconds(click.ParamType):
    """A length of time, above 0 and below a fortnight."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0
        if not 0 < seconds < 1e6:
            self.fail(f"{value!r} is no number of seconds above 0", param, ctx)
        return seconds


class Percent(click.ParamType):
    """A share in per cent, with or without the sign; as a share, 0.05 for 5 %."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", str(value).strip())
        if not match or float(match[1]) > 1000:
            self.fail(f"{value!r} is no share in per cent from 0 to 1000: write 5 or 5%", param, ctx)
        return float(match[1]) / 100
