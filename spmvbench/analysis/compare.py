"""Comparison of two runs case by case: which became faster or slower, and which are undecided.

The interval of a ratio covers two sources of error. The samples: each median lies in its order-statistics interval
(95 %), so the ratio lies between the extreme quotients of these. The invocation: clocks, placement in memory and the
state of the card shift all samples of an invocation, however many they are; the interval is widened by that spread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import CASE, emulated, matrix_names, settings
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.rows.newest import newest

# Spread of one build. Of 1,270 cases with one program, measured in two invocations on cards of one model, 5 differed by
# more than 6.8 %, and 5 % by more than 3.4 %; within an invocation, rounds sample to within 0.5 %.
BETWEEN_SESSIONS, WITHIN_SESSION = 0.068, 0.005

VERDICTS = ("slower", "faster", "undecided", "same")
# Verdicts on cases that were not timed in both runs. INCOMPLETE ones leave the comparison incomplete.
OUTCOMES = {
    "missing": "AFTER has no such case",
    "failed": "not verified in AFTER: failed there, or skipped there and verified before",
    "new": "BEFORE has no such case",
    "fixed": "verified in AFTER only",
    "skipped": "skipped in AFTER, and not verified before",
    "untimed": "verified in both, on the emulated device, whose times say nothing about a GPU",
}
INCOMPLETE = ("missing", "failed")

# Metadata that times depend on, by the name in tables. It is an entry of an invocation or of its `properties`.
_FACTS = {
    "Driver": "driver",
    "CUDA of the driver": "cuda_driver",
    "NVRTC": "nvrtc",
    "Clock limit": "max_sm_clock_mhz",
    "Version": "spmvbench",
    "Revision": "git",
    "Budget": "budget",
}

# What a comparison reads of rows: two runs with all columns would not fit in memory beside each other.
USED = (
    "group", "name", "matrix_sha256", "dtype", "mode", "op", "order", "label", "format", "device", "device_name",
    "status", "reason", "t_median", "samples", "source_hash", "code_hash", "program", "run_id", "sequence",
    "started_at", "session", "case_id", "result_bits",
)  # fmt: skip


def compared(
    before: pd.DataFrame,
    after: pd.DataFrame,
    interval: Callable[[Sequence[float]], tuple[float, float, float]],
    threshold: float | None = None,
) -> pd.DataFrame:
    """One row for each case of either run; a case is setting, kind of device, matrix (with its content) and format.

    before, after: rows of a run; the column `session` (`with_session`), if present, says which rows are of one
    invocation. interval: returns low end, median and high end of the confidence interval of samples (seconds).
    threshold: spread between invocations as a share (0.05 is 5 %); None takes BETWEEN_SESSIONS, or WITHIN_SESSION if
    both rows are of one invocation.

    Columns setting, matrix, label, format, status_before, status_after, reason, t_before, t_after (medians, seconds),
    ratio (after over before), low and high (its interval), same_sources, other_program (the same sources ran another
    program, as formats do that tune themselves by timing; False where either is not known), other_bits (the same
    program gave other bits on the same kind of device; the same condition) and verdict. A case verified
    in both runs is slower or faster if the whole interval is on one side of 1, same if the interval of the samples
    alone is within the threshold of 1, else undecided. Every other case has one of OUTCOMES as its verdict.
    """
    rows = pd.concat(
        [part.filter(items=USED).assign(run=run) for run, part in (("before", before), ("after", after))],
        ignore_index=True,
    )
    kind = rows["device"].str.extract("^([a-z]+)", expand=False).fillna("")
    rows = rows.assign(matrix=matrix_names(rows, "matrix_sha256"), setting=settings(rows, kind))
    if "session" not in rows:
        rows = rows.assign(session="")
    runs = [
        part.loc[newest(part, CASE)].set_index(CASE)
        for part in (rows[rows["run"] == run] for run in ("before", "after"))
    ]
    both = runs[0].add_suffix("_before").join(runs[1].add_suffix("_after"), how="outer").reset_index()
    both["setting"] = pd.Categorical(both["setting"], rows["setting"].cat.categories, ordered=True)

    same_session = (both["session_before"] == both["session_after"]) & (both["session_before"] != "")
    spread = (
        np.where(same_session, WITHIN_SESSION, BETWEEN_SESSIONS) if threshold is None else np.full(len(both), threshold)
    )
    ok = ((both["status_before"] == "ok") & (both["status_after"] == "ok")).to_numpy()
    timed = ok & ~emulated(both.assign(device=both["device_before"].fillna(""))).to_numpy()
    low, high = np.full((2, len(both)), np.nan)
    samples = [both[f"samples_{run}"].tolist() for run in ("before", "after")]
    for at in np.flatnonzero(timed):
        (low_before, _, high_before), (low_after, _, high_after) = (interval(of[at]) for of in samples)
        low[at], high[at] = low_after / high_before, high_after / low_before if low_before > 0 else np.inf
    conditions = {
        "untimed": ok & ~timed,
        "slower": timed & (low > 1 + spread),
        "faster": timed & (high < 1 / (1 + spread)),
        "same": timed & (low >= 1 / (1 + spread)) & (high <= 1 + spread),
        "undecided": timed,
        "missing": both["status_after"].isna(),
        "new": both["status_before"].isna(),
        "fixed": both["status_after"] == "ok",
        "skipped": (both["status_after"] == "skipped") & (both["status_before"] != "ok"),
    }
    same_sources = both["source_hash_before"] == both["source_hash_after"]
    programs, codes, bits, cards = (
        [both[f"{of}_{run}"].fillna("") for run in ("before", "after")]
        for of in ("program", "code_hash", "result_bits", "device_name")
    )
    # Programs count hashes of machine code. Those without a version in front (``2-``) cover folders and times of files.
    known = (codes[0] == codes[1]) | (codes[0].str.contains("-") & codes[1].str.contains("-"))
    ratio = (both["t_median_after"] / both["t_median_before"]).where(timed & (both["t_median_before"] > 0))
    table = both.assign(
        format=both["format_before"].fillna(both["format_after"]),
        reason=both["reason_after"].fillna(""),
        t_before=both["t_median_before"],
        t_after=both["t_median_after"],
        ratio=ratio,
        low=low / (1 + spread),
        high=high * (1 + spread),
        same_sources=same_sources,
        other_program=same_sources & known & (programs[0] != programs[1]) & (programs[0] != "") & (programs[1] != ""),
        other_bits=(both["case_id_before"] == both["case_id_after"])  # the seed of x, too
        & (programs[0] == programs[1])
        & (programs[0] != "")
        & (cards[0] == cards[1])
        & (bits[0] != bits[1])
        & (bits[0] != "")
        & (bits[1] != ""),
        verdict=np.select(list(conditions.values()), list(conditions), "failed"),
    )
    names = ["status_before", "status_after", "reason", "t_before", "t_after", "ratio", "low", "high", "same_sources"]
    names += ["other_program", "other_bits"]
    return table[[*CASE, "format", *names, "verdict"]].sort_values(CASE, ignore_index=True)


def summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The verdicts of `compared` counted by `by` (label or matrix), ordered by mean ratio, the largest first.

    Columns: `by`; cases; a count for each of VERDICTS; incomplete; ratio (geometric mean over cases timed in both),
    worst (the largest ratio) and worst_of, the case that has it.
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
    """The rows with the column `session`: start of the last invocation that began before the row, "" if none did."""
    starts = sorted(session["started"] for session in sessions)
    places = [bisect_right(starts, began) for began in rows["started_at"]]
    return rows.assign(session=[starts[place - 1] if place else "" for place in places])


def differences(
    before: tuple[pd.DataFrame, Sequence[Mapping[str, Any]]], after: tuple[pd.DataFrame, Sequence[Mapping[str, Any]]]
) -> dict[str, tuple[str, str]]:
    """Conditions in which two runs differ, each with both values. before, after: rows and metadata of each run."""

    def facts(rows: pd.DataFrame, sessions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        metadata = [{**session, **(session.get("properties") or {})} for session in sessions]
        values = {"Device": set(rows["device_name"].unique())}
        values |= {name: {str(of[key]) for of in metadata if of.get(key) is not None} for name, key in _FACTS.items()}
        return {name: ", ".join(sorted(held)) or "not recorded" for name, held in values.items()}

    old, new = facts(*before), facts(*after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}
