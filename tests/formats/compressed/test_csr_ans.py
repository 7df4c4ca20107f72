"""csr-ans: tables, lines, and what a literal costs."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.compressed.csr_ans import MOST, SLOTS, Symbols, packed_words, shares, unpacked_slots
from spmvbench.matrices.synthetic import generate


def test_frequent_symbols_have_more_slots():
    assert shares([1]) == [MOST]
    assert shares([5, 5]) == [MOST, MOST]
    found = shares([1000, 10, 1] + [1] * 4000)
    assert sum(found) == SLOTS and found[:2] == [94, 1] and max(found[2:]) == 1


def test_rare_symbols_share_one_for_literals():
    symbols = Symbols.of(np.array([7, 7, 9, 7, 3, 9], np.uint32), 2)
    assert symbols.known.tolist() == [7, 9, 0]
    assert symbols.symbol.tolist() == [0, 0, 1, 0, 2, 1]
    assert symbols.escape == 2
    table, codes = symbols.table()
    assert len(table) == len(codes) == symbols.places == 3 * MOST
    assert (codes[:MOST] >> 8 == np.arange(MOST)).all() and set((codes & 255).tolist()) == {MOST - 1}


def test_eight_slots_are_three_words():
    slots = np.array([[4095 - i, i * 511] for i in range(8)], np.uint64)
    words = packed_words(slots)
    assert len(words) == 3 and max(int(word.max()) for word in words) < 2**32
    assert unpacked_slots(words).tolist() == slots.tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_repeated_values_take_few_bytes(dtype):
    a = Csr.of(generate("uniform:2000:8", 1)).astype(dtype)
    ones = Csr(a.shape, a.row_ptr, a.col_idx, np.ones_like(a.values))
    same, distinct = (formats.get("csr-ans").from_csr(m) for m in (ones, a))
    assert same.words.nbytes < 4 * a.nnz
    # A value that occurs once is a literal of its own bytes.
    once = (np.unique(a.values, return_counts=True)[1] == 1).sum()
    assert once > 0.9 * a.nnz and distinct.words.nbytes >= same.words.nbytes + once * a.dtype.itemsize


def test_long_rows_are_cut_and_added():
    a = testing.hard_matrices()["one full row"]
    fmt = formats.get("csr-ans").from_csr(a, longest=16)
    assert fmt.adds and fmt.lengths.max() == 16 and (fmt.line_row < 0).any()
    assert not formats.get("csr-ans").from_csr(a, longest=1024).adds


@pytest.mark.parametrize(("mean", "longest"), [(3, 64), (40, 128), (100, 256)])
def test_the_longest_line_is_at_least_twice_a_mean_row(mean, longest):
    lengths = np.array([300, *[mean] * 200])
    columns = np.concatenate([np.arange(n) for n in lengths])
    a = Csr.of(sparse.csr_array((np.ones(len(columns)), columns, np.cumsum([0, *lengths]))))
    assert formats.get("csr-ans").from_csr(a).lengths.max() == longest
