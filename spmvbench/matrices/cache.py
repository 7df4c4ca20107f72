"""The cache of matrices: facts and arrays in one file, which is memory-mapped instead of read.

It holds matrix files as canonical CSR, matrices that the processes of a host share, and the features of matrices. A
cache file is one line of JSON, padded to a multiple of 64 bytes, then the arrays, each padded the same way, then the
CRC-32 of all that.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.paths import home, is_own, opened, written_whole

VERSION = 4
ALIGN = 64
HEADER = 1 << 16  # bytes, limit for the line of JSON
CHECKSUM = 4

log = logging.getLogger(__name__)

Facts = dict[str, Any]
Arrays = dict[str, np.ndarray]


def location(source: Path, name: str = "") -> Path:
    """The path of the cache of a matrix file: next to it if it is in `home()`, else in `home()/cache`, so that nothing
    is written to other folders of a user. name: of one of its matrices, whose cache is in `home()/cache`, too.
    """
    source = source.resolve()
    root = home().resolve()
    if source.is_relative_to(root) and not name:
        return source.with_name(source.name + ".csr")
    digest = hashlib.sha256(os.fsencode("\0".join(filter(None, [str(source), name])))).hexdigest()[:16]
    return root / "cache" / f"{source.name[:50]}-{digest}.csr"


def identity(source: Path) -> Facts:
    """Size and times that the cache of a file must have. Two times, because copies and editors may keep one."""
    status = source.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}


def _padding(length: int) -> int:
    return -length % ALIGN


def save(target: Path, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write facts, which JSON can hold, and flat arrays to a cache file atomically. A failure is logged."""
    listed = {name: [array.dtype.name, len(array)] for name, array in arrays.items()}
    line = json.dumps({"version": VERSION, **facts, "arrays": listed}).encode()
    parts: list[bytes | memoryview] = [line + b" " * _padding(len(line) + 1) + b"\n"]
    for array in arrays.values():
        parts += [np.ascontiguousarray(array).data.cast("B") if array.nbytes else b"", bytes(_padding(array.nbytes))]
    checksum = 0
    try:
        with written_whole(target) as file:
            for part in parts:
                file.write(part)
                checksum = crc32(part, checksum)
            file.write(checksum.to_bytes(CHECKSUM, "little"))
    except OSError as error:
        log.warning("the cache %s is not written: %s", target, error)


def crc32(data: bytes | memoryview, before: int = 0) -> int:
    """CRC-32 as by zlib, four times as fast, so that checking costs no more than reading the memory."""
    from isal import isal_zlib

    return isal_zlib.crc32(data, before)


def load(target: Path, expected: Mapping[str, Any] | None = None) -> tuple[Facts, Arrays] | None:
    """Facts and arrays of a cache file, None if there is none with the expected facts.

    The arrays are copy-on-write views of the mapped file. A damaged cache is logged and ignored.
    """
    try:
        with open(opened(target), "rb") as file:
            if not is_own(os.fstat(file.fileno())):
                raise ValueError("another user wrote it")
            line = file.readline(HEADER)
            facts = json.loads(line)
            if not isinstance(facts, dict):
                raise ValueError("it has no header")
            wanted = {"version": VERSION, **(expected or {})}
            if {key: facts.get(key) for key in wanted} != wanted:
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        checked = memoryview(mapped)[:-CHECKSUM]
        if crc32(checked) != int.from_bytes(mapped[-CHECKSUM:], "little"):
            raise ValueError("its checksum is another one")
        arrays = {}
        position = len(line)
        for name, (dtype, length) in facts.pop("arrays").items():
            arrays[name] = np.frombuffer(mapped, dtype, length, position) if length else np.empty(0, dtype)
            position += arrays[name].nbytes + _padding(arrays[name].nbytes)
        if position != len(checked):
            raise ValueError("its arrays do not fit together")
        return facts, arrays
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("the cache %s is damaged (%s) and is built again", target, error)
        return None
