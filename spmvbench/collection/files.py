"""Matrix files of every usual kind, read into canonical CSR and kept in a binary cache."""

from __future__ import annotations

import gzip
import re
import zlib
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from spmvbench.collection import archive, cache, harwell_boeing, values
from spmvbench.collection.cache import Content
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats.arrays import INT32_MAX, index_dtype

_BOEING = re.compile(r"\.(rb|hb|[rcpiq][suhzr][ae])")

ComplexValues = Literal["refuse", "real"]


def is_matrix_file(name: str) -> bool:
    """Whether a file of this name can be read here: its ending is a known one."""
    name = name.lower()
    return name.endswith((".mtx", ".mtx.gz", ".tar.gz", ".mat", ".npz")) or bool(_BOEING.fullmatch(Path(name).suffix))


def read(path: str | Path, *, seed: int = 0, complex_values: ComplexValues = "refuse") -> Any:
    """A matrix file as a scipy.sparse.csr_array: canonical, float64, indices int32 unless nnz needs int64.

    Read are Matrix Market (.mtx, .mtx.gz, or the collection's .tar.gz), Rutherford-Boeing and Harwell-Boeing (.rb, .hb,
    .rua and the like), MATLAB 5 (.mat: the collection's `Problem`, or the only sparse variable) and SciPy's .npz.

    Symmetric, skew-symmetric and Hermitian matrices are expanded, duplicates summed, stored zeros kept. A pattern (also
    a matrix of truth values) gets values from `seed` and the entries' positions, symmetric ones where the file declares
    symmetry. complex_values: "refuse" raises for a complex matrix, "real" takes its real part. The second read comes
    from a cache in `home()`. Raises SpmvbenchError for what cannot be read, UsageError for an unknown ending.
    """
    import scipy.sparse as sp

    path = Path(path)
    if not path.is_file():
        raise SpmvbenchError(f"there is no file {path}")
    content = cache.load(path)
    if content is None:
        content = _valued(_parse(path), seed)
        cache.save(path, content)
    if content.real_part and complex_values == "refuse":
        raise SpmvbenchError(
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


def _parse(path: Path) -> Content:
    """The content of a file, from the reader that its ending names."""
    name = path.name.lower()
    if name.endswith((".mtx", ".mtx.gz", ".tar.gz")):
        return _content(*_read_matrix_market(path), path.name)
    if name.endswith(".mat"):
        return _content(*_read_matlab(path), path.name)
    if name.endswith(".npz"):
        return _content(*_read_npz(path), path.name)
    if _BOEING.fullmatch(path.suffix.lower()):
        return _content(*harwell_boeing.read(path), path.name)
    raise UsageError(
        f"cannot tell what {path.name} is: known are .mtx, .mtx.gz, .tar.gz, .rb, .hb, .rua, .mat and .npz"
    )


def _content(matrix: Any, pattern: bool, symmetry: str, name: str) -> Content:
    """Canonical CSR of what a reader gave: a SciPy sparse matrix, or a dense array (whose zeros are not stored)."""
    import scipy.sparse as sp

    if max(matrix.shape) > INT32_MAX:
        raise SpmvbenchError(f"{name} is {matrix.shape[0]} x {matrix.shape[1]}: column indices must fit in 32 bits")
    if symmetry != "general":
        matrix = _expand(matrix, symmetry)
    a = sp.csr_array(matrix)
    a.sum_duplicates()  # sorts the columns too
    pattern = pattern or a.dtype == np.bool_
    is_complex = a.dtype.kind == "c"
    data = None if pattern else (a.data.real if is_complex else a.data).astype(np.float64)
    index = index_dtype(a.nnz)
    row_ptr, col_idx = a.indptr.astype(index, copy=False), a.indices.astype(index, copy=False)
    return Content(a.shape, row_ptr, col_idx, data, symmetric=symmetry == "symmetric", real_part=is_complex)


def _expand(stored: Any, symmetry: str) -> Any:
    """Both triangles of a scipy.sparse.coo_array that holds one."""
    import scipy.sparse as sp

    rows, cols = stored.coords
    off = rows != cols
    whole = off.all()
    off_rows, off_cols, off_data = (part if whole else part[off] for part in (rows, cols, stored.data))
    if symmetry == "skew-symmetric":
        off_data = -off_data
    elif symmetry == "hermitian":
        off_data = off_data.conj()
    coordinates = np.concatenate((rows, off_cols)), np.concatenate((cols, off_rows))
    return sp.coo_array((np.concatenate((stored.data, off_data)), coordinates), shape=stored.shape)


def _open_text(path: Path) -> AbstractContextManager[BinaryIO]:
    """The Matrix Market text of a .mtx, .mtx.gz or .tar.gz file as a buffered stream."""
    name = path.name.lower()
    if name.endswith(".tar.gz"):
        return archive.open_matrix(path, path.name[: -len(".tar.gz")])
    return gzip.open(path) if name.endswith(".gz") else open(path, "rb")


class _WithBanner:
    """A Matrix Market stream under another banner, to read the stored entries alone and expand them without copies."""

    def __init__(self, banner: bytes, text: BinaryIO):
        self.banner, self.text = banner, text

    def read(self, size: int) -> bytes:
        banner, self.banner = self.banner, b""
        return banner or self.text.read(size)


def _read_matrix_market(path: Path) -> tuple[Any, bool, str]:
    import scipy.io
    import scipy.sparse as sp

    try:
        with _open_text(path) as text:
            banner = text.readline(200)
            words = banner.decode("latin-1").lower().split()
            pattern, symmetry = "pattern" in words, words[-1] if words else ""
            if "coordinate" in words and symmetry in ("symmetric", "skew-symmetric", "hermitian"):
                banner = b"%%MatrixMarket " + " ".join([*words[1:-1], "general\n"]).encode()
            else:
                symmetry = "general"
            matrix = scipy.io.mmread(_WithBanner(banner, text), spmatrix=False)
    except (ValueError, OverflowError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SpmvbenchError(f"{path.name} cannot be read as Matrix Market: {error}") from None
    except MemoryError:
        raise SpmvbenchError(f"{path.name} declares more entries than this machine's memory holds") from None
    if symmetry != "general" and matrix.shape[0] != matrix.shape[1]:
        raise SpmvbenchError(f"{path.name} is {symmetry} but {matrix.shape[0]} x {matrix.shape[1]}")
    if pattern:
        matrix = sp.coo_array((np.ones(matrix.nnz, dtype=np.int8), matrix.coords), shape=matrix.shape)
    return matrix, pattern, symmetry


def _read_npz(path: Path) -> tuple[Any, bool, str]:
    import zipfile

    import scipy.sparse as sp

    try:
        return sp.load_npz(path), False, "general"
    except (ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile):
        raise SpmvbenchError(f"{path.name} is no matrix that scipy.sparse.save_npz wrote, or it is damaged") from None


def _read_matlab(path: Path) -> tuple[Any, bool, str]:
    """The collection's `Problem.A` with the stored zeros of `Problem.Zeros`, or the only sparse variable."""
    import scipy.io
    import scipy.sparse as sp
    from scipy.io.matlab import MatReadError

    try:
        variables = scipy.io.loadmat(path)
    except NotImplementedError:
        raise SpmvbenchError(f"{path.name} is a MATLAB 7.3 file (HDF5): save it with -v7 or as .mtx") from None
    except (ValueError, TypeError, KeyError, IndexError, EOFError, zlib.error, MatReadError) as error:
        raise SpmvbenchError(f"{path.name} cannot be read as a MATLAB file: {error}") from None
    problem = variables.get("Problem")
    if problem is not None and problem.dtype.names and "A" in problem.dtype.names:
        a = problem["A"].item()
        if "Zeros" in problem.dtype.names and sp.issparse(zeros := problem["Zeros"].item()) and zeros.nnz:
            # MATLAB stores no zeros, so the collection keeps their places in a matrix of their own.
            a, zeros = sp.coo_array(a), sp.coo_array(zeros)
            parts = zip(a.coords, zeros.coords, strict=True)
            data = np.concatenate((a.data, np.zeros(zeros.nnz, dtype=a.dtype)))
            a = sp.coo_array((data, tuple(np.concatenate(part) for part in parts)), shape=a.shape)
        return a, False, "general"
    sparse = {key: value for key, value in variables.items() if sp.issparse(value)}
    if len(sparse) != 1:
        found = ", ".join(sparse) or "none"
        raise SpmvbenchError(f"{path.name} must hold one sparse matrix or the struct Problem; sparse in it: {found}")
    return next(iter(sparse.values())), False, "general"
