"""Programs: formats whose arrays and kernels are another project's. The bench sees a matrix behind a handle.

A program is a format whose `launches` is one `Call`. It converts a copy of the matrix that becomes unreadable
afterwards, so that a program which kept a pointer to it faults instead of using memory that a format has to count.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from spmvbench.formats import Call, Csr, Format, Skip
from spmvbench.formats.admission import byte_text
from spmvbench.formats.arrays import Array, ArrayModule, address
from spmvbench.formats.conversion import untimed
from spmvbench.formats.launches import Step, zero_fill
from spmvbench.formats.multivector import of_two_dimensions
from spmvbench.formats.parameters import cached
from spmvbench.formats.refilling import Places

DRIVER_PIECE = 2 << 20  # bytes: CUDA's driver takes free memory in pieces of this size
GUARD = 16384  # bytes on either side of what `Blocks` allocates, as of `devices.guards`
ALIGNMENT = 512
KEPT, KEPT_SECONDS = 100, 0.5  # conversions to find what memory they leave behind, and seconds after which none begins
UNREADABLE = 0xFF  # of each byte of the matrix on a GPU after the conversion: -1 as an index, NaN as a value


class Matrix(Protocol):
    """A converted matrix of a program."""

    def multiply(self, x: Array, y: Array, stream: int) -> Any:
        """Enqueue y = A x on a stream, or return y."""

    def multiply_transposed(self, x: Array, y: Array, stream: int) -> Any:
        """Enqueue y = A^T x on a stream, or return y. Raises Skip if the program does not have it."""

    def decode(self) -> tuple[Array, Array, Array]:
        """(rows, cols, values) of every entry. Raises NotImplementedError if the program does not have it."""

    @property
    def update(self) -> Callable[[Array, int], Any] | None:
        """Enqueues new values of the same pattern on a stream; None if the program does not have it."""

    def nbytes(self) -> int:
        """The bytes that the program says it takes; 0 if it does not say."""


@dataclass(frozen=True, eq=False)
class OwnPlaces(Places):
    """The places of a program, which takes new values itself: `moves` is empty."""

    def launches(self, fmt: Format, values: Array) -> list[Step]:
        """The call that takes the values."""
        update = cast(Program, fmt).matrix.update
        return [Call(f"{fmt.key} takes values", lambda stream: update(values, stream), (values,))]

    def refilled(self, fmt: Format, values: Array) -> Format:
        """Nothing but the program knows where its values are. Raises NotImplementedError."""
        raise NotImplementedError(f"{fmt.key} has no A^T whose values follow those of A")


class Program(Format):
    """A program of another project as a format.

    matrix: its handle. taken: bytes of memory that the conversion took, as measured. dtype: of values, x and y.
    """

    family = "Programs"
    wide_offsets = True
    converts_on_host = False
    values_decide = True  # nobody knows where a program stores which entry
    returns_y: ClassVar[bool] = False  # products return a y of their own

    matrix: Any
    taken: int
    dtype: Any
    home: Any  # NumPy or CuPy: where x and y are

    @classmethod
    def description(cls) -> dict[str, Any]:
        """What run.json keeps of a program beside its hash."""
        return {"reference": cls.reference, "runs_on": list(cls.devices)}

    @classmethod
    def files(cls) -> list[Path]:
        """Files beyond Python modules that it consists of."""
        return []

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        # Nobody knows before the conversion; nothing that holds every value of a pattern without structure takes less.
        return int(a.values.nbytes + a.col_idx.nbytes + a.row_ptr.nbytes)

    @property
    def hidden_bytes(self) -> int:
        said: int = self.matrix.nbytes()
        small = self.xp is not np and self.taken <= 2 * DRIVER_PIECE  # too coarse a measure for a small matrix
        return said if small and said else max(said, self.taken)

    @property
    def zones(self) -> dict[str, tuple[Array, Array]]:
        found: dict[str, tuple[Array, Array]] = getattr(self.matrix, "zones", {})
        return found

    @property
    def bytes_read(self) -> int:
        # Of what a program does not speak of, it may read nothing; a footprint of which nothing is read has an error.
        return max(min(int(self.matrix.nbytes()), self.hidden_bytes), min(self.hidden_bytes, 1))

    @property
    def value_dtype(self) -> np.dtype:
        found: np.dtype = self.dtype
        return found

    @property
    def xp(self) -> ArrayModule:
        module: ArrayModule = self.home
        return module

    @property
    def detail(self) -> dict[str, Any]:
        kept = bytes_kept(type(self), self.xp, self.value_dtype)
        return {"bytes_said": self.matrix.nbytes(), "bytes_taken": self.taken, "bytes_kept": kept}

    def to_coo(self) -> tuple[Array, Array, Array]:
        found: tuple[Array, Array, Array] = self.matrix.decode()
        return found

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self._calls(self.matrix.multiply, x, y)

    def transposed(self, x: Array, y: Array) -> Sequence[Step]:
        return self._calls(self.matrix.multiply_transposed, x, y)

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        multiply = getattr(self.matrix, "several", None)
        if multiply is None:
            raise Skip("the program multiplies one vector")
        return self._calls(multiply, *of_two_dimensions(x, y, k, layout))

    def own_places(self, size: int) -> Places | None:
        return None if self.matrix.update is None else OwnPlaces(size, {})

    def _calls(self, multiply: Callable[[Array, Array, int], Any], x: Array, y: Array) -> Sequence[Step]:
        if not len(y):
            return []
        if not len(x):
            return [zero_fill(y.ravel("K"))]
        if x.dtype != self.dtype:
            raise Skip(f"{self.key} multiplies values and vectors of one type")
        return [Call(self.key, lambda stream: multiply(x, y, stream), (x, y), y=y if self.returns_y else None)]


def _bury() -> None:
    """Release what nothing refers to: cycles of a few conversions would count as kept by these."""
    gc.collect()
    _GRAVES.clear()


@cached
def bytes_kept(cls: Any, xp: Any, dtype: np.dtype) -> int:
    """Bytes of memory that each matrix of a program leaves behind when it is released: the mean of up to KEPT.

    Raises RuntimeError if two matrices of one pattern share their values: then what a conversion has found is another's
    work.
    """
    rows = 2000  # much more than what Python itself keeps of a conversion
    row_ptr, columns = xp.arange(rows + 1, dtype=np.int32), xp.arange(rows, dtype=np.int32)
    a = Csr((rows, rows), row_ptr, columns, xp.ones(rows, dtype=dtype))
    first = cls.converted(a)  # what the program keeps for good
    second = cls.converted(Csr(a.shape, row_ptr, columns, 7 * a.values))
    y = xp.zeros(rows, dtype)
    found = first.matrix.multiply(a.values, y, 0 if xp is np else xp.cuda.get_current_stream().ptr)
    if xp is not np:
        xp.cuda.Device().synchronize()
    if bool(((y if found is None else found) == 7).any()):  # what else is wrong is for the verification to find
        raise RuntimeError(f"{cls.key}: the conversion of a second matrix changed the product of the first")
    del first, second, found
    _bury()
    count, began = 0, perf_counter()
    with MemoryTaken(xp) as memory_taken:
        while not count or (count < KEPT and perf_counter() - began < KEPT_SECONDS):
            cls.converted(a)
            _GRAVES.clear()
            count += 1
        _bury()
    return memory_taken.taken // count


@contextmanager
def unreadable_later(a: Csr) -> Iterator[Csr]:
    """A copy of the matrix, in memory of its own, that is made unreadable at the end. Neither takes the case's time.

    On the host its pages are taken away, so that reading them ends the process; on a GPU its bytes are overwritten.
    """
    with untimed():
        arrays = [_host_copy(array) if a.xp is np else array.copy() for array in (a.row_ptr, a.col_idx, a.values)]
    yield Csr(a.shape, arrays[0], arrays[1], arrays[2], a.vectors)
    with untimed():
        for array in arrays:
            if a.xp is not np:
                array.view(np.uint8).fill(UNREADABLE)
            elif array.nbytes:
                _take_pages(array)
        if a.xp is not np:
            a.xp.cuda.get_current_stream().synchronize()


def _host_copy(array: Array) -> Array:
    """A copy in pages of its own, which nothing else shares. `base` keeps them."""
    if not array.nbytes:
        return array.copy()
    copy: Array = np.frombuffer(mmap.mmap(-1, array.nbytes), array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _take_pages(array: Array) -> None:
    held: Any = array.base
    while not isinstance(held, mmap.mmap):
        held = held.obj if isinstance(held, memoryview) else held.base
    held.madvise(mmap.MADV_DONTNEED)
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address(array)), ctypes.c_size_t(size), 0)
    _GRAVES.append(held)  # unmapped, its addresses could soon be another array's


_GRAVES: deque[mmap.mmap] = deque(maxlen=300)  # a process may have 65,530 mappings


class Blocks:
    """Memory that a program asks of the bench: counted, between guard zones, and released with the matrix.

    xp: the array module of the memory.
    """

    def __init__(self, xp: ArrayModule):
        self._xp = xp
        self._held: dict[int, tuple[Array, int]] = {}

    def allocate(self, size: int) -> int:
        """The address of so many bytes. Raises MemoryError."""
        buffer = self._xp.full(2 * GUARD + ALIGNMENT + size, UNREADABLE, np.uint8)
        begin = address(buffer) + GUARD + -(address(buffer) + GUARD) % ALIGNMENT
        self._held[begin] = buffer, size
        return begin

    def release(self, pointer: int) -> None:
        """Give back what `allocate` returned; 0 and what it did not return are ignored."""
        self._held.pop(pointer, None)

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated, without guards."""
        return sum(size for _, size in self._held.values())

    @property
    def zones(self) -> dict[str, tuple[Array, Array]]:
        """The guard bytes before and behind each allocation, by a name."""
        found = {}
        for number, (begin, (buffer, size)) in enumerate(self._held.items()):
            first = begin - address(buffer)
            found[f"allocation {number} of {byte_text(size)}"] = buffer[:first], buffer[first + size :]
        return found


