"""Conversion by kernels of this project, for converters whose steps are too many to be array operations on a GPU.

A converter describes launches as it does for y = A x and takes what runs them as an argument: `run` if CuPy holds
the matrix; tests pass an emulated device. What a rule may ask of the device that it converts for is in `device_limits`.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from time import perf_counter  # bound before a format can replace it
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from spmvbench.formats.admission import refuse_size
from spmvbench.formats.arrays import (
    INT32_MAX,
    LINE_BYTES,
    Array,
    ArrayModule,
    Csr,
    address,
    array_module,
    cdiv,
    index_dtype,
    nothing,
    on_host,
    ordinal,
    round_up,
)
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant, headers, kernel_options, kernel_path
from spmvbench.formats.launches import (
    MOST_SHARED_BYTES,
    STATIC_SHARED_BYTES,
    Launch,
    cbool,
    ctype,
    flat,
    kinds_of,
    layout_of,
    three,
)
from spmvbench.formats.multivector import VECTORS

LARGE = 2**30  # bytes
Run = Callable[[Launch], None]
Found = TypeVar("Found")


class Limits(NamedTuple):
    """What rules ask of a device: its multiprocessors, the bytes of a block's shared memory and of L2, and its name."""

    multiprocessors: int
    shared_bytes: int
    name: str = ""  # of a GPU, as its vendor has it
    l2_bytes: int = 0


EMULATED = Limits(multiprocessors=16, shared_bytes=MOST_SHARED_BYTES)  # as many as it may run blocks at once
MOST_OF_L2 = 2.0  # bytes of a matrix, as a multiple of L2's, of which L2 keeps a part
SHARE_OF_L2 = 0.75  # with more, lines of one product push out those that the next one reads first
_LIMITS: ContextVar[Limits | None] = ContextVar("limits", default=None)
_UNTIMED: ContextVar[list[float] | None] = ContextVar("untimed", default=None)
_CHECK: ContextVar[Callable[[list[Launch]], None] | None] = ContextVar("check", default=None)
_RUN: ContextVar[Run | None] = ContextVar("run", default=None)


class Tuning:
    """What the conversions of one case find by timing: the first one searches, all later ones take what it found.

    asked: whether a conversion has tuned anything, warm-ups included. seconds: of the searches whose results the latest
    conversion took, without compiling. uncounted: seconds to add to the duration of the latest conversion, so that it
    is that of one which searches and compiles nothing. A layout that the search has made and kept counts twice then.
    """

    def __init__(self) -> None:
        self.asked = False
        self.compiling = 0.0  # seconds of all compiling while kernels are timed
        self._searches: list[tuple[Hashable, Any, float]] = []
        self.begin()

    def begin(self, *, warm_up: bool = False) -> None:
        """Begin a conversion. warm_up: one that takes the first of all choices and times nothing."""
        self.seconds = self.uncounted = 0.0
        self._warm_up, self._searching, self._next = warm_up, False, 0

    def result(self, what: Hashable, search: Callable[[], Found], first: Callable[[], Found]) -> Found:
        """What `search` has found, or finds now. what: tells searches apart that are not the same in all conversions.

        first: the first of the choices, for a warm-up. A search within a search is a part of that.
        """
        self.asked = True
        if self._warm_up:
            return first()
        if self._searching:
            return search()
        known = self._searches[self._next] if self._next < len(self._searches) else None
        if known is None or known[0] != what:
            compiling, self._searching = self.compiling, True
            began = perf_counter()
            try:
                found = search()
            finally:
                self._searching = False
            compiling = self.compiling - compiling
            known = what, found, perf_counter() - began - compiling
            self._searches[self._next :] = [known]
            self.uncounted -= compiling
        else:
            self.uncounted += known[2]
        self._next += 1
        self.seconds += known[2]
        return known[1]


TUNING: ContextVar[Tuning | None] = ContextVar("tuning", default=None)


@contextmanager
def untimed() -> Iterator[None]:
    """Work of the bench within a conversion, which `timed_conversion` does not count."""
    began = perf_counter()
    try:
        yield
    finally:
        if (seconds := _UNTIMED.get()) is not None:
            seconds.append(perf_counter() - began)


