"""Which labels are several names of one program: on one matrix, as the column `program` says, or in all of a table.

Of the names of a program one stands for it, the same wherever it is there: what is no experiment and not declared
another's name (`alias_of`), without settings; of those the shortest name, then the format with the fewest parameters,
then the first by the alphabet. As a rule that is the plainest: ell, not hyb whose rule leaves no second part.
"""

from __future__ import annotations

import pandas as pd

_CASE = ["setting", "matrix"]


def same_as(rows: pd.DataFrame) -> pd.Series:
    """For each row the label that stands for its program on its matrix in its setting; "" where that is its own.

    What is right stands for what is not. A row without `program` (from before it was) is another name only where the
    label of its `alias_of` is there too; a table without both columns has none. rows: as `cases.prepared`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return pd.Series("", rows.index, dtype=object)
    order = _plainest_first(rows)
    order = order[order["program"] != ""]
    order = order.iloc[(order["status"] != "ok").to_numpy().argsort(kind="stable")]
    first = order.groupby([*_CASE, "program"], observed=True)["label"].transform("first").reindex(rows.index)
    there = pd.MultiIndex.from_frame(rows[[*_CASE, "label"]].astype(str))
    declared = pd.MultiIndex.from_frame(rows[[*_CASE, "alias_of"]].astype(str)).isin(there)
    return first.where(first != rows["label"]).fillna(rows["alias_of"].where(declared, ""))


def other_names(rows: pd.DataFrame) -> dict[str, str]:
    """Labels that are another's name everywhere in the table, with the label that stands for both.

    So is one that says so itself (`alias_of`, where that label is there), and one that is right on the same matrices in
    the same settings as another, and one program with it on all of them. rows: as `same_as`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return {}
    order = _plainest_first(rows)
    labels = set(order["label"])
    names = {row.label: row.alias_of for row in order.drop_duplicates("label").itertuples() if row.alias_of in labels}
    first: dict[frozenset[tuple[object, ...]], str] = {}
    for label, part in order[order["status"] == "ok"].groupby("label", sort=False):
        if (part["program"] != "").all():
            cases = frozenset(zip(part["setting"], part["matrix"], part["program"], strict=True))
            if first.setdefault(cases, label) != label:
                names.setdefault(label, first[cases])
    return names


def named_once(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of `other_names`."""
    return rows[~rows["label"].isin(other_names(rows))]


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """How often a label is another's name: columns label, same_as, matrices, cases, of, share; share falling.

    cases: matrices in any setting on which the label runs the program that `same_as` stands for; matrices: those that
    differ; of: cases that it got right and of which the program is known; share: cases over these, 0 to 1.
    """
    known = rows[(rows["status"] == "ok") & (rows["program"] != "")]
    known = known.assign(same_as=same_as(known))
    every = known.groupby("label").size()
    groups = known[known["same_as"] != ""].groupby(["label", "same_as"])
    found = groups.agg(matrices=("matrix", "nunique"), cases=("matrix", "size")).reset_index()
    found = found.assign(of=found["label"].map(every).astype(int))
    found = found.assign(share=found["cases"] / found["of"])
    order = ["share", "same_as", "label"]
    return found.sort_values(order, ascending=[False, True, True], ignore_index=True)


def counts(rows: pd.DataFrame) -> pd.DataFrame:
    """How many programs the names are on a matrix: columns setting, matrices, names, fewest, median, most.

    names: median number of labels that are right on a matrix and tell their program; the others: of their programs.
    """
    known = rows[(rows["status"] == "ok") & (rows["program"] != "")]
    on = known.groupby(_CASE, observed=True).agg(names=("label", "nunique"), programs=("program", "nunique"))
    return (
        on.groupby("setting", observed=True)
        .agg(
            matrices=("names", "size"),
            names=("names", "median"),
            fewest=("programs", "min"),
            median=("programs", "median"),
            most=("programs", "max"),
        )
        .reset_index()
    )


def _plainest_first(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, those first whose label stands for a program before the others'."""
    rank = pd.DataFrame(
        {
            "experiment": rows.get("experiment", False),
            "declared": rows["alias_of"] != "",
            "settings": rows["label"] != rows["format"],
            "length": rows["label"].str.len(),
            "parameters": rows["params"].str.count('":'),
            "label": rows["label"],
        },
        rows.index,
    )
    return rows.loc[rank.sort_values(list(rank), kind="stable").index]
