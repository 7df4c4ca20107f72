"""Harwell-Boeing and Rutherford-Boeing files: scipy.io.hb_read knows real unsymmetric matrices in E format only.

Formats: Duff, Grimes, Lewis, Users' guide for the Harwell-Boeing sparse matrix collection, 1992, and The
Rutherford-Boeing sparse matrix collection, RAL-TR-97-031, 1997. Both hold compressed columns in fixed-width fields.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.formats.arrays import cdiv, index_dtype
from spmvbench.matrices.readers import checked

SYMMETRIES = {"u": "general", "r": "general", "s": "symmetric", "z": "skew-symmetric", "h": "hermitian"}


WIDEST = 80  # characters of a field; lines of the collection's files have 80 in all
_NO_NUMBER = bytes(byte for byte in range(256) if byte not in b"0123456789+-.EDed ")


def _format(text: str, name: str) -> tuple[int, int, bool]:
    """Fields a line, characters a field, and whether they are real, of a Fortran format such as (1P,4E20.12)."""
    form = r"\((?:\d+P,?)?(\d{0,9})([IEDFG])(\d{1,9})(?:\.\d+)?(?:E\d+)?\)"
    match = re.fullmatch(form, text.replace(" ", "").upper(), re.ASCII)
    if match is None or not 0 < int(match[3]) <= WIDEST:
        raise SpmvbenchError(f"{name} uses the Fortran format {text.strip()!r}, which is not one of a number a field")
    return int(match[1] or 1), int(match[3]), match[2] != "I"


def _numbers(lines: list[bytes], count: int, form: str, name: str, what: str) -> np.ndarray:
    """The first `count` numbers of fixed-width lines: int64 for an I format, else float64."""
    per_line, width, real = _format(form, name)
    if count == 0:
        return np.empty(0, dtype=np.float64 if real else np.int64)
    per_line = min(per_line, count)  # a line is as long as its format says, but no longer than all numbers together
    lines = lines[: cdiv(count, max(per_line, 1))]
    text = b"".join(line.rstrip(b"\r\n").ljust(per_line * width)[: per_line * width] for line in lines)
    if len(text) < count * width:
        raise SpmvbenchError(f"{name} ends before its {count:,} {what}")
    text = text[: count * width]
    if len(text.translate(None, _NO_NUMBER)) < len(text):
        raise SpmvbenchError(f"{name} has other characters than those of numbers among its {what}")
    if real:
        text = text.upper().replace(b"D", b"E")
        if text.count(b".") != count:
            # Fortran scales a number without a point by the format's decimals, the collection's own reader does not.
            raise SpmvbenchError(f"{name} writes {what} without a decimal point, which readers take differently")
        fields = np.frombuffer(text, dtype=f"S{width}")
        try:
            return fields.astype(np.float64)
        except ValueError:  # 1.5-103: Fortran drops the E before an exponent of three digits
            return np.array([re.sub(rb"(?<=[\d.])([+-])", rb"E\1", field) for field in fields]).astype(np.float64)
    return np.frombuffer(text, dtype=f"S{width}").astype(np.int64)


def read(path: Path) -> tuple[Any, bool, str]:
    """The stored entries as a scipy.sparse.coo_array, whether it is a pattern, and the symmetry to expand.

    Complex matrices come as complex. Raises SpmvbenchError for elemental matrices and malformed files.
    """
    import scipy.sparse as sp

    name = path.name
    with open(path, "rb") as file:
        lines = file.readlines()
    try:
        cards = [int(field) for field in lines[1].split()]
        kind, *sizes = lines[2].decode("ascii").split()
        rows, cols, nnz = (int(size) for size in sizes[:3])
        forms = lines[3].decode("ascii").rstrip("\r\n")
        pointer_form, index_form, value_form = forms[:16], forms[16:32], forms[32:52]
        pointer_cards, index_cards, value_cards = cards[1:4]
        field, symmetry, storage = tuple(kind.lower())
    except (ValueError, IndexError, UnicodeDecodeError):
        raise SpmvbenchError(f"{name} has no Harwell-Boeing header in its first four lines") from None
    if field not in "rcpiq" or symmetry not in SYMMETRIES or storage != "a":
        raise SpmvbenchError(f"{name} is of type {kind}: only assembled matrices can be read")
    checked.size(rows, cols, nnz, name)
    if symmetry in "shz" and rows != cols:
        raise SpmvbenchError(f"{name} declares {rows} x {cols} with {nnz} entries as {kind}, which cannot be")
    start = 5 if len(cards) > 4 and cards[4] > 0 else 4  # a fifth line describes right-hand sides
    ends = np.cumsum([start, pointer_cards, index_cards, value_cards])
    blocks = [lines[a:b] for a, b in pairwise(ends)]
    pattern = field in "pq" or value_cards == 0
    try:
        ptr = _numbers(blocks[0], cols + 1, pointer_form, name, "column pointers") - 1
        idx = _numbers(blocks[1], nnz, index_form, name, "row indices") - 1
        if pattern:
            values = np.ones(nnz, dtype=np.int8)
        elif field == "c":
            values = _numbers(blocks[2], 2 * nnz, value_form, name, "values").view(np.complex128)
        else:
            values = _numbers(blocks[2], nnz, value_form, name, "values")
    except ValueError as error:
        raise SpmvbenchError(f"{name} is malformed: {error}") from None
    if ptr[0] != 0 or ptr[-1] != nnz or (np.diff(ptr) < 0).any() or (nnz and not 0 <= idx.min() <= idx.max() < rows):
        raise SpmvbenchError(f"{name} is malformed: its pointers or indices leave the {rows} x {cols} matrix")
    index = index_dtype(max(rows, cols, nnz))
    coordinates = idx.astype(index), np.repeat(np.arange(cols, dtype=index), np.diff(ptr))
    return sp.coo_array((values, coordinates), shape=(rows, cols)), pattern, SYMMETRIES[symmetry]
