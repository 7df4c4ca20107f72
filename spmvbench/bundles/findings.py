"""Findings of a check, and the data that is checked: rows and metadata of a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spmvbench.errors import counted

if TYPE_CHECKING:
    import pandas as pd

PASSED, FAILED, OPEN, NOTE = "passed", "FAILED", "open", "note"
LISTED = 5
LACKING = "which lack the columns"  # why rows cannot be verified
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Finding:
    """One result. check: its subject. verdict: PASSED, FAILED, OPEN (could not be verified) or NOTE."""

    check: str
    verdict: str
    text: str


@dataclass
class Bundle:
    """An unpacked bundle, or a run's folder. manifest: None for a folder."""

    folder: Path
    manifest: dict[str, Any] | None
    rows: pd.DataFrame
    sessions: list[dict[str, Any]]

    def __post_init__(self) -> None:
        texts = self.rows.select_dtypes("string").columns  # Arrow takes three times as long to give them one by one
        self.rows = self.rows.astype(dict.fromkeys(texts, object)).copy()

    @property
    def verified(self) -> pd.DataFrame:
        """The rows with status ok."""
        return self.rows[self.rows["status"] == "ok"]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the invocations, without repeats."""
        seeds = {session.get("seed") or 0 for session in self.sessions}
        return sorted(seed for seed in seeds if isinstance(seed, int)) or [0]

    @cached_property
    def _times(self) -> list[str]:
        """When invocations started and ended, in order."""
        return sorted(time for session in self.sessions for time in _times(session))

    def invocations(self, rows: pd.DataFrame) -> list[tuple[list[dict[str, Any]], npt.NDArray[np.int64]]]:
        """Rows by the invocations that were running when they began, by the clocks of their hosts: those, and the
        places of the rows, which began between the same two starts and ends.
        """
        starts, times = rows["started_at"].to_numpy(str), np.array(self._times, dtype=str)
        between = np.stack([np.searchsorted(times, starts, side) for side in ("left", "right")], axis=1)
        _, first, group = np.unique(between, axis=0, return_index=True, return_inverse=True)
        return [
            (self.running(rows.iloc[place]), np.flatnonzero(group.ravel() == number))
            for number, place in enumerate(first)
        ]

    def running(self, row: Any) -> list[dict[str, Any]]:
        """The invocations that were running when a row began, by the clocks of their hosts."""
        known = ((session, *_times(session)) for session in self.sessions)
        return [session for session, started, ended in known if started <= row.started_at <= ended]

    def sessions_of(self, row: Any) -> list[dict[str, Any]]:
        """The invocations that may have measured a row: those running when it began; all if there are none."""
        return self.running(row) or self.sessions


def _times(session: dict[str, Any]) -> tuple[str, str]:
    return str(session.get("started", "")), str(session.get("ended") or "9")


def mapping(value: Any) -> dict[str, Any]:
    """A part of untrusted metadata that should be a mapping; empty if it is none."""
    return value if isinstance(value, dict) else {}


def devices(session: dict[str, Any]) -> list[dict[str, Any]]:
    """The devices of an invocation, first its own, then those of its workers: name, GPU, launch overhead."""
    workers = session.get("workers")
    itself = mapping(session.get("properties")) | {"launch_overhead": session.get("launch_overhead")}
    return [itself, *(mapping(worker) for worker in (workers if isinstance(workers, list) else []))]


def shortened(items: Sequence[str]) -> str:
    """The first few of a list, and the number of the others."""
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return f"{'; '.join(items[:LISTED])}{more}"


def cases(rows: pd.DataFrame) -> str:
    """The first few rows by matrix, format, type, operation and mode, and the number of the others."""
    few = rows[["name", "label", "dtype", "op", "mode"]].head(LISTED).itertuples(index=False)
    texts = [f"{row.name} {row.label} {row.dtype} {row.op} {row.mode}" for row in few]
    return shortened([*texts, *[""] * (len(rows) - len(texts))])


def check_rows(
    check: str, rows: pd.DataFrame, bad: Flags, what: str, unknown: Flags | None = None, why: str = LACKING
) -> Iterator[Finding]:
    """Findings of one rule over rows: FAILED with the first bad rows, OPEN with the number of unknown ones.

    bad, unknown: (rows,). unknown: rows that the rule cannot judge, for the reason `why`. PASSED if all others obey it.
    """
    wrong = np.asarray(bad, dtype=bool)
    missing = np.zeros(len(rows), bool) if unknown is None else np.asarray(unknown, dtype=bool) & ~wrong
    of = counted(len(rows), "row")
    if wrong.any():
        yield Finding(check, FAILED, f"{what}: violated in {int(wrong.sum())} of {of}: {cases(rows[wrong])}")
    elif len(rows) > missing.sum():
        yield Finding(check, PASSED, f"{what}: {counted(len(rows) - int(missing.sum()), 'row')}")
    if missing.any():
        text = f"{what}: cannot be verified of {int(missing.sum())} of {of}, {why}"
        yield Finding(check, OPEN, text)
