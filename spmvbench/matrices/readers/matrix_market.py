"""Matrix Market text, from a plain, a gzipped or an archived file, streamed through a check into SciPy's parser.

Boisvert, Pozo, Remington, The Matrix Market exchange formats, NISTIR 5935, 1996. SciPy's parser takes of a number what
it understands and leaves the rest (2,5 is 2 and 0x10 is 0), and reads beyond its buffer at a NUL: so it is given lines
of nothing but numbers, as many as the header says, and a header whose sizes were compared with the file's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import Stored, checked, reads

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
_PLUS = re.compile(rb"(?<![eE])\+")  # before a number, where SciPy's parser knows none
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
    """What the text declares.

    entries: those that the text holds, without what symmetry adds in coordinates. line: the number of the last line
    before them.
    """

    layout: str
    field: str
    symmetry: str
    rows: int
    cols: int
    entries: int
    line: int

    def holds(self, rows: int, cols: int, least: int, most: int) -> bool:
        """Whether this may be a matrix of this shape with `least` to `most` entries, both triangles counted."""
        full = 2 * self.entries if self.symmetry != "general" and self.layout == "coordinate" else self.entries
        fewest = 0 if self.layout == "array" else full - min(rows, cols) if full > self.entries else full
        return (self.rows, self.cols) == (rows, cols) and fewest <= most and least <= full


@reads(".mtx", ".mtx.gz", ".tar.gz")
def read(path: Path) -> Stored:
    """The stored entries as a scipy.sparse.coo_array, or the whole of a dense array."""
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
            matrix = scipy.io.mmread(_Numbers(head, text, found.line, per_line, whole), spmatrix=False)
    except (ValueError, OverflowError) as error:
        reason = str(error)
        if of_line := re.fullmatch(r"Line (\d+): (.*)", reason):  # SciPy counts from the two lines of the header
            number = found.line + int(of_line[1]) - 2
            with _opened(path) as (text, _):
                line = next(itertools.islice(text, number - 1, None), b"")
            reason = f"{_named(number, line)}: {of_line[2]}"
        raise SpmvbenchError(f"{path.name} cannot be read as Matrix Market: {reason}") from None
    if pattern:
        matrix = sp.coo_array((np.ones(matrix.nnz, dtype=np.int8), matrix.coords), shape=matrix.shape)
    return Stored(matrix, pattern, "general" if dense else found.symmetry)


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
    number, line = _after_comments(text)
    if not re.fullmatch(rb"\s*\d{1,18}" + rb"[ \t]+\d{1,18}" * (sizes - 1) + rb"\s*", line):
        raise ValueError(f"{_named(number, line)}, is not its {sizes} sizes")
    rows, cols, *rest = (int(size) for size in line.split())
    return Header(layout, field, symmetry, rows, cols, rest[0] if rest else rows * cols, number)


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


def _after_comments(text: IO[bytes]) -> tuple[int, bytes]:
    """Number and text of the first line after the banner that is neither a comment nor blank, or the end.

    Comments of any length take no memory.
    """
    number = 2
    while line := text.readline(LINE):
        if line.startswith(b"%"):
            while line and not line.endswith(b"\n"):
                line = text.readline(LINE)
        elif line.strip():
            break
        number += 1
    return number, line


class _Numbers:
    """What SciPy's parser reads: a header, and then a text's lines, each of so many numbers and nothing else.

    line: number of the last line of the text that was read. whole: no number has a point or an exponent. An exponent
    that Fortran wrote with D is handed on with e, a number without its plus. `read` raises ValueError at the first line
    that is wrong.
    """

    def __init__(self, head: str, text: IO[bytes], line: int, per_line: int, whole: bool):
        self.ready, self.text, self.line, self.per_line = memoryview(head.encode()), text, line, per_line
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
                number = self.line + lines.count(b"\n") + 1
                raise ValueError(f"{_named(number, self.rest)}, begins a line of over {LINE} characters")
        if not lines and self.rest:
            lines, self.rest = self.rest + b"\n", b""
        if lines and not self._plain(lines):
            for number, line in enumerate(lines.split(b"\n"), self.line + 1):
                if line.strip() and not self.form.fullmatch(line.translate(_D_TO_E)):
                    numbers = f"{self.per_line} numbers of the kind that it declares"
                    raise ValueError(f"{_named(number, line)}, is not {numbers}")
            lines = lines.translate(_D_TO_E)
        self.line += lines.count(b"\n")
        return _PLUS.sub(b"", lines) if b"+" in lines else lines

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


def _named(number: int, line: bytes) -> str:
    """A line of the file in messages: its number, and its text as it is there."""
    text = line.decode("latin-1").strip()
    return f"line {number}, {text[:40] + '...' * (len(text) > 40)!r}"
