"""Which formats give the same bits in every product with the same x, as configs/determinism.csv has it from rows."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from spmvbench import formats, paths
from spmvbench.formats.two_copies import TwoCopies

REPEATS = {"yes": True, "no": False, "": None}


def table() -> Path:
    """The file; `analysis.determinism.bits` describes its columns."""
    return paths.configs() / "determinism.csv"


@cache
def adds_once() -> frozenset[str]:
    """The labels of the file that repeat their bits although their kernels add by atomics: in every order of blocks and
    lanes that was tried, no sum got more than two parts.
    """
    with table().open(encoding="ascii", newline="") as file:
        lines = csv.DictReader(file)
        return frozenset(x["label"] for x in lines if x["repeats"] == "yes" and x["float_atomics"] == "yes")


@cache
def known() -> dict[str, bool | None]:
    """Whether each format of the file repeats its bits, by label; None if the rows do not tell."""
    with table().open(encoding="ascii", newline="") as file:
        return {line["label"]: REPEATS[line["repeats"]] for line in csv.DictReader(file)}


def repeats(label: str) -> bool | None:
    """Whether a format repeats its bits; None if it is not known. Of parameters that no row has, `sum` alone counts."""
    if label in known():
        return known()[label]
    ((cls, params),) = formats.parse(label)
    if issubclass(cls, TwoCopies):
        return all(repeats(formats.label(half, own)) for _, half, own in cls.halves(params))
    return known().get(formats.label(cls, {"sum": params["sum"]} if "sum" in params else {}))


def repeating(label: str) -> str | None:
    """The format if it is known to repeat its bits, else the same with sum=fixed if that is; None if neither is."""
    if repeats(label):
        return label
    ((cls, params),) = formats.parse(label)
    fixed = formats.label(cls, params | {"sum": "fixed"})
    return fixed if "sum" in params and repeats(fixed) else None
