"""Windows on x and y: how rows and columns are cut."""

import numpy as np
from scipy import sparse

from spmvbench import load
from spmvbench.formats import Csr, get
from spmvbench.formats.cache_blocking import tile_composite
from spmvbench.formats.cache_blocking.tile_composite import TIMES, Workloads, by_times, equal
from spmvbench.formats.conversion import Limits, converting_for


def test_slices_are_a_multiple_of_what_runs_at_once_and_copies_have_the_rest_of_the_room():
    a = load("tridiag:20000")
    with converting_for(Limits(multiprocessors=4, shared_bytes=49152)):
        fmt = get("scoo").from_csr(a)
    # Three blocks each of 4; room for 6,144 rows.
    assert fmt.detail == {"slices": 12, "rows_of_slice": 1667, "copies": 2, "rows_cut": 0}


def test_slices_have_few_rows_where_rows_are_long_and_the_longest_are_in_several():
    lengths = np.full(3000, 2)
    lengths[:64], lengths[1000] = 500, 20000
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.concatenate([np.arange(n) for n in lengths])
    a = Csr.of(sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(3000, 20000)))
    with converting_for(Limits(multiprocessors=4, shared_bytes=49152)):
        fmt = get("scoo").from_csr(a)
    assert fmt.detail["rows_cut"] == 1
    height, entries = np.diff(fmt.slice_row), np.diff(fmt.slice_ptr)
    assert height[0] < 10
    assert fmt.slice_copies[0] == 512
    assert fmt.slice_row.tolist().count(1000) == 10  # 2,048 entries per slice
    assert entries.max() <= 2 * 2048
    assert fmt.slice_copies[-1] == 4  # 1,214 rows


def test_workloads_are_rows_of_one_width_that_fill_the_capacity():
    found = Workloads.of(np.array([40, 20, 10, 10, 1, 1, 3]), np.array([0, 6, 7]), equal(32))
    assert found.tile.tolist() == [0, 0, 0, 1]
    assert found.width.tolist() == [40, 20, 1, 3]
    assert found.height.tolist() == [1, 3, 2, 1]
    assert found.offset.tolist() == [0, 64, 160, 192, 224]


def test_every_tile_takes_the_workloads_that_were_fastest(monkeypatch):
    a = Csr.of(sparse.csr_array(np.ones((40, 64))))

    class Held(Csr):
        xp = property(lambda self: cupy)

    cupy = type("cupy", (), {name: staticmethod(getattr(np, name)) for name in dir(np) if not name.startswith("_")})
    timed = []

    def seconds(launches):
        (launch,) = launches
        if not launch.kernel.startswith("tile_composite"):
            return 0.5
        capacity = int(launch.args[2][0]) * int(launch.args[3][0])  # of its first workload: width times height
        timed.append(capacity)
        first = len(timed) % 2 == 1
        return abs(capacity - (4 * 32 if first else 16 * 32)) + 1.0

    monkeypatch.setattr(tile_composite, "seconds", seconds)
    found = get("tile-composite").convert(Held(a.shape, a.row_ptr, a.col_idx, a.values), width=32, capacity=0)
    assert found["tile_start"] == (0, 32, 64)
    assert found["times"] == (4, 16)
    assert timed == [32 * n for n in TIMES for tile in range(2)]
    assert found["heights"].tolist() == [4] * 10 + [16, 16, 8]
    assert by_times((2, 3))(1, 10) == 30


def test_tiles_end_where_columns_have_one_entry():
    a = sparse.csr_array(np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]], dtype=float))
    fmt = get("tile-composite").from_csr(sparse.csr_array(sparse.hstack([a] * 12)), width=32)
    assert fmt.tile_start == (0, 32, 60)
    assert fmt.columns.dtype == np.uint16
