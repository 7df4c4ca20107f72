import math
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest

from spmvbench.devices import emulated
from spmvbench.devices.base import DeviceFault, DeviceUnavailable
from spmvbench.devices.emulated import MAX_DYNAMIC_SHARED, Emulated
from spmvbench.devices.emulation import build, symbols
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Launch, Struct

KERNELS = Path(__file__).parent / "kernels"
BLOCKS, WARPS, BUILTINS, FAULTS, STRUCTS, LAUNCHES = (
    str(KERNELS / f"{name}.cu") for name in ("blocks", "warps", "builtins", "faults", "structs", "launches")
)

# How scripts of processes of their own begin.
NAMES = "import numpy as np\nfrom spmvbench.devices.emulated import Emulated\nfrom spmvbench.formats import Launch\n"
needs_symbols = pytest.mark.skipif(
    not (shutil.which("addr2line") or shutil.which("llvm-addr2line")),
    reason="needs addr2line (apt-get install binutils)",
)


@pytest.fixture(scope="module")
def fast():
    device = Emulated()
    yield device
    device.close()


@pytest.fixture(scope="module")
def checking():
    device = Emulated(check=True)
    yield device
    device.close()


@pytest.fixture(scope="module", params=["fast", "shuffled", "checking", "checking-shuffled"])
def device(request):
    """Every way of running that must give the right answer."""
    opened = Emulated(check="checking" in request.param, seed=7 if "shuffled" in request.param else None, workers=2)
    yield opened
    opened.close()


def run(device, source, kernel, grid, block, *args, shared_bytes=0):
    program = device.compile([Launch(source, kernel, grid, block, args, shared_bytes)])
    program.run()
    return program


def place(source, mark):
    """``file.cu:line`` of the line that carries a mark."""
    lines = Path(source).read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if line.endswith(f"// {mark}"))
    return f"{Path(source).name}:{number}"


# Right answers


def test_zero_fill_leaves_the_rest_alone(device):
    y = np.full(1000, np.nan)
    run(device, "vector.cu", "zero_fill<double>", 8, 128, y, np.int32(999))
    assert not y[:999].any()
    assert np.isnan(y[999])


def test_a_struct_arrives_with_every_member(device, check_struct):
    check_struct(device)


@needs_symbols
def test_an_access_beyond_an_array_of_a_struct_is_found(checking):
    values, found = np.zeros(4, np.float32), np.zeros(3, np.float32)
    mixed = Struct((np.int8(1), np.float64(1), np.uint16(1), values, np.int32(1), found, np.bool_(True)))
    with pytest.raises(DeviceFault, match=r"12 bytes from the start of args\[1\], which has 12"):
        run(checking, STRUCTS, "unpack<float>", 1, 32, np.int32(4), mixed, np.zeros(5), np.zeros(1, np.int32))


@pytest.mark.parametrize("block", [32, 64, 1024])
def test_block_sum(device, block):
    items = np.random.default_rng(1).integers(-9, 9, 5 * block).astype(np.float32)
    sums = np.full(5, np.nan, np.float32)
    run(device, BLOCKS, f"block_sum<float, {block}>", 5, block, items, sums)
    assert sums.tolist() == items.reshape(5, block).sum(axis=1).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_dynamic_shared_memory(device, dtype):
    items = np.arange(7 * 96).astype(dtype)
    out = np.zeros_like(items)
    kernel = "reverse<double>" if dtype is np.float64 else "reverse<short>"
    run(device, BLOCKS, kernel, 7, 96, items, out, shared_bytes=96 * items.itemsize)
    assert out.tolist() == items.reshape(7, 96)[:, ::-1].ravel().tolist()


def test_grids_that_threads_launch_run_and_launch_others(device):
    count = np.zeros(3, np.int32)
    run(device, LAUNCHES, "tree<2>", 1, 4, np.int32(4), count)
    # 4 threads launch grids of 1 to 4, which are 10 threads; these launch grids of 1, 1 2, 1 2 3 and 1 2 3 4.
    assert count.tolist() == [20, 10, 4]


