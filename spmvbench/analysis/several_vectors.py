"""Y = A X of several vectors: rates over their number, and from how many on one product beats one for each vector."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import fewer_values, verified
from spmvbench.analysis.coverage import geometric_mean

COLUMNS = ["setting", "label", "matrix", "layout", "k", "seconds", "gflops", "speedup"]
LIBRARIES = "Libraries"  # family of the products of libraries that are programs
_SAME = ["matrix", "label", "dtype", "mode", "order", "device_name"]


def several_vectors(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each verified product of several vectors whose format is verified for one vector, too.

    rows: as `latest_cases`, of all operations. Columns: setting, of y = A x; label; matrix; layout; k, the number of
    vectors; seconds of the product; gflops; speedup, the time of k products of one vector over it.
    """
    rows = verified(rows)
    one = rows[rows["op"] == "spmv"][[*_SAME, "setting", "t_median"]].rename(columns={"t_median": "one"})
    several = rows[rows["k"] > 0][[*_SAME, "layout", "k", "t_median", "gflops"]].rename(columns={"t_median": "seconds"})
    found = several.merge(one, on=_SAME)
    found = found.assign(speedup=found["k"] * found["one"] / found["seconds"], setting=found["setting"].astype(str))
    return found[COLUMNS].sort_values(["setting", "label", "matrix", "layout", "k"], ignore_index=True)


def several_by_format(table: pd.DataFrame) -> pd.DataFrame:
    """`several_vectors` by setting, layout, k and label, the highest rate first.

    Columns: gflops, speedup: geometric means over the matrices; pays: share of the matrices on which one product is
    faster than k; pays_from: median over the matrices of the least k from which on this holds for all that were
    measured, infinite if never; matrices.
    """
    falling = table.sort_values("k", ascending=False)
    falling = falling.assign(faster=falling["speedup"] > 1)
    falling["all_faster"] = falling.groupby(["setting", "layout", "label", "matrix"])["faster"].cummin()
    least = falling[falling["all_faster"]].groupby(["setting", "layout", "label", "matrix"])["k"].min()
    cases = table.groupby(["setting", "layout", "label", "matrix"]).size().index
    least = least.reindex(cases).fillna(np.inf).groupby(["setting", "layout", "label"]).median().rename("pays_from")
    keys = ["setting", "layout", "k", "label"]
    groups = table.assign(faster=table["speedup"] > 1).groupby(keys)
    found = pd.DataFrame(
        {
            "gflops": groups["gflops"].agg(geometric_mean),
            "speedup": groups["speedup"].agg(geometric_mean),
            "pays": groups["faster"].mean(),
            "matrices": groups.size(),
        }
    )
    found = found.reset_index().merge(least.reset_index(), on=["setting", "layout", "label"])
    return found.sort_values([*keys[:3], "gflops"], ascending=[True, True, True, False], ignore_index=True)


def beside_libraries(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest format for several vectors by rows, beside the fastest of libraries in either layout.

    rows: as `latest_cases`, of all operations. One row for each matrix, type and number of vectors k of which there are
    both by rows: a library measured by columns alone may be faster. Columns: matrix; nnz; dtype; k; label, seconds,
    share (GFLOPS over the bound), bound_by of the format; library, its layout, times (its seconds over the format's);
    alone: the seconds of k products of one vector in the format that is the fastest for one, of those that store values
    as they are, over those of the format, NaN without such rows.
    """
    rows = verified(rows)
    key = ["matrix", "dtype", "k"]
    of_library = rows["format"].str.startswith("cusparse") | (rows["family"] == LIBRARIES)
    one = (
        rows[(rows["op"] == "spmv") & ~of_library & ~fewer_values(rows)]
        .groupby(key[:2])["t_median"]
        .min()
        .rename("one")
    )
    several = rows[(rows["k"] > 0) & rows["op"].str.startswith(("spmm@", "spmm-column@"))]
    of_library = of_library[several.index]
    by_rows = several["layout"] == "row"
    theirs = several[of_library]
    theirs = theirs[by_rows[of_library].groupby([theirs[name] for name in key], observed=True).transform("any")]
    library = _fastest(theirs, key)[["label", "layout", "t_median"]]
    library = library.set_axis(["library", "library_layout", "library_seconds"], axis=1)
    found = _fastest(several[~of_library & by_rows], key).rename(columns={"t_median": "seconds"})
    found = found.join(library, how="inner").reset_index().merge(one.reset_index(), on=key[:2], how="left")
    found["share"] = found["gflops"] / found["bound_gflops"]
    found["times"] = found["library_seconds"] / found["seconds"]
    found["alone"] = found["k"] * found["one"] / found["seconds"]
    columns = ["nnz", "label", "seconds", "share", "bound_by", "library", "library_layout", "times", "alone"]
    return found[[*key, *columns]]


def _fastest(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    return rows.loc[rows.groupby(key, observed=True)["t_median"].idxmin()].set_index(key)
