"""Orders of rows and columns: permutations of every matrix, the original one in its own basis, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import orders, testing
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.cache_blocking import partition
from spmvbench.matrices import synthetic

HARD = testing.hard_matrices()


@pytest.fixture
def planted(monkeypatch):
    """Registers an order for one test."""

    def plant(find):
        monkeypatch.setattr(orders, "ORDERS", dict(orders.ORDERS))
        orders.register("planted", "test")(find)

    return plant


def dense(a):
    return sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape).toarray()


@pytest.mark.parametrize("name", orders.ORDERS)
def test_every_order_permutes_every_hard_matrix(name, monkeypatch):
    monkeypatch.setattr(orders, "PART", 16)
    changed = 0
    for label, matrix in HARD.items():
        a = Csr.of(matrix)
        if a.rows * a.cols > 250_000:
            continue
        try:
            found, seconds = orders.ordered(a, name)
        except Skip as skip:
            pytest.skip(str(skip))
        assert seconds >= 0
        assert (found.shape, found.nnz, found.row_ptr.dtype) == (a.shape, a.nnz, a.row_ptr.dtype), label
        assert np.array_equal(np.sort(found.row_lengths), np.sort(a.row_lengths)), label
        steps = np.diff(found.col_idx)
        assert (steps[np.diff(found.row_idx) == 0] > 0).all(), f"{label}: columns do not ascend"
        rows, cols = (np.asarray(order) for order in orders.get(name).find(a))
        assert np.array_equal(dense(found), dense(a)[rows][:, cols]), label
        changed += not np.array_equal(found.col_idx, a.col_idx)
    assert changed > 3


def test_what_the_orders_are_for():
    rng = np.random.default_rng(0)
    line = sparse.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(300, 300), format="csr")
    mixed = rng.permutation(300)
    a = Csr.of(line[mixed][:, mixed])
    assert np.abs(a.diagonal).max() > 100
    assert np.abs(orders.ordered(a, "rcm")[0].diagonal).max() == 1
    star = sparse.lil_array((50, 50))
    star[30, :] = star[:, 30] = 1.0
    star.setdiag(1.0)
    star[20, 21] = star[21, 20] = 1.0
    star = Csr.of(star.tocsr())
    assert orders.get("hub").find(star)[0].tolist() == [30, *range(30), *range(31, 50)]
    assert orders.get("degree").find(star)[0].tolist()[:4] == [30, 20, 21, 0]
    # Gray codes 10.., 11.., 01.. of the first two sections: neighbours differ in one.
    sections = Csr.of(sparse.csr_array((np.ones(4), ([0, 1, 1, 2], [2, 0, 2, 0])), shape=(3, 64)))
    rows, cols = orders.get("gray").find(sections)
    assert rows.tolist() == [0, 1, 2] and cols.tolist() == list(range(64))


def cuthill_mckee(graph):
    """By the definition: a queue per component, neighbours by degree and then by index; reversed."""
    degree, seen, order = np.diff(graph.indptr), set(), []
    for first in sorted(range(graph.shape[0]), key=lambda v: (degree[v], v)):
        queue = [] if first in seen else [first]
        for vertex in queue:  # which grows
            seen.add(vertex)
            near = set(graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]].tolist())
            queue += sorted(near - seen - set(queue), key=lambda v: (degree[v], v))
        order += queue
    return order[::-1]


@pytest.mark.parametrize("spec", ["pde:6", "rmat:8:3", "uniform:400:1", "fem:4:2", "denserow:90", "stray:6:10"])
def test_reverse_cuthill_mckee_is_that_of_its_definition(spec):
    """Down to the order of equal degrees, which a sort that is not stable leaves to the processor."""
    a = Csr.of(synthetic.generate(spec))
    graph = partition.graph(a.row_ptr, a.col_idx)
    assert len(set(np.diff(graph.indptr).tolist())) < graph.shape[0]  # there are equal degrees
    assert partition.reverse_cuthill_mckee(graph).tolist() == cuthill_mckee(graph)


def test_reverse_cuthill_mckee_of_nothing_and_of_no_edges():
    for n in (0, 1, 5):
        graph = sparse.csr_array((n, n), dtype=np.int8)
        assert partition.reverse_cuthill_mckee(graph).tolist() == list(range(n))[::-1]


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (lambda a: (np.zeros(a.rows, int), np.arange(a.cols)), "order planted is no permutation of 40"),
        (lambda a: (np.arange(a.rows - 1), np.arange(a.cols)), "order planted is no permutation of 40"),
        (lambda a: (np.arange(a.rows) * 1.0, np.arange(a.cols)), "order planted is no permutation of 40"),
        (lambda a: (np.arange(a.rows)[::-1], np.arange(a.cols)), "rows and columns of a square matrix differently"),
    ],
)
def test_what_is_no_order_is_refused(planted, find, message):
    planted(find)
    with pytest.raises(SpmvbenchError, match=message):
        orders.ordered(Csr.of(sparse.eye_array(40, format="csr")), "planted")


def test_names_are_checked():
    with pytest.raises(UsageError, match="there is no order 'rmc'; did you mean rcm"):
        orders.check(["none", "rmc"])
    orders.check(orders.names())
    assert all(order.about.endswith(".") and order.reference for order in orders.ORDERS.values())


@pytest.mark.slow
def test_rows_have_their_order_and_are_compared_within_it(tmp_path):
    arguments = {"formats": "csr-scalar,dia", "order": "none,rcm,degree", "results": tmp_path, "run": "o"}
    rows = spmvbench.run(["rmat:6:4", "rect:40:60:3"], **arguments, budget=0.001, progress=False)
    assert len(rows) == 2 * 3 * 2 and set(rows["status"]) <= {"ok", "skipped"}
    assert rows["case_id"].nunique() == len(rows)
    by_order = rows.groupby("order")
    assert set(by_order.groups) == {"none", "rcm", "degree"}
    assert by_order["t_order"].count().to_dict() == {"none": 0, "rcm": 4, "degree": 4}
    assert (by_order["order_hash"].nunique() == 1).all() and set(rows.loc[rows["order"] == "none", "order_hash"]) == {
        ""
    }
    assert rows[rows["name"] == "rmat:6:4"].groupby("order")["matrix_sha256"].first().nunique() == 3
    again = spmvbench.run(["rmat:6:4", "rect:40:60:3"], **arguments, budget=0.001, progress=False)
    assert again["sequence"].tolist() == rows["sequence"].tolist()
    from spmvbench.analysis.cases import latest_cases

    cases = latest_cases(rows)
    assert list(cases["setting"].cat.categories) == ["f64 hot", "f64 hot degree", "f64 hot rcm"]
    assert len(cases) == len(rows)


def test_the_example_of_the_documentation_is_an_order(tmp_path, monkeypatch):
    import re
    from pathlib import Path

    text = (Path(__file__).resolve().parents[1] / "docs" / "orders.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.setattr(orders, "ORDERS", dict(orders.ORDERS))
    exec(compile(example, "example", "exec"), {"__name__": __name__})
    a = Csr.of(HARD["power law"])
    assert np.array_equal(dense(orders.ordered(a, "reverse")[0]), dense(a)[::-1, ::-1])
    listed = re.findall(r"^\| `(\w+)` \|", text.partition("\n## ")[0], re.MULTILINE)
    assert listed == [name for name in orders.names() if name != "reverse"]
