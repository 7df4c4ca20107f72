"""The tables of docs/results/irregular.md: `irregular` beside others, of h200-irregular, h200-headline and REAL."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from spmvbench.analysis.cases import fewer_values, hot, latest_cases, natural_products, verified
from spmvbench.publishing import in_page
from spmvbench.rows import store

FORMATS = (
    "irregular", "column-sweep", "hub-cache", "csr5-hub", "csr5", "csr-merge-tiles", "sell-local", "dasp",
    "cusparse-csr-alg1",
)  # fmt: skip
VENDOR = "cusparse-csr-alg1"
REAL = ("h200-real", "h200-suitesparse")  # runs with real matrices
MANY_NNZ = 100_000  # of the real matrices that the page compares
LEAST_NNZ = 300_000  # of those in the table of the rule
GENERATED = "synthetic/"  # group of generated matrices
OF_ALL = ("uniform:1048576:12", "rmat:20:16")  # of h200-headline, those with irregular access to x


def rows_of(folder: Path, run: str) -> pd.DataFrame:
    """The verified hot rows of y = A x of a run."""
    return timed(latest_cases(store.load(folder / run)))


def timed(rows: pd.DataFrame) -> pd.DataFrame:
    """The verified hot rows of y = A x."""
    return verified(hot(natural_products(rows)))


def real_matrices(folder: Path) -> pd.DataFrame:
    """The rows of the real matrices that the page compares, those of failed and skipped cases too."""
    rows = latest_cases(store.load_all([folder / run for run in REAL]))
    return rows[~rows["matrix"].str.startswith(GENERATED) & (rows["nnz"] >= MANY_NNZ)]


def of_every_value(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that store every value, without `auto`: its program is that of the format which it chose."""
    return rows[~fewer_values(rows) & (rows["format"] != "auto")]


def gflops(rows: pd.DataFrame) -> pd.DataFrame:
    """GFLOPS: one row for each matrix and type, the generated and large ones first; one column for each label."""
    cases = rows[["matrix", "dtype", "nnz"]].drop_duplicates()
    cases = cases.assign(real=~cases["matrix"].str.startswith(GENERATED), single=cases["dtype"] == "f32")
    cases = cases.sort_values(["real", "nnz", "matrix", "single"], ascending=[True, False, True, True])
    table = rows.pivot_table(index=["matrix", "dtype"], columns="label", values="gflops", observed=True)
    return table.reindex(pd.MultiIndex.from_frame(cases[["matrix", "dtype"]]))


def comparison(rows: pd.DataFrame) -> str:
    """One row for each matrix, one column for each of FORMATS: GFLOPS in double and in single precision."""
    found = gflops(rows)
    lines = []
    for matrix in dict.fromkeys(found.index.get_level_values("matrix")):
        cells = (f"{found[label][matrix, 'f64']:.0f} / {found[label][matrix, 'f32']:.0f}" for label in FORMATS)
        lines.append([matrix.removeprefix(GENERATED), *cells])
    return in_page.markdown(("GFLOPS, f64 / f32", *FORMATS), lines)


def rule(rows: pd.DataFrame) -> str:
    """What the rule chooses for each matrix and type, and the best of all labels in the rows there.

    If that is the chosen format, `irregular` has the same program and the same time: the chosen format is named.
    """
    head = "GFLOPS", "entries", "chosen", "irregular", VENDOR, "best of all", ""
    lines = []
    chosen = rows[rows["label"] == "irregular"].set_index(["matrix", "dtype"])
    found = gflops(rows)
    for case, values in found.iterrows():
        choice = json.loads(chosen["detail"][case])["chosen"]
        best = choice if values.get(choice) == values.max() else str(values.idxmax())
        cells = f"{chosen['nnz'][case] / 1e6:.3g} M", choice
        numbers = (f"{values[label]:.0f}" for label in ("irregular", VENDOR, best))
        name = ", ".join(case).removeprefix(GENERATED)
        lines.append([name, *cells, *numbers, best])
    return in_page.markdown(head, lines)


def _tables(folder: Path) -> dict[str, str]:
    generated, real = rows_of(folder, "h200-headline"), timed(real_matrices(folder))
    of_all = [generated[generated["name"].isin(OF_ALL)], real[real["nnz"] >= LEAST_NNZ]]
    return {
        "comparison": comparison(rows_of(folder, "h200-irregular")),
        "rule": rule(of_every_value(pd.concat(of_all, ignore_index=True))),
    }


main = in_page.command(lambda given: _tables(given.folder), in_page.FOLDER)
