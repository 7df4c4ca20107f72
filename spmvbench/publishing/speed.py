"""The tables of docs/results/speed.md: the best public program and the best format for each matrix and type, and what
was tried, from rows and configs/published/speed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from spmvbench import paths
from spmvbench.analysis.cases import fewer_values
from spmvbench.publishing import in_page
from spmvbench.rows import store

AIMS = {"f64": 1.5, "f32": 1.75}  # times the best public program
BOUND_SHARE = 0.95  # of the bound, that counts as much as the aim
PARTLY_TIMED = "-once"  # suffix of programs that are timed as their authors do, who leave work out
COLUMNS = (
    "matrix", "dtype", "public", "program", "gflops", "label", "ratio", "target", "bound", "share", "compressed",
)  # fmt: skip

HEAD = (
    "matrix", "type", "best public program", "its GFLOPS", "best format", "GFLOPS", "ratio", "target", "bound",
    "of bound", "values compressed",
)  # fmt: skip
NUMBERS = {"its GFLOPS", *HEAD[5:]}
SHORT = HEAD.index("target")


def folder() -> Path:
    """The folder of the public programs' times and of the targets."""
    return paths.configs() / "published" / "speed"


def public() -> pd.DataFrame:
    """The best public program for each matrix and type: index matrix and dtype, columns program and public (GFLOPS).

    Only programs whose y was verified in that case, and that do all of the work in every product.
    """
    rows = pd.read_csv(folder() / "public.csv").rename(columns={"type": "dtype", "gflops": "public"})
    rows = rows[(rows["verdict"] == "ok") & ~rows["program"].str.endswith(PARTLY_TIMED)]
    best = rows.loc[rows.groupby(["matrix", "dtype"])["public"].idxmax()]
    return best.set_index(["matrix", "dtype"])[["program", "public"]]


def targets() -> pd.Series:
    """The targets in GFLOPS by matrix and dtype, in the order of the table."""
    rows = pd.read_csv(folder() / "targets.csv").melt("matrix", ["f64", "f32"], "dtype", "target")
    return rows.set_index(["matrix", "dtype"])["target"]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each matrix and type, columns COLUMNS; NaN where nothing was measured.

    rows: of runs. Verified hot rows of y = A x count, in the matrix's own order, without vendors' libraries and `auto`.
    gflops, label, bound: of the fastest format that stores every value; share: gflops over bound. compressed: GFLOPS of
    the fastest that stores fewer.
    """
    rows = rows[
        (rows["status"] == "ok")
        & (rows["op"] == "spmv")
        & (rows["mode"] == "hot")
        & rows["order"].isin(["", "none"])
        & ~rows["experiment"].astype(bool)
        & ~rows["format"].str.startswith("cusparse")
        & (rows["format"] != "auto")  # its program is that of the format which it chose
    ].rename(columns={"name": "matrix", "bound_gflops": "bound"})
    fewer = fewer_values(rows)
    key = ["matrix", "dtype"]
    best = _fastest(rows[~fewer], key)[["gflops", "label", "bound"]]
    compressed = _fastest(rows[fewer], key)["gflops"].rename("compressed")
    found = pd.concat([targets(), public(), best, compressed], axis=1).reindex(targets().index)
    found["ratio"] = found["gflops"] / found["public"]
    found["share"] = found["gflops"] / found["bound"]
    return found.reset_index()[list(COLUMNS)]


def _fastest(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    return rows.loc[rows.groupby(key, observed=True)["gflops"].idxmax()].set_index(key)


def markdown(found: pd.DataFrame, *, short: bool = False) -> str:
    """The table for the page; rates, ratios and shares that reach their aim are bold. short: without aims and bold."""
    lines = []
    for row in found.to_dict("records"):
        cells = [
            row["matrix"].partition(":1048576:24")[0],
            row["dtype"],
            row["program"],
            in_page.number(row["public"], 0),
            f"`{row['label']}`" if isinstance(row["label"], str) else "",
            _aimed(np.round(row["gflops"]), row["target"], 0),
            _aimed(row["ratio"], AIMS[row["dtype"]]),
            in_page.number(row["target"], 0),
            in_page.number(row["bound"], 0),
            _aimed(row["share"], BOUND_SHARE),
            in_page.number(row["compressed"], 0),
        ]
        lines.append([cell.strip("*") for cell in cells[:SHORT]] if short else cells)
    return in_page.markdown(HEAD[: SHORT if short else None], lines, NUMBERS)


def tried() -> str:
    """The table of changes to kernels that were measured and not taken."""
    rows = pd.read_csv(folder() / "tried.csv")
    cells = {name.capitalize(): f"{{{name}}}" for name in ("matrix", "type")}
    cells |= {"Format": "`{format}`", "Change": "{tried}", "GFLOPS": "{gflops}", "Without it": "{present}"}
    return in_page.listed(rows, cells, ("GFLOPS", "Without it"))


def _tables(runs: list[str], *, short: bool) -> str | dict[str, str]:
    of_rows = markdown(table(store.load_all(runs)), short=short)
    return of_rows if short else {"": of_rows, "tried": tried()}


def _aimed(value: float, aim: float, digits: int = 2) -> str:
    text = in_page.number(value, digits)
    return f"**{text}**" if value >= aim else text


main = in_page.command(
    lambda given: _tables(given.runs, short=given.short),
    in_page.RUNS,
    (
        "--short",
        {"action": "store_true", "help": "without targets, bounds, formats that compress values and what was tried"},
    ),
)
