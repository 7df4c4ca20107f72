"""Operations: their names, their references, and how formats of each are measured."""

import json
import re
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import spmvbench
from spmvbench import devices, testing
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip
from spmvbench.measure import operations, protocol, reading, verify, worker
from spmvbench.measure.cases import Settings
from spmvbench.measure.row import known_columns
from spmvbench.measure.verify import compare
from spmvbench.runner import plan
from tests.made import Made
from tests.measure.recording import Recorder

PUBLISHED = Path(spmvbench.__file__).parents[1] / "results" / "published"
TINY = Path(__file__).parent / "tiny" / "tiny.py"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("spvm", "did you mean spmv"),
        ("spmv@0.1", "there is no operation"),
        ("", "use spmv, spmv-t, pair, spmm, spmm-column, spmm-t, spmspv, bfs"),
        ("spmspv@", "names no density"),
        ("spmspv@0", "names no density"),
        ("spmspv@1.1", "names no density"),
        ("spmspv@nan", "names no density"),
        ("bfs@", "names no source"),
        ("bfs@-1", "names no source"),
        ("bfs-directed@x", "write bfs-directed@0"),
    ],
)
def test_unknown_operations_are_refused_with_a_hint(word, meant):
    with pytest.raises(UsageError, match=meant):
        operations.parse([word])


def test_a_word_stands_for_one_operation_or_for_all_of_a_kind():
    assert operations.parse(["spmv"]) == ["spmv"]
    assert operations.parse(["spmspv"]) == ["spmspv@0.1", "spmspv@0.01", "spmspv@0.001", "spmspv@0.0001"]
    assert operations.parse(["bfs"]) == [f"bfs@{k}" for k in range(8)]
    assert operations.parse(["spmspv@.050", "bfs@03", "spmspv@5e-2", "spmv"]) == ["spmspv@0.05", "bfs@3", "spmv"]
    assert operations.get("bfs-directed@2").key == "bfs"
    with pytest.raises(UsageError, match="several operations"):
        operations.get("bfs")


def checks(name, a, seed=0, fresh=1):
    operation = operations.get(name)
    a = operation.matrix(Csr.of(a))
    return a, operation.checks(a, a, devices.open_device("emulated"), seed, fresh)


def test_a_sparse_x_has_positions_from_the_seed_and_matching_results():
    a = sparse.random_array((300, 1000), density=0.01, rng=np.random.default_rng(3))
    csr, found = checks("spmspv@0.05", a.tocsr())
    x = found.timed.x
    assert (len(x), x.size, x.index.dtype) == (50, 1000, np.int32)
    assert (np.diff(x.index) > 0).all()
    np.testing.assert_allclose(found.timed.y, a @ x.dense(), rtol=1e-14)
    untouched = np.flatnonzero(found.timed.bound == 0)
    assert len(untouched)
    assert (found.timed.y[untouched] == 0).all()
    y = found.timed.y.copy()
    assert compare(y, found.timed).passed
    y[untouched[0]] = 1e-300
    assert compare(y, found.timed).row == untouched[0]
    assert found.work == 2 * csr.nnz
    assert found.facts == {"entries_x": 50, "products": int(np.isin(csr.col_idx, x.index).sum())}
    again = checks("spmspv@0.05", a.tocsr(), fresh=2)[1]
    np.testing.assert_array_equal(again.timed.x.index, x.index)
    assert not np.array_equal(again.timed.x.value, x.value)
    assert not np.array_equal(again.dense[0].x.index, found.dense[0].x.index)
    other = checks("spmspv@0.05", a.tocsr(), seed=5)[1]
    assert not np.array_equal(other.timed.x.index, x.index)


@pytest.mark.parametrize(("density", "entries", "met"), [(0.1, 10, 100), (0.001, 1, 16), (1, 100, 100)])
def test_integer_checks_cover_every_column_if_there_are_enough(density, entries, met):
    found = checks(f"spmspv@{density}", sparse.eye_array(100).tocsr())[1].integer
    assert {len(reference.x) for reference in found} == {entries}
    assert len(np.unique(np.concatenate([reference.x.index for reference in found]))) == met


@pytest.mark.parametrize("part", ["index", "value"])
def test_writing_to_a_sparse_x_is_detected(part):
    a, found = checks("spmspv@0.1", sparse.eye_array(50).tocsr())
    fmt = testing.convert("csr-scalar", a)
    x, y = operations.get("spmspv@0.1").vectors(a)
    placed = verify.set_x(fmt, found.timed, x)
    y[x.index] = x.value
    assert verify.verify_result(fmt, x, y, placed, found.timed).passed
    getattr(x, part)[2] += 1
    verdict = verify.verify_result(fmt, x, y, placed, found.timed)
    assert (verdict.passed, verdict.array, verdict.row) == (False, "x", 2)


