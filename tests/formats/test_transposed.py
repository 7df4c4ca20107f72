"""y = A^T x from the arrays of A: every format that offers it, against SciPy; the others say that they do not."""

import pickle
from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats, testing
from spmvbench.errors import UsageError
from spmvbench.formats import Format, Skip, single_steps
from spmvbench.formats.arrays import Csr
from spmvbench.measure import operations
from spmvbench.runner import plan
from tests.formats.together import together

HARD = testing.hard_matrices()
NAMES = ("1xN", "empty rows at both ends", "one full row", "power law", "uniform 8", "3x3 blocks", "stored zeros")
PLAIN = [cls for cls in map(formats.get, formats.keys()) if cls.op == "spmv"]
KEYS = [cls.key for cls in PLAIN if cls.transposes()]
ON_HOST = [key for key in KEYS if "emulated" in formats.get(key).devices]


def of_one_kind(keys):
    """These keys, each with whether another before has the same functions that make the launches: a slow test."""
    seen, found = set(), []
    for key in keys:
        cls = formats.get(key)
        made_by = cls.transposed, cls.add_transposed
        found.append((key, made_by in seen))
        seen.add(made_by)
    return found


def transposed(key):
    """The steps of y = A^T x for every matrix that a format takes, with the matrix, x and y."""
    for name in NAMES:
        for dtype in (np.float64, np.float32):
            a = Csr.of(HARD[name]).astype(dtype)
            pattern = Csr(a.shape, a.row_ptr, a.col_idx, (1 + a.col_idx % 3).astype(dtype))
            x = (1 + np.arange(a.rows) % 5).astype(dtype)
            y = np.full(a.cols, np.nan, dtype)
            with suppress(Skip):
                yield list(testing.convert(key, pattern).transposed(x, y)), pattern, x, y


def launched(key, slow):
    """Source and expression of the kernels that a format launches in the tests below."""
    for steps, *_ in transposed(key):
        yield from ((launch.source, launch.kernel) for launch in single_steps(steps))


@pytest.fixture(scope="session")
def device(request):
    fast = [key for key, slow in of_one_kind(ON_HOST) if not slow]
    return together(request, __file__, launched, fast, ON_HOST)


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=[pytest.mark.slow] * slow) for key, slow in of_one_kind(ON_HOST)]
)
def test_transposed_products_are_exact(key, device):
    checked = 0
    for steps, a, x, y in transposed(key):
        device.compile(steps).run()
        expected = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape).T @ x
        assert np.array_equal(y, expected), a.shape
        checked += 1
    assert checked >= 4


def test_formats_without_a_kernel_say_so():
    for cls in PLAIN:
        if cls.transposes():
            continue
        assert operations.get("spmv-t@1").refusal(cls) == "no kernel multiplies with A^T from its arrays"
        assert operations.get("spmv-t@2").refusal(cls) == ""
    with pytest.raises(Skip, match="from the arrays of Csr5"):
        testing.convert("csr5", HARD["uniform 8"]).transposed(np.zeros(1), np.zeros(1))
    assert len(KEYS) > 50 and "csr5" not in KEYS and "ehyb" not in KEYS
    assert not Format.transposes()


@pytest.mark.slow
def test_rows_answer_one_copy_or_two(tmp_path):
    rows = spmvbench.run(
        ["rect:30:50:4", "poisson2d:6"], "csr-scalar,csr5,dia", op="spmv,spmv-t", run="t", results=tmp_path,
        budget=0.001, progress=False,
    )  # fmt: skip
    found = rows.pivot(index=["name", "format"], columns="op", values="status")
    assert (found[["spmv", "spmv-t@2"]] == "ok").all(axis=None)
    assert found["spmv-t@1"].unstack()[["csr-scalar", "dia"]].eq("ok").all(axis=None)
    assert found["spmv-t@1"].unstack()["csr5"].eq("skipped").all()
    work = rows[rows["status"] == "ok"].groupby("name")["work"].nunique()
    assert (work == 1).all()
    from spmvbench.analysis.transposed import transposed

    table = transposed(spmvbench.load_run(tmp_path / "t").pipe(latest)).set_index(["label", "matrix"])
    assert set(table.index.get_level_values("label")) == {"csr-scalar", "csr5", "dia"}
    csr5 = table.loc[("csr5", "synthetic/poisson2d:6")]
    assert np.isnan(csr5["one"]) and csr5["two"] > 0 and csr5["bytes_two"] > csr5["bytes_one"]


def latest(rows):
    from spmvbench.analysis.cases import latest_cases

    return latest_cases(rows)


def test_two_formats_with_a_plus_are_one_with_the_parameters_of_both(device):
    ((cls, params),) = formats.parse("sell+csr-vector[a.height=64,t.lanes=4]")
    assert cls is formats.get("sell+csr-vector") is not formats.get("sell+csr-lanes")
    fmt = pickle.loads(pickle.dumps(cls.from_csr(HARD["uniform 8"], **params)))
    assert type(fmt) is cls and formats.label(cls, dict(fmt.params)) == "sell+csr-vector[a.height=64,t.lanes=4]"
    assert (fmt.a.height, fmt.t.lanes, fmt.t.shape) == (64, 4, fmt.shape[::-1])
    assert fmt.nbytes == fmt.a.nbytes + fmt.t.nbytes == cls.estimate(Csr.of(HARD["uniform 8"]), **params)
    for text, said in [
        ("bfs-do+csr5", "bfs-do computes bfs"),
        ("csr5+csr6", "there is no format 'csr6'"),
        ("csr5+", "of two formats, write"),
        ("csr5+csr5+csr5", "more than two formats"),
        ("sell[height=64]+csr5", r"of two formats key\+key\[a.name=value"),
    ]:
        with pytest.raises(UsageError, match=said):
            formats.parse(text)


def test_the_integer_test_is_left_out_where_the_longest_rows_allow_other_integers(device):
    wide = Csr.of(HARD["1xN"]).astype(np.float32)
    op = operations.get("spmv-t@1")
    found = op.checks(wide, wide.on(device.xp), device, 0, 1)
    assert len(found.dense) >= 2 and found.dense[0].y.shape == (wide.cols,)
    assert operations.transpose(operations.transpose(wide)).col_idx.tolist() == wide.col_idx.tolist()


@pytest.mark.parametrize(("word", "names"), [("spmv-t", ["spmv-t@1", "spmv-t@2"]), ("spmv-t@2", ["spmv-t@2"])])
def test_names(word, names):
    assert operations.instances(word) == names


@pytest.mark.parametrize("word", ["spmv-t@", "spmv-t@3", "spmv-t@x"])
def test_wrong_names_are_refused(word):
    with pytest.raises(UsageError, match="names no number of copies: write spmv-t@1 or spmv-t@2"):
        operations.instances(word)


def test_groups_share_a_matrix(monkeypatch):
    from spmvbench.matrices.lookup import obtain

    cases = plan.cross(
        [obtain("pde:3")],
        formats.parse("csr-scalar"),
        ["f64"],
        ["hot"],
        "emulated",
        0,
        ["spmv", "spmv-t@1", "spmv-t@2"],
    )
    assert [group.ops for group in plan.grouped(cases)] == [["spmv"], ["spmv-t@1"], ["spmv-t@2"]]