class MemoryTaken:
    """How many bytes of memory something takes while it runs: `taken` after `with`. blocks: those of the bench.

    On a GPU by its free memory, and of the pools of CuPy and PyTorch by what they have handed out; on the host by what
    malloc has (glibc 2.33 and newer, else 0).
    """

    def __init__(self, xp: ArrayModule, blocks: Blocks | None = None):
        self._xp, self._blocks, self.taken = xp, blocks, 0

    def __enter__(self) -> MemoryTaken:
        self._before = self._used()
        return self

    def __exit__(self, *_: object) -> None:
        allocated = self._blocks.nbytes if self._blocks else 0
        self.taken = max(self._used() - self._before, allocated)

    def _used(self) -> int:
        if self._xp is not np:
            cuda: Any = self._xp.cuda
            cuda.get_current_stream().synchronize()
            free, total = cuda.runtime.memGetInfo()
            pool = self._xp.get_default_memory_pool()
            used = total - free - pool.total_bytes() + pool.used_bytes()
            if (torch := sys.modules.get("torch")) is not None:
                used += torch.cuda.memory_allocated() - torch.cuda.memory_reserved()
            return int(used)
        return malloc_bytes()


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h: `hblkhd` are bytes of large allocations, `uordblks` of all others."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    ))  # fmt: skip


def malloc_bytes() -> int:
    """Bytes that malloc has handed out in this process; 0 if its library does not say."""
    asked = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if asked is None:
        return 0
    asked.restype = _Mallinfo
    found = asked()
    return int(found.hblkhd + found.uordblks)


def resolved_text(params: Mapping[str, Any]) -> str:
    """Parameters as a program gets them: every name with its value, as ``tile=8,kernel=fast``."""
    return ",".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in params.items()
    )
