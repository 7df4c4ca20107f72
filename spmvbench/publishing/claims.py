"""The tables of claims in docs/results/papers.md: what papers print, what the published runs measured, and verdicts."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.analysis import verdicts
from spmvbench.analysis.cases import authors, emulated, latest_cases
from spmvbench.analysis.older import changed
from spmvbench.errors import percent
from spmvbench.publishing import in_page
from spmvbench.reports import figures
from spmvbench.reports.figures import LeftOut, Options, claims
from spmvbench.reports.tables import NONE, number
from spmvbench.rows import store

CLAIM = ["paper", "over", "op", "dtype"]  # identifies a claim
HEAD = (
    "Paper", "Over", "Type", "Printed", "Measured", "Authors' kernel", "Why it differs", "Matrices", "Run",
    "Not at hand",
)  # fmt: skip
SUMS = ("Paper", "Kernels", *verdicts.VERDICTS)


def measured(rows: pd.DataFrame, card: str = "") -> pd.DataFrame:
    """As the data of the figure `claims`, of the rows of one run; empty if it has both formats of no claim.

    rows: as `store.load`. Hot rows count, of a GPU whose name contains `card`, and whose program is still that of their
    key. Two more columns: type (of the values, such as f64) and day, the last one on which the run measured.
    """
    rows = latest_cases(rows[rows["device_name"].str.contains(card, case=False, regex=False)])
    rows = rows[(rows["mode"] == "hot") & ~emulated(rows) & (changed(rows) == "")]
    if rows.empty:
        return pd.DataFrame()
    try:
        found = figures.table_of(claims.FIGURE, rows, Options(None, {}))
    except LeftOut:
        return pd.DataFrame()
    return found.assign(type=found["setting"].str.split().str[0], day=rows["started_at"].max())


def table(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row for each claim and kernel, in the order of `claims.claims`: its columns, those of `measured`, and run.

    runs: what `measured` gives, by the name of the run. Of several runs and types that have both formats of a claim,
    the one counts with the most rivals of those of which the fastest counts; then with the most kernels (this project's
    and the authors'), matrices of the paper, a stand-in as half a one, and matrices; then f64, and the newest.
    The columns of `measured` are NaN, and run is empty, for a claim without any.
    """
    every = [found.assign(run=name) for name, found in runs.items() if len(found)]
    asked = claims.claims()
    if not every:
        return asked.assign(run="")
    found = pd.concat(every, ignore_index=True)
    one = [*CLAIM, "run", "setting"]
    order = ["rivals", "kernels", "of_paper", "compared", "type", "day"]  # f64 is after f32, and pattern is alone
    of_claims = found.assign(kernels=found.groupby(one)["label"].transform("nunique")).groupby(one, sort=False)
    best = of_claims[order].max().sort_values(order).reset_index().drop_duplicates(CLAIM, keep="last")
    kept = found.merge(best[one], on=one)
    more = [column for column in kept if column not in asked or column in CLAIM]
    return asked.merge(kept[more], on=CLAIM, how="left").fillna({"run": ""})


def markdown(found: pd.DataFrame, link: str) -> str:
    """The table for the page. found: as `table`. link: path from the page to the folder of the runs."""
    lines = []
    for _, claim in found.groupby(CLAIM, sort=False):
        first = claim.iloc[0]
        shown = first["dtype"] or (first["type"] if first["run"] and first["type"] != "pattern" else "")
        kernels = _kernels(claim)
        cells = [verdicts.NOT_TESTED if row is None else f"{row['verdict']}: {_measured(row)}" for row in kernels]
        own, theirs = ("" if row is None else row["reason"] for row in kernels)
        alone = theirs.startswith("The authors'") or not theirs or own == theirs
        why = [own, theirs if alone else f"The authors' kernel: {theirs[0].lower()}{theirs[1:]}"]
        matrices = run = NONE
        if first["run"]:
            matrices = f"{first['compared']:.0f}"
            matrices += f", {first['stand_ins']:.0f} by stand-ins" if first["stand_ins"] else ""
            run = f"[{first['run']}]({link}/{first['run']})"
        text = [
            first["paper"],
            first["over"],
            shown,
            _printed(first),
            *cells,
            " ".join(dict.fromkeys(why)).strip(),
            matrices,
            run,
        ]
        lines.append([*text, first["lacks"]])
    return in_page.markdown(HEAD, lines)


def sums(found: pd.DataFrame) -> str:
    """The number of claims of each paper with each verdict, for this project's kernels and for the authors'."""
    every = [
        (paper, kernels, verdicts.NOT_TESTED if row is None else row["verdict"])
        for (of, *_), claim in found.groupby(CLAIM, sort=False)
        for kernels, row in zip(("this project's", "the authors'"), _kernels(claim), strict=True)
        for paper in (of, "all")
    ]
    counts = Counter(every)
    groups = sorted(dict.fromkeys(key[:2] for key in every), key=lambda group: group[0] == "all")
    lines = [[*group, *(str(counts[(*group, verdict)]) for verdict in verdicts.VERDICTS)] for group in groups]
    return in_page.markdown(SUMS, lines, verdicts.VERDICTS)


def _kernels(claim: pd.DataFrame) -> list[Any]:
    """The rows of this project's kernel and of the authors' in one claim's rows of the table, None if not measured."""
    papers = authors(claim["label"].fillna(""))
    parts = (claim[~papers & (claim["run"] != "")], claim[papers])
    return [None if part.empty else part.iloc[0] for part in parts]


def _printed(claim: Any) -> str:
    better = "less" if claim["quantity"] else "faster"
    mean = [f"{claim['mean']:g} {claim['kind']}".strip()] if claim["mean"] > 0 else []
    least = [f"at least {claim['least']:g}"] if claim["least"] > 0 else []
    most = [f"at most {claim['max']:g}"] if claim["max"] > 0 else []
    share = [f"{better} on {100 * claim['faster']:g} %"] if claim["faster"] >= 0 and not claim["words"] else []
    return ", ".join(mean + least + most + share + [claim["words"]] * bool(claim["words"])) or NONE


def _measured(row: Any) -> str:
    if not row["baselines"]:
        return f"{number(row['median'])}" + (f", at most {number(row['most'])}" if row["compared"] > 1 else "")
    mean = row["geomean"] if pd.isna(row["alike"]) else row["alike"]
    better = "less" if row["quantity"] else "faster"
    return f"{number(mean)}, at most {number(row['most'])}, {better} on {percent(row['won'])}"


def _of_folder(given: argparse.Namespace) -> dict[str, str]:
    found = table({run.name: measured(store.load(run), given.card) for run in store.runs(given.folder)})
    return {"": markdown(found, in_page.link(given.folder, given.page)), "sums": sums(found)}


_CARD = {"default": "", "help": "only rows of GPUs whose name contains this, such as H200"}
main = in_page.command(_of_folder, in_page.FOLDER, ("--card", _CARD))