def timed_conversion(convert: Callable[[], Found]) -> tuple[Found, float]:
    """What a conversion returns and the seconds that it takes, without what `untimed` marks in it."""
    seconds: list[float] = []
    token, began = _UNTIMED.set(seconds), perf_counter()
    try:
        found = convert()
        return found, perf_counter() - began - sum(seconds)
    finally:
        _UNTIMED.reset(token)


@contextmanager
def converting_for(
    limits: Limits,
    check: Callable[[list[Launch]], None] | None = None,
    tuning: Tuning | None = None,
    run: Run | None = None,
) -> Iterator[None]:
    """Within it matrices are converted for a device of these limits, wherever they are held.

    check: called with every launch of a conversion before it runs; what it raises ends the conversion. tuning: what the
    conversions find by timing, for all of them; otherwise each one searches. run: runs the kernels of conversions, of
    matrices that NumPy holds too.
    """
    tokens = _LIMITS.set(limits), _CHECK.set(check), TUNING.set(tuning), _RUN.set(run)
    try:
        yield
    finally:
        _LIMITS.reset(tokens[0])
        _CHECK.reset(tokens[1])
        TUNING.reset(tokens[2])
        _RUN.reset(tokens[3])


@contextmanager
def unchecked() -> Iterator[None]:
    """Within it no check is called: of conversions that are timed, after one that was checked."""
    token = _CHECK.set(None)
    try:
        yield
    finally:
        _CHECK.reset(token)


def search_once(cls: type[Format], a: Csr, search: Callable[[], Found], first: Callable[[], Found]) -> Found:
    """What `search` finds by timing, once for all conversions of a case (`Tuning`). Every format tunes by it.

    first: the first of the choices, without timing.
    """
    if (tuning := TUNING.get()) is None:
        return search()

    def begun() -> Found:
        if a.xp is not np:  # what was enqueued before is not the search's
            a.xp.cuda.get_current_stream().synchronize()
        return search()

    return tuning.result((cls.key, a.shape, a.nnz), begun, first)


def device_limits(a: Csr) -> Limits:
    """Of the device at hand: what `converting_for` says, else of that whose memory holds the matrix, else EMULATED."""
    return limits_of(a.values)


def limits_of(array: Array) -> Limits:
    """The same by an array of the matrix."""
    return _LIMITS.get() or (EMULATED if array_module(array) is np else cuda_limits(ordinal(array)))


@cache
def cuda_limits(ordinal: int) -> Limits:
    """Of a CUDA device."""
    from cupy.cuda.runtime import deviceGetAttribute, getDeviceProperties

    multiprocessors, shared_bytes, l2_bytes = (
        deviceGetAttribute(number, ordinal) for number in (16, 97, 38)
    )  # cudaDeviceAttr
    return Limits(multiprocessors, shared_bytes, getDeviceProperties(ordinal)["name"].decode(), l2_bytes)


def stays_in_cache(*arrays: Array) -> bool:
    """Whether arrays of a device, the first of which is of the matrix, stay in its L2 from one product to the next."""
    return sum(array.nbytes for array in arrays) <= SHARE_OF_L2 * limits_of(arrays[0]).l2_bytes


def stays_in_part(values: Array) -> bool:
    """Whether a matrix that does not stay in L2 is small enough for a part of it to stay there.

    Not for products of several vectors, whose x and y are larger.
    """
    return VECTORS.get() == 1 and values.nbytes < MOST_OF_L2 * limits_of(values).l2_bytes


@cache
def _memory_bytes(ordinal: int) -> int:
    """Of a CUDA device, taken or not; of the host if it is negative."""
    if ordinal < 0:
        import psutil

        return int(psutil.virtual_memory().total)
    from cupy.cuda.runtime import getDeviceProperties

    return int(getDeviceProperties(ordinal)["totalGlobalMem"])


def refuse_more_than_memory(needed: int, a: Csr) -> None:
    """Raises Skip for arrays, in bytes, that the memory which holds the matrix could not hold if it was empty."""
    if needed > LARGE:  # smaller ones are not worth asking for it
        refuse_size(needed, _memory_bytes(-1 if a.xp is np else ordinal(a.values)), a)


