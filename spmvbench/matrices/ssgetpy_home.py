"""The folder of the package ssgetpy: matrices that it has downloaded, and its index.

Importing any part of ssgetpy downloads the index unless its folder has one of the last 90 days. Its own downloads are
slow and not checked, so that only its objects are used, after its index was written from this project's.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sqlite3
import tarfile
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

COLUMNS = (
    "id INTEGER PRIMARY KEY, matrixgroup TEXT, name TEXT, rows INTEGER, cols INTEGER, nnz INTEGER, dtype TEXT, "
    "is2d3d INTEGER, isspd INTEGER, psym REAL, nsym REAL, kind TEXT"
)
FRESH = "SELECT COUNT(*) FROM MATRICES, update_table WHERE update_date > datetime('now', '-30 days')"


def folder() -> Path:
    """The folder of this user, which need not exist."""
    return Path(os.environ.get("HOME") or os.path.expanduser("~")) / ".ssgetpy"


@contextmanager
def archive(group: str, name: str) -> Iterator[Path | None]:
    """An archive as the site has it of a matrix that ssgetpy has downloaded, None if it has not.

    What ssgetpy has unpacked is packed again, for the duration of the block.
    """
    place = folder() / "MM" / group
    packed, unpacked = place / f"{name}.tar.gz", place / name
    if packed.is_file() or not (unpacked / f"{name}.mtx").is_file():
        yield packed if packed.is_file() else None
        return
    with tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary, packed.name)
        with tarfile.open(again, "w:gz", compresslevel=1) as tar:
            for file in sorted(unpacked.glob("*.mtx")):
                tar.add(file, f"{name}/{file.name}")
        yield again


def matrices(rows: Iterable[tuple[Any, ...]], index: Iterable[tuple[Any, ...]]) -> list[Any]:
    """A list of ssgetpy.Matrix objects, one for each row of their arguments.

    index: such rows of the whole collection, written to the folder if it has none of the last 30 days. Raises
    ImportError if ssgetpy is not installed, OSError and sqlite3.Error if its folder cannot be written.
    """
    if importlib.util.find_spec("ssgetpy") is None:
        raise ImportError("ssgetpy is not installed")
    folder().mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder() / "index.db")) as database, database:
        database.execute(f"CREATE TABLE IF NOT EXISTS MATRICES ({COLUMNS})")
        database.execute("CREATE TABLE IF NOT EXISTS update_table (update_date TIMESTAMP)")
        if not database.execute(FRESH).fetchone()[0]:
            database.execute("DELETE FROM MATRICES")
            database.executemany(f"INSERT INTO MATRICES VALUES ({', '.join('?' * 12)})", index)
            database.execute("INSERT INTO update_table VALUES (datetime('now'))")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        module = importlib.import_module("ssgetpy.matrix")
    found: list[Any] = module.MatrixList(module.Matrix(*row) for row in rows)
    return found
