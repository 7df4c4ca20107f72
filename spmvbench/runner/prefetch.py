"""Prefetches matrices: a separate process reads them into the host's matrix cache while the devices measure."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from spmvbench.matrices import Matrix
from spmvbench.measure import matrix_cache
from spmvbench.measure.reading import read
from spmvbench.measure.worker import stay_tied

NICENESS = 10


def start(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> subprocess.Popen[bytes] | None:
    """A process that reads a matrix into the cache; None if it is already there."""
    if matrix_cache.cache_path(folder, matrix, seed, real_part).exists():
        return None
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "spmvbench.runner.prefetch", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(pickle.dumps((matrix, seed, real_part, str(folder))))
        process.stdin.close()
    return process


def main() -> None:
    """`python -m spmvbench.runner.prefetch PARENT`: read the matrix on stdin. Errors are left to the process that needs
    it.
    """
    stay_tied(int(sys.argv[1]))
    os.nice(NICENESS)
    with suppress(Exception):
        read(*pickle.load(sys.stdin.buffer))


if __name__ == "__main__":
    main()