def by_hand(a, source):
    """Levels by a queue, vertex by vertex."""
    a = a.tocsr()
    found = np.full(a.shape[0], -1)
    found[source], queue = 0, deque([source])
    while queue:
        v = queue.popleft()
        for w in a.indices[a.indptr[v] : a.indptr[v + 1]]:
            if found[w] < 0:
                found[w] = found[v] + 1
                queue.append(w)
    return found


@settings(max_examples=25)
@given(n=st.integers(1, 40), arcs=st.integers(0, 80), seed=st.integers(0, 9), directed=st.booleans())
def test_levels_match_a_plain_search(n, arcs, seed, directed):
    rng = np.random.default_rng(seed)
    a = sparse.coo_array((np.ones(arcs), tuple(rng.integers(0, n, (2, arcs)))), shape=(n, n)).tocsr()
    graph, found = checks("bfs-directed@1" if directed else "bfs@1", a)
    arcs = sparse.csr_array(a if directed else a + a.T)
    degrees = np.asarray((arcs - sparse.diags_array(arcs.diagonal())).astype(bool).sum(axis=1))
    assert graph.nnz == degrees.sum()
    source = int(found.timed.x[0])
    expected = by_hand(arcs, source)
    np.testing.assert_array_equal(found.timed.y, expected)
    np.testing.assert_array_equal(found.dense[0].y, by_hand(arcs, int(found.dense[0].x[0])))
    assert by_hand(arcs, int(degrees.argmax()))[source] >= 0
    assert found.work == degrees[expected >= 0].sum()
    assert found.facts["levels"] == expected.max() + 1
    assert found.facts["reached"] == (expected >= 0).sum()


def test_sources_are_the_hub_and_vertices_that_it_reaches():
    a = sparse.block_diag([sparse.csr_array(np.triu(np.ones((9, 9)), 1)), sparse.csr_array(np.ones((4, 4)))])
    sources = [checks(f"bfs@{k}", a.tocsr())[1].facts["source"] for k in range(10)]
    assert sources[0] == 0
    assert sorted(sources[1:9]) == list(range(1, 9))
    assert sources[9] == sources[1]


@pytest.mark.parametrize(("shape", "reason"), [((3, 4), "this one is 3 x 4"), ((0, 0), "nothing to search")])
def test_a_matrix_that_is_no_graph_is_refused(shape, reason):
    with pytest.raises(Skip, match=reason):
        operations.get("bfs@0").matrix(Csr.of(sparse.csr_array(shape)))


@pytest.fixture
def tiny(registered):
    """The tiny formats, registered during a test."""
    return registered(TINY)[0]


GRID = Made(lambda: testing.hard_graphs()["grid"], "grid")
WIDE = Made(lambda: testing.hard_matrices()["1xN"], "grid")


def rows_of(text, ops, monkeypatch, matrix=None, dtypes=("f32",)):
    """The rows of these formats and operations, by (format, operation, type)."""
    names = operations.parse(ops)
    device = devices.open_device("emulated")
    chosen = plan.choose_formats(text, "emulated", names)
    cases = plan.cross([matrix or GRID], chosen, dtypes, ["hot"], "emulated", 0, names)
    pipe = Recorder()
    for group in plan.grouped(cases):
        reading.read.cache_clear()
        settings = Settings("emulated", budget=0.01)
        worker.measure(group, device, settings, {"launch_overhead": {"hot": 0.0}}, protocol.Link(pipe))
    rows = {(case.format, case.op, case.dtype): known_columns(case) | pipe.rows[case.case_id] for case in cases}
    assert len(rows) == len(cases)
    return rows, pipe