def test_a_launch_of_a_thread_that_cuda_refuses_is_a_fault(device):
    with pytest.raises(DeviceFault, match="a thread launches 1x1x1 blocks of 0x1x1 threads"):
        run(device, LAUNCHES, "no_threads", 1, 1, np.zeros(1, np.int32))


@pytest.mark.parametrize(("true", "expected"), [(0, [0, 0, 0]), (33, [33, 0, 1]), (70, [70, 1, 1])])
def test_barriers_that_vote(device, true, expected):
    result = np.zeros(3, np.int32)
    run(device, BLOCKS, "votes", 1, 70, (np.arange(70) < true).astype(np.int32), result)
    assert result.tolist() == expected


def test_three_dimensions(device):
    numbers = np.full(2 * 3 * 2 * 5 * 3 * 4, -1, np.int32)
    run(device, BLOCKS, "geometry", (2, 3, 2), (5, 3, 4), numbers)
    assert numbers.tolist() == list(range(len(numbers)))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint64", "float32", "float64"])
def test_atomic_add(device, dtype):
    types = {"int32": "int", "uint32": "unsigned", "uint64": "unsigned long long", "float32": "float"}
    items = np.random.default_rng(2).integers(0, 9, 5000).astype(dtype)
    total = np.zeros(1, dtype)
    run(device, BLOCKS, f"add_all<{types.get(dtype, 'double')}>", 40, 128, items, total, np.int32(5000))
    assert total[0] == items.sum()


def test_last_block_by_fence_and_counter(device):
    total = np.zeros(1)
    run(device, BLOCKS, "last_block", 50, 1, np.zeros(50), np.zeros(1, np.uint32), total)
    assert total[0] == 50 * 51 / 2


def test_spin_wait_with_nanosleep(device):
    seen = np.zeros(1, np.int32)
    run(device, BLOCKS, "spin", 1, 2, np.zeros(1, np.int32), seen)
    assert seen[0] == 1


@pytest.mark.parametrize(
    ("name", "dtype", "width"),
    [
        ("int", np.int32, 32),
        ("unsigned", np.uint32, 16),
        ("long long", np.int64, 4),
        ("float", np.float32, 1),
        ("double", np.float64, 8),
    ],
)
def test_shuffles(device, name, dtype, width):
    items = (np.arange(32) * 1.5 + 1).astype(dtype)
    result = np.zeros((4, 32), dtype)
    run(device, WARPS, f"shuffles<{name}, {width}>", 1, 32, items, result)
    lane = np.arange(32)
    first = lane - lane % width
    xor = lane ^ 5
    sources = [
        first + lane * 3 % width,
        np.where(lane % width >= 3, lane - 3, lane),
        np.where(lane % width + 3 < width, lane + 3, lane),
        np.where(xor < first + width, xor, lane),
    ]
    assert result.tolist() == items[np.array(sources)].tolist()


def test_votes_matches_and_reductions(device):
    items = np.array([3, -1, 4, 1, 5, -9, 2, 6] * 4, np.int32)
    result = np.zeros((7, 32), np.uint32)
    run(device, WARPS, "votes", 1, 32, items, result)
    ballot = sum(1 << i for i, item in enumerate(items) if item > 3)
    assert (result[0] == ballot).all()
    assert (result[1] == 1).all()
    assert (result[2] == 0).all()
    assert result[3].tolist() == [sum(1 << j for j in range(32) if items[j] == items[i]) for i in range(32)]
    for row, expected in zip(result[4:], (items.sum(), items.min(), items.max()), strict=True):
        assert (row.view(np.int32) == expected).all()


def test_half_warps_on_different_ways(device):
    result = np.zeros(32, np.int32)
    run(device, WARPS, "halves", 1, 32, np.arange(32, dtype=np.int32), result)
    assert result.tolist() == [i ^ 1 if i < 16 else i ^ 2 for i in range(32)]


@pytest.mark.parametrize(("block", "stay"), [(32, 20), (32, 1), (17, 17)])
def test_collectives_go_on_without_lanes_that_left(device, block, stay):
    result = np.zeros(32, np.uint32)
    run(device, WARPS, "leavers", 1, block, np.int32(stay), result)
    assert result.tolist() == [(1 << stay) - 1] * stay + [0] * (32 - stay)


