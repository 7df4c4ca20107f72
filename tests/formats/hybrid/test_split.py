"""Hybrids: what goes to which part, what is kept of it, and that parts add up."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.csr.rows import CsrPieces
from spmvbench.formats.hybrid import hyb
from spmvbench.formats.hybrid.rows import Shec
from tests.formats.rows import as_on_device, runs_on, with_lengths
from tests.formats.test_conversion import assert_kernels_convert_alike

HARD = testing.hard_matrices()


def coo(part):
    return [array.tolist() for array in part.to_coo()]


def test_hyb_keeps_the_first_entries_of_a_row_in_ellpack():
    fmt = testing.convert("hyb", with_lengths([3, 1, 2, 1], 7))  # half the rows have 2 entries, a quarter has 3
    assert fmt.parts["ell"].width == 2
    assert coo(fmt.parts["coo"]) == [[0], [2], [3.0]]
    assert fmt.detail["coo_share"] == pytest.approx(1 / 7)


def test_a_piece_without_entries_is_no_part():
    fmt = testing.convert("hyb", with_lengths([2, 2], 7))
    assert list(fmt.parts) == ["ell"]
    assert (fmt.detail["ell_share"], fmt.detail["coo_share"]) == (1, 0)
    assert list(testing.convert("hyb", sparse.csr_array((5, 4))).parts) == ["ell"]  # something has to store y


def test_hyb_splits_rows_that_the_kernel_s_counts_do_not_tell_apart(emulated):
    for lengths in ([4094] * 2, [4095] * 2, [4096] * 2, [5000, 4200, 3], [5000, 2, 3]):
        a = Csr.of(with_lengths(lengths, 6000))
        for breakeven in (0, 1):
            assert hyb.head_width(a, 3.0, breakeven, runs_on(emulated)) == hyb.head_width(a, 3.0, breakeven)


@pytest.mark.parametrize("pr", [1, 3, 20])
def test_hec_takes_the_width_of_least_cost(pr):
    rng = np.random.default_rng(pr)
    for _ in range(20):
        lengths = rng.geometric(0.2, 40) - 1
        a = with_lengths(lengths, 60)
        costs = [width * a.shape[0] + pr * np.maximum(lengths - width, 0).sum() for width in range(lengths.max() + 1)]
        assert costs[hyb.head_width(Csr.of(a), pr)] == min(costs)  # of equal ones the last


def test_hec_keeps_no_pointers_for_rows_without_a_rest():
    fmt = testing.convert("hec[pr=3]", with_lengths([1, 4, 1, 1, 3, 1, 1], 7))
    assert fmt.parts["ell"].width == 1
    assert fmt.parts["csr"].rows.tolist() == [1, 4]
    assert fmt.parts["csr"].row_ptr.tolist() == [0, 3, 5]


def test_csr_ell_warp_deals_rows_at_32_entries():
    fmt = testing.convert("csr-ell-warp", with_lengths([32, 0, 33, 5], 40))
    assert fmt.parts["ell"].perm.tolist() == [0, 3]
    assert fmt.parts["ell"].width == 32
    assert fmt.parts["csr"].rows.tolist() == [2]


def test_csr_ell_matam_is_one_format_where_lengths_say_so():
    assert list(testing.convert("csr-ell-matam", with_lengths([80] * 9 + [100], 120)).parts) == ["ell"]
    long = testing.convert("csr-ell-matam", with_lengths([70, 500] * 30, 600))
    assert list(long.parts) == ["csr"]
    mixed = testing.convert("csr-ell-matam", with_lengths([3] * 50 + [900], 1000))
    assert mixed.parts["ell"].width == 3
    assert mixed.parts["csr"].piece_lanes.tolist() == [32] * 4  # 225 entries each, 8 per lane
    assert np.diff(mixed.parts["csr"].piece_begin).tolist() == [225] * 3


def test_pieces_have_lanes_by_their_length():
    pieces = CsrPieces.from_csr(with_lengths([8, 9, 0, 17, 300], 400))
    assert pieces.piece_row.tolist() == [0, 1, 3, 4, 4]
    assert pieces.piece_lanes.tolist() == [1, 2, 4, 32, 32]
    assert pieces.shares == (0, 1, 2, 3, 3, 3, 5)
    assert coo(pieces)[0] == [0] * 8 + [1] * 9 + [3] * 17 + [4] * 300


def test_shec_halves_a_class_that_pads_much_and_merges_small_ones():
    found = np.zeros(40, dtype=np.int64)
    found[[2, 9, 16, 24, 39]] = 100, 100, 100, 3, 7
    classes = [(c.low, c.high, c.ell) for c in Shec.classes(found, least_rows=5)]
    assert classes == [(0, 2, True), (2, 9, True), (9, 16, True), (16, 39, False)]
    fmt = testing.convert("shec[least_rows=1]", with_lengths([1, 1, 0, 40, 3, 4], 50))
    assert list(fmt.parts) == ["ell_1", "ell_4", "csr_40"]
    assert fmt.parts["csr_40"].lanes == 16


def test_sic_has_a_segment_for_each_number_of_threads():
    fmt = testing.convert("sic[c=4]", with_lengths([64, 65, 0, 1024, 1025, 3], 2000))
    blocks = {name: (part.slice_height, part.row_threads) for name, part in fmt.parts.items()}
    assert blocks == {"threads_32": (4, 8), "threads_128": (4, 32), "threads_256": (4, 64)}
    assert [part.perm.tolist() for part in fmt.parts.values()] == [[0, 5], [3, 1], [4]]
    assert list(testing.convert("sic[segments=false]", with_lengths([2, 2, 3], 9)).parts) == ["threads_32"]


def test_formats_that_cannot_add_say_so():
    fmt = testing.convert("sell-local", HARD["diagonal"])
    with pytest.raises(NotImplementedError, match="SellLocal does not add to y"):
        fmt.accumulate(np.ones(65), np.ones(65))


def test_hdc_keeps_the_diagonals_whose_dense_arrays_save_bytes():
    full, two_thirds, few = np.ones(30), np.tile([1.0, 1.0, 0.0], 9), np.zeros(25)
    few[::5] = 1
    a = sparse.diags_array([full, two_thirds, few], offsets=[0, 3, -5], shape=(30, 30)).tocsr()
    a.eliminate_zeros()
    assert testing.convert("hdc", a).parts["dia"].offset.tolist() == [0]  # 18 of 27 are 2/3, which saves nothing
    assert testing.convert("hdc", a.astype(np.float32)).parts["dia"].offset.tolist() == [0, 3]
    assert testing.convert("hdc[theta=0.2]", a).parts["dia"].offset.tolist() == [-5, 0, 3]
    assert testing.convert("hdc[theta=1]", a).detail["diagonals"] == 1


@pytest.mark.parametrize("name", ["hdc", "hdc[theta=0.5]", "hdc[kernel=paper]", "ell-dia"])
def test_short_diagonals_of_a_tall_matrix_are_not_stored_with_all_rows(name, emulated, same_arrays):
    """Every entry of one column is a full diagonal of one place, whose array has one for every row."""
    a = sparse.csr_array(np.ones((3000, 1)))
    assert testing.convert(name, a, max_bytes=4 * Csr.of(a).nbytes).nbytes < 4 * Csr.of(a).nbytes
    assert_kernels_convert_alike(name, {"column": a}, emulated, same_arrays)


def test_hdc_without_a_kept_diagonal_is_csr():
    fmt = testing.convert("hdc", HARD["wide"])
    assert list(fmt.parts) == ["csr"]
    assert fmt.detail["diagonals"] == 0


def test_ell_dia_keeps_half_filled_diagonals_only_with_the_main_one():
    half = np.tile([1.0, 0.0], 15)
    a = sparse.diags_array([half, half[:29], half[:28]], offsets=[0, 1, 2], shape=(30, 30)).tocsr()
    a.eliminate_zeros()
    assert testing.convert("ell-dia", a).parts["dia"].offset.tolist() == [0, 1]


def test_bin_csr_holds_the_diagonal_apart():
    fmt = testing.convert("bin-csr", HARD["stencil"])
    assert fmt.parts["dia"].offset.tolist() == [0]
    assert (fmt.parts["ell"].slice_height, fmt.parts["ell"].row_threads) == (32, 1)
    assert fmt.parts["ell"].detail == {"slice_height": 32, "threads": 1}


def test_hec_measures_the_ratio_where_it_can(monkeypatch):
    a = with_lengths([1] * 9 + [4, 4, 4, 6], 7)
    assert testing.convert("hec", a).detail["pr"] == 20  # nothing can be timed on the host

    timed = []

    def seconds(steps):
        timed.append(steps)
        return [2e-6 * 64, 8e-6 * 27][len(timed) - 1]  # 2 columns of 32 slots, 27 entries

    found = formats.get("hec").converted(as_on_device(a, monkeypatch, seconds))
    assert [launch.source for steps in timed for launch in steps] == ["ellpack/sell.cu", "csr/rows.cu"]
    assert (found.parts["ell"].width, found.detail["pr"]) == (4, 4)
