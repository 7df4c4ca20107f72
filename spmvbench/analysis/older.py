"""Rows whose label means another program today: they are not compared with others."""

from __future__ import annotations

import csv
from functools import cache

import pandas as pd

from spmvbench import paths


@cache
def older_programs() -> dict[tuple[str, str], str]:
    """Key and source hash of programs that their key no longer means, with the key that means them today, or empty."""
    with open(paths.configs() / "older_programs.csv", newline="", encoding="ascii") as file:
        return {(row["format"], row["source_hash"]): row["today"] for row in csv.DictReader(file)}


def changed(rows: pd.DataFrame) -> pd.Series:
    """For each row what its key no longer means: words, or empty if the key means the same today.

    From configs/older_programs.csv, which has the source hashes of programs that got another key, or whose kernel or
    rule was replaced.
    """
    known = older_programs()
    words = {
        pair: (f"{today} today" if today else "another program today") if (today := known.get(pair)) is not None else ""
        for pair in set(zip(rows["format"], rows["source_hash"], strict=True))
    }
    found = [words[pair] for pair in zip(rows["format"], rows["source_hash"], strict=True)]
    return pd.Series(found, rows.index, dtype=object)
