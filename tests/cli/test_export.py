"""`spmvbench export` on a run folder written by the store; no kernel runs."""

import csv
import io
import json

import pytest

from spmvbench.rows import store
from spmvbench.rows.schema import COLUMNS
from tests import made

CASES = [
    ("a", "ell", 1e-5),
    ("a", "csr_x", 2e-5),
    ("b", "ell", "skipped: 100 % | padding_x\nmore"),
    ("b", "csr_x", 4e-5),
]


def write_run(folder, cases=CASES, **columns):
    about = {"group": "HB", "rows": 10, "cols": 12, "nnz": 50, "row_len_std": 2.0, "row_len_mean": 5.0}
    about |= {"device_name": "NVIDIA X", "work": 100_000, "repeats": 7, "bytes_arrays": '{"values": 640}'}
    about |= {"error_ratio": 0.5, "started_at": "2026-01-01T10:00:00"}
    made.write_run(folder, cases, {"command": ["spmvbench", "run", "pde:8"]}, **about | columns)


@pytest.fixture
def export(command, tmp_path):
    write_run(tmp_path / "run")
    return lambda *args: command("export", "run", "--results", tmp_path, "--to", *args)


def test_csv_and_json_hold_every_column_of_every_case(export):
    records = json.loads(export("json").out)
    lines = list(csv.DictReader(io.StringIO(export("csv").out)))
    assert [row["name"] + row["label"] for row in records] == [name + label for name, label, _ in CASES]
    assert list(records[0]) == list(lines[0]) == [name for name in COLUMNS if name != "samples"]
    assert [row["t_median"] for row in records] == [*map(pytest.approx, (1e-5, 2e-5)), None, pytest.approx(4e-5)]
    assert [float(line["t_median"] or "0") for line in lines] == pytest.approx([1e-5, 2e-5, 0, 4e-5])
    sampled = json.loads(export("json", "--samples").out)
    assert sampled[0]["samples"] == pytest.approx([1e-5] * 9) and sampled[2]["samples"] == []
    (first, *_) = csv.DictReader(io.StringIO(export("csv", "--samples").out))
    assert json.loads(first["samples"]) == pytest.approx([1e-5] * 9)


def test_markdown_and_latex_are_the_tables_of_the_page(export):
    shown = export("markdown").out.splitlines()
    assert shown[0] == "**f64 hot**" and shown[2].startswith("| Format | ") and "---:" in shown[3]
    assert [line.split(" | ")[0] for line in shown[4:]] == ["| csr_x", "| ell"]
    grid = export("markdown", "--table", "matrices").out
    assert "| HB/a | ell | 5.00 | **10.0** |" in grid and "| HB/b | csr_x | **2.50** | - [a] |" in grid
    assert r"[a] skipped: 100 % \| padding_x" in grid
    latex = export("latex", "--table", "matrices").out
    assert r"HB/b & csr\_x & \textbf{2.50} & -\textsuperscript{a} \\" in latex
    assert r"skipped: 100 \% \textbar{} padding\_x" in latex
    assert r"100 % \| padding_x" in export("markdown", "--table", "reasons").out
    assert "| HB/a | ell | f64 hot | ok | 10.0 us | 10.0 | 12.8 |  |" in export("markdown", "--table", "cases").out


def test_a_table_as_numbers(command, export, tmp_path):
    rows = json.loads(export("json", "--table", "formats").out)
    assert [(row["Table"], row["Format"], row["Skipped"]) for row in rows] == [
        ("f64 hot", label, skipped) for label, skipped in (("csr_x", 0), ("ell", 1))
    ]
    (a, b) = csv.DictReader(io.StringIO(export("csv", "--table", "matrices").out))
    assert (a["Best"], float(a["ell"]), b["ell"]) == ("ell", pytest.approx(10), "")
    write_run(tmp_path / "right", [("b", "ell", 1e-5)])
    found = command("export", "right", "--results", tmp_path, "--to", "csv", "--table", "reasons")
    assert found.out == "Table,Format,Status,Cases,Matrices,Reason,First\n"