def runner(a: Csr) -> Run | None:
    """What runs kernels: `run` if CuPy holds the matrix; None if NumPy does and array operations convert it."""
    return _RUN.get() or (None if a.xp is np else run)


class _Host(threading.local):
    """What CuPy's own calls would look up each time, and memory of the host; for each thread.

    known: kernels by file and name, each with the layout of its arguments, whose types are the same in all launches,
    and the memory from which the driver copies them: CuPy looks at each argument for half of the time of a launch.
    zeros: by device, memory that was set to zero and the bytes of it that are in use. pinned: memory to which a GPU
    copies in half the time that an array of its own takes.
    """

    ZEROS = 2**17  # bytes set at once, which takes as long as to set eight; few, as they count in a conversion's peak
    PINNED = 2**16  # bytes

    def __init__(self) -> None:
        import cupy

        self.array, self.launch, self.stream = cupy.ndarray, cupy.cuda.driver.launchKernel, cupy.cuda.get_current_stream
        self.runtime, self.pinned_memory = cupy.cuda.runtime, cupy.cuda.alloc_pinned_memory(self.PINNED)
        self.pinned = np.frombuffer(self.pinned_memory, np.uint8, self.PINNED)
        self.known: dict[tuple[str, str], tuple[Any, Callable[..., None], int, bool, Any]] = {}
        self.zeros: dict[int, tuple[Any, int]] = {}

    def look_up(self, launch: Launch) -> tuple[Any, Callable[..., None], int, bool, Any]:
        """The kernel, what packs its arguments, where their pointers are, whether one is a struct, and the memory."""
        kinds = kinds_of(launch.args)
        whole, begins = layout_of(kinds)
        cells = (ctypes.c_uint64 * cdiv(whole.size, 8))()
        pointers = (ctypes.c_void_p * len(kinds))(*(ctypes.addressof(cells) + begin for begin in begins))
        pack, first, flatten = partial(whole.pack_into, cells, 0), ctypes.addressof(pointers), tuple in map(type, kinds)
        found = compiled(launch.source, launch.kernel), pack, first, flatten, pointers
        self.known[launch.source, launch.kernel] = found
        return found


@cache
def _host() -> _Host:
    return _Host()


def run(launch: Launch) -> None:
    """Enqueue a launch on CuPy's current stream; an empty grid does nothing."""
    if (check := _CHECK.get()) is not None:
        check([launch])
    grid, block, shared, own = launch.grid, launch.block, launch.shared_bytes, _host()
    x, y, z = (grid, 1, 1) if type(grid) is int else three(grid)
    if not (x and y and z):
        return
    found, pack, pointers, flatten, _ = own.known.get((launch.source, launch.kernel)) or own.look_up(launch)
    if shared > STATIC_SHARED_BYTES // 2:  # which with what the kernel declares is too much otherwise
        found.max_dynamic_shared_size_bytes = shared
    array, args = own.array, flat(launch.args) if flatten else launch.args
    pack(*[arg.data.ptr if type(arg) is array else arg for arg in args])
    across, down, deep = (block, 1, 1) if type(block) is int else three(block)
    own.launch(found.kernel.ptr, x, y, z, across, down, deep, shared, own.stream().ptr, pointers, 0)


def zeros(xp: ArrayModule, n: int, dtype: Any) -> Array:
    """(n,) zeros that a conversion needs for itself, not for the format: a few of a device take no launch."""
    size = n * np.dtype(dtype).itemsize
    if xp is np or size > _Host.ZEROS // 4 or (own := _host()).stream().ptr:
        return xp.zeros(n, dtype=dtype)  # on a stream of its own nothing says when others' zeros are there
    device = own.runtime.getDevice()
    memory, used = own.zeros.get(device, (None, _Host.ZEROS + 1))  # more than all: nothing is there
    if used + size > _Host.ZEROS:
        memory, used = xp.zeros(_Host.ZEROS, dtype=np.uint8).data, 0
    own.zeros[device] = memory, used + round_up(size, LINE_BYTES)
    found: Array = own.array(n, dtype, memory + used)
    return found


