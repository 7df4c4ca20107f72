"""Readers in compiled code of others, which some damaged files end: in a process of their own, with limited memory.

The process writes what it read to files of a folder; they are checked before anything is computed with them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive
from spmvbench.matrices.readers import checked

OWN_MEMORY = 4 << 30  # bytes of address space for the libraries of the process


def matrices(path: Path, read: Callable[[Path, Path], dict[str, Any]], what: str) -> dict[str, Any]:
    """The matrices by name that read(path, empty folder) returns, sparse ones checked.

    read: a function of a module. Raises SpmvbenchError, with the sentence that it exits with or its exception.
    """
    import scipy.sparse as sp

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        limit = OWN_MEMORY + 4 * archive.unpacked_limit(path)
        program = f"from {__name__} import export; from {read.__module__} import {read.__name__} as read; export(read)"
        command = [sys.executable, "-P", "-c", program, str(path), folder, str(limit)]
        searched = os.pathsep.join(filter(None, sys.path))
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": searched}
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        if done.returncode:
            reason = "it is damaged" if done.returncode < 0 else done.stderr.decode("utf-8", "replace")
            reason = " ".join(reason.strip().rpartition("\n")[2].split())[:200]
            raise SpmvbenchError(f"{path.name} cannot be read as {what}: {reason}")
        for place, name in enumerate(json.loads(Path(folder, "names.json").read_text())):
            dense = Path(folder, f"{place}.npy")
            found[name] = np.load(dense) if dense.exists() else sp.load_npz(dense.with_suffix(".npz"))
            if sp.issparse(found[name]):
                checked.matrix(found[name], path.name)
    return found


def export(read: Callable[[Path, Path], dict[str, Any]]) -> None:
    """In that process: call a reader. Arguments are the file, the folder, and the most bytes of memory."""
    from scipy import sparse

    path, folder, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    for kind, most in ((resource.RLIMIT_AS, limit), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))
    found = read(path, folder)
    for place, a in enumerate(found.values()):
        if sparse.issparse(a):
            sparse.save_npz(folder / f"{place}.npz", a, compressed=False)
        else:
            np.save(folder / f"{place}.npy", a, allow_pickle=False)
    (folder / "names.json").write_text(json.dumps(list(found)))
