"""The tables of docs/results/vectors.md: Y = A X of several vectors, beside libraries and products of one vector."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import hot, latest_cases
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.several_vectors import beside_libraries, several_by_format, several_vectors
from spmvbench.matrices.sets import get, short_name
from spmvbench.publishing import in_page
from spmvbench.rows import store

SET = "applications"
OF_SET = f"set `{SET}`"
MEANS = (OF_SET, "real matrices")  # matrices of which tables have means; all others have columns
SLOW = 0.97  # a format below this share of the fastest other way is in the table of slower cases


def beside(table: pd.DataFrame) -> str:
    """By type and k: how many times as fast as the fastest library, and the share of the bound; `beside_libraries`.

    A column for each matrix of no group, and the geometric means over each group.
    """
    table, alone = _grouped(table)
    means = [group for group in MEANS if group in set(table["group"])]
    heads = [*map(str, alone), *(head for group in means for head in (f"{group}: mean, matrices", "least"))]
    lines = []
    for (dtype, k), part in table.groupby(["dtype", "k"]):
        cells = {row["name"]: f"{row['times']:.2f} ({row['share']:.2f})" for row in part.to_dict("records")}
        line = [f"{dtype}, {k}", *(cells.get(name, "") for name in alone)]
        for group in means:
            inside = part[part["group"] == group]
            if inside.empty:
                line += ["", ""]
                continue
            least = inside.loc[inside["times"].idxmin()]
            mean, share = geometric_mean(inside["times"]), geometric_mean(inside["share"])
            line += [f"{mean:.2f} ({share:.2f}), {len(inside)}", f"{least['times']:.2f}, {least['name']}"]
        lines.append(line)
    return in_page.markdown(("Type, vectors", *heads), lines, {head for head in heads if head != "least"})


def fastest(table: pd.DataFrame) -> str:
    """The fastest format and library by type and k on the matrices of no group, with times in microseconds."""
    found = _grouped(table)[0].query("group == ''").sort_values(["name", "dtype", "k"])
    cells = {
        "Matrix": "{name}",
        "type": "{dtype}",
        "vectors": "{k}",
        "format": "`{label}`",
        "us": "{us:.1f}",
        "bound": "{share:.2f} of {bound_by}",
        "library": "`{library}`, by {library_layout}s",
        "its us": "{its:.1f}",
        "times as fast": "{times:.2f}",
        "over single products": "{alone:.2f}",
    }
    found = found.assign(us=1e6 * found["seconds"], its=1e6 * found["seconds"] * found["times"])
    return in_page.listed(found, cells, {"vectors", "us", "its us", "times as fast", "over single products"})


def slower(table: pd.DataFrame) -> str:
    """The cases in which a library, or as many products of one vector, is faster than every format."""
    table, _ = _grouped(table)
    best = table[["times", "alone"]].min(axis=1)
    found = table.assign(best=best)[best < SLOW].sort_values("best")
    cells = {
        "Matrix": "{name}",
        "million entries": "{millions:.2f}",
        "type": "{dtype}",
        "vectors": "{k}",
        "format": "`{label}`",
        "its speed": "{times:.2f} of `{library}`",
        "of single products": "{alone:.2f}",
    }
    told = f"{len(found)} of {len(table)} cases are below {SLOW}."
    listed = in_page.listed(found.assign(millions=found["nnz"] / 1e6), cells, [*cells][1:4:2] + [*cells][-1:])
    return told if found.empty else f"{told}\n\n{listed}"


def pays(rows: pd.DataFrame) -> str:
    """By format: the speed-up over k products of one vector, and the k from which on a product of many pays."""
    table = several_vectors(rows)
    table = table[(table["layout"] == "row") & table["setting"].str.startswith("f64")]
    table, outside = _grouped(table)
    found = several_by_format(table[table["group"] == OF_SET]).set_index(["label", "k"])
    if found.empty:
        return "No format is measured for one vector and for several."
    speedup = found["speedup"].unstack("k")
    of_matrix = {name: several_by_format(table[table["name"] == name]).set_index("label") for name in outside}
    least = {f"pays from: {OF_SET}": found.reset_index("k")} | of_matrix
    speedup = speedup.sort_values(speedup.columns[-1], ascending=False).add_prefix("k = ")
    for head, by_label in least.items():
        counts = by_label["pays_from"].groupby("label").first().reindex(speedup.index)
        speedup[head] = counts.map(lambda k: "" if np.isnan(k) else "never" if np.isinf(k) else f"{k:g}")
    return in_page.frame(speedup.rename("`{}`".format).rename_axis("Format"))


def _grouped(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table with the columns name and group, empty if none, and the names of no group."""
    names, made = table["matrix"].map(short_name), table["matrix"].str.startswith("synthetic/")
    groups = np.select([~made, names.isin(get(SET).matrices)], [*MEANS[::-1]], "")
    table = table.assign(name=names, group=groups)
    return table, sorted(set(table.loc[table["group"] == "", "name"]))


def tables(rows: pd.DataFrame) -> dict[str, str]:
    """The tables by their names on the page. rows: as they are stored."""
    cases = hot(latest_cases(rows))
    table = beside_libraries(cases)
    return {"beside": beside(table), "fastest": fastest(table), "slower": slower(table), "pays": pays(cases)}


main = in_page.command(lambda given: tables(store.load_all(given.runs)), in_page.RUNS)