def test_integer_builtins(fast):
    a, b = 0x90ABCDE8, 0x01234567
    result = np.zeros(15, np.uint32)
    run(fast, BUILTINS, "integers", 1, 1, np.uint32(a), np.uint32(b), result)
    wide = b << 32 | a
    permuted = wide.to_bytes(8, "little")
    expected = [
        a.bit_count(),
        a.bit_count() + b.bit_count(),
        4,
        33,
        0,
        64 - b.bit_length(),
        32,
        int(f"{a:032b}"[::-1], 2),
        (wide << 8 >> 32) & 0xFFFFFFFF,
        (wide >> 8) & 0xFFFFFFFF,
        int.from_bytes(bytes(permuted[i] for i in (1, 3, 5, 7)), "little"),
        b,
        2,
        a * b >> 32,
        0x3FF00000,
    ]
    assert [hex(n) for n in result] == [hex(n) for n in expected]


def test_floating_point_builtins(fast):
    a, b = 1 + 2**-30, -2.5
    result = np.zeros(10)
    run(fast, BUILTINS, "reals", 1, 1, np.float64(a), np.float32(b), result)
    exact = 2**-29 + 2**-60  # one rounding; the product of two roundings loses the last term
    assert result.tolist()[:5] == [exact, exact, 2**-29, b, 3.0]
    assert math.isnan(result[5])
    assert result.tolist()[6:] == [a, b, 3.0, -b]


def test_vector_types(device):
    quads = np.arange(32, dtype=np.int32).reshape(8, 4)
    pairs = np.arange(16.0).reshape(8, 2)
    sums, products = np.zeros((8, 2), np.int32), np.zeros(8)
    run(device, BUILTINS, "vectors", 1, 8, quads, pairs, sums, products)
    assert sums.tolist() == quads.reshape(8, 2, 2).sum(axis=2).tolist()
    assert products.tolist() == pairs.prod(axis=1).tolist()


# Programs


def test_launches_run_in_order_and_empty_ones_are_dropped(fast):
    y = np.full(4, np.nan)
    zero = Launch("vector.cu", "zero_fill<double>", 1, 32, (y, np.int32(4)))
    add = Launch(BLOCKS, "add_all<double>", 1, 32, (np.ones(3), y, np.int32(3)))
    nothing = Launch("no such file.cu", "nothing", 0, 32, ())
    program = fast.compile([zero, add, nothing, add])
    for _ in range(2):
        program.run()
        assert y.tolist() == [6, 0, 0, 0]


def test_elapsed_and_capture(fast, monkeypatch):
    total = np.zeros(1)
    program = fast.compile([Launch(BLOCKS, "add_all<double>", 1, 32, (np.ones(3), total, np.int32(3)))])
    work = fast.capture(program, 5)
    with monkeypatch.context() as clock:
        readings = iter([10.0, 10.25])
        clock.setattr(emulated, "perf_counter", lambda: next(readings))
        assert fast.elapsed(work, flush=True) == 0.25
    fast.synchronize()
    assert total[0] == 15


@pytest.mark.parametrize("check", [False, True])
def test_a_seed_fixes_the_order(check):
    """Floating-point sums by atomics depend on the order of lanes, and with one worker on nothing else."""

    def total(seed):
        device = Emulated(check=check, seed=seed, workers=1)
        sums = np.zeros(1, np.float32)
        items = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
        run(device, BLOCKS, "add_all<float>", 8, 128, items, sums, np.int32(1000))
        device.close()
        return sums[0]

    assert total(1) == total(1)
    assert total(None) == total(None)
    assert len({total(seed) for seed in (None, 1, 2, 3, 4)}) > 2


def test_shared_memory_starts_as_garbage(fast):
    out = np.zeros(64, np.float32)
    run(fast, FAULTS, "uninitialised", 1, 64, out)
    assert np.flatnonzero(np.isnan(out)).tolist() == [63 - 5]


