"""Two runs case by case: what became faster or slower, and what the samples and the spread between sessions leave open.

The interval of a ratio takes two sources of error. The samples: the medians lie in their order-statistics intervals
(95 % each), so the ratio lies between the extreme quotients of these. And what a session does to every sample alike
(clocks, placement in memory, the card's state), which no number of samples shows: the interval is widened by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import CASE, emulated, matrix_names, settings, written
from spmvbench.analysis.coverage import geometric_mean

# How far the same build may be from itself. Rows of one build measured in two sessions on cards of one model differed
# by 0.4 % in the median and by 6.8 % at the 95th percentile; within a session rounds sample to within 0.5 %.
BETWEEN_SESSIONS, WITHIN_SESSION = 0.068, 0.005

VERDICTS = ("slower", "faster", "undecided", "same")
# Of the others missing and failed leave a comparison incomplete.
OUTCOMES = {
    "missing": "AFTER has no such case",
    "failed": "not right in AFTER: it failed there, or is skipped and was right before",
    "new": "BEFORE has no such case",
    "mended": "right in AFTER only",
    "skipped": "skipped in AFTER, and not right before",
    "untimed": "right in both, on the emulated device, whose times say nothing",
}
INCOMPLETE = ("missing", "failed")

# What a session records that times depend on, as tables name it: under the session's properties, or the session itself.
_FACTS = {
    "Driver": "driver",
    "CUDA of the driver": "cuda_driver",
    "NVRTC": "nvrtc",
    "Clock limit": "max_sm_clock_mhz",
    "Version": "spmvbench",
    "Revision": "git",
    "Budget": "budget",
}


def compared(
    before: pd.DataFrame,
    after: pd.DataFrame,
    interval: Callable[[Sequence[float]], tuple[float, float, float]],
    threshold: float | None = None,
) -> pd.DataFrame:
    """Every case of either run: type, mode and operation, kind of device, matrix (its content too) and format.

    before, after: rows of a run; with the column `session` (`with_session`) rows of one session are told from others.
    interval: the ends of the confidence interval of the samples' median, the median in the middle. threshold: how far
    a time may be off by what happens between sessions, as a share (0.05 is 5 %); None takes BETWEEN_SESSIONS, and
    WITHIN_SESSION where both rows are of one session.

    Columns setting, matrix, label, format, status_before, status_after, reason, t_before, t_after (medians, seconds),
    ratio (after over before), low and high (its interval), same_sources and verdict. A case that is right in both is
    slower or faster where the whole interval is beyond 1, same where the samples' part of it is within the threshold
    of 1, else undecided; of every other case the verdict is one of OUTCOMES.
    """
    rows = pd.concat([before.assign(side="before"), after.assign(side="after")], ignore_index=True)
    kind = rows["device"].str.extract("^([a-z]+)", expand=False).fillna("")
    rows = rows.assign(matrix=matrix_names(rows, "matrix_sha256"), setting=settings(rows, kind))
    if "session" not in rows:
        rows = rows.assign(session="")
    sides = [
        part.loc[written(part)].drop_duplicates(CASE, keep="last").set_index(CASE)
        for part in (rows[rows["side"] == side] for side in ("before", "after"))
    ]
    both = sides[0].add_suffix("_before").join(sides[1].add_suffix("_after"), how="outer").reset_index()
    both["setting"] = pd.Categorical(both["setting"], rows["setting"].cat.categories, ordered=True)

    alike = (both["session_before"] == both["session_after"]) & (both["session_before"] != "")
    spread = np.where(alike, WITHIN_SESSION, BETWEEN_SESSIONS) if threshold is None else np.full(len(both), threshold)
    ok = ((both["status_before"] == "ok") & (both["status_after"] == "ok")).to_numpy()
    timed = ok & ~emulated(both.assign(device=both["device_before"].fillna(""))).to_numpy()
    low, high = np.full((2, len(both)), np.nan)
    for at in np.flatnonzero(timed):
        (low_before, _, high_before), (low_after, _, high_after) = (
            interval(both[f"samples_{side}"].iloc[at]) for side in ("before", "after")
        )
        low[at], high[at] = low_after / high_before, high_after / low_before if low_before > 0 else np.inf
    conditions = {
        "untimed": ok & ~timed,
        "slower": timed & (low > 1 + spread),
        "faster": timed & (high < 1 / (1 + spread)),
        "same": timed & (low >= 1 / (1 + spread)) & (high <= 1 + spread),
        "undecided": timed,
        "missing": both["status_after"].isna(),
        "new": both["status_before"].isna(),
        "mended": both["status_after"] == "ok",
        "skipped": (both["status_after"] == "skipped") & (both["status_before"] != "ok"),
    }
    ratio = (both["t_median_after"] / both["t_median_before"]).where(timed & (both["t_median_before"] > 0))
    table = both.assign(
        format=both["format_before"].fillna(both["format_after"]),
        reason=both["reason_after"].fillna(""),
        t_before=both["t_median_before"],
        t_after=both["t_median_after"],
        ratio=ratio,
        low=low / (1 + spread),
        high=high * (1 + spread),
        same_sources=both["source_hash_before"] == both["source_hash_after"],
        verdict=np.select(list(conditions.values()), list(conditions), "failed"),
    )
    names = ["status_before", "status_after", "reason", "t_before", "t_after", "ratio", "low", "high", "same_sources"]
    return table[[*CASE, "format", *names, "verdict"]].sort_values(CASE, ignore_index=True)


def summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The verdicts of `compared` counted by `by` (label, matrix), the slowest in the mean first.

    Columns: `by`; cases; a count for each of VERDICTS; incomplete; ratio (geometric mean of those timed in both), worst
    (the largest) and worst_of, the case that has it.
    """
    other = {"label": "matrix", "matrix": "label"}[by]
    found = []
    for name, part in table.groupby(by):
        timed = part[part["ratio"].notna()]
        worst = timed.loc[timed["ratio"].idxmax()] if len(timed) else None
        found.append(
            {by: name, "cases": len(part)}
            | {verdict: int((part["verdict"] == verdict).sum()) for verdict in VERDICTS}
            | {
                "incomplete": int(part["verdict"].isin(INCOMPLETE).sum()),
                "ratio": geometric_mean(timed["ratio"]),
                "worst": np.nan if worst is None else float(worst["ratio"]),
                "worst_of": "" if worst is None else f"{worst[other]} {worst['setting']}",
            }
        )
    columns = [by, "cases", *VERDICTS, "incomplete", "ratio", "worst", "worst_of"]
    return pd.DataFrame(found, columns=columns).sort_values(["ratio", by], ascending=[False, True], ignore_index=True)


def with_session(rows: pd.DataFrame, sessions: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows with the column `session`: the start of the last session that began before the row; "" without one."""
    starts = sorted(session["started"] for session in sessions)
    places = [sum(start <= began for start in starts) for began in rows["started_at"]]
    return rows.assign(session=[starts[place - 1] if place else "" for place in places])


def differences(
    before: tuple[pd.DataFrame, Sequence[Mapping[str, Any]]], after: tuple[pd.DataFrame, Sequence[Mapping[str, Any]]]
) -> dict[str, tuple[str, str]]:
    """What two runs, each its rows and its sessions' records, were not measured with alike: the values in words."""

    def facts(rows: pd.DataFrame, sessions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        told = [session | dict(session.get("properties") or {}) for session in sessions]
        values = {"Device": set(rows["device_name"])}
        values |= {name: {str(of[key]) for of in told if of.get(key) is not None} for name, key in _FACTS.items()}
        return {name: ", ".join(sorted(held)) or "not recorded" for name, held in values.items()}

    old, new = facts(*before), facts(*after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}
