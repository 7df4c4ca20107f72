"""MATLAB's .mat files to version 7, by SciPy: the collection's `Problem`, or a sparse variable.

SciPy's reader is compiled, and some damaged files end the process that it runs in.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import Stored, apart, reads


@reads(".mat", several=True)
def read(path: Path, name: str = "") -> Stored:
    """The variable of a name, else `Problem.A` with the stored zeros of `Problem.Zeros`, else the only sparse one."""
    import scipy.sparse as sp

    with open(path, "rb") as file:
        if file.read(128)[124:126] in (b"\x00\x02", b"\x02\x00"):
            raise SpmvbenchError(f"{path.name} is a MATLAB 7.3 file (HDF5): save it with -v7 or as .mtx")
    found = apart.matrices(path, variables, "a MATLAB file")
    if not found:
        raise SpmvbenchError(f"{path.name} holds no sparse matrix, and no struct Problem with its A")
    name = archive.choice(path.name, found, name or ("Problem.A" if "Problem.A" in found else ""))
    a, zeros = found[name], found.get("Problem.Zeros")
    if name == "Problem.A" and zeros is not None and sp.issparse(zeros) and zeros.nnz and zeros.shape == a.shape:
        # MATLAB stores no zeros, so the collection keeps their places in a matrix of their own.
        a, zeros = sp.coo_array(a), sp.coo_array(zeros)
        places = tuple(np.concatenate(pair) for pair in zip(a.coords, zeros.coords, strict=True))
        a = sp.coo_array((np.concatenate((a.data, np.zeros(zeros.nnz, a.dtype))), places), shape=a.shape)
    return Stored(a)


def variables(path: Path, _: Path) -> dict[str, Any]:
    """The matrices of a file by the names of their variables, of a struct Problem its A and Zeros.

    A variable that cannot be read is left out, because a file may have others beside the matrix.
    """
    from scipy import io, sparse

    warnings.simplefilter("ignore")
    found, unread = dict[str, Any](), list[str]()
    with open(path, "rb") as file:
        version = io.matlab.matfile_version(file)[0]
        parts = io.matlab.varmats_from_mat(file) if version else [("", file)]
        for variable, part in parts:
            try:
                values = io.loadmat(part, mat_dtype=True)
            except Exception as error:
                unread.append(f"{variable}: {error}")
                continue
            for name, value in values.items():
                if sparse.issparse(value):
                    ((_, _, kind),) = (of for of in io.whosmat(part) if of[0] == name)
                    found[name] = value.astype(bool) if kind == "logical" else value
                elif name == "Problem" and getattr(value, "shape", ()) == (1, 1) and value.dtype.names:
                    inner = {field: value[field][0, 0] for field in ("A", "Zeros") if field in value.dtype.names}
                    found |= {f"{name}.{field}": a for field, a in inner.items()}
    found = {name: a for name, a in found.items() if sparse.issparse(a) or getattr(a, "dtype", np.dtype("O")) != "O"}
    if unread and not found:
        sys.exit(unread[0])
    return found
