"""A site of runs on generated rows: its pages, what they count, what links to what, and what strangers may name."""

import functools
import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.older import older_programs
from spmvbench.analysis.ranking import mean_slowdowns
from spmvbench.bundles.pack import packed
from spmvbench.errors import UsageError
from spmvbench.reports import links
from spmvbench.reports.site import pictures, writing
from spmvbench.rows import files, store
from tests.reports.conftest import descriptions, generated_rows, served

pytestmark = pytest.mark.slow

FORMATS = {"csr-vector": (4.0, 0.7, 0.0), "ell": (4.0, 0.8, 5.0), "csr5": (4.4, 0.78, 0.0)}
EVIL = "<img src=x onerror=alert(1)>"
BROWSER = Path(__file__).with_name("browser")


def write_run(site, name, rows, matrices=None, **session):
    folder = site / name
    (folder / "report").mkdir(parents=True)
    (folder / "report" / "index.html").write_text("a page")
    timed = [[seconds] * 30 if seconds > 0 else [] for seconds in rows["t_median"]]
    work = (1e9 * rows["gflops"] * rows["t_median"]).fillna(0).round().astype(int)
    sizes = [json.dumps({"values": round(size)}) if size > 0 else "" for size in rows["bytes_per_nnz"] * rows["nnz"]]
    known = rows.assign(run_id=name, samples=timed, repeats=1, work=work, bytes_arrays=sizes)
    (folder / "rows.parquet").write_bytes(packed(known, files.CASES))
    if matrices is not None:
        (folder / "matrices.parquet").write_bytes(packed(matrices, files.DESCRIPTIONS))
    session = {"started": "2026-01-01T00:00:00", "git": "0123456789abcdef"} | session
    (folder / "run.json").write_text(json.dumps({"sessions": [session]}))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two runs of one GPU; the older one has three matrices less, and a program that has another key today."""
    (key, digest), today = next((pair, key) for pair, key in older_programs().items() if key == "csr-lanes")
    assert (key, today) == ("csr-vector", "csr-lanes")
    folder = tmp_path_factory.mktemp("site")
    rows = generated_rows(6, FORMATS)
    rows.loc[rows["name"] == "matrix0003", ["group", "name"]] = "SNAP", "ca-<b>"
    # Two formats that this version does not have.
    own = rows[rows["format"] == "ell"].assign(format=EVIL, label=EVIL, case_id=lambda part: part["case_id"] + "e")
    write_run(folder, "new", pd.concat([rows, own]), descriptions(rows))
    older = rows[rows["name"].isin(["matrix0000", "matrix0001", "matrix0002"])]
    older = older.assign(started_at="2026-01-15T10:00:00.000000+00:00")
    older.loc[older["format"] == "csr-vector", "source_hash"] = digest
    write_run(folder, "old", older)
    (folder / "formats").mkdir()
    (folder / "formats" / "of-yesterday.html").write_text("stale")
    (folder / "formats" / "notes.txt").write_text("a user's")
    writing.write(folder, "https://example.org/spmvbench")
    return folder


def read(site, name):
    return (site / name).read_text(encoding="utf-8")


def cells(text, caption):
    """The texts of a table's cells, row by row, headings first."""
    (table,) = re.findall(rf"<caption>{re.escape(caption)}</caption>(.*?)</table>", text, re.DOTALL)
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    return [
        [
            html.unescape(re.sub("<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in found
    ]


def test_every_link_leads_to_a_page_and_its_anchor(site):
    pages = [path for path in site.rglob("*.html") if path.parent.name != "report"]
    assert len(pages) > len(formats.keys()) + 6
    anchors = functools.cache(lambda goal: {*re.findall(r'id="([^"]*)"', goal.read_text(encoding="utf-8"))})
    checked = 0
    for path in pages:
        for link in re.findall(r'(?:href|src)="([^"]+)"', path.read_text(encoding="utf-8")):
            place, _, anchor = html.unescape(link).partition("#")
            if not place or "://" in place or place.startswith("data:"):
                continue
            goal = (path.parent / place).resolve()
            assert goal.is_file(), (path.name, link)
            if anchor:
                assert anchor in anchors(goal), (path.name, link)
            checked += 1
    assert checked > 1000


def test_counts_are_the_same_everywhere(site):
    index = read(site, "index.html")
    numbers = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", index)
    new = dict(numbers[:5])
    rows = latest_cases(store.load(site / "new"))
    known = rows[rows["matrix_sha256"] != ""]
    assert new == {
        "matrices": "6",
        "formats": "4",
        "with parameters": "4",
        "cases": str(len(known)),
        "verified": str((known["status"] == "ok").sum()),
    }
    assert len(rows) == len(known) + 2 and "1 further matrix could not be read" in index
    assert "2 runs: 6 matrices, 4 formats (4 with their parameters)" in index
    assert len(cells(read(site, "matrices/index.html"), "6 matrices")) == 1 + 6


def test_index_says_what_it_is_and_where_the_rest_is(site, tmp_path):
    index = read(site, "index.html")
    for sentence in writing.ABOUT:
        assert sentence in index
    assert 'href="https://example.org/spmvbench"' in index and "Documentation" not in index
    (tmp_path / "results.html").write_text("a page of the documentation")
    writing.write(tmp_path / "results")
    assert 'href="../index.html">Documentation' in read(tmp_path / "results", "index.html")
    assert "No run has a page yet" in read(tmp_path / "results", "index.html")
    with pytest.raises(UsageError, match="https://"):
        writing.write(tmp_path / "results", "javascript:alert(1)")


def test_a_matrix_page_has_the_times_of_every_run(site):
    text = read(site, links.matrix("HB/matrix0000"))
    rows = latest_cases(store.load(site / "new"))
    mine = rows[(rows["matrix"] == "HB/matrix0000") & (rows["setting"] == "f64 hot")].set_index("label")
    (heading, *found) = cells(text, "NVIDIA H200, f64 hot")
    assert heading[:2] == ["Format", "GFLOPS"] and heading[-2:] == ["Time, new", "Time, old"]
    by_label = {row[0]: row for row in found}
    assert float(by_label["csr5"][1]) == pytest.approx(mine.loc["csr5", "gflops"], rel=6e-3)
    ok = mine[mine["status"] == "ok"]
    best = ok["t_median"].min()
    assert float(by_label["csr5"][2]) == pytest.approx(ok.loc["csr5", "t_median"] / best, rel=6e-3)
    assert by_label["csr-vector"][-1].endswith("*") and not by_label["csr-vector"][-2].endswith("*")
    assert text.count("data:image/png;base64,") >= 1 and "Rows by length" in text
    assert "csr-vector" in re.findall(r'<p class="warning">(.*?)</p>', text)[0]
    (share,) = re.findall(
        r"csr5</a></th>.*?<td[^>]*>[^<]*</td>\s*<td[^>]*>[^<]*</td>\s*<td[^>]*>([^<]*)", text, re.DOTALL
    )[:1]
    assert share == "66.7 %"  # generated rows have a bound of 1.5 times their rate


def test_a_format_page_has_its_history_and_its_rivals(site):
    text = read(site, links.format("csr5"))
    assert html.escape(formats.get("csr5").reference, quote=True).replace("&#x27;", "&#39;") in text
    heading, *found = cells(text, "Rows of all runs, the newest first")
    place = {name: heading.index(name) for name in ("Run", "Revision", "Setting", "Mean slowdown", "Wins")}
    row = next(row for row in found if (row[place["Run"]], row[place["Setting"]]) == ("old", "f64 hot"))
    assert row[place["Revision"]] == "0123456789ab"
    slowdowns = mean_slowdowns(latest_cases(store.load(site / "old"))).loc[("f64 hot", "csr5")]
    assert float(row[place["Mean slowdown"]]) == pytest.approx(slowdowns["mean_slowdown"], rel=6e-3)
    assert int(row[place["Wins"]]) == slowdowns["wins"]
    rivals = cells(text, "Formats that are faster than csr5 on most cases")
    times = latest_cases(store.load(site / "new"))
    for name, common, slower, *_ in rivals[1:]:
        both = [times[(times["label"] == label) & (times["status"] == "ok")] for label in ("csr5", name)]
        merged = both[0].merge(both[1], on=["setting", "matrix"])
        assert int(common) >= len(merged) and 0 < int(slower) <= int(common)
    assert "<h2>Where it is best</h2>" in text and "Slowdown by kind of matrix" in text
    (heading, *kinds) = cells(text, "Slowdown by kind of matrix, the lowest first")
    medians = [float(row[heading.index("Median slowdown")]) for row in kinds]
    assert medians == sorted(medians) and len(medians) == 3


def test_rows_of_an_older_program_count_for_no_comparison(site):
    text = read(site, links.format("csr-vector"))
    assert "csr-lanes today" in re.findall(r'<p class="warning">(.*?)</p>', text)[0]
    for row in cells(text, "Formats that are faster than csr-vector on most cases")[1:]:
        assert int(row[1]) <= 6 * 4  # those of the newer run alone
    assert "csr-vector here is csr-lanes today" in read(site, "index.html")


def test_names_of_strangers_are_text(site):
    for path in [*site.rglob("*.html"), site / "shared" / "search.js"]:
        text = path.read_text(encoding="utf-8")
        assert EVIL not in text and "<b>" not in text, path
        assert re.fullmatch(r"[\w.-]+", path.name)
    assert html.escape(EVIL) in read(site, links.format(EVIL))
    assert "This version has no such format" in read(site, links.format(EVIL))
    assert (site / links.matrix("SNAP/ca-<b>")).is_file()
    assert "This version has no format &lt;img" in read(site, "index.html")


def test_pages_of_what_is_gone_are_removed_and_nothing_else(site):
    assert not (site / "formats" / "of-yesterday.html").exists()
    assert read(site, "formats/notes.txt") == "a user's"


def test_a_site_follows_no_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "formats").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        writing.write(tmp_path / "site")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_slugs_differ_and_are_file_names():
    names = [
        "HB/1138_bus", "HB-1138_bus", "hb/1138:bus", "SNAP/ca-AstroPh", "SNAP/ca:AstroPh", "a/b.c", "a/b.c.", "../x",
        "index", "x" * 300, "x" * 301, "csr5", "csr-5", "csr--5", "矩阵/a", "", ".", "a/b/c", "a b",
    ]  # fmt: skip
    slugs = [links.slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    assert all(re.fullmatch(r"\w[\w.-]{0,95}", slug, re.ASCII) and slug != "index" for slug in slugs)
    assert links.matrix("synthetic/pde:100") == "matrices/synthetic-pde-100.html"
    assert links.format("csr5") == "formats/csr5.html"
    assert re.fullmatch(r"formats/sell\.html#label-sell-height-8--\w{8}", links.format("sell[height=8]"))


def test_every_format_is_drawn_with_the_values_of_the_example():
    wanted = {f"{value:g}" for value in pictures.example().values}
    for key in formats.keys():  # noqa: SIM118 - a function of the module
        cls = formats.get(key)
        drawn, why = pictures.arrays(cls, {})
        assert bool(drawn) != bool(why), key
        if cls.keeps_values and drawn and not any(array.more for array in drawn):
            shown = {cell.text for array in drawn for line in array.lines for cell in line}
            assert wanted <= shown, key


def test_row_lengths_are_counted_by_powers_of_two():
    table = pictures.row_lengths(np.array([0, 1, 3, 9]), np.array([5, 2, 7, 1]))
    assert table[["low", "high", "rows"]].to_numpy().tolist() == [
        [0, 0, 5],
        [1, 1, 2],
        [2, 3, 7],
        [4, 7, 0],
        [8, 15, 1],
    ]


@pytest.fixture(params=["disk", "HTTP"])
def address(request, site):
    """The site's address in a browser."""
    if request.param == "disk":
        yield site.as_uri()
    else:
        with served(site) as found:
            yield found


@pytest.mark.slow
def test_the_search_finds_formats_matrices_and_papers(browser, address):
    page = browser.open(f"{address}/{links.format('ell')}")
    key, matrix, paper, nothing, marked = page.run("""
      const find = (words) => {
        const input = document.getElementById("search");
        input.value = words;
        input.dispatchEvent(new Event("input"));
        return [...document.querySelectorAll("#found a")].map((a) => [a.textContent, a.getAttribute("href")]);
      };
      return ["csr5", "matrix0004", "liu vinter", "no such words", "<b>"].map(find);
    """)
    page.close()
    assert key[0] == ["csr5", "../formats/csr5.html"]
    assert matrix == [["Oberwolfach/matrix0004", "../matrices/Oberwolfach-matrix0004.html"]]
    assert any("Liu & Vinter" in name and "papers.html#" in href for name, href in paper)
    assert nothing == [] and marked[0][0] == "SNAP/ca-<b>"


PAGES = (
    "index.html", "papers.html", "matrices/index.html", "formats/index.html", links.matrix("HB/matrix0000"),
    links.format("csr5"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 420])
def test_pages_fit_the_window_and_are_read_by_everybody(browser, site, width):
    for place in PAGES:
        page = browser.open((site / place).as_uri(), width)
        assert page.run("return document.documentElement.scrollWidth;") == width, place
        reached = page.run((BROWSER / "reached.js").read_text())
        assert (reached["bad"], reached["nameless"]) == ([], []) and reached["controls"] > 4, place
        for scheme in ("light", "dark"):
            page.media(prefers_color_scheme=scheme)
            contrast = page.run((BROWSER / "contrast.js").read_text())
            assert contrast["bad"] == [] and contrast["texts"] > 20, (place, scheme)
        page.close()


def test_matrices_of_one_name_have_a_page_that_lists_them(tmp_path):
    rows = generated_rows(2, {"ell": (4.0, 0.8, 5.0)})
    write_run(tmp_path, "one", rows.assign(file_sha256="1" * 64))
    write_run(tmp_path, "two", rows.assign(file_sha256="0" * 64))
    writing.write(tmp_path)
    listed = re.findall(r'href="\.\./(matrices/HB-matrix0000[^"]*)"', read(tmp_path, links.matrix("HB/matrix0000")))
    assert len(listed) == 2 and all("Times" in read(tmp_path, place) for place in listed)


def test_the_page_of_a_run_counts_as_the_index_does_and_has_the_banner(command, site, tmp_path):
    for name in ("new", "old"):
        result = command("report", site / name, "--figures", "bytes", "--out", tmp_path / name)
        assert result.code == 0, result.err
        page, index = read(tmp_path / name, "index.html"), read(site, "index.html")
        article = index[index.index(f'id="run-{name}"') :]
        for word in ("matrices", "formats", "with parameters", "cases"):
            (counted,) = re.findall(rf"<dt>{word}</dt><dd>([\d,]+)", page)
            assert counted == re.findall(rf"<dt>{word}</dt><dd>([\d,]+)", article)[0], word
        sums = sum(int(n.replace(",", "")) for n in re.findall(r'class="status-[^>]*><dt>\w+</dt><dd>([\d,]+)', page))
        assert sums == int(re.findall(r"<dt>cases</dt><dd>([\d,]+)", page)[0].replace(",", ""))
        assert ("csr-vector here is csr-lanes today" in page) == (name == "old")
