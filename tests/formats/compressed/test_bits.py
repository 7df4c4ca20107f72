"""Bit streams: any widths at any places come back, in either order; the packed formats keep what their papers keep."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spmvbench import load
from spmvbench.formats import get
from spmvbench.formats.compressed.bits import bit_lengths, pack, unpack

FIELDS = st.lists(st.integers(0, 32).flatmap(lambda w: st.tuples(st.just(w), st.integers(0, 2**w - 1))), max_size=60)


@given(FIELDS, st.booleans(), st.integers(1, 5))
@settings(max_examples=150)
def test_what_is_packed_comes_back(fields, most_first, step):
    width = np.array([w for w, _ in fields], dtype=np.int64)
    values = np.array([v for _, v in fields], dtype=np.int64)
    bit = np.cumsum(width) - width
    words = np.zeros(step * (int(width.sum()) // 32 + 2), dtype=np.uint32)
    word = np.zeros(len(fields), dtype=np.int64)
    pack(words, values, width, word, bit, step, most_first=most_first)
    assert unpack(words, width, word, bit, step, most_first=most_first).tolist() == values.tolist()
    # The stream as one number of Python's, its bits in the order that the words have them.
    stream = "".join(f"{w:032b}" if most_first else f"{w:032b}"[::-1] for w in words[::step])
    for (w, v), b in zip(fields, bit, strict=True):
        part = stream[b : b + w]
        assert int((part if most_first else part[::-1]) or "0", 2) == v


def test_lengths_are_those_of_python():
    numbers = [0, 1, 2, 3, 4, 255, 256, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
    assert bit_lengths(np.array(numbers, dtype=np.int64)).tolist() == [n.bit_length() for n in numbers]


def test_a_stencil_takes_few_bits_a_column():
    fmt = get("bro-ell").from_csr(load("pde:24"))
    assert fmt.detail["index_bytes_per_slot"] < 1.5
    assert get("bro-coo").from_csr(load("pde:24")).detail["row_bytes_per_slot"] < 0.5


def test_rows_and_columns_share_32_bits_where_they_fit():
    assert get("blsi").from_csr(load("uniform:65536:1")).keys.dtype == np.uint32
    assert get("blsi").from_csr(load("uniform:65537:1")).keys.dtype == np.uint64
