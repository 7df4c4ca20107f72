"""Which formats give the same bits in every product with the same x, as configs/determinism.csv has it from rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from spmvbench import formats, paths
from spmvbench.formats.two_copies import TwoCopies

REPEATS = {"yes": True, "no": False, "": None}
PRODUCT = "spmv"
# Operations that repeat their bits if y = A x does: a second copy, and solvers, whose own kernels add in a fixed order.
OF_PRODUCTS = ("spmv-t", "cg", "pagerank")


def operation(op: str) -> str:
    """The name of an operation in the file: without its number, but for A^T from the arrays of A."""
    return op if op == "spmv-t@1" else op.partition("@")[0]


def table() -> Path:
    """The file; `analysis.determinism.bits` describes its columns."""
    return paths.configs() / "determinism.csv"


@cache
def adds_once() -> frozenset[str]:
    """The labels of the file that repeat their bits although their kernels add by atomics: in every order of blocks and
    lanes that was tried, no sum got more than two parts.
    """
    return frozenset(x["label"] for x in _lines(PRODUCT) if x["repeats"] == "yes" and x["float_atomics"] == "yes")


@cache
def known(op: str = PRODUCT) -> dict[str, bool | None]:
    """Whether each format of the file repeats its bits, by label; None if the rows do not tell. op: as `operation`."""
    return {line["label"]: REPEATS[line["repeats"]] for line in _lines(op)}


def _lines(op: str) -> list[dict[str, str]]:
    with table().open(encoding="ascii", newline="") as file:
        return [line for line in csv.DictReader(file) if line["op"] == op]


def repeats(label: str, op: str = PRODUCT) -> bool | None:
    """Whether a format repeats its bits in an operation; None if it is not known.

    Of parameters that no row has, `sum` alone counts.
    """
    of_op = known(operation(op))
    if label in of_op:
        return of_op[label]
    ((cls, params),) = formats.parse(label)
    if issubclass(cls, TwoCopies):
        return _both(repeats(formats.label(half, own)) for _, half, own in cls.halves(params))
    if operation(op) in ("pair", "pdhg"):
        return _both((repeats(label), repeats(label, "spmv-t@1")))
    found = of_op.get(formats.label(cls, {"sum": params["sum"]} if "sum" in params else {}))
    return repeats(label) if found is None and operation(op) in OF_PRODUCTS else found


def _both(known: Iterable[bool | None]) -> bool | None:
    found = set(known)
    return False if False in found else None if None in found else True


def repeating(label: str, op: str = PRODUCT) -> str | None:
    """The format if it is known to repeat its bits in an operation, else the same with sum=fixed if that is; None if
    neither is.
    """
    if repeats(label, op):
        return label
    ((cls, params),) = formats.parse(label)
    fixed = formats.label(cls, params | {"sum": "fixed"})
    return fixed if "sum" in params and repeats(fixed, op) else None
