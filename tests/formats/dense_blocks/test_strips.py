"""Blocks in strips: which are kept, and the shape with the fewest bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.dense_blocks.strips import PIECE, SHAPES, Program, Sweep

HARD = testing.hard_matrices()


def fewest_bytes(a, r, c):
    """The bytes of blocks of r x c and of entries in none, of the best of all choices: by trying at every column."""
    total = 0
    for first in range(0, a.rows, r):
        columns, counts = np.unique(a.col_idx[a.row_ptr[first] : a.row_ptr[min(first + r, a.rows)]], return_counts=True)

        @cache
        def best(i, columns=columns, counts=counts):
            if i == len(columns):
                return 0
            alone = int(counts[i]) * 12 + best(i + 1)
            column = int(columns[i])
            if column // PIECE != (column + c - 1) // PIECE:
                return alone
            return min(alone, 5 + 8 * r * c + best(int(np.searchsorted(columns, column + c))))

        total += best(0)
    return total


@pytest.mark.parametrize("shape", SHAPES.values())
def test_the_program_takes_the_fewest_bytes(shape):
    r, c = shape
    less = []
    for name in ("power law", "full", "no entries", "empty rows and columns", "3x3 blocks", "duplicates", "stencil"):
        a = Csr.of(HARD[name])
        program, sweep = Program(a, r, c, None), Sweep(a, r, c, -(-(8 * r * c + 5) // 12), None)
        sizes = [found.counted()[0] * (5 + 8 * r * c) + 12 * int((~found.held()).sum()) for found in (program, sweep)]
        assert sizes[0] == fewest_bytes(a, r, c) <= sizes[1], name
        # Strips finds the same blocks in the entries that are held.
        assert Sweep(a.where(program.held()), r, c, 1, None).counted()[0] == program.counted()[0]
        less.append(sizes[0] < sizes[1])
    assert any(less) or shape not in ((2, 2), (2, 4)), "no matrix on which the sweep is not the best"
    assert c > 1 or not any(less)  # with columns of their own there is nothing to choose


def test_the_program_shifts_a_block_that_the_sweep_begins_too_early():
    dense = np.zeros((2, 2000))
    dense[0, 3], dense[:, 4:6] = 1, 1  # the sweep closes 3 and 4, with 3 of 4 entries, and leaves 5
    dense[:, PIECE - 1 : PIECE + 1] = 1  # a block would cross a multiple of PIECE columns
    a = sparse.csr_array(dense)
    blocks = {
        c: testing.convert(f"bcoo-bcsr[block=2x2,choose={c}]", a).parts.get("blocks") for c in ("program", "greedy")
    }
    assert blocks["program"].block_col.tolist() == [4]
    assert blocks["greedy"].block_col.tolist() == [PIECE - 1]


def test_blocks_that_do_not_pay_go_to_ellpack():
    dense = np.zeros((8, 40))
    dense[0:2, 3:5] = 1  # all of a block
    dense[0:2, 10:12] = np.eye(2)  # 2 of 4: 24 bytes against 37
    dense[4:6, 21:23] = [[1, 1], [1, 0]]  # 3 of 4: 36 bytes
    fmt = testing.convert("bcoo-bcsr[block=2x2]", sparse.csr_array(dense))
    assert fmt.parts["blocks"].block_col.tolist() == [3]
    assert dict(fmt.entries) == {"ell": 5, "blocks": 4}
    assert (fmt.detail["r"], fmt.detail["c"]) == (2, 2)


def test_the_shape_with_the_fewest_bytes():
    for a in (HARD["power law"], HARD["3x3 blocks"], spmvbench.load("fem:4:4"), HARD["full"]):
        sizes = {block: testing.convert(f"bcoo-bcsr[block={block}]", a).nbytes for block in SHAPES}
        assert testing.convert("bcoo-bcsr", a).nbytes == min(sizes.values())
    assert testing.convert("bcoo-bcsr", spmvbench.load("fem:4:4")).detail["r"] == 4


def test_strips_alone_give_all_of_y(emulated):
    fmt = testing.convert("bcoo-bcsr[block=4x4]", sparse.csr_array(np.ones((36, 8))))
    assert list(fmt.parts) == ["blocks"]
    y = np.full(36, np.nan)
    emulated.compile(fmt.launches(np.ones(8), y)).run()
    assert (y == 8).all()
