"""`spmvbench report` on run folders written by the store; no kernel runs."""

import math
import re

import pandas as pd
import pytest

from spmvbench.rows import store
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row
from tests.made import row


def write_run(results, run, started, seconds=1e-5, device="cuda:0", matrices=("G/a", "G/b")):
    """A run of two matrices in two formats, and a session's record."""
    folder = results / run
    folder.mkdir(parents=True)
    for group, name in (matrix.split("/") for matrix in matrices):
        for label, factor in (("csr-vector", 1.0), ("ell", 0.5)):
            t = seconds * factor
            known = {"run_id": run, "case_id": f"{name}-{label}-{device}", "group": group, "matrix_sha256": "ab" * 32}
            known |= {"nnz": 1000, "rows": 100, "cols": 100, "row_len_mean": 10.0, "row_len_cv": 0.1, "params": "{}"}
            known |= {"device": device, "device_name": "a device", "gflops": 2e-6 / t, "bytes_format": 12400}
            known |= {"bytes_per_nnz": 12.4, "model_bytes": 14000, "t_convert_host": 1e-3, "error_ratio": 0.1}
            known |= {"t_transfer": math.nan if device == "emulated" else 1e-4, "t_convert_device": math.nan}
            store.append(folder, row(name, label, t) | known | {"started_at": f"{started}T00:00:00.000000+00:00"})
    store.append_session(folder, {"started": started, "device": device})
    return folder


@pytest.fixture
def results(tmp_path):
    write_run(tmp_path, "old", "2026-01-01")
    write_run(tmp_path, "new", "2026-02-01")
    return tmp_path


def test_newest_run_lands_in_its_own_folder(command, results):
    result = command("report", "--results", results, "--figures", "bytes")
    page = results / "new" / "report" / "index.html"
    assert result.code == 0
    assert result.out.splitlines() == ["  bytes  bytes.svg, bytes.csv", f"Report: {page}"]
    assert page.is_file()


def test_run_by_name_and_place_by_option(command, results, tmp_path):
    out = tmp_path / "elsewhere" / "deep"
    result = command("report", "old", "--results", results, "--figures", "bytes", "--image", "png,pdf", "--out", out)
    assert result.code == 0
    assert sorted(path.name for path in out.rglob("*.*")) == ["bytes.csv", "bytes.pdf", "bytes.png", "index.html"]


def test_a_run_by_its_path_and_several_as_one(command, results, tmp_path):
    write_run(results, "more", "2026-03-01", device="emulated")
    alone = command("report", results / "old", "--figures", "bytes", "--out", tmp_path / "alone")
    assert alone.code == 0 and "<h1>old</h1>" in (tmp_path / "alone" / "index.html").read_text()
    result = command("report", "old", "more", "--results", results, "--figures", "bytes", "--out", tmp_path / "out")
    assert result.code == 0
    assert "<h1>more, old</h1>" in (tmp_path / "out" / "index.html").read_text()


def test_emulated_run_says_how_to_see_its_times(command, tmp_path):
    write_run(tmp_path, "demo", "2026-01-01", device="emulated")
    every = command("report", "--results", tmp_path, "--out", tmp_path / "every")
    told = [line for line in every.out.splitlines() if "left out" in line]
    assert len(told) == 2 and "--emulated shows" in told[0] and max(map(len, told)) < 120
    unasked = command("report", "--results", tmp_path, "--figures", "gflops")
    assert unasked.code == 0 and "--emulated" in unasked.out
    asked = command("report", "--results", tmp_path, "--figures", "gflops", "--emulated")
    assert asked.code == 0 and "gflops.svg" in asked.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("nev", "there is no run 'nev'"),
        ("--figures rofline", "did you mean roofline"),
        ("--image gif", "'gif' is none of svg, png, pdf"),
        ("--published survey-k40", "did you mean survey-k40m"),
        ("--baseline csr-vektor", "did you mean csr-vector?"),
        ("old new", "--out DIR"),
        ("new --formats csr-vektor", "the run holds no format 'csr-vektor'; did you mean csr-vector?"),
        ("new --matrix c", "the run holds no matrix 'c'"),
        ("new --group H", "the run holds no matrix of group 'H'"),
        ("new --min-nnz 1001", "no row has such a matrix and format"),
        ("new --formats ell --highlight csr-vector", "the report holds no format 'csr-vector'"),
        ("new --highlight ,", "name something with --highlight"),
        ("new --dtype f16", "no row has dtype f16: there is"),
        ("new --mode cold", "no row has mode cold: there is hot"),
        ("new --all", "give no RUN, --out or --site"),
        ("--all --out x", "give no RUN, --out or --site"),
        ("new --site elsewhere", "is not in elsewhere"),
        ("new --site . --out x", "give no --out"),
    ],
)
def test_wrong_command_is_one_line(command, results, args, said):
    result = command("report", *args.split(), "--results", results)
    assert result.code == 2 and said in result.err and len(result.err.splitlines()) == 1
    assert not (results / "new" / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("run", "file", "content", "said"),
    [
        ("new", "rows.parquet", "PAR1 and no more", "rows.parquet is damaged"),
        ("new", "run.json", "{", "run.json is damaged"),
        ("empty", "rows.jsonl", "", "holds no rows yet"),
    ],
)
def test_a_run_that_cannot_be_reported_is_one_line(command, results, run, file, content, said):
    (results / run).mkdir(exist_ok=True)
    (results / run / file).write_text(content)
    result = command("report", run, "--results", results)
    assert result.code == 1 and said in result.err and len(result.err.splitlines()) == 1
    result = command("report", "--results", results / "nothing")
    assert result.code == 1 and "start one with spmvbench run --set demo" in result.err
    result = command("report", "old", "--results", results, "--out", results / run / file)
    assert result.code == 1 and len(result.err.splitlines()) == 1  # a file is no place for a report


