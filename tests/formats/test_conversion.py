"""What a conversion knows of the device that it converts for."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats, testing
from spmvbench.devices import cuda
from spmvbench.formats import (
    Call,
    Csr,
    Format,
    Launch,
    Loop,
    Parameter,
    Skip,
    arrays,
    conversion,
    only_kernels,
    tuning,
    zero_fill,
)
from spmvbench.formats.conversion import (
    EMULATED,
    Limits,
    Tuning,
    converting_for,
    device_limits,
    search_once,
)
from spmvbench.formats.dense_blocks.strips import SHAPES
from spmvbench.formats.launches import Struct
from spmvbench.formats.refilling import places
from spmvbench.formats.tuning import one_by_one, tuned
from tests.formats.rows import as_on_device, stub_of_cupy, with_lengths, with_long_pointers

A = Csr((1, 1), np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1))


def test_a_matrix_on_the_host_is_for_the_device_at_hand(emulated):
    assert emulated.limits == device_limits(A) == EMULATED
    with converting_for(Limits(3, 1000)):
        assert device_limits(A) == Limits(3, 1000)
        with pytest.raises(ZeroDivisionError), converting_for(Limits(4, 1000)):
            raise ZeroDivisionError
        assert device_limits(A).multiprocessors == 3
    assert device_limits(A) == EMULATED


@pytest.mark.parametrize("label", ["dia", "crsd", "crsd[kernel=paper]"])
def test_a_matrix_that_stays_in_l2_is_not_loaded_as_read_once(emulated, label):
    ((cls, params),), a = formats.parse(label), Csr.of(spmvbench.load("tridiag:300"))
    fmt, x, y = cls.from_csr(a, **params), np.arange(a.cols, dtype=np.float64), np.zeros(a.rows)
    values = fmt.values if label == "dia" else next(iter(fmt.parts.values())).values
    least = 4 * (values.nbytes + x.nbytes + y.nbytes) // 3
    less = ((least - 2, "partly_kept"), (values.nbytes // 2, "dia")) if label == "dia" else ((least - 2, "dia"),)
    for l2, folder in ((least + 2, "kept"), *less):
        with converting_for(Limits(16, 1000, l2_bytes=l2)):
            (launch,) = [step for step in fmt.launches(x, y) if not step.kernel.startswith("zero_")]
        assert launch.source.startswith(f"{folder}/")
        y[:] = np.nan
        emulated.compile([launch]).run()
        np.testing.assert_allclose(y, sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape) @ x)


# Beyond defaults, what makes conversion kernels differ: one slice or several, order, lanes, heights, bases, widths.
VARIANTS = [
    *("ellr-t[threads=4]", "ell-psblas[footprint=psblas]", "sliced-ellr-t[threads=4]", "hdi[footprint=psblas]"),
    *("sell-c-sigma[height=8,sigma=100]", "sell-local[pieces=2]", "sell-local[sigma=1]", "sell-local[long=0]"),
    *(
        "sell-local[pieces=2,sigma=64]",
        "sell-petsc[height=4]",
        "sell-window[window=1]",
        "sell-window[vectors=4]",
        "csr-row-tiles[block=64]",
    ),
    *("column-sweep", "column-sweep[sms=3,shared_bytes=1024]", "column-sweep[sms=7,parts=3,chunks=1]", "two-phase"),
    *("fastload[height=4]", "fastload[height=none]", "fastload[optimized=true]", "block-sell", "bellpack", "hdc"),
    *("bellpack[r=3]", "bellpack[r=8,c=6]", "bsr[block=16]"),
    *(
        "ell-dia",
        "bin-csr",
        "ell-warp-k2[thr=4]",
        "ell-warp-k2[thr=64]",
        "csr-ell-matam",
        "csr-bb",
        "sell-c-sigma[sigma=0]",
    ),
    *("bccoo[h=3,w=2,steps=5,across=32,group=64]", "bccoo[delta=false,steps=32,group=64]", "csc-vector"),
    *("bccoo-plus[slices=4]", "bccoo-plus[slices=32]", "mgpu-csr-plus[items=3]", "mgpu-csr-plus[items=13]"),
    *(f"bcoo-bcsr[block={block},choose={rule}]" for block in SHAPES for rule in ("greedy", "program")),
    *("merbit[sigma=5]", "merbit[sigma=15]", "merbit[sigma=42]", "tile", "tile-csr", "tile-deferred-coo[defer=0]"),
    *("csr5[sigma=17]", "hec[pr=3]", "hyb[rule=max]", "shec[least_rows=1]", "shec[least_rows=50]"),
]
CUT = sparse.random_array((3000, 3000), density=1e-3, format="lil", random_state=np.random.default_rng(0))
CUT[5], CUT[1500, :900] = np.arange(1.0, 3001), 1  # rows that several blocks convert
# More rows than a block looks at, with regions of long rows: some within, one across its end, empty ones between.
REGIONS = np.tile([0, 0, 1, 60, 0, 200, 60, 1], (9000 // 360, 1))
MATRICES = testing.hard_matrices() | {
    "rows that are cut": CUT.tocsr(),
    "one row, longer than a share": with_lengths([3000]),
    "regions": with_lengths(np.concatenate([np.repeat([0, 60, 0, 1, 0], [8100, 200, 8000, 90, 9]), REGIONS.ravel()])),
    "integers": sparse.csr_array(
        sparse.diags_array([1.0, 2, 3, 4, 5, 6], offsets=[-300, -7, -1, 0, 1, 40], shape=(399, 399))
    ),
}


def numbers(fmt):
    """The fields of a format that are no arrays."""
    return {name: value for name, value in vars(fmt).items() if isinstance(value, int | str)}


def assert_kernels_convert_alike(spec, matrices, device, same_arrays):
    """By kernels, whose launches it returns, the same as by array operations, in both types. matrices: by name."""
    ((cls, params),) = formats.parse(spec, ops={formats.get(spec.partition("[")[0]).op})
    launched = []

    def run(launch):
        launched.append(launch)
        device.compile([launch]).run()

    def converted(a):
        try:
            return cls.converted(a.fresh(), **params)
        except Skip as refused:
            return refused.reason

    for name, dtype in itertools.product(matrices, (np.float64, np.float32)):
        a = Csr.of(matrices[name]).astype(dtype)
        if dtype == np.float32:
            a = with_long_pointers(a)
        expected = converted(a)
        with converting_for(EMULATED, run=run):
            found = converted(a)
        if isinstance(expected, str):
            assert found == expected
            continue
        same_arrays(found.arrays(), expected.arrays(), f"{spec} {name} {dtype.__name__}")
        assert repr(found.detail) == repr(expected.detail)
        assert numbers(found) == numbers(expected)
    return launched


@pytest.mark.parametrize("spec", ["sell-p", "sell-c-sigma", "sell-local", "csr5", "jad", "hyb", "csr-row-tiles"])
def test_kernels_convert_as_arrays_do(spec, emulated, same_arrays):
    assert assert_kernels_convert_alike(spec, MATRICES, emulated, same_arrays)


LAUNCHES = {
    "csr-bb": 2,
    "csr5": 1,
    "sell-p": 2,
    "sell-c-sigma": 3,
    "sell-local": 2,
    "irregular": 2,
    "dia": 3,
    "cds": 4,
    "csr5-hub": 6,
    "shec": 3,
    "tile": 3,
}


@pytest.mark.parametrize("spec", LAUNCHES)
def test_a_small_matrix_takes_few_launches(spec, emulated):
    """Each takes ten microseconds of the host, and an SpMV of such a matrix five."""
    ((cls, params),) = formats.parse(spec)
    launched = []

    def run(launch):
        launched.append(launch.kernel)
        emulated.compile([launch]).run()

    with converting_for(EMULATED, run=run):
        cls.converted(Csr.of(spmvbench.load("pde:12")), **params)
    assert len(launched) == LAUNCHES[spec], launched


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*formats.shipped(), *VARIANTS])
def test_kernels_of_every_format_convert_as_arrays_do(spec, emulated, same_arrays):
    assert_kernels_convert_alike(spec, MATRICES, emulated, same_arrays)


class Few(np.ndarray):
    """An array that takes masks and index assignments as those of CuPy do, with MOST elements in place of 2^31."""

    MOST = 4000

    def _few(self, index):
        for one in index if isinstance(index, tuple) else (index,):
            if getattr(one, "dtype", None) == np.bool_ and np.count_nonzero(one) > self.MOST:
                raise OverflowError
        return index

    def __getitem__(self, index):
        return super().__getitem__(self._few(index))

    def __setitem__(self, index, value):
        every = index if isinstance(index, tuple) else (index,)
        sizes = [n for one, n in zip(every, self.shape, strict=False) if isinstance(one, np.ndarray) and one.ndim]
        if len(sizes) and math.prod(sizes) > self.MOST:
            raise OverflowError
        super().__setitem__(self._few(index), value)


def mostly_padding():
    """Few entries, and a row and places that give every padded format far more than Few.MOST elements."""
    rng = np.random.default_rng(0)
    a = sparse.random_array((600, 600), density=0.003, random_state=rng, format="lil")
    a[30, 5:445] = 1.5
    return Csr.of(a.tocsr())


PADDED = [  # of which a GPU's conversion has padding and assigns to it by indices
    *("ehyb", "mbsr", "cb", "amb", "sell-dict", "argcsr", "crsd", "bin-bcsr", "dasp", "biell", "aligned-coo"),
    *("adell-plus[side=2]", "tile-bfs"),
]


@pytest.mark.parametrize(
    "spec", [*PADDED, *(pytest.param(spec, marks=pytest.mark.slow) for spec in [*formats.shipped(), *VARIANTS])]
)
def test_padding_is_written_to_by_no_index_that_counts_in_32_bits(spec, emulated, monkeypatch):
    """By kernels where a GPU converts by kernels."""
    ((cls, params),) = formats.parse(spec, ops={formats.get(spec.partition("[")[0]).op})
    a = testing.suited(cls, mostly_padding())
    for name in ("zeros", "empty", "full", "ones"):
        made = getattr(np, name)
        monkeypatch.setattr(np, name, lambda *args, made=made, **kwargs: made(*args, **kwargs).view(Few))
    monkeypatch.setattr(arrays, "INDEXED", Few.MOST)
    with suppress(Skip), converting_for(EMULATED, run=lambda launch: emulated.compile([launch]).run()):
        cls.from_csr(a, **params)


def test_entries_are_found_among_more_padding_than_a_mask_takes(monkeypatch):
    a = mostly_padding()
    fmt, stored = testing.convert("dia", a), Format.arrays
    assert a.nnz < Few.MOST < np.count_nonzero(fmt.values == 0)
    monkeypatch.setattr(Format, "arrays", lambda self: {k: v.view(Few) for k, v in stored(self).items()})
    monkeypatch.setattr(arrays, "INDEXED", Few.MOST)
    found = places(fmt, a)
    assert np.array_equal(found.values(fmt), a.values)
    assert np.array_equal(found.values(found.refilled(fmt, 2 * a.values)), 2 * a.values)


IN_BOUNDS = [
    *("ell", "ell-rp", "sell-var", "sell-p", "sell-c-sigma", "sell-local", "sell-pack", "sell-window", "csr5", "dia"),
    *("cds", "csr-row-tiles", "hub-cache", "jad", "hyb", "auto", "coadell", "bro-hybr-s", "bsr", *VARIANTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("spec", IN_BOUNDS)
def test_kernels_of_conversions_stay_in_bounds(spec, checking, same_arrays):
    few = "0x0", "no entries", "power law", "empty rows and columns", "wide", "one full row", "integers"
    assert_kernels_convert_alike(spec, {name: MATRICES[name] for name in few}, checking, same_arrays)


def test_what_is_0_is_tuned_one_by_one_and_what_is_given_stays():
    asked = []

    def time(params):
        asked.append(tuple(params.values()))
        return abs(params["lanes"] - 8) + abs(params["block"] - 256)

    choices = {"lanes": (4, 8, 16), "block": (128, 256)}
    assert one_by_one({"lanes": 0, "block": 0, "sigma": 1}, choices, time) == {"lanes": 8, "block": 256, "sigma": 1}
    assert asked == [(4, 0, 1), (8, 0, 1), (16, 0, 1), (8, 128, 1), (8, 256, 1)]
    assert one_by_one({"lanes": 4, "block": 0, "sigma": 1}, choices, time)["lanes"] == 4


def test_nothing_is_timed_on_the_host():
    assert tuned(Format, A, {"lanes": 0}, {"lanes": (1, 2)}, lambda lanes: {"chosen": lanes or 4}) == {"chosen": 4}


class Clock(Format):
    """Its launches are the time that they take."""

    lanes = Parameter(0, "lanes", choices=(0, 1, 2, 4))
    values: np.ndarray
    chosen: int

    def launches(self, x, y):
        return [abs(self.chosen - 2)]


def test_fields_are_those_of_the_fastest(monkeypatch):
    class Elsewhere(type(A)):
        xp = property(lambda self: SimpleNamespace(zeros=np.zeros, empty=np.empty))

    a = Elsewhere(A.shape, A.row_ptr, A.col_idx, A.values)
    monkeypatch.setattr(tuning, "seconds", sum)

    def fields(lanes):
        return {"values": a.values, "chosen": lanes or 32}

    assert tuned(Clock, a, {"lanes": 0}, {"lanes": (1, 2, 4)}, fields)["chosen"] == 2
    with converting_for(EMULATED, tuning=(found := Tuning())):
        assert tuned(Clock, a, {"lanes": 4}, {"lanes": (1, 2, 4)}, fields)["chosen"] == 4
    assert not found.asked, "nothing is left to tune"


def test_conversions_of_a_case_search_once(monkeypatch):
    now, tuning, searched = [0.0], Tuning(), []
    monkeypatch.setattr(conversion, "perf_counter", lambda: now[0])

    def search(name, inner=None):
        searched.append(name)
        now[0] += 5
        tuning.compiling += 2
        return inner() if inner else f"{name} {len(searched)}"

    def convert(*names, a=A):
        return [search_once(Clock, a, lambda name=name: search(name), lambda name=name: f"{name} 0") for name in names]

    assert convert("outside") == ["outside 1"] and not tuning.asked
    searched.clear()
    with converting_for(EMULATED, tuning=tuning):
        tuning.begin(warm_up=True)
        assert convert("a", "b") == ["a 0", "b 0"] and not searched and tuning.asked
        tuning.begin()
        assert convert("a", "b") == ["a 1", "b 2"]
        assert (tuning.seconds, tuning.uncounted) == (6, -4)
        tuning.begin()
        assert convert("a", "b") == ["a 1", "b 2"] and searched == ["a", "b"]
        assert (tuning.seconds, tuning.uncounted) == (6, 6)
        tuning.begin()
        other = Csr((1, 2), A.row_ptr, A.col_idx, A.values)
        assert convert("c", a=other) == ["c 3"], "what was found for another matrix"
    tuning = Tuning()
    with converting_for(EMULATED, tuning=tuning):
        nested = search_once(Clock, A, lambda: search("a", lambda: convert("b")), lambda: None)
        assert nested == ["b 5"] and (tuning.seconds, tuning.uncounted) == (6, -4), "counted once"


TUNED = {
    "adell-plus": {}, "aligned-coo": {"L": 0}, "bccoo": {"tune": True}, "bcsr-verschoor": {}, "csr-am": {},
    "csr-gg": {}, "ellr-t": {}, "hec": {"pr": 0}, "sell": {}, "tile-composite": {"width": 64},
}  # fmt: skip


@pytest.mark.parametrize("key", TUNED)
def test_every_format_that_is_tuned_times_in_the_first_conversion_only(key, monkeypatch):
    """The times are random: what a second search would find is another layout."""
    random, timed, tuning = np.random.default_rng(0), [], Tuning()
    cls = formats.get(key)
    a = as_on_device(
        spmvbench.load("rmat:8:8"), monkeypatch, lambda steps: timed.append(list(steps)) or random.random()
    )
    found, counts = [], []
    with converting_for(EMULATED, tuning=tuning):
        for warm_up in (True, False, False):
            tuning.begin(warm_up=warm_up)
            found.append(cls.converted(a, **TUNED[key]))
            counts.append(len(timed))
    assert counts[0] == 0 < counts[1] == counts[2]
    first, second = (fmt.in_use for fmt in found[1:])
    assert first == second and first
    for name, array in found[1].arrays().items():
        np.testing.assert_array_equal(array, found[2].arrays()[name])


@pytest.mark.parametrize("key", ["dia", "ell"])
def test_arrays_that_no_memory_could_hold_are_refused(key, monkeypatch, emulated):
    monkeypatch.setattr(conversion, "LARGE", 0)
    monkeypatch.setattr(conversion, "_memory_bytes", lambda ordinal: 1000)
    a, cls = Csr.of(with_lengths([3] * 90 + [40])), formats.get(key)
    for run in (None, lambda launch: emulated.compile([launch]).run()):
        with converting_for(EMULATED, run=run), pytest.raises(Skip, match="over the limit of 1 kB"):
            cls.converted(a)


@pytest.mark.gpu
def test_limits_of_a_gpu():
    from spmvbench.devices import open_device

    device = open_device("cuda:0")
    assert device.limits == device_limits(A.on(device.xp))
    assert device.limits.multiprocessors == device.properties()["multiprocessors"]
    assert device.limits.shared_bytes >= 48 * 1024


def test_steps_that_are_no_kernels_cannot_be_run_by_a_conversion():
    kernel = Launch("vector.cu", "zero_fill<double>", 1, 1, ())
    assert only_kernels(iter([kernel, kernel])) == [kernel, kernel]
    with pytest.raises(TypeError, match="Call"):
        only_kernels([kernel, Call("copy", print, ())])
    with pytest.raises(TypeError, match="Loop"):
        only_kernels([Loop((kernel,), np.zeros(1, np.int32), 1)])


@pytest.mark.gpu
@pytest.mark.timing
def test_kernels_shorter_than_their_launch_are_told_apart():
    """A launch from the host takes some 5 microseconds; kernels of 2 and of 4 must not look alike."""
    import cupy

    few, many = (cupy.zeros(n) for n in (1 << 10, 1 << 22))
    launches = [zero_fill(y) for y in (few, many)]
    short, longer = (tuning.seconds([launch]) for launch in launches)
    assert 2e-7 < short < 4e-6 and 1.5 * short < longer < 5e-5
    assert tuning.seconds(launches) == pytest.approx(short + longer, rel=0.5)


def test_slots_of_a_row_of_over_2_26_entries(emulated):
    nnz = 2**26 + 1
    columns, values = (np.broadcast_to(np.zeros(1, dtype), nnz) for dtype in (np.int32, np.float64))  # no memory
    a = Csr((1, nnz), np.array([0, nnz], np.int32), columns, values)
    with converting_for(EMULATED, run=lambda launch: emulated.compile([launch]).run()):
        assert conversion.taken(a, upto=nnz) is a
    assert a.__dict__["slice_slots"] == 32 * nnz


def test_sound_matrices_are_told_from_others(emulated):
    def sound(a):
        return conversion.is_sound(a, lambda launch: emulated.compile([launch]).run())

    matrices = [Csr.of(m) for m in MATRICES.values() if m.shape[0]]
    assert all(map(sound, matrices)) and sound(with_long_pointers(matrices[-1]))
    a = Csr.of(with_lengths([3, 0, 2, 4], 6))
    spoilt = [
        ("row_ptr", 1, 4), ("row_ptr", 0, 1), ("row_ptr", 4, 8), ("row_ptr", 2, -1), ("col_idx", 1, 6),
        ("col_idx", 0, -1), ("col_idx", 1, 2), ("col_idx", 6, 0), ("values", 8, np.inf), ("values", 0, np.nan),
    ]  # fmt: skip
    for name, at, value in spoilt:
        arrays = {each: getattr(a, each).copy() for each in ("row_ptr", "col_idx", "values")}
        arrays[name][at] = value
        assert not sound(Csr(a.shape, **arrays)), (name, at)


class _Array:
    """As much of an array of CuPy as a launch takes."""

    def __init__(self, pointer):
        self.data = SimpleNamespace(ptr=pointer)


@pytest.mark.parametrize(
    "args",
    [
        (np.int32(-5), np.int64(-(2**40)), np.uint8(200), _Array(2**47 + 8)),
        (np.float64(1.5), np.float32(0.25), np.bool_(True), np.uint64(2**64 - 1)),
        (np.int8(1), Struct((np.int32(7), _Array(2**40), np.bool_(True), np.int16(-3))), np.int32(2)),
        tuple(map(np.int32, range(40))),
        (),
    ],
)
def test_arguments_are_passed_as_the_driver_takes_them(monkeypatch, args):
    calls = []
    stub_of_cupy(monkeypatch, lambda *given: calls.append(given), ndarray=_Array, stream=5)
    monkeypatch.setattr(conversion, "compiled", lambda *_: SimpleNamespace(kernel=SimpleNamespace(ptr=77)))
    launch = Launch("some.cu", "some", 3, (32, 4), args, 64)
    bound = cuda._bind(SimpleNamespace(ptr=77), launch)
    for enqueue in (conversion.run, conversion.run, lambda _: bound(5)):  # the second time as the layout is known
        calls.clear()
        enqueue(launch)
        conversion.run(Launch("some.cu", "some", 0, 32, args))  # of an empty grid
        ((*call, stream, pointers, extra),) = calls
        assert (call, stream, extra) == ([77, 3, 1, 1, 32, 4, 1, 64], 5, 0)
        for pointer, arg in zip((ctypes.c_void_p * len(args)).from_address(pointers), args, strict=True):
            cell = arg.packed(lambda array: array.data.ptr) if isinstance(arg, Struct) else arg
            expected = np.uint64(arg.data.ptr) if isinstance(arg, _Array) else cell
            assert ctypes.string_at(pointer, expected.nbytes) == expected.tobytes()


def test_scratch_is_addresses_in_one_allocation(monkeypatch):
    calls = []
    cupy = stub_of_cupy(monkeypatch, lambda *given: calls.append(given))
    monkeypatch.setattr(conversion, "compiled", lambda *_: SimpleNamespace(kernel=SimpleNamespace(ptr=77)))
    found = conversion.scratch(cupy, (3, np.int32), (40, np.float64), (0, np.int8), (1, np.uint8))
    assert found == [2**40 + begin for begin in (0, 128, 512, 512)]
    assert [each.memory.size for each in found] == [640] * 4
    conversion.run(Launch("some.cu", "some", 1, 1, (np.int8(1), found[1])))
    where = (ctypes.c_void_p * 2).from_address(calls[0][-2])[1]
    assert ctypes.c_uint64.from_address(where).value == found[1]
    assert conversion.part(SimpleNamespace(data=SimpleNamespace(ptr=640), itemsize=8), 3, 5) == 664


def test_zeros_of_a_conversion_are_set_many_at_once(monkeypatch):
    """Each array has memory that no other had; long ones and those on another stream than the first are CuPy's own."""
    made = []

    def whole(n, dtype):
        made.append(np.zeros(n, dtype))
        return SimpleNamespace(data=0)

    def part(n, dtype, begin):
        return made[-1][begin:][: n * np.dtype(dtype).itemsize].view(dtype)

    cupy = stub_of_cupy(monkeypatch, ndarray=part, zeros=whole)
    stream = cupy.cuda.get_current_stream()
    for count in range(3000):
        found = conversion.zeros(cupy, count, np.uint64)
        assert (
            len(found) == count
            and not found.any()
            and (not count or found.ctypes.data % 128 == made[-1].ctypes.data % 128)
        )
        found[:] = 1
    assert len(made) == 295
    for stream.ptr, count in ((0, 2**17), (7, 3)):
        conversion.zeros(cupy, count, np.uint8 if count == 3 else np.int32)
        assert len(made[-1]) == count


