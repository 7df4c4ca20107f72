"""SciPy's .npz files: scipy.sparse.load_npz trusts the arrays in them, so they are loaded and checked here."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices.readers import checked


def read(path: Path) -> tuple[Any, bool, str]:
    """The matrix as SciPy's class of its layout, on checked arrays."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as members:
                unpacked = sum(member.file_size for member in members.infolist())
            checked.memory(unpacked, path.name, "holds arrays")
            file.seek(0)
            with np.load(file, allow_pickle=False) as loaded:
                arrays = {key: np.asarray(loaded[key]) for key in loaded}
        except SpmvbenchError:
            raise
        except Exception:  # whatever the readers of zip and npy say of bytes that nobody vouches for
            raise SpmvbenchError(
                f"{path.name} is no matrix that scipy.sparse.save_npz wrote, or it is damaged"
            ) from None
    try:
        return _matrix(arrays, path.name), False, "general"
    except KeyError as error:
        raise SpmvbenchError(f"{path.name} is no matrix that scipy.sparse.save_npz wrote: it has no {error}") from None


def _matrix(arrays: dict[str, np.ndarray], name: str) -> Any:
    import scipy.sparse as sp

    layout = arrays["format"].tobytes().replace(b"\0", b"")  # bytes or text, as the version of SciPy was
    rows, cols = checked.shape(arrays["shape"], name)
    checked.size(rows, cols, arrays["data"].size, name)
    data = checked.numbers(arrays["data"], {b"dia": 2, b"bsr": 3}.get(layout, 1), name)
    if layout in (b"csr", b"csc", b"bsr"):
        major, minor = (cols, rows) if layout == b"csc" else (rows, cols)
        if layout == b"bsr":
            _, down, across = data.shape
            if not down or not across or rows % down or cols % across:
                raise SpmvbenchError(f"{name} is malformed: {down} x {across} blocks do not tile {rows} x {cols}")
            major, minor = rows // down, cols // across
        checked.compressed(major, minor, arrays["indptr"], arrays["indices"], len(data), name)
        kind = {b"csr": sp.csr_array, b"csc": sp.csc_array, b"bsr": sp.bsr_array}[layout]
        return kind((data, arrays["indices"], arrays["indptr"]), shape=(rows, cols))
    if layout == b"coo":
        row, col = arrays["coords"] if "coords" in arrays else (arrays["row"], arrays["col"])
        checked.coordinates(rows, cols, row, col, len(data), name)
        return sp.coo_array((data, (row, col)), shape=(rows, cols))
    if layout == b"dia":
        offsets = arrays["offsets"]
        checked.diagonals(rows, cols, offsets, len(data), name)
        return sp.dia_array((data, offsets), shape=(rows, cols))
    raise SpmvbenchError(
        f"{name} is of the layout {layout.decode('ascii', 'replace')}: save it as csr, csc, coo or bsr"
    )
