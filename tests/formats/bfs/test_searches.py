"""Searches: every way in which a level can be made, directed graphs, and what is stored of a graph."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spmvbench import testing
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip, byte_text
from spmvbench.formats.bfs import quads, tiles
from spmvbench.formats.vectors import restored
from spmvbench.matrices import synthetic
from spmvbench.measure.operations import levels

SPECS = [
    "bfs-push",
    "bfs-do",
    "bfs-do[order=natural]",
    "tile-bfs",
    "tile-bfs[nt=16,extract=0]",
    "tile-bfs[nt=64,extract=1]",
    "tile-bfs[kernels=1]",
    "tile-bfs[kernels=12,nt=16]",
]


def graph(arcs, n):
    """A pattern of these arcs, no loops, each once."""
    arcs = np.array([(i, j) for i, j in set(arcs) if i != j], dtype=np.int64).reshape(-1, 2)
    return Csr.of(sparse.csr_array((np.ones(len(arcs), np.float32), arcs.T), shape=(n, n)))


def both_ways(arcs):
    return [*arcs, *((j, i) for i, j in arcs)]


def path(n):
    return [(i, i + 1) for i in range(n - 1)]


def graphs():
    rmat = Csr.of(synthetic.generate("rmat:9:8"))
    arcs = list(zip(rmat.row_idx.tolist(), rmat.col_idx.tolist(), strict=True))
    star = [(7, i) for i in range(700)]
    king = [
        (8 * i + j, 8 * (i + k) + j + m)
        for i in range(11)
        for j in range(8)
        for k, m in ((0, 1), (1, -1), (1, 0), (1, 1))
        if 0 <= j + m < 8
    ]
    return {
        "path": graph(both_ways(path(70)), 70),
        "grid of eight neighbours": graph(both_ways(king), 96),
        "rmat": graph(both_ways(arcs), 512),
        "rmat, one way": graph(arcs, 512),
        "star and path": graph(both_ways([*star, *((i + 700, j + 700) for i, j in path(40))]), 760),
        "star, one way": graph([*star, *path(30)], 700),
        "no arcs": graph([], 40),
        "one vertex": graph([], 1),
    }


GRAPHS = graphs()


def searched(spec, a, device, sources):
    """The levels from each source, of one program that is run again and again."""
    fmt = testing.convert(spec, a, device.xp)
    x, y = np.zeros(1, np.int32), np.zeros(a.rows, np.int32)
    program = device.compile(fmt.launches(x, y))
    for source in sources:
        x[0], y[:] = source, -7
        program.run()
        yield restored(y, fmt.y_order).copy()


@pytest.mark.slow
@pytest.mark.parametrize(("enter", "room"), [(1024, 4096), (0, 0), (6, 8)])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("spec", SPECS)
def test_levels_whatever_one_block_takes_on(spec, name, enter, room, emulated, monkeypatch):
    monkeypatch.setattr(quads, "ENTER", enter)
    monkeypatch.setattr(quads, "LEAVE", room)
    a = GRAPHS[name]
    sources = sorted({int(a.row_lengths.argmax()), 0, a.rows - 1})
    for source, found in zip(sources, searched(spec, a, emulated, sources), strict=True):
        np.testing.assert_array_equal(found, levels(a, source))


@pytest.mark.parametrize("name", ["rmat", "star, one way", "path", "grid of eight neighbours"])
@pytest.mark.parametrize("spec", ["bfs-push", "bfs-do", "tile-bfs", "tile-bfs[kernels=12,nt=64]"])
def test_nothing_races(spec, name, checking, monkeypatch):
    monkeypatch.setattr(quads, "ENTER", 6)
    monkeypatch.setattr(quads, "LEAVE", 8)
    a = GRAPHS[name]
    assert [found.tolist() for found in searched(spec, a, checking, [3])] == [levels(a, 3).tolist()]


@pytest.mark.parametrize("name", ["rmat", "grid of eight neighbours"])
@pytest.mark.parametrize("spec", ["bfs-push", "bfs-do", "tile-bfs", "tile-bfs[nt=64,extract=0]"])
def test_bits_that_shared_memory_does_not_hold(spec, name, checking):
    a = GRAPHS[name]
    fmt = replace(testing.convert(spec, a), shared_bytes=2 * 4 * quads.LEAVE + quads.STATIC_SHARED_BYTES)
    x, y = np.full(1, 3, np.int32), np.zeros(a.rows, np.int32)
    launches = fmt.launches(x, y)
    assert "false" in launches[1].steps[0].kernel
    checking.compile(launches).run()
    np.testing.assert_array_equal(restored(y, fmt.y_order), levels(a, 3))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=120),
    st.integers(0, 40),
    st.sampled_from(SPECS),
    st.booleans(),
)
def test_any_small_graph(emulated, arcs, source, spec, directed):
    a = graph(arcs if directed else both_ways(arcs), 41)
    assert [found.tolist() for found in searched(spec, a, emulated, [source])] == [levels(a, source).tolist()]
    testing.check_conversion(spec, a)


@pytest.mark.parametrize("spec", ["bfs-push", "bfs-do", "tile-bfs"])
@pytest.mark.parametrize("source", [-1, 70, 2**31 - 1])
def test_a_source_outside_of_the_graph_reaches_nothing(spec, source, emulated):
    assert all((found == -1).all() for found in searched(spec, GRAPHS["path"], emulated, [source]))


@pytest.mark.parametrize("spec", ["bfs-do", "tile-bfs"])
def test_arcs_that_come_in_are_stored_where_they_are_not_those_that_go_out(spec):
    once, twice = (testing.convert(spec, GRAPHS[name]).arrays() for name in ("rmat", "rmat, one way"))
    if spec == "bfs-do":
        assert len(once["in_neighbours"]) == 0 < len(twice["in_neighbours"])
    else:
        assert not any(name.startswith("into.") for name in once)
        assert len(twice["into.masks"]) > 0


@pytest.mark.parametrize(
    ("degrees", "pitch"), [([1, 4], 1), ([1, 5], 2), ([8, 8], 2), ([1, 9], 0), ([0, 4], 0), ([], 0)]
)
def test_vertices_with_few_neighbours_have_as_many_quads(degrees, pitch):
    assert quads.common_pitch(np.array(degrees, np.int32)) == pitch


@pytest.mark.parametrize("spec", ["bfs-push", "bfs-do", "bfs-merged"])
def test_arcs_from_a_vertex_to_itself_are_no_neighbours(spec):
    arcs = np.array([*both_ways(path(41)), *((i, i) for i in range(0, 41, 3))])
    a = Csr.of(sparse.csr_array((np.ones(len(arcs), np.float32), arcs.T), shape=(41, 41)))
    fmt = testing.convert(spec, a)
    held = fmt.quads if spec == "bfs-merged" else fmt
    assert held.pitch == 1
    assert len(held.neighbours) == 4 * held.shape[0]
    row, col, _ = fmt.to_coo()
    assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == sorted(zip(a.row_idx, a.col_idx, strict=True))


def test_vertices_are_ordered_by_powers_of_two_of_their_degrees():
    degrees = np.array([0, 1, 2, 3, 4, 1, 9, 8, 0, 7])
    assert quads.by_degree(degrees).tolist() == [6, 7, 4, 9, 2, 3, 1, 5, 0, 8]


def test_tiles_of_few_entries_are_stored_separately():
    a = graph(both_ways([(0, 1), (0, 2), (1, 2), (5, 40), (6, 41), (0, 70)]), 96)
    fmt = testing.convert("tile-bfs[nt=32,extract=2]", a)
    assert fmt.detail == {"nt": 32, "tiles": 4, "quads": 6}  # 6 entries in a tile of the diagonal, the others apart
    assert fmt.out.tile_cols.tolist() == [0, 0, 0, 0]
    assert fmt.out.masks[:8].tolist() == [0b110, 0, 0, 0, 0b101, 0, 0, 0]


@pytest.mark.parametrize(("rows", "nt", "side"), [(10_000, 0, 32), (10_001, 0, 64), (5, 16, 16)])
def test_side_of_a_tile(rows, nt, side):
    assert tiles.side_in_use(rows, nt) == side


def test_masks_that_do_not_fit_are_refused_with_their_bytes():
    a = GRAPHS["rmat"]
    needed = testing.convert("tile-bfs[nt=64,extract=0]", a).nbytes
    with pytest.raises(Skip, match=byte_text(needed)) as refusal:
        testing.convert("tile-bfs[nt=64,extract=0]", a, max_bytes=needed - 1)
    assert refusal.value.needed_bytes == needed


def test_wrong_parameters_are_refused():
    for params in ({"kernels": "2"}, {"nt": 8}, {"extract": -1}):
        with pytest.raises(UsageError):
            testing.convert("tile-bfs", GRAPHS["path"], **params)


def test_unknowns_of_a_node_are_merged(checking):
    """Three unknowns of each of 27 nodes; one has a neighbour of its own, and stays apart with it."""
    node = np.arange(27)
    near = np.abs(np.subtract.outer(node, node)) <= 1
    dense = np.zeros((82, 82), dtype=bool)
    dense[:81, :81] = np.kron(near, np.ones((3, 3), dtype=bool))
    dense[40, 81] = dense[81, 40] = True
    dense[5, 5] = False  # whether an arc leads to the vertex itself is of no matter
    a = sparse.csr_array(dense.astype(float))
    fmt = testing.convert("bfs-merged", a)
    assert fmt.detail == {"merged_vertices": 27 + 2}
    assert (fmt.owner[39], fmt.owner[81]) == (fmt.owner[41], 28) and fmt.owner[40] not in (fmt.owner[39], 28)
    testing.check_conversion("bfs-merged", a)
    for source, expected in ((40, [13, 1, 0, 1, 1]), (39, [13, 0, 1, 1, 2]), (81, [14, 2, 1, 2, 0])):
        y = np.full(82, -7, np.int32)
        checking.compile(fmt.launches(np.full(1, source, np.int32), y)).run()
        assert y[[0, 39, 40, 41, 81]].tolist() == expected


def test_vertices_of_a_directed_graph_stay_apart():
    a = sparse.csr_array(np.triu(np.ones((5, 5))))
    assert testing.convert("bfs-merged", a).detail == {"merged_vertices": 5}
    testing.check_conversion("bfs-merged", a)
