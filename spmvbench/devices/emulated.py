"""The emulated device: the kernels' own CUDA C++, compiled for the host, every CUDA thread a fiber.

It exists so that every kernel is executed and verified on machines without a GPU. Its times say nothing about a GPU's.
The checking build also finds races, uninitialised shared memory and accesses out of bounds.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter  # bound before a format can replace it
from typing import Any, cast

import numpy as np

from spmvbench.devices import cuda
from spmvbench.devices.base import Device, DeviceFault, DeviceUnavailable, OutOfDeviceMemory, Program
from spmvbench.devices.emulation import build, symbols
from spmvbench.devices.host_driven import OwnResult
from spmvbench.formats import kernel_path
from spmvbench.formats.arrays import ArrayModule
from spmvbench.formats.conversion import EMULATED
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Call, Launch, Loop, Step, Struct, single_steps, three

MAX_WORKERS = 16  # each maps some 2,000 regions of the 65,530 that Linux allows a process
_RUNTIME = str(build.FOLDER / "runtime.hpp")
MAX_THREADS = constant(_RUNTIME, "MAX_THREADS")
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_DYNAMIC_SHARED = EMULATED.shared_bytes  # the rest of these are CUDA's limits too
TOLD_FOR = "sm_90"  # the architecture whose atomics the emulated device names
SMALL = 2048  # threads of a launch that is over before other host threads would have woken up


_NO_MEMORY = constant(_RUNTIME, "NO_MEMORY")

_running = threading.Lock()  # one launch at a time: a library of the checking build keeps one set of records

_OFFSET = re.compile(r"@\{([0-9a-f]+)\}")  # of an instruction, in a message from the C++ side


class _Buffer(ctypes.Structure):
    """emulation::Buffer of runtime.hpp."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("argument", ctypes.c_uint32),
        ("element_bytes", ctypes.c_uint32),
        ("records", ctypes.c_void_p),
    )


