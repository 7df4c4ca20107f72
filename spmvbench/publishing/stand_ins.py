"""The table of stand-ins in docs/matrices.md: how far bytes on them are from those on their matrices, by kind.

``SPMVBENCH_FACTS=RUN python -m spmvbench.publishing.stand_ins MOST --page docs/matrices.md`` takes the matrices of the
collection that are at hand (`SPMVBENCH_MIRROR`, a folder) and have facts, up to MOST entries, and writes the table into
the page, between two comments. Bytes are estimates of the formats, which equal the bytes of their arrays.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd

from spmvbench import formats, paths
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr, Skip
from spmvbench.matrices import lookup, stand_ins, suitesparse
from spmvbench.publishing import in_page

# Of the kinds of the index, the words that distinguish what stand-ins make of them; the first that fits counts.
KINDS = ("undirected", "directed", "circuit", "linear programming", "structural", "fluid", "2D/3D", "")


def deviations(most: int) -> pd.DataFrame:
    """Columns kind, matrix, label, facts (all, or index alone) and ratio of bytes on the stand-in to the matrix's."""
    chosen = formats.parse(",".join((paths.configs() / "collection.txt").read_text(encoding="ascii").split()))
    return pd.DataFrame(_ratios(most, chosen), columns=["kind", "matrix", "label", "facts", "ratio"])


def _ratios(most: int, chosen: list[tuple[type[formats.Format], dict[str, object]]]) -> Iterator[tuple[object, ...]]:
    for name, about in sorted(stand_ins.known().items()):
        group, _, one = name.partition("/")
        if not suitesparse.at_hand(group, one) or not 0 < about.entries <= most:
            continue
        try:
            real = Csr.of(lookup.load(name))
            copies = {
                facts: Csr.of(lookup.load(f"like:{name}{end}")) for facts, end in (("all", ""), ("index", ":index"))
            }
        except SpmvbenchError as error:
            print(f"left out {name}: {error}")
            continue
        if (real.rows, real.nnz) != (about.rows, about.entries):
            continue  # explicit zeros count differently
        kind = next(word for word in KINDS if word in about.kind) or "other"
        for cls, params in chosen:
            for facts, copy in copies.items():
                try:
                    ratio = cls.estimate(copy, **params) / cls.estimate(real, **params)
                except Skip:
                    continue
                yield kind, name, formats.label(cls, params), facts, ratio


def table(found: pd.DataFrame) -> str:
    """The table in Markdown: matrices, cases, and for both kinds of facts the median and p90 of the deviation."""
    off = found.assign(off=np.exp(np.log(found["ratio"]).abs()) - 1)
    head = ["Kind of problem", "Matrices", "With row lengths: median", "p90", "Index alone: median", "p90 "]
    lines = []
    for kind, part in [("all", off), *off.groupby("kind", sort=True)]:
        cells = [str(kind), str(part["matrix"].nunique())]
        for facts in ("all", "index"):
            of = part.loc[part["facts"] == facts, "off"]
            cells += [f"{100 * of.median():.1f} %", f"{100 * of.quantile(0.9):.0f} %"]
        lines.append(cells)
    return in_page.markdown(head, lines, head[1:])


MOST: in_page.Argument = ("most", {"type": int, "help": "entries of the largest matrix"})


def _made(given: argparse.Namespace) -> str:
    return table(deviations(given.most))


main = in_page.command("stand_ins", __doc__, _made, MOST)

if __name__ == "__main__":
    main()