VALUES = np.zeros(4, np.float32)
MEMBERS = np.int8(1), np.float64(1), np.uint16(1), VALUES, np.int32(1), VALUES, np.bool_(True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "takes 2 arguments, not 0"),
        ((np.zeros(2, np.float32), np.int32(2)), "argument 0 of .* is an array of float32, .* pointer to float64"),
        ((np.zeros(2), 2), "argument 1 of .* is a Python int, the kernel takes int32"),
        ((np.zeros(2), np.int64(2)), "argument 1 of .* is a NumPy int64, the kernel takes int32"),
        ((np.float64(2), np.int32(2)), "argument 0 of .* is a NumPy float64, the kernel takes a pointer to float64"),
        ((np.zeros(4)[::2], np.int32(2)), "argument 0 of .* is an array with gaps"),
        ((np.frombuffer(bytes(16)), np.int32(2)), "argument 0 of .* is read-only"),
        ((np.zeros(17, np.int8)[1:].view(np.float64), np.int32(2)), "argument 0 of .* is not aligned to the 8 bytes"),
        ((np.zeros(2), Struct((np.int32(2),))), "argument 1 of .* is a struct, the kernel takes none there"),
        (Struct(MEMBERS[:-1]), "argument 1 of .* is a struct of 6 members, the kernel takes one of 7"),
        (Struct((*MEMBERS[:-1], np.int8(1))), "has a member 6 that is a NumPy int8, the kernel"),
        (Struct((*MEMBERS[:3], np.ones(4), *MEMBERS[4:])), "member 3 that is an array of float64, the"),
        (np.float64(1), "argument 1 of .* is a NumPy float64, the kernel takes a struct"),
    ],
)
def test_wrong_arguments(fast, args, message):
    """A tuple is what `zero_fill` is given; anything else is given to `unpack` for a struct."""
    kernel = "vector.cu", "zero_fill<double>"
    if type(args) is not tuple:
        kernel, args = (STRUCTS, "unpack<float>"), (np.int32(4), args, np.zeros(5), np.zeros(1, np.int32))
    with pytest.raises(TypeError, match=message):
        fast.compile([Launch(*kernel, 1, 32, args)])


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "message"),
    [
        (1, 1025, 0, "a block of .* outside"),
        (1, (32, 33), 0, "more than 1024 threads"),
        (1, 0, 0, "a block of .* outside"),
        ((1, 65536), 32, 0, "a grid of .* outside"),
        (1, 32, 300_000, "300,000 bytes of shared memory"),
    ],
)
def test_launches_that_cuda_refuses(fast, grid, block, shared_bytes, message):
    with pytest.raises(DeviceFault, match=message):
        fast.compile([Launch(BLOCKS, "fill_nothing", grid, block, (), shared_bytes)])


def test_a_call_of_the_host_runs_in_its_place(fast):
    called = []
    program = fast.compile([Call("a program", called.append, ())])
    assert program.calls == ["a program"] and not called
    program.run()
    assert len(called) == 1


# Faults that every build finds


def fault(device, kernel, block, *args, grid=1, shared_bytes=0):
    with pytest.raises(DeviceFault) as caught:
        run(device, FAULTS, kernel, grid, block, *args, shared_bytes=shared_bytes)
    message = str(caught.value)
    assert message.startswith(f"{kernel}, block (")
    assert not caught.value.sticky
    return message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "block", "words", "marks"),
    [
        (
            "deadlock",
            32,
            ["deadlock", "7 threads wait in __syncwarp with mask 0xffffffff"],
            ["deadlock-1", "deadlock-2"],
        ),
        ("divergent_barrier", 64, ["divergent barrier"], ["barrier-1", "barrier-2"]),
        ("divergent_shuffle", 32, ["divergent warp"], ["shuffle-1", "shuffle-2"]),
        ("not_in_mask", 32, ["is not in the mask 0x0000ffff"], ["mask-1"]),
        ("masks_differ", 32, ["mask", "0xfffffffe"], ["mask-2"]),
        ("spins", 2, ["spin-wait without end"], []),
    ],
)
def test_faults_of_control(device, kernel, block, words, marks):
    out = np.zeros(64, np.int32)
    message = fault(device, kernel, block, out)
    for text in [*words, *(place(FAULTS, mark) for mark in marks)]:
        assert text in message
    y = np.full(4, np.nan)  # the device is as good as before
    run(device, "vector.cu", "zero_fill<double>", 1, 64, y, np.int32(4))
    assert y.tolist() == [0] * 4


