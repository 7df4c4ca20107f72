"""An NVIDIA GPU: kernels compiled by NVRTC for its own architecture, run and timed through CuPy."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import logging
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter  # bound before a format can replace it
from typing import Any, NamedTuple, cast

import numpy as np

from spmvbench import paths
from spmvbench.devices import cuda_driver, loops, nvrtc, overlap
from spmvbench.devices.base import (
    CODE_HASH,
    Device,
    DeviceFault,
    DeviceUnavailable,
    OutOfDeviceMemory,
    Program,
    pseudonym,
)
from spmvbench.devices.host_driven import HostDriven, OwnResult
from spmvbench.formats.arrays import LINE_BYTES, Array, address, cdiv
from spmvbench.formats.conversion import cuda_limits
from spmvbench.formats.kernels import headers, kernel_path
from spmvbench.formats.launches import (
    AnyStep,
    Call,
    Launch,
    Loop,
    Step,
    flat,
    kinds_of,
    layout_of,
    single_steps,
    three,
)
from spmvbench.formats.streams import Stream as KnownStream

log = logging.getLogger(__name__)

# A queue held back longer than this means that the host could not enqueue: the sample would hold launch latency.
HOLD_CYCLES = 4_000_000_000
SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_SIZE_BYTES = 1, 8  # CUfunction_attribute
DEFAULT_SHARED_BYTES = 48 * 1024
# Errors that leave the context unusable (CUDA driver API, CUresult): addresses, instructions, time-outs, asserts, ECC.
STICKY = {214, 220, 226, *range(700, 720)} - {701, 704, 705, 708, 709, 712, 713}
# nvmlClocksEventReason bits.
THROTTLE_REASONS = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat, hardware slowdown", 0x80: "power brake"}
POWER_CAP_REASON = 0x4
REPEAT = Launch("repeat.cu", "repeat", 1, 1, ())
CHECKSUM_BLOCKS = 2048  # enough to fill a GPU; each adds to the sum once a warp
_NOTE, _NO_BITS = 7, 8  # types of ELF sections
FLOAT_ATOMICS = ("no-float-atomics", "float-atomics")  # the word in the disk cache for a kernel without them, with them
HOST_DRIVEN = "the host, product by product: no graph captures {}"
POWER_CAP_CLOCK_SHARE = 0.75  # a power cap counts only once it takes more than a quarter of the clock (as NVBench)


def why_unavailable(ordinal: int = 0) -> str | None:
    """Why the NVIDIA GPU of this number cannot be used here, in a few words; None if it can."""
    for package, module in (("CuPy", "cupy"), ("cuda-bindings", "cuda.bindings.driver")):
        try:
            importlib.import_module(module)
        except ImportError:
            return f"{package} is not installed: pip install 'spmvbench[cuda13]' (or cuda12)"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no NVIDIA GPU can be used ({error})"
    if not count:
        return "no NVIDIA GPU was found"
    return None if ordinal < count else f"there is no cuda:{ordinal}: this machine has {count} GPU{'s' * (count > 1)}"


def toolchain(ordinal: int) -> str:
    """What compiled code depends on besides its source: architecture, NVRTC, CuPy. Opens no context on the GPU."""
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion() // 1000
    return f"sm_{cupy.cuda.Device(ordinal).compute_capability} NVRTC {nvrtc.version(driver)} CuPy {cupy.__version__}"


def memory_bytes(ordinal: int) -> int:
    """Bytes of memory of a GPU, taken or not. Opens no context on it."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(ordinal)["totalGlobalMem"])


