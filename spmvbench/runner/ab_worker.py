"""One side of a comparison of two builds: a process that converts and samples what `pairs` asks for.

It is run by its path, with the build that it is to measure first on Python's path, which may be an older one: of that
build it takes the devices and the formats, and nothing else. All that goes over the pipe is plain values.

To it: the device's name; then ("matrix", file, dtype), ("load", key, params, mode, seconds of a sample), ("place",
seed), ("burst", seconds), and None at the end. From it: ("ready", facts) or ("refused", message, exit code); then to
each ("done", answer) or ("failed", status, reason).
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
from typing import Any

import numpy as np

import spmvbench
from spmvbench import formats
from spmvbench.devices import DeviceFault, OutOfDeviceMemory, open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats.conversion import converting_for

# Bytes that arrays have beyond their own to lie in, ten times what an L2 holds, and the steps that keep them aligned.
ROOM, STEP = 2**29, 512
LEAST, MOST = 3, 4000  # samples of a burst, SpMVs of a sample


class Side:
    """What is loaded: a matrix, then a format of it, then its work at a place in memory."""

    def __init__(self, device: Any):
        self.device = device
        self.a: Any = None
        self.fmt: Any = None
        self.x: Any = None
        self.room: Any = None  # where the arrays are moved about
        self.work: Any = None
        self.held: list[Any] = []  # what the work uses

    def matrix(self, file: str, dtype: str) -> int:
        """Take the matrix of a file: canonical CSR as `pairs` writes it."""
        self.fmt = self.work = self.room = None
        self.held.clear()
        with np.load(file) as held:
            arrays = [held[name] for name in ("row_ptr", "col_idx", "values")]
            self.a = formats.Csr(tuple(held["shape"].tolist()), *arrays).astype(np.dtype(dtype))
        return self.a.nnz

    def load(self, key: str, params: dict[str, Any], mode: str, sample: float) -> dict[str, Any]:
        """Convert the matrix and judge one product. Returns the parameters that a format has found for itself."""
        self.fmt = self.work = self.room = None
        self.held.clear()
        self.mode, self.sample, self.repeats, xp = mode, sample, 0, self.device.xp
        with converting_for(self.device.limits):
            self.fmt = formats.get(key).from_csr(self.a.on(xp), **params)
        self.x = np.random.default_rng(0).uniform(-1, 1, self.a.cols).astype(self.a.dtype)
        self.arrays: list[Any] = []
        self.fmt.with_arrays(lambda name, array: self.arrays.append(array) or array)
        x_order, self.y_order = self.fmt.x_order, self.fmt.y_order  # asked for once, before anything runs
        for order, n in ((x_order, self.a.cols), (self.y_order, self.a.rows)):
            if order is not None and not np.array_equal(np.sort(self.device.to_host(order)), np.arange(n)):
                raise ValueError(f"an order must hold each of 0 to {n - 1} once")
        x = xp.asarray(self.x)
        self.arrays += [x if x_order is None else x[x_order], xp.full(self.fmt.shape[0], np.nan, self.a.dtype)]
        self.slack = ROOM if xp is not np else STEP
        self.room = xp.empty(sum(_stepped(array.nbytes) for array in self.arrays) + self.slack + STEP, np.uint8)
        self.place(0)
        self.judge()
        return dict(self.fmt.in_use)

    def place(self, seed: int) -> int:
        """Move everything to a new place in memory, which times depend on, and capture the work anew.

        Arrays keep their order; what they leave free of the room is dealt to the gaps between them.
        """
        gaps = np.sort(np.random.default_rng(seed).integers(0, self.slack // STEP + 1, len(self.arrays))) * STEP
        before = np.cumsum([0, *(_stepped(array.nbytes) for array in self.arrays)])
        moved = []
        for array, gap, start in zip(self.arrays, gaps.tolist(), before.tolist(), strict=False):
            new = self.room[gap + start : gap + start + array.nbytes].view(array.dtype).reshape(array.shape)
            new[...] = array
            moved.append(new)
        *stored, x, self.y = moved
        places = iter(stored)
        fmt = self.fmt.with_arrays(lambda name, array: next(places))
        program = self.device.compile(fmt.launches(x, self.y))
        self.work = None
        self.held = [fmt, x, program]
        if not self.repeats:
            self.repeats = 1
            if self.mode == "hot" and self.sample > 0:
                once = self.device.capture(program, 1)
                self.device.elapsed(once)
                self.repeats = min(math.ceil(self.sample / max(self.device.elapsed(once), 1e-9)), MOST)
        self.work = self.device.capture(program, self.repeats)
        self.device.elapsed(self.work)
        return self.repeats

    def judge(self) -> None:
        """Raise ArithmeticError where an entry of y is off by more than its bound."""
        from scipy.sparse import csr_array

        a = csr_array((self.a.values, self.a.col_idx, self.a.row_ptr), shape=self.a.shape).astype(np.float64)
        bound = (self.a.row_lengths + 2) * np.finfo(self.a.dtype).eps * (abs(a) @ abs(self.x.astype(np.float64)))
        right, y = a @ self.x.astype(np.float64), self.device.to_host(self.y)
        if self.y_order is not None:
            order = self.device.to_host(self.y_order)
            right, bound = right[order], bound[order]
        off = ~(abs(y - right) <= bound)
        if off.any():
            raise ArithmeticError(f"{off.sum()} entries of y are off by more than their bound")

    def burst(self, seconds: float) -> list[float]:
        """Samples, seconds per SpMV: LEAST or more, after one that is not counted and warms caches and clocks.

        That one begins with an empty L2, in every mode: what the other side has left there, or moving the arrays,
        outlives many SpMVs whose loads are marked as read once, and would be another start for each side.
        """
        flush = self.mode == "cold"
        self.device.empty_cache()
        self.device.elapsed(self.work, flush=flush)
        end, samples = time.perf_counter() + seconds, []
        while len(samples) < LEAST or time.perf_counter() < end:
            samples.append(self.device.elapsed(self.work, flush=flush) / self.repeats)
        return samples


def _stepped(size: int) -> int:
    return -(-size // STEP) * STEP


def answer(side: Side, what: str, *content: Any) -> tuple:
    """What a request comes to. Raises DeviceFault where the device can no longer be used."""
    try:
        return "done", getattr(side, what)(*content)
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
    """`side.py FD PARENT`: serve the parent at the other end of a pipe until it says None."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a hung kernel would outlive a killed parent
    connection = Connection(int(sys.argv[1]))
    try:
        device = open_device(connection.recv())
    except SpmvbenchError as error:
        connection.send(("refused", str(error), error.exit_code))
        return
    connection.send(("ready", {"device": device.name, "properties": device.properties(), "build": spmvbench.__file__}))
    side = Side(device)
    with suppress(EOFError, BrokenPipeError):
        while (asked := connection.recv()) is not None:
            connection.send(answer(side, *asked))
    os._exit(0)  # a context that has failed can hang in its own clean-up


if __name__ == "__main__":
    main()