class _Address(int):
    """That of memory which it keeps."""

    memory: Any


def scratch(xp: ArrayModule, *parts: tuple[int, Any]) -> list[Any]:
    """Memory for kernels of a conversion alone, (n,) of a type each, as arguments of `Launch`: arrays of NumPy.

    On a GPU addresses in one allocation: an array of CuPy takes as long as a launch.
    """
    if xp is np:
        return [np.empty(n, dtype) for n, dtype in parts]
    sizes = [round_up(n * np.dtype(dtype).itemsize, LINE_BYTES) for n, dtype in parts]
    memory, found = cast(Any, xp).cuda.alloc(sum(sizes)), []
    for begin in accumulate(sizes[:-1], initial=memory.ptr):
        found.append(place := _Address(begin))
        place.memory = memory
    return found


def part(array: Array, begin: int, n: int) -> Any:
    """N elements of an array from one on, as an argument of `Launch`, for which an array of CuPy would take as long."""
    if isinstance(array, np.ndarray):
        return array[begin : begin + n]
    found = _Address(address(array) + begin * array.itemsize)
    found.memory = array
    return found


def minus_ones(xp: ArrayModule, shape: tuple[int, ...]) -> Array:
    """An array of the int32 -1, by setting bytes: CuPy's `full` takes a kernel."""
    found: Any = xp.empty(shape, dtype=np.int32)
    if xp is np:
        found.fill(-1)
    else:
        found.data.memset_async(255, found.nbytes)
    return cast(Array, found)


OFFSETS, _OFFSETS = "offsets.cu", "include/offsets.cuh"
OFFSETS_BLOCK, _EACH, _NOTES = (constant(_OFFSETS, f"OFFSETS_{name}") for name in ("BLOCK", "EACH", "NOTES"))
_WARP = constant("include/spmv.cuh", "WARP")
_WARPS = OFFSETS_BLOCK // _WARP


def note_words(numbers: int, each: int = _EACH, block: int = OFFSETS_BLOCK) -> int:
    """The length of `notes`."""
    return _NOTES + max(cdiv(numbers, block * each), 1)


def notes(xp: ArrayModule, numbers: int, each: int = _EACH, block: int = OFFSETS_BLOCK) -> Array:
    """The memory that a kernel needs to sum so many numbers (include/offsets.cuh), of which a thread takes `each`.

    Zeros, uint64. Kernels may write to the first three words. The fourth will hold the total.
    """
    return zeros(xp, note_words(numbers, each, block), np.uint64)


def summing(source: str, kernel: str, args: tuple[Any, ...], state: Array) -> Launch:
    """The launch of a kernel that sums its own numbers, whose last argument is `state`, as `notes` gives it."""
    return Launch(source, kernel, len(state) - _NOTES, OFFSETS_BLOCK, (*args, state))


def noted(state: Array) -> list[int]:
    """By one wait, what kernels wrote to the three words of `notes`, and the total."""
    return numbers(state, _NOTES - 1)


@dataclass
class Beside:
    """Launches whose numbers come with those that are waited for anyway.

    launch: takes the zeros, (words,), uint64, to which their kernels write. noted: their numbers, after the wait.
    """

    launch: Callable[[Array], None]
    words: int
    noted: list[int] = field(default_factory=list)

    @property
    def sums(self) -> list[int]:
        """What `noted` would give, where the words are `notes`."""
        return self.noted[: _NOTES - 1]


def first_on_host(array: Array, count: int) -> np.ndarray:
    """The first elements of an array, by one wait; to be read before more are asked for."""
    size = count * array.itemsize
    if isinstance(array, np.ndarray) or size > _Host.PINNED:
        return on_host(array[:count])
    own, source = _host(), cast(Any, array.data).ptr
    to, runtime = own.pinned_memory.ptr, own.runtime
    if (stream := own.stream()).ptr:
        runtime.memcpyAsync(to, source, size, runtime.memcpyDefault, stream.ptr)
        stream.synchronize()
    else:  # one call, which waits for all that is enqueued on the first stream
        runtime.memcpy(to, source, size, runtime.memcpyDefault)
    return own.pinned[:size].view(array.dtype)


