"""`spmvbench import ginkgo`: a sample in the layout of Ginkgo's benchmarks, and their own data where they are."""

import gzip
import json
import math
import os
import re
from pathlib import Path

import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.rows import store
from tests.cli.test_export import write_run

LENGTHS = {"min": 1, "q1": 2, "median": 3.5, "q3": 5, "max": 9, "mean": 4.0, "variance": 2.25, "skewness": 0.5}


def entry(name, nonzeros, times, unit=1.0, size=12.5, **problem):
    """An entry as Ginkgo writes it. times: seconds by format; None: not completed."""
    about = {"group": "HB", "name": name, "rows": 100, "cols": 90, "nonzeros": nonzeros, "psym": 0.5, "kind": "graph"}
    lengths = {"row_distribution": LENGTHS, "col_distribution": LENGTHS | {"max": 8}, "2d3d": True}
    results = {
        of: {"completed": False}
        if seconds is None
        else {"storage": size * nonzeros, "time": seconds / unit, "repetitions": 10, "completed": True}
        for of, seconds in times.items()
    }
    return {"filename": "x", "problem": about | lengths | problem, "spmv": results, "optimal": {}}


def sample(unit=1.0, **more):
    return [
        entry("a", 1_000, {"Coo": 9e-6, "Csr": 6e-6, "CuspCsrex": 5e-6, "hipsparse_csr": None}, unit, **more),
        entry("b", 4_000_000, {"Coo": 4e-4, "Csr": 3e-4, "CuspCsrex": 2e-4}, unit, **more),
    ]


