"""The binary cache of matrix files: canonical CSR as flat arrays, memory-mapped instead of read.

A cache file is one line of JSON, padded to a multiple of 64 bytes, then the arrays, each padded the same way, then the
CRC-32 of all that. It is next to its source if the source is in `home()`, else in `home()/cache`, so that nothing is
written to other folders of a user.
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

from spmvbench.paths import home, is_own, opened, written_whole

VERSION = 3
ALIGN = 64
HEADER = 1 << 16  # bytes, limit for the line of JSON
CHECKSUM = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a matrix file as canonical CSR, with symmetry expanded.

    row_ptr: (rows + 1,); col_idx: (nnz,); values: (nnz,) float64, None for a pattern without values. symmetric: the
    pattern was declared symmetric, so that generated values must be symmetric. real_part: the file is complex and the
    values are its real part. seed: of the values of a pattern, None if the file has values.
    """

    shape: tuple[int, int]
    row_ptr: np.ndarray
    col_idx: np.ndarray
    values: np.ndarray | None
    symmetric: bool = False
    real_part: bool = False
    seed: int | None = None


def location(source: Path) -> Path:
    """The path of the cache of a matrix file."""
    source = source.resolve()
    root = home().resolve()
    if source.is_relative_to(root):
        return source.with_name(source.name + ".csr")
    digest = hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
    return root / "cache" / f"{source.name[:50]}-{digest}.csr"


def _identity(source: Path) -> dict[str, int]:
    """Version, size and times that a valid cache must have. Two times, because copies and editors may keep one."""
    status = source.stat()
    times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
    return {"version": VERSION, "size": status.st_size} | times


def _padding(length: int) -> int:
    return -length % ALIGN


def save(source: Path, content: Content) -> None:
    """Write the cache of a matrix file atomically. A failure is logged."""
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
    parts: list[bytes | memoryview] = [line + b" " * _padding(len(line) + 1) + b"\n"]
    for array in arrays.values():
        parts += [array.data.cast("B") if array.nbytes else b"", bytes(_padding(array.nbytes))]
    target, checksum = location(source), 0
    try:
        with written_whole(target) as file:
            for part in parts:
                file.write(part)
                checksum = crc32(part, checksum)
            file.write(checksum.to_bytes(CHECKSUM, "little"))
    except OSError as error:
        log.warning("no cache for %s: %s", source, error)


def crc32(data: bytes | memoryview, before: int = 0) -> int:
    """CRC-32 as by zlib, four times as fast, so that checking costs no more than reading the memory."""
    from isal import isal_zlib

    return isal_zlib.crc32(data, before)


def load(source: Path) -> Content | None:
    """The cached content of a matrix file, None if there is no valid cache.

    The arrays are copy-on-write views of the mapped file. A damaged cache is logged and ignored.
    """
    target = location(source)
    try:
        with open(opened(target), "rb") as file:
            if not is_own(os.fstat(file.fileno())):
                raise ValueError("another user wrote it")
            line = file.readline(HEADER)
            header = json.loads(line)
            if not isinstance(header, dict):
                raise ValueError("it has no header")
            identity = _identity(source)
            if {key: header.get(key) for key in identity} != identity:
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        checked = memoryview(mapped)[:-CHECKSUM]
        if crc32(checked) != int.from_bytes(mapped[-CHECKSUM:], "little"):
            raise ValueError("its checksum is another one")
        arrays = {}
        position = len(line)
        for name, (dtype, length) in header["arrays"].items():
            arrays[name] = np.frombuffer(mapped, dtype, length, position) if length else np.empty(0, dtype)
            position += arrays[name].nbytes + _padding(arrays[name].nbytes)
        row_ptr, col_idx, values = arrays["row_ptr"], arrays["col_idx"], arrays.get("values")
        if position != len(checked) or len(row_ptr) != header["shape"][0] + 1 or row_ptr[-1] != len(col_idx):
            raise ValueError("its arrays do not fit together")
        rows, cols = header["shape"]
        facts = {name: header[name] for name in ("symmetric", "real_part", "seed")}
        return Content((rows, cols), row_ptr, col_idx, values, **facts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        log.warning("the cache %s is damaged (%s) and is built again", target, error)
        return None
