"""The tables of docs/results/vectors.md: Y = A X of several vectors, beside libraries and products of one vector.

``python -m spmvbench.publishing.vectors RUN... --page docs/results/vectors.md`` makes them from the rows of runs and
writes them into the page, between comments.
"""

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
    table, _ = _grouped(table)
    lines = [
        [
            row["name"],
            row["dtype"],
            str(row["k"]),
            f"`{row['label']}`",
            f"{1e6 * row['seconds']:.1f}",
            f"{row['share']:.2f} of {row['bound_by']}",
            f"`{row['library']}`, by {row['library_layout']}s",
            f"{1e6 * row['seconds'] * row['times']:.1f}",
            f"{row['times']:.2f}",
            in_page.number(row["alone"]),
        ]
        for row in table[table["group"] == ""].sort_values(["name", "dtype", "k"]).to_dict("records")
    ]
    head = (
        "Matrix",
        "type",
        "vectors",
        "format",
        "us",
        "bound",
        "library",
        "its us",
        "times as fast",
        "over single products",
    )
    return in_page.markdown(head, lines, {"vectors", "us", "its us", *head[8:]})


def slower(table: pd.DataFrame) -> str:
    """The cases in which a library, or as many products of one vector, is faster than every format."""
    table, _ = _grouped(table)
    best = table[["times", "alone"]].min(axis=1)
    found = table.assign(best=best)[best < SLOW].sort_values("best")
    lines = [
        [
            row["name"],
            f"{row['nnz'] / 1e6:.2f}",
            row["dtype"],
            str(row["k"]),
            f"`{row['label']}`",
            f"{row['times']:.2f} of `{row['library']}`",
            in_page.number(row["alone"]),
        ]
        for row in found.to_dict("records")
    ]
    head = ("Matrix", "million entries", "type", "vectors", "format", "its speed", "of single products")
    told = f"{len(found)} of {len(table)} cases are below {SLOW}."
    return told if found.empty else f"{told}\n\n" + in_page.markdown(head, lines, {head[1], head[3], head[6]})


def pays(rows: pd.DataFrame) -> str:
    """By format: the speed-up over k products of one vector, and the k from which on a product of many pays."""
    table = several_vectors(rows)
    table = table[(table["layout"] == "row") & table["setting"].str.startswith("f64")]
    table, outside = _grouped(table)
    found = several_by_format(table[table["group"] == OF_SET]).set_index(["label", "k"])
    if found.empty:
        return "No format is measured for one vector and for several."
    speedup = found["speedup"].unstack("k")
    least = found["pays_from"].groupby("label").first()
    of_matrix = {
        name: several_by_format(table[table["name"] == name]).groupby("label")["pays_from"].first() for name in outside
    }
    order = speedup.iloc[:, -1].sort_values(ascending=False).index
    lines = [
        [
            f"`{label}`",
            *map(in_page.number, speedup.loc[label]),
            _vectors(least[label]),
            *(_vectors(of_matrix[name].get(label, np.nan)) for name in outside),
        ]
        for label in order
    ]
    heads = [*(f"k = {k}" for k in speedup), f"pays from: {OF_SET}", *map(str, outside)]
    return in_page.markdown(("Format", *heads), lines, heads)


def _vectors(count: float) -> str:
    return "" if np.isnan(count) else "never" if np.isinf(count) else f"{count:g}"


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


main = in_page.command("vectors", __doc__, lambda given: tables(store.load_all(given.runs)), in_page.RUNS)

if __name__ == "__main__":
    main()
