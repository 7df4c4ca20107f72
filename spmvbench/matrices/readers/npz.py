"""SciPy's .npz files: what scipy.sparse.load_npz reads, checked before anything is computed with it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices.readers import Stored, checked, reads


@reads(".npz")
def read(path: Path) -> Stored:
    """The matrix in the layout that it was saved in; no pickle is read."""
    import scipy.sparse as sp

    try:
        with zipfile.ZipFile(path) as members:
            unpacked = sum(member.file_size for member in members.infolist())
        checked.memory(unpacked, path.name, "holds arrays")
        a = sp.load_npz(path)
    except (SpmvbenchError, MemoryError):
        raise
    except Exception as error:  # whatever the readers of zip and npy say of bytes that nobody vouches for
        reason = " ".join(str(error).split())[:200]
        raise SpmvbenchError(
            f"{path.name} is no matrix that scipy.sparse.save_npz wrote, or it is damaged: {reason}"
        ) from None
    checked.matrix(a, path.name)
    return Stored(a)