def numbers(array: Array, count: int | None = None) -> list[int]:
    """The first numbers of an array, or all of them, of the host, by one wait."""
    found: list[int] = first_on_host(array, array.size if count is None else count).tolist()
    return found


def summed(
    xp: ArrayModule,
    n: int,
    source: str,
    kernel: str,
    args: tuple[Any, ...],
    run: Run,
    each: int = _EACH,
    total: int | None = None,
    beside: Beside | None = None,
    by_warps: bool = False,
    block: int = OFFSETS_BLOCK,
    of_total: Callable[[int], int] = int,
) -> tuple[Array, list[int]]:
    """As `arrays.offsets` of n numbers that a kernel counts, by it alone and one wait; and what was `noted`.

    kernel: its name without the last type, that of the offsets, and without the bracket. args: without the last two,
    the offsets and `state`. total: where it is known, or no more, which alone is returned then, without a wait. beside:
    launched before the wait, if there is one. by_warps: a warp counts one number after the other, as many as the
    argument before the offsets says: few, so that blocks are many. each, block: a block takes block * each. of_total:
    the last offset, of all that is summed.
    """
    if by_warps:
        share = min(1 << max(cdiv(n, _WARPS * 512) - 1, 0).bit_length(), _WARP)
        args, each, block = (*args, np.int32(share)), 1, _WARPS * share
    words, of_sums = 0 if beside is None else beside.words, note_words(n, each, block)
    narrow, int64 = index_dtype(total or 0), np.dtype(np.int64)
    for dtype in (narrow, int64) if total is None else (narrow,):
        ptr, room = xp.empty(n + 1, dtype=dtype), zeros(xp, words + of_sums, np.uint64)
        given = *args, ptr, part(room, words, of_sums) if words else room
        run(Launch(source, f"{kernel}, {ctype(dtype)}>", of_sums - _NOTES, OFFSETS_BLOCK, given))
        if total is not None:
            return ptr, [total]
        if beside is not None:
            beside.launch(room[:words])
        found = numbers(room, words + _NOTES - 1)
        if beside is not None:
            beside.noted, found = found[:words], found[words:]
        if index_dtype(of_total(found[-1])) == dtype:
            break
    return ptr, found


def offsets(counts: Array, run: Run) -> tuple[Array, int]:
    """As `arrays.offsets` by one kernel and one wait, and the total."""
    xp, n = array_module(counts), len(counts)
    ptr, found = summed(xp, n, OFFSETS, f"offsets<{ctype(counts)}", (np.int64(n), counts), run)
    return ptr, found[-1]


def offsets_upto(counts: Array, most: int, run: Run) -> Array:
    """The same without a wait, where the total is known to be `most` or less, for whose type they are."""
    xp, n = array_module(counts), len(counts)
    return summed(xp, n, OFFSETS, f"offsets<{ctype(counts)}", (np.int64(n), counts), run, total=most)[0]


TAKE = "take_convert.cu"
_TAKE_BLOCK, TAKE_EACH = constant(TAKE, "TAKE_BLOCK"), constant("include/take.cuh", "TAKE_EACH")


