"""Harwell-Boeing and Rutherford-Boeing files: scipy.io.hb_read knows real unsymmetric matrices in E format only.

Formats: Duff, Grimes, Lewis, Users' guide for the Harwell-Boeing sparse matrix collection, 1992, and The
Rutherford-Boeing sparse matrix collection, RAL-TR-97-031, 1997. Both hold compressed columns in fixed-width fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.formats.arrays import cdiv, index_dtype
from spmvbench.matrices.readers import Stored, checked, reads

SYMMETRIES = {"u": "general", "r": "general", "s": "symmetric", "z": "skew-symmetric", "h": "hermitian"}


WIDEST = 80  # characters of a field, or skipped; lines of the collection's files have 80 in all
# A repetition and a parenthesis, skipped characters or a field; a scale; or signs and what separates all of these.
_TOKEN = re.compile(
    r"(\d{0,9})(?:([(X])|(I|ES|EN|[EDFG])(\d{1,2})(?:\.\d+)?(?:E\d+)?)|([+-]?\d+)P|(S[PS]?|BN|[),])", re.ASCII
)
_NO_NUMBER = bytes(byte for byte in range(256) if byte not in b"0123456789+-.EDed ")
_EXPONENT = re.compile(rb"[\d.] *(E|[+-]\d)")


@dataclass
class _Line:
    """The numbers in a line by a Fortran format, or by a part of it.

    fields: first character, and behind the last, of each. again: place in `fields`, and character, where the last group
    in parentheses begins: a format that is used up is continued from there. scaled: by a factor P.
    """

    fields: list[tuple[int, int]] = field(default_factory=list)
    width: int = 0
    real: bool = False
    scaled: bool = False
    again: tuple[int, int] = (0, 0)

    def add(self, part: _Line, times: int, most: int) -> None:
        """Append a part, as often as `times` says and `most` numbers need."""
        if self.fields and part.fields and self.real != part.real:
            raise ValueError("integers beside other numbers")
        if not part.fields:
            self.width += part.width * times
        for _ in range(min(times, cdiv(most, len(part.fields))) if part.fields else 0):
            self.fields += [(self.width + first, self.width + end) for first, end in part.fields]
            self.width += part.width
        self.real, self.scaled = self.real or part.real, self.scaled or part.scaled
        if self.width > 2 * WIDEST * (len(self.fields) + 1):
            raise ValueError("too wide")

    def following(self) -> list[tuple[int, int]]:
        """The fields of the lines after the first."""
        place, start = self.again
        return [(first - start, end - start) for first, end in self.fields[place:]]


def _format(text: str, most: int, name: str) -> _Line:
    """The first line of a Fortran format such as (1P,4E20.12) or (1X,3(E24.16)), with at most `most` numbers."""
    packed, position = text.replace(" ", "").upper(), 0
    open_parts = [(_Line(), 1)]
    try:
        while match := _TOKEN.match(packed, position):
            position, count = match.end(), int(match[1] or 1)
            inner = open_parts[-1][0]
            if match[2] == "(":
                if len(open_parts) == 2:
                    inner.again = len(inner.fields), inner.width
                open_parts.append((_Line(), count))
            elif match[2] == "X":
                inner.add(_Line(width=count), 1, most)
            elif match[3]:
                width = int(match[4])
                inner.add(_Line([(0, width)] if width else [], width, match[3] != "I"), count, most)
            elif match[5]:
                inner.scaled = int(match[5]) != 0
            elif match[6] == ")":
                part, times = open_parts.pop()
                open_parts[-1][0].add(part, times, most)
        ((whole, _),) = open_parts  # of the outermost parentheses, whose group is the format
        if position < len(packed) or not packed.startswith("(") or not whole.fields:
            raise ValueError("not all of it is known")
    except (ValueError, IndexError):
        raise SpmvbenchError(
            f"{name} uses the Fortran format {text.strip()!r}, which is not one of a number a field"
        ) from None
    return whole


def _cut(lines: list[bytes], fields: list[tuple[int, int]]) -> np.ndarray:
    """The fields of lines as bytes, blanks before them if they are shorter than others: (lines * fields,)."""
    width, widest = fields[-1][1], max(end - first for first, end in fields)
    text = b"".join(line.rstrip(b"\r\n").ljust(width + 1)[:width] + b" " for line in lines)
    place = np.array([end for _, end in fields])[:, None] - np.arange(widest, 0, -1)
    place[place < np.array([first for first, _ in fields])[:, None]] = width  # the blank at the end
    characters = np.frombuffer(text, np.uint8).reshape(len(lines), width + 1)[:, place]
    found: np.ndarray = np.ascontiguousarray(characters).view(f"S{widest}").ravel()
    return found


def _numbers(lines: list[bytes], count: int, form: str, name: str, what: str) -> np.ndarray:
    """The first `count` numbers of fixed-width lines: int64 for an I format, else float64."""
    line = _format(form, count, name)
    if count == 0:
        return np.empty(0, dtype=np.float64 if line.real else np.int64)
    first, following = line.fields[:count], line.following()
    lines = lines[: 1 + cdiv(count - len(first), len(following))]
    if sum(map(len, lines)) < count or len(first) + (len(lines) - 1) * len(following) < count:
        raise SpmvbenchError(f"{name} ends before its {count:,} {what}")
    fields = _cut(lines[:1], first)
    if len(lines) > 1:
        fields = np.concatenate((fields, _cut(lines[1:], following)))[:count]
    text = fields.tobytes()
    if len(text.translate(None, _NO_NUMBER)) < len(text):
        raise SpmvbenchError(f"{name} has other characters than those of numbers among its {what}")
    if not fields[-1].strip():
        raise SpmvbenchError(f"{name} ends before its {count:,} {what}")
    if not line.real:
        return fields.astype(np.int64)
    text = text.upper().replace(b"D", b"E")
    fields = np.frombuffer(text, dtype=fields.dtype)
    if text.count(b".") != count:
        # Fortran scales a number without a point by the format's decimals, the collection's own reader does not.
        raise SpmvbenchError(f"{name} writes {what} without a decimal point, which readers take differently")
    if line.scaled and text.count(b"E") != count and not all(map(_EXPONENT.search, fields.tolist())):
        raise SpmvbenchError(f"{name} scales {what} without an exponent (P), which readers take differently")
    try:
        return fields.astype(np.float64)
    except ValueError:  # 1.5-103: Fortran drops the E before an exponent of three digits
        return np.array([re.sub(rb"(?<=[\d.])([+-])", rb"E\1", number) for number in fields]).astype(np.float64)


def header(lines: Sequence[bytes], name: str) -> tuple[list[int], str, tuple[int, int, int]]:
    """Numbers of lines, type of the matrix, and rows, columns and stored entries, of the first four lines of a file.

    Raises SpmvbenchError for elemental matrices and what is no header.
    """
    try:
        cards = [int(field) for field in lines[1].split()]
        kind, *sizes = lines[2].decode("ascii").split()
        rows, cols, nnz = (int(size) for size in sizes[:3])
        field, symmetry, storage = tuple(kind.lower())
        if len(lines) < 4 or len(cards) < 4:
            raise ValueError
    except (ValueError, IndexError, UnicodeDecodeError):
        raise SpmvbenchError(f"{name} has no Harwell-Boeing header in its first four lines") from None
    if field not in "rcpiq" or symmetry not in SYMMETRIES or storage != "a":
        raise SpmvbenchError(f"{name} is of type {kind}: only assembled matrices can be read")
    return cards, kind, (rows, cols, nnz)


@reads(".rb", ".hb", ".rua", also=("." + "".join(kind) for kind in product("rcpiq", "suhzr", "ae")))
def read(path: Path) -> Stored:
    """The stored entries as a scipy.sparse.coo_array.

    Complex matrices come as complex. Raises SpmvbenchError for elemental matrices and malformed files.
    """
    import scipy.sparse as sp

    name = path.name
    with open(path, "rb") as file:
        lines = file.readlines()
    cards, kind, (rows, cols, nnz) = header(lines, name)
    forms = lines[3].decode("latin-1").rstrip("\r\n")
    pointer_form, index_form, value_form = forms[:16], forms[16:32], forms[32:52]
    pointer_cards, index_cards, value_cards = cards[1:4]
    field, symmetry, _ = tuple(kind.lower())
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
    return Stored(sp.coo_array((values, coordinates), shape=(rows, cols)), pattern, SYMMETRIES[symmetry])
