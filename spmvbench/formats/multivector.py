"""Y = A X of k vectors by the kernels that multiply one: those of a format's y = A x, with several values for V.

A format writes nothing for it. Its launches for one x are taken, and of each the template
parameter that is the type of x and y becomes ``Multi<V, T>``: a row of T values (include/multivector.cuh). Arrays
that launches make for themselves, carries for example, get T times their size. As with narrower values
(`precision`), a kernel must take stored values as a type of its own: ``template <typename V, ..., typename S = V>``.

X and Y are given as a user has them: by rows, the k values of a row one after the other, or by columns. A kernel whose
launch says how many threads share a row (`Launch.row_lanes`) reads rows of any k: threads beside each other take values
beside each other, so that a warp's loads of X are whole sectors. All others multiply up to TOGETHER vectors, and
more in turns; X and Y are then packed into rows of so many, as they are if given by columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, address, array_module, cdiv
from spmvbench.formats.kernels import constant, declaration, split
from spmvbench.formats.launches import MOST_SHARED_BYTES, Launch, Step, Struct, ctype, flat, per_thread, zero_fill

KERNEL = "multivector.cu"
TILE_ROWS, TILE_VECTORS, TILE_THREADS = (constant(KERNEL, f"TILE_{word}") for word in ("ROWS", "VECTORS", "THREADS"))
MOST = 64  # vectors
TOGETHER = 8  # vectors that a thread holds
LARGE = 512  # threads of a block
VECTORS: ContextVar[int] = ContextVar("vectors", default=1)  # that launches are bound for
FILLED = 240_000  # threads that a large GPU holds, or nearly: with fewer, each takes 16 bytes of a row
WARP = constant("include/spmv.cuh", "WARP")
ROOM = 1536  # threads of a multiprocessor with registers, if threads are fewer and a kernel has such a parameter
LOADED = 16  # bytes that a thread loads at a time
STATIC_BYTES = 1024  # of a block's shared memory that CUDA takes for itself, rounded up


def sharing(itemsize: int) -> int:
    """How many threads share a row of the vectors that launches are bound for, with 16 bytes each; 1 for one vector.

    itemsize: bytes of a value of x.
    """
    return max(VECTORS.get() * itemsize // LOADED, 1)


@dataclass(frozen=True)
class Rows:
    """A vector of T values in place of each: the one that launches are bound to, and the whole."""

    one: Array
    whole: Array
    values: int

    def of(self, arg: Array) -> Array | None:
        """The part of the whole that stands for an argument of a launch; None if it is no part of `one`."""
        size = self.one.itemsize
        offset, n = divmod(address(arg) - address(self.one), size)
        if not self.one.size or n or not 0 <= offset < max(len(self.one), 1):
            return None
        return self.whole[offset * self.values : (offset + arg.size) * self.values]


Product = Callable[[Array, Array], Sequence[Step]]


def launches(
    product: Product, stored: Iterable[Array], x: Array, y: Array, k: int, layout: str, together: int
) -> list[Step]:
    """The launches of Y = A X. x: (cols * k,), y: (rows * k,), by rows or by columns.

    product: the launches of y = A x for an x and a y. stored: the arrays of the format. together: vectors that a thread
    holds, if threads beside it cannot hold others. Raises Skip if a kernel cannot.
    """
    stored = list(stored)
    values = [array for array in stored if array.dtype.kind == "f"]
    if not values:
        raise Skip("values are packed with other data: kernels multiply one vector")
    if not any(array.size for array in values):
        return [zero_fill(y)]
    known = {address(array) for array in stored if array.size}
    rows, cols, xp, found = len(y) // k, len(x) // k, array_module(x), list[Step]()

    def bound(x: Array, y: Array) -> Sequence[Step]:
        token = VECTORS.set(k)
        try:
            return product(x, y)
        finally:
            VECTORS.reset(token)

    steps = bound(x[:cols], y[:rows])
    wide = all(isinstance(step, Launch) and (step.row_lanes or step.window or step.zeroes == "all") for step in steps)
    together = k if wide else min(k, together)
    if layout == "row" and k == together:
        return _typed(steps, known, (Rows(x[:cols], x, k), Rows(y[:rows], y, k)), k)
    packed_x, packed_y = xp.zeros(cols * together, x.dtype), xp.zeros(rows * together, y.dtype)
    for first in range(0, k, together):
        n = min(together, k - first)
        part_x, part_y = packed_x[: cols * n], packed_y[: rows * n]
        found += [_packed(x, part_x, cols, k, n, first, layout, "pack")]
        vectors = Rows(part_x[:cols], part_x, n), Rows(part_y[:rows], part_y, n)
        found += _typed(bound(*(rows.one for rows in vectors)), known, vectors, n)
        found += [_packed(y, part_y, rows, k, n, first, layout, "unpack")]
    return found


def of_two_dimensions(x: Array, y: Array, k: int, layout: str) -> tuple[Array, Array]:
    """X, (cols, k), and Y, (rows, k), as views of what lies in memory by rows or by columns."""
    if layout == "row":
        return x.reshape(-1, k), y.reshape(-1, k)
    return x.reshape(k, -1).T, y.reshape(k, -1).T


def _packed(whole: Array, part: Array, rows: int, k: int, n: int, first: int, layout: str, kernel: str) -> Launch:
    """The launch that copies n vectors from `first` on into rows of n, or back."""
    types = f"{ctype(whole)}, {n}"
    if layout == "row":
        of_rows = whole[first:], part, np.int64(rows), np.int64(k)
        return Launch(KERNEL, f"{kernel}_rows<{types}>", *per_thread(rows * n), of_rows)
    grid = cdiv(rows, TILE_ROWS), cdiv(n, TILE_VECTORS)
    of_columns = whole[first * rows :], part, np.int64(rows)
    return Launch(KERNEL, f"{kernel}_columns<{types}>", grid, TILE_THREADS, of_columns)


def _typed(steps: Sequence[Step], stored: set[int], vectors: Sequence[Rows], k: int) -> list[Step]:
    """The launches for rows of k values, each in the types of `Multi`."""
    scratch: dict[tuple[int, int], Array] = {}
    return [_multi(step, vectors, stored, scratch, k) for step in steps]


@dataclass(frozen=True)
class Shape:
    """How many of k values a thread computes, how many threads are beside each other, and in how many turns: of y, or
    of blocks beside each other where windows of x lie in shared memory. few: not FILLED, if threads share rows.
    """

    values: int
    lanes: int = 1
    turns: int = 1
    few: bool = False

    @classmethod
    def of(cls, launch: Launch, k: int, itemsize: int) -> Shape:
        """By `Launch.row_bytes`, if as many threads find room beside those that share a row, or by shared memory.

        Raises Skip if a window of x has no room for the values of a thread.
        """
        if launch.window:
            return cls._of_window(launch, k, itemsize)
        if not launch.row_lanes:
            return cls(k)
        threads = launch.block if isinstance(launch.block, int) else launch.block[0]
        room = min(WARP, threads) // launch.row_lanes
        for row_bytes in (launch.row_bytes, min(launch.row_bytes, LOADED)):
            values = max(n for n in (1, 2, 4) if n * itemsize <= row_bytes and k % n == 0)
            lanes = min(1 << (k // values - 1).bit_length(), room)
            few = bool(np.prod(launch.grid) * np.prod(launch.block) * lanes < FILLED)
            if not few:
                break
        most = TOGETHER if threads <= LARGE else values  # the threads of a large block have few registers
        while values * lanes < k and values < most and k % (2 * values) == 0:
            values *= 2
        return cls(values, lanes, cdiv(k // values, lanes), few)

    @classmethod
    def _of_window(cls, launch: Launch, k: int, itemsize: int) -> Shape:
        values, columns = LOADED // itemsize, launch.shared_bytes // itemsize
        for lanes in (2, 1):
            tile = values * lanes
            if k % tile == 0 and tile * columns * itemsize <= MOST_SHARED_BYTES - STATIC_BYTES:
                return cls(values, lanes, k // tile)
        raise Skip(f"a window of {columns:,} columns holds no {values} of {k} values for each")

    def launched(self, launch: Launch, k: int) -> dict[str, Any]:
        """Grid, block and shared memory."""
        shared = launch.shared_bytes * (self.values * self.lanes if launch.window else k)
        if shared > MOST_SHARED_BYTES:
            raise Skip(f"{launch.kernel.partition('<')[0]} would take {shared:,} bytes of shared memory")
        if not (launch.row_lanes or launch.window):
            return {"shared_bytes": shared}
        assert isinstance(launch.grid, int | np.integer)
        block = (launch.block,) if isinstance(launch.block, int) else launch.block
        beside = (self.lanes, block[0] // self.lanes, *block[1:]) if self.lanes > 1 else block
        blocks = int(launch.grid)
        grid = blocks * self.turns if launch.window else (blocks * self.lanes, self.turns)
        return {"grid": grid, "block": beside, "shared_bytes": shared}


def _multi(
    step: Step, vectors: Sequence[Rows], stored: set[int], scratch: dict[tuple[int, int], Array], k: int
) -> Launch:
    if not isinstance(step, Launch):
        raise Skip(f"{getattr(step, 'name', 'a loop')} multiplies one vector")
    if step.zeroes == "all":
        whole = next((part for rows in vectors if (part := rows.of(step.args[0])) is not None), step.args[0])
        return replace(zero_fill(whole), part=step.part)
    name, _, given = step.kernel.partition("<")
    known = declaration(step.source, name)
    if len(known.types) != len(step.args):
        raise Skip(f"the types that {name} takes are not known: it multiplies one vector")
    dtype = vectors[0].one.dtype
    shape = Shape.of(step, k, dtype.itemsize)
    wholes = [_whole(arg, vectors, stored, scratch, k) for arg in step.args]
    types = _types(name, known.types, step.args, wholes, f"Multi<{ctype(dtype)}, {shape.values}, {k}, {shape.lanes}>")
    found, said = dict[str, str](), split(given.removesuffix(">"))
    for i, (parameter, default) in enumerate(known.template):
        found[parameter] = types.get(parameter, said[i] if i < len(said) else found.get(default, default))
    if shape.few and "ROOM" in found:
        found["ROOM"] = str(ROOM)
    if missing := set(types) - set(found):
        raise Skip(f"{name} takes {', '.join(missing)} for vectors")
    return replace(
        step,
        kernel=f"{name}<{', '.join(found.values())}>" if found else step.kernel,
        args=tuple(arg if whole is None else whole for arg, whole in zip(step.args, wholes, strict=True)),
        **shape.launched(step, k),
    )


def _floats(arg: Any) -> bool:
    """Whether an argument of a launch is an array of values."""
    return not isinstance(arg, np.generic | Struct) and arg.dtype.kind == "f"


def _values(arg: Any) -> Array | None:
    """An array of values: an argument of a launch, or a member of one; None if there is none."""
    return next((held for held in flat([arg]) if _floats(held)), None)


def _whole(
    arg: Any, vectors: Sequence[Rows], stored: set[int], scratch: dict[tuple[int, int], Array], k: int
) -> Array | None:
    """The array of k values for each that takes an argument's place: of X, Y, or made here; None if it stays."""
    if not _floats(arg) or not arg.size:
        return None
    whole = next((part for rows in vectors if (part := rows.of(arg)) is not None), None)
    if whole is not None or address(arg) in stored:
        return whole
    place = address(arg), arg.size  # an array of the launches' own
    if place not in scratch:
        scratch[place] = array_module(arg).zeros(arg.size * k, arg.dtype)
    return scratch[place]


def _types(
    name: str, kinds: Sequence[str], args: Sequence[Any], wholes: Sequence[Array | None], multi: str
) -> dict[str, str]:
    """The types for a kernel's template parameters. kinds: the parameter that is each argument's type.

    Raises Skip if one is that of stored values and of vectors.
    """
    deduced, unsure = dict[str, str](), dict[str, str]()  # unsure: from arrays of nothing
    for kind, arg, whole in zip(kinds, args, wholes, strict=True):
        values = _values(arg)
        if values is None:
            continue
        if not (values.size or isinstance(arg, Struct)):
            unsure.setdefault(kind, ctype(values))
            continue
        wanted = ctype(values) if whole is None else multi
        if deduced.setdefault(kind, wanted) != wanted or not kind:
            raise Skip(f"{name} takes values and vectors of one type")
    return unsure | deduced