def taken(
    a: Csr,
    *,
    first: int = 0,
    last: int = INT32_MAX,
    above: int = -1,
    upto: int = INT32_MAX,
    beside: Beside | None = None,
    owners: bool = False,
) -> Csr:
    """Of rows of more than `above` and at most `upto` entries those from the `first`-th on and before the `last`-th.

    As a matrix of the same shape; all are the matrix itself. By kernels and one wait where there are any, without it
    where the host knows how many rows have each length, or that all are taken. beside: as for `summed`. owners: whether
    the row of each entry is found by the same kernel.
    """
    run, longest = runner(a), a.__dict__.get("row_len_max", INT32_MAX)
    if run is not None and (not a.nnz or (first == 0 and above < 0 and longest <= min(last, upto))):
        return a
    if run is None:
        every = above < 0 and upto >= a.row_len_max
        some = a if every else a.in_rows((a.row_lengths > above) & (a.row_lengths <= upto))
        return some.between(first, min(last, max(a.row_len_max, first)))
    known, total = a.__dict__.get("rows_by_length"), None
    if known is not None:
        shortest, longest = max(first, above) + 1, min(upto, len(known) - 1)
        rows_of, counts = known[shortest : longest + 1], np.arange(shortest - first, longest + 1 - first)
        if last < longest:
            counts = np.minimum(counts, max(last - first, 0))
        total, most = int(rows_of @ counts), 0
        if total == a.nnz:
            return a
        if total:
            most = int(counts[-1]) if rows_of[-1] else int(counts[rows_of > 0].max())
        about = {"row_len_max": most}
    xp, rows = a.xp, np.int32(a.rows)
    if total == 0:
        none = Csr(
            a.shape, xp.zeros(a.rows + 1, dtype=np.int32), nothing(xp, np.int32), nothing(xp, a.dtype), a.vectors
        )
        none.__dict__.update(about)
        return none
    args = (rows, *map(np.int32, (first, last, above, upto)), a.row_ptr)
    kernel = f"take_counts<{ctype(a.row_ptr)}"
    row_ptr, found = summed(xp, a.rows, TAKE, kernel, args, run, total=total, beside=beside)
    if total is None:
        most, a.__dict__["row_len_max"], slots, total = found
        about = {"row_len_max": most, "slice_slots": slots}
    if total == a.nnz:
        a.__dict__.update(about)
        return a
    col_idx, values = (xp.empty(total, dtype=t) if total else nothing(xp, t) for t in (np.int32, a.dtype))
    row_of = xp.empty(total, dtype=np.int32) if owners and total else nothing(xp, np.int32)
    kernel = f"take_entries<{ctype(values)}, {ctype(a.row_ptr)}, {ctype(row_ptr)}, {cbool(owners)}>"
    given = (rows, np.int64(total), np.int32(first), a.row_ptr, row_ptr, a.col_idx, a.values, row_of, col_idx, values)
    run(Launch(TAKE, kernel, cdiv(total, _TAKE_BLOCK * TAKE_EACH), _TAKE_BLOCK, given))
    some = Csr(a.shape, row_ptr, col_idx, values, a.vectors)
    some.__dict__.update(about, **({"row_idx": row_of} if owners else {}))
    return some


BINS = 4096  # row lengths that a kernel distinguishes


def rows_by_length(a: Csr, run: Run | None) -> np.ndarray:
    """How many rows have each length from 0 on, (longest + 1,), of the host; the matrix knows its longest row then.

    By the kernel, with one wait, (BINS,) at most, the last of which counts longer rows too; once for a matrix.
    """
    if run is None:
        return np.bincount(a.row_lengths, minlength=1)
    if (known := a.__dict__.get("length_bins")) is not None:
        return cast(np.ndarray, known)
    counts = zeros(a.xp, BINS + 1, np.int32)
    args = (np.int32(a.rows), a.row_ptr, counts)
    grid, kernel = min(cdiv(a.rows, _TAKE_BLOCK), 512), f"rows_by_length<{ctype(a.row_ptr)}, {BINS}>"
    run(Launch("csr/rows_convert.cu", kernel, grid, _TAKE_BLOCK, args))
    found = first_on_host(counts, BINS + 1)
    longest = a.__dict__["row_len_max"] = int(found[-1])
    exact, found = longest < BINS, found[: min(longest + 1, BINS)].copy()
    a.__dict__["length_bins"] = found
    if exact:
        a.__dict__["rows_by_length"] = found
    return found


def longest_row(a: Csr) -> int:
    """As `Csr.row_len_max`, by one kernel and one wait where there are any."""
    if "row_len_max" not in a.__dict__ and (run := runner(a)) is not None:
        rows_by_length(a, run)
    return a.row_len_max


