"""EHYB: where partitions, windows and extra rows come from, the cache of partitions, and the format's own order."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.devices import open_device
from spmvbench.formats import Csr, Skip
from spmvbench.formats.cache_blocking import partition as partitions
from spmvbench.formats.cache_blocking.ehyb import Ehyb, EhybRcm, ExtraRows, cut_by_rule
from spmvbench.formats.conversion import EMULATED, Limits, converting_for


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """An empty home, and the partitions that METIS is asked for."""
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    asked, metis = [], partitions.METHODS["metis"]
    monkeypatch.setitem(partitions.METHODS, "metis", lambda graph, parts: asked.append(parts) or metis(graph, parts))
    return asked


def cliques(*sizes, bridges=()):
    """Dense diagonal blocks of these sizes and single entries at `bridges`, values 1, 2, 3, ..."""
    a = sparse.block_diag([sparse.coo_array(np.ones((n, n))) for n in sizes]).tolil()
    for row, col in bridges:
        a[row, col] = 1
    a = a.tocsr()
    a.data = np.arange(1.0, a.nnz + 1)
    return a


def shuffled(a, seed=0):
    order = np.random.default_rng(seed).permutation(a.shape[0])
    return a[order][:, order]


@pytest.mark.parametrize(
    ("rows", "value_bytes", "given", "expected"),
    [
        (1_000_000, 8, {}, (132, 1, 29054)),  # 7576 values of 29054
        (3_700_000, 8, {}, (132, 1, 29054)),
        (3_800_000, 8, {}, (264, 1, 29054)),  # 1.01 * 28788 no longer fit
        (3_800_000, 4, {}, (132, 1, 58110)),
        (132 * 1400, 8, {}, (132, 1, 29054)),
        (132 * 1399, 8, {}, (66, 2, 29054)),
        (8000, 8, {}, (4, 33, 29054)),  # 22 blocks would share 1333 rows, 33 share 2000
        (8000, 8, {"share": 2}, (66, 2, 29054)),
        (100, 8, {"share": 1}, (3, 1, 29054)),  # no partition below 32 rows
        (10, 8, {}, (1, 1, 29054)),
        (0, 8, {}, (1, 1, 29054)),
        (1000, 8, {"sms": 2, "shared_bytes": 2048, "share": 1}, (4, 1, 254)),
        (10**6, 2, {"sms": 1}, (16, 1, 65535)),  # what 16 bits can name
        (50_000, 8, {"shared_bytes": 8192}, (66, 2, 1022)),  # three times 379 rows no longer fit
    ],
)
def test_partitions_and_window(rows, value_bytes, given, expected):
    cut = cut_by_rule(rows, value_bytes, **{"sms": 132, "shared_bytes": 232448, "share": 0} | given)
    assert cut == expected
    assert (cut.window + 2) * value_bytes <= given.get("shared_bytes", 232448)


@pytest.mark.parametrize(
    ("rows", "share", "expected"),
    [
        (1_000_000, 0, (44, 3)),  # 7576 values are a quarter of the window: three fit
        (100_000, 0, (22, 6)),  # the largest divisor of 132 up to 8
        (2_000_000, 0, (132, 1)),  # more than half of the window
        (100_000, 2, (66, 2)),
    ],
)
def test_small_partitions_are_joined_as_the_authors_join_them(rows, share, expected):
    cut = cut_by_rule(rows, 8, sms=132, shared_bytes=232448, share=share, kernel="paper")
    assert cut[:2] == expected


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("order", ["natural", "native"])
def test_the_papers_extra_rows_are_whole_and_for_all_blocks(order, share, checking):
    a = shuffled(cliques(40, 40, 30, bridges=[(3, i) for i in range(50, 90)] + [(60, 8), (100, 0)]))
    spec = f"ehyb[kernel=paper,sms={3 * share},share={share},order={order}]"
    fmt = testing.convert(spec, a)
    assert fmt.partitions == 3 and fmt.blocks == 3 * share
    entries = sparse.coo_array(a)
    part = np.searchsorted(fmt.begin, np.argsort(fmt.permutation), side="right")
    outside = np.bincount(entries.row[part[entries.row] != part[entries.col]])
    slices = len(fmt.extra_ptr) - 1
    assert fmt.extra_begin.tolist() == [*[0] * (fmt.blocks + 1), slices]
    slot = np.flatnonzero(fmt.extra_columns >= 0)
    extra = 32 * (np.searchsorted(fmt.extra_ptr, slot // 32, side="right") - 1) + slot % 32
    assert outside.max() > 16
    assert np.bincount(extra).tolist() == sorted(outside[outside > 0].tolist(), reverse=True)
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, checking)


def test_multiprocessors_and_shared_memory_are_those_of_the_device_at_hand():
    a = shuffled(cliques(*[64] * 20))
    with converting_for(Limits(10, 64 * 1024)):
        fmt = EhybRcm.from_csr(a, share=1)
        assert (fmt.partitions, EhybRcm.from_csr(a, share=1, sms=20).partitions) == (10, 20)
        with pytest.raises(Skip, match="65,537 bytes of shared memory are asked for, the device has 65,536"):
            EhybRcm.from_csr(a, shared_bytes=65_537)
    assert EhybRcm.from_csr(a, share=1).partitions == EMULATED.multiprocessors


def test_rows_of_a_partition_are_sorted_by_their_entries_inside():
    rng = np.random.default_rng(1)
    a = Csr.of(sparse.random_array((400, 400), density=0.03, rng=rng) + sparse.eye_array(400))
    fmt = EhybRcm.from_csr(a, sms=4, share=1)
    place = np.argsort(fmt.permutation)
    part = np.searchsorted(fmt.begin, place, side="right") - 1
    inside = part[a.row_idx] == part[a.col_idx]
    lengths = np.bincount(a.row_idx[inside], minlength=400)[fmt.permutation]
    for first, last in zip(fmt.begin[:-1], fmt.begin[1:], strict=True):
        assert (np.diff(lengths[first:last]) <= 0).all()
    widths = np.diff(fmt.slice_ptr)
    for p in range(4):
        heads = lengths[fmt.begin[p] : fmt.begin[p + 1]][::32]
        assert widths[fmt.slice_begin[p] : fmt.slice_begin[p + 1]].tolist() == heads.tolist()


def test_long_rows_make_several_extra_rows():
    found = ExtraRows.of(np.array([0, 35, 16, 1]), np.array([0, 0, 0, 0]), np.array([0.0]), 1000)
    assert found.owner.tolist() == [1, 1, 2, 1, 3]  # 16, 16, 16, 3 and 1 entries
    assert np.diff(found.slices.ptr).tolist() == [16]


def test_extra_rows_beyond_a_fair_share_are_left_to_all():
    # Blocks of 0, 0 and 90 entries inside, 160, 32 and 18 outside.
    outside = np.array([16] * 10 + [16, 16] + [10, 8])
    block = np.repeat([0, 1, 2], [10, 2, 2])
    found = ExtraRows.of(outside, block, np.array([0.0, 0.0, 90.0]), 125)
    assert found.owner.tolist() == [*range(8), 10, 11, 12, 13, 8, 9]  # eight times 16 reach the limit
    assert found.slices.begin.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["natural", "native"])
def test_what_a_block_leaves_to_all_is_added_by_a_second_launch(order):
    n = 12_000
    full_row = sparse.csr_array((np.linspace(1, 2, n), (np.zeros(n, int), np.arange(n))), shape=(n, n))
    a = full_row + sparse.eye_array(n)
    spec = f"ehyb-rcm[sms=8,share=1,order={order}]"
    fmt = testing.convert(spec, a)
    x = np.ones(n)
    _, left = fmt.launches(x, x)
    assert left.grid > 0
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, open_device("emulated-check"))


def test_a_row_longer_than_a_slice_may_hold(emulated):
    a = shuffled(cliques(600, 40))
    fmt = Ehyb.from_csr(a, sms=1, share=1)
    assert fmt.slice_ptr[1] == 512
    assert np.count_nonzero(fmt.extra_columns >= 0) == 600 * 88
    testing.check_conversion("ehyb[sms=1,share=1]", a)
    testing.check_product("ehyb[sms=1,share=1]", a, emulated)


def test_a_partition_larger_than_the_window_keeps_its_front(monkeypatch, tmp_path, emulated):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    lopsided = (np.arange(200), np.array([0, 180, 200]))
    monkeypatch.setitem(partitions.METHODS, "rcm", lambda graph, parts: lopsided)
    a = cliques(200)
    spec = "ehyb-rcm[sms=2,share=1,shared_bytes=1024]"
    fmt = testing.convert(spec, a)
    assert fmt.window == 126
    assert np.count_nonzero(fmt.local_columns < fmt.window) == 180 * 126 + 20 * 20
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, emulated)


def test_a_partition_is_made_once_and_read_from_the_disk_later(counted):
    a = Csr.of(shuffled(cliques(40, 40, 40)))
    given = {"sms": 3, "share": 1, "max_bytes": 10**9}
    first = Ehyb.from_csr(a, **given)  # asks for it twice, for the estimate too
    again = Ehyb.from_csr(a.fresh(), **given)
    assert counted == [3]
    assert first.setup_seconds == again.setup_seconds > 0
    assert not again.detail["partition_cached"]
    later = Ehyb.from_csr(Csr(a.shape, a.row_ptr.copy(), a.col_idx.copy(), a.values), **given)
    assert counted == [3]
    assert later.detail["partition_cached"]
    assert later.detail["partition_s"] == first.setup_seconds
    np.testing.assert_array_equal(later.permutation, first.permutation)
    Ehyb.from_csr(a, sms=2, share=1)
    assert counted == [3, 2]  # another number of partitions is another file


def test_the_graph_has_both_directions_and_no_diagonal():
    a = Csr.of(sparse.csr_array([[1, 2, 0], [3, 4, 0], [5, 0, 0]]))
    assert partitions.graph(a.row_ptr, a.col_idx).astype(bool).toarray().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_a_damaged_partition_is_made_again(counted, tmp_path, caplog):
    a = Csr.of(shuffled(cliques(40, 40)))
    Ehyb.from_csr(a, sms=2, share=1)
    (file,) = (tmp_path / "partitions").iterdir()
    file.write_bytes(file.read_bytes()[:-50])
    with caplog.at_level(logging.WARNING):
        Ehyb.from_csr(Csr(a.shape, a.row_ptr.copy(), a.col_idx.copy(), a.values), sms=2, share=1)
    assert counted == [2, 2]
    assert "is damaged" in caplog.text


def test_a_home_that_cannot_be_written_costs_only_the_cache(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        fmt = Ehyb.from_csr(shuffled(cliques(40, 40)), sms=2, share=1)
    assert fmt.detail["inside_share"] == 1
    assert "is not kept" in caplog.text


def test_without_pymetis_the_reason_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pymetis", None)
    a = shuffled(cliques(40, 40))
    with pytest.raises(Skip, match=r"pip install 'spmvbench\[partition\]'"):
        Ehyb.from_csr(a, sms=2, share=1)
    assert EhybRcm.from_csr(a, sms=2, share=1).detail["inside_share"] == 1