def test_the_stack_has_a_guard_page(tmp_path):
    """A kernel that outgrows its stack dies; it does not write over its neighbours."""
    launch = f"Launch({FAULTS!r}, 'smashes_stack', 1, 1, (np.zeros(1, np.int32),))"
    script = f"{NAMES}Emulated().compile([{launch}]).run()\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode < 0


# Faults that the checking build finds


def test_what_a_launched_grid_writes_is_checked(checking):
    with pytest.raises(DeviceFault, match=r"beyond, .*writes 4 bytes"):
        run(checking, LAUNCHES, "beyond", 1, 1, np.zeros(2, np.int32))


@needs_symbols
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize(
    ("kernel", "grid", "block", "args", "words"),
    [
        ("race_in_block", 1, 32, [np.zeros(1, np.int32)], "race: thread {n} writes args[0] at {race-1}"),
        ("race_in_block", 1, 64, [np.zeros(1, np.int32)], "race: thread {n} writes args[0] at {race-1}"),
        ("race_of_blocks", 2, 32, [np.zeros(1, np.int32)], "another block wrote it at {race-2}"),
        ("race_with_atomic", 1, 2, [np.zeros(1, np.int32)], "{race-3}"),
        ("out_of_bounds", 1, 8, [np.zeros(8), np.zeros(8)], "thread 7 reads 8 bytes at {bounds-1}, 64 bytes from"),
        ("uninitialised", 1, 64, [np.zeros(64, np.float32)], "thread 58 reads shared memory at {uninitialised-1}"),
        ("casts_const_away", 1, 1, [np.zeros(1, np.int32)], "writes args[0] at {const-1}, which it takes as const"),
    ],
)
def test_faults_of_memory(seed, kernel, grid, block, args, words):
    device = Emulated(check=True, seed=seed)
    message = fault(device, kernel, block, *args, grid=grid)
    pattern = re.sub(r"\{([a-z]+-\d)\}", lambda match: place(FAULTS, match[1]), words)
    assert re.search(re.escape(pattern).replace(r"\{n\}", r"\d+"), message), message
    device.close()


@needs_symbols
def test_out_of_dynamic_shared_memory(checking):
    message = fault(checking, "out_of_shared", 8, np.zeros(8), shared_bytes=60)
    assert "touches byte 63 of 60 bytes of dynamic shared memory" in message
    assert place(FAULTS, "bounds-2") in message


def mutants(source, barrier):
    """Copies of a source, each without one of its barriers."""
    text = Path(source).read_text()
    for match in re.finditer(re.escape(barrier), text):
        yield text[: match.start()] + " " * len(barrier) + text[match.end() :]


def test_every_barrier_of_the_block_sum_is_missed(checking, tmp_path):
    """And by the kernel with all of them, in test_block_sum, nothing is reported."""
    body = Path(BLOCKS).read_text().partition("// Reverses")[0]
    whole = tmp_path / "whole.cu"
    whole.write_text(body)
    found = 0
    for barrier in ("__syncthreads();", "__syncwarp();"):
        for i, text in enumerate(mutants(whole, barrier)):
            mutant = tmp_path / f"mutant{barrier[6]}{i}.cu"
            mutant.write_text(text)
            with pytest.raises(DeviceFault, match=r"(race|uninitialised): .*mutant"):
                run(checking, str(mutant), "block_sum<double, 128>", 2, 128, np.ones(256), np.zeros(2))
            found += 1
    assert found == 4


# The compiler and the cache


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_COMPILED", str(tmp_path / "home"))
    return tmp_path / "home"


def made_in(home):
    """The files of the cache by their suffixes, a folder for locks apart."""
    return sorted(path.suffix for path in (home / "emulated").iterdir() if path.name != "locks")


def test_the_cache_spares_the_compiler(home, tmp_path):
    source = tmp_path / "one.cu"
    source.write_text("__global__ void one(int* y) { *y = 1; }")
    first = build.instantiations(source, ["one"], check=False)["one"].library
    assert made_in(home) == [".o", ".so"]
    made = first.path.stat().st_mtime_ns
    assert build.instantiations(source, ["one"], check=False)["one"].library is first
    assert first.path.stat().st_mtime_ns == made


