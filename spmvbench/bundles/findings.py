"""What a check finds, and what it looks at: a bundle's rows and records, with what sessions say of their devices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

PASSED, FAILED, OPEN, NOTE = "passed", "FAILED", "open", "note"
LISTED = 5
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Finding:
    """check: what was looked at. verdict: PASSED, FAILED, OPEN (should be verified, and was not) or NOTE."""

    check: str
    verdict: str
    text: str


@dataclass
class Bundle:
    """A bundle that was unpacked, or a run's folder. manifest: None for a folder."""

    folder: Path
    manifest: dict[str, Any] | None
    rows: pd.DataFrame
    sessions: list[dict[str, Any]]

    @property
    def right(self) -> pd.DataFrame:
        """The rows that are ok."""
        return self.rows[self.rows["status"] == "ok"]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the sessions, each once."""
        seeds = {session.get("seed") or 0 for session in self.sessions}
        return sorted(seed for seed in seeds if isinstance(seed, int)) or [0]

    def sessions_of(self, row: Any) -> list[dict[str, Any]]:
        """The sessions that may have measured a row: those that ran when it began; all where none did."""
        return [session for session in self.sessions if covers(session, row)] or self.sessions


def covers(session: dict[str, Any], row: Any) -> bool:
    """Whether a session ran when a row began, by the clocks of their hosts."""
    return bool(str(session.get("started", "")) <= row.started_at <= str(session.get("ended") or "9"))


def mapping(value: Any) -> dict[str, Any]:
    """A part of a record that has to be a mapping; empty where a stranger's is none."""
    return value if isinstance(value, dict) else {}


def devices(session: dict[str, Any]) -> list[dict[str, Any]]:
    """What a session says of each of its workers, itself first: name and GPU of the device, the time of nothing."""
    workers = session.get("workers")
    itself = mapping(session.get("properties")) | {"launch_overhead": session.get("launch_overhead")}
    return [itself, *(mapping(worker) for worker in (workers if isinstance(workers, list) else []))]


def parsed(text: Any) -> dict[str, Any]:
    """A column of JSON as a mapping; empty where it holds none."""
    try:
        return mapping(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}


def named(items: Sequence[str]) -> str:
    """The first few of a list, and how many there are beyond."""
    more = f" and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return f"{'; '.join(items[:LISTED])}{more}"


def cases(rows: pd.DataFrame) -> str:
    """The first few rows by matrix, format, type, operation and mode, and how many there are beyond."""
    few = rows.head(LISTED).itertuples(index=False)
    texts = [f"{row.name} {row.label} {row.dtype} {row.op} {row.mode}" for row in few]
    return named([*texts, *[""] * (len(rows) - len(texts))])


def held(check: str, rows: pd.DataFrame, bad: Flags, what: str, untold: Flags | None = None) -> Iterator[Finding]:
    """What became of one rule over rows: FAILED with the first of the bad ones, OPEN with the number of the untold.

    bad, untold: (rows,). untold: rows that do not say what the rule is about. PASSED where all others keep the rule.
    """
    wrong = np.asarray(bad, dtype=bool)
    unsaid = np.zeros(len(rows), bool) if untold is None else np.asarray(untold, dtype=bool) & ~wrong
    if wrong.any():
        yield Finding(check, FAILED, f"{what}: not so in {int(wrong.sum())} of {len(rows)} rows: {cases(rows[wrong])}")
    elif len(rows) > unsaid.sum():
        yield Finding(check, PASSED, f"{what}: {len(rows) - int(unsaid.sum())} rows")
    if unsaid.any():
        text = f"{what}: cannot be verified of {int(unsaid.sum())} of {len(rows)} rows, which do not say enough"
        yield Finding(check, OPEN, text)