class _Faults:
    """Within it CuPy's errors are the device's own. Entered hundreds of times a case: a generator takes longer."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None:
            return
        import cupy

        if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
            raise OutOfDeviceMemory(str(error), getattr(error, "_size", 0)) from error
        if isinstance(error, cupy.cuda.driver.CUDADriverError | cupy.cuda.runtime.CUDARuntimeError):
            if error.status == 2:  # out of memory, in both APIs
                raise OutOfDeviceMemory(str(error)) from error
            raise DeviceFault(str(error), sticky=error.status in STICKY) from error


@cache
def _peak_memory() -> Any:
    """What CuPy's pool has handed out, and the most of it (`used`, `peak`, bytes); CuPy itself keeps no peak.

    One for the process, from the first question on: the hook stays for good, makes every allocation slower, and CuPy
    refuses a second.
    """
    from cupy.cuda.memory_hook import MemoryHook

    class PeakMemory(MemoryHook):  # type: ignore[misc]  # CuPy has no types
        name = "spmvbench"
        used = peak = 0

        def malloc_postprocess(self, **event: Any) -> None:
            self.used += event["mem_size"]
            self.peak = max(self.peak, self.used)

        def free_postprocess(self, **event: Any) -> None:
            self.used -= event["mem_size"]

    hook = PeakMemory()
    hook.__enter__()
    return hook


class CudaProgram(Program):
    """Launches with their arguments in the driver's form, made once."""

    def __init__(self, device: Cuda, launches: Sequence[Step]):
        began = perf_counter()
        steps = [step for step in overlapping(launches, possible=device.overlaps) if has_work(step)]
        kernels = [step for step in single_steps(steps) if isinstance(step, Launch) and has_work(step)]
        loops_back = any(isinstance(step, Loop) for step in steps)
        self.calls = [step.name for step in single_steps(steps) if isinstance(step, Call)]
        called = [step.name for step in single_steps(steps) if isinstance(step, Call) and step.y is not None]
        functions = device.functions([*kernels, REPEAT] if loops_back else kernels)
        self.compile_seconds = perf_counter() - began
        self.code_hash = device.code_hash(kernels)

        def bind(step: Launch | Call) -> Callable[[int], None]:
            if isinstance(step, Launch):
                return _bind(functions[step.source, step.kernel], step)
            return step.function if step.y is None else OwnResult(step, _copy)

        self._steps: list[Callable[[int], None]] = []
        for step in steps:
            if isinstance(step, Loop):
                inside = [bind(inner) for inner in overlapping(step.steps, possible=False) if has_work(inner)]
                self._steps.append(_BoundLoop(device, step, inside))
            else:
                self._steps.append(bind(step))
        if called:
            self.host_driven = HOST_DRIVEN.format(called[0])
        elif loops_back and not device.graphs_loop:
            self.host_driven = "the host, between levels: its graphs have no loops before CUDA 12.4"
        elif waiting := device.waiting.intersection(self.calls):
            self.host_driven = HOST_DRIVEN.format(*waiting)
        self.enqueued = not device.enqueued.isdisjoint(self.calls)
        self._keep = steps  # the arrays after the bound pointers
        self._stream = device.stream.ptr

    @property
    def steps(self) -> tuple[Callable[[int], None], ...]:
        """What `run` calls, in order, each with the handle of a stream."""
        return tuple(self._steps)

    def run(self, stream: int | None = None) -> None:
        """Enqueue one SpMV on the device's stream, or on another by its handle; a loop waits for its end."""
        with _Faults():
            for step in self._steps:
                step(self._stream if stream is None else stream)

    def record(self) -> None:
        for step in self._steps:
            getattr(step, "record", step)(self._stream)


def _enqueuing(program: CudaProgram, repeats: int) -> Callable[[], None]:
    def enqueue() -> None:
        for _ in range(repeats):
            program.run()

    return enqueue


def has_work(step: Step) -> bool:
    """Whether a step runs anything: launches with an empty grid do not."""
    if isinstance(step, Loop):
        return any(map(has_work, step.steps))
    return isinstance(step, Call) or min(three(step.grid)) > 0


def overlapping(steps: Sequence[AnyStep], *, possible: bool) -> list[AnyStep]:
    """The steps; launches do not overlap with what is before them unless that is a kernel of these steps that runs.

    An overlapping kernel reads x while the one before it runs, which must not be the one that writes x. possible:
    whether the device can do it.
    """
    found: list[AnyStep] = []
    for step in steps:
        if isinstance(step, Launch) and step.overlaps:
            before = found[-1] if found else None
            if not (possible and isinstance(before, Launch) and has_work(before)):
                step = cast(AnyStep, step.changed(overlaps=False))
        found.append(step)
    return found


