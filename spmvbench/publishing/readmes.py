"""The table in the README of each published run: which invocations its rows are of, and what became of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spmvbench.publishing import in_page
from spmvbench.rows import store

INVOCATION = ("Date", "Revision", "Card", "Driver", "cuSPARSE")
COUNTS = ("GPUs", "Labels", "Matrices", "Right", "Wrong or failed", "Skipped", "Largest error")


def table(rows: pd.DataFrame) -> str:
    """A line for the invocations of a day, a revision, a card, a driver and a cuSPARSE that rows are of, and of all.

    rows: as `store.load_run`, with their environment. The revision is that of the checkout, with + if it had changes.
    "Largest error" is a share of the bound, of verified results.
    """
    sessions = sorted(rows.attrs["environment"]["sessions"], key=lambda session: session["started"])
    began = np.array([session["started"] for session in sessions], dtype=str)  # texts of times are in their order
    of = np.maximum(np.searchsorted(began, rows["started_at"].to_numpy(str), side="right") - 1, 0)
    groups = rows.groupby(pd.Series([_named(sessions[at]) for at in of], index=rows.index))
    lines = [(*name, *_counts(group)) for name, group in groups]
    if len(lines) > 1:
        lines.append(("all", *[""] * (len(INVOCATION) - 1), *_counts(rows)))
    return in_page.markdown((*INVOCATION, *COUNTS), lines, COUNTS)


def _named(session: dict[str, Any]) -> tuple[str, ...]:
    revision, _, changed = str(session["git"] or "").partition("-")
    card = session["properties"]
    n = int(card.get("cusparse") or 0)
    library = f"{n // 1000}.{n // 100 % 10}.{n % 100}" if n else ""
    return session["started"][:10], revision[:8] + "+" * bool(changed), card["device_name"], card["driver"], library


def _counts(rows: pd.DataFrame) -> tuple[str, ...]:
    right, skipped = (int((rows["status"] == status).sum()) for status in ("ok", "skipped"))
    of = (rows[name].nunique() for name in ("gpu", "label", "matrix_sha256"))
    counts = (f"{count:,}" for count in (*of, right, len(rows) - right - skipped, skipped))
    return (*counts, in_page.number(rows.loc[rows["status"] == "ok", "error_ratio"].max()))


def main() -> None:
    """Write the tables of all runs in a folder. Raises as `in_page.updated`."""
    words = in_page.parser(__name__)
    words.add_argument(in_page.FOLDER[0], **in_page.FOLDER[1])
    for run in store.runs(words.parse_args().folder):
        in_page.put(run / "README.md", table(store.load_run(run)), __name__, in_page.rows_of([run]))
