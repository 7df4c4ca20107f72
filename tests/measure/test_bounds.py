"""Bounds on SpMV time: sectors of x against a plain loop, and which of two bounds applies."""

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import spmvbench
from spmvbench import load
from spmvbench.formats import Csr
from spmvbench.formats.arrays import distinct_groups
from spmvbench.measure import bounds, timing
from spmvbench.measure.bounds import ERROR, Fetched, least_seconds, upper
from spmvbench.measure.cases import Settings
from spmvbench.measure.device_limits import _measured_bounds, l2_shares, measure_limits
from spmvbench.rows import store
from tests.measure.recording import HostCuda

ROOFS = {
    "read": [(1000, 1e-6), (100_000, 1e-5)],
    "sectors": [(1000, 0.5e-9), (100_000, 4e-9)],
    "lines": [(1000, 1e-9), (100_000, 1e-8)],
}


@given(st.integers(0, 5), st.integers(1, 5), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=40)
def test_sectors_match_a_plain_loop(seed, shares, dtype):
    a = Csr.of(sparse.random_array((30, 70), density=0.1, rng=seed, format="csr")).astype(dtype)
    ends = [a.nnz * i // shares for i in range(shares + 1)]
    for found, size in zip(Fetched.by(a, shares), (32, 128), strict=True):
        each = size // np.dtype(dtype).itemsize
        expected = sum(len({c // each for c in a.col_idx[b:e].tolist()}) for b, e in pairwise(ends))
        assert found == expected / a.nnz


@pytest.mark.parametrize("k", [2, 4, 16])
def test_several_vectors_take_the_sectors_of_all_their_values(k):
    a = Csr.of(sparse.random_array((30, 70), density=0.1, rng=0, format="csr"))
    for found, size in zip(Fetched.by(a, 1, vectors=k), (32, 128), strict=True):
        bytes_of = ((8 * k * c, 8 * k * (c + 1)) for c in a.col_idx.tolist())
        assert found == len({at // size for begin, end in bytes_of for at in range(begin, end)}) / a.nnz
    one, apart = Fetched.by(a, 3), Fetched.by(a, 3, vectors=k, by_row=False)
    assert apart == (k * one.sectors, k * one.lines)
    assert Fetched.by(a, 1, vectors=3).sectors <= 3 * Fetched.by(a, 1).sectors


def test_adjacent_columns_share_sectors_and_distant_ones_do_not_and_without_entries_there_are_none():
    assert Fetched.by(Csr.of(load("tridiag:4000")), 4).sectors < 0.1
    assert min(Fetched.by(Csr.of(load("uniform:100000:1")), 100)) > 0.9
    assert all(map(math.isnan, Fetched.by(Csr.of(sparse.csr_array((3, 3))), 4)))


@pytest.mark.parametrize(
    ("sectors", "lines", "sizes", "seconds"),
    [
        (0.001, 0.001, (1000, 1000), 1e-6),  # the bandwidth bound applies
        (0.001, 0.001, (10_000, 1000), math.sqrt(1e-6 * 1e-5)),  # halfway on a logarithmic scale
        (0.01, 0.01, (1_000_000, 1000), 1e-4),  # beyond the measured sizes: proportional
        (1.0, 1.0, (1000, 10**9), 4e-3),  # the gather bound applies: a sector of every line
        (1.0, 0.25, (1000, 10**9), 2.5e-3),  # whole lines
        (0.5, 0.5, (1000, 10), 0.25e-3),
    ],
)
def test_the_larger_time_is_the_bound(sectors, lines, sizes, seconds):
    given = {"fetched": Fetched(sectors, lines), "model_bytes": sizes[0], "x_bytes": sizes[1]}
    assert upper(ROOFS, nnz=10**6, **given).gflops == pytest.approx(2e-3 / seconds)
    assert upper({}, nnz=10**6, **given) is None, "nothing was measured"


@pytest.mark.parametrize(
    ("size", "shares"),
    [
        (10, {0.0}),  # L2 holds all of it
        (40, {0.0, 1.0}),  # it could hold all
        (120, {0.0, 5 / 12, 7.5 / 12, 10 / 12}),
        (100_000, {0.0, 0.0005, 0.00075, 0.001}),  # much larger than L2
    ],
)
def test_several_shares_of_l2_are_tried(size, shares):
    assert sorted(l2_shares(size, 100)) == pytest.approx(sorted(shares))


class ReadsLate(HostCuda):
    """A read takes a launch and its bytes at 1 TB/s. Its geometry adds up to 15 %, other work up to 30 %."""

    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(5)

    def capture(self, program, repeats):
        (launch,) = program.launches
        return lambda: launch

    def elapsed(self, work, *, flush=False):
        launch = work()
        size = 16 * int(launch.args[-1]) if launch.kernel.startswith("read") else 0
        slow = 0.15 * abs(math.log2(launch.grid / 66)) / 10 if size else 0  # one geometry is the best of each size
        return 1e-3 * self.least(size) * (1 + slow) * (1 + 0.3 * self.rng.random() ** 2)

    def properties(self):
        return {"l2_bytes": 50 << 20, "gpu": "one"}

    def memory_free(self):
        return 1 << 25

    def fill_cache(self):
        pass

    empty_cache = fill_cache

    def least(self, size):
        return 1.4e-6 + self.per_byte * size

    per_byte = 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_a_short_read_is_bound_by_the_least_that_was_measured(seed):
    """No time that reading takes is implausible, and half of it is, for any size that is mostly launch overhead."""
    device, rule = ReadsLate(), timing.Rule(rounds=1, budget=1e-3, sample=0.0, min_samples=20)
    device.rng = np.random.default_rng(seed)
    found = _measured_bounds(device, rule, np.zeros(2 << 20), np.zeros(2))
    times = [seconds for _, seconds in found["read"]]
    assert times == sorted(times) and found["read"][0][0] == 1
    for size in np.geomspace(1, 1 << 20, 200):
        least = 1e-3 * device.least(size)
        assert least_seconds(found, size, "hot") / (1 + ERROR) < least
        assert least_seconds(found, size, "hot") / (1 + ERROR) > 0.5 * least


def test_limits_are_kept_as_long_as_the_gpu_reads_as_fast(tmp_path, monkeypatch):
    """An invocation takes what an earlier one has measured of the same GPU, unless its ends are others now."""
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    rule = timing.Rule(rounds=1, budget=1e-3, sample=0.0, min_samples=20)
    monkeypatch.setitem(timing.RULES, "cuda", rule)
    asked = Settings("cuda:0")
    device, other = ReadsLate(), ReadsLate()
    device.rng = other.rng = SimpleNamespace(random=lambda: 0.0)
    first, again = (measure_limits(device, asked) for _ in range(2))
    assert again["limits_measured"] == first["limits_measured"] and again["bounds"]["read"] == [
        list(pair) for pair in first["bounds"]["read"]
    ]
    other.properties = lambda: device.properties() | {"gpu": "another"}
    assert measure_limits(other, asked)["limits_measured"] > first["limits_measured"]
    device.per_byte *= 2
    slower = measure_limits(device, asked)
    assert slower["limits_measured"] > first["limits_measured"]
    assert slower["read_bandwidth_gbps"] < 0.7 * first["read_bandwidth_gbps"]


@pytest.mark.gpu
@pytest.mark.timing
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_no_format_is_implausible_on_small_matrices(dtype, tmp_path):
    """Matrices of 64 KiB to 1 MiB, where a read is mostly launch overhead."""
    specs = [spec.format(rows) for spec in ("tridiag:{}", "uniform:{}:5") for rows in (2000, 9000, 15400)]
    asked = {"op": "spmv", "dtype": dtype, "mode": "hot", "device": "cuda:0", "convert": "device", "budget": 0.05}
    rows = spmvbench.run([*specs, "poisson2d:60", "poisson2d:120"], "all,-ehyb*", results=tmp_path, **asked)
    false = rows[rows["status"].isin(["wrong", "implausible"])]
    assert false.empty and (rows["status"] == "ok").any(), false[["name", "label", "reason"]].to_string()


@pytest.mark.slow
def test_no_published_time_is_faster_than_its_bytes_allow():
    """Rows of two formats are left out: they counted padding that kernels skip."""
    published, looked_at = Path(__file__).parents[2] / "results" / "published", 0
    for folder in sorted(path.parent for path in published.glob("*/rows.parquet")):
        sessions = store.environment(folder)["sessions"]
        found = next((session["bounds"] for session in sessions if session.get("bounds")), None)
        if found is None:
            continue
        rows = store.load(folder)
        rows = rows[(rows["status"] == "ok") & (rows["op"] == "spmv") & ~rows["format"].isin(["bsellpack", "bin-bcsr"])]
        if rows.empty:  # of other operations alone
            continue
        vectors = rows["dtype"].str.rpartition("/")[2]
        size = rows["model_bytes"] - rows["cols"] * vectors.map({"f64": 8, "f32": 4})
        least = [least_seconds(found, *of) for of in zip(size, rows["mode"], strict=True)]
        looked_at += len(rows)
        assert (rows["t_median"] >= np.array(least) / (1 + ERROR)).all(), folder.name
    assert looked_at > 10_000


@pytest.mark.parametrize("together", [400, 1 << 14, 1 << 26])
@pytest.mark.parametrize("spec", ["uniform:3000:9", "tridiag:30", "denserow:500"])
def test_several_shares_at_a_time_count_the_same(spec, together, monkeypatch):
    a = Csr.of(load(spec))
    shares = list(pairwise(a.nnz * i // 7 for i in range(8)))

    def counted(limit):
        monkeypatch.setattr(bounds, "TOGETHER_ON_HOST", limit)
        parts = list(bounds.columns_of(a, shares, a.cols // 4))
        return len(parts), [sum(distinct_groups(part, a.cols, width) for part in parts) for width in (4, 16)]

    alone, at_once = counted(1), counted(together)
    assert alone[0] == 7 and alone[1] == at_once[1] and min(alone[1]) > 0
    assert at_once[0] == 1 or together < 1 << 26


def test_many_sizes_have_the_bounds_of_each():
    sizes = [10.0, 1000.0, 30_000.0, 1e6, math.nan]
    found = bounds.read_seconds(ROOFS, sizes)
    assert found[:-1].tolist() == [float(bounds.read_seconds(ROOFS, size)) for size in sizes[:-1]]
    assert math.isnan(found[-1])