@pytest.mark.parametrize("check", [False, True])
def test_what_is_asked_for_together_is_one_library_and_found_one_by_one(home, tmp_path, monkeypatch, check):
    source = tmp_path / "filled.cu"
    source.write_text("template <typename T, int N> __global__ void filled(T* y) { *y = N; }")
    kernels = [f"filled<{kind}, {n}>" for kind in ("int", "double") for n in (1, 2)]
    assert not any(path.exists() for path in build.cached_at(source, kernels, check).values())
    commands = []
    compiler = build._compile
    monkeypatch.setattr(build, "_compile", lambda *args: (commands.append(args), compiler(*args)))
    with closing(Emulated(check=check)) as device:
        device.precompile([(str(source), kernel) for kernel in kernels[1:]])
        at_first = len(commands)
        assert all(path.exists() for path in build.cached_at(source, kernels[1:], check).values())
        for kernel in kernels:
            y = np.zeros(1, np.int32 if "int" in kernel else np.float64)
            run(device, str(source), kernel, 1, 1, y)
            assert y[0] == int(kernel[-2])
    units = [command for _, command, _ in commands if "-shared" in command]
    assert len(units) == (4 if check else 2)  # one by one where each is to have its own shared memory
    assert len(commands) - at_first == (2 if check else 1)  # what was there already is not compiled again
    found = [build.instantiations(source, [kernel], check=check)[kernel].library for kernel in kernels]
    assert len(set(found)) == len(units)


def test_who_wants_the_same_at_once_waits_for_it(home, tmp_path, monkeypatch):
    source = tmp_path / "one.cu"
    source.write_text("__global__ void one(int* y) { *y = 1; }")
    commands = []
    compiler = build._compile
    monkeypatch.setattr(build, "_compile", lambda *args: (commands.append(args), compiler(*args)))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: build.instantiations(source, ["one"], check=False)["one"].library, range(4)))
    assert len(set(found)) == 1
    assert len(commands) == 2  # the runtime and the unit


def test_the_cache_knows_what_changed(home, tmp_path):
    source, header = tmp_path / "one.cu", tmp_path / "value.h"
    source.write_text('#include "value.h"\n__global__ void one(int* y) { *y = VALUE; }')
    y = np.zeros(1, np.int32)
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        device = Emulated()  # one reads a source once
        run(device, str(source), "one", 1, 1, y)
        assert y[0] == value
        device.close()


@pytest.mark.parametrize("check", [False, True])
def test_the_cache_knows_files_by_their_contents_wherever_they_are(home, tmp_path, monkeypatch, check):
    commands = []
    compiler = build._compile
    monkeypatch.setattr(build, "_compile", lambda *args: (commands.append(args), compiler(*args)))
    monkeypatch.setattr(build.paths, "include", lambda: folder / "include")
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "include").mkdir(parents=True)
        (folder / "include" / "value.h").write_text("inline int value() { return 1; }\n")
        source = folder / "one.cu"
        source.write_text('#include "value.h"\n__global__ void one(int* y) { *y = value(); }')
        found.append((build.instantiations(source, ["one"], check=check)["one"].library, len(commands)))
    assert found[0] == found[1]