class _BoundLoop:
    """A loop with its steps bound: called, the host asks after each iteration; in a graph, the device alone decides."""

    def __init__(self, device: Cuda, loop: Loop, steps: list[Callable[[int], None]]):
        self._device, self._loop, self._steps = device, loop, steps
        self._iterations = device.xp.zeros(1, np.int32)
        self._seen = np.frombuffer(device.xp.cuda.alloc_pinned_memory(4), np.int32, 1)

    def _iterate(self, stream: int) -> None:
        for step in self._steps:
            step(stream)

    def __call__(self, stream: int) -> None:
        runtime, more = self._device.xp.cuda.runtime, address(self._loop.more)
        for _ in range(self._loop.limit):
            self._iterate(stream)
            runtime.memcpyAsync(self._seen.ctypes.data, more, 4, runtime.memcpyDefault, stream)
            runtime.streamSynchronize(stream)
            if not self._seen[0]:
                return
        raise DeviceFault(f"a loop has no end: {self._loop.limit:,} iterations")

    def record(self, stream: int) -> None:
        body_stream = self._device.body_stream.ptr

        def body(handle: int) -> None:
            self._iterate(body_stream)
            args = (np.uint64(handle), self._loop.more, self._iterations, np.int32(self._loop.limit))
            function = self._device.functions([REPEAT])[REPEAT.source, REPEAT.kernel]
            _bind(function, replace(REPEAT, args=args))(body_stream)

        loops.record(stream, body_stream, body)


def _copy(found: Array, y: Array, stream: int) -> None:
    from cupy.cuda import Stream, runtime

    if found.strides == y.strides:
        runtime.memcpyAsync(address(y), address(found), y.nbytes, runtime.memcpyDeviceToDevice, stream)
        return
    with Stream.from_external(KnownStream(stream)):  # a Y that lies in memory the other way around
        y[...] = found


def _bind(function: Any, launch: Launch) -> Callable[[int], None]:
    """A call that launches with nothing left to prepare but the stream."""
    from cupy.cuda import driver

    # An array of the host stands for its one element, which each launch reads anew.
    whole, begins = layout_of(kinds_of(launch.args))
    memory = (ctypes.c_uint64 * cdiv(whole.size, 8))()
    whole.pack_into(memory, 0, *[arg if isinstance(arg, np.generic) else address(arg) for arg in flat(launch.args)])
    first, cells = ctypes.addressof(memory), (memory, launch.args)
    places = [
        address(arg) if isinstance(arg, np.ndarray) else first + begin
        for arg, begin in zip(launch.args, begins, strict=True)
    ]
    pointers = (ctypes.c_void_p * len(begins))(*places)
    # What the kernel declares itself counts, too.
    if launch.shared_bytes + driver.funcGetAttribute(SHARED_SIZE_BYTES, function.ptr) > DEFAULT_SHARED_BYTES:
        # Other programs may hold the same function and need more.
        held = driver.funcGetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, function.ptr)
        driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED_SIZE_BYTES, max(held, launch.shared_bytes))
    # Looked up once: an operator's call has a few microseconds for everything.
    start, table, handle = driver.launchKernel, ctypes.addressof(pointers), function.ptr
    shape = (*three(launch.grid), *three(launch.block), launch.shared_bytes)
    if launch.overlaps:
        return overlap.bound(handle, shape, table, (function, cells, pointers))

    def run(stream: int, _keep: Any = (function, cells, pointers)) -> None:
        start(handle, *shape, stream, table, 0)

    return run


