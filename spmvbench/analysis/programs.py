"""Labels that are several names of one program, on one matrix (column `program`) or in a whole table.

One name represents a program, always the same one. In this order: no experiment; not declared another's name
(`alias_of`); default parameters; the shortest label; the fewest parameters; the first in the alphabet. As a rule that
is the plainest format: ell, not hyb if its rule leaves no second part.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import kept

_CASE = ["setting", "matrix"]
_NAMING = (*_CASE, "label", "format", "params", "alias_of", "experiment", "status", "program")


def same_as(rows: pd.DataFrame) -> pd.Series:
    """For each row the label that represents its program on its matrix and setting; "" if the row's label does.

    Verified rows come first in that choice. A row without `program` (written by an older version) is another name only
    if the label in its `alias_of` is in the table too. A table without both columns has no aliases.
    rows: as `cases.latest_cases`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return pd.Series("", rows.index, dtype=object)
    order = plainest_first(rows.filter(items=_NAMING))
    order = order[order["program"] != ""]
    order = order.iloc[(order["status"] != "ok").to_numpy().argsort(kind="stable")]
    first = order.groupby([*_CASE, "program"], observed=True)["label"].transform("first").reindex(rows.index)
    declared = rows.loc[rows["alias_of"] != "", [*_CASE, "alias_of"]]
    there = rows.loc[rows["label"].isin(declared["alias_of"].unique()), [*_CASE, "label"]]
    known = pd.MultiIndex.from_frame(declared.astype(str)).isin(pd.MultiIndex.from_frame(there.astype(str)))
    named = declared.loc[known, "alias_of"].reindex(rows.index)
    return first.where(first != rows["label"]).fillna(named).fillna("")


def aliases(rows: pd.DataFrame) -> dict[str, str]:
    """Labels that are another's name everywhere in the table, with the label that represents both.

    A label is an alias if it says so itself (`alias_of`, if that label is in the table), or if it is verified on the
    same matrices and settings as another label and runs the same program on all of them. rows: as `same_as`.
    """
    if not {"program", "alias_of"} <= set(rows):
        return {}
    order = plainest_first(rows.filter(items=_NAMING))
    labels = set(order["label"].unique())
    names = {row.label: row.alias_of for row in order.drop_duplicates("label").itertuples() if row.alias_of in labels}
    first: dict[bytes, str] = {}
    right = order[order["status"] == "ok"]
    unknown = set(right.loc[right["program"] == "", "label"])
    numbers = right.groupby([*_CASE, "program"], sort=False, observed=True).ngroup()
    for label, part in numbers.groupby(right["label"], sort=False):
        if label not in unknown:
            cases = np.unique(part).tobytes()
            if first.setdefault(cases, label) != label:
                names.setdefault(label, first[cases])
    return names


def without_aliases(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of `aliases`."""
    return kept(rows, ~rows["label"].isin(aliases(rows)))


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
    by = ["experiment", "alias_of", "label", "format", "params"]
    some = rows.reindex(columns=by, fill_value=False)
    numbers = some.groupby(by, sort=False, dropna=False).ngroup().to_numpy()
    few = some[~pd.Series(numbers).duplicated().to_numpy()]
    rank = pd.DataFrame(
        {
            "experiment": few["experiment"].to_numpy(),
            "declared": (few["alias_of"] != "").to_numpy(),
            "settings": (few["label"] != few["format"]).to_numpy(),
            "length": few["label"].str.len().to_numpy(),
            "parameters": few["params"].str.count('":').to_numpy(),
            "label": few["label"].to_numpy(),
        }
    )
    ranks = rank.groupby(list(rank), dropna=False).ngroup().to_numpy()  # equal for what differs in params alone
    return rows.iloc[ranks[numbers].argsort(kind="stable")]
