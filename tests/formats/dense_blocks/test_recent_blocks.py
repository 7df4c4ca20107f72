"""mbsr, bit8x4, bit8x4-dict and cb: rules, and which block is stored how."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr, Skip
from spmvbench.formats.dense_blocks.cb import COO, CSR, DENSE, dealt_out
from tests.formats.rows import launches

HARD = testing.hard_matrices()


def kernels(key, a, **params):
    return [launch.kernel for launch in launches(formats.get(key).from_csr(a, **params))]


KERNELS = "fast", "tensor", "cores", "paper"  # of mbsr


def full_blocks(side, count=6):
    return Csr.of(sparse.csr_array(sparse.block_diag([np.arange(1.0, side * side + 1).reshape(side, side)] * count)))


def test_the_authors_take_tensor_cores_where_blocks_are_full():
    full = full_blocks(4)
    assert formats.get("mbsr").from_csr(full).fill == 16
    assert kernels("mbsr", full, kernel="paper")[-1].startswith("mbsr_tensor<double")
    assert kernels("mbsr", full.astype(np.float32), kernel="paper")[-1].startswith("mbsr_cores<float")
    assert kernels("mbsr", Csr.of(HARD["uniform 8"]), kernel="paper")[-1].startswith("mbsr_cores<double")


def test_uneven_block_rows_are_cut():
    fmt = formats.get("mbsr").from_csr(HARD["one full row"])
    assert len(fmt.pieces) == 0 or np.diff(fmt.block_ptr).std() >= 12
    cut = formats.get("mbsr").from_csr(HARD["one full row"], balance="yes")
    assert len(cut.pieces) == np.maximum(-(-np.diff(cut.block_ptr) // 64), 1).sum()


@pytest.mark.parametrize(("dtype", "sectors"), [(np.float64, 4), (np.float32, 2)])
def test_on_the_cores_sectors_without_entries_are_not_read(dtype, sectors):
    diagonal = sparse.eye_array(4, dtype=dtype).tolil()
    whole = {kernel: formats.get("mbsr").from_csr(Csr.of(diagonal.tocsr()), kernel=kernel) for kernel in KERNELS}
    assert all(fmt.bytes_read == fmt.nbytes for fmt in whole.values())
    diagonal[2, 2] = diagonal[3, 3] = 0  # the second half of the block
    half = {kernel: formats.get("mbsr").from_csr(Csr.of(diagonal.tocsr()), kernel=kernel) for kernel in KERNELS}
    saved = {kernel: fmt.nbytes - fmt.bytes_read for kernel, fmt in half.items()}
    assert saved == {"fast": 0, "tensor": 0, "cores": 16 * sectors, "paper": 16 * sectors}


def test_blocks_of_few_entries_are_in_the_rest():
    a = full_blocks(4)  # two blocks of 4 x 4 in a row of blocks
    fmt = formats.get("bit8x4").from_csr(a)
    assert len(fmt.words) == 6 and len(fmt.rest_columns) == 0 and not fmt.adds
    assert len(formats.get("bit8x4").from_csr(a, keep=17).words) == 0
    assert fmt.detail["entries_per_block"] == 16


@pytest.mark.parametrize(("count", "dtype"), [(256, np.uint8), (257, np.uint16), (65536, np.uint16)])
def test_codes_have_as_few_bits_as_the_table_needs(count, dtype):
    a = Csr.of(sparse.csr_array(np.arange(1.0, count + 1)[None, :]))
    fmt = formats.get("bit8x4-dict").from_csr(a)
    assert fmt.values.dtype == fmt.rest_values.dtype == dtype and len(fmt.table) == count


def test_more_values_than_16_bits_count_are_refused():
    with pytest.raises(Skip, match="65,537 distinct values, more than 65,536"):
        formats.get("bit8x4-dict").from_csr(sparse.csr_array(np.arange(1.0, 65538)[None, :]))


def test_blocks_are_in_flight_where_few_entries_are_in_them():
    dense = np.kron(np.eye(20), np.ones((8, 4)))
    spread = np.eye(400, 80)
    few, many = (formats.get("bit8x4").from_csr(sparse.csr_array(a)) for a in (spread, dense))
    assert (few.blocks_in_flight, many.blocks_in_flight) == (8, 1)
    assert formats.get("bit8x4").from_csr(sparse.csr_array(spread), kernel="paper").blocks_in_flight == 1
    assert formats.get("bit8x4").from_csr(sparse.csr_array(dense), flight=4).blocks_in_flight == 4


def test_blocks_are_coordinates_rows_or_dense_by_their_entries():
    dense = np.zeros((16, 48))
    dense[:, :16] = 1
    dense[:, 16:32][np.arange(16), np.arange(16)] = 2
    dense[:8, 32:40] = 3
    fmt = formats.get("cb").from_csr(sparse.csr_array(dense), gather="no")
    assert fmt.kinds.tolist() == [DENSE, COO, CSR] and fmt.lengths.tolist() == [256, 16, 64]
    assert fmt.addresses.tolist() == [0, 2048, 2048 + 16 + 128]
    assert formats.get("cb").from_csr(sparse.csr_array(dense), gather="yes").columns.tolist() == [*range(40)]


def test_balanced_groups_have_about_the_same_entries():
    lengths = np.arange(1, 65) * 4
    groups = dealt_out(lengths, balanced=True).reshape(-1, 8)
    assert sorted(groups.reshape(-1).tolist()) == list(range(64))
    assert len(set(lengths[groups].sum(axis=1).tolist())) == 1
    plain = dealt_out(lengths[:10], balanced=False)
    assert plain.tolist() == [*range(10), *[-1] * 6]
