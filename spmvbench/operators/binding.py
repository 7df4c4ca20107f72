"""Launches bound to the addresses of x and y, so that a product is one call without preparation."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmvbench.devices import Device
from spmvbench.devices.base import Program
from spmvbench.devices.cuda import Cuda, CudaProgram
from spmvbench.errors import UsageError
from spmvbench.formats import Call, Launch, Loop
from spmvbench.formats.arrays import Array, address
from spmvbench.formats.footprint import Span, outside, span
from spmvbench.formats.launches import cbool, ctype, flat, per_thread

PAIRS = 16  # bound pairs of x and y that an operator keeps
GRAPH_AFTER = 3  # products of a pair, one launch after the other, before a graph of them is made

Run = Callable[[int], None]


def scaled_add(alpha: Any, product: Array, beta: Any, y: Array, *, keep: bool) -> Launch:
    """The launch of y = alpha * product + beta * y; without `keep` of y = alpha * product, which may be y itself."""
    kernel = f"scaled_add<{ctype(y)}, {cbool(keep)}>"
    args = (alpha, product, beta, y, np.int64(len(y)))
    return Launch("solve/scaled_add.cu", kernel, *per_thread(len(y)), args)


class Binder:
    """Binds launches on one device. Results are called with a stream's handle, which the emulated device ignores."""

    def __init__(self, device: Device):
        self.device = device

    def view(self, address: int, size: int, dtype: np.dtype) -> Array:
        """An array of `size` elements at an address, which it does not own."""
        if not size:
            return self.device.xp.empty(0, dtype)
        memory: Any = (ctypes.c_byte * (size * dtype.itemsize)).from_address(address)
        return np.ndarray((size,), dtype, memory)

    def address(self, array: Array) -> int:
        """Where an array begins."""
        return int(array.ctypes.data)

    def bind(self, launches: Callable[[], Sequence[Launch | Call | Loop]], known: Sequence[Array]) -> Bound:
        """The launches, compiled and bound. known: the arrays that live as long as the operator, and x and y."""
        return Bound(self.device.compile(launches()))

    def scaled_add(self, product: Array, y: Array, *, keep: bool) -> Callable[[int, float, float], None]:
        """What enqueues y = alpha * product + beta * y, given a stream's handle, alpha and beta."""
        real = y.dtype.type

        def run(stream: int, alpha: float, beta: float) -> None:
            self.device.compile([scaled_add(real(alpha), product, real(beta), y, keep=keep)]).run()

        return run

    def stream(self) -> int:
        """The handle of the stream that work goes to."""
        return 0

    def capturing(self) -> bool:
        """Whether that stream records a graph now."""
        return False


class Bound:
    """A bound product. workspace: whether it holds memory that its launches use. pinned: whether a graph needs it."""

    workspace = pinned = False

    def __init__(self, program: Program):
        self._program = program

    def run(self, stream: int) -> None:
        """Enqueue the product."""
        self._program.run()


class CudaBinder(Binder):
    """Binds on a GPU: products are launched as a graph, unless the stream is captured itself."""

    device: Cuda

    def __init__(self, device: Cuda):
        super().__init__(device)
        from cupy.cuda import get_current_stream, runtime

        self.ordinal = int(device.name.partition(":")[2])
        self.current, self._runtime = get_current_stream, runtime
        with device.xp.cuda.Device(self.ordinal):
            self._side = device.xp.cuda.Stream(non_blocking=True)  # prepares pairs, whatever other streams capture

    def view(self, address: int, size: int, dtype: np.dtype) -> Array:
        xp = self.device.xp
        if not size:
            return xp.empty(0, dtype)
        memory = xp.cuda.UnownedMemory(address, size * dtype.itemsize, None, self.ordinal)
        return xp.ndarray((size,), dtype, xp.cuda.MemoryPointer(memory, 0))

    def address(self, array: Array) -> int:
        return address(array)

    def stream(self) -> int:
        return int(self.current(self.ordinal).ptr)

    def capturing(self) -> bool:
        return bool(self._runtime.streamIsCapturing(self.stream()))

    def bind(self, launches: Callable[[], Sequence[Launch | Call | Loop]], known: Sequence[Array]) -> Bound:
        with self._side:
            steps = list(launches())
            program = self.device.compile(steps)
            self._side.synchronize()  # what launches() has filled is there for every stream
        return GraphBound(program, self, workspace=_has_workspace(steps, known))

    def scaled_add(self, product: Array, y: Array, *, keep: bool) -> Callable[[int, float, float], None]:
        factors = np.zeros((2, 1), y.dtype)  # each launch reads them anew
        steps = self.device.compile([scaled_add(factors[0], product, factors[1], y, keep=keep)]).steps

        def run(stream: int, alpha: float, beta: float) -> None:
            factors[0, 0], factors[1, 0] = alpha, beta
            for step in steps:  # none for a y without elements
                step(stream)

        return run

    def graph(self, steps: Sequence[Run]) -> Any:
        """The steps as a CUDA graph."""
        self._side.begin_capture()
        try:
            for step in steps:
                step(self._side.ptr)
        finally:
            graph = self._side.end_capture()
        return graph


