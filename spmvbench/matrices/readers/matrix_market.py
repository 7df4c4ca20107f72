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

_D_TO_E = bytes.maketrans(b"dD", b"ee")
_PLUS = re.compile(rb"(?<![eE])\+")  # before a number, where SciPy's parser knows none
# Possessive: no part of a line is tried again in another way.
_BLANK, _WHOLE = rb"[ \t\r]", rb"[+-]?\d++"
_NUMBER = rb"[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:[eEdD][+-]?\d++)?|(?i:nan|inf(?:inity)?))"


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


@reads(".tar.gz", several=True)
def of_archive(path: Path, name: str = "") -> Stored:
    """The matrix of a path in the archive, without suffix, else that of the archive's name, or the only one."""
    return read(path, name)


@reads(".mtx", ".mtx.gz")
def read(path: Path, member: str = "") -> Stored:
    """The stored entries as a scipy.sparse.coo_array, or the whole of a dense array; member: of an archive."""
    import scipy.io
    import scipy.sparse as sp

    try:
        with _opened(path, member) as (text, most):
            found = header(text)
            dense, pattern = found.layout == "array", found.field == "pattern"
            _check(found, path.name, most)
            # Dense arrays are expanded by SciPy; of sparse ones it reads the stored entries alone.
            words = (found.layout, found.field, found.symmetry if dense else "general")
            sizes = (found.rows, found.cols) if dense else (found.rows, found.cols, found.entries)
            head = f"%%MatrixMarket matrix {' '.join(words)}\n{' '.join(map(str, sizes))}\n"
            value = _WHOLE if found.field in ("integer", "unsigned-integer") else _NUMBER
            numbers = [_WHOLE] * (0 if dense else 2) + [value] * _FIELDS[found.field]
            matrix = scipy.io.mmread(_Numbers(head, text, found.line, numbers), spmatrix=False)
    except (ValueError, OverflowError) as error:
        reason = str(error)
        if of_line := re.fullmatch(r"Line (\d+): (.*)", reason):  # SciPy counts from the two lines of the header
            number = found.line + int(of_line[1]) - 2
            with _opened(path, member) as (text, _):
                line = next(itertools.islice(text, number - 1, None), b"")
            reason = f"{_named(number, line)}: {of_line[2]}"
        raise SpmvbenchError(f"{path.name} cannot be read as Matrix Market: {reason}") from None
    if pattern:
        matrix = sp.coo_array((np.ones(matrix.nnz, dtype=np.int8), matrix.coords), shape=matrix.shape)
    return Stored(matrix, pattern, "general" if dense else found.symmetry)


@contextmanager
def _opened(path: Path, member: str) -> Iterator[tuple[IO[bytes], int]]:
    """The text of a .mtx, .mtx.gz or .tar.gz file as a buffered stream, and the most bytes that it may give."""
    name = path.name.lower()
    most = archive.unpacked_limit(path) if name.endswith(".gz") else path.stat().st_size
    if name.endswith(".tar.gz"):
        with archive.open_matrix(path, path.name[: -len(".tar.gz")], asked=member) as text:
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

    line: number of the last line of the text that was read. numbers: the form of each. An exponent that Fortran wrote
    with D is handed on with e, a number without its plus. `read` raises ValueError at the first line that is wrong.
    """

    def __init__(self, head: str, text: IO[bytes], line: int, numbers: list[bytes]):
        self.ready, self.text, self.line, self.per_line = memoryview(head.encode()), text, line, len(numbers)
        form = _BLANK + b"*+(?:" + (_BLANK + b"++").join(numbers) + _BLANK + b"*+)?"
        self.form, self.forms = re.compile(form), re.compile(b"(?:" + form + b"\n)*+")
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
        if not self.forms.fullmatch(lines):
            for number, line in enumerate(lines.split(b"\n"), self.line + 1):
                if not self.form.fullmatch(line):
                    numbers = f"{self.per_line} numbers of the kind that it declares"
                    raise ValueError(f"{_named(number, line)}, is not {numbers}")
        self.line += lines.count(b"\n")
        if b"d" in lines or b"D" in lines:
            lines = lines.translate(_D_TO_E)
        return _PLUS.sub(b"", lines) if b"+" in lines else lines


def _named(number: int, line: bytes) -> str:
    """A line of the file in messages: its number, and its text as it is there."""
    text = line.decode("latin-1").strip()
    return f"line {number}, {text[:40] + '...' * (len(text) > 40)!r}"
