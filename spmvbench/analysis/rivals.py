"""GFLOPS of formats beside those that the authors' programs have on the same matrices and GPU."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import fewer_values, hot, of_one_operation, verified

BEST = "best of all"  # in place of a program: the fastest of all programs, beside the fastest format
COLUMNS = ["setting", "program", "title", "matrix", "label", "ours", "bound", "theirs", "ratio"]


def beside(rows: pd.DataFrame, programs: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting, program and matrix with a figure of both.

    rows: as `latest_cases`, of the GPU that `measured` is of. programs: program, title and the label that has the same
    storage; of several programs with one title the fastest on a matrix counts. measured: program, matrix (a name
    without its group), dtype and gflops; hot, y = A x.

    Columns: setting; program; title; matrix; label; ours, theirs: GFLOPS; bound: that of the format; ratio: ours /
    theirs. The program BEST is the fastest of all in `measured`; beside it is the fastest format that stores every
    value, without `auto`.
    """
    rows = verified(hot(of_one_operation(rows)))
    ours = rows[["setting", "dtype", "name", "label", "gflops", "bound_gflops", "compresses_values"]]
    ours = ours.rename(columns={"name": "matrix", "gflops": "ours", "bound_gflops": "bound"})
    theirs = measured.rename(columns={"gflops": "theirs"})
    same = programs.merge(theirs, on="program").merge(ours, on=["label", "dtype", "matrix"])
    same = same.loc[same.groupby(["title", "setting", "matrix"], observed=True)["theirs"].idxmax().sort_values()]
    chooses = ours["label"].str.split("[").str[0] == "auto"  # its program is that of the format which it chose
    whole = ours[~fewer_values(ours) & ~chooses]
    # Formats with one program have one time: the first row of them counts, in whatever order times are sorted.
    fastest = whole.loc[whole.groupby(["setting", "matrix"], observed=True)["ours"].idxmax()]
    top = theirs.groupby(["matrix", "dtype"], as_index=False)["theirs"].max()
    best = fastest.merge(top, on=["dtype", "matrix"]).assign(program=BEST, title=BEST.capitalize())
    found = pd.concat([best, same], ignore_index=True)
    return found.assign(ratio=found["ours"] / found["theirs"])[COLUMNS]