def is_sound(a: Csr, run: Run) -> bool:
    """Whether arrays are canonical CSR of finite values, by one kernel and one wait. nnz: of the columns and values."""
    if not a.rows:
        return False  # nothing to save time with
    found = zeros(a.xp, 3, np.uint64)
    source, block = "check_csr.cu", constant("check_csr.cu", "CHECK_BLOCK")
    grid = min(cdiv(max(a.nnz, a.rows), block), 4096)
    args = (np.int32(a.rows), np.int32(a.cols), np.int64(a.nnz), a.row_ptr, a.col_idx, a.values, found)
    run(Launch(source, f"check_csr<{ctype(a.values)}, {ctype(a.row_ptr)}>", grid, block, args))
    bad, falls, begins = numbers(found)
    return not bad and falls == begins


_SOUND = [tuple(map(np.dtype, types)) for types in (("int32", "int64"), ("int32",), ("float32", "float64"))]


def sound(matrix: Any) -> Csr | None:
    """The arrays of a matrix of CuPy that is canonical CSR of finite values, by `is_sound`; None for any other."""
    if getattr(matrix, "format", None) != "csr" or array_module(matrix.data) is np:
        return None
    arrays = matrix.indptr, matrix.indices, matrix.data
    if not all(array.dtype in each and array.flags.c_contiguous for array, each in zip(arrays, _SOUND, strict=True)):
        return None
    (rows, cols), (row_ptr, col_idx, values) = matrix.shape, arrays
    if max(rows, cols) > INT32_MAX or len(row_ptr) != rows + 1 or len(col_idx) != len(values):
        return None
    row_ptr = row_ptr.astype(index_dtype(len(values)), copy=False)
    a = Csr((int(rows), int(cols)), row_ptr, col_idx, values)
    return a if is_sound(a, run) else None


def rows_of(a: Csr) -> Array:
    """As `Csr.row_idx`, by one kernel where there are any."""
    if (run := runner(a)) is None or "row_idx" in a.__dict__:
        return a.row_idx
    owners, args = a.xp.empty(a.nnz, dtype=np.int32), (np.int32(a.rows), np.int64(a.nnz), a.row_ptr)
    grid = cdiv(a.nnz, _TAKE_BLOCK * TAKE_EACH)
    run(Launch(TAKE, f"take_owners<{ctype(a.row_ptr)}>", grid, _TAKE_BLOCK, (*args, owners)))
    return owners


def count_filled(a: Csr, run: Run) -> tuple[Array, int]:
    """How many rows with entries are before each row, and in all; the matrix keeps them and knows its longest row."""
    args = (np.int32(a.rows), a.row_ptr)
    ptr, noted = summed(a.xp, a.rows, TAKE, f"filled_counts<{ctype(a.row_ptr)}", args, run)
    a.__dict__["row_len_max"], *_, total = noted
    a.__dict__["filled_ptr"] = ptr, total
    return ptr, total


def filled_rows(a: Csr) -> tuple[Array, Array]:
    """The rows with entries, ascending, (filled,), int32, and row pointers of these alone, (filled + 1,).

    By kernels and one wait where there are any.
    """
    if (run := runner(a)) is None:
        filled = np.flatnonzero(a.row_lengths).astype(np.int32)
        return filled, np.concatenate([a.row_ptr[filled], a.row_ptr[-1:]])
    xp, rows, index = a.xp, np.int32(a.rows), ctype(a.row_ptr)
    ptr, total = a.__dict__.get("filled_ptr") or count_filled(a, run)
    filled, begins = xp.empty(total, dtype=np.int32), xp.empty(total + 1, dtype=a.row_ptr.dtype)
    args = (rows, a.row_ptr, ptr, filled, begins)
    run(Launch(TAKE, f"filled_rows<{index}, {ctype(ptr)}>", cdiv(a.rows + 1, _TAKE_BLOCK), _TAKE_BLOCK, args))
    return filled, begins