@pytest.mark.slow
def test_a_record_of_nulls_draws_what_can_be_drawn(command, results):
    nothing = dict.fromkeys(("device", "properties", "launch_overhead", "read_bandwidth_gbps", "ended", "packages"))
    for bandwidth in (None, 100.0):
        store.append_session(results / "new", {"started": "3"} | nothing | {"read_bandwidth_gbps": bandwidth})
        result = command("report", "new", "--results", results, "--figures", "bytes,roofline")
        assert result.code == 0, result.err
        assert ("Left out: roofline: the run has no measured bandwidth" in result.out) == (bandwidth is None)


@pytest.mark.slow
@pytest.mark.parametrize("names", ["a", "ab"])
def test_matrices_without_entries_have_no_place_on_an_axis(command, results, names):
    for name in names:
        for label in ("csr-vector", "ell"):
            of = store.load(results / "new").set_index(["name", "label"], drop=False).loc[(name, label)].to_dict()
            store.append(results / "new", of | {"nnz": 0, "gflops": 0.0, "bytes_per_nnz": math.nan})
    result = command("report", "new", "--results", results, "--figures", "gflops,bytes,winners,survey-lessons,coverage")
    assert result.code == 0, result.err
    assert ("gflops.svg" in result.out) == (names == "a")


@pytest.mark.slow
def test_a_row_whose_features_are_not_known_is_drawn_all_the_same(command, results):
    of = store.load(results / "new").iloc[0].to_dict()
    for name in store.load(results / "new")["case_id"]:
        store.append(results / "new", of | {"case_id": name, "row_len_cv": math.nan})
    assert command("report", "new", "--results", results, "--figures", "winners").code == 0


@pytest.mark.slow
def test_images_that_were_not_asked_for_stay_as_they_are(command, results):
    svg = results / "new" / "report" / "figures" / "bytes.svg"
    assert command("report", "new", "--results", results, "--figures", "bytes").code == 0
    before = svg.read_bytes()
    assert command("report", "new", "--results", results, "--figures", "bytes", "--image", "png").code == 0
    assert svg.read_bytes() == before
    assert sorted(path.name for path in svg.parent.iterdir()) == ["bytes.csv", "bytes.png", "bytes.svg"]


@pytest.mark.slow
def test_published_figures_stand_beside_the_run(command, results):
    write_run(results, "measured", "2026-03-01", matrices=("Williams/cant", "G/b"))
    args = ("report", "measured", "--results", results, "--figures", "survey-profile,survey-published")
    unasked = command(*args)
    assert unasked.code == 0
    assert "Left out: survey-published: no published results were selected: --published survey-k40m" in unasked.out
    asked = command(*args, "--published", "survey-k40m,survey-m2070")
    assert asked.code == 0 and "Left out" not in asked.out
    data = (results / "measured" / "report" / "figures" / "survey-profile.csv").read_text()
    assert "Tesla K40M, published" in data and "Tesla M2070, published" in data