def test_ginkgo_has_the_layout_of_its_benchmarks(export, tmp_path):
    out = tmp_path / "ginkgo.json"
    assert export("ginkgo", "--out", out).code == 0
    a, b = json.loads(out.read_text())
    assert a["problem"]["group"] == "HB" and a["problem"]["name"] == "a" and a["filename"] == "HB/a/a.mtx"
    assert [a["rows"], a["cols"], a["nonzeros"], a["problem"]["nonzeros"]] == [10, 12, 50, 50]
    assert a["problem"]["row_distribution"]["variance"] == 4.0
    assert a["spmv"]["ell"] == {"storage": 640, "time": pytest.approx(1e-5), "repetitions": 63, "completed": True}
    assert a["optimal"] == {"spmv": "ell"} and b["optimal"] == {"spmv": "csr_x"}
    assert b["spmv"]["ell"] == {"completed": False, "error_type": "skipped", "error": "100 % | padding_x\nmore"}
    expected = {"system": "NVIDIA X", "executor": "cuda", "provider": "SuiteSparse", "collection": "HB"}
    assert a["dataset"] == expected | {"problem": "a.json"}


def test_settings_are_systems_of_their_own(command, tmp_path):
    write_run(tmp_path / "run")
    for name, label, t in CASES:
        row = store.load(tmp_path / "run").iloc[0].to_dict()
        own = {"case_id": f"{name}{label}cold", "name": name, "label": label, "mode": "cold"}
        store.append(tmp_path / "run", row | own | {"samples": [1.0 if isinstance(t, str) else t]})
    records = json.loads(command("export", "run", "--results", tmp_path, "--to", "ginkgo").out)
    systems = [record["dataset"]["system"] for record in records]
    assert systems == ["NVIDIA X f64 hot"] * 2 + ["NVIDIA X f64 cold"] * 2


def test_times_of_the_emulated_device_are_no_tables(command, tmp_path):
    write_run(tmp_path / "run", device="emulated", device_name="emulated")
    result = command("export", "run", "--results", tmp_path, "--to", "ginkgo")
    assert result.code == 2 and "no SpMV of these rows was timed on a GPU" in result.err
    grid = command("export", "run", "--results", tmp_path, "--to", "markdown", "--table", "matrices").out
    assert "Bytes per nonzero, f64 hot" in grid and "GFLOPS" not in grid


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ginkgo", "--table", "cases"], "exclude each other"),
        (["markdown", "--samples"], "--samples goes with"),
        (["xlsx"], "'xlsx' is not one of"),
        ([], "Option '--to' requires an argument"),
        (["csv", "--table", "products"], "run cannot be exported: it has no verified row of cusparse-csr-alg1 or"),
    ],
)
def test_wrong_words_are_said(export, args, said):
    result = export(*args)
    assert result.code == 2 and said in result.err and result.out == ""


def test_times_to_n_products_are_written(command, tmp_path):
    cases = [("a", "cusparse-csr-alg1", 4e-5), ("a", "ell", 1e-5), ("b", "cusparse-csr-alg1", 1e-5), ("b", "ell", 4e-5)]
    write_run(tmp_path / "run", cases, t_convert_device=1e-3, t_setup=0.0)
    shown = command("export", "run", "--results", tmp_path, "--to", "csv", "--table", "products")
    lines = {(line["Format"], float(line["SpMVs"])): line for line in csv.DictReader(io.StringIO(shown.out))}
    assert {chooser for chooser, _ in lines} == {"oracle", "best single format", "cuSPARSE CSR"}
    # A thousand: 41 ms and 11 ms, in the other order on the other matrix.
    assert float(lines["cuSPARSE CSR", 1000]["Slowdown"]) == pytest.approx((41 / 11) ** 0.5)
    assert float(lines["oracle", 1000]["Speed-up"]) == pytest.approx((41 / 11) ** 0.5)
    assert lines["oracle", 1000]["Matrices"] == "2"
