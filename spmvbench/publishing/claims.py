"""The table of claims in docs/results/papers.md: what papers print, and what the published runs measured of it.

``python -m spmvbench.publishing.claims results/published --card H200 --page docs/results/papers.md`` makes it from
the rows of all runs in a folder, those of one model of GPU, and writes it into the page, between two comments.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from spmvbench.analysis.cases import emulated, latest_cases
from spmvbench.analysis.older import changed
from spmvbench.errors import UsageError
from spmvbench.publishing import in_page
from spmvbench.reports import figures
from spmvbench.reports.figures import LeftOut, Options, claims
from spmvbench.reports.tables import NONE, number
from spmvbench.rows import store

CLAIM = ["paper", "over", "op", "dtype"]  # identifies a claim
AUTHORS = "kernel=paper"
HEAD = ("Paper", "Over", "Type", "Printed", "Measured", "Authors' kernel", "Matrices", "Run", "Not at hand")


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
    and the authors'), matrices of the paper, stand-ins included, and matrices; then double precision, and the newest.
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
        printed = _printed(first)
        if not first["run"]:
            lines.append(_line(first, printed, NONE, NONE, NONE, NONE))
            continue
        authors = claim["label"].str.contains(AUTHORS, regex=False)
        own, theirs = (NONE if part.empty else _speedups(part.iloc[0]) for part in (claim[~authors], claim[authors]))
        replaced = f", {first['stand_ins']:.0f} by stand-ins" if first["stand_ins"] else ""
        run = f"[{first['run']}]({link}/{first['run']})"
        lines.append(_line(first, printed, own, theirs, f"{first['compared']:.0f}{replaced}", run))
    return in_page.markdown(HEAD, lines)


def _line(claim: Any, *cells: str) -> list[str]:
    shown = claim["dtype"] or (claim["type"] if claim["run"] and claim["type"] != "pattern" else "")
    return [claim["paper"], claim["over"], shown, *cells, claim["lacks"]]


def _printed(claim: Any) -> str:
    mean = [f"{claim['mean']:g} {claim['kind']}"] if claim["mean"] > 0 else []
    most = [f"at most {claim['max']:g}"] if claim["max"] > 0 else []
    faster = [f"faster on {100 * claim['faster']:g} %"] if claim["faster"] > 0 else []
    return ", ".join(mean + most + faster) or NONE


def _speedups(measured: Any) -> str:
    mean = measured["geomean"] if pd.isna(measured["alike"]) else measured["alike"]
    return f"{number(mean)}, at most {number(measured['most'])}, faster on {100 * measured['won']:.0f} %"


def _of_folder(given: argparse.Namespace) -> str:
    runs = store.runs(given.folder)
    if not runs:
        raise UsageError(f"{given.folder} holds no run")
    found = table({run.name: measured(store.load(run), given.card) for run in runs})
    link = Path(os.path.relpath(given.folder, given.page.parent if given.page else None)).as_posix()
    return markdown(found, link)


_CARD = {"default": "", "help": "only rows of GPUs whose name contains this, such as H200"}
main = in_page.command("claims", __doc__, _of_folder, in_page.FOLDER, ("--card", _CARD))

if __name__ == "__main__":
    main()