@pytest.mark.slow
def test_descriptions_of_matrices_reach_the_figures(command, results):
    words = ("report", "old", "--results", results, "--figures", "survey-row-lengths,survey-patterns")
    missing = command(*words).out
    assert missing.count("\n") == 2 and "Left out: survey-row-lengths, survey-patterns: the run has no" in missing
    about = {"matrix_sha256": "ab" * 32, "row_lengths": [3, 17], "row_counts": [99, 1], "down": 1, "across": 2}
    store.describe(results / "old", blank_row(MATRIX_COLUMNS) | about | {"density": [0.5, 0.25]})
    assert "Left out" not in command(*words).out
    lengths = (results / "old" / "report" / "figures" / "survey-row-lengths.csv").read_text().splitlines()
    assert lengths == [
        "matrix,row_len_cv,length,rows",
        *(f"G/{m},0.1,{n},{k}" for m in "ab" for n, k in ((3, 99), (17, 1))),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "labels", "matrices"),
    [
        ("--formats ell", {"ell"}, {"G/a", "G/b"}),
        ("--formats csr-*,ell --matrix a", {"csr-vector", "ell"}, {"G/a"}),
        ("--matrix G/b --group g", {"csr-vector", "ell"}, {"G/b"}),
        ("--min-nnz 1000 --dtype f64 --mode hot", {"csr-vector", "ell"}, {"G/a", "G/b"}),
    ],
)
def test_only_some_formats_and_matrices(command, results, args, labels, matrices):
    result = command("report", "new", "--results", results, "--figures", "bytes", *args.split())
    assert result.code == 0
    data = pd.read_csv(results / "new" / "report" / "figures" / "bytes.csv")
    assert (set(data["label"]), set(data["matrix"])) == (labels, matrices)


@pytest.mark.slow
def test_all_runs_are_pages_of_one_site(command, results):
    (results / "old" / "README.md").write_text("# Old\n\n```sh\nx\n```\n\nWhat [was](b) `done`,\non `a`.\n")
    write_run(results, "odd name", "2026-03-01")
    result = command("report", "--all", "--results", results, "--figures", "bytes,survey")
    assert result.code == 0 and result.out.count("Report: ") == 3 and f"Index: {results / 'index.html'}" in result.out
    index = (results / "index.html").read_text()
    assert re.findall(r'<h2><a href="([^"]*)">', index) == [
        f"{name}/report/index.html"
        for name in ("odd%20name", "new", "old")  # the newest first
    ]
    assert "<p>What was done, on a.</p>" in index
    links = re.findall(r'(?:href|src)="(\.\.[^"]*)"', (results / "old" / "report" / "index.html").read_text())
    assert len(links) > 2 and all((results / "old" / "report" / link).is_file() for link in links)
    assert not (results / "old" / "report" / "figures").exists()
    assert (results / "matrices" / "G-a.html").is_file() and (results / "formats" / "ell.html").is_file()


@pytest.mark.slow
def test_a_page_joins_a_site(command, results):
    assert command("report", results / "old", "--site", results, "--figures", "bytes").code == 0
    assert re.findall(r"<h2><a [^>]*>(.*?)</a>", (results / "index.html").read_text()) == ["old"]
    assert command("report", results / "new", "--site", results, "--figures", "bytes", "--no-index").code == 0
    assert "new" not in (results / "index.html").read_text()


def test_highlighted_formats_are_those_that_were_asked_for(command, results, monkeypatch):
    from spmvbench.reports import style

    seen = []
    monkeypatch.setattr(style, "legend", lambda figure, shown, *args, **more: seen.append(list(shown)))
    command("report", "new", "--results", results, "--figures", "gflops", "--highlight", "ell")
    assert seen == [["csr-vector", "ell"]]  # the baseline stands first


def test_a_report_follows_no_link_in_a_run_s_folder(command, results, tmp_path):
    """A run may come from somebody else; a folder of one's own choice may be a link."""
    elsewhere = tmp_path.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "index.html").write_text("a user's")
    (results / "new" / "report").symlink_to(elsewhere)
    (results / "old" / "report").mkdir()
    (results / "old" / "report" / "figures").symlink_to(elsewhere)
    for run in ("new", "old"):
        result = command("report", run, "--results", results, "--figures", "bytes")
        assert result.code == 1 and "symbolic link is not followed" in result.err and len(result.err.splitlines()) == 1
    (results / "old" / "report" / "figures").unlink()
    (results / "old" / "report" / "index.html").symlink_to(elsewhere / "index.html")
    assert command("report", "old", "--results", results, "--figures", "bytes").code == 0
    assert not (results / "old" / "report" / "index.html").is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["index.html"]
    assert (elsewhere / "index.html").read_text() == "a user's"
    (tmp_path / "mine").symlink_to(elsewhere)
    assert command("report", "old", "--results", results, "--figures", "bytes", "--out", tmp_path / "mine").code == 0
    assert (elsewhere / "index.html").read_text() != "a user's"
