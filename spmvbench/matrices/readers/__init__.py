"""Readers of matrix files, registered by suffix: one module each, found by this import.

Files are not trusted. Sizes and indices are checked (`checked`) before compiled code, which trusts indices, computes
with them. An unreadable file raises SpmvbenchError with one sentence.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Stored(NamedTuple):
    """What a file holds.

    matrix: a scipy.sparse matrix, or a dense array whose zeros are not stored. pattern: its values mean nothing.
    symmetry: general, symmetric, skew-symmetric or hermitian; the others than general are expanded, from coo_array.
    """

    matrix: Any
    pattern: bool = False
    symmetry: str = "general"


Reader = Callable[..., Stored]  # of the path, and of the name of a matrix if it is one of SEVERAL and a name is given
READERS: dict[str, Reader] = {}
SEVERAL: set[Reader] = set()  # readers of files that may hold several matrices
KNOWN: list[str] = []  # the suffixes that messages name


def reads(*suffixes: str, also: Iterable[str] = (), several: bool = False) -> Callable[[Reader], Reader]:
    """Register a reader for file names with these suffixes, in lower case; also: more of them, which none names.

    several: files may hold several matrices, and the reader takes the name of one, too; see `archive.choice`.
    """

    def register(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys([*suffixes, *also], reader))
        KNOWN.extend(suffixes)
        SEVERAL.update([reader] if several else [])
        return reader

    return register


def reader(name: str) -> Reader | None:
    """The reader of the longest suffix that a file name has in any case, None if there is none."""
    found = [suffix for suffix in READERS if name.lower().endswith(suffix)]
    return READERS[max(found, key=len)] if found else None


for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
