"""FastLoad: heights and formats of blocks, runs of equal rows, the names of parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.errors import UsageError
from spmvbench.formats.cache_blocking import fastload

HARD = testing.hard_matrices()


def with_column_lengths(lengths, rows=40):
    """Columns of these lengths, filled from the first row on."""
    counts = np.asarray(lengths)
    cols = np.repeat(np.arange(len(counts)), counts)
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return sparse.csr_array((np.arange(1.0, 1 + len(cols)), (inside, cols)), shape=(rows, len(counts)))


@pytest.mark.parametrize(("height", "blocks"), [("1", 12), ("2", 6), ("4", 4), ("8", 2), ("16", 2), ("none", 2)])
def test_height_limits_the_blocks_of_a_strip(height, blocks):
    fmt = testing.convert(f"fastload[height={height}]", with_column_lengths([6] * 64))
    assert len(fmt.block_col) == blocks
    assert fmt.block_height.max() == min(6, fastload.Levels.of(np.array([6]), height).limit)
    assert fmt.nbytes == 12 * 384 + 16 * blocks + 4 + 4 * 64
    assert fmt.detail == {"blocks": blocks, "slots_in_use": 1.0}


def test_formats_of_blocks():
    # Rows of the first entries of 72 columns: 32 times row 0; then rows 1 and 2 in turn; then 8 columns are left.
    rows = np.array([0] * 32 + [1, 2] * 16 + [0] * 8)
    a = sparse.csr_array((np.ones(72), (rows, np.arange(72))), shape=(3, 72))
    assert testing.convert("fastload[optimized=true]", a).block_format.tolist() == [1, 2, 0]
    assert testing.convert("fastload", a).block_format.tolist() == []


@pytest.mark.parametrize("lengths", [[32], [31], [33], [1, 2, 3] * 40, [64, 7, 64], [5, 40, 5, 1, 1, 12]])
def test_runs_of_equal_rows_are_added_up(lengths, either):
    """Rows as long as these lengths, one after another: every first entry of a block's columns is in a run."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    a = sparse.csr_array((np.linspace(-1, 1, len(rows)), (rows, np.arange(len(rows)))))
    testing.check_product("fastload[optimized=true]", a, either)


def test_equal_rows_are_added_up_in_blocks_of_height_1_alone():
    with pytest.raises(UsageError, match="height 1 alone, not 2"):
        formats.parse("fastload[optimized=true,height=2]")
    with pytest.raises(UsageError, match="height takes 1, 2, 4, 8, 16, 32, none, not '3'"):
        formats.parse("fastload[height=3]")
    assert formats.get("fastload").resolve({"height": 4})["height"] == "4"


def test_parts_are_named_in_the_order_of_the_launches():
    a = HARD["stencil"]
    x, y = np.zeros(a.shape[1]), np.zeros(a.shape[0])
    parts = {
        "fastload": ["clear", "gather", "multiply"],
        "two-phase": ["clear", "gather", "multiply", "rearrange", "add"],
        "csc-vector": ["multiply", "collect"],
    }
    for key, expected in parts.items():
        assert [launch.part for launch in testing.convert(key, a).launches(x, y)] == expected
        assert formats.get(key).experiment == (key == "two-phase")
