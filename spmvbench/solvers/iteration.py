"""Iterations on a device: a start, a loop that the device ends, and a host that looks once in many iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from spmvbench.devices import Device
from spmvbench.devices.cuda import Cuda
from spmvbench.formats import Call, Launch, Loop
from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Step

BLOCK = constant("include/grid_sums.cuh", "SUM_BLOCK")  # threads of a block, and the most blocks of a grid
WARP = constant("include/spmv.cuh", "WARP")
BLOCKS_EACH = 4  # for a multiprocessor: as many as can be resident
UNROLL = 4  # iterations of the loop's body, an even number: 5 us a turn on an H200 are shared by so many
CHUNK = 1000  # iterations between two looks of the host, a multiple of UNROLL


# The launches of q = A p, from p and q.
Product = Callable[[Array, Array], Sequence[Step]]


def blocks_for(n: int, device: Device) -> int:
    """Blocks of a grid that goes over n elements, each thread over every so many."""
    return max(1, min(cdiv(n, BLOCK), BLOCK, BLOCKS_EACH * device.limits.multiprocessors))


def additions(n: int, device: Device) -> int:
    """Roundings of a sum over n elements in float64 that an element takes part in (include/grid_sums.cuh).

    Those of its thread, one after the other; then those of a block twice: over its lanes, and over its warps.
    """
    each = cdiv(n, blocks_for(n, device) * BLOCK)
    return each + 2 * ((WARP - 1).bit_length() + BLOCK // WARP)


@contextmanager
def own_stream(device: Device) -> Iterator[None]:
    """Within it CuPy works on the stream that the device's programs use, after all that was enqueued elsewhere."""
    device.synchronize()
    stream: AbstractContextManager[Any] = device.stream if isinstance(device, Cuda) else nullcontext()
    with stream:
        yield
    device.synchronize()


class Iteration:
    """A loop around launches, bound once and run often.

    body: the launches of one iteration by its half, 0 and 1 in turns. state: int32 on the device, of which the element
    `more` says whether the body is to run again. history: (CHUNK,), float64 on the device: a number that each iteration
    leaves. iterations: the element of `state` that counts them, active: the one that says whether the solver goes on.
    """

    def __init__(
        self,
        device: Device,
        body: Sequence[Sequence[Launch | Call | Loop]],
        state: Array,
        history: Array,
        *,
        more: int,
        iterations: int,
        active: int,
    ):
        self.device, self.state = device, state
        self._history, self._iterations, self._active = history, iterations, active
        steps: list[Launch | Call] = []
        for k in range(UNROLL):
            for step in body[k % 2]:
                if isinstance(step, Loop):
                    raise TypeError("a format that loops by itself cannot be part of a solver's loop")
                steps.append(step)
        loop = Loop(tuple(steps), state[more : more + 1], limit=CHUNK // UNROLL + 1)
        self._replay = device.capture(device.compile([loop]), 1)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Iterates until the device stops. Returns the state at the end and what each iteration has left."""
        seen: list[np.ndarray] = []
        state = self.device.to_host(self.state).copy()  # emulated memory is the host's
        while state[self._active]:
            self._replay()
            self.device.synchronize()
            before, state = int(state[self._iterations]), self.device.to_host(self.state).copy()
            seen.append(self.device.to_host(self._history)[: int(state[self._iterations]) - before].copy())
        return state, np.concatenate(seen) if seen else np.zeros(0)