@pytest.mark.parametrize("n", [0, 1, 8193, 40000, 140000])
@pytest.mark.parametrize("most", [1, 50, 20000])
def test_a_chain_over_many_segments_is_that_of_array_operations(n, most, emulated):
    following = np.minimum(np.arange(1, n + 1) + np.random.default_rng(n).integers(0, most, n), n).astype(np.int32)
    places, notes = conversion.chain(following, lambda launch: emulated.compile([launch]).run())
    found = places[: conversion.noted(notes)[-1] + 1]
    assert np.array_equal(found, arrays.chain(np.append(following, n)))


def test_conversions_leave_no_array_in_a_cycle(emulated):
    """Python would keep a GPU's memory until it looks for cycles."""
    a = Csr.of(spmvbench.load("poisson2d:20"))
    for spec in (
        "bellpack",
        "bro-hybr-s",
        "coadell",
        "csr-row-tiles",
        "hdc",
        "sell-pack",
        "sell-window",
        "shec",
        "tile",
    ):
        ((cls, params),) = formats.parse(spec)
        with converting_for(conversion.EMULATED, run=lambda launch: emulated.compile([launch]).run()):
            cls.converted(a.fresh(), **params)  # what is made once
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                cls.converted(a.fresh(), **params)
                gc.collect()
                held = [found.shape for found in gc.get_referents(*gc.garbage) if isinstance(found, np.ndarray)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
        assert not held, spec
