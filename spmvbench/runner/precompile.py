"""Compiles all kernels of a run in parallel before the first measurement.

The first conversion of a format compiles CuPy's kernels and those of its converter; its first launch compiles its own
kernels. One after the other, this takes minutes for all formats. Here several processes convert a few tiny matrices,
each in the next format that none has begun: some take a hundred times as long as others. The compiled kernels stay in
the caches on disk, where the measuring process finds them. If a process dies, the missing kernels are compiled when a
case needs them.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from spmvbench import formats, paths
from spmvbench.devices import cuda, open_device
from spmvbench.formats import Call, Csr, single_steps
from spmvbench.formats.conversion import converting_for
from spmvbench.formats.vectors import SparseVector, moved
from spmvbench.matrices import synthetic
from spmvbench.measure import operations, verify
from spmvbench.measure.cases import Case, Group, precision_of
from spmvbench.measure.device_limits import compilation_lock
from spmvbench.runner.driver import Driver
from spmvbench.runner.supervisor import Supervised

LIMIT = 120.0  # seconds
MIN_TASKS = 4  # with fewer formats and types no processes are started
DEVICE_BYTES = 2e9  # device memory of each process: its context, CuPy's pool
# Short, long and even, short and random, and mixed row lengths, one full row: rules choose kernels by row lengths.
TINY = ("pde:6", "fem:4:3", "uniform:400:12", "rmat:8:16", "denserow:300")

TASKS = "tasks.json"
PROGRAM: tuple[str, ...] = ("-P", "-m", "spmvbench.runner.precompile")
PRECOMPILED_HEADERS = {"CUPY_NVRTC_USE_PCH": "1"}  # CuPy's, which are most of what its kernels are compiled from

Task = tuple[str, dict[str, Any], str, str]  # key, parameters, type, and the solver, empty without one


def precompile(groups: Sequence[Group], device: str, log: IO[bytes], stopping: Callable[[], bool]) -> None:
    """Compile on a CUDA device what the groups' formats need and no earlier run has compiled; once per host.

    log: output of the processes. stopping: called repeatedly; True ends the compilation. Errors are only logged: each
    case compiles what it lacks, or reports why it cannot.
    """
    try:
        if _tasks(groups, device):  # without the lock: workers of other GPUs hash the sources of formats meanwhile
            with paths.locked(compilation_lock(), stopping) as had:  # a process that waited finds all compiled
                if had:
                    _compile(groups, device, log, stopping)
    except Exception as error:
        log.write(f"Precompilation failed: {type(error).__name__}: {error}\n".encode())
        log.flush()


def open_and_compile(driver: Driver, groups: Sequence[Group], stopping: Callable[[], bool]) -> None:
    """`precompile` while the measuring process opens the device; its limits are measured after that.

    Raises as `Driver.ready_worker`.
    """
    began = time.monotonic()

    def compile_all() -> None:
        precompile(groups, driver.settings.device, driver.log, stopping)
        driver.seconds["precompiling"] += time.monotonic() - began

    compiling = threading.Thread(target=compile_all)
    compiling.start()
    try:
        driver.ready_worker()
    finally:
        compiling.join()


def _compile(groups: Sequence[Group], device: str, log: IO[bytes], stopping: Callable[[], bool]) -> None:
    began = time.monotonic()
    tasks = _tasks(groups, device)
    count = min(os.cpu_count() or 1, len(tasks), int(cuda.memory_bytes(_ordinal(device)) / DEVICE_BYTES))
    if count < 2:
        return
    with tempfile.TemporaryDirectory(prefix="spmvbench-") as folder:
        (Path(folder) / TASKS).write_text(json.dumps([(str(mark), *task) for mark, task in tasks]), encoding="utf-8")
        running = [_start(device, folder, log) for _ in range(count)]
        try:
            while any(process.poll() is None for process in running):
                if stopping() or time.monotonic() > began + LIMIT:
                    break
                time.sleep(0.05)
        finally:
            for process in running:
                process.end()


def _ordinal(device: str) -> int:
    return int(device.partition(":")[2])


def _tasks(groups: Sequence[Group], device: str) -> list[tuple[Path, Task]]:
    """As `_missing`, of groups on a GPU; none if they are few, and without the GPU: the worker reports the reason."""
    if cuda.why_unavailable(_ordinal(device)):
        return []
    cases = [modes[0] for group in groups for modes in group.formats]
    tasks = _missing(cases, cuda.toolchain(_ordinal(device)))
    return tasks if len(tasks) > MIN_TASKS else []


def _missing(cases: Sequence[Case], toolchain: str) -> list[tuple[Path, Task]]:
    """Tasks that were not compiled yet, each with the file that will mark it as compiled."""
    found: dict[Path, Task] = {}
    for case in cases:
        if not case.refusal:
            other = "" if operations.kind(case.op) == formats.get(case.format).op else case.op
            task = (case.format, dict(case.params), case.dtype, other)
            text = json.dumps([case.source_hash, *task, toolchain], sort_keys=True)
            found[paths.home() / "precompiled" / hashlib.sha256(text.encode()).hexdigest()[:32]] = task
    return [(mark, task) for mark, task in found.items() if not mark.exists()]


def _start(device: str, folder: str, log: IO[bytes]) -> Supervised:
    environment = os.environ | PRECOMPILED_HEADERS
    command = [sys.executable, *PROGRAM, device, folder]
    return Supervised(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _claimed(file: Path) -> bool:
    """Whether this process, and no other, has made a file."""
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    """`python -m spmvbench.runner.precompile DEVICE FOLDER`: compile for the tasks that a file in this folder lists,
    each with the file that marks it as compiled, and that no other process has begun.
    """
    device, folder = open_device(sys.argv[1]), Path(sys.argv[2])
    tasks = json.loads((folder / TASKS).read_text(encoding="utf-8"))
    tiny = [Csr.of(synthetic.generate(spec)) for spec in TINY]
    for number, (mark, key, params, dtype, other) in enumerate(tasks):
        if not _claimed(folder / str(number)):
            continue
        for a in tiny:
            # Any error occurs again in the case itself, and its row reports it.
            with suppress(Exception), converting_for(device.limits):
                op = operations.get(other or operations.instances(formats.get(key).op)[0])
                precision = precision_of(dtype)
                host = precision.rounded(a)
                if not op.product:  # a solver's launches do not depend on what it can solve
                    host = op.matrix(host)
                x, y = (moved(vector, device.to_device) for vector in op.vectors(host))
                a_device = precision.stored(host).on(device.xp)
                fmt = formats.get(key).converted(a_device, **params)
                assert not isinstance(y, SparseVector)
                checks = verify.Checks([], [], [], 0, scaling=y if op.product else None)
                launches = precision.launches(op.launches(fmt, x, y, checks, device))
                device.compile([step for step in single_steps(launches) if not isinstance(step, Call)])
                verify.decoding_difference(fmt, a_device)
        Path(mark).parent.mkdir(parents=True, exist_ok=True)
        Path(mark).touch()
    device.close()


if __name__ == "__main__":
    main()
