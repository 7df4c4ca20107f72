"""The list in docs/operator.md of the formats whose kernels multiply padding.

``python -m spmvbench.publishing.padding --page docs/operator.md`` writes it between two comments.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmvbench import formats
from spmvbench.publishing import in_page

MODULE = "spmvbench.publishing.padding"


def markdown() -> str:
    """The keys, by `Format.multiplies_padding`."""
    return ", ".join(f"`{cls.key}`" for cls in map(formats.get, formats.keys()) if cls.multiplies_padding) + "."


def main(given: Sequence[str] | None = None) -> None:
    """Print the list, or write it into a page."""
    in_page.put(in_page.parser(MODULE, __doc__).parse_args(given).page, markdown(), MODULE)


if __name__ == "__main__":
    main()
