"""MATLAB's .mat files to version 7: the collection's `Problem`, or the only sparse variable.

MathWorks, MAT-File Format, level 5: SciPy's reader of it is compiled and ends the process on some damaged files. Its
reader of version 4 is Python alone and serves here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import checked

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _SPARSE, _DENSE = 2, 5, range(6, 16)
_COMPLEX, _LOGICAL = 1 << 11, 1 << 9


def read(path: Path) -> tuple[Any, bool, str]:
    """`Problem.A` with the stored zeros of `Problem.Zeros`, or the only sparse variable; see `readers`."""
    import scipy.sparse as sp

    data = path.read_bytes()
    try:
        variables = dict(_variables(data, path) if 0 not in data[:4] else _version_4(path))
        problem = variables.get("Problem")
        if isinstance(problem, dict) and "A" in problem:
            a, zeros = problem["A"], problem.get("Zeros")
            if a is None:
                raise ValueError("the A of its Problem is no matrix")
            if zeros is not None and sp.issparse(zeros) and zeros.nnz and zeros.shape == a.shape:
                # MATLAB stores no zeros, so the collection keeps their places in a matrix of their own.
                a, zeros = sp.coo_array(a), sp.coo_array(zeros)
                parts = zip(a.coords, zeros.coords, strict=True)
                values = np.concatenate((a.data, np.zeros(zeros.nnz, dtype=a.dtype)))
                a = sp.coo_array((values, tuple(np.concatenate(part) for part in parts)), shape=a.shape)
            return a, False, "general"
    except (ValueError, struct.error, zlib.error) as error:
        raise SpmvbenchError(f"{path.name} cannot be read as a MATLAB file: {error}") from None
    sparse = {name: value for name, value in variables.items() if sp.issparse(value)}
    if len(sparse) != 1:
        found = ", ".join(sparse) or "none"
        raise SpmvbenchError(f"{path.name} must hold one sparse matrix or the struct Problem; sparse in it: {found}")
    return next(iter(sparse.values())), False, "general"


def _variables(data: bytes, path: Path) -> Iterator[tuple[str, Any]]:
    """Name and value of each variable that may be wanted: a matrix, or a struct as a dict of such."""
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise ValueError("it has no header")
    if struct.unpack(f"{order}H", data[124:126])[0] == 0x0200:
        raise SpmvbenchError(f"{path.name} is a MATLAB 7.3 file (HDF5): save it with -v7 or as .mtx")
    limit = archive.unpacked_limit(path)
    for kind, part in _elements(memoryview(data)[128:], order):
        if kind == _COMPRESSED:
            stream = zlib.decompressobj()
            unpacked = stream.decompress(part, limit)
            if not stream.eof:
                raise ValueError("a variable is cut short, or unpacks to too much")
            kind, part = next(_elements(memoryview(unpacked), order), (0, part))
        if kind == _MATRIX:
            name, value = _variable(part, order, path.name)
            if value is not None:
                yield name, value


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Type and content of each data element."""
    while len(data) >= 8:
        kind, count = struct.unpack(f"{order}II", data[:8])
        start, step = 8, 8 + count + (-count % 8 if kind != _COMPRESSED else 0)
        if kind >> 16:  # a small element: both in the first four bytes, and the content in the next
            kind, count, start, step = kind & 0xFFFF, kind >> 16, 4, 8
        if start + count > len(data) or (start == 4 and count > 4):
            raise ValueError("it is cut short")
        yield kind, data[start : start + count]
        data = data[step:]


def _numbers(element: tuple[int, memoryview], order: str) -> np.ndarray:
    kind, data = element
    if kind not in _TYPES:
        raise ValueError(f"it holds type {kind} where numbers should be")
    return np.frombuffer(data, dtype=order + _TYPES[kind])


def _variable(data: memoryview, order: str, file: str, inner: bool = False) -> tuple[str, Any]:
    """Name of a matrix element and its value: a matrix, a dict for a struct of the outermost level, else None."""
    elements = _elements(data, order)

    def following() -> tuple[int, memoryview]:
        found = next(elements, None)
        if found is None:
            raise ValueError("a variable lacks a part")
        return found

    flags = _numbers(following(), order)
    shape = _numbers(following(), order)
    name = bytes(following()[1]).decode("latin-1")
    if len(flags) != 2 or shape.dtype.kind != "i":
        raise ValueError("a variable has no flags or no shape")
    kind, parts = int(flags[0]) & 0xFF, 2 if int(flags[0]) & _COMPLEX else 1

    def values() -> np.ndarray:
        found = [_numbers(following(), order) for _ in range(parts)]
        if parts == 2:
            return found[0] + 1j * found[1]
        return found[0].astype(bool if int(flags[0]) & _LOGICAL else np.float64)

    if kind == _STRUCT and not inner and shape.tolist() == [1, 1]:
        length, names = _numbers(following(), order), bytes(following()[1])
        if len(length) != 1 or length[0] < 1:
            raise ValueError("a struct has no names")
        fields = [names[i : i + int(length[0])].split(b"\0")[0] for i in range(0, len(names), int(length[0]))]
        found = {field.decode("latin-1"): following() for field in fields}
        return name, {
            field: _variable(part, order, file, inner=True)[1]
            for field, (kind, part) in found.items()
            if field in ("A", "Zeros") and kind == _MATRIX
        }
    if kind == _SPARSE and len(shape) == 2:
        rows, cols = shape.tolist()
        indices, pointers = (_numbers(following(), order) for _ in range(2))
        stored = int(pointers[-1]) if len(pointers) else 0  # more may be reserved than are used
        return name, _columns(rows, cols, pointers, indices[:stored], values()[:stored], file)
    if kind in _DENSE and len(shape) == 2 and inner:
        return name, values().reshape(shape.tolist(), order="F")
    return name, None


def _columns(rows: int, cols: int, pointers: np.ndarray, indices: np.ndarray, data: np.ndarray, name: str) -> Any:
    import scipy.sparse as sp

    checked.size(rows, cols, len(data), name)
    checked.compressed(cols, rows, pointers, indices, len(data), name)
    return sp.csc_array((data, indices.astype(np.int32), pointers.astype(np.int32)), shape=(rows, cols))


def _version_4(path: Path) -> dict[str, Any]:
    import scipy.io
    import scipy.sparse as sp

    try:
        found = scipy.io.loadmat(path)
    except MemoryError:
        raise
    except Exception as error:  # whatever SciPy's reader says of bytes that nobody vouches for
        raise ValueError(str(error)) from None
    sparse = {}
    for name, a in found.items():
        if sp.issparse(a):
            a = sp.coo_array(a)
            (rows, cols), (row, col) = a.shape, a.coords
            checked.size(rows, cols, len(a.data), path.name)
            checked.coordinates(rows, cols, row, col, len(a.data), path.name)
            sparse[name] = a
    return sparse
