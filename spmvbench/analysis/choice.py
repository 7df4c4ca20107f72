"""Which rows a person asks for: formats and matrices by name or by glob, groups, and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import pandas as pd

from spmvbench.errors import UsageError, did_you_mean


def words(text: str) -> list[str]:
    """The words of a list with commas, without repeats; commas in brackets part no words."""
    return list(dict.fromkeys(filter(None, (word.strip() for word in re.split(r",(?![^\[]*\])", text)))))


def labels_of(rows: pd.DataFrame, text: str, option: str, none: str = "the run holds no") -> list[str]:
    """The labels of these formats in the order in which they are named: keys, labels or globs of either.

    text: with commas between. A key or glob stands for all its variants. option and none are for what the error says.
    Raises UsageError where nothing is named, or a word fits no row.
    """
    names = rows[["format", "label"]].drop_duplicates().sort_values("label")
    return _chosen(text, zip(names["label"], names["format"], strict=True), option, f"{none} format")


def matrices_of(rows: pd.DataFrame, text: str, option: str, none: str = "the run holds no") -> list[str]:
    """The matrices (group/name, as `cases.prepared`) of these names, with or without group; else as labels_of."""
    names = sorted(rows["matrix"].unique())
    return _chosen(text, ((name, name.partition("/")[2]) for name in names), option, f"{none} matrix")


def groups_of(rows: pd.DataFrame, text: str, option: str, none: str = "the run holds no") -> list[str]:
    """The groups of these names or globs, whatever the case; else as labels_of."""
    names = sorted(rows["group"].unique())
    return _chosen(text, ((name, name.lower()) for name in names), option, f"{none} matrix of group")


def _chosen(text: str, names: Iterable[Sequence[str]], option: str, none: str) -> list[str]:
    """The first name of each of these tuples of which any name fits a word of the text."""
    wanted, names = words(text), list(names)
    if not wanted:
        raise UsageError(f"name something with {option}")
    found: list[str] = []
    for word in wanted:
        glob = word.replace("[", "[[]")  # brackets hold parameters
        fitting = [known[0] for known in names if any(fnmatchcase(name, glob) for name in known)]
        if not fitting:
            raise UsageError(f"{none} {word!r}{did_you_mean(word, [known[0] for known in names])}")
        found += fitting
    return list(dict.fromkeys(found))
