"""What each of some formats is best at: its rate beside the fastest of all, by the structure of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from spmvbench.analysis.cases import fewer_values, hot, of_one_operation, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.lessons import POWER_LAW

EVERY = "all"  # in place of a structure
NEAR = 0.95  # share of the fastest format's rate that counts as equal to it
DIAGONALS = 0.5  # share of the entries on full diagonals
BLOCKS = 2.0  # mean number of neighbouring columns
SCATTERED = 0.18  # sectors of x per entry, from which access to x counts as irregular
COLUMNS = ["setting", "label", "structure", "matrices", "held", "first", "near", "share"]


def structures(rows: pd.DataFrame) -> pd.Series:
    """The structure of each row's matrix in words, the first that fits; "other" if none does.

    "long rows": the longest row has POWER_LAW mean rows or more. "diagonals": half of the entries are on full
    diagonals. "scattered": SCATTERED sectors of x per entry or more. "blocks": BLOCKS neighbouring columns or more.
    """
    found = pd.Series("other", rows.index)
    for name, fits in (
        ("blocks", rows["contiguous_run_mean"] >= BLOCKS),
        ("scattered", rows["x_sectors"] >= SCATTERED),
        ("diagonals", rows["full_diagonal_share"] >= DIAGONALS),
        ("long rows", rows["row_len_max"] >= POWER_LAW * rows["row_len_mean"]),
    ):
        found = found.mask(fits, name)
    return found


def strengths(rows: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """One row for each setting, label and structure, and one with EVERY for all matrices, which comes first.

    rows: as `latest_cases`. Only verified hot rows of formats that store every value count. Columns: setting; label;
    structure; matrices: of the structure, that any format holds; held: by the label; first: matrices on which it is
    the fastest of `labels`; near: on which it has NEAR of the rate of the fastest of all or more; share: geometric mean
    of its rate over that of the fastest of all, on the matrices that it holds, NaN if there are none.
    """
    rows = verified(hot(of_one_operation(rows)))
    rows = rows[~fewer_values(rows) & (rows["gflops"] > 0)]
    rows = rows.assign(structure=structures(rows))
    case = ["setting", "matrix"]
    rows = rows.assign(share=rows["gflops"] / rows.groupby(case, observed=True)["gflops"].transform("max"))
    some = rows[rows["label"].isin(labels)]
    top = some.groupby(case, observed=True)["gflops"].transform("max")
    some = some.assign(first=some["gflops"] == top, near=some["share"] >= NEAR)
    found = []
    for setting, part in rows.groupby("setting", observed=True):
        known = part.drop_duplicates("matrix").set_index("matrix")["structure"]
        for label in labels:
            mine = some[(some["setting"] == setting) & (some["label"] == label)]
            for structure in (EVERY, *sorted(known.unique())):
                cases = mine if structure == EVERY else mine[mine["structure"] == structure]
                matrices = len(known) if structure == EVERY else int((known == structure).sum())
                share = geometric_mean(cases["share"]) if len(cases) else float("nan")
                counts = len(cases), int(cases["first"].sum()), int(cases["near"].sum())
                found.append((str(setting), label, structure, matrices, *counts, share))
    return pd.DataFrame(found, columns=COLUMNS)
