"""BCCOO: columns by differences, groups that wait for each other, slices, the search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import testing
from spmvbench.formats import Csr, Skip
from spmvbench.formats.dense_blocks import bccoo
from spmvbench.formats.dense_blocks.bccoo import loads_for, steps_for


def by_thread(fmt, array):
    """A format's (T / across, steps, across, ...) array as (T, steps, ...)."""
    return np.moveaxis(array, 1, 2).reshape(-1, fmt.plan.steps, *array.shape[3:])


def test_columns_by_differences():
    columns = [0, 5, 70_000, 70_001, 102_768, 135_536]  # differences of 32,767 fit, 32,768 and 69,995 do not
    a = sparse.csr_array((np.ones(6), (np.zeros(6, dtype=int), columns)), shape=(2, 140_000))
    fmt = testing.convert("bccoo[h=1,w=1,steps=8]", a)
    full = -32768
    assert by_thread(fmt, fmt.delta_col)[0].tolist() == [full, 5, full, 1, 32767, full, full, full]
    assert by_thread(fmt, fmt.block_col)[0].tolist() == [*columns, -1, -1]  # the second row's dummy comes last
    assert fmt.escapes == 2
    assert fmt.narrow  # with all that fills up
    wide = testing.convert("bccoo[h=1,w=1,delta=false]", a)
    assert len(wide.delta_col) == 0
    assert wide.block_col.dtype == np.int32
    assert testing.convert("bccoo[h=1,w=4]", a).block_col.dtype == np.uint16
    threads = len(fmt.flags)
    assert fmt.nbytes - fmt.bytes_read == 4 * (fmt.block_col.size - threads - 2)  # first ones and escapes are read
    assert wide.bytes_read == wide.nbytes


@pytest.mark.parametrize("spec", ["bccoo[h=1,w=1]", "bccoo[h=1,w=1,kernel=paper]", "bccoo[h=2,w=2,across=32]"])
def test_differences_are_read_where_they_fit(spec, emulated):
    rng = np.random.default_rng(0)
    first = np.tile(np.sort(rng.integers(0, 140_000, 750)), 4)
    a = sparse.csr_array((rng.uniform(1, 2, 3000), (np.arange(3000), first)), shape=(3000, 150_000))
    a = sparse.csr_array(a + 2 * sparse.csr_array((a.data, a.indices + 9, a.indptr), shape=a.shape))
    fmt = testing.convert(spec, a)
    assert fmt.narrow
    assert fmt.escapes > 0
    testing.check_product(spec, a, emulated)


@pytest.mark.parametrize("h", [1, 3])
@pytest.mark.parametrize("kernel", ["fast", "paper"])
def test_rows_over_many_groups(kernel, h, checking):
    lengths = np.array([3, 2500, 0, 1, 1200, 5, 0, 0])
    columns = np.concatenate([np.arange(n) for n in lengths])
    values = np.random.default_rng(1).uniform(1, 2, len(columns))
    a = sparse.csr_array((values, columns, np.append(0, np.cumsum(lengths))), shape=(8, 2500))
    testing.check_product(f"bccoo[h={h},w=1,steps=8,group=64,kernel={kernel}]", a, checking)


def test_the_shape_with_the_fewest_bytes_to_read():
    for shape in ((3, 1), (2, 2), (4, 4), (1, 2)):
        a = sparse.csr_array(sparse.kron(spmvbench.load("uniform:96:3"), np.ones(shape)))
        assert testing.convert("bccoo", a).plan[:2] == shape
    assert testing.convert("bccoo", spmvbench.load("fem:5:3")).plan[:2] == (3, 1)
    assert testing.convert("bccoo[h=2]", spmvbench.load("fem:5:3")).plan.h == 2


def test_blocks_a_thread():
    assert [steps_for(blocks, 10) for blocks in (0, 34, 36, 74, 76, 240, 250)] == [8, 8, 4, 7, 8, 24, 8]
    assert steps_for(0, 0) == 8
    assert testing.convert("bccoo", spmvbench.load("pde:8")).plan == (1, 1, 6, 256)


def test_too_many_slices_are_refused():
    a = Csr((2**27, 1), np.broadcast_to(np.int32(0), 2**27 + 1), np.empty(0, np.int32), np.empty(0))
    with pytest.raises(Skip, match="32 slices of 134,217,728 rows"):
        bccoo.BccooPlus.stacked(a, slices=32)


def test_the_search_keeps_the_shortest(monkeypatch):
    timed = []

    def seconds(launches):
        timed.append(launches[-1].kernel)
        return 1.0 if len(timed) == 5 else 2.0

    monkeypatch.setattr(bccoo, "seconds", seconds)
    a = Csr.of(spmvbench.load("fem:4:3"))
    tiles = bccoo.tiles_of(a)
    params = bccoo.PlainBccoo.resolve({"tune": True})
    found = bccoo.PlainBccoo.tuned(a, tiles, **params)
    assert len(timed) == 4 * 3 * 2
    assert found == (3, 1, 32, 128)  # the third number of blocks, the first of threads
    again = bccoo.PlainBccoo.tuned(a, tiles, **params | {"h": 1, "w": 2, "steps": 8, "group": 64})
    assert again == (1, 2, 8, 64)


def test_steps_on_their_way():
    assert [loads_for(values, 8) for values in (1, 2, 3, 4, 6, 8, 16)] == [8, 4, 2, 2, 1, 1, 1]
