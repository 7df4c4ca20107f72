"""Selection of formats, matrices and groups in rows, by name or by glob."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import pandas as pd

from spmvbench.errors import UsageError, did_you_mean


def words(text: str) -> list[str]:
    """The words of a comma-separated list, without repeats. Commas in brackets do not separate words."""
    return list(dict.fromkeys(filter(None, (word.strip() for word in re.split(r",(?![^\[]*\])", text)))))


def labels_of(rows: pd.DataFrame, text: str, option: str, none: str = "the run holds no") -> list[str]:
    """The labels of these formats in the order in which they are named.

    text: comma-separated keys, labels or globs of either. A word that is a label selects that one, another key or a
    glob all its variants, ``sell[height=*]`` those that differ in this parameter alone, the default among them. option
    and none are words for the error. Raises UsageError if nothing is named, or if a word matches no row.
    """
    names = rows[["format", "label"]].drop_duplicates().sort_values("label")
    return _chosen(text, zip(names["label"], names["format"], strict=True), option, f"{none} format")


def matrices_of(rows: pd.DataFrame, text: str, option: str) -> list[str]:
    """The matrices (group/name, as `cases.latest_cases`) of these names, with or without group; else as `labels_of`."""
    names = sorted(rows["matrix"].unique())
    return _chosen(text, ((name, name.partition("/")[2]) for name in names), option, "the run holds no matrix")


def groups_of(rows: pd.DataFrame, text: str, option: str) -> list[str]:
    """The groups of these names or globs, in any letter case; else as `labels_of`."""
    names = sorted(rows["group"].unique())
    return _chosen(text, ((name, name.lower()) for name in names), option, "the run holds no matrix of group")


def _chosen(text: str, names: Iterable[Sequence[str]], option: str, none: str) -> list[str]:
    """The first name of each of these tuples that is a word of the text, or in which any name matches the word."""
    wanted, names = words(text), list(names)
    if not wanted:
        raise UsageError(f"name something with {option}")
    found: list[str] = []
    for word in wanted:
        if re.search(r"=\*[,\]]", word):
            matching = _sweep(word, [known[0] for known in names])
        elif any(word == known[0] for known in names):
            matching = [word]
        else:
            glob = word.replace("[", "[[]")  # brackets hold parameters
            matching = [known[0] for known in names if any(fnmatchcase(name, glob) for name in known)]
        if not matching:
            raise UsageError(f"{none} {word!r}{did_you_mean(word, [known[0] for known in names])}")
        found += matching
    return list(dict.fromkeys(found))


def _sweep(word: str, labels: Iterable[str]) -> list[str]:
    """The labels that a word such as ``sell[height=*]`` means: those with any one value, and that with the default."""
    key, _, parameters = word.removesuffix("]").partition("[")
    given = parameters.split(",")
    left = ",".join(text for text in given if not text.endswith("=*"))
    default = f"{key}[{left}]" if left else key
    values = ",".join(re.escape(text.removesuffix("*")) + "[^,]*" * text.endswith("=*") for text in given)
    pattern = re.compile(rf"{re.escape(key)}\[{values}\]")
    return [label for label in labels if label == default or pattern.fullmatch(label)]
