"""Steps of a product: launches of kernels, calls of vendors' libraries, and loops that the device decides."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.kernels import constant

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "f16",  # of include/spmv.cuh; stored values only, and also those of bf16: see `precision`
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint64": "unsigned long long",
    "uint32": "unsigned int",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
}
STATIC_SHARED_BYTES = 48 * 1024  # that a kernel may declare
MOST_SHARED_BYTES = 227 * 1024  # that any CUDA device gives a block
_BY_DTYPE = {np.dtype(name): text for name, text in C_TYPES.items()}  # a dtype's name takes as long as an allocation


def ctype(array: Array | np.generic | np.dtype) -> str:
    """The CUDA C++ name of an array's (or dtype's) element type, for name expressions."""
    return _BY_DTYPE[array if isinstance(array, np.dtype) else array.dtype]


def cbool(flag: bool) -> str:
    """A C++ bool, for name expressions."""
    return "true" if flag else "false"


class Struct(tuple[Any, ...]):
    """One argument of a launch that the kernel takes by value as a C++ struct: its members in order of declaration.

    Members are arrays, which the struct holds as pointers, and NumPy scalars. A kernel of more than 16 arguments takes
    some of them as a struct.
    """

    def packed(self, address: Callable[[Array], int]) -> np.ndarray:
        """The struct as C++ lays it out: an array of one element. address: of an array in the device's memory."""
        held = [member if isinstance(member, np.generic) else np.uint64(address(member)) for member in self]
        kind = np.dtype([(f"member{i}", member.dtype) for i, member in enumerate(held)], align=True)
        found = np.zeros(1, kind)
        found[0] = tuple(held)
        return found


def flat(args: Iterable[Any]) -> Iterator[Any]:
    """The arguments of a launch, the members of structs in place of the structs."""
    for arg in args:
        yield from arg if isinstance(arg, Struct) else (arg,)


@cache
def layout_of(kinds: tuple[Any, ...]) -> tuple[struct.Struct, list[int]]:
    """How the driver takes arguments of these types, a tuple for the members of a `Struct`: what packs them into memory
    at a multiple of 8, arrays as pointers, and where each begins there.
    """
    codes, begins = "", []
    for kind in kinds:
        codes += "0q"  # at a multiple of 8
        begins.append(struct.calcsize(codes))
        for member in kind if isinstance(kind, tuple) else (kind,):
            codes += np.dtype(member).char if issubclass(member, np.generic) else "P"
    return struct.Struct(codes), begins


def kinds_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of arguments, as `layout_of` takes them."""
    kinds: tuple[Any, ...] = tuple(map(type, args))
    if Struct in kinds:
        kinds = tuple(tuple(map(type, arg)) if isinstance(arg, Struct) else type(arg) for arg in args)
    return kinds


@dataclass(slots=True)  # frozen, making one would take 2 us more, a third of what enqueueing it takes
class Launch:
    """One kernel launch, described once for every device; not to be changed.

    source: a file of kernels/ (or the absolute path of one elsewhere). kernel: a name expression such as
    ``ell_spmv<double, 2>``; whatever changes the machine code is a template argument. grid, block: threads in up to
    three dimensions. args: arrays, NumPy scalars of the exact type that the kernel takes, and a `Struct` of such.
    shared_bytes: dynamic shared memory. part: as `in_part` names it. overlaps: as `after_zeros` sets it. A launch with
    an empty grid does nothing. row_lanes: how many threads share a row, if no others of the block meet with them: side
    by side in a warp, or the y of a block; 0 if others do, or it is not known. `multivector` puts threads beside such
    threads, each of which takes up to `row_bytes` of a row of X. window: whether the kernel takes x from a window in
    shared memory, which then holds one tile of each row of X. in_parts: gives the rows that a kernel with an `epilogue`
    adds to y, in parts or not at all, in place of handing them over: (n,), int32, ascending. zeroes: "all" or "rows" if
    it sets all elements of y, or those of some rows, to zero and does nothing else.
    """

    source: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...]
    shared_bytes: int = 0
    part: str = ""
    overlaps: bool = False
    row_lanes: int = 0
    row_bytes: int = (
        32  # on an H100 32 is as fast as 16 or faster, 64 slower; 16 if a thread has several rows in flight
    )
    window: bool = False
    in_parts: Callable[[], Array] | None = None
    zeroes: str = ""

    def changed(self, **fields: Any) -> Launch:
        """The launch with other values in some fields; `dataclasses.replace` takes several times as long."""
        return Launch(**{name: getattr(self, name) for name in Launch.__slots__} | fields)


@dataclass(frozen=True)
class Call:
    """A vendor library's call in place of a launch: `function(stream)` enqueues the work on a CUDA stream handle.

    args: the arrays that it uses, its work buffer among them. part: as `in_part` names it. y: if `function` returns an
    array of its own instead of writing y, this is y. The host makes such a call anew for each product, no graph
    captures it, and the device copies the result to y.
    """

    name: str
    function: Callable[[int], Any]
    args: tuple[Any, ...]
    part: str = ""
    y: Array | None = None


@dataclass(frozen=True)
class Loop:
    """Steps that are repeated while `more`, one int32 in device memory, is not 0 after them: at least once.

    The device alone decides; no host answer is awaited where its graphs have loops. limit: how often at most, more
    than any matrix needs: a loop that goes on is a fault. part: as `in_part` names it.
    """

    steps: tuple[Launch | Call, ...]
    more: Array
    limit: int
    part: str = ""

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of all steps, and `more`."""
        return (*(arg for step in self.steps for arg in step.args), self.more)


