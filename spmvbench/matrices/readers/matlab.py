"""MATLAB's .mat files to version 7, by SciPy: the collection's `Problem`, or the only sparse variable.

SciPy's reader is compiled, and some damaged files end the process that it runs in. So it runs in a process of its own,
with a limit on its memory, and hands over arrays in files, which are checked.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import Stored, checked, reads

OWN_MEMORY = 4 << 30  # bytes of address space for the libraries of the process


@reads(".mat")
def read(path: Path) -> Stored:
    """`Problem.A` with the stored zeros of `Problem.Zeros`, or the only sparse variable."""
    import scipy.sparse as sp

    with open(path, "rb") as file:
        if file.read(128)[124:126] in (b"\x00\x02", b"\x02\x00"):
            raise SpmvbenchError(f"{path.name} is a MATLAB 7.3 file (HDF5): save it with -v7 or as .mtx")
    found = _exported(path)
    a, zeros = found.get("Problem.A"), found.get("Problem.Zeros")
    if a is None:
        if len(found) != 1:
            names = ", ".join(found) or "none"
            raise SpmvbenchError(
                f"{path.name} must hold one sparse matrix or the struct Problem with its A; sparse in it: {names}"
            )
        (a,) = found.values()
    elif zeros is not None and sp.issparse(zeros) and zeros.nnz and zeros.shape == a.shape:
        # MATLAB stores no zeros, so the collection keeps their places in a matrix of their own.
        a, zeros = sp.coo_array(a), sp.coo_array(zeros)
        places = tuple(np.concatenate(pair) for pair in zip(a.coords, zeros.coords, strict=True))
        a = sp.coo_array((np.concatenate((a.data, np.zeros(zeros.nnz, a.dtype))), places), shape=a.shape)
    return Stored(a)


def _exported(path: Path) -> dict[str, Any]:
    """The matrices of a file by the names of their variables, of a struct Problem its A and Zeros."""
    import scipy.sparse as sp

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        limit = OWN_MEMORY + 4 * archive.unpacked_limit(path)
        program = f"from {__name__} import export; export()"
        command = [sys.executable, "-P", "-c", program, str(path), folder, str(limit)]
        searched = os.pathsep.join(filter(None, sys.path))
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": searched}
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        if done.returncode:
            reason = "it is damaged" if done.returncode < 0 else done.stderr.decode("utf-8", "replace")
            reason = " ".join(reason.strip().rpartition("\n")[2].split())[:200]
            raise SpmvbenchError(f"{path.name} cannot be read as a MATLAB file: {reason}")
        for place, name in enumerate(json.loads(done.stdout)):
            dense = Path(folder, f"{place}.npy")
            found[name] = np.load(dense) if dense.exists() else sp.load_npz(dense.with_suffix(".npz"))
            if sp.issparse(found[name]):
                checked.matrix(found[name], path.name)
    return found


def export() -> None:
    """Write the matrices that `_exported` reads to files of a folder, and their names to standard output.

    The arguments are the file, the folder, and the most bytes of memory. A variable that cannot be read is left out,
    because a file may have others beside the matrix.
    """
    from scipy import io, sparse

    path, folder, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    for kind, most in ((resource.RLIMIT_AS, limit), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))
    warnings.simplefilter("ignore")
    found, unread = dict[str, Any](), list[str]()
    with open(path, "rb") as file:
        version = io.matlab.matfile_version(file)[0]
        variables = io.matlab.varmats_from_mat(file) if version else [("", file)]
        for variable, part in variables:
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
    for place, a in enumerate(found.values()):
        if sparse.issparse(a):
            sparse.save_npz(folder / f"{place}.npz", a, compressed=False)
        else:
            np.save(folder / f"{place}.npy", a, allow_pickle=False)
    print(json.dumps(list(found)))
