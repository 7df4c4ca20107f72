"""The CUDA device on a real GPU; what needs none is tested without."""

from __future__ import annotations

import math
import sys
import time
import types
import uuid

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.devices import DeviceFault, cuda, open_device
from spmvbench.devices.cuda_driver import device_uuid
from spmvbench.formats import Csr, Launch
from spmvbench.matrices import synthetic
from spmvbench.measure import timing

PAIRS = [
    ("pde:200", "csr-vector"),
    ("pde:200", "dia"),
    ("fem:40:3", "cusparse-csr-alg1"),
    ("fem:40:3", "ell"),
    ("band:1048576:24:2000", "ell"),
    ("uniform:1048576:12", "coo-flat"),
]


@pytest.mark.parametrize(("package", "module"), [("CuPy", "cupy"), ("cuda-bindings", "cuda.bindings.driver")])
def test_a_machine_without_a_package_says_what_to_install(package, module, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, module, None)
    assert cuda.why_unavailable() == f"{package} is not installed: pip install 'spmvbench[cuda13]' (or cuda12)"


def test_a_machine_without_a_gpu_says_so(monkeypatch):
    class CUDARuntimeError(Exception):
        pass

    def count():
        raise CUDARuntimeError("cudaErrorNoDevice")

    runtime = types.SimpleNamespace(CUDARuntimeError=CUDARuntimeError, getDeviceCount=count)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime)))
    assert cuda.why_unavailable() == "no NVIDIA GPU can be used (cudaErrorNoDevice)"


def test_code_is_compiled_again_once_a_header_in_the_folder_of_the_kernel_changes(tmp_path):
    source, header = tmp_path / "own.cu", tmp_path / "own.h"
    source.write_text('#include "own.h"\n__global__ void own(int* y) { y[0] = VALUE; }\n')
    header.write_text("#define VALUE 1\n")
    code = cuda.compiled(source, "own", "sm_90", 13)
    assert cuda.compiled(source, "own", "sm_90", 13) == code
    header.write_text("#define VALUE 2\n")
    assert cuda.compiled(source, "own", "sm_90", 13).binary != code.binary


def test_a_gpu_is_named_by_a_hash_unless_asked(monkeypatch):
    unique = "12345678-1234-5678-1234-567812345678"
    hidden = cuda.gpu_name(unique)
    assert len(hidden) == 16
    assert hidden not in unique
    assert cuda.gpu_name(unique.replace("1", "2")) != hidden
    monkeypatch.setenv("SPMVBENCH_IDENTIFY", "1")
    assert cuda.gpu_name(unique) == f"GPU-{unique}"


def test_a_uuid_with_a_zero_byte_is_whole(monkeypatch):
    unique = uuid.UUID("00345678-1200-5678-1234-567812345600")
    driver = pytest.importorskip("cuda.bindings.driver", reason="needs cuda-bindings (pip install cuda-bindings)")
    monkeypatch.setattr(driver, "cuDeviceGet", lambda ordinal: (driver.CUresult(101 * (ordinal > 0)), ordinal))
    monkeypatch.setattr(driver, "cuDeviceGetUuid", lambda device: (0, types.SimpleNamespace(bytes=unique.bytes)))
    assert device_uuid(0) == unique
    with pytest.raises(DeviceFault, match="CUDA_ERROR_INVALID_DEVICE"):
        device_uuid(8)


@pytest.mark.gpu
def test_a_gpu_has_the_name_that_its_tools_print(monkeypatch):
    import pynvml

    pynvml.nvmlInit()
    monkeypatch.setenv("SPMVBENCH_IDENTIFY", "1")
    count = pynvml.nvmlDeviceGetCount()
    printed = {pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(number)) for number in range(count)}
    assert open_device("cuda:0").properties()["gpu"] in printed


@pytest.fixture(scope="module")
def device():
    return open_device("cuda:0")


@pytest.fixture(scope="module")
def prepared(device):
    """Programs by (matrix, format), with what keeps their arrays alive."""
    found = {}
    for spec, key in PAIRS:
        csr = Csr.of(synthetic.generate(spec)).on(device.xp)
        x, y = device.xp.ones(csr.cols), device.xp.empty(csr.rows)
        found[spec, key] = device.compile(formats.get(key).from_csr(csr).launches(x, y))
    return found


def medians(device, program, mode):
    rule = timing.RULES["cuda"]
    series = timing.prepare(program, device, mode, rule)
    for _ in range(rule.rounds):
        timing.take_round(series, device, rule)
    return float(np.median(series.seconds))


@pytest.mark.gpu
@pytest.mark.timing
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_graph_takes_as_long_as_a_queue_held_back(pair, device, prepared):
    program, n = prepared[pair], 200
    graph = device.capture(program, n)

    def queue():
        for _ in range(n):
            program.run()

    times = {work: [] for work in (graph, queue)}
    for _ in range(15):
        for work, found in times.items():
            found.append(device.elapsed(work))
    by_graph, by_queue = (float(np.median(found[3:])) / n for found in times.values())
    # The queue pays for the gap between launches, about a microsecond; a graph hardly does.
    assert abs(by_queue - by_graph) <= 0.02 * by_graph + 1e-6


