"""What `import spmvbench` gives to scripts and notebooks."""

import importlib
import inspect
from pathlib import Path

import click
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.formats import Skip
from spmvbench.reports.api import report as spmvbench_report
from spmvbench.runner.arguments import precisions

MATRIX = sparse.eye_array(3, format="csr")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    a = sparse.random_array((40, 30), density=0.2, format="csr", rng=np.random.default_rng(1))
    return spmvbench.run({"mine": a}, "ell,csr-scalar", device="emulated", results=results, progress=False)


def test_dir_and_hints_are_complete():
    assert set(spmvbench.__all__) <= set(dir(spmvbench))
    assert all(callable(getattr(spmvbench.solve, name)) for name in spmvbench.solve.__all__)
    for name in set(spmvbench.__all__) - {"__version__", "formats", "solve"}:
        assert callable(getattr(spmvbench, name)), name
        function = spmvbench_report if name == "report" else getattr(spmvbench, name)
        signature = inspect.signature(function)
        hinted = [parameter.annotation for parameter in signature.parameters.values()] + [signature.return_annotation]
        assert inspect.Parameter.empty not in hinted, name
    assert (Path(spmvbench.__file__).parent / "py.typed").is_file()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spmvbench.nothing  # noqa: B018


@pytest.mark.parametrize("spec", ["ell", "csc-atomic", "ehyb", "spmspv-csc-atomic"])
def test_a_format_times_x_is_the_product(spec):
    a = spmvbench.load("poisson2d:9")
    fmt = spmvbench.formats.get(spec).from_csr(a)
    x = np.linspace(-1, 1, a.shape[1])
    np.testing.assert_allclose(fmt @ x, a @ x, rtol=1e-12)
    np.testing.assert_array_equal(fmt @ x, spmvbench.multiply(fmt, x, device="emulated"))
    assert (fmt @ list(x)).shape == (81,)


@pytest.mark.parametrize("given", [np.eye(3), [np.eye(3)], 5, {"a": np.ones(3)}, [None], b"pde:4", [1.5]])
@pytest.mark.parametrize("function", [spmvbench.run, spmvbench.load, spmvbench.operator, spmvbench.advise])
def test_what_is_no_matrix_is_no_name(function, given):
    with pytest.raises(TypeError, match=r"expected a sparse matrix, got|by its name or file, not by"):
        function(given)


def test_a_product_that_cannot_be_is_refused():
    a = spmvbench.load("poisson2d:4")
    fmt = spmvbench.formats.get("ell").from_csr(a)
    with pytest.raises(ValueError, match="the matrix has 16 columns"):
        fmt @ np.ones(15)
    with pytest.raises(ValueError, match="the matrix has 16 columns"):
        fmt @ np.ones((16, 2))
    with pytest.raises(TypeError):
        np.ones(16) @ fmt
    with pytest.raises(UsageError, match="does not multiply"):
        spmvbench.formats.get("bfs-push").from_csr(a) @ np.ones(16)
    vendor = spmvbench.formats.get("cusparse-coo")
    with pytest.raises(Skip, match="runs on cuda only"):
        vendor.from_csr(a) @ np.ones(16)


@pytest.mark.gpu
def test_a_product_is_where_x_is():
    cupy = pytest.importorskip("cupy")
    from cupyx.scipy.sparse import csr_matrix

    a = spmvbench.load("poisson2d:9")
    fmt = spmvbench.formats.get("sell").from_csr(csr_matrix(a))
    x = np.linspace(-1, 1, a.shape[1])
    on_gpu = fmt @ cupy.asarray(x)
    assert isinstance(on_gpu, cupy.ndarray) and isinstance(fmt @ x, np.ndarray)
    np.testing.assert_allclose(on_gpu.get(), a @ x, rtol=1e-12, atol=1e-14)  # a grid's inner rows cancel out
    with pytest.raises(UsageError, match="held by numpy"):
        spmvbench.multiply(spmvbench.formats.get("ell").from_csr(a), x, device="cuda:0")


def test_run_measures_and_returns_rows(rows):
    assert sorted(rows["label"]) == ["csr-scalar", "ell"] and set(rows["status"]) == {"ok"}
    assert set(rows["name"]) == {"mine"} and set(rows["rows"]) == {40} and set(rows["cols"]) == {30}
    assert rows.attrs["environment"]["device"] == "emulated"


def test_labels_are_no_paths(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "mydata.npz").write_text("a user's")
    (tmp_path / "work" / "path").mkdir()
    labels = [str(tmp_path / "work" / "mydata"), "mydata", "path/name", "../../esc", "..", "a b ü", "0"]
    before = sorted(path for path in tmp_path.rglob("*"))
    results = tmp_path / "results"
    found = spmvbench.run(dict.fromkeys(labels, MATRIX), "ell", device="emulated", results=results, progress=False)
    assert found["name"].tolist() == labels and set(found["status"]) == {"ok"}
    assert sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(results)) == before
    assert (tmp_path / "work" / "mydata.npz").read_text() == "a user's"
    again = spmvbench.run({"..": MATRIX}, "ell", device="emulated", results=results, progress=False)
    assert again["started_at"].tolist() == found.loc[found["name"] == "..", "started_at"].tolist()