class Cuda(Device):
    """One GPU by its CUDA ordinal. Programs run on one stream of its own.

    The stream waits for the default stream, where CuPy converts, and the other way round. Raises DeviceUnavailable,
    with what to install, where there is none.
    """

    kind = "cuda"

    def __init__(self, ordinal: int = 0):
        reason = why_unavailable(ordinal)
        if reason is not None:
            raise DeviceUnavailable(reason)
        import cupy

        self.xp = cupy
        self.name = f"cuda:{ordinal}"
        self._device = cupy.cuda.Device(ordinal)
        self._device.use()
        self.stream = cupy.cuda.Stream()
        self.body_stream = cupy.cuda.Stream(non_blocking=True)  # captures the bodies of loops, and nothing else
        self.graphs_loop = cupy.cuda.runtime.driverGetVersion() >= loops.OLDEST
        major, minor = divmod(int(self._device.compute_capability), 10)
        self.overlaps = major >= overlap.CAPABILITY and cupy.cuda.runtime.driverGetVersion() >= overlap.OLDEST
        self._arch = f"sm_{major}{minor}"
        self._cuda = cupy.cuda.runtime.driverGetVersion() // 1000
        self._attribute: Callable[[int], int] = lambda number: cupy.cuda.runtime.deviceGetAttribute(number, ordinal)
        self.default_max_bytes = self._device.mem_info[1] // 4
        self.limits = cuda_limits(ordinal)
        # Calls that no graph captures, and of these the ones that wait for the device: `try_out` has found them.
        self.enqueued, self.waiting = set[str](), set[str]()
        self._functions: dict[tuple[str, str], Any] = {}
        self._codes: dict[tuple[str, str], bytes] = {}  # digests of their machine code
        self._float_atomics: dict[tuple[str, str], bool] = {}
        self._modules: list[Any] = []
        self._nvml = _nvml_handle(self._device.pci_bus_id)
        self._flush_buffer: Any = None
        self._discard: CudaProgram | None = None
        self._release = np.frombuffer(cupy.cuda.alloc_pinned_memory(8), np.int32, 2)
        self._events = cupy.cuda.Event(), cupy.cuda.Event()
        hold = Launch("hold.cu", "hold", 1, 1, (np.int64(self._release.ctypes.data), np.int64(HOLD_CYCLES)))
        self._hold = CudaProgram(self, [hold])

    def functions(self, launches: Sequence[Launch]) -> dict[tuple[str, str], Any]:
        """The kernels of the launches. Each that is missing is compiled by itself, to be found again by itself."""
        wanted = dict.fromkeys((launch.source, launch.kernel) for launch in launches)
        missing = [kernel for kernel in wanted if kernel not in self._functions]
        if missing:
            with ThreadPoolExecutor() as pool:  # NVRTC runs outside of the interpreter's lock
                codes = pool.map(lambda k: compiled(kernel_path(k[0]), k[1], self._arch, self._cuda), missing)
                for kernel, code in zip(missing, codes, strict=True):
                    self._functions[kernel] = self._loaded(code.name, code.binary)
                    self._codes[kernel] = binary_hash(code.binary)
                    self._float_atomics[kernel] = code.float_atomics
        return self._functions

    def float_atomics(self, launch: Launch) -> bool:
        """As Device.float_atomics."""
        self.functions([launch])
        return self._float_atomics[launch.source, launch.kernel]

    def code_hash(self, launches: Sequence[Launch]) -> str:
        """As Program.code_hash, of launches whose `functions` were asked for."""
        return code_hash(self._codes[launch.source, launch.kernel] for launch in launches)

    def _loaded(self, name: str, binary: bytes) -> Any:
        from cupy.cuda.function import Module

        module = Module()
        with _Faults():
            module.load(binary)
        self._modules.append(module)
        return module.get_function(name)

    def compile(self, launches: Sequence[Step]) -> CudaProgram:
        return CudaProgram(self, launches)

    def prepare(self, launches: Sequence[Step]) -> None:
        self.functions([step for step in single_steps(launches) if isinstance(step, Launch) and has_work(step)])

    def try_out(self, program: Program) -> float:
        assert isinstance(program, CudaProgram)
        with self._calling():
            seconds = super().try_out(program)
        if not program.calls or program.host_driven or self._possible(program):
            return seconds
        self.enqueued.update(program.calls)
        program.enqueued = True
        if not self._possible(program):
            self.waiting.update(program.calls)
            program.host_driven = HOST_DRIVEN.format(program.calls[0])
        return seconds

    def _possible(self, program: CudaProgram) -> bool:
        """Whether one product can be timed as `capture` would do it. Raises a DeviceFault that is sticky."""
        try:
            self.elapsed(self.capture(program, 1))
            return True
        except DeviceFault as fault:
            if fault.sticky:
                raise
        except Exception as error:  # a library or a compiler in Python has its own
            log.info("%s: %s", program.calls[0], error)
        self.synchronize()
        return False

    def capture(self, program: Program, repeats: int) -> Callable[[], None]:
        """A replay of a CUDA graph, or the host's own loop where graphs have none: `elapsed` times it by the host."""
        assert isinstance(program, CudaProgram)
        if program.host_driven:
            return HostDriven(program.steps, self.stream.ptr, repeats, self._calling)
        if program.enqueued:
            return _enqueuing(program, repeats)
        with _Faults():
            self.stream.begin_capture()
            try:
                for _ in range(repeats):
                    program.record()
            finally:
                graph = self.stream.end_capture()
            graph.upload(self.stream)

        def replay(_keep: CudaProgram = program) -> None:  # the graph holds addresses of the program's arrays
            graph.launch(self.stream)

        return replay

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """The device's stream is the current one of CuPy, as for the calls of its users."""
        with self.uncounted(), self.stream:
            yield

    def elapsed(self, work: Callable[[], None], *, flush: bool = False) -> float:
        """Seconds between two events around `work`, all of it enqueued before the first event is reached.

        What the host drives, by iteration or by product, is timed by the host's clock, its waiting included.
        With `flush`, a write over as many bytes as L2 holds goes before (as NVBench does between cold samples).
        Raises DeviceFault if the work fails, or where the host cannot enqueue it in about two seconds.
        """
        begin, end = self._events
        with _Faults():
            if flush:
                self._flush()
            if isinstance(work, HostDriven):  # the host waits for the device, which cannot be held back then
                self.stream.synchronize()
                began = perf_counter()
                work.start()
                self.stream.synchronize()
                seconds = perf_counter() - began
                work.finish()
                return seconds
            self._release[:] = 0
            self._hold.run()
            try:
                begin.record(self.stream)
                work()
                end.record(self.stream)
            finally:
                self._release[0] = 1
            end.synchronize()
            if self._release[1]:
                raise DeviceFault("the host could not enqueue the work in time to measure it")
            return float(self.xp.cuda.get_elapsed_time(begin, end)) * 1e-3

    def _flush(self) -> None:
        if self._flush_buffer is None:
            self._flush_buffer = self.xp.empty(self._attribute(38), dtype=np.uint8)  # cudaDevAttrL2CacheSize
        self._flush_buffer.data.memset_async(0, self._flush_buffer.nbytes, self.stream)

    def fill_cache(self) -> None:
        """Write as many bytes as L2 holds, as other work would."""
        with _Faults():
            self._flush()

    def empty_cache(self) -> None:
        """Write over as many bytes as L2 holds, and drop these lines: those of a flush would stay like any other's."""
        with _Faults():
            self._flush()
            if self._discard is None:
                lines, block = self._flush_buffer.nbytes // LINE_BYTES, 256
                args = (self._flush_buffer, np.int64(lines))
                self._discard = CudaProgram(self, [Launch("discard.cu", "discard", cdiv(lines, block), block, args)])
            self._discard.run()

    def synchronize(self) -> None:
        with _Faults():
            self._device.synchronize()  # CuPy's conversions run on the default stream, not on this device's own

    def properties(self) -> dict[str, Any]:
        import cupy

        found = cupy.cuda.runtime.getDeviceProperties(self._device.id)
        nvml_facts: dict[str, Any] = {}
        if self._nvml is not None:
            import pynvml

            limit = _asked("nvmlDeviceGetEnforcedPowerLimit", self._nvml)
            ecc = _asked("nvmlDeviceGetEccMode", self._nvml)
            nvml_facts = {
                "driver": pynvml.nvmlSystemGetDriverVersion(),
                "max_sm_clock_mhz": _asked("nvmlDeviceGetMaxClockInfo", self._nvml, pynvml.NVML_CLOCK_SM),
                "max_memory_clock_mhz": _asked("nvmlDeviceGetMaxClockInfo", self._nvml, pynvml.NVML_CLOCK_MEM),
                "power_limit_w": None if limit is None else limit / 1000,
                "ecc": None if ecc is None else bool(ecc[0]),
            }
        return {
            "device": self.name,
            "device_name": found["name"].decode(),
            "architecture": self._arch,
            "multiprocessors": self._attribute(16),
            "shared_bytes": self.limits.shared_bytes,
            "l2_bytes": self._attribute(38),
            "memory_bytes": self._device.mem_info[1],
            "memory_bus_bits": self._attribute(37),
            "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
            "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
            "nvrtc": ".".join(map(str, nvrtc.version(self._cuda))),
            "cupy": cupy.__version__,
            "cusparse": _cusparse_version(),
            "gpu": gpu_name(str(cuda_driver.device_uuid(self._device.id))),
            "numa_node": _numa_node(self._device.pci_bus_id),
        } | nvml_facts

    def memory_free(self) -> int:
        with _Faults():
            return int(self._device.mem_info[0] + self.xp.get_default_memory_pool().free_bytes())

    def memory_peak(self) -> int:
        return int(_peak_memory().peak)

    def reset_memory_peak(self) -> None:
        counted = _peak_memory()
        counted.peak = counted.used

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        if not _peak_memory.cache_info().currsize:
            yield
            return
        hook = _peak_memory()
        hook.__exit__()
        try:
            yield
        finally:
            hook.__enter__()

    def throttle_reason(self) -> str:
        if self._nvml is None:
            return ""
        import pynvml

        reasons = _asked("nvmlDeviceGetCurrentClocksEventReasons", self._nvml) or 0
        found = [text for bit, text in THROTTLE_REASONS.items() if reasons & bit]
        if not found and not reasons & POWER_CAP_REASON:
            return ""  # most often: one question of NVML, which takes a millisecond
        highest = _asked("nvmlDeviceGetMaxClockInfo", self._nvml, pynvml.NVML_CLOCK_SM) or float("nan")
        clock = self.sm_clock_mhz()
        if reasons & POWER_CAP_REASON and clock < POWER_CAP_CLOCK_SHARE * highest:
            found.append("power cap")
        return f"{', '.join(found)}: {clock:.0f} of {highest:.0f} MHz" if found else ""

    def sm_clock_mhz(self) -> float:
        if self._nvml is None:
            return float("nan")
        import pynvml

        clock = _asked("nvmlDeviceGetClockInfo", self._nvml, pynvml.NVML_CLOCK_SM)
        return float("nan") if clock is None else float(clock)

    def energy(self) -> float:
        # GPUs before Volta count no energy, and neither do some virtual machines.
        used = None if self._nvml is None else _asked("nvmlDeviceGetTotalEnergyConsumption", self._nvml)
        return float("nan") if used is None else 1e-3 * float(used)

    def to_device(self, array: np.ndarray) -> Array:
        with _Faults():
            return self.xp.asarray(array)

    def to_host(self, array: Array) -> np.ndarray:
        with _Faults():
            return np.asarray(self.xp.asnumpy(array))

    def checksums(self, arrays: Sequence[Array]) -> Callable[[], list[int]]:
        sums = self.xp.zeros(len(arrays), np.uint64)
        program = self._summing(arrays, sums)

        def compute(keep: Sequence[Array] = arrays) -> list[int]:
            sums.fill(0)
            program.run()
            return list(map(int, self.to_host(sums)))

        return compute

    def checksum_series(self, array: Array, most: int) -> tuple[Callable[[], None], Callable[[], list[int]]]:
        """As `Device.checksum_series`; the host waits for nothing until all are asked for."""
        sums = self.xp.zeros(most, np.uint64)
        place = np.array([address(sums)], np.uint64)
        program, begin = self._summing([array], place), int(place[0])

        def note() -> None:
            program.run()
            place[0] += np.uint64(sums.itemsize)

        return note, lambda: list(map(int, self.to_host(sums)[: (int(place[0]) - begin) // sums.itemsize]))

    def _summing(self, arrays: Sequence[Array], sums: Array) -> CudaProgram:
        """Adds the checksums of arrays to `sums`, or to what the one element of an array of the host points to."""
        spans = np.array([[address(array) for array in arrays], [array.nbytes for array in arrays]], np.uint64)
        grid = (min(cdiv(int(spans[1].max(initial=0)), 4 * 256), CHECKSUM_BLOCKS), len(arrays))
        return self.compile([Launch("checksum.cu", "checksum<0>", grid, 256, (*self.to_device(spans), sums))])

    def close(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()


def gpu_name(unique: str) -> str:
    """A GPU's name among all others, from its UUID (see `pseudonym`; openly it is ``GPU-...`` as nvidia-smi prints)."""
    return pseudonym(unique, f"GPU-{unique}")


def _numa_node(pci_bus_id: str) -> str:
    """The NUMA node of the host that a GPU is attached to, as the kernel counts them; empty if it does not say."""
    try:
        node = Path(f"/sys/bus/pci/devices/{pci_bus_id.lower()}/numa_node").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return "" if node.startswith("-") else node


def _cusparse_version() -> int | None:
    """The library's version as it counts, 12703 for 12.7.3; None if it is not installed."""
    try:
        from cupy.cuda import cusparse, device

        return int(cusparse.getVersion(device.get_cusparse_handle()))
    except (ImportError, AttributeError, OSError, RuntimeError):
        return None


def _asked(function: str, handle: Any, *args: Any) -> Any:
    """What a function of NVML says of a GPU; None if this GPU, driver or virtual machine does not say it."""
    import pynvml

    try:
        return getattr(pynvml, function)(handle, *args)
    except pynvml.NVMLError:
        return None


def _nvml_handle(pci_bus_id: str) -> Any:
    """NVML's handle of the GPU, None if the library is missing (throttling is then not seen)."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except Exception:  # without NVML the benchmark still measures; `env` and run.json show that clocks are missing
        return None


class Code(NamedTuple):
    """One compiled kernel: its lowered name, its machine code, and whether it adds floats by atomics."""

    name: str
    binary: bytes
    float_atomics: bool


def _cached(path: Path) -> Code | None:
    """The kernel in a file of the disk cache; None if there is none that this user wrote."""
    try:
        with open(paths.opened(path), "rb") as file:
            if not paths.is_own(os.fstat(file.fileno())):
                return None
            header, _, binary = file.read().partition(b"\n")
            name, adds = header.decode().split(" ")
            return Code(name, binary, adds == FLOAT_ATOMICS[True])
    except OSError:
        return None


def binary_hash(binary: bytes) -> bytes:
    """SHA-256 of a kernel's machine code, an ELF file of 64 bits, without what only names its sources and its compiler.

    Line tables hold the folder of each source file, its size and the time of its last change, which differ from one
    installation to another; notes hold the compiler's build. Neither runs. Whatever is no such file counts as a whole.
    """
    try:
        return hashlib.sha256(b"".join(_sections_that_count(binary))).digest()
    except (struct.error, ValueError, IndexError):
        return hashlib.sha256(binary).digest()


def _sections_that_count(binary: bytes) -> Iterator[bytes]:
    """Name, size and content of sections. Raises struct.error, ValueError or IndexError if it is no ELF of 64 bits."""
    if not binary.startswith(b"\x7fELF\x02\x01"):
        raise ValueError
    (place,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<3H", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", binary, place + size * index) for index in range(count)]
    for name, kind, _, _, begin, length in headers:
        called = binary[headers[names][4] + name :].partition(b"\0")[0]
        if kind != _NOTE and b"debug_" not in called:
            content = b"" if kind == _NO_BITS else binary[begin : begin + length]
            yield b"%s\0%d\0%s" % (called, length, content)


def code_hash(hashes: Iterable[bytes]) -> str:
    """`Program.code_hash` from the `binary_hash` of each kernel, in the order of the launches; empty without any."""
    together = b"".join(hashes)
    return CODE_HASH + hashlib.sha256(together).hexdigest()[:16] if together else ""


def compiled(source: Path, kernel: str, arch: str, cuda: int | None) -> Code:
    """One instantiation of a source file, from the disk cache where it has it.

    cuda: the major version of CUDA that the driver understands; None if nothing runs here.
    Raises DeviceFault with the compiler's log.
    """
    digest = hashlib.sha256(repr((kernel, nvrtc.version(cuda), nvrtc.key_options(arch), FLOAT_ATOMICS)).encode())
    for path in (source, *headers(source)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cached = paths.compiled() / "cuda" / f"{digest.hexdigest()[:32]}.cubin"
    found = _cached(cached)
    if found is not None:
        return found
    binary, names, ptx = nvrtc.compile(source, [kernel], arch, newest=cuda)
    name = names[kernel]
    code = Code(name, binary, nvrtc.float_atomics(ptx, name))
    try:
        paths.trusted_folder(cached.parent)
        with paths.written_whole(cached) as file:
            file.write(f"{name} {FLOAT_ATOMICS[code.float_atomics]}\n".encode() + binary)
    except OSError as error:
        log.warning("no machine code is kept in %s: %s", cached, error)
    return code
