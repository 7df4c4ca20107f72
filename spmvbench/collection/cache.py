"""The binary cache of matrix files: canonical CSR as flat arrays, mapped into memory instead of read.

A cache file is one line of JSON, padded to a multiple of 64 bytes, and then the arrays, each padded the same way. It
stands beside its source where that lies in `home()`, else in `home()/cache`: a user's own folders stay untouched.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spmvbench.paths import home, written_whole

VERSION = 2
ALIGN = 64

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Content:
    """What a matrix file holds, symmetry expanded, as canonical CSR.

    row_ptr: (rows + 1,); col_idx: (nnz,); values: (nnz,) float64, None for a pattern that has none yet. symmetric: a
    pattern that was declared symmetric, so that its values should be. real_part: the file is complex and the values are
    its real part. seed: where a pattern got its values from, None where the file has values of its own.
    """

    shape: tuple[int, int]
    row_ptr: np.ndarray
    col_idx: np.ndarray
    values: np.ndarray | None
    symmetric: bool = False
    real_part: bool = False
    seed: int | None = None


def location(source: Path) -> Path:
    """Where the cache of a matrix file lies."""
    source = source.resolve()
    root = home().resolve()
    if source.is_relative_to(root):
        return source.with_name(source.name + ".csr")
    digest = hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
    return root / "cache" / f"{source.name}-{digest}.csr"


def _identity(source: Path) -> dict[str, int]:
    """What a cache must agree with to be that of the file as it is now: copies and editors may keep the first time."""
    status = source.stat()
    times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
    return {"version": VERSION, "size": status.st_size} | times


def _padding(length: int) -> int:
    return -length % ALIGN


def save(source: Path, content: Content) -> None:
    """Write the cache of a matrix file, whole or not at all; where that fails, the log says so."""
    arrays = {"row_ptr": content.row_ptr, "col_idx": content.col_idx}
    if content.values is not None:
        arrays["values"] = content.values
    header = _identity(source) | {
        "shape": content.shape,
        "symmetric": content.symmetric,
        "real_part": content.real_part,
        "seed": content.seed,
        "arrays": {name: [array.dtype.name, len(array)] for name, array in arrays.items()},
    }
    line = json.dumps(header).encode()
    target = location(source)
    try:
        with written_whole(target) as file:
            file.write(line + b" " * _padding(len(line) + 1) + b"\n")
            for array in arrays.values():
                file.write(array.data)
                file.write(bytes(_padding(array.nbytes)))
    except OSError as error:
        log.warning("no cache for %s: %s", source, error)


def load(source: Path) -> Content | None:
    """The cached content of a matrix file, None where there is no cache of the file as it is now.

    The arrays are private copies on write of the mapped file. A damaged cache is logged and counts as none.
    """
    target = location(source)
    try:
        with open(target, "rb") as file:
            line = file.readline()
            header = json.loads(line)
            identity = _identity(source)
            if {key: header.get(key) for key in identity} != identity:
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        arrays = {}
        position = len(line)
        for name, (dtype, length) in header["arrays"].items():
            arrays[name] = np.frombuffer(mapped, dtype, length, position) if length else np.empty(0, dtype)
            position += arrays[name].nbytes + _padding(arrays[name].nbytes)
        row_ptr, col_idx, values = arrays["row_ptr"], arrays["col_idx"], arrays.get("values")
        if position != len(mapped) or len(row_ptr) != header["shape"][0] + 1 or row_ptr[-1] != len(col_idx):
            raise ValueError("its arrays do not fit together")
        rows, cols = header["shape"]
        facts = {name: header[name] for name in ("symmetric", "real_part", "seed")}
        return Content((rows, cols), row_ptr, col_idx, values, **facts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        log.warning("the cache %s is damaged (%s) and is built again", target, error)
        return None
