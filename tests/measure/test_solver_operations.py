"""Solvers of a fixed number of iterations as operations: their references, verdicts and rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import LinearOperator
from scipy.sparse.linalg import cg as scipys

import spmvbench
from spmvbench import devices, formats
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip, zero_fill
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure import bounds, operations, solver_references
from spmvbench.measure.verify import compare
from spmvbench.operators import operator
from spmvbench.solve import pagerank
from tests.made import Made
from tests.measure.test_operations import checks, rows_of
from tests.measure.test_planted import computed, planted

__all__ = ["computed", "planted"]  # fixtures


def definite(n=14, seed=1):
    """A symmetric positive definite matrix whose diagonal is not constant."""
    a = spmvbench.load(f"poisson2d:{n}")
    scale = sparse.diags_array(np.random.default_rng(seed).uniform(0.5, 2, a.shape[0]))
    a = (scale @ a @ scale).tocsr()
    return ((a + a.T) / 2).tocsr()


PROGRAM, GRID, GRAPH = (
    Made(lambda a=a: a, name)
    for name, a in (
        ("program", spmvbench.load("rect:60:90:4")), ("grid", definite()), ("graph", spmvbench.load("rmat:8:6"))
    )
)  # fmt: skip


# --- names


@pytest.mark.parametrize("word", ["cg@x", "cg@", "cg@0", "cg@-3", "cg@1.5", "cg@1001", "cg@99999999999"])
def test_what_is_no_number_of_iterations_is_refused(word):
    with pytest.raises(UsageError, match=r"names no number of iterations: write cg@100, from 1 to 1,000"):
        operations.parse([word])


def test_solvers_have_a_number_of_iterations_and_a_group_for_each():
    assert operations.parse(["cg", "pagerank", "cg@007", "cg@1000"]) == ["cg@100", "cg@7", "cg@1000", "pagerank@50"]
    assert [operations.get(name).iterations for name in ("cg@7", "spmv")] == [7, 1]
    with pytest.raises(UsageError, match="write pagerank@50"):
        operations.get("pagerank@many")
    groups = [operations.group_of(name) for name in ("cg@5", "cg@6", "bfs@1", "bfs@2", "spmv")]
    assert groups == ["cg@5", "cg@6", "bfs", "bfs", "spmv"]


# --- references


@pytest.mark.parametrize("iterations", [1, 7, 30])
def test_the_hosts_iterations_are_scipys(iterations):
    a = definite()
    b = np.random.default_rng(2).standard_normal(a.shape[0])
    inverse = 1 / a.diagonal()
    expected, _ = scipys(a, b, M=LinearOperator(a.shape, lambda r: r * inverse), rtol=0, maxiter=iterations)
    found = solver_references.conjugate_gradients(Csr.of(a), b, inverse, iterations)
    assert (found.iterations, found.ended) == (iterations, "")
    np.testing.assert_allclose(found.x, expected, rtol=1e-9)


def test_the_hosts_ranks_are_the_solvers():
    a = abs(GRAPH.read()).tocsr()
    n = a.shape[0]
    inverse = operations.power_method.inverse_weights(n, a.indices, a.data, a.dtype)
    assert (inverse == 0).any(), "no vertex dangles"
    ((found, bound),) = solver_references.page_ranks(Csr.of(a), [np.full(n, 1 / n)], inverse, 0.85, 20, 43)
    expected = pagerank(operator(a, format="csr-scalar", device="emulated"), tol=0, maxiter=20).x
    assert (np.abs(found - expected) <= bound).all()
    assert (bound < 1e-12 * found).all()
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-12)


@pytest.mark.slow
def test_ranks_of_many_vertices_are_within_a_fraction_of_their_bound():
    """Almost all dangle, and their ranks are summed: one after the other that loses more than all else."""
    n, rng = 300_000, np.random.default_rng(0)
    places = rng.integers(0, n, (2, 100))
    a = Csr.of(sparse.coo_array((np.ones(100), places), (n, n)).tocsr())
    inverse = operations.power_method.inverse_weights(n, a.col_idx, a.values, a.dtype)
    first = rng.uniform(0.5, 1.5, n) / n
    ((found, bound),) = solver_references.page_ranks(a, [first], inverse, 0.85, 30, 43)
    matrix, exact = solver_references.matrix_of(a).astype(np.longdouble), first.astype(np.longdouble)
    for _ in range(30):
        held = math.fsum(exact[inverse == 0].astype(float))
        exact = (
            np.longdouble(0.85) * (matrix @ (inverse * exact) + held / np.longdouble(n)) + np.longdouble(1 - 0.85) / n
        )
    assert (np.abs(found - exact) <= bound / 2).all()
    assert (bound < 1e-12 * found).all()


@settings(max_examples=30)
@given(n=st.integers(1, 30), entries=st.integers(0, 90), seed=st.integers(0, 99), iterations=st.integers(1, 60))
def test_ranks_that_are_rounded_in_single_precision_are_within_their_bound(n, entries, seed, iterations):
    rng = np.random.default_rng(seed)
    places = tuple(rng.integers(0, n, (2, entries)))
    a, found = checks(f"pagerank@{iterations}", sparse.coo_array((rng.random(entries), places), (n, n)).astype("f4"))
    matrix, inverse, one = solver_references.matrix_of(a, np.float32), found.scaling, np.float32
    for reference in found.dense:
        x = reference.x
        for _ in range(iterations):
            held = float(x[inverse == 0].astype(np.float64).sum())
            x = (0.85 * (matrix @ (inverse * x)).astype(np.float64) + (0.85 * held + 0.15) / n).astype(one)
        assert compare(x, reference).passed
        worse = x.copy()
        worse[0] *= one(1 + 1e-3)
        assert not compare(worse, reference).passed


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_iterates_of_a_linear_program_are_judged_by_their_distance(dtype):
    a, found = checks("pdhg@20", PROGRAM.read().astype(dtype))
    lost = a.where(np.arange(a.nnz) != 7)
    for reference in found.dense:
        assert compare(reference.y.astype(dtype), reference).passed
        for other, iterations in ((lost, 20), (a, 19), (a, 21)):
            method = solver_references.PrimalDual(other)
            assert not compare(method.iterates(reference.x, iterations)[0], reference).passed
        broken = np.where(np.arange(len(reference.y)) == 3, np.nan, reference.y)
        assert compare(broken, reference).ratio == np.inf


def test_the_hosts_iterations_solve_a_linear_program():
    a, found = checks("pdhg@20", spmvbench.load("transport:4:5"))
    given = found.dense[0].x
    x, y = np.split(solver_references.PrimalDual(a).iterates(given, 2000)[0], [a.cols])
    matrix, (c, b) = solver_references.matrix_of(a), np.split(given, [a.cols])
    best = linprog(c, A_eq=matrix, b_eq=b).fun
    np.testing.assert_allclose(matrix @ x, b, atol=1e-6)
    np.testing.assert_allclose([c @ x, b @ y], best, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("spec", ["qap:4", "gridflow:8:5"])
@pytest.mark.parametrize(
    "key", ["csr-lanes", "csr-vector", "row-patterns", "sell-local", "sell-pack", "csr5", "bro-ell"]
)
def test_products_take_the_vectors_of_a_linear_program_along(key, spec, dtype):
    a, found = checks("pdhg@5", spmvbench.load(spec).astype(dtype))
    fmt = formats.get(f"{key}+{key}").from_csr(a)
    device = devices.open_device("emulated-check" if dtype == "f8" else "emulated")
    for reference in found.dense:
        y = np.full_like(reference.y, np.nan, dtype)
        steps = operations.get("pdhg@5").launches(fmt, reference.x, y, found, device)
        device.compile(steps).run()
        assert compare(y, reference).passed
    together = {"spmv-t+vectors", "spmv+vectors", "vectors"}
    parts = {step.part for step in steps}
    if key == "csr5":  # rows of A are long in one of both
        assert "spmv-t+vectors" in parts and ("spmv+vectors" in parts) == (a.nnz <= 5 * a.rows)
    else:
        assert parts == ({"spmv-t", "spmv", "vectors"} if key == "bro-ell" else together)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_solution_is_judged_by_its_residual(dtype):
    a, found = checks("cg@40", definite().astype(dtype))
    for reference in found.dense:
        right = reference.y.astype(dtype)
        verdict = compare(right, reference)
        assert verdict.passed and 0 < verdict.ratio <= 0.5
        assert verdict.found == pytest.approx(verdict.expected, rel=1e-3)
        # Of a matrix in which one entry, and the one across, was lost.
        lost = solver_references.matrix_of(a).tolil()
        lost[0, 1] = lost[1, 0] = 0
        other = Csr.of(lost.tocsr().astype(dtype))
        x = solver_references.conjugate_gradients(other, reference.x, found.scaling, 40).x
        assert not compare(x, reference).passed
        few = solver_references.conjugate_gradients(a, reference.x, found.scaling, 30).x
        assert not compare(few, reference).passed
        assert str(compare(few, reference)).startswith("norm of b - A y is ")
        right[3] = np.nan
        assert compare(right, reference).ratio == np.inf
    assert found.facts["iterations"] == 40
    assert 0 < found.facts["residual_host"] < 1e-4
    np.testing.assert_array_equal(
        found.scaling, (1 / a.astype(np.float64).values[a.row_idx == a.col_idx]).astype(dtype)
    )
    assert any(array is found.scaling for array in found.arrays)


def indefinite():
    a = sparse.csr_array(np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]))
    return sparse.block_diag([a] * 5).tocsr()


@pytest.mark.parametrize(
    ("solver", "a", "reason"),
    [
        ("cg", sparse.eye_array(3, 4), "need a square matrix, this one is 3 x 4"),
        ("cg", sparse.csr_array((0, 0)), "without rows has nothing to solve"),
        ("cg", sparse.csr_array([[2.0, 1], [0, 2]]), "need a symmetric matrix, in this one 2 entries differ"),
        ("cg", sparse.csr_array([[2.0, 1], [-1, 2]]), "need a symmetric matrix, in this one 2 entries differ"),
        ("cg", sparse.diags_array([1.0, 0, -1]), "2 of 3 elements of the diagonal are not positive"),
        ("cg", indefinite(), r"p\^T A p is -.* the matrix is not positive definite"),
        ("cg", sparse.eye_array(9) * 2, "have converged after 1 iterations: ask for fewer"),
        ("cg", sparse.diags_array([1.0, np.inf]), "entries are not finite"),
        ("cg", sparse.diags_array([1.0, 1e-310]), "the inverse of the diagonal overflows float64"),
        ("pagerank", sparse.eye_array(3, 4), "PageRank needs a square matrix, this one is 3 x 4"),
        ("pagerank", sparse.csr_array((0, 0)), "without vertices has nothing to rank"),
        ("pagerank", sparse.csr_array([[np.nan]]), "not finite"),
        ("pagerank", sparse.csr_array([[1e-310]]), "the inverse of the weights overflows float64"),
        ("pdhg", sparse.csr_array((3, 4)), "a linear program without entries has nothing to solve"),
    ],
)
def test_a_matrix_that_a_solver_cannot_take_is_skipped(solver, a, reason):
    with pytest.raises(Skip, match=reason):
        checks(f"{solver}@5", sparse.csr_array(a))


# --- rows


@pytest.mark.slow
@pytest.mark.parametrize(("name", "matrix", "rate"), [("cg@9", GRID, 12), ("pagerank@9", GRAPH, 6)])
def test_solvers_are_rows_like_any_other(name, matrix, rate, monkeypatch):
    text = "csr-scalar,ehyb,dasp,csr5"  # one with an order for both vectors, one with an order for y alone
    rows, pipe = rows_of(text, [name], monkeypatch, matrix, dtypes=("f64", "f32"))
    assert {(row["status"], row.get("reason", "")) for row in rows.values()} == {("ok", "")}
    n, nnz = matrix.read().shape[0], matrix.read().nnz
    for (key, _, dtype), row in rows.items():
        assert row["work"] == 9 * (2 * nnz + rate * n)
        assert row["gflops"] == pytest.approx(1e-9 * row["work"] / row["t_median"])
        assert set(json.loads(row["t_kernels"])) == {"spmv", "vectors"}
        assert json.loads(row["detail"])["iterations"] == 9
        vectors = {12: 5, 6: 4}[rate] * n * (8 if dtype == "f64" else 4)
        assert row["model_bytes"] % 9 == 0
        assert row["gbps"] == pytest.approx(1e-9 * row["model_bytes"] / row["t_median"])
        assert vectors < row["model_bytes"] // 9 <= row["bytes_format"] + vectors
        if key == "csr-scalar":
            assert row["launches"] == {12: 2 + 4 * 9, 6: 1 + 2 * 9}[rate]
    assert "checking integer products, spmv" in {stage for _, stage in pipe.stages}
    assert f"checking, {name}" in {stage for _, stage in pipe.stages}


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(
    ("name", "matrix", "before"),
    [
        ("cg@6", GRID, ""),
        ("pagerank@6", GRAPH, ""),
        ("pair", PROGRAM, "csr-scalar+"),  # the fault is in the copy that is A^T
        ("pdhg@6", PROGRAM, "csr-scalar+"),
    ],
)
def test_a_wrong_format_is_detected(planted, name, matrix, before, dtype, monkeypatch):
    wrong = ("last-entry", "one-in-1000", "narrow", "adds", "remembers", "neighbour", "into-x")
    text = ",".join(f"{before}planted-{fault}" for fault in ("none", *wrong, "none"))
    rows, _ = rows_of(text, [name], monkeypatch, matrix, dtypes=(dtype,))
    found = {key.removeprefix(f"{before}planted-"): row["status"] for (key, _, _), row in rows.items()}
    assert found.pop("none") == "ok"
    assert set(found.values()) <= {"wrong", "error"}, found
    assert found["last-entry"] == found["narrow"] == found["adds"] == "wrong"


class WrongInSolver(CsrArrays):
    """Right in a product alone, and y = 0 in every product that is bound to another x after the first."""

    key, family, reference = "wrong-in-solver", "CSR", "a test"
    bound = None

    def launches(self, x, y):
        cls = type(self)
        cls.bound = cls.bound or x.ctypes.data
        right = formats.get("csr-scalar").holding(self.shape, self.arrays()).launches(x, y)
        return right if x.ctypes.data == cls.bound else [zero_fill(y)]


@pytest.mark.parametrize(
    ("name", "matrix", "reason"),
    [
        ("cg@6", GRID, "norm of b - A y is "),
        ("pagerank@6", GRAPH, r"y["),
        ("pdhg@6", PROGRAM, "distance of y from the host's is "),
    ],
)
def test_the_solver_itself_is_judged(planted, name, matrix, reason, monkeypatch):
    formats.register(WrongInSolver)
    monkeypatch.setattr(WrongInSolver, "bound", None)
    label = "csr-scalar+wrong-in-solver" if name.startswith("pdhg") else "wrong-in-solver"
    rows, _ = rows_of(label, [name], monkeypatch, matrix, dtypes=("f64",))
    (row,) = rows.values()
    assert row["status"] == "wrong"
    assert row["reason"].startswith(reason)
    assert f"before timing, {name}" in row["reason"]


def test_a_matrix_is_skipped_with_a_reason_in_its_row(monkeypatch):
    rows, _ = rows_of("csr-scalar", ["cg@5", "cg@6", "pagerank@5"], monkeypatch, GRAPH)
    found = {op: row["status"] for (_, op, _), row in rows.items()}
    assert found == {"cg@5": "skipped", "cg@6": "skipped", "pagerank@5": "ok"}
    assert "need a symmetric matrix" in rows["csr-scalar", "cg@6", "f32"]["reason"]


@pytest.mark.slow
def test_pairs_and_linear_programs_are_rows_like_any_other(monkeypatch):
    text = "csr-scalar,csr5,sell-c-sigma+csr5,irregular+hyb"
    rows, _ = rows_of(text, ["pair"], monkeypatch, PROGRAM, dtypes=("f64", "f32"))
    solved, _ = rows_of(text, ["pdhg@9"], monkeypatch, PROGRAM, dtypes=("f64", "f32"))
    a = operations.get("pair").matrix(Csr.of(PROGRAM.read()))
    for (key, op, _), row in (rows | solved).items():
        if key == "csr5":
            assert (row["status"], row["reason"]) == ("skipped", "no kernel multiplies with A^T from its arrays")
            continue
        assert row["status"] == "ok", row["reason"]
        pair = op == "pair"
        assert row["work"] == (4 * a.nnz if pair else 9 * (4 * a.nnz + 5 * a.rows + 4 * a.cols))
        parts = {part.removesuffix("+vectors") for part in json.loads(row["t_kernels"])}
        assert parts == {"spmv", "spmv-t", *([] if pair else ["vectors"])}
        copies = {name.partition(".")[0] for name in json.loads(row["bytes_arrays"])}
        assert ("+" in key) == ({"a", "t"} <= copies)


def test_the_bound_of_a_solver_counts_its_vector_operations():
    measured = {"read": [(64, 1e-6), (1 << 30, 1e-3)], "sectors": [(64, 1e-15)], "lines": [(64, 1e-15)]}
    known = {"nnz": 1000, "fetched": bounds.Fetched(1.0, 1.0), "model_bytes": 1 << 20, "x_bytes": 64}
    product = bounds.upper(measured, **known)
    solver = bounds.upper(measured, **known, flops=14_000.0)
    assert solver.by == product.by == "bytes"
    assert solver.gflops == pytest.approx(7 * product.gflops)


@pytest.mark.gpu
@pytest.mark.timing
def test_solvers_run_on_a_gpu(tmp_path):
    chosen = {"op": "cg@20,pagerank@20", "mode": "hot", "device": "cuda:0", "convert": "both"}
    rows = spmvbench.run(["poisson2d:40"], "csr-scalar,csr5,ehyb,dasp,cusparse-csr-alg2", results=tmp_path, **chosen)
    assert set(rows["status"]) == {"ok"}, rows[["label", "op", "status", "reason"]].to_string()
    for row in rows.itertuples():
        assert set(json.loads(row.t_kernels)) == {"spmv", "vectors"}
        assert row.gbps == pytest.approx(1e-9 * row.model_bytes / row.t_median)
        assert row.bound_gflops > 0 and row.bound_by


@pytest.mark.gpu
@pytest.mark.timing
def test_pairs_run_on_a_gpu(tmp_path):
    chosen = {"op": "pair,pdhg@20", "mode": "hot", "device": "cuda:0", "convert": "device"}
    labels = "csr-scalar,csr5-dict+sell-pack,auto+csr-lanes,cusparse-csr-alg1+cusparse-csr-alg2"
    rows = spmvbench.run(["qap:6", "transport:30:40"], labels, results=tmp_path, **chosen)
    assert set(rows["status"]) == {"ok"}, rows[["label", "op", "status", "reason"]].to_string()
    parts = {op: set(json.loads(text)) for op, text in zip(rows["op"], rows["t_kernels"], strict=True)}
    assert parts["pair"] == {"spmv", "spmv-t"}
    assert parts["pdhg@20"] <= {"spmv", "spmv+vectors", "spmv-t", "spmv-t+vectors", "vectors"}