Step = Launch | Call | Loop
AnyStep = TypeVar("AnyStep", bound=Step)


def after_zeros(zero: Launch, product: Launch) -> list[Launch]:
    """A launch that sets elements of y to zero, and one that may start while it runs, if the device can do that.

    product: its kernel calls `wait_for_previous` (include/overlap.cuh) before it stores or adds to y. zero: its kernel
    calls `let_next_start`; those of `zero_fill` and `zero_rows` do. It saves most of the time between two launches, 0.5
    us on an H200, which is much for a small matrix.
    """
    return [zero, product.changed(overlaps=True)]


def single_steps(steps: Iterable[Step]) -> Iterator[Launch | Call]:
    """The steps in order, those of a loop once in its place."""
    for step in steps:
        yield from step.steps if isinstance(step, Loop) else (step,)


def only_kernels(steps: Iterable[Step]) -> list[Launch]:
    """The steps, all of them launches of kernels. Raises TypeError for a library's call and for a loop."""
    launches = []
    for step in steps:
        if not isinstance(step, Launch):
            raise TypeError(f"a {type(step).__name__} is no launch of a kernel")
        launches.append(step)
    return launches


def in_part(part: str, launches: Iterable[AnyStep]) -> list[AnyStep]:
    """The launches as a named part of the SpMV. The benchmark also times every part separately (kernel breakdown)."""
    return [replace(launch, part=part) for launch in launches]


def per_thread(n: int, block: int = 256) -> tuple[int, int]:
    """Grid and block for one thread per item."""
    return cdiv(n, block), block


def three(extent: int | tuple[int, ...]) -> tuple[int, int, int]:
    """A grid or block extent in three dimensions."""
    if isinstance(extent, tuple):
        x, y, z = (*map(int, extent), 1, 1)[:3]
        return x, y, z
    return int(extent), 1, 1


ZEROS_EACH = constant("include/zero.cuh", "ZEROS_EACH")  # entries of y that a thread sets to zero


def zero_fill(y: Array) -> Launch:
    """The launch that sets y to zero, for kernels that add to it. It belongs to the format's time."""
    grid, block = per_thread(cdiv(len(y), ZEROS_EACH))
    return Launch("vector.cu", f"zero_fill<{ctype(y)}>", grid, block, (y, np.int32(len(y))), zeroes="all")


def zero_rows(row: Array, y: Array) -> Launch:
    """The launch that sets y to zero in rows, (n,), ascending, for kernels that add parts of these rows to it."""
    kernel = f"zero_cut_rows<{ctype(y)}, {ctype(row)}>"
    return Launch("vector.cu", kernel, *per_thread(len(row)), (np.int32(len(row)), row, y), zeroes="rows")