@pytest.mark.slow
def test_run_measures_other_operations(tmp_path):
    found = spmvbench.run("pde:3", "all", op="bfs@0", device="emulated", results=tmp_path, progress=False)
    assert set(found["op"]) == {"bfs@0"} and set(found["status"]) == {"ok"} and "bfs-push" in set(found["label"])


@pytest.mark.slow
def test_run_measures_values_narrower_than_vectors(tmp_path):
    options = {"device": "emulated", "results": tmp_path, "progress": False}
    found = spmvbench.run("pde:4", "csr-lanes,csr-overlap", values="f64,f16", vectors=["f64"], **options)
    found = found.set_index(["dtype", "format"])
    assert found["status"].to_dict() == {
        ("f64", "csr-lanes"): "ok", ("f64", "csr-overlap"): "ok", ("f16/f64", "csr-lanes"): "ok",
        ("f16/f64", "csr-overlap"): "skipped",
    }  # fmt: skip
    assert "one type" in found.loc[("f16/f64", "csr-overlap"), "reason"]
    wide, narrow = (found.loc[(dtype, "csr-lanes")] for dtype in ("f64", "f16/f64"))
    saved = 6 * wide["nnz"]  # bytes; x and y stay as they are
    assert wide["bytes_format"] - narrow["bytes_format"] == wide["model_bytes"] - narrow["model_bytes"] == saved
    assert narrow["x_sectors"] == wide["x_sectors"] and narrow["decoded"] == "yes"
    assert wide["rounding_error"] == 0 < narrow["rounding_error"] < 2**-11
    assert 0 < narrow["error_ratio"] < 1


@pytest.mark.slow
def test_orders_narrower_values_and_transposed_products_at_once(tmp_path):
    """Each case in each order: right, or skipped with its reason."""
    options = {"values": "f32", "vectors": "f64", "device": "emulated", "results": tmp_path, "progress": False}
    labels = ("csr-lanes", "dia", "csr5", "csr-overlap")
    found = spmvbench.run(["rmat:6:4", "pde:4"], labels, op="spmv,spmv-t", order="rcm,none", **options)
    none = "no kernel multiplies with A^T from its arrays"
    reasons = {("csr5", "spmv-t@1"): none}
    reasons |= {("csr-overlap", op): "csr_overlap takes values and vectors of one type" for op in ("spmv", "spmv-t@2")}
    assert len(found) == 2 * 4 * 3 * 2 and set(found["dtype"]) == {"f32/f64"}
    for row in found.itertuples():
        expected = reasons.get((row.label, row.op), "")
        assert (row.status, row.reason) == ("skipped" if expected else "ok", expected), (row.name, row.label, row.op)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((None, None, None), ("f64",)),
        ((("f32", "f64"), None, None), ("f32", "f64")),
        ((None, ("f32",), None), ("f32/f64",)),
        ((None, None, ("f32",)), ("f32",)),
        ((None, ("f64", "f32", "bf16"), ("f64", "f32")), ("f64", "f32/f64", "bf16/f64", "f32", "bf16/f32")),
    ],
)
def test_types_of_values_and_vectors_are_combined(options, expected):
    assert precisions(*options) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((("f64",), ("f32",), None), "leave it out with --values"),
        ((None, ("f64", "f16"), ("f32",)), "values in f64 are wider than the vectors: add --vectors f64"),
    ],
)
def test_types_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        precisions(*options)


def test_python_has_the_conditions_and_defaults_of_the_command_line(tmp_path):
    options = {"device": "emulated", "results": tmp_path, "progress": False, "timeout": 60}
    with pytest.raises(TypeError, match="run\\(\\) has no argument 'max_row'; did you mean max_rows"):
        spmvbench.run(set="demo", max_row=50, **options)
    found = spmvbench.run(set="demo", max_rows=50, **options)
    assert set(found["name"]) == {"empty:50:70"} and found["label"].nunique() == 17


def test_run_again_measures_nothing_again(rows):
    results = spmvbench.load_run(rows.attrs["folder"])
    a = sparse.random_array((40, 30), density=0.2, format="csr", rng=np.random.default_rng(1))
    again = spmvbench.run(
        {"mine": a}, ["ell"], device="emulated", results=rows.attrs["folder"].rsplit("/", 1)[0], progress=False
    )
    assert list(again["started_at"]) == list(results.loc[results["label"] == "ell", "started_at"])