class _Launch(ctypes.Structure):
    """emulation::Launch of runtime.hpp."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("args", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("buffer_count", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("next", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("failed", ctypes.c_uint32),
        ("launched", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("message", ctypes.c_char * 2048),
    )


class _Bound:
    """A launch with its library and its arguments where the kernel finds them."""

    def __init__(self, launch: Launch, made: build.Instantiation, seed: int | None):
        self.kernel, self.library, self.args = launch.kernel, made.library, launch.args
        grid, block = three(launch.grid), three(launch.block)
        _check_geometry(launch, grid, block)
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = self.blocks * block[0] * block[1] * block[2]
        parameters = made.parameters
        if len(parameters) != len(launch.args):
            raise TypeError(f"{launch.kernel} takes {len(parameters)} arguments, not {len(launch.args)}")
        self._values: list[ctypes.Array[ctypes.c_uint64]] = []
        self._pointers = (ctypes.c_void_p * (len(parameters) + 1))()
        for i, (parameter, arg) in enumerate(zip(parameters, launch.args, strict=True)):
            try:
                content = _struct(parameter, arg) if isinstance(arg, Struct) else _content(parameter, arg)
            except TypeError as error:
                raise TypeError(f"argument {i} of {launch.kernel} {error}") from None
            value = (ctypes.c_uint64 * -(-len(content) // 8))()
            ctypes.memmove(value, content, len(content))
            self._values.append(value)
            self._pointers[i] = ctypes.addressof(value)
        self._buffers = _buffers(parameters, launch.args) if self.library.check else ()
        self.state = _Launch(
            call=made.kernel.call,
            args=ctypes.addressof(self._pointers),
            buffers=ctypes.addressof(self._buffers) if self._buffers else None,
            buffer_count=len(self._buffers),
            seed=_state_seed(seed),
            grid=grid,
            block=block,
            shared_bytes=launch.shared_bytes,
        )
        self.address = ctypes.addressof(self.state)

    def fault(self) -> str:
        message = self.state.message.decode(errors="replace")
        placed = _OFFSET.sub(lambda match: symbols.place_name(self.library.path, int(match[1], 16)), message)
        return f"{self.kernel}, {placed}"


def _state_seed(seed: int | None) -> int:
    """emulation::Launch::seed; None is the natural order."""
    return 0 if seed is None else (2 * seed + 1) % 2**64


class _BoundLoop:
    """A loop whose launches are bound."""

    def __init__(self, loop: Loop, bound: list[_Bound]):
        self._loop, self.launches = loop, bound

    def unrolled(self) -> Iterator[_Bound]:
        """The launches as often as they are to run; the caller has run one before it asks for the next."""
        for _ in range(self._loop.limit):
            yield from self.launches
            if not self._loop.more[0]:
                return
        raise DeviceFault(f"a loop has no end: {self.launches[-1].kernel} after {self._loop.limit:,} iterations")


def _buffers(parameters: list[build.Parameter], args: Sequence[Any]) -> ctypes.Array[_Buffer]:
    """The arrays of a launch. What the kernel may write comes first: of two views of one memory, that one decides."""
    found = [
        _Buffer(array.ctypes.data, array.nbytes, i, 0 if held.constant else min(held.bytes, array.itemsize), None)
        for i, (parameter, arg) in enumerate(zip(parameters, args, strict=True))
        for held, array in (zip(parameter.members, arg, strict=True) if isinstance(arg, Struct) else [(parameter, arg)])
        if held.pointer and array.nbytes
    ]
    found.sort(key=lambda buffer: not buffer.element_bytes)
    return (_Buffer * len(found))(*found)


def _check_geometry(launch: Launch, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    """What a CUDA device would refuse at launch."""
    for name, sizes, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        if any(not 1 <= n <= limit for n, limit in zip(sizes, limits, strict=True)):
            raise DeviceFault(f"{launch.kernel}: a {name} of {sizes} is outside (1, 1, 1) to {limits}")
    if block[0] * block[1] * block[2] > MAX_THREADS:
        raise DeviceFault(f"{launch.kernel}: a block of {block} has more than {MAX_THREADS} threads")
    if not 0 <= launch.shared_bytes <= MAX_DYNAMIC_SHARED:
        raise DeviceFault(
            f"{launch.kernel}: {launch.shared_bytes:,} bytes of shared memory, over {MAX_DYNAMIC_SHARED:,}"
        )


def _struct(parameter: build.Parameter, arg: Struct) -> bytes:
    """The bytes of a struct. Raises TypeError with the rest of a sentence."""
    if parameter.kind != b"s" or parameter.pointer:
        raise TypeError("is a struct, the kernel takes none there")
    if len(parameter.members) != len(arg):
        raise TypeError(f"is a struct of {len(arg)} members, the kernel takes one of {len(parameter.members)}")
    for i, (member, value) in enumerate(zip(parameter.members, arg, strict=True)):
        try:
            _content(member, value)
        except TypeError as error:
            raise TypeError(f"has a member {i} that {error}") from None
    content = arg.packed(lambda array: array.ctypes.data).tobytes()
    if len(content) != parameter.bytes:
        raise TypeError(f"is a struct of {len(content)} bytes, the kernel takes one of {parameter.bytes}")
    return content


def _content(parameter: build.Parameter, arg: Any) -> bytes:
    """The bytes of an argument, a pointer's or a scalar's. Raises TypeError with the rest of a sentence."""
    kind = parameter.kind.decode()
    wanted = np.dtype(f"{kind}{parameter.bytes}") if kind in "iufb" else None
    if not parameter.pointer:
        if wanted is None or not isinstance(arg, np.generic) or arg.dtype != wanted:
            raise TypeError(f"is {_described(arg)}, the kernel takes {wanted or 'a struct'}")
        return arg.tobytes()
    if not isinstance(arg, np.ndarray) or (wanted is not None and arg.dtype != wanted):
        raise TypeError(f"is {_described(arg)}, the kernel takes a pointer to {wanted or 'a struct'}")
    if not arg.flags.forc:
        raise TypeError("is an array with gaps, the kernel takes a contiguous one")
    if not parameter.constant and not arg.flags.writeable:
        raise TypeError("is read-only, the kernel takes a pointer that it may write through")
    address = arg.ctypes.data
    if address % min(parameter.bytes & -parameter.bytes, 16):  # a struct's size is a multiple of its alignment
        raise TypeError(f"is not aligned to the {parameter.bytes} bytes of its elements")
    return address.to_bytes(8, "little")


def _described(arg: Any) -> str:
    if isinstance(arg, np.ndarray):
        return f"an array of {arg.dtype}"
    return f"a NumPy {arg.dtype}" if isinstance(arg, np.generic) else f"a Python {type(arg).__name__}"


class EmulatedProgram(Program):
    """Launches bound to their arguments; `run` returns when they are done."""

    def __init__(
        self, device: Emulated, bound: list[_Bound | _BoundLoop | Callable[[int], None]], compile_seconds: float
    ):
        self._device, self._bound, self.compile_seconds = device, bound, compile_seconds

    @property
    def timed_by(self) -> str:
        """The host, which emulates the device."""
        return "host"

    def run(self) -> None:
        """One SpMV. Raises DeviceFault where a kernel did something that a GPU forbids, or where a loop has no end."""
        for bound in self._bound:
            if not isinstance(bound, _Bound | _BoundLoop):
                bound(0)
                continue
            for launch in bound.unrolled() if isinstance(bound, _BoundLoop) else (bound,):
                self._device.execute(launch)

    def run_in_order(self, number: int) -> None:
        """As `run`, with blocks, warps and lanes in an order drawn from the number; in their natural one for 0."""
        launches = [
            launch
            for bound in self._bound
            for launch in (bound.launches if isinstance(bound, _BoundLoop) else [bound])
            if isinstance(launch, _Bound)
        ]
        before = [launch.state.seed for launch in launches]
        try:
            for launch in launches:
                launch.state.seed = _state_seed(number or None)
            self.run()
        finally:
            for launch, seed in zip(launches, before, strict=True):
                launch.state.seed = seed


class Emulated(Device):
    """The host as a CUDA device.

    check: use the checking build, on one host thread: slower by far, but it finds races, uninitialised shared memory
    and accesses out of bounds. seed: run blocks and lanes in an order drawn from it, not in their natural one. workers:
    host threads that share a launch's blocks, default one a core, at most 16. Raises DeviceUnavailable where there is
    no C++ compiler.
    """

    kind = "emulated"
    xp = cast(ArrayModule, np)
    default_max_bytes = 512 * 2**20  # a padded gigabyte takes minutes to emulate
    limits = EMULATED

    def __init__(self, check: bool = False, seed: int | None = None, workers: int | None = None):
        self.name = "emulated-check" if check else "emulated"
        self.check, self.seed = check, seed
        self.compiler = build.find_compiler(os.environ.get("CXX"))
        self.workers = 1 if check else max(1, min(workers or os.cpu_count() or 1, MAX_WORKERS))
        self._arenas: list[int] = []
        self._made: dict[tuple[str, str], build.Instantiation] = {}  # as on a GPU: each source is read once
        self._float_atomics: dict[tuple[str, str], bool | None] = {}
        self._start_threads()
        _opened.add(self)

    def _start_threads(self) -> None:
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="emulated")

    def float_atomics(self, launch: Launch) -> bool | None:
        """As Device.float_atomics, of the same source as NVRTC compiles it for a GPU; None without NVRTC."""
        source, kernel = launch.source, launch.kernel
        if (source, kernel) not in self._float_atomics:
            found = None
            with suppress(DeviceFault, DeviceUnavailable):
                found = cuda.compiled(kernel_path(source), kernel, TOLD_FOR, None).float_atomics
            self._float_atomics[source, kernel] = found
        return self._float_atomics[source, kernel]

    def compile(self, launches: Sequence[Step]) -> EmulatedProgram:
        """Compile and bind. Raises DeviceFault for a source that does not compile or a launch that CUDA refuses,
        TypeError for arguments that are not what the kernel takes. Calls are those of programs on the host.
        """
        started = perf_counter()

        def kept(steps: Iterable[Launch | Call]) -> list[Launch]:
            return [step for step in steps if isinstance(step, Launch) and cuda.has_work(step)]

        self.precompile({(launch.source, launch.kernel) for launch in kept(single_steps(launches))})

        def bind(steps: Iterable[Launch | Call]) -> list[_Bound]:
            return [_Bound(launch, self._made[launch.source, launch.kernel], self.seed) for launch in kept(steps)]

        bound: list[_Bound | _BoundLoop | Callable[[int], None]] = []
        for step in launches:
            if isinstance(step, Call):
                bound.append(step.function if step.y is None else OwnResult(step, _copy))
                continue
            steps = bind(step.steps if isinstance(step, Loop) else [step])
            bound += [_BoundLoop(step, steps)] if isinstance(step, Loop) and steps else steps
        program = EmulatedProgram(self, bound, perf_counter() - started)
        program.calls = [step.name for step in launches if isinstance(step, Call)]
        return program

    def precompile(self, kernels: Iterable[tuple[str, str]]) -> None:
        """Compile instantiations, (source, name expression), that launches ask for then or later.

        Those of one source together take half of the time. Raises DeviceFault for a source that does not compile.
        """
        missing = defaultdict(list)
        # The difference of the sets would look at all that was ever made, for each launch.
        for source, expression in {kernel for kernel in kernels if kernel not in self._made}:
            missing[source].append(expression)
        made = self._pool.map(
            lambda source: build.instantiations(kernel_path(source), missing[source], check=self.check), missing
        )
        for source, found in zip(missing, made, strict=True):
            self._made |= {(source, expression): kernel for expression, kernel in found.items()}

    def execute(self, bound: _Bound, first: int = 0) -> None:
        """Run one launch to its end, its blocks from number `first` on. Raises DeviceFault, OutOfDeviceMemory."""
        hands = 1 if bound.threads <= SMALL else min(self.workers, bound.blocks)
        with _running:
            arenas = self._arenas if len(self._arenas) >= hands else self._more_arenas(hands, bound.library)
            bound.state.next, bound.state.failed, bound.state.launched = first, 0, None
            run = bound.library.spmvbench_run
            helpers = [self._pool.submit(run, arena, bound.address) for arena in arenas[1:hands]]
            run(arenas[0], bound.address)
            for helper in helpers:
                helper.result()
            self._run_launched(bound, bound.state, bound.address)
        if bound.state.failed == _NO_MEMORY:
            raise OutOfDeviceMemory(bound.fault())
        if bound.state.failed:
            raise DeviceFault(bound.fault())

    def _run_launched(self, bound: _Bound, state: _Launch, address: int) -> None:
        """Run the grids that the threads of a launch have launched, and what these launch; `bound` gets their fault."""
        while launched := bound.library.spmvbench_take_launched(address):
            child = _Launch.from_address(launched)
            if not bound.state.failed:
                bound.library.spmvbench_run(self._arenas[0], launched)
                if child.failed:
                    bound.state.failed, bound.state.message = child.failed, child.message
                self._run_launched(bound, child, launched)
            bound.library.spmvbench_free_launched(launched)

    def _more_arenas(self, count: int, library: build.Library) -> list[int]:
        if not self._arenas:
            weakref.finalize(self, _destroy, library, self._arenas)
        while len(self._arenas) < count:
            arena = library.spmvbench_arena_create()
            if arena is None:
                raise DeviceUnavailable("no address space is left for the emulated device: use fewer workers")
            self._arenas.append(arena)
        return self._arenas

    def capture(self, program: Program, repeats: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(repeats):
                program.run()

        return work

    def elapsed(self, work: Callable[[], None], *, flush: bool = False) -> float:
        """Seconds on the host's clock. There is no L2 to flush."""
        started = perf_counter()
        work()
        return perf_counter() - started

    def synchronize(self) -> None:
        """Nothing to wait for: `run` returns when it is done."""

    def properties(self) -> dict[str, Any]:
        return {
            "device_name": f"emulated on {platform.processor() or platform.machine()}",
            "compiler": self.compiler.version.partition("\n")[0],
            "workers": self.workers,
            "check": self.check,
            "seed": self.seed,
        }

    def memory_free(self) -> int:
        import psutil

        return psutil.virtual_memory().available

    def close(self) -> None:
        self._pool.shutdown()


_opened: weakref.WeakSet[Emulated] = weakref.WeakSet()


def _after_fork() -> None:
    """Give the devices of a forked process threads of its own: those of its parent are not there."""
    global _running
    _running = threading.Lock()
    for device in list(_opened):
        device._start_threads()


os.register_at_fork(after_in_child=_after_fork)


def _copy(found: np.ndarray, y: np.ndarray, stream: int) -> None:
    y[...] = found


def _destroy(library: build.Library, arenas: list[int]) -> None:
    for arena in arenas:
        library.spmvbench_arena_destroy(arena)
