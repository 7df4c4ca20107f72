"""Lists of the formats that a flag of `Format` marks, in docs/operator.md.

``python -m spmvbench.publishing.flags multiplies_padding --page docs/operator.md`` writes one between two comments.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmvbench import formats
from spmvbench.publishing import in_page

MODULE = "spmvbench.publishing.flags"
FLAGS = ("multiplies_padding", "values_decide")


def markdown(flag: str) -> str:
    """The keys of these formats."""
    return ", ".join(f"`{cls.key}`" for cls in map(formats.get, formats.keys()) if getattr(cls, flag)) + "."


def main(given: Sequence[str] | None = None) -> None:
    """Print a list, or write it into a page."""
    asked = in_page.parser(MODULE, __doc__)
    asked.add_argument("flag", choices=FLAGS)
    options = asked.parse_args(given)
    in_page.put(options.page, markdown(options.flag), f"{MODULE} {options.flag}")


if __name__ == "__main__":
    main()