@pytest.fixture
def imported(command, tmp_path):
    def run(entries, *args, file="K40m.json.gz"):
        text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
        (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
        return command("import", "ginkgo", tmp_path / file, "--results", tmp_path, *args)

    return run


@pytest.mark.parametrize(("name", "unit"), [("s", 1.0), ("us", 1e-6), ("ns", 1e-9)])
def test_units_are_found(command, imported, tmp_path, name, unit):
    said = imported(sample(unit))
    assert said.code == 0 and f"2 matrices on K40m, times in {name}" in said.out and "7 rows imported" in said.out
    rows = store.load(tmp_path / "K40m").set_index(["name", "label"])
    assert rows.loc["b", "t_median"].to_dict() == pytest.approx(
        {"ginkgo-coo": 4e-4, "ginkgo-csr": 3e-4, "cusparse-csrex": 2e-4}, rel=1e-6
    )
    csr = rows.loc[("b", "ginkgo-csr")]
    assert csr["gflops"] == pytest.approx(8e6 / 3e-4 / 1e9) and csr["bytes_per_nnz"] == 12.5
    assert (csr["device"], csr["device_name"], csr["row_len_std"], csr["row_len_max"]) == ("imported", "K40m", 1.5, 9)
    assert (
        rows[["tiles", "bandwidth", "diagonals", "empty_rows", "stored_zeros"]].isna().all(axis=None)
    )  # no file has them
    failed = rows.loc[("a", "hipsparse-csr")]
    (tmp_path / "none.json").write_text(json.dumps([entry("b", 4_000_000, {"Csr": None, "Ell": 3e-4 / unit}, unit)]))
    again = ["--run", "twice", "--unit", name, "--gpu", "K40m"]
    imported(sample(unit), tmp_path / "none.json", *again, file="first.json")
    kept = store.load(tmp_path / "twice").set_index(["name", "label"])["status"]
    assert kept.drop(("b", "ginkgo-ell")).to_dict() == rows["status"].to_dict(), (
        "what was not measured replaces no time"
    )
    assert failed["status"] == "error" and "not completed" in failed["reason"]
    assert str(latest_cases(rows.reset_index())["setting"].iloc[0]) == "f64 hot imported"
    _, *facts = (tmp_path / "K40m" / "facts.csv").read_text().splitlines()
    assert facts[0] == "HB/a,100,90,1000,0.5,yes,graph,K40m.json.gz,,1,2,3.5,5,9,1.5,1,2,3.5,5,8,1.5"
    imported([*sample(unit), entry("c", 1_000, {"Csr": 6e-6}, unit)], "--gpu", "K40m", file="more.json")
    assert command("runs", "merge", "K40m", "more", "--into", "both", "--results", tmp_path).code == 0
    _, *both = (tmp_path / "both" / "facts.csv").read_text().splitlines()
    assert both[:2] == facts and [line.partition(",")[0] for line in both[2:]] == ["HB/c"]
    (tmp_path / "more" / "facts.csv").write_text("")
    said = command("runs", "merge", "K40m", "more", "--into", "again", "--results", tmp_path)
    assert said.code == 1 and "holds no facts of matrices" in said.err and not (tmp_path / "again").exists()


@pytest.mark.parametrize("size", [1.0, math.inf, 10**400])
def test_storage_that_counts_elements_or_is_no_number_is_no_bytes(imported, tmp_path, size):
    imported(sample(size=size))
    assert (store.load(tmp_path / "K40m")["bytes_format"] == 0).all()


def test_an_export_comes_back(command, imported, tmp_path):
    write_run(tmp_path / "run")

    def exported(run):
        return json.loads(command("export", run, "--results", tmp_path, "--to", "ginkgo").out)

    ours = exported("run")
    assert "NVIDIA X" in imported(ours, "--run", "back", file="run.json").out
    back = exported("back")
    for one, other in zip(ours, back, strict=True):
        assert other["spmv"].keys() == one["spmv"].keys() and other["optimal"] == one["optimal"]
        for label, result in one["spmv"].items():
            same = {"time": pytest.approx(result["time"], rel=1e-6)} if "time" in result else {}
            assert other["spmv"][label] == result | same
        assert (other["dataset"], other["spmvbench"]) == (one["dataset"], one["spmvbench"])
        assert {k: other[k] for k in ("rows", "cols", "nonzeros")} == {k: one[k] for k in ("rows", "cols", "nonzeros")}
    # What was measured here and what was imported have rankings of their own in one report, and check says which it is.
    both = latest_cases(store.load_all([tmp_path / "run", tmp_path / "back"]))
    assert sorted(map(str, both["setting"].unique())) == ["f64 hot", "f64 hot imported"]
    said = command("check", "back", "--results", tmp_path)
    assert said.code == 4 and "4 of 4 rows are imported from run.json" in said.out and "FAILED" not in said.out
    assert "imported rows" in command("bundle", "back", "--results", tmp_path).err
    assert re.search("back +4 +0 +2 .*run +4 +3 +2", command("runs", "--results", tmp_path).out, re.DOTALL)  # verified
    assert command("report", "--all", "--figures", "gflops", "--results", tmp_path).code == 0
    page = (tmp_path / "back" / "report" / "index.html").read_text()
    assert "4 of 4 rows are imported: others measured them" in page and "Imported</" in page


def test_beside_mixes_what_was_asked_for(command, imported, tmp_path):
    write_run(tmp_path / "run", device_name="K40m", group="HB", nnz=1000, work=2000)
    imported(sample())
    asked = ["run", "--beside", "K40m", "--results", tmp_path, "--figures", "gflops", "--out", tmp_path / "report"]
    assert command("report", *asked).code == 0
    drawn = (tmp_path / "report" / "figures" / "gflops.csv").read_text()
    assert "f64 hot,ginkgo-csr (K40m),HB/a," in drawn and "f64 hot,ell,HB/a," in drawn


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not the JSON of Ginkgo's benchmarks"),
        (b"{}", "is not the JSON of Ginkgo's benchmarks: it is no list"),
        (gzip.compress(b"[]", mtime=0)[:-8], "is not the JSON of Ginkgo's benchmarks: its end is missing"),
        ([], "holds no result of an SpMV"),
        ([{"problem": {"group": "HB"}, "spmv": {"Csr": {}}}], "entry 1: its problem has no group or no name"),
        ([entry("a", 10, {"Csr": 1.0}, rows="many")], "entry 1: its problem has no rows or no nonzeros"),
        ([entry("a", 10, {"Csr": None})], "no product that was completed and timed"),
        ([entry("a", 10, {"Csr": 3e-4})], "of a GPU in no unit"),
        ([entry("a" * 2000, 10, {"Csr": 6e-6})], "name has more than 1,000 characters"),
        ([entry("a", 10, {"Csr": 6e-6}, cols=2**70)], "cannot be read|no row can hold"),
    ],
)
def test_what_is_no_such_file(imported, tmp_path, content, said):
    result = imported(content, file="bad.json")
    assert result.code == 1 and re.search(said, result.err) and not (tmp_path / "bad").exists()


def test_a_unit_that_is_said_and_a_run_that_is_there(imported):
    assert imported([entry("a", 10, {"Csr": 3e-4})], "--unit", "s").code == 0
    assert "is there already" in imported(sample()).err


@pytest.mark.parametrize(
    ("file", "unit", "formats", "matrices"),
    [("K40m", "ns", 17, 2742), ("V100_SXM2", "s", 5, 2838), ("MI250X", "s", 10, 2838)],
)
def test_ginkgos_own_data(command, tmp_path, file, unit, formats, matrices):
    folder = os.environ.get("SPMVBENCH_GINKGO")
    if not folder:
        pytest.skip(
            "needs Ginkgo's data (SPMVBENCH_GINKGO=folder with K40m.json.gz, V100_SXM2.json.gz, MI250X.json.gz)"
        )
    said = command("import", "ginkgo", Path(folder) / f"{file}.json.gz", "--results", tmp_path)
    assert f"times in {unit}" in said.out
    rows = store.load(tmp_path / file)
    assert (rows["label"].nunique(), rows["name"].nunique()) == (formats, rows["name"].nunique())
    assert len(rows[["group", "name"]].drop_duplicates()) == matrices
    fastest = rows[rows["status"] == "ok"].groupby(["group", "name"])["gflops"].max()
    assert 0.1 < fastest.median() < 100 and fastest.max() < 1000