def with_multiples(a: Csr, multiple: int) -> tuple[Array, Array, Array] | None:
    """CSR whose rows have multiples of so many entries, further ones with the row's last column and 0.

    By kernels and one wait; None where there are none.
    """
    if (run := runner(a)) is None:
        return None
    xp, rows = a.xp, np.int32(a.rows)
    args = (rows, np.int32(multiple), a.row_ptr)
    row_ptr, (*_, total) = summed(xp, a.rows, TAKE, f"align_counts<{ctype(a.row_ptr)}", args, run)
    col_idx, values = xp.empty(total, dtype=np.int32), xp.empty(total, dtype=a.dtype)
    kernel = f"align_entries<{ctype(values)}, {ctype(a.row_ptr)}, {ctype(row_ptr)}>"
    given = (rows, np.int64(total), a.row_ptr, row_ptr, a.col_idx, a.values, col_idx, values)
    run(Launch(TAKE, kernel, cdiv(total, _TAKE_BLOCK * TAKE_EACH), _TAKE_BLOCK, given))
    return row_ptr, col_idx, values


def places_of(order: Array, run: Run) -> Array:
    """Where each number is in an order, int32, by a kernel. order: (n,), int32."""
    n = len(order)
    found = array_module(order).empty(n, dtype=np.int32)
    run(Launch("csr/rows_convert.cu", "order_inverse", cdiv(n, _TAKE_BLOCK), _TAKE_BLOCK, (np.int32(n), order, found)))
    return found


def private_share(entries: int) -> int:
    """Entries of a block that counts for itself (include/private_counts.cuh): many, so that its numbers meet again."""
    return min(max(round_up(cdiv(entries, 1024), 1024), 2048), 2**15)


def cut_rows(a: Csr, cut: str, shares: int, tile: int, run: Run) -> Array:
    """The row in which each of some shares of `tile` steps begins, and an end, (shares + 1,), int32, by a kernel.

    cut: what is cut, a name of kernels/load_balanced/balanced_convert.cu.
    """
    found = a.xp.empty(shares + 1, dtype=np.int32)
    args = (np.int32(shares + 1), np.int32(a.rows), np.int64(a.nnz), np.int64(tile), a.row_ptr, found)
    kernel = f"cut_rows<{cut}, {ctype(a.row_ptr)}>"
    run(Launch("load_balanced/balanced_convert.cu", kernel, cdiv(shares + 1, _TAKE_BLOCK), _TAKE_BLOCK, args))
    return found


CHAIN = "load_balanced/chain.cu"
_SEGMENT, _CHAIN_BLOCK, _IN_TURN = (constant(CHAIN, name) for name in ("SEGMENT", "CHAIN_BLOCK", "MOST_IN_TURN"))


def chain(following: Array, run: Run) -> tuple[Array, Array]:
    """As `arrays.chain` by kernels, int32, in room for n + 1; and the notes whose total is how many are before the end.

    following: (n,), int32, without the end n.
    """
    xp, n = array_module(following), len(following)
    segments, size = max(cdiv(n, _SEGMENT), 1), np.int32(n)
    places, state = xp.empty(n + 1, dtype=np.int32), notes(xp, segments, each=1, block=1)
    in_turn = n > 0 and segments <= _IN_TURN
    if in_turn:
        enters = zeros(xp, segments, np.int32)
    else:  # what leaves a segment is known before what is reached is stored in its place
        enters = xp.empty(segments, dtype=np.int32)
        run(Launch(CHAIN, "chain_exits", segments, _CHAIN_BLOCK, (size, following, places)))
        run(Launch(CHAIN, "chain_enters", 1, _CHAIN_BLOCK, (size, np.int32(segments), places, enters)))
    args = size, following, enters, places, state
    run(Launch(CHAIN, f"chain_places<{cbool(in_turn)}>", segments, _CHAIN_BLOCK, args))
    return places, state


def check(launches: list[Launch]) -> None:
    """Call the check that `converting_for` was given, if any, with launches that are to run."""
    if (found := _CHECK.get()) is not None:
        found(launches)


@cache
def compiled(source: str, kernel: str) -> Any:
    """A kernel of a file in kernels/ or of a format, compiled for CuPy's current device."""
    import cupy

    path = kernel_path(source)
    # CuPy keeps what it compiled by source and options: headers are neither, so their sum makes an option.
    included = zlib.crc32(b"".join(header.read_bytes() for header in headers(path)))
    options = (*kernel_options(), f"--define-macro=HEADERS={included}")
    module = cupy.RawModule(code=path.read_text(encoding="utf-8"), options=options, name_expressions=(kernel,))
    return module.get_function(kernel)
