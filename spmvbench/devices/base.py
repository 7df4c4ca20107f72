"""What a device is to the rest: it compiles launches, runs them, and measures how long enqueued work took."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter  # bound before a format can replace it
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.formats.arrays import Array, ArrayModule
from spmvbench.formats.conversion import Limits
from spmvbench.formats.launches import Launch, Step


def pseudonym(name: str, openly: str = "") -> str:
    """A hash in place of a name, so that rows distinguish GPUs and hosts without naming them.

    The name itself, or what it is `openly`, where SPMVBENCH_IDENTIFY is set.
    """
    if os.environ.get("SPMVBENCH_IDENTIFY"):
        return openly or name
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class DeviceUnavailable(SpmvbenchError):
    """The device cannot be used here; the message says what to install."""


class DeviceFault(Exception):
    """A kernel did something illegal (an address, a barrier, a mask). `sticky`: the process cannot go on with it."""

    def __init__(self, message: str, *, sticky: bool = False):
        super().__init__(message)
        self.sticky = sticky


class Throttling(DeviceFault):
    """The device lowers its clocks all the time, so that its times would be those of a slower one."""

    def __init__(self, reason: str):
        super().__init__(f"the GPU throttles ({reason}), so that its times would mean nothing", sticky=True)


FIRST_ERRORS = 3
# g++ and clang: file.cu:14:24: error: ...; NVRTC: file.cu(14): error: ...
_ERROR = re.compile(r"^(.*?)[:(](\d+)(?::\d+|\))?: *(?:fatal |catastrophic )?error:? *(.+)$", re.MULTILINE)


def does_not_compile(source: Path, target: str, log: str) -> DeviceFault:
    """What a compiler's log comes to: the first errors in the first line, the whole log below."""
    found = list(dict.fromkeys(f"{Path(file).name}:{line}: {text}" for file, line, text in _ERROR.findall(log)))
    more = f"; and {len(found) - FIRST_ERRORS} more" if len(found) > FIRST_ERRORS else ""
    errors = "; ".join(found[:FIRST_ERRORS]) or log.strip().partition("\n")[0]
    return DeviceFault(f"{source.name} does not compile for {target}: {errors}{more}\n{log.strip()}")


class OutOfDeviceMemory(Exception):
    """An allocation on the device failed. asked: its bytes; 0 if unknown."""

    def __init__(self, message: str, asked: int = 0):
        super().__init__(message)
        self.asked = asked


# What hashes of machine code begin with. Those of the first version, without it, covered line tables as well: folders
# and times of source files. They differ from one installation to another.
CODE_HASH = "2-"


class Program(ABC):
    """The launches of one SpMV, compiled, with their arguments bound once.

    compile_seconds: time spent compiling (near zero where the disk cache had it). code_hash: CODE_HASH and the SHA-256
    (16 hex digits) of the machine code of its kernels; empty if there is none (a library's calls, the emulated device).
    host_driven: why the host starts each product, or each iteration of a loop, itself; empty if a graph can. enqueued:
    True if no graph can hold the products, but a stream can: they are enqueued one after the other. calls: names of
    the steps that are calls.
    """

    compile_seconds: float
    code_hash: str = ""
    host_driven: str = ""
    enqueued: bool = False
    calls: Sequence[str] = ()

    @property
    def timed_by(self) -> str:
        """What starts the products that are timed: ``graph``, ``stream`` or ``host``."""
        return "host" if self.host_driven else "stream" if self.enqueued else "graph"

    @abstractmethod
    def run(self) -> None:
        """Enqueue one SpMV."""

    def run_in_order(self, number: int) -> None:
        """As `run`; where a device decides in which order blocks and lanes run, in another for each number."""
        self.run()


