"""Worker process for one build in an A/B comparison.

It is run by its path, with the measured build first on Python's path. That build may be older: only devices and formats
are imported from it, and all messages over the pipe are plain values.

To the worker: its log and None; then ("matrix", file, dtype), ("load", key, params, mode, seconds of a sample, limit
of bytes), ("place", seed), ("burst", seconds), and None at the end. From it: ("ready", facts) or ("refused", message,
exit code); then for each request ("done", answer) or ("failed", status, reason).
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

import numpy as np

import spmvbench
from spmvbench import formats
from spmvbench.devices import DeviceFault, OutOfDeviceMemory, open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats.conversion import converting_for

# Bytes by which arrays can be moved, ten times the size of an L2, and the alignment of arrays.
SLACK_BYTES, ALIGNMENT = 2**29, 512
MIN_SAMPLES, MAX_REPEATS = 3, 4000  # samples per burst; SpMVs per sample, as measure.timing has it


class ABWorker:
    """The loaded state: a matrix, a format of it, and the captured work at an address."""

    def __init__(self, device: Any):
        self.device = device
        self.a: Any = None
        self.fmt: Any = None
        self.x: Any = None
        self.buffer: Any = None  # that holds the arrays, and room to move them
        self.work: Any = None
        self.references: list[Any] = []  # keep alive what the captured work uses

    def matrix(self, file: str, dtype: str) -> int:
        """Load the matrix from a file: canonical CSR as `ab` writes it."""
        self.fmt = self.work = self.buffer = None
        self.references.clear()
        with np.load(file) as file_arrays:
            arrays = [file_arrays[name] for name in ("row_ptr", "col_idx", "values")]
            self.a = formats.Csr(tuple(file_arrays["shape"].tolist()), *arrays).astype(np.dtype(dtype))
        return int(self.a.nnz)

    def load(
        self, key: str, params: dict[str, Any], mode: str, sample: float, max_bytes: int | None = None
    ) -> dict[str, Any]:
        """Convert the matrix and verify one product. Returns the parameters that a format has found by timing."""
        self.fmt = self.work = self.buffer = None
        self.references.clear()
        self.mode, self.sample, self.repeats, xp = mode, sample, 0, self.device.xp
        with converting_for(self.device.limits):
            self.fmt = formats.get(key).from_csr(self.a.on(xp), max_bytes=max_bytes, **params)
        self.x = np.random.default_rng(0).uniform(-1, 1, self.a.cols).astype(self.a.dtype)
        self.arrays: list[Any] = []

        def collect(name: str, array: Any) -> Any:
            self.arrays.append(array)
            return array

        self.fmt.with_arrays(collect)
        x_order, self.y_order = self.fmt.x_order, self.fmt.y_order  # read once, before anything runs
        for order, n in ((x_order, self.a.cols), (self.y_order, self.a.rows)):
            if order is not None and not np.array_equal(np.sort(self.device.to_host(order)), np.arange(n)):
                raise ValueError(f"an order must hold each of 0 to {n - 1} once")
        x = xp.asarray(self.x)
        self.arrays += [x if x_order is None else x[x_order], xp.full(self.fmt.shape[0], np.nan, self.a.dtype)]
        self.slack = SLACK_BYTES if xp is not np else ALIGNMENT
        self.buffer = xp.empty(sum(_aligned(array.nbytes) for array in self.arrays) + self.slack + ALIGNMENT, np.uint8)
        self.place(0)
        self.verify()
        return {name: value for name, value in self.fmt.in_use.items() if name in self.fmt.params}

    def place(self, seed: int) -> int:
        """Move all arrays to new addresses, on which times depend, and capture the work anew.

        Arrays keep their order; the slack is distributed at random over the gaps between them.
        """
        gaps = (
            np.sort(np.random.default_rng(seed).integers(0, self.slack // ALIGNMENT + 1, len(self.arrays))) * ALIGNMENT
        )
        before = np.cumsum([0, *(_aligned(array.nbytes) for array in self.arrays)])
        moved = []
        for array, gap, start in zip(self.arrays, gaps.tolist(), before.tolist(), strict=False):
            new = self.buffer[gap + start : gap + start + array.nbytes].view(array.dtype).reshape(array.shape)
            new[...] = array
            moved.append(new)
        *stored, x, self.y = moved
        places = iter(stored)
        fmt = self.fmt.with_arrays(lambda name, array: next(places))
        program = self.device.compile(fmt.launches(x, self.y))
        self.work = None
        self.references = [fmt, x, program]
        if not self.repeats:
            self.repeats = 1
            if self.mode == "hot" and self.sample > 0:
                once = self.device.capture(program, 1)
                self.device.elapsed(once)
                self.repeats = min(math.ceil(self.sample / max(self.device.elapsed(once), 1e-9)), MAX_REPEATS)
        self.work = self.device.capture(program, self.repeats)
        self.device.elapsed(self.work)
        return self.repeats

    def verify(self) -> None:
        """Raise ArithmeticError if an entry of y exceeds its error bound."""
        from scipy.sparse import csr_array

        a = csr_array((self.a.values, self.a.col_idx, self.a.row_ptr), shape=self.a.shape).astype(np.float64)
        bound = (self.a.row_lengths + 2) * np.finfo(self.a.dtype).eps * (abs(a) @ abs(self.x.astype(np.float64)))
        expected, y = a @ self.x.astype(np.float64), self.device.to_host(self.y)
        if self.y_order is not None:
            order = self.device.to_host(self.y_order)
            expected, bound = expected[order], bound[order]
        off = ~(abs(y - expected) <= bound)
        if off.any():
            raise ArithmeticError(f"{off.sum()} entries of y are off by more than their bound")

    def burst(self, seconds: float) -> list[float]:
        """Samples, seconds per SpMV: at least MIN_SAMPLES, after an uncounted one that warms up caches and clocks.

        The warm-up begins with an empty L2 in every mode. Lines left by the other build, or by moving the arrays,
        survive many SpMVs whose loads are marked as read once, and the two builds would start differently.
        """
        flush = self.mode == "cold"
        self.device.empty_cache()
        self.device.elapsed(self.work, flush=flush)
        end, samples = time.perf_counter() + seconds, list[float]()
        while len(samples) < MIN_SAMPLES or time.perf_counter() < end:
            samples.append(self.device.elapsed(self.work, flush=flush) / self.repeats)
        return samples


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def answer(worker: ABWorker, what: str, *content: Any) -> tuple[Any, ...]:
    """The answer to a request. Raises DeviceFault if the device is no longer usable."""
    try:
        return "done", getattr(worker, what)(*content)
    except formats.Skip as skip:
        return "failed", "skipped", skip.reason
    except ArithmeticError as wrong:
        return "failed", "wrong", str(wrong)
    except (MemoryError, OutOfDeviceMemory) as full:
        return "failed", "oom", f"out of memory: {full}"
    except Exception as error:
        if isinstance(error, DeviceFault) and error.sticky:
            raise
        return "failed", "error", f"{type(error).__name__}: {error}".partition("\n")[0]


def main() -> None:
    """`ab_worker.py DEVICE FD PARENT`: serve the parent at the other end of a pipe until it sends None."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; a hung kernel would outlive a killed parent
    connection = Connection(int(sys.argv[2]))
    with os.fdopen(recv_handle(connection)) as log:
        os.dup2(log.fileno(), 2)
    connection.recv()
    try:
        device = open_device(sys.argv[1])
    except SpmvbenchError as error:
        connection.send(("refused", str(error), error.exit_code))
        return
    connection.send(("ready", {"device": device.name, "properties": device.properties(), "build": spmvbench.__file__}))
    worker = ABWorker(device)
    with suppress(EOFError, BrokenPipeError):
        while (asked := connection.recv()) is not None:
            connection.send(answer(worker, *asked))
    os._exit(0)  # a failed context can hang while it is destroyed


if __name__ == "__main__":
    main()
