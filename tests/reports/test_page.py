"""The page: whole, self-contained, honest about emulated times, and alive in a browser."""

import hashlib
import html
import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.errors import UsageError
from spmvbench.reports import figures, links, page, tables
from tests.reports.conftest import data_of

NAMES = ["profile", "bytes"]
DOCUMENTED = Path(__file__).resolve().parents[2] / "docs" / "results.md"


@pytest.fixture(scope="module")
def report(rows, environment, tmp_path_factory):
    return page.write(rows, environment, tmp_path_factory.mktemp("report"), names=NAMES, images=["png"])


@pytest.fixture(scope="module")
def text(report):
    return report.page.read_text(encoding="utf-8")


def seen(text):
    """What a reader sees of a page, in one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


DRAWS = """
import pickle, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from spmvbench.reports import page

if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        pickle.dump(None, file)
    with ProcessPoolExecutor(2, get_context("spawn"), initializer=page._start_worker, initargs=(sys.argv[1],)) as pool:
        pool.submit(time.sleep, 0).result()
        waiting = [pool.submit(time.sleep, 3600) for _ in range(2)]
        time.sleep(0.1)
        print(*pool._processes, flush=True)
"""


def lives(pid):
    try:
        return "State:\tZ" not in Path("/proc", pid, "status").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_report_leaves_no_drawing_process(tmp_path, number):
    (tmp_path / "draws.py").write_text(DRAWS)
    words = [sys.executable, tmp_path / "draws.py", tmp_path / "draft"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    drawing = process.stdout.readline().split()
    assert len(drawing) == 2 and all(map(lives, drawing))
    process.send_signal(number)
    process.wait()
    try:
        while any(map(lives, drawing)):  # the test's limit ends it where they outlive the report
            time.sleep(0.05)
    finally:
        for pid in filter(lives, drawing):
            os.kill(int(pid), signal.SIGKILL)
        process.communicate()


def test_a_command_may_name_a_file_that_is_not_utf_8(rows, environment, tmp_path):
    about = environment | {"command": ["spmvbench", "run", "b\udcff $x_{$.mtx"]}
    about["sessions"] = [dict(about)]
    written = page.write(rows, about, tmp_path, names=["coverage"], images=[])
    assert "b\\udcff $x_{$.mtx" in html.unescape(written.page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_files_stand_beside_the_page(report):
    assert [[path.name for path in drawn.files] for drawn in report.drawn] == [
        ["profile.png", "profile.csv"],
        ["bytes.png", "bytes.csv"],
    ]
    written = {path.relative_to(report.page.parent).as_posix() for path in report.page.parent.rglob("*.*")}
    files = {f"figures/{name}.{suffix}" for name in ("bytes", "profile") for suffix in ("csv", "png")}
    assert written == {"index.html"} | files
    assert list(pd.read_csv(report.drawn[0].files[-1]).columns) == ["setting", "label", "tau", "rho"]


def test_page_needs_nothing_from_elsewhere(report, text):
    own = re.sub(r'<script id="library">.*?</script>', "", text, flags=re.S)
    assert len(text) - len(own) > 400_000, "the library is in the page"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", re.sub(r'"data:[^"]*"', "", own))
    for link in re.findall(r'(?:href|src)="([^"]*)"', own):
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in text
        elif not link.startswith("data:"):
            assert (report.page.parent / link).is_file()


def test_the_library_is_what_its_table_says():
    folder = resources.files("spmvbench.reports") / "library"
    said = dict(re.findall(r"^\| `(\S+)` .* `([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.M))
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.suffix == ".js"
    }
    assert said == found and len(found) == 2
    licences = (folder / "LICENSES").read_text()
    assert "Mike Bostock" in licences and "Observable, Inc." in licences


@pytest.mark.slow
def test_pages_can_share_what_they_draw_with(rows, environment, tmp_path):
    page.write_shared(tmp_path / "shared")
    written = page.write(
        rows, environment, tmp_path / "a", names=NAMES, alone=True, shared="../shared/", home="../index.html"
    )
    text = written.page.read_text(encoding="utf-8")
    assert len(text) < 250_000 and written.drawn[0].files == []
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["index.html"]
    for link in re.findall(r'(?:href|src)="(\.\./shared/[^"]*)"', text):
        assert (tmp_path / "a" / link).is_file()
    assert text.count('"../shared/') == 3 and 'href="../index.html"' in text and 'href="../papers.html"' in text
    data = data_of(text)
    places = dict(zip(data["formats"]["name"], data["pages"]["format"], strict=True))
    assert places["csr5"] == "../formats/csr5.html"
    assert set(data["pages"]["matrix"]) == {f"../{links.matrix(name)}" for name in data["matrices"]["name"]}


def test_the_page_s_script_is_short():
    folder = resources.files("spmvbench.reports") / "templates"
    scripts = [file for file in folder.iterdir() if file.name.endswith(".js")]
    assert len(scripts) == 4 and sum(len(file.read_text().splitlines()) for file in scripts) <= 945


@pytest.mark.slow
def test_a_page_of_72_formats_is_below_three_megabytes(rows, environment, tmp_path):
    ten = rows[rows["dtype"] == "f64"]
    many = pd.concat(
        [ten.assign(format=ten["format"] + f"-{i}", label=ten["label"] + f"-{i}") for i in range(8)], ignore_index=True
    )
    assert many["label"].nunique() >= 72
    report = page.write(many, environment, tmp_path, images=[])
    assert report.page.stat().st_size < 3_000_000 and len(report.drawn) > 8


def test_page_says_what_was_measured(text):
    shown = seen(text)
    for part in ("NVIDIA H200", "2026-03-01 to 2026-03-28", "matrices 30", "formats 10", "ok 1,120", "wrong 4"):
        assert part in shown
    for part in ("570.133.20", "4210.5", "0123456789abcdef", "1,950 1,980", "csr-vector"):
        assert part in shown


def test_reasons_are_counted_by_kind_with_the_worst_first(text):
    shown = seen(text)
    assert "csr5 wrong 4 1 entry 12 of y is off by 4.1 times its bound" in shown
    assert "Broken/archive skipped the archive is cut short" in shown
    assert shown.index("csr5 wrong") < shown.index("csr-scalar timeout") < shown.index("dia skipped")


def test_figures_have_words_for_those_who_do_not_see_them(text):
    assert len(re.findall(r'<div class="panels" [^>]*aria-label="[^"]{60,}"', text)) == 3  # one matrix, one format
    assert len(re.findall(r'<svg role="img" aria-label="[^"]{10,}"', text)) == 1


def test_data_holds_numbers_statuses_and_no_samples(text):
    data = data_of(text)
    assert data["settings"] == ["f64 hot", "f64 cold", "f32 hot", "f32 cold"]
    assert len(data["matrices"]["name"]) == 30 and "Broken/archive" not in data["matrices"]["name"]
    cases = pd.DataFrame(data["cases"])
    matrix = data["matrices"]["name"].index("Oberwolfach/matrix0007")
    place = pd.Series({"matrix": matrix, "format": data["formats"]["name"].index("csr5"), "setting": 0})
    (wrong,) = cases[(cases[place.index] == place).all(axis="columns")].itertuples()
    assert data["statuses"][wrong.status] == "wrong" and math.isnan(wrong.rate) and math.isnan(wrong.time)
    assert cases["rate"].notna().sum() > 1000
    assert "samples" not in text.partition('id="data">')[2].partition("</script>")[0]
    assert data["bounds"][0] == {"values only": 1052.6, "values and indices": 701.75}


@pytest.mark.slow
def test_an_experiment_is_counted_and_compared_with_nothing(rows, environment, tmp_path):
    trial = rows[rows["format"] == "ell"].assign(format="trial", label="trial", experiment=True, gflops=98765.0)
    report = page.write(pd.concat([rows, trial]), environment, tmp_path, names=["profile", "gflops"], images=[])
    text = report.page.read_text(encoding="utf-8")
    trials = dict(zip(*(data_of(text)["formats"][key] for key in ("name", "experiment")), strict=True))
    assert trials["trial"] == 1 and trials["ell"] == 0
    assert not any("trial" in path.read_text() for path in (tmp_path / "figures").glob("*.csv"))
    assert "98,765" not in seen(text)
    with pytest.raises(UsageError, match="no format"):
        page.write(trial, environment, tmp_path, baseline="trial")


def test_names_cannot_leave_their_place(rows, tmp_path, environment):
    evil = rows.copy()
    evil["name"] = '</script><script>alert("&")</script>'
    evil["case_id"] = [str(i) for i in range(len(evil))]
    few = evil.drop_duplicates("label")
    text = page.write(few, environment, tmp_path, names=["bytes"], images=[]).page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert data_of(text)["matrices"]["name"][0].endswith('</script><script>alert("&")</script>')


@pytest.mark.slow
def test_the_same_rows_give_the_same_page(rows, environment, tmp_path):
    first, second = (
        page.write(part, environment, tmp_path / name, names=["bytes"], images=[]).page.read_bytes()
        for name, part in (("a", rows), ("b", rows.sample(frac=1, random_state=1)))
    )
    assert first == second


@pytest.mark.slow
def test_figures_drawn_by_several_processes_are_the_same_in_the_same_order(rows, environment, tmp_path):
    names, told = ["bytes", "survey-published", "winners"], []
    one, two = (
        page.write(rows, environment, tmp_path / str(jobs), names=names, jobs=jobs, watch=lambda *n: told.append(n))
        for jobs in (1, 2)
    )
    assert one.page.read_bytes() == two.page.read_bytes()
    assert [drawn.name for drawn in two.drawn] == [drawn.name for drawn in one.drawn] == ["winners", "bytes"]
    assert two.left_out == one.left_out
    assert ["survey-published"] in one.left_out.values()
    assert told == [(1, 3), (2, 3), (3, 3)] * 2


def test_emulated_times_are_not_shown_unasked(emulated_rows, tmp_path):
    report = page.write(emulated_rows, {}, tmp_path, images=[])
    assert {drawn.name for drawn in report.drawn} == {"coverage", "bytes", "conversion"}
    by_name = {name: reason for reason, names in report.left_out.items() for name in names}
    assert "--emulated" in by_name["profile"]
    assert "no verified row of tile-csr" in by_name["tilespmv-space"]
    text = report.page.read_text(encoding="utf-8")
    assert "spmvbench report generated --emulated" in text
    assert "GFLOPS" not in seen(text)
    assert all(np.isnan(data_of(text)["cases"][name]).all() for name in ("rate", "time"))


def test_emulated_times_on_demand_carry_the_word(emulated_rows, tmp_path, monkeypatch):
    marked = []
    monkeypatch.setattr(page.style, "emulated_across", lambda figure: marked.append(figure))
    monkeypatch.setattr(page.style, "rendered", lambda figure, kind: b"<svg />")
    report = page.write(emulated_rows, {}, tmp_path, names=["gflops", "bytes", "roofline"], with_emulated=True)
    assert [drawn.name for drawn in report.drawn] == ["gflops", "bytes"]
    assert len(marked) == 1
    assert list(report.left_out.values()) == [["roofline"]]
    assert "EMULATED." in seen(report.page.read_text(encoding="utf-8"))


def test_the_word_is_across_the_figure():
    figure, _ = page.style.grid(8, 2)
    page.style.emulated_across(figure)
    assert {text.get_text() for text in figure.texts} == {"EMULATED"}
    assert all(0 < text.get_position()[1] < 1 for text in figure.texts)


@pytest.mark.slow
def test_measured_and_emulated_times_never_share_a_figure(rows, emulated_rows, environment, tmp_path):
    both = pd.concat([rows, emulated_rows])
    for asked, settings in ((False, {"f64 hot NVIDIA H200"}), (True, {"f64 hot emulated"})):
        report = page.write(both, environment, tmp_path / str(asked), names=["gflops"], images=[], with_emulated=asked)
        table = pd.read_csv(report.drawn[0].files[-1])
        assert set(table[table["setting"].str.startswith("f64 hot")]["setting"]) == settings


@pytest.mark.slow
def test_run_without_a_right_row_still_has_a_page(rows, environment, tmp_path):
    failed = rows.assign(status="crashed", reason="the worker died")
    report = page.write(failed, environment, tmp_path, images=[])
    assert [drawn.name for drawn in report.drawn] == ["coverage"]

    reasons = {reason.partition(" ")[0]: names for reason, names in report.left_out.items()}
    assert "profile" in report.left_out["no row is verified"]
    assert set(reasons) == {"no", "the"}  # no verified row of these formats; the run holds none of a paper's matrices
    left = {name for names in report.left_out.values() for name in names}
    assert left == {figure.name for figure in figures.every()} - {"coverage"}


def test_unread_matrices_alone_still_have_a_page(rows, tmp_path):
    report = page.write(rows[rows["matrix_sha256"] == ""], {}, tmp_path)
    assert report.drawn == []
    assert "No matrix could be read." in seen(report.page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_chosen_baseline_is_named(rows, environment, tmp_path):
    report = page.write(rows, environment, tmp_path, names=["speedup-mean"], images=[], baseline="hyb")
    assert "speed-up over hyb" in report.drawn[0].caption
    assert "hyb" not in set(pd.read_csv(report.drawn[0].files[-1])["label"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (tables.number, {math.nan: "-", math.inf: "never", 0: "0", 1234567: "1,234,567", 1234.5: "1,234"}),
        (tables.number, {0.0: "0", 96.04: "96.0", 999.7: "1,000", 0.00123456: "0.00123", 117.0: "117"}),
        (tables.seconds, {1.5: "1.50 s", 0.411: "411 ms", 2.03e-5: "20.3 us", 4e-8: "0.0400 us", 0.0: "0 us"}),
        # A share is whole only where it is.
        (tables.percent, {1.0: "100 %", 0.99999: "99.9 %", 2 / 3: "66.7 %", 1e-5: "0.1 %", 0.0: "0 %"}),
    ],
)
def test_numbers_for_people(text, shown):
    assert {value: text(value) for value in shown} == shown


def test_numbers_of_a_figures_csv_have_six_digits():
    given = [1.2345678e-6, 123456789.0, 1e22, -0.0, 1e-310, -5e-324, 1.7976931348623157e308, math.inf, math.nan]
    (head, *cells, end) = tables.csv(pd.DataFrame({"x": given}), 6).split("\n")
    assert (head, cells.pop(), end) == ("x", "", "")
    assert [float(cell) for cell in cells] == [float(f"{value:.6g}") for value in given[:-1]]


def test_notes_of_a_table_never_run_out_of_marks():
    reasons = ["".join(letters) for letters in itertools.product("xyz", repeat=4)]
    cases = pd.DataFrame({"matrix": "m", "label": reasons, "t": math.nan, "status": "skipped", "reason": reasons})
    marks = [mark for mark, _ in tables.by_matrix("caption", cases, "t", reasons).notes]
    assert marks[:2] == ["a", "b"] and marks[25:28] == ["z", "aa", "ab"]
    assert len(set(marks)) == len(reasons) == 81


def test_facts_are_flat_and_leave_out_what_is_empty():
    record = {"host": {"cpu": "x", "cores": 2}, "floor_s": 1.5e-6, "none": None, "list": ["a", 1], "empty": ""}
    assert tables.facts(record) == [("host: cpu", "x"), ("host: cores", "2"), ("floor s", "1.5e-06"), ("list", "a 1")]


def test_environment_shows_sizes_and_commands_and_no_one_s_folders():
    record = {"command": ["/home/me/bin/spmvbench", "run", "/home/me/a b.mtx"], "host": {"memory_bytes": 135148564480}}
    assert tables.facts(record) == [("command", "spmvbench run 'a b.mtx'"), ("host: memory", "135 GB")]


def test_formats_without_times_are_ordered_by_coverage(rows):
    for table in tables.formats(latest_cases(rows), speed=False):
        shares = [row[1][1] for row in table.rows]
        assert shares == sorted(shares, reverse=True)
        assert "GFLOPS" not in [column.heading for column in table.columns]


def test_formats_measured_on_two_equal_gpus_have_one_row(rows):
    both = rows.assign(device=["cuda:0", "cuda:1"] * (len(rows) // 2) + ["cuda:0"] * (len(rows) % 2))
    for table in tables.formats(latest_cases(both), speed=True):
        assert len(table.rows) == 10


@pytest.mark.skipif(not DOCUMENTED.is_file(), reason="not run from a checkout")
def test_every_control_is_documented(text):
    """By its words in the page: labels, buttons and lists, and those that the script adds."""
    shown = text[text.index("<body>") : text.index('id="data"')]
    found = re.findall(r"<label>([^<]+?) ?<(?:input|select)", shown) + re.findall(r"<button[^>]*>([^<]+)<", shown)
    found += [*re.findall(r'<span class="range"[^>]*>([^<]+?) <input', shown), "Contents", "Selected cases as CSV"]
    assert {"Rows of", "Row CV", "only listed", "Reset", "Format", "Filter"} <= set(found)
    section = DOCUMENTED.read_text(encoding="utf-8").partition("## The page")[2].partition("\n## ")[0]
    controls = "\n".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))
    assert [words for words in found if words not in controls] == []