def test_two_processes_compile_the_same_at_once(home):
    script = NAMES + (
        "y = np.ones(4)\n"
        "Emulated().compile([Launch('vector.cu', 'zero_fill<double>', 1, 32, (y, np.int32(4)))]).run()\n"
        "assert not y.any()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert made_in(home) == [".o", ".so"]


def test_a_source_that_does_not_compile(fast, tmp_path):
    source = tmp_path / "broken.cu"
    source.write_text("__global__ void broken(int* y) { *y = undeclared; }")
    with pytest.raises(
        DeviceFault, match=r"broken.cu does not compile for the emulated device: broken.cu:1: .*undeclared"
    ):
        run(fast, str(source), "broken", 1, 1, np.zeros(1, np.int32))
    with pytest.raises(DeviceFault, match="does not compile"):
        run(fast, BLOCKS, "no_such_kernel<int>", 1, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#include <cstdint>", 'refused.cu:1: cannot open "cstdint": NVRTC finds no such file'),
        ('#include "spmv.cuh"\n /* two\nlines */ # include "absent.h"', 'refused.cu:3: cannot open "absent.h"'),
        ("// #include <vector>\n#ifdef SPMVBENCH_EMULATED\n#include <cstdio>\n#endif", ""),
    ],
)
def test_headers_that_nvrtc_has_not_are_refused(fast, tmp_path, text, said):
    source = tmp_path / "refused.cu"
    source.write_text(f"{text}\n__global__ void one(int* y) {{ *y = 1; }}")
    y = np.zeros(1, np.int32)
    with pytest.raises(DeviceFault, match=said) if said else nullcontext():
        run(fast, str(source), "one", 1, 1, y)
    assert bool(y[0]) == (not said)


@pytest.mark.parametrize(
    "call", ["__activemask()", "min(1, 2ll)", "atomicAdd(reinterpret_cast<unsigned long*>(y), 1ul)"]
)
def test_what_cuda_or_we_refuse_does_not_compile(fast, tmp_path, call):
    source = tmp_path / "refused.cu"
    source.write_text(f"__global__ void refused(unsigned* y) {{ *y = {call}; }}")
    with pytest.raises(DeviceFault, match="does not compile"):
        run(fast, str(source), "refused", 1, 1, np.zeros(1, np.uint32))


class SlowLibrary:
    """Stands in for a library: keeps how many are being loaded at once."""

    loading, most = 0, 0

    def __init__(self, path, check):
        self.path = path
        SlowLibrary.loading += 1
        SlowLibrary.most = max(SlowLibrary.most, SlowLibrary.loading)
        time.sleep(0.02)
        SlowLibrary.loading -= 1


def test_libraries_are_loaded_one_at_a_time(monkeypatch, tmp_path):
    """Looking for one's own among all libraries, which loading does, fails while another thread loads (glibc 2.36)."""
    monkeypatch.setattr(build, "Library", SlowLibrary)
    monkeypatch.setattr(build, "_libraries", {})
    paths = [tmp_path / f"{number}.so" for number in range(8)]
    for path in paths:
        path.write_text("")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda path: build._loaded(path, False), paths))
    assert [library.path for library in found] == paths
    assert SlowLibrary.most == 1


