"""Labels that are several names of one program, on one matrix (column `program`) or in a whole table.

One name represents a program, always the same one. In this order: no experiment; not declared another's name
(`alias_of`); default parameters; the shortest label; the fewest parameters; the first in the alphabet. As a rule that
is the plainest format: ell, not hyb if its rule leaves no second part.
"""

from __future__ import annotations

import pandas as pd

_CASE = ["setting", "matrix"]


def same_as(rows: pd.DataFrame) -> pd.Series:
    """For each row the label that represents its program on its matrix and setting; "" if the row's label does.

    Verified rows come first in that choice. A row without `program` (written by an older version) is another name only
    if the label in its `alias_of` is in the table too. A table without both columns has no aliases.
    rows: as `cases.latest_cases`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return pd.Series("", rows.index, dtype=object)
    order = plainest_first(rows)
    order = order[order["program"] != ""]
    order = order.iloc[(order["status"] != "ok").to_numpy().argsort(kind="stable")]
    first = order.groupby([*_CASE, "program"], observed=True)["label"].transform("first").reindex(rows.index)
    there = pd.MultiIndex.from_frame(rows[[*_CASE, "label"]].astype(str))
    declared = pd.MultiIndex.from_frame(rows[[*_CASE, "alias_of"]].astype(str)).isin(there)
    return first.where(first != rows["label"]).fillna(rows["alias_of"].where(declared, ""))


def aliases(rows: pd.DataFrame) -> dict[str, str]:
    """Labels that are another's name everywhere in the table, with the label that represents both.

    A label is an alias if it says so itself (`alias_of`, if that label is in the table), or if it is verified on the
    same matrices and settings as another label and runs the same program on all of them. rows: as `same_as`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return {}
    order = plainest_first(rows)
    labels = set(order["label"])
    names = {row.label: row.alias_of for row in order.drop_duplicates("label").itertuples() if row.alias_of in labels}
    first: dict[frozenset[tuple[object, ...]], str] = {}
    for label, part in order[order["status"] == "ok"].groupby("label", sort=False):
        if (part["program"] != "").all():
            cases = frozenset(zip(part["setting"], part["matrix"], part["program"], strict=True))
            if first.setdefault(cases, label) != label:
                names.setdefault(label, first[cases])
    return names


def without_aliases(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of `aliases`."""
    return rows[~rows["label"].isin(aliases(rows))]


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """How often a label is another's name: columns label, same_as, matrices, cases, of, share; by falling share.

    cases: pairs of matrix and setting on which the label runs the same program as `same_as`; matrices: distinct
    matrices of these; of: verified cases of the label whose program is known; share: cases / of, 0 to 1.
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
    """Distinct programs per matrix: columns setting, matrices, names, fewest, median, most.

    names: median number of labels that are verified on a matrix and whose program is known; fewest, median, most: of
    the number of distinct programs among these.
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


def plainest_first(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, ordered by the preference of their label as representative of a program."""
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