def test_every_operation_of_a_format_is_measured_after_one_conversion(tiny, monkeypatch):
    rows, pipe = rows_of(
        "tiny-*,csr-scalar", ["spmv", "spmspv@0.1", "spmspv@0.01", "bfs@0", "bfs@1", "bfs-directed@1"], monkeypatch
    )
    right = {key: row for key, row in rows.items() if "wrong" not in key[0]}
    assert {(row["status"], row.get("reason", "")) for row in right.values()} == {("ok", "")}
    assert sorted({key[1:] for key in right}) == [
        ("bfs-directed@1", "pattern"),
        ("bfs@0", "pattern"),
        ("bfs@1", "pattern"),
        ("spmspv@0.01", "f32"),
        ("spmspv@0.1", "f32"),
        ("spmv", "f32"),
    ]
    for row in right.values():
        assert row["gflops"] == pytest.approx(1e-9 * row["work"] / row["t_median"])
        assert ("model_bytes" in row) == ("gbps" in row) == (row["op"] == "spmv")
    arcs = 2 * 2 * 20 * 21
    assert {row["work"] for (_, op, _), row in right.items() if op.startswith("bfs")} == {arcs}
    assert {row["work"] for (_, op, _), row in right.items() if op.startswith("spm")} == {2 * arcs}
    detail = json.loads(rows["tiny-search", "bfs@0", "pattern"]["detail"])
    assert (detail["of"], detail["reached"], detail["arcs"]) == ("tiny-search", 441, arcs)
    levels = int(by_hand(testing.hard_graphs()["grid"], detail["source"]).max()) + 1
    assert detail["levels"] == levels
    assert detail["level_kernel"] == [7] * (levels - 1)
    assert detail["level_seconds"] == pytest.approx([1e-6 * (2 * level - 1) for level in range(1, levels)])
    assert sum(detail["level_found"]) == 440
    assert "level_kernel" not in json.loads(rows["tiny-search", "bfs@1", "pattern"]["detail"])
    assert set(json.loads(rows["tiny-sparse", "spmspv@0.1", "f32"]["t_kernels"])) == {"product"}
    conversions = [stage for _, stage in pipe.stages if stage == "converting on the host"]
    assert len(conversions) == 1 + 2 + 2 * 2  # csr-scalar; two sparse ones; two searches in either graph


def test_wrong_results_of_other_operations_are_detected(tiny, monkeypatch):
    rows, _ = rows_of("tiny-*", ["spmspv@0.2", "bfs@0", "bfs-directed@0"], monkeypatch)
    reasons = {key: row["reason"] for key, row in rows.items() if "wrong" in key[0]}
    assert {rows[key]["status"] for key in reasons} == {"wrong"}
    assert reasons["tiny-sparse-wrong", "spmspv@0.2", "f32"].startswith("y[440] is 1, expected ")
    # Entries that it does not write keep the initial y: no level, or that of another search.
    skipped = re.match(r"y\[\d+\] is -?\d+, expected (\d+) ", reasons["tiny-search-wrong", "bfs@0", "pattern"])
    assert int(skipped[1]) > 2


def test_a_search_refuses_what_is_no_graph_and_ignores_values(tiny, monkeypatch):
    rows, _ = rows_of("tiny-*", ["spmspv@0.5", "bfs@0"], monkeypatch, WIDE, dtypes=("f64", "f32"))
    assert rows["tiny-sparse", "spmspv@0.5", "f64"]["status"] == "ok"
    assert rows["tiny-search", "bfs@0", "pattern"]["status"] == "skipped"
    assert "needs a square matrix, this one is 1 x 300" in rows["tiny-search", "bfs@0", "pattern"]["reason"]
    assert sum(key[1] == "bfs@0" for key in rows) == 2


def test_formats_are_selected_by_operation(tiny):
    def keys(text, *ops):
        return [cls.key for cls, _ in plan.choose_formats(text, "emulated", operations.parse(ops))]

    assert keys("tiny-search,ell") == ["tiny-search", "ell"]
    assert not any("tiny" in key for key in keys(None) + keys("all"))
    assert {"tiny-search", "tiny-search-wrong"} <= set(keys(None, "bfs@3")) <= {*keys("all", "bfs")}
    assert "ell" not in keys("all", "bfs", "spmspv")
    assert "ell" in keys("all", "spmv", "bfs")
    assert keys("tiny-*", "bfs") == ["tiny-search", "tiny-search-wrong"]
    with pytest.raises(UsageError, match="ell runs spmv, which --op does not name"):
        keys("tiny-search,ell", "bfs")
    with pytest.raises(UsageError, match="no format of ell runs bfs"):
        keys("ell", "spmv", "bfs")


@pytest.mark.parametrize("key", ["tiny-sparse", "tiny-search"])
@pytest.mark.parametrize("device", ["emulated", "emulated-check"])
def test_the_checks_of_a_new_format_follow_its_operation(tiny, key, device):
    device = devices.open_device(device)
    for name in ("1xN", "stencil", "one full row", "0x0"):
        a = testing.hard_matrices()[name]
        testing.check_conversion(key, a)
        testing.check_product(key, a, device)
        if a.nnz and name != "1xN":
            with pytest.raises(AssertionError, match=r" is .*, expected "):
                testing.check_product(f"{key}-wrong", testing.hard_graphs()["grid"], device)