@pytest.mark.gpu
@pytest.mark.timing
def test_hot_and_cold_agree_with_nvbench(device, prepared, tmp_path):
    bench = pytest.importorskip("cuda.bench")
    for index, program in enumerate(prepared.values()):

        def measure(state, program=program):
            stream = state.get_stream().addressof()
            state.exec(lambda launch: program.run(stream))

        measure.__name__ = f"pair_{index}"
        bench.register(measure)
    table = tmp_path / "nvbench.csv"
    bench.run_all_benchmarks(["nvbench", "--csv", str(table), "--timeout", "5", "--quiet"])
    theirs = [line.split(",") for line in table.read_text().splitlines()]
    cold, hot = theirs[0].index("GPU Time (sec)"), theirs[0].index("Batch GPU (sec)")
    worst = 0.0
    for (pair, program), line in zip(prepared.items(), theirs[1:], strict=True):
        for mode, column in (("hot", hot), ("cold", cold)):
            ours, reference = medians(device, program, mode), float(line[column])
            print(f"{pair[0]:22} {pair[1]:18} {mode:5} {ours * 1e6:8.2f} us, NVBench {reference * 1e6:8.2f} us")
            worst = max(worst, abs(ours / reference - 1))
    assert worst <= 0.05


@pytest.mark.gpu
@pytest.mark.timing
def test_a_flushed_cache_costs_time(device, prepared):
    program = prepared["fem:40:3", "ell"]
    assert medians(device, program, "cold") > 1.05 * medians(device, program, "hot")


@pytest.mark.gpu
@pytest.mark.timing
def test_what_other_work_left_in_the_cache_stays_out_of_hot_samples(device):
    a = Csr.of(synthetic.generate("pde:64", 0)).astype(np.float64).on(device.xp)
    fmt = formats.get("sell-local").from_csr(a)
    program = device.compile(fmt.launches(device.xp.ones(a.cols), device.xp.zeros(a.rows)))
    rule, seconds = timing.RULES["cuda"], []
    others = device.xp.zeros(device.properties()["l2_bytes"] // 8)
    for _ in range(5):
        series = timing.prepare(program, device, "hot", rule)
        others += 1  # lines that nothing marks as read once
        device.synchronize()
        timing.take_round(series, device, rule)
        seconds.append(timing.quartiles(series).median)
        device.empty_cache()
    series = timing.prepare(program, device, "hot", rule)
    timing.take_round(series, device, rule)
    assert max(seconds) < 1.03 * timing.quartiles(series).median


@pytest.mark.gpu
def test_a_kernel_that_does_not_compile_gives_the_compilers_words(device, tmp_path):
    source = tmp_path / "broken.cu"
    source.write_text("template <typename V> __global__ void broken(V* y) { y[0] = undeclared; }")
    with pytest.raises(DeviceFault, match="undeclared"):
        device.compile([Launch(str(source), "broken<double>", 1, 1, (device.xp.zeros(1),))])


@pytest.mark.gpu
def test_memory_peak_counts_what_a_conversion_holds(device):
    csr = Csr.of(testing.hard_matrices()["full"]).on(device.xp)
    device.reset_memory_peak()
    before = device.memory_peak()
    fmt = formats.get("ell").from_csr(csr)
    assert device.memory_peak() - before >= fmt.nbytes


@pytest.mark.gpu
@pytest.mark.timing
def test_synchronize_waits_for_conversions(device):
    cupy = device.xp
    for _ in range(20):
        cupy.sort(cupy.random.random(1 << 24))
    device.synchronize()
    assert cupy.cuda.get_current_stream().done


@pytest.mark.gpu
def test_properties_name_the_device(device):
    found = device.properties()
    assert found["device"] == "cuda:0"
    assert found["multiprocessors"] > 0
    assert found["l2_bytes"] > 2**20
    assert found["driver"]
    assert 0 < device.sm_clock_mhz() <= found["max_sm_clock_mhz"]


@pytest.mark.gpu
def test_energy_is_power_times_time(device):
    """An H200 takes some 75 W idle and at most 700."""
    if math.isnan(device.energy()):
        pytest.skip("this GPU does not count joules")
    x = device.xp.ones(1 << 27, np.float32)
    before, began = device.energy(), time.perf_counter()
    while time.perf_counter() - began < 1.5:
        x *= 1
        device.synchronize()
    watts = (device.energy() - before) / (time.perf_counter() - began)
    assert 20 < watts < 1.3 * (device.properties().get("power_limit_w") or 2000)


@pytest.mark.gpu
def test_a_program_has_a_hash_of_its_machine_code(device):
    def code(*launches):
        return device.compile(launches).code_hash

    empty, other = (Launch("vector.cu", f"empty<{n}>", 1, 32, ()) for n in (0, 1))
    assert len(code(empty)) == 18 and code(empty).startswith("2-")
    assert code(empty) == code(empty)
    assert len({code(empty), code(other), code(empty, other)}) == 3
    assert code() == ""


@pytest.mark.gpu
def test_a_struct_arrives_with_every_member(device, check_struct):
    check_struct(device)


@pytest.mark.gpu
def test_a_record_names_the_gpu_and_the_library(device):
    found = device.properties()
    assert len(found["gpu"]) == 16
    assert found["cusparse"] > 12000
    assert found["ecc"] in (True, False, None)