@pytest.mark.parametrize(
    ("matrices", "options", "said"),
    [
        ([], {}, "nothing to run"),
        ("pde:8", {"formats": []}, "names no format"),
        ("pde:8", {"min_nnz": -1}, "min_nnz takes an integer from 0 on"),
        ("pde:8", {"budget": float("nan")}, "nan is no number of seconds above 0"),
        ("pde:8", {"seed": -1}, "-1 is no seed"),
        ("pde:8", {"seed": 0.5}, "0.5 is no seed"),
        ({"": MATRIX}, {}, "'' is no label"),
        ({"a\nb": MATRIX}, {}, "is no label"),
        ({"\x1b[31m": MATRIX}, {}, "is no label"),
        ({"a" * 201: MATRIX}, {}, "is no label"),
        ({"1": MATRIX, 1: MATRIX}, {}, "two matrices have the label '1'"),
    ],
)
def test_run_says_what_is_wrong(tmp_path, matrices, options, said):
    with pytest.raises(UsageError, match=said):
        spmvbench.run(matrices, **{"formats": "ell", "device": "emulated", "results": tmp_path} | options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "function", "names"),
    [
        ("run", spmvbench.run, {"ops": "op", "orders": "order", "dtypes": "dtype", "modes": "mode"}),
        ("advise", spmvbench.advise, {}),
    ],
)
def test_defaults_are_those_of_the_command_line(name, function, names):
    options = importlib.import_module(f"spmvbench.cli.{name}").command.params
    asked = {names.get(option.name, option.name): option for option in options if isinstance(option, click.Option)}
    python = inspect.signature(function).parameters
    common = python.keys() & asked.keys() - {"dtype", "op"}  # a NumPy type; texts and lists
    assert {"seed", "convert"} <= common or "spmvs" in common
    assert {at: asked[at].to_info_dict()["default"] for at in common} == {at: python[at].default for at in common}


@pytest.mark.slow
def test_plot_and_report_take_rows(rows, tmp_path):
    shown = spmvbench.plot(rows, "bytes")
    assert shown._repr_svg_().startswith("<?xml") and len(shown.data) == 2
    assert shown.save(tmp_path / "bytes.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="should end in"):
        shown.save(tmp_path / "bytes.gif")
    page = spmvbench.report(rows[rows["label"] == "ell"], tmp_path / "out", figures=["bytes"])
    assert page.is_file() and (tmp_path / "out" / "figures" / "bytes.svg").is_file()
    assert spmvbench.report(rows.attrs["folder"], figures=["bytes"]).is_relative_to(rows.attrs["folder"])
    marked = spmvbench.plot(rows, "gflops", emulated=True, baseline="ell")
    assert "EMULATED" in [text.get_text() for text in marked.figure.texts]


def test_plot_and_report_take_rows_of_any_table(rows, tmp_path):
    """As CSV, Arrow's types or a selection of columns give them."""
    drawn = spmvbench.plot(rows, "bytes").data
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for given in (
        rows.convert_dtypes(dtype_backend="pyarrow"),
        pd.read_csv(tmp_path / "rows.csv"),
        pd.read_csv(tmp_path / "rows.csv", dtype_backend="pyarrow"),
        rows.drop(columns=["samples", "t_kernels", "energy"]),
    ):
        assert spmvbench.plot(given, "bytes").data.equals(drawn)
        assert spmvbench.report(given, tmp_path / "out", figures=["bytes"]).is_file()
    for shown in (lambda none: spmvbench.plot(none, "bytes"), lambda none: spmvbench.report(none, tmp_path / "none")):
        with pytest.raises(UsageError, match="there are no rows to show"):
            shown(rows[rows["label"] == "none"])
    with pytest.raises(TypeError, match="no rows of a run: the column nnz holds other values than int"):
        spmvbench.plot(pd.DataFrame({"nnz": ["many"]}))


def test_figures_have_no_settings_of_the_user(rows):
    with mpl.rc_context({"text.usetex": True, "lines.linewidth": 9, "axes.facecolor": "red"}):
        theirs = spmvbench.plot(rows, "bytes")._repr_svg_()
        assert mpl.rcParams["lines.linewidth"] == 9
    assert theirs == spmvbench.plot(rows, "bytes")._repr_svg_()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("profil", {}, "did you mean profile"),
        ("survey", {}, "survey has several figures"),
        ("survey-lessons", {}, "tables and no picture"),
        ("profile", {}, "only verified rows are of the emulated device"),
        ("bytes", {"baseline": "elll"}, "did you mean ell"),
        ("bytes", {"published": ["survey"]}, "survey"),
    ],
)
def test_plot_says_what_is_wrong(rows, name, options, said):
    with pytest.raises(UsageError, match=said):
        spmvbench.plot(rows, name, **options)


def test_report_of_rows_without_a_run_asks_where_to(rows):
    bare = rows.copy()
    bare.attrs.clear()
    with pytest.raises(ValueError, match="give out, a folder"):
        spmvbench.report(bare)
