"""The tables of stand-ins in docs/matrices.md: how far bytes and times on them are from those on their matrices.

Of the matrices of the collection that are at hand (`SPMVBENCH_MIRROR`, a folder) and have facts (`SPMVBENCH_FACTS`), up
to MOST entries. Bytes are estimates of the formats, which equal the bytes of their arrays. Times are of runs of one
GPU that hold stand-ins and their matrices.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from spmvbench import formats, paths
from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.stand_ins import ALL, INDEX, pairs
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr, Skip
from spmvbench.matrices import lookup, stand_ins, suitesparse
from spmvbench.matrices.sets import STAND_IN
from spmvbench.publishing import in_page
from spmvbench.rows import store

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
        kind = kind_of(about.kind)
        for cls, params in chosen:
            for facts, copy in copies.items():
                try:
                    ratio = cls.estimate(copy, **params) / cls.estimate(real, **params)
                except Skip:
                    continue
                yield kind, name, formats.label(cls, params), facts, ratio


def kind_of(kind: str) -> str:
    """The first of KINDS in a kind of the index."""
    return next(word for word in KINDS if word in kind) or "other"


def times(runs: Sequence[Path]) -> pd.DataFrame:
    """As `deviations`, of hot times in double precision in the rows of runs."""
    rows = latest_cases(store.load_all(runs))
    found = pairs(rows[(rows["dtype"] == "f64") & (rows["mode"] == "hot")], STAND_IN)
    known = rows.drop_duplicates("matrix").set_index("matrix")["kind"]
    names = {"stands_for": "matrix", "time": "ratio"}
    return found.assign(kind=found["stands_for"].map(known).map(kind_of)).rename(columns=names)


def table(found: pd.DataFrame) -> str:
    """The table in Markdown: matrices, and for both kinds of facts the median and p90 of the deviation, by kind."""
    off = found.assign(off=np.exp(np.log(found["ratio"]).abs()) - 1)
    head = ["Kind of problem", "Matrices", "With row lengths: median", "p90", "Index alone: median", "p90 "]
    lines = []
    for kind, part in [("all", off), *off.groupby("kind", sort=True)]:
        cells = [str(kind), str(part["matrix"].nunique())]
        for facts in (ALL, INDEX):
            of = part.loc[part["facts"] == facts, "off"]
            cells += [f"{100 * of.median():.1f} %", f"{100 * of.quantile(0.9):.0f} %"] if len(of) else ["-", "-"]
        lines.append(cells)
    return in_page.markdown(head, lines, head[1:])


def _made(given: argparse.Namespace) -> dict[str, str]:
    made = {"": table(deviations(given.most))} if given.most else {}
    return made | ({"times": table(times(given.runs))} if given.runs else {})


main = in_page.command(
    _made,
    ("most", {"type": int, "help": "entries of the largest matrix; 0 leaves the table of bytes as it is"}),
    ("runs", {"type": Path, "nargs": "*", "help": "runs of one GPU with stand-ins and matrices"}),
)
