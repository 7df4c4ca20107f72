"""Reasons of failed and skipped cases, grouped: reasons that differ only in numbers are of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

# A number, with or without thousands separators, with its unit if it counts bytes.
_NUMBER = re.compile(r"\d[\d,.]*\d(?:e[+-]?\d+)?(?: ?[kMGT]?B\b)?|\d(?: ?[kMGT]?B\b)?")


def first_line(reason: str) -> str:
    """The first line of a reason; further lines hold a compiler's log."""
    return reason.partition("\n")[0]


def pattern(reason: str) -> str:
    """What reasons of one kind have in common: the reason with each number and size replaced by ``#``."""
    return _NUMBER.sub("#", reason)


def in_common(reasons: Iterable[str]) -> str:
    """The common text of reasons of one kind, with an ellipsis for every number that differs."""
    first, *rest = dict.fromkeys(reasons)
    found = [_NUMBER.findall(reason) for reason in rest]
    numbers = iter(zip(_NUMBER.findall(first), *found, strict=True))
    return _NUMBER.sub(lambda match: match[0] if len(set(next(numbers))) == 1 else "...", first)


def by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    """Failed and skipped rows by status and kind of reason: columns status, reason (`in_common`), cases, labels.

    labels: formats with their number of cases, ``ell 4, dia 2``, the most first. Ordered by cases, the most first.
    """
    rows = rows[rows["status"] != "ok"]
    rows = rows.assign(reason=rows["reason"].map(first_line))
    found = []
    for (status, _), part in rows.groupby(["status", rows["reason"].map(pattern)], sort=False):
        counts = part["label"].value_counts().sort_index().sort_values(ascending=False, kind="stable")
        labels = ", ".join(f"{label} {count}" for label, count in counts.items())
        found.append({"status": status, "reason": in_common(part["reason"]), "cases": len(part), "labels": labels})
    table = pd.DataFrame(found, columns=["status", "reason", "cases", "labels"])
    return table.sort_values(["cases", "reason"], ascending=[False, True], kind="stable", ignore_index=True)
