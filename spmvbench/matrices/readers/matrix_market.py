"""Matrix Market text, from a plain, a gzipped or an archived file, streamed through a check into SciPy's parser.

Boisvert, Pozo, Remington, The Matrix Market exchange formats, NISTIR 5935, 1996. SciPy's parser takes of a number what
it understands and leaves the rest (2,5 is 2 and 0x10 is 0), and reads beyond its buffer at a NUL: so it is given lines
of nothing but numbers, as many as the header says, and a header whose sizes were compared with the file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import checked

CHUNK = 1 << 17
LINE = 1 << 12  # bytes of the longest line that is no comment

_FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")

# What may follow what among blanks, line ends, digits, signs, points, exponents and the letters of nan and infinity.
_KINDS = (b" \t\r", b"\n", b"0123456789", b"+-", b".", b"eE", b"nafityNAFITY")
_FOLLOW = ((0, 1, 2, 3, 4, 6), (0, 1, 2, 3, 4, 6), (0, 1, 2, 4, 5), (2, 4, 6), (0, 1, 2, 5), (2, 3), (0, 1, 6))
_BLANK, _END, _MARK, _LETTER = (
    0b11,
    1 << 1,
    0b11 << 4,
    1 << 6,
)  # blanks and line ends, those alone, points and exponents
_D_TO_E = bytes.maketrans(b"dD", b"ee")
_WHOLE = rb"[+-]?\d+"
_NUMBER = rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|inf|infinity))"


def _tables(kinds: int) -> tuple[bytes, bytes]:
    """For each byte the bit of its kind and the bits of what may come next; 0 for those not of the first `kinds`."""
    kind_of = {byte: kind for kind in range(kinds) for byte in _KINDS[kind]}
    bits = [sum(1 << kind for kind in follow if kind < kinds) for follow in _FOLLOW]
    known = [kind_of.get(byte) for byte in range(256)]
    return bytes(0 if k is None else 1 << k for k in known), bytes(0 if k is None else bits[k] for k in known)


_WHOLE_TABLES, _NUMBER_TABLES = _tables(4), _tables(7)


@dataclass(frozen=True)
class Header:
    """What the text declares. entries: those that the text holds, without what symmetry adds in coordinates."""

    layout: str
    field: str
    symmetry: str
    rows: int
    cols: int
    entries: int

    def holds(self, rows: int, cols: int, least: int, most: int) -> bool:
        """Whether this may be a matrix of this shape with `least` to `most` entries, both triangles counted."""
        full = 2 * self.entries if self.symmetry != "general" and self.layout == "coordinate" else self.entries
        fewest = 0 if self.layout == "array" else full - min(rows, cols) if full > self.entries else full
        return (self.rows, self.cols) == (rows, cols) and fewest <= most and least <= full


def read(path: Path) -> tuple[Any, bool, str]:
    """The stored entries as a scipy.sparse.coo_array, or the whole of a dense array; see `readers`."""
    import scipy.io
    import scipy.sparse as sp

    try:
        with _opened(path) as (text, most):
            found = header(text)
            dense, pattern = found.layout == "array", found.field == "pattern"
            _check(found, path.name, most)
            # Dense arrays are expanded by SciPy; of sparse ones it reads the stored entries alone.
            words = (found.layout, found.field, found.symmetry if dense else "general")
            sizes = (found.rows, found.cols) if dense else (found.rows, found.cols, found.entries)
            head = f"%%MatrixMarket matrix {' '.join(words)}\n{' '.join(map(str, sizes))}\n"
            per_line = _FIELDS[found.field] + (0 if dense else 2)
            whole = found.field in ("integer", "unsigned-integer", "pattern")
            matrix = scipy.io.mmread(_Numbers(head, text, per_line, whole), spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise SpmvbenchError(f"{path.name} cannot be read as Matrix Market: {error}") from None
    if pattern:
        matrix = sp.coo_array((np.ones(matrix.nnz, dtype=np.int8), matrix.coords), shape=matrix.shape)
    return matrix, pattern, "general" if dense else found.symmetry


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """The text of a .mtx, .mtx.gz or .tar.gz file as a buffered stream, and the most bytes that it may give."""
    name = path.name.lower()
    most = archive.unpacked_limit(path) if name.endswith(".gz") else path.stat().st_size
    if name.endswith(".tar.gz"):
        with archive.open_matrix(path, path.name[: -len(".tar.gz")]) as text:
            yield text, most
    elif name.endswith(".gz"):
        with archive.unpacked(path, path.name) as text:
            yield text, most
    else:
        with open(path, "rb") as text:
            yield text, most


def header(text: IO[bytes]) -> Header:
    """What a text declares; the stream is left at the entries. Raises ValueError where it declares nothing."""
    words = text.readline(LINE).decode("latin-1").lower().split()
    if words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("it does not begin with %%MatrixMarket matrix")
    layout, field, symmetry = words[2:] if len(words) == 5 else ("", "", "")
    sizes = {"coordinate": 3, "array": 2}.get(layout)
    if sizes is None or field not in _FIELDS or symmetry not in _SYMMETRIES or (field, sizes) == ("pattern", 2):
        raise ValueError(f"there is no kind {' '.join(words[2:])[:80]!r}")
    line = _after_comments(text)
    if not re.fullmatch(rb"\s*\d{1,18}" + rb"[ \t]+\d{1,18}" * (sizes - 1) + rb"\s*", line):
        raise ValueError(f"{_quoted(line)} is not its {sizes} sizes")
    rows, cols, *rest = (int(size) for size in line.split())
    return Header(layout, field, symmetry, rows, cols, *(rest or [rows * cols]))


def _check(found: Header, name: str, most: int) -> None:
    """Raise for what cannot be, or not here, or not in a text of `most` bytes."""
    if found.symmetry != "general" and found.rows != found.cols:
        raise SpmvbenchError(f"{name} is {found.symmetry} but {found.rows} x {found.cols}")
    checked.size(found.rows, found.cols, found.entries, name)
    # An entry takes a digit and a line end at least, in coordinates two digits more, with blanks.
    dense = found.layout == "array"
    lines = found.rows * (found.rows - 1) // 2 if dense and found.symmetry != "general" else found.entries
    if lines * (2 if dense else 4) > most + 1:
        raise ValueError(f"it declares {found.entries:,} entries, more than its bytes can hold")


def _after_comments(text: IO[bytes]) -> bytes:
    """The first line that is neither a comment nor blank; comments of any length take no memory."""
    while line := text.readline(LINE):
        if line.startswith(b"%"):
            while line and not line.endswith(b"\n"):
                line = text.readline(LINE)
        elif line.strip():
            return line
    return b""


class _Numbers:
    """What SciPy's parser reads: a header, and then a text's lines, each of so many numbers and nothing else.

    whole: no number has a point or an exponent. An exponent that Fortran wrote with D is handed on with e. `read`
    raises ValueError at the first line that is wrong.
    """

    def __init__(self, head: str, text: IO[bytes], per_line: int, whole: bool):
        self.ready, self.text, self.per_line = memoryview(head.encode()), text, per_line
        self.kind, self.follow = _WHOLE_TABLES if whole else _NUMBER_TABLES
        number = _WHOLE if whole else _NUMBER
        self.form = re.compile(rb"[ \t\r]*" + rb"[ \t\r]+".join([number] * per_line) + rb"[ \t\r]*")
        self.rest = b""  # the beginning of a line whose end was not read yet

    def read(self, size: int) -> bytes:
        if not self.ready:
            self.ready = memoryview(self._lines())
        given, self.ready = bytes(self.ready[:size]), self.ready[size:]
        return given

    def _lines(self) -> bytes:
        """The next whole lines, checked; nothing at the end of the text."""
        lines = b""
        while not lines and (data := self.text.read(CHUNK)):
            data = self.rest + data
            end = data.rfind(b"\n") + 1
            lines, self.rest = data[:end], data[end:]
            if len(self.rest) > LINE:
                raise ValueError(f"{_quoted(self.rest)} begins a line of over {LINE} characters")
        if not lines and self.rest:
            lines, self.rest = self.rest + b"\n", b""
        if lines and not self._plain(lines):
            lines = lines.translate(_D_TO_E)
            for line in lines.split(b"\n"):
                if line.strip() and not self.form.fullmatch(line):
                    raise ValueError(f"{_quoted(line)} is not {self.per_line} numbers of the kind that it declares")
        return lines

    def _plain(self, lines: bytes) -> bool:
        """Whether these are lines of numbers, by rules that cost little; where not, they may still be."""
        kind = np.frombuffer(lines.translate(self.kind), dtype=np.uint8)
        follow = np.frombuffer(lines.translate(self.follow), dtype=np.uint8)
        if not np.bitwise_and(follow[:-1], kind[1:]).all() or not kind[0] & follow[-1] or (kind == _LETTER).any():
            return False
        blank = kind <= _BLANK
        starts = np.flatnonzero(blank[:-1] > blank[1:])
        if len(starts) + (not blank[0]) != self.per_line * np.count_nonzero(kind == _END):
            return False
        # Of a number's marks, points and exponents, the first may be a point and the last an exponent.
        marks = np.flatnonzero((kind & _MARK) != 0)
        number = np.searchsorted(starts, marks)
        again = np.flatnonzero(number[1:] == number[:-1])
        return bool((kind[marks[again]] < kind[marks[again + 1]]).all())


def _quoted(line: bytes) -> str:
    text = line.decode("latin-1").strip()
    return repr(text[:40] + "..." * (len(text) > 40))
