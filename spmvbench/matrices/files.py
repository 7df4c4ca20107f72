"""Reading of matrix files into canonical CSR, with a binary cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats.arrays import index_dtype
from spmvbench.matrices import cache, values
from spmvbench.matrices.readers import KNOWN, SEVERAL, checked, reader

ComplexValues = Literal["refuse", "real"]


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


class Complex(SpmvbenchError):
    """Raised for a complex matrix if its real part was not asked for."""


def is_matrix_file(name: str) -> bool:
    """Whether a file name has the suffix of a known matrix format."""
    return reader(name) is not None


def read(path: str | Path, *, name: str = "", seed: int = 0, complex_values: ComplexValues = "refuse") -> Any:
    """A matrix file as a scipy.sparse.csr_array: canonical, float64, indices int32 unless nnz needs int64.

    Read are Matrix Market (.mtx, .mtx.gz, or the collection's .tar.gz), Rutherford-Boeing and Harwell-Boeing (.rb, .hb,
    .rua and the like), MATLAB 5 (.mat: the collection's `Problem`, or a sparse variable) and SciPy's .npz.
    name: of one of several matrices in a MATLAB file (a variable) or an archive (a path without suffix).

    Symmetric, skew-symmetric and Hermitian matrices are expanded, duplicates summed, stored zeros kept. A pattern (also
    a matrix of truth values) gets values from `seed` and the entries' positions, symmetric ones if the file declares
    symmetry. complex_values: "refuse" raises for a complex matrix, "real" takes its real part. The second read comes
    from a cache in `home()`. Raises SpmvbenchError for an unreadable file, UsageError for an unknown suffix.
    """
    import scipy.sparse as sp

    path = Path(path)
    if not path.is_file():
        raise SpmvbenchError(f"there is no file {path}")
    kept = cache.load(cache.location(path, name), cache.identity(path))
    if kept:
        facts, arrays = kept
        flags = {name: facts[name] for name in ("symmetric", "real_part", "seed")}
        content = Content(tuple(facts["shape"]), arrays["row_ptr"], arrays["col_idx"], arrays["values"], **flags)
    else:
        identity = cache.identity(path)
        content = _valued(_parse(path, name), seed)
        facts = {name: value for name, value in vars(content).items() if not isinstance(value, np.ndarray)}
        arrays = {name: value for name, value in vars(content).items() if isinstance(value, np.ndarray)}
        cache.save(cache.location(path, name), identity | facts, arrays)
    if content.real_part and complex_values == "refuse":
        raise Complex(
            f"{path.name} is complex and formats hold real values: only its real part can be taken (--real-part)"
        )
    if content.seed not in (None, seed):
        content = _valued(replace(content, values=None), seed)
    a = sp.csr_array((content.values, content.col_idx, content.row_ptr), shape=content.shape)
    a.has_canonical_format = True
    return a


def _valued(content: Content, seed: int) -> Content:
    """The content with values: those of the file, or of the seed for a pattern."""
    if content.values is not None:
        return content
    of_seed = values.by_position(content.row_ptr, content.col_idx, content.shape[1], seed, symmetric=content.symmetric)
    return replace(content, values=of_seed, seed=seed)


def _parse(path: Path, name: str = "") -> Content:
    """A matrix of a file, by the reader for its suffix. Whatever that raises for its bytes is a SpmvbenchError."""
    read_of = reader(path.name)
    if read_of is None:
        raise UsageError(f"cannot tell what {path.name} is: known are {', '.join(sorted(KNOWN))}")
    if name and read_of not in SEVERAL:
        raise SpmvbenchError(f"{path.name} holds one matrix, which has no name: leave out :{name}")
    try:
        return _content(*(read_of(path, name) if name else read_of(path)), path.name)
    except SpmvbenchError:
        raise
    except MemoryError:
        raise SpmvbenchError(f"{path.name} holds or declares more than this machine's memory does") from None
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise SpmvbenchError(f"{path.name} cannot be read: {reason}") from error


def _content(matrix: Any, pattern: bool, symmetry: str, name: str) -> Content:
    """Canonical CSR of what a reader returns; see `Stored`."""
    import scipy.sparse as sp

    rows, cols = matrix.shape
    checked.size(rows, cols, matrix.size, name)
    # The widest type of each kind: sums of duplicates must not overflow or be rounded to a narrower one.
    widest = {"b": np.bool_, "i": np.int64, "u": np.int64, "c": np.complex128}
    numbers = matrix if isinstance(matrix, np.ndarray) else matrix.data
    checked.exact(numbers, name)
    matrix = matrix.astype(widest.get(numbers.dtype.kind, np.float64), copy=False)
    if symmetry != "general":
        matrix = _expand(matrix, symmetry, name)
    a = sp.csr_array(matrix)
    a.sum_duplicates()  # sorts the columns too
    if a.dtype.kind == "i" and a.nnz < matrix.size:
        rounded = sp.csr_array(matrix.astype(np.float64))
        rounded.sum_duplicates()
        checked.exact(a.data, name, rounded.data)
    if a.dtype == np.bool_:
        a.eliminate_zeros()  # False is no entry of a pattern, and blocks hold it
        pattern = True
    is_complex = a.dtype.kind == "c"
    data = None if pattern else (a.data.real if is_complex else a.data).astype(np.float64)
    index = index_dtype(a.nnz)
    row_ptr, col_idx = a.indptr.astype(index, copy=False), a.indices.astype(index, copy=False)
    return Content(a.shape, row_ptr, col_idx, data, symmetric=symmetry == "symmetric", real_part=is_complex)


def _expand(stored: Any, symmetry: str, name: str) -> Any:
    """Both triangles of a scipy.sparse.coo_array that holds one. Raises SpmvbenchError if it holds more.

    The diagonal of a skew-symmetric matrix is its own negative, that of a Hermitian one its own conjugate: any other is
    refused, too.
    """
    import scipy.sparse as sp

    rows, cols = stored.coords
    off, below = rows != cols, rows > cols
    on = stored.data[~off]
    if (symmetry == "skew-symmetric" and on.any()) or (symmetry == "hermitian" and on.imag.any()):
        raise SpmvbenchError(f"{name} is declared {symmetry} and its diagonal is not")
    if below.any() and not below[off].all():
        # Most of one triangle and some of the other is a matrix; an entry in both would be added to itself.
        keys = np.minimum(rows, cols).astype(np.int64) << 32 | np.maximum(rows, cols)
        if len(np.intersect1d(keys[below], keys[off & ~below])):
            raise SpmvbenchError(f"{name} is declared {symmetry} and holds entries of both triangles")
    whole = off.all()
    off_rows, off_cols, off_data = (part if whole else part[off] for part in (*stored.coords, stored.data))
    if symmetry == "skew-symmetric":
        off_data = -off_data
    elif symmetry == "hermitian":
        off_data = off_data.conj()
    coordinates = np.concatenate((rows, off_cols)), np.concatenate((cols, off_rows))
    return sp.coo_array((np.concatenate((stored.data, off_data)), coordinates), shape=stored.shape)
