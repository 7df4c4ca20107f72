"""Work ahead of the measuring process: other processes read matrices into the host's matrix cache and prepare formats.

What they do is work of the host alone, at a low priority. `Prefetcher` starts them for an invocation on one GPU; the
workers of a cluster start theirs as its scheduler says.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from spmvbench import formats, paths
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.matrices import Matrix
from spmvbench.measure import matrix_cache
from spmvbench.measure.cases import Group, Settings, precision_of
from spmvbench.measure.reading import read
from spmvbench.measure.worker import stay_tied
from spmvbench.runner.costs import entries
from spmvbench.runner.supervisor import reap

NICENESS = 10
READING_BYTES = 60  # memory per entry while a matrix is generated: no prefetch if that is scarce
MIN_ENTRIES = 1_000_000  # of the matrices of a process: fewer are read before it has started
CORES = 4  # of the host, per process: the measuring process and what it starts keep theirs
MOST = 4  # processes at a time
PREPARATION_LIMIT = 300  # seconds of one preparation; METIS takes up to two minutes on the matrices of the set h200

Preparation = tuple[str, dict[str, Any], str]  # key, parameters, type
MatrixAndSeed = tuple[Matrix, int]


def start(
    folder: Path,
    matrices: Mapping[MatrixAndSeed, Sequence[Preparation]],
    real_part: bool,
    limits: Limits | None = None,
    seconds: int = PREPARATION_LIMIT,
) -> subprocess.Popen[bytes] | None:
    """A process that reads matrices into the cache one after the other, and prepares the formats that are given with
    each; None if nothing is to do.

    limits: of the device that they are prepared for. seconds: of one preparation, after which the process ends.
    """
    work = [
        ((*which, real_part), tuple(preparations))
        for which, preparations in matrices.items()
        if preparations or not matrix_cache.cache_path(folder, *which, real_part).exists()
    ]
    if not work:
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
        process.stdin.write(pickle.dumps((folder, work, limits, seconds)))
        process.stdin.close()
    return process


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Kill processes, and wait until they are gone."""
    for process in processes:
        with suppress(ProcessLookupError):
            process.kill()
        reap(process)


def is_worthwhile(matrices: Iterable[MatrixAndSeed]) -> bool:
    """Whether matrices together are large enough for a process of their own, and the free memory for them."""
    import psutil

    count = sum(itertools.starmap(entries, matrices))
    return count > MIN_ENTRIES and count * READING_BYTES < psutil.virtual_memory().available / 4


class Prefetcher:
    """Reads the matrices of the groups that come next, and prepares their formats, while one group is measured.

    Formats are prepared only if nothing is converted on the host: several processes at work would make that slower.
    Then as many processes run as there are cores for, at most MOST, otherwise one. To be used as a context; `folder` is
    removed at its end.
    """

    def __init__(self, folder: Path, groups: Sequence[Group], settings: Settings, limits: Limits):
        self.folder, self.real_part, self.limits = folder, settings.real_part, limits
        self.device_only = settings.convert == "device"
        self.most = min((os.cpu_count() or 1) // CORES, MOST if self.device_only else 1)
        self.order = list(dict.fromkeys((group.matrix, group.seed) for group in groups))
        self.places = {which: place for place, which in enumerate(self.order)}
        self.preparations: dict[Any, dict[str, Preparation]] = {which: {} for which in self.order}
        for group in groups if self.device_only else ():
            for case in (modes[0] for modes in group.formats):
                if not case.refusal and formats.get(case.format).prepares():
                    task = (case.format, dict(case.params), case.dtype)
                    self.preparations[group.matrix, group.seed].setdefault(f"{case.label} {case.dtype}", task)
        self.running: list[subprocess.Popen[bytes]] = []
        self.place = self.next = 0  # in `order`: of the present group, and of the first that no process has begun
        self.stack = ExitStack()

    def __enter__(self) -> Prefetcher:
        self.stack.enter_context(paths.shared_folder(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        end(self.running)
        self.stack.close()

    def advance(self, group: Group) -> None:
        """Start the processes that may run while this group is measured, and remove matrices of earlier groups.

        A process begins with a matrix at most `most` ahead, and takes the next ones along if it is small.
        """
        place = self.places[group.matrix, group.seed]
        if place != self.place:
            self.place = place
            needed = [matrix_cache.cache_path(self.folder, *which, self.real_part) for which in self.order[place:]]
            matrix_cache.remove_unneeded(self.folder, needed)
        self.running = [process for process in self.running if process.poll() is None]
        while self.next < min(len(self.order), place + 1 + self.most) and len(self.running) < self.most:
            batch: dict[MatrixAndSeed, Sequence[Preparation]] = {}
            while self.next < len(self.order) and sum(itertools.starmap(entries, batch)) <= MIN_ENTRIES:
                which = self.order[self.next]
                batch[which] = tuple(self.preparations[which].values())
                self.next += 1
            if is_worthwhile(batch):
                process = start(self.folder, batch, self.real_part, self.limits)
                self.running += [process] if process else []


def main() -> None:
    """`python -m spmvbench.runner.prefetch PARENT`: read the matrices on stdin, and prepare formats. Errors are left to
    the process that needs them.
    """
    stay_tied(int(sys.argv[1]))
    os.nice(NICENESS)
    folder, work, limits, seconds = pickle.load(sys.stdin.buffer)
    for matrix, preparations in work:
        with suppress(Exception), ExitStack() as stack:
            if preparations:  # from the beginning: who needs what is prepared waits for it, not only for the matrix
                stack.enter_context(paths.locked(matrix_cache.preparation_lock(folder, *matrix)))
            a = read(*matrix, str(folder))[0]
            for key, params, dtype in preparations:
                signal.alarm(seconds)  # its default ends the process, in a library's code, too; locks are released
                precision = precision_of(dtype)
                with suppress(Exception), converting_for(limits):
                    formats.get(key).prepare(precision.stored(precision.rounded(a)), **params)
                signal.alarm(0)


if __name__ == "__main__":
    main()