def test_threads_without_memory_for_their_stacks_are_a_failure_and_no_crash():
    script = NAMES + (
        "import resource\n"
        "from spmvbench.devices.base import OutOfDeviceMemory\n"
        "device, sums = Emulated(workers=1), np.zeros(1)\n"
        f"launch = Launch({BLOCKS!r}, 'block_sum<double, 512>', 1, 512, (np.ones(512), sums))\n"
        "small = Launch(launch.source, launch.kernel.replace('512', '32'), 1, 32, launch.args)\n"
        "program, one = device.compile([launch]), device.compile([small])\n"
        "one.run()\n"
        "held = int(next(l for l in open('/proc/self/status') if l.startswith('VmData')).split()[1]) * 1024\n"
        "for room in (0, 1 << 18, 1 << 20):\n"
        "    resource.setrlimit(resource.RLIMIT_DATA, (held + room, resource.RLIM_INFINITY))\n"
        "    try:\n"
        "        program.run()\n"
        "    except OutOfDeviceMemory as error:\n"
        "        print(error)\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)\n"
        "program.run()\n"
        "assert sums[0] == 512\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("block (0, 0, 0): no memory is left for the stacks of its threads") == 3


@pytest.mark.parametrize(
    ("script", "disk"),
    [
        ("echo 'fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1", True),
        ("echo 'ld: final link failed: Disk quota exceeded' >&2; exit 1", True),
        ("echo 'error: no such thing' >&2; exit 1", False),
    ],
)
def test_a_full_disk_is_no_kernel_s_fault(monkeypatch, home, tmp_path, script, disk):
    compiler = tmp_path / "c++"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec g++ --version\n[ -d "$TMPDIR" ] || exit 3\n{script}\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    device = Emulated()
    with pytest.raises(SpmvbenchError if disk else DeviceFault) as raised:
        run(device, BLOCKS, "block_sum<double, 64>", 1, 64, np.ones(64), np.zeros(1))
    device.close()
    assert (f"cannot write compiled kernels to {home / 'emulated'} (" in str(raised.value)) == disk
    assert made_in(home) == []


def test_a_home_that_cannot_be_written_is_named(monkeypatch, fast, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPMVBENCH_COMPILED", str(tmp_path / "file"))
    with pytest.raises(SpmvbenchError, match=r"cannot write compiled kernels to .*emulated \(Not a directory\); set"):
        run(fast, BLOCKS, "block_sum<double, 96>", 1, 96, np.ones(96), np.zeros(1))


def test_what_a_killed_compilation_left_goes_with_the_next_and_a_living_one_s_stays(home):
    folder = home / "emulated"
    folder.mkdir(parents=True)
    hold = "import sys; from spmvbench.paths import *\nwith scratch(Path(sys.argv[1])): print(1, flush=True), input()"
    living, killed = (
        subprocess.Popen([sys.executable, "-c", hold, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    for process in (living, killed):
        assert process.stdout.readline() == "1\n"
    killed.kill()
    killed.wait()
    (old := folder / ".scratch.0123abcd.spmvbench-tmp" / "deep").mkdir(parents=True)
    os.utime(old.parent, (1e9, 1e9))
    (folder / "tmp_of_others").mkdir()
    assert len(list(folder.glob(".scratch.*"))) == 3
    device = Emulated()
    run(device, BLOCKS, "block_sum<double, 64>", 1, 64, np.ones(64), np.zeros(1))
    device.close()
    assert len(list(folder.glob(".scratch.*"))) == 2  # what was left just now may be in use
    living.communicate("\n")
    assert len(list(folder.glob(".scratch.*"))) == 1 and (folder / "tmp_of_others").is_dir()
    killed.communicate()


def test_without_a_compiler(monkeypatch, tmp_path):
    build.find_compiler.cache_clear()
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceUnavailable, match=r"install g\+\+, or run pip install 'spmvbench\[cpu\]'"):
        Emulated()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DeviceUnavailable, match="CXX names 'no-such-compiler'"):
        Emulated()
    (tmp_path / "hangs").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(1000)\n")
    (tmp_path / "hangs").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "hangs"))
    monkeypatch.setattr(build, "ANSWER_SECONDS", 0.05)
    with pytest.raises(DeviceUnavailable, match=r"hangs', which is no C\+\+ compiler that runs here"):
        Emulated()
    build.find_compiler.cache_clear()


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs Clang (apt-get install clang)")
@pytest.mark.parametrize("check", [False, True])
def test_clang(monkeypatch, check):
    monkeypatch.setenv("CXX", "clang++")
    device = Emulated(check=check)
    assert "clang" in device.properties()["compiler"]
    sums = np.zeros(5)
    run(device, BLOCKS, "block_sum<double, 64>", 5, 64, np.ones(320), sums)
    assert sums.tolist() == [64] * 5
    device.close()


def test_properties(fast):
    properties = fast.properties()
    assert properties["device_name"].startswith("emulated on ")
    assert properties["workers"] == min(os.cpu_count(), 16)
    assert fast.memory_free() > 2**20
    assert (fast.name, fast.kind, fast.xp) == ("emulated", "emulated", np)


def test_both_languages_know_the_same_limit():
    text = (build.FOLDER / "runtime.hpp").read_text()
    assert int(re.search(r"MAX_DYNAMIC_SHARED = (\d+) \* 1024", text)[1]) * 1024 == MAX_DYNAMIC_SHARED


def test_without_symbol_tools_faults_are_found_all_the_same(monkeypatch, home):
    monkeypatch.setattr(symbols, "_tool", lambda name: None)
    device = Emulated(check=True)
    message = fault(device, "race_in_block", 64, np.zeros(1, np.int32))
    assert re.search(r"race: thread \d+ writes args\[0\] at \+0x[0-9a-f]+", message)
    device.close()