class Device(ABC):
    """A place where launches run.

    name: ``cuda:0`` or ``emulated``. kind: ``cuda`` or ``emulated``. xp: the array module of its memory.
    default_max_bytes: what a format may take where the user sets no limit. limits: what conversions may ask of it.
    """

    name: str
    kind: str
    xp: ArrayModule
    default_max_bytes: int
    limits: Limits

    @abstractmethod
    def compile(self, launches: Sequence[Step]) -> Program:
        """Compile and bind. Launches with an empty grid are dropped. Raises DeviceFault with the compiler's words."""

    def prepare(self, launches: Sequence[Step]) -> None:
        """Compile, so that `compile` has nothing left to do but to bind. Raises as that."""
        self.compile(launches)

    def float_atomics(self, launch: Launch) -> bool | None:
        """Whether the kernel of a launch adds floating-point numbers by atomics, in the order in which threads happen
        to come; None if no compiler here tells.
        """
        return None

    def try_out(self, program: Program) -> float:
        """Find what can start the products of a program with calls, for it and for later ones that call the same.

        Returns the seconds that its first product took beyond the second: setup that a conversion has left for it; 0 if
        there are no calls. Products are run: y is undefined.
        """
        if not program.calls:
            return 0.0
        seconds = []
        for _ in range(2):
            began = perf_counter()
            program.run()
            self.synchronize()
            seconds.append(perf_counter() - began)
        return max(seconds[0] - seconds[1], 0.0)

    @abstractmethod
    def capture(self, program: Program, repeats: int) -> Callable[[], None]:
        """Work that enqueues `repeats` complete SpMVs with no launch latency between them (a CUDA graph)."""

    @abstractmethod
    def elapsed(self, work: Callable[[], None], *, flush: bool = False) -> float:
        """Seconds that the device spent on what `work` enqueues, launch latency removed; L2 flushed before if asked."""

    def fill_cache(self) -> None:
        """Fill the L2 cache with lines of other work, which are not marked as read once."""

    def empty_cache(self) -> None:
        """Leave nothing in the L2 cache, of anything: what stays in the way of loads that are marked as read once."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything enqueued. Raises DeviceFault if a kernel failed."""

    @abstractmethod
    def properties(self) -> dict[str, Any]:
        """Name, driver, clocks, memory and the like: the device's part of the environment record."""

    @abstractmethod
    def memory_free(self) -> int:
        """Free bytes of device memory."""

    def memory_peak(self) -> int | None:
        """Most bytes allocated since `reset_memory_peak`, None if the device does not count."""
        return None

    def reset_memory_peak(self) -> None:
        """Restart `memory_peak` from what is allocated now."""

    def uncounted(self) -> AbstractContextManager[None]:
        """Allocations are not counted meanwhile: counting would make what is timed slower than for its users."""
        return nullcontext()

    def throttled(self) -> bool:
        """Whether the device lowers its clocks right now for heat or power."""
        return bool(self.throttle_reason())

    def throttle_reason(self) -> str:
        """Why the device lowers its clocks right now, and to what; empty if it does not."""
        return ""

    def sm_clock_mhz(self) -> float:
        """Clock of the multiprocessors now, in MHz; NaN where there is none."""
        return float("nan")

    def energy(self) -> float:
        """Joules that the device has used since its driver was loaded; NaN where it does not count them."""
        return float("nan")

    def to_device(self, array: np.ndarray) -> Array:
        """A copy (or the array itself) in device memory."""
        return self.xp.asarray(array)

    def to_host(self, array: Array) -> np.ndarray:
        """A NumPy array of device memory."""
        return np.asarray(array)

    def checksums(self, arrays: Sequence[Array]) -> Callable[[], list[int]]:
        """A function that gives 64 bits for each array: others where a byte is another. The arrays have no gaps."""

        def of(array: Array) -> int:
            return int.from_bytes(hashlib.blake2b(array.reshape(-1).view(np.uint8).data, digest_size=8).digest())

        return lambda: [of(array) for array in arrays]

    def checksum_series(self, array: Array, most: int) -> tuple[Callable[[], None], Callable[[], list[int]]]:
        """Two functions: the first notes 64 bits of the array as it is when what was enqueued before has run, at most
        `most` times; the second gives all of them.
        """
        found: list[int] = []
        current = self.checksums([array])
        return lambda: found.extend(current()), lambda: found

    def close(self) -> None:
        """Give everything back."""
