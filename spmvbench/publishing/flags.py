"""Lists of the formats that a flag of `Format` marks, in docs/operator.md."""

from __future__ import annotations

from spmvbench import formats
from spmvbench.publishing import in_page

FLAGS = ("multiplies_padding", "values_decide")


def markdown(flag: str) -> str:
    """The keys of these formats."""
    return ", ".join(f"`{cls.key}`" for cls in map(formats.get, formats.keys()) if getattr(cls, flag)) + "."


main = in_page.command(lambda given: {given.flag: markdown(given.flag)}, ("flag", {"choices": FLAGS}))