class GraphBound(Bound):
    """A product as a graph, which is made after a few; one launch after the other while the stream is captured.

    Of one kernel, too: the host starts a graph in 2 us, and a kernel by CuPy's function in 4 (measured on an H200).
    """

    def __init__(self, program: CudaProgram, binder: CudaBinder, *, workspace: bool):
        super().__init__(program)
        self.workspace, self._steps, self._binder = workspace, program.steps, binder
        self._host_driven = bool(program.host_driven)
        self._capturing, self._start = binder._runtime.streamIsCapturing, binder._runtime.graphLaunch
        self._graph: Any = None
        self._handle = self._products = 0

    def run(self, stream: int) -> None:
        """Enqueue the product on a stream, by its handle."""
        if self._handle and not self._capturing(stream):
            self._start(self._handle, stream)
        else:
            self._enqueue(stream)

    def _enqueue(self, stream: int) -> None:
        if self._capturing(stream):
            self.pinned = self.workspace  # the graph holds pointers to this pair's memory
        elif self._steps and not self._host_driven:
            self._products += 1
            if self._products > GRAPH_AFTER:
                self._graph = self._binder.graph(self._steps)
                self._handle = self._graph.graphExec
        for step in self._steps:
            step(stream)


def _has_workspace(steps: Sequence[Launch | Call | Loop], known: Sequence[Array]) -> bool:
    """Whether launches use memory that none of the known arrays has. A library's call has some."""
    sizes = {address(array): array.nbytes for array in known}
    spans: set[Span] | None = None
    for step in steps:
        if isinstance(step, Call):
            return True
        for arg in flat(step.args):
            if isinstance(arg, np.generic) or not hasattr(getattr(arg, "data", None), "ptr"):
                continue
            if arg.nbytes > sizes.get(arg.data.ptr, 0):  # all or the first part of a known one otherwise
                spans = {span(array) for array in known if array.nbytes} if spans is None else spans
                if outside(span(arg), spans):
                    return True
    return False


class Pairs:
    """The most recently used bound pairs, by key."""

    def __init__(self, device: Device, most: int = PAIRS):
        self._device, self.most = device, most
        self._kept: OrderedDict[tuple[Any, ...], Bound] = OrderedDict()
        self.get, self.used = self._kept.get, self._kept.move_to_end

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, key: tuple[Any, ...], bound: Bound, *, capturing: bool) -> None:
        """Keep a pair. If there are too many, drop the least recently used of those that no graph holds.

        While a stream is captured none is dropped: that may wait for the device, which would end the capture.
        """
        self._kept[key] = bound
        if capturing:
            return
        loose = [old for old, kept in self._kept.items() if not kept.pinned and kept is not bound]
        for old in loose[: max(len(self._kept) - self.most, 0)]:
            dropped = self._kept.pop(old)
            if dropped.workspace:
                self._device.synchronize()  # its memory may be in use on any stream

    def clear(self) -> None:
        """Drop all of them."""
        self._kept.clear()


def binder(device: Device) -> Binder:
    """The binder of a device's kind. Raises UsageError for a kind that has none."""
    if isinstance(device, Cuda):
        return CudaBinder(device)
    if device.kind != "emulated":
        raise UsageError(f"operators run on a GPU or emulated, not on {device.name}")
    return Binder(device)
