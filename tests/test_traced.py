"""Numbers of the documentation are those of published rows: tables, pictures, counts and statements.

Tables are written by commands, which are run again here. A table of numbers that no command writes is listed in
NOT_ROWS with where its numbers are from.
"""

import importlib
import json
import math
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spmvbench
from spmvbench.advice import model, training
from spmvbench.analysis import cards, stand_ins
from spmvbench.analysis.ab import THRESHOLD
from spmvbench.analysis.breakeven import break_even, ready
from spmvbench.analysis.cases import fewer_values, hot, latest_cases, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.orders import FASTER, gains
from spmvbench.analysis.products import ADVISED, CUPY
from spmvbench.analysis.ranking import mean_slowdowns
from spmvbench.cli import report
from spmvbench.devices.base import CODE_HASH
from spmvbench.matrices.sets import STAND_IN
from spmvbench.publishing import claims, in_page, time_to_n
from spmvbench.publishing import run_options as options
from spmvbench.publishing.irregular import VENDOR, gflops, of_every_value, real_matrices, rows_of, timed
from spmvbench.publishing.measure import steps
from spmvbench.reports import published
from spmvbench.rows import store
from tests.measure.aa_verdicts import interval

ROOT = Path(spmvbench.__file__).parents[1]
PUBLISHED = ROOT / "results" / "published"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
RUNS = sorted(path.parent.name for path in PUBLISHED.glob("*/README.md"))
COMMAND = re.compile(r"^python -m (spmvbench\.publishing\.\w+) (.*) --page (\S+)$", re.MULTILINE)
NUMBER = re.compile(
    r"\**[-+]?[\d.,]+(?: ?(?:%|us|s|M|x|W))?\**|[\d.]+(?: / [\d.]+)+.*|[\d.]+ %, [\d.]+|\d[\d.]* (?:-|to) [\d.]+"
    r"|[\d.]+(?:, [\d.]+)+"
)
# Tables of numbers that are in no published row, by page and first cell.
NOT_ROWS = {
    ("CONTRIBUTING.md", "Tests"): "a separate measurement, as the page says",
    ("docs/cluster.md", "GPUs"): "scaling.json of h200-scaling: test_efficiency_is_that_of_the_run",
    ("docs/irregular.md", "f64 / f32"): "what the rule computes from the matrices: no times",
    ("docs/measuring.md", "Two times that are compared"): "verdicts in docs/pairs, and runs that the lines name",
    ("docs/measuring.md", ""): "two separate measurements, tests/measure/placement.py",
    ("docs/operator.md", ""): "tests/solvers/overhead.py, and docs/advice.md: test_aims_of_operators",
    ("docs/operator.md", "Matrix"): "a separate measurement, tests/solvers/overhead.py",
    ("docs/operator.md", "Pattern"): "a separate measurement, tests/solvers/overhead.py",
    ("docs/submitting.md", "Run"): "what `check --programs` says; their sums: test_rows_whose_programs_...",
    ("docs/values.md", "Values"): "facts of the types",
}
WRITTEN = ("docs/advice.md",)  # as a whole, which tests/advice/test_advice.py compares
pytestmark = [pytest.mark.skipif(not RUNS, reason="needs a checkout (git clone)"), pytest.mark.slow]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def makefile():
    """The Makefile's lines: continued ones joined, with the value of PUBLISHED, programs without $(BIN)."""
    text = read("Makefile").replace("\\\n\t  ", "")
    return text.replace("$(PUBLISHED)", "results/published").replace("$(BIN)/", "")


def commands():
    """(module, arguments, page) of every command that writes a table: those of pages, and of `make tables`."""
    made = makefile().replace("\t", "")
    return [found for text in (*map(read, PAGES), made) for found in COMMAND.findall(text)]


def tables(text):
    """The lines of each table of a page."""
    return [table.strip().splitlines() for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@pytest.mark.parametrize(("module", "words", "page"), commands(), ids=lambda value: value.rpartition(".")[2])
def test_a_table_is_what_its_command_writes(module, words, page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    written = {}
    monkeypatch.setattr(in_page, "put", lambda to, table, name: written.update({name: table}))
    importlib.import_module(module).main([*shlex.split(words), "--page", page])
    assert written
    for name, table in written.items():
        assert in_page.updated(read(page), table, name) == read(page), f"{name}: make tables"


def test_every_place_of_a_table_has_its_command():
    by_page = {}
    for module, _, page in commands():
        by_page.setdefault(page, set()).add(module)
    for page in PAGES:
        places = re.findall(r"^<!-- table: written by ([\w.]+)", read(page), re.MULTILINE)
        assert set(places) == by_page.get(page, set()), page


def test_tables_of_the_first_page_are_those_of_their_pages():
    """README.md has no runs of its own: another run in a page's command is another one there."""
    for module, page in (
        ("spmvbench.publishing.speed", "docs/speed.md"),
        ("spmvbench.publishing.time_to_n", "docs/advice.md"),
    ):
        table = written("README.md", module)
        assert len(table.splitlines()) > 4 and table in read(page), page


def test_make_tables_runs_the_commands_of_pages():
    """As make's line does: sed takes them from the pages."""
    (line,) = re.findall(r"^\t(sed -nE .*) \| sh -ex$", makefile(), re.MULTILINE)
    found = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert sorted(COMMAND.findall(found)) == sorted(c for page in PAGES for c in COMMAND.findall(read(page)))


def test_every_table_of_numbers_is_traced_or_says_where_it_is_from():
    found = set()
    for page in PAGES:
        text = re.sub(r"<!-- table: .*?<!-- end of the table -->", "", read(page), flags=re.DOTALL)
        for head, _, *body in tables(text):
            values = [cell for line in body for cell in cells(line)[1:]]
            numbers = sum(bool(NUMBER.fullmatch(value)) for value in values)
            if page not in WRITTEN and numbers >= 4 and numbers > 0.2 * len(values):
                found.add((page, cells(head)[0]))
    assert found - set(NOT_ROWS) == set(), (
        "write it by a command, between comments, or say in NOT_ROWS where it is from"
    )


def test_every_published_run_is_listed_with_its_date():
    line = r"^\| \[([\w-]+)\]\(\.\./results/published/\1\) \| .* \| ([\d-]+) \|$"
    listed = dict(re.findall(line, read("docs/results.md"), re.MULTILINE))
    known = {run: store.environment(PUBLISHED / run)["sessions"] for run in RUNS}
    assert listed == {run: min(session["started"] for session in known[run])[:10] for run in RUNS}
    old = {run for run in RUNS if min(session["started"] for session in known[run]) < "2026-11-22T16:00"}
    (said_of,) = re.findall(r"([^.]*) is\s+from before rounds began with an empty L2", read("docs/results.md"))
    assert set(re.findall(r"`([\w-]+)`", said_of)) == old


@pytest.mark.parametrize("page", ["docs/cluster.md", "results/published/h200-scaling/README.md"])
def test_efficiency_is_that_of_the_run(page):
    known = json.loads((PUBLISHED / "h200-scaling" / "scaling.json").read_text(encoding="utf-8"))["runs"]
    (table,) = [table for table in tables(read(page)) if cells(table[0])[0] == "GPUs"]
    head = cells(table[0])
    for line in table[2:]:
        row = dict(zip(head, cells(line), strict=True))
        of = known[row["GPUs"]]
        assert float(row["wall s"]) == round(of["wall"], 1) and float(row["efficiency"]) == round(of["efficiency"], 2)
        for stage, seconds in of["seconds"].items():
            assert row[stage] == f"{100 * seconds / (of['wall'] * int(row['GPUs'])):.1f} %", stage


@pytest.mark.parametrize("run", sorted({*RUNS} - {"h200-first"}))  # whose pages count otherwise
def test_counts_of_a_run_are_those_of_its_rows(run):
    text = " ".join(read(f"results/published/{run}/README.md").split()).replace(",", "")
    cases, right, rest = re.search(r"(\d+) cases:? (?:of which )?(\d+|all) (?:are )?right(.*)", text).groups()
    rows = store.load(PUBLISHED / run).drop_duplicates("case_id", keep="last")
    rows = rows[rows["matrix_sha256"] != ""]  # matrices that were read
    counts = rows["status"].value_counts()
    assert int(cases) == len(rows)
    assert counts["ok"] == (len(rows) if right == "all" else int(right))
    wrong = re.search(r"(\d+) refused as wrong", rest)
    assert counts.get("wrong", 0) == (int(wrong[1]) if wrong else 0)
    if skipped := re.search(r"(\d+) (?:are )?skipped", rest):
        assert counts["skipped"] == int(skipped[1])
    if largest := re.search(r"largest error ([\d.]+) of its bound", rest):
        assert f"{rows.loc[rows['status'] == 'ok', 'error_ratio'].max():.2f}" == largest[1]


def ratios(run, label="irregular", over=VENDOR):
    """Speed of a label over another one, by matrix and type."""
    found = gflops(rows_of(PUBLISHED, run))
    return (found[label] / found[over]).dropna()


def verified_rows(run):
    rows = store.load(PUBLISHED / run)
    return rows[rows["status"] == "ok"]


def mean(values):
    return float(np.exp(np.log(values).mean()))


def rounded(values, places):
    """The numbers, each with so many places after the point."""
    return [round(value, place) for value, place in zip(values, places, strict=True)]


def written(page, module):
    """The table that a module writes into a page."""
    return read(page).partition(in_page.begin(module))[2].partition(in_page.END)[0].strip()


def said(page, pattern):
    """The numbers of a statement, which must be on the page once."""
    (found,) = re.findall(pattern.replace(" ", r"\s+"), read(page), re.DOTALL)
    return [float(number) for number in (found if isinstance(found, tuple) else (found,))]


class TestIrregularAccess:
    """Statements of docs/irregular.md."""

    page = "docs/irregular.md"
    four = ("column-sweep", "hub-cache", "csr5", "sell-local")

    def rows_of(self, run):
        return timed(real_matrices(PUBLISHED)) if run == "real" else rows_of(PUBLISHED, run)

    def every_value(self, run):
        return gflops(of_every_value(self.rows_of(run)))

    def shares(self, found):
        """Speed of irregular over that of the best of all, and of the best of its four formats."""
        four = found[[label for label in self.four if label in found]].max(axis=1)
        return found["irregular"] / found.max(axis=1), found["irregular"] / four

    def test_means_relative_to_cusparse(self):
        speed = ratios("h200-irregular")
        known = [round(mean(speed.xs(dtype, level="dtype")), 2) for dtype in ("f64", "f32")]
        pattern = r"relative to cuSPARSE is ([\d.]+) in double precision and ([\d.]+\d) in single"
        assert said(self.page, pattern) == known

    def test_the_choice_is_the_fastest_of_its_four_formats(self):
        found = gflops(rows_of(PUBLISHED, "h200-irregular"))
        every, four = self.shares(found)
        assert said(self.page, r"In all (\d+) cases the choice is the fastest of its four") == [len(four)]
        assert (four == 1).all()
        assert said(self.page, r"In (\d+) cases it is the fastest of all ten") == [(every == 1).sum()]
        assert found.shape[1] == 10
        fastest = found[every < 1].idxmax(axis=1)
        assert fastest.to_dict() == {
            **{("synthetic/powerlaw:1000000:16", dtype): VENDOR for dtype in ("f64", "f32")},
            ("synthetic/rmat:20:16", "f32"): "csr5-hub",
        }
        (percent,) = set((100 / every.loc["synthetic/powerlaw:1000000:16"] - 100).round())
        assert said(self.page, r"on powerlaw cuSPARSE is (\d+) % faster") == [percent]
        other = 100 / every["synthetic/rmat:20:16", "f32"] - 100
        assert said(self.page, r"csr5-hub is ([\d.]+) % faster") == [round(other, 1)]

    def test_hubs(self):
        found = gflops(rows_of(PUBLISHED, "h200-irregular"))
        graphs = found.index.get_level_values("matrix").str.startswith("synthetic/rmat")
        times = found["hub-cache"] / found["csr5"]
        known = [round(of, 1) for of in (times[graphs].min(), times[graphs].max())]
        assert said(self.page, r"hub-cache is ([\d.]+) to ([\d.]+) times as fast as csr5") == known
        powerlaw = found.loc["synthetic/powerlaw_t:1000000:16"].loc[["f64", "f32"]]
        known = list((powerlaw["column-sweep"] / powerlaw["hub-cache"]).round(1))
        assert said(self.page, r"column-sweep is ([\d.]+) and ([\d.]+) times as fast as hub-cache") == known
        real = gflops(self.rows_of("real"))
        small = real.loc[[f"SNAP/{name}" for name in ("ca-AstroPh", "cit-HepTh", "soc-Slashdot0902")]]
        times = small["hub-cache"] / small["csr5"]
        known = [round(of, 2) for of in (times.min(), times.max())]
        assert said(self.page, r"hub-cache has ([\d.]+) to ([\d.]+) of the speed of csr5") == known

    def test_fastest_of_the_four(self):
        (table,) = [table for table in tables(read(self.page)) if cells(table[0])[0] == "f64 / f32"]
        found = pd.concat([gflops(self.rows_of(run)) for run in ("h200-irregular", "real")])
        for line in table[2:]:
            name = cells(line)[0]
            fastest = found.loc[name if "/" in name else f"synthetic/{name}", list(self.four)].idxmax(axis=1)
            assert set(fastest) == {cells(line)[-1]} and len(fastest) == (1 if "/" in name else 2), name

    def test_no_row_exceeds_its_bound(self):
        of = rows_of(PUBLISHED, "h200-irregular")
        share = of["gflops"] / of["bound_gflops"]
        assert said(self.page, r"No row exceeds ([\d.]+) of its bound") == [np.ceil(100 * share.max()) / 100]
        uniform = share[(of["label"] == "column-sweep") & of["name"].str.startswith("uniform")]
        pattern = r"column-sweep reaches ([\d.]+) to ([\d.]+) of the gather bound"
        assert said(self.page, pattern) == [round(uniform.min(), 2), round(uniform.max(), 2)]
        patterns = {
            "h200-headline": r"None of its (\d),(\d+) rows",
            "h200-applications": r"any of (\d),(\d+) rows in h200-applications",
            "real": r"rows in h200-applications and (\d),(\d+) of the real matrices",
        }
        for run, pattern in patterns.items():
            rows = verified(real_matrices(PUBLISHED)) if run == "real" else verified_rows(run)
            assert said(self.page, pattern) == [*divmod(len(rows), 1000)]
            assert (rows["gflops"] / rows["bound_gflops"]).max() <= 1

    def test_how_tight_the_bounds_are(self):
        double = verified_rows("h200-headline").query("dtype == 'f64' and mode == 'hot'")
        double = double.assign(share=double["gflops"] / double["bound_gflops"])
        best = double.groupby("name")["share"].max().round(2)
        pattern = (
            r"([\d.]+) on pde:100 .{,50}, ([\d.]+) on pde:200, ([\d.]+) and ([\d.]+) on .{,30} ([\d.]+) on the band"
        )
        names = ["pde:100", "pde:200", "fem:40:3", "fem:60:3", "band:1048576:24:2000"]
        assert said(self.page, pattern) == list(best[names])
        uniform = double[double["name"] == "uniform:1048576:12"].set_index("label")
        pattern = r"bound is (\d+) GFLOPS\. .{,20} order reach ([\d.]+) of it, .{,90} column-sweep reaches ([\d.]+\d)"
        known = uniform.loc["csr5", "bound_gflops"], *uniform.loc[["sell", "column-sweep"], "share"]
        assert said(self.page, pattern) == [round(known[0]), round(known[1], 2), round(known[2], 2)]
        pattern = r"uniform:1048576:12 they are ([\d.]+) and ([\d.]+) on an H200"
        assert said(self.page, pattern) == list(uniform.loc["csr5", ["x_sectors", "x_lines"]].astype(float).round(2))

    def test_costs_of_a_line_and_of_a_sector(self):
        measured = store.environment(PUBLISHED / "h200-headline")["sessions"][0]["bounds"]
        one, four = dict(measured["sectors"]), dict(measured["lines"])
        costs = []
        for size in (1 << 23, 1 << 27):
            sector = 1e12 * (four[size] - one[size]) / 3
            costs += [round(1e12 * one[size] - sector, 1), round(sector, 1)]
        pattern = r"they are ([\d.]+) and ([\d.]+) picoseconds .{,30} and ([\d.]+) and ([\d.]+) for one of 134 MB"
        assert said(self.page, pattern) == costs

    def test_irregular_real_matrices(self):
        rows = self.rows_of("real").query("label == 'csr5' and nnz >= 300_000 and x_sectors >= 0.18")
        found = self.every_value("real").loc[list(rows["matrix"])]
        every, four = self.shares(found)
        assert len(found) == 6 and (every < 0.95).all() and (1 / four).max() <= 1.01
        best = set(found.idxmax(axis=1))
        assert len(best) == 6 and not best & {"irregular", *self.four}
        assert said(self.page, r"relative to cuSPARSE is ([\d.]+), the same as that of csr5") == [
            round(mean(found["irregular"] / found[VENDOR]), 2)
        ]
        assert round(mean(found["csr5"] / found[VENDOR]), 2) == round(mean(found["irregular"] / found[VENDOR]), 2)
        assert said(self.page, r"its mean speed is ([\d.]+) of the best\. The") == [round(mean(every), 2)]

    @pytest.mark.parametrize("run", ["h200-applications", "real"])
    def test_all_matrices_of_a_run(self, run):
        found = self.every_value(run)
        every, _ = self.shares(found)
        matrices = "real matrices" if run == "real" else f"matrices of {run}"
        pattern = rf"\*\*All (\d+) {matrices}\*\*.*?" + (
            r"relative to cuSPARSE is ([\d.]+) \(csr5: ([\d.]+), sell-local: ([\d.]+)\)"
        )
        speed = found[["irregular", "csr5", "sell-local"]].div(found[VENDOR], axis=0).apply(mean)
        assert said(self.page, pattern) == [len(found), *speed.round(2)]
        slower = (found["irregular"] / found[VENDOR])[lambda ratio: ratio < 1].droplevel("dtype").round(2)
        near = {matrix.rpartition("/")[2] for matrix, _ in every[every >= 0.95].index}
        if run == "real":
            pattern = (
                r"on four: ([\d.]+) on astro-ph_pattern, ([\d.]+) on cit-HepTh, ([\d.]+) on Groebner_id2003_aug, "
                r"([\d.]+) on BOYD1_A"
            )
            names = ["Extra/astro-ph_pattern", "SNAP/cit-HepTh", "Extra/Groebner_id2003_aug", "Extra/BOYD1_A"]
            assert len(slower) == 4 and said(self.page, pattern) == list(slower[names])
            assert near == {"arrow"}
            return
        assert slower.empty and near == {"fms:6", "fms:7", "fms:8", "xxz:20", "hubbard:10", "queues:5:20"}
        sizes = rows_of(PUBLISHED, run).drop_duplicates("matrix").set_index("matrix")["nnz"]
        large = sizes[found.index.get_level_values("matrix")].to_numpy() > 1_000_000
        far = every.to_numpy() < 0.95
        pattern = r"best of all on (\d+) \(.*?slower on (\d+): on (\d+) of the (\d+), and on (\d+) of the (\d+) below"
        counts = len(near), far.sum(), (far & large).sum(), large.sum(), (far & ~large).sum(), (~large).sum()
        assert said(self.page, pattern) == list(counts)
        of_best = found.div(found.max(axis=1), axis=0)[large]
        speed = of_best.loc[:, of_best.notna().all()].apply(mean).sort_values(ascending=False)
        assert list(speed.index[:3]) == ["sell-c-sigma", "ell-warp-k2", "irregular"]
        pattern = (
            r"above a million entries it has ([\d.]+); "
            r".{,60}sell-c-sigma \(([\d.]+)\) and ell-warp-k2 \(([\d.]+)\) have more"
        )
        assert said(self.page, pattern) == list(speed[["irregular", "sell-c-sigma", "ell-warp-k2"]].round(2))

    def test_mean_slowdowns(self):
        for run, place, first, pattern in (
            (
                "h200-applications",
                10,
                "ell-warp-k2",
                r"of `irregular` is ([\d.]+), the tenth of (\d+) labels; "
                r"that of ell-warp-k2, the first, is ([\d.]+\d)\. "
                r"`irregular` has ([\d.]+) of the speed of the best of all, ell-warp-k2 ([\d.]+\d)",
            ),
            (
                "real",
                2,
                "csr-bins",
                r"mean slowdown is ([\d.]+), the second of (\d+) labels; that of csr-bins, the first, is ([\d.]+\d)\."
                r" It has ([\d.]+) of the speed of the best of all, csr-bins ([\d.]+\d)",
            ),
        ):
            found = real_matrices(PUBLISHED) if run == "real" else latest_cases(store.load(PUBLISHED / run))
            rows = of_every_value(found)
            slowdown = mean_slowdowns(rows).droplevel("setting")["mean_slowdown"].sort_values()
            assert slowdown.index[0] == first and slowdown.index[place - 1] == "irregular"
            found = self.every_value(run)
            speed = [round(mean(found[label] / found.max(axis=1)), 2) for label in ("irregular", first)]
            known = round(slowdown["irregular"], 2), len(slowdown), round(slowdown[first], 2)
            assert said(self.page, pattern) == [*known, *speed]

    def test_both_runs(self):
        found = pd.concat([self.every_value(run) for run in ("h200-applications", "real")])
        _, four = self.shares(found)
        of_best = found.div(found.max(axis=1), axis=0)
        speed = of_best.loc[:, of_best.notna().all()].apply(mean).sort_values(ascending=False)
        assert list(speed.index[:2]) == ["irregular", "csr-adaptive-l"]
        pattern = r"\*\*Both sets\*\*, (\d+) matrices: it has ([\d.]+) of .{,110} csr-adaptive-l \(([\d.]+)\)"
        assert said(self.page, pattern) == [len(found), *speed.iloc[:2].round(2)]
        slower = four[four < 0.95].index.get_level_values("matrix")
        sizes = pd.concat([self.rows_of(run) for run in ("h200-applications", "real")])
        sizes = sizes.drop_duplicates("matrix").set_index("matrix")["nnz"]
        assert (sizes[slower] < 1_000_000).sum() == 9
        assert said(self.page, r"than the best of its four formats on (\d+), nine of which") == [len(slower)]
        assert said(self.page, r"Its mean speed is ([\d.]+) of the best of the four") == [round(mean(four), 2)]
        every, advice = self.shares(self.every_value("h200-advice"))
        known = {matrix.rpartition("/")[2] for matrix in advice[advice < 0.95].index.get_level_values("matrix")}
        assert known == {"stray:80:10", "stray:100:40", "dense:2000:2000", "rect:300000:50000:24"}
        pattern = (
            r"On the (\d+) generated .* its mean speed is ([\d.]+) of the best of the four and ([\d.]+) of the best"
        )
        assert said(self.page, pattern) == [len(advice), round(mean(advice), 2), round(mean(every), 2)]

    def test_generated_matrices_of_the_headline(self):
        found = self.every_value("h200-headline")
        every, four = self.shares(found)
        pattern = r"matrices of h200-headline.{,70} is ([\d.]+)\. .{,70} all (\d+) cases\. .{,60} in (\d+): uniform"
        assert said(self.page, pattern) == [
            round(mean(found["irregular"] / found[VENDOR]), 2),
            len(found),
            (every >= 0.95).sum(),
        ]
        assert (four == 1).all()
        near = {matrix for matrix, _ in every[every >= 0.95].index}
        assert near == {"synthetic/uniform:1048576:12", "synthetic/rmat:20:16"}

    def test_what_the_rule_ignores(self):
        runs = "h200-applications", "real", "h200-advice", "h200-long-rows"
        rows = pd.concat([self.rows_of(run).query("dtype == 'f64'").assign(run=run) for run in runs])
        rate = rows.set_index(["run", "name", "label"])["gflops"].sort_index()
        small = {
            "h200-applications": ["maxwell:1", "hubbard:8", "fms:4", "elasticity:0", "prolong:40:1", "xxz:16"],
            "real": ["bcsstk16", "delaunay_n15", "astro-ph_pattern"],
        }
        of = [rate[run, name, "csr5"] / rate[run, name, "sell-local"] for run in small for name in small[run]]
        pattern = r"xxz:16: csr5 has ([\d.]+) to ([\d.]+) of its speed"
        assert said(self.page, pattern) == [round(min(of), 2), round(max(of), 2)]
        for run, name, one, other, pattern in (
            ("h200-applications", "kkt:70000:12", "irregular", "sell-local", r"kkt:70000:12 \((\d+) against (\d+) G"),
            ("h200-applications", "prolong:150:1", "irregular", "sell-local", r"prolong:150:1 \((\d+) against (\d+)\)"),
            ("h200-applications", "maxwell:3", "csr5", "sell-local", r"as on maxwell:3 \((\d+) against (\d+)\)"),
            ("h200-applications", "stokes:3", "csr5", "sell-local", r"stokes:3 \((\d+) against (\d+)\)"),
            ("h200-applications", "ct:128:90", "csr5", "sell-local", r"ct:128:90 \((\d+) against (\d+)\)"),
            ("h200-applications", "kkt:13659:24", "column-sweep", "irregular", r"kkt:13659:24 \((\d+) against (\d+)\)"),
            ("h200-advice", "stray:80:10", "irregular", "sell-local", r"stray:80:10 \((\d+) against (\d+);"),
            ("h200-advice", "rect:300000:50000:24", "column-sweep", "irregular", r"50000:24 \((\d+) against (\d+)\)"),
            ("real", "BOYD1_A", "csr-adaptive-l", "irregular", r"csr-adaptive-l has (\d+) and irregular (\d+)"),
            ("h200-long-rows", "denserow:1000000", "csr-adaptive-l", "irregular", r"-l (\d+) and irregular (\d+)\. On"),
        ):
            known = [round(rate[run, name, label]) for label in (one, other)]
            assert said(self.page, pattern) == known, name
        dense = rate["h200-long-rows", "denserow:1000000"]
        assert said(self.page, r"hdc has (\d+) GFLOPS") == [round(dense.max())] and dense.idxmax() == "hdc"
        faster = rate["h200-applications", "kkt:13659:24"], rate["h200-advice", "rect:300000:50000:24"]
        known = [round(100 * of["column-sweep"] / of["irregular"] - 100) for of in faster]
        pattern = r"F = 0\.31, (\d+) % faster than the choice\) .{,40}F = 0\.60, (\d+) % faster"
        assert said(self.page, pattern) == known

    def test_on_an_h100(self):
        choices = {}
        for card in ("h200", "h100"):
            rows = rows_of(PUBLISHED, f"{card}-irregular").query("label == 'irregular'").set_index(["matrix", "dtype"])
            choices[card] = rows["detail"].map(lambda detail: json.loads(detail)["chosen"]).to_dict()
        assert choices["h100"] == choices["h200"]
        rows = rows_of(PUBLISHED, "h100-irregular")
        found = gflops(rows)
        speed = found["irregular"] / found[VENDOR]
        assert (found["irregular"] == found[list(self.four)].max(axis=1)).all()
        pattern = r"makes the same (\d+) choices there\..{,60}, and (\d+) are the fastest of all ten; cuSPARSE"
        assert said(self.page, pattern) == [len(found), (found["irregular"] == found.max(axis=1)).sum()]
        slower = 1 / speed[speed < 1] - 1
        assert set(slower.index.get_level_values("matrix")) == {"synthetic/powerlaw:1000000:16"} and len(slower) == 2
        (percent,) = set((100 * slower).round())
        assert said(self.page, r"cuSPARSE is faster on powerlaw, by (\d+) % in both") == [percent]
        means = [mean(speed.xs(dtype, level="dtype")) for dtype in ("f64", "f32")]
        means += [mean(ratios("h200-irregular").xs(dtype, level="dtype")) for dtype in ("f64", "f32")]
        pattern = r"([\d.]+) times .{,50} and ([\d.]+) times in single, in .{,25} \(H200: ([\d.]+) and ([\d.]+)\)"
        assert said(self.page, pattern) == [round(value, 2) for value in means]
        share = (rows["gflops"] / rows["bound_gflops"]).max()
        assert said(self.page, r"All rows are within ([\d.]+) of their bounds") == [np.ceil(100 * share) / 100]
        found, here = self.every_value("h100-applications"), self.every_value("h200-applications")
        _, four = self.shares(found)
        pattern = (
            r"On the (\d+) matrices of \[h100-applications\].{,60} has ([\d.]+) times .{,25} \(H200: ([\d.]+)\), "
            r"and is slower than cuSPARSE on (\d+)\. It has ([\d.]+) of .{,60} 5 % slower on (\d+)\."
        )
        speed = found["irregular"] / found[VENDOR]
        known = len(found), mean(speed), mean(here["irregular"] / here[VENDOR]), (speed < 1).sum()
        assert said(self.page, pattern) == [round(v, 2) for v in (*known, mean(four), (four < 0.95).sum())]

    def test_conversion(self):
        cases = [
            (matrix, label)
            for label, matrices in (
                ("irregular", ("uniform:1048576:12", "rmat:20:16")),
                ("column-sweep", ("uniform:1048576:12",)),
                ("hub-cache", ("rmat:20:16",)),
            )
            for matrix in matrices
        ]
        number = r"(\d+) ?(?:SpMVs for `irregular` on uniform:1048576:12 )?\((\d+)"
        for run, pattern in (
            ("h200-headline", rf"as long as {number}.{{,60}} and {number}\).*?takes {number}\).*?hub-cache {number}\)"),
            ("h200-irregular", rf"another run, they take {number}\) and {number}\), {number}\) and {number}\)"),
        ):
            rows = rows_of(PUBLISHED, run).set_index(["name", "label", "dtype"])
            products = rows["t_convert_device"] / rows["t_median"]
            known = [round(products[(*case, dtype)]) for case in cases for dtype in ("f64", "f32")]
            assert said(self.page, pattern) == known


def over_the_best(rows, label, spmvs):
    """By matrix: time of conversion and products in a choice of `auto`, over that of the best of the other labels."""
    total = rows.assign(total=ready(rows) + spmvs * rows["t_median"])
    total = total.pivot(index="name", columns="label", values="total")
    return total[label] / total.loc[:, ~total.columns.str.startswith("auto")].min(axis=1)


class TestSpeed:
    """Statements of docs/speed.md beside its tables."""

    page = "docs/speed.md"

    def test_cells_that_are_done(self):
        lines = [cells(line) for line in read(self.page).splitlines() if line.count("|") == 12][2:]
        done = [line[:2] for line in lines if "**" in line[5] and "**" in line[6] + line[9]]
        assert said(self.page, r"That is (\d+) of (\d+)\.") == [len(done), len(lines)]
        assert {tuple(cell) for cell in done} == {
            *(("denserow:1000000", dtype) for dtype in ("f64", "f32")),
            *((matrix, "f32") for matrix in ("pde:100", "fem:40:3")),
        }
        near = [line[:2] for line in lines if "**" not in line[5] and float(line[5]) >= 0.99 * float(line[7])]
        assert sorted(near) == [["fem:40:3", "f64"], ["fem:60:3", "f32"], ["fem:60:3", "f64"], ["pde:200", "f32"]]

    def test_bytes_bound_the_stencils(self):
        rows = verified_rows("h200-headline").query("dtype == 'f64' and mode == 'hot'").set_index(["name", "label"])
        found = rows.loc[[("pde:100", "crsd[kernel=paper]"), ("pde:200", "brcsd")]]
        pattern = (
            r"take ([\d.]+) and ([\d.]+) bytes per entry, .{,40} at (\d),(\d+) and (\d),(\d+) GB/s, .*? (\d),(\d+)\."
        )
        read_at = store.environment(PUBLISHED / "h200-headline")["sessions"][0]["read_bandwidth_gbps"]
        rates = [part for rate in (*found["gbps"], read_at) for part in divmod(round(rate), 1000)]
        assert said(self.page, pattern) == [*found["bytes_per_nnz"].round(2), *rates]

    def test_what_the_evaluation_says_of_auto(self):
        (choices,) = [table for table in tables(read("docs/advice.md")) if "All, always chosen" in cells(table[0])]
        known = {cells(line)[0]: re.findall(r"[\d.]+", " ".join(cells(line)[1:])) for line in choices[2:]}
        few, many = known["`auto[spmvs=1000]`"], known["`auto[spmvs=1000000]`"]
        oracle = known["best format whose conversion takes at most 40"]
        pattern = (
            r"1,000 products in `auto`, .{,40} take ([\d.]+) times as long .{,250} "
            r"fastest format on (\d+) % of 38 matrices and within 15 % on (\d+) %; .{,30} on (\d+) % and (\d+) %\. "
            r".{,90} as (\d+) SpMVs of cuSPARSE in the median and (\d+) at the "
            r".{,120} 40 SpMVs has (\d+) % and (\d+) %"
        )
        order = few[6], *few[1:3], *many[1:3], *few[3:5], *oracle[:2]
        assert said(self.page, pattern) == list(map(float, order))

    def test_rates_on_the_larger_graph(self):
        best = gflops(rows_of(PUBLISHED, "h200-irregular")).loc["synthetic/rmat:22:16"].max(axis=1).round()
        assert said(self.page, r"on rmat:22:16 (\d+) of 340, and (\d+) of 450") == list(best[["f64", "f32"]])

    def test_dense_row(self):
        rows = verified_rows("h200-long-rows").query("mode == 'hot'")
        best = rows[rows["label"] != "hdc"].groupby("dtype")["gflops"].max().round()
        assert said(self.page, r"Formats on CSR's arrays reach (\d+) and (\d+) in the same run") == list(
            best[["f64", "f32"]]
        )

    def test_searches(self):
        runs = "h200-bfs", "h200-tilespmspv"
        rows = pd.concat([verified_rows(run).assign(run=run) for run in runs])
        rows = rows[rows["op"].str.startswith("bfs")].assign(ms=lambda rows: 1e3 * rows["t_median"])
        matrices = ["fem:40:3", "poisson2d:1024", "rmat:20:16", "uniform:1048576:12"]
        programs = pd.read_csv(ROOT / "configs" / "published" / "speed" / "searches.csv").groupby("matrix")["us"].min()
        first = rows[rows["op"] == "bfs@0"].groupby("name")["ms"].min()
        pattern = r"takes ([\d.]+) ms on fem.{,14} ([\d.]+) on pois.{,20} ([\d.]+) on rmat.{,14} ([\d.]+) on uniform"
        assert said(self.page, pattern) == [float(f"{value:.3g}") for value in first[matrices]]
        pattern = r"BLEST takes ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+) ms"
        assert said(self.page, pattern) == [float(f"{value / 1e3:.3g}") for value in programs[matrices]]
        rows = rows[rows["run"] == "h200-bfs"]
        mean_ms = rows.groupby(["name", "label"])["ms"].mean()
        for matrix, label in (("fem:40:3", "bfs-merged"), ("poisson2d:1024", "bfs-do")):
            assert mean_ms[matrix].idxmin() == label
            known = said(self.page, rf"{matrix}\*\*: ([\d.]+) ms in `{label}`")
            assert known == [float(f"{mean_ms[matrix, label]:.3g}")]
        grid = rows[(rows["name"] == "poisson2d:1024") & (rows["label"] == "bfs-do")]
        detail = grid.set_index("op")["detail"].map(json.loads)
        levels = np.array([of["levels"] for of in detail])
        each = 1e3 * grid["ms"].to_numpy() / levels
        pattern = r"(\d),(\d+) to (\d),(\d+) levels, and a level takes ([\d.]+) to ([\d.]+) microseconds"
        ends = [*divmod(levels.min(), 1000), *divmod(levels.max(), 1000), each.min().round(1), each.max().round(1)]
        assert said(self.page, pattern) == ends
        found = detail["bfs@0"]["level_found"]
        assert said(self.page, r"a level has (\d+) to (\d),(\d+) vertices") == [min(found), *divmod(max(found), 1000)]

    def test_one_format_for_all(self):
        rows = verified_rows("h200-applications").query("label != 'cupy-csr'")
        fewer = set(rows.loc[fewer_values(rows), "label"])
        rows = rows[~rows["label"].isin(fewer)]
        times, made = (rows.pivot(index="name", columns="label", values=of) for of in ("t_median", "t_convert_device"))
        labels = {1_000: "auto", 1_000_000: "auto[spmvs=1000000]"}
        others = times.drop(columns=[*labels.values()])
        totals = [round(geometric_mean(over_the_best(rows, label, spmvs)), 2) for spmvs, label in labels.items()]
        pattern = r"1,000 products in `auto` take ([\d.]+) times as .{,20} of (\d+) other .{,90} ([\d.]+) times\."
        assert said(self.page, pattern) == [totals[0], others.shape[1], totals[1]]
        near = [
            round(100 * (times[label] / others.min(axis=1) <= most).mean())
            for label in labels.values()
            for most in (1.05, 1.15)
        ]
        pattern = (
            r"on (\d+) % of the (\d+) matrices and within 15 % on (\d+) %; .{,25} on (\d+) % and (\d+) %\. Choosing"
        )
        assert said(self.page, pattern) == [near[0], len(times), *near[1:]]
        took = [1e3 * made[label].agg(["min", "max", "median"]) for label in labels.values()]
        pattern = (
            r"takes ([\d.]+) to ([\d.]+) ms, ([\d.]+) in the median, as long as (\d+) SpMVs of cuSPARSE; for 1,000,000 "
            r"products (\d+) to (\d+) ms, (\d+) in"
        )
        products = (made["auto"] / times["cusparse-csr-alg1"]).median()
        known = [float(f"{value:.1g}") if value < 1 else round(value) for value in (*took[0], products, *took[1])]
        assert said(self.page, pattern) == known

    def test_cold_caches(self):
        rows = verified_rows("h200-headline")
        times = rows.pivot(index=["name", "dtype", "label"], columns="mode", values="t_median").dropna()
        cases = times.groupby(["name", "dtype"])
        longer = (times["cold"] / times["hot"]).groupby(["name", "dtype"]).median()
        pattern = r"longer by (\d+) to (\d+) %, medians"
        assert said(self.page, pattern) == [round(100 * (value - 1)) for value in (longer.min(), longer.max())]
        assert longer.idxmax()[0] == "pde:100" and longer.nsmallest(4).index.unique("name").tolist() == [
            "pde:200",
            "rmat:20:16",
        ]
        ranks = cases.apply(lambda of: of["hot"].corr(of["cold"], method="spearman"))
        assert said(self.page, r"Ranks correlate ([\d.]+) at least") == [round(ranks.min(), 3)]

    def test_small_matrices(self):
        rows = verified_rows("h200-suitesparse").query("nnz < 1_000_000")
        overhead = store.environment(PUBLISHED / "h200-suitesparse")["sessions"][0]["launch_overhead"]["hot"]
        least = rows["t_median"].min()
        pattern = r"No time is below ([\d.]+) microseconds, which is ([\d.]+) launch overheads"
        assert said(self.page, pattern) == [round(1e6 * least, 1), round(least / overhead, 1)]
        best = rows.loc[rows.groupby(["group", "name"])["t_median"].idxmin()]
        assert said(self.page, r"read and write (\d+) GB/s in the median") == [round(best["gbps"].median())]
        several = best[best["launches"] > 1]
        assert several["row_len_max"].min() > 256
        of = ["group", "name"]
        lost = rows[rows["launches"] == 1].groupby(of)["t_median"].min() / best.set_index(of)["t_median"] - 1
        known = [len(several), (best["row_len_max"] > 256).sum(), 100 * lost[lost > 0].min(), 100 * lost.max()]
        pattern = r"two launches are the fastest on (\d+) of (\d+) matrices, by (\d+) to (\d+) %"
        assert (several["launches"] == 2).all() and said(self.page, pattern) == [round(value) for value in known]
        largest = (12 * rows["nnz"] + 4 * rows["rows"]).max() / 1e6
        assert said(self.page, r"largest of these matrices takes (\d+) MB in CSR") == [round(largest)]

    def test_how_long_a_run_takes(self):
        def first(run, since="started"):
            """Seconds from an invocation's start, or that of its process, to its first row."""
            begun = pd.Timestamp(store.environment(PUBLISHED / run)["sessions"][0][since])
            row = store.load(PUBLISHED / run).sort_values("started_at").iloc[0]
            return round((pd.Timestamp(row["started_at"]) - begun).total_seconds() + row["t_case"], 1)

        def took(session):
            return (pd.Timestamp(session["ended"]) - pd.Timestamp(session["started"])).total_seconds()

        def rate(session):
            return [*divmod(session["rows"], 1000), round(took(session)), round(session["rows"] / took(session), 1)]

        one = store.environment(PUBLISHED / "h100-headline")["sessions"][0]
        seconds = one["seconds"]
        pattern = r"First row\*\*: ([\d.]+) s .{,120} 181 labels, ([\d.]+) s .{,30} ([\d.]+) s on four"
        known = first("h100-headline"), round(seconds["precompiling"], 1), first("h200-headline")
        assert said(self.page, pattern) == list(known)
        pattern = r"it is ([\d.]+) s on four GPUs in .{,70} ([\d.]+) s in .{,70} ([\d.]+) s in"
        assert said(self.page, pattern) == [
            first(run) for run in ("h200-stand-ins", "h200-long-rows", "h200-applications")
        ]
        assert said(self.page, r"in h200-stand-ins it is ([\d.]+) s\.") == [first("h200-stand-ins", "process_started")]
        begun, _, rest, *_ = store.environment(PUBLISHED / "h200-headline")["sessions"]
        pattern = r"(\d),(\d+) cases in (\d+) s on four H200s with nothing compiled, ([\d.]+) in"
        assert said(self.page, pattern) == rate(begun)
        assert said(self.page, r"were (\d),(\d+) cases more in (\d+) s, ([\d.]+) in") == rate(rest)
        pattern = r"an H100 took (\d+) s for the (\d),(\d+) cases"
        assert said(self.page, pattern) == [round(took(one)), *divmod(one["rows"], 1000)]
        pattern = r"Conversions take (\d+) s there, .{,80} (\d+) s, timing (\d+) s\. .{,30}`, takes (\d+) s \(a later"
        timing = seconds["timing hot"] + seconds["timing hot while x changes"]
        rows = store.load(PUBLISHED / "h100-headline").query("dtype == 'f64' and mode == 'hot'")
        tuned = rows.loc[rows["label"] == "tile-composite", "t_case"].sum()
        made = seconds["converting on the device"], seconds["converting the integer matrix"], timing, tuned
        assert said(self.page, pattern) == [round(each) for each in made]
        applications = store.environment(PUBLISHED / "h200-applications")["sessions"][0]
        pattern = r"of applications\*\*: (\d),(\d+) cases in (\d+) s on four H200s, ([\d.]+) in"
        assert said(self.page, pattern) == rate(applications)
        busy = sum(worker["busy"] for worker in applications["workers"])
        waited = applications["seconds"]["writing rows"] / busy
        assert said(self.page, r"writing rows takes (\d+) % of that time") == [round(100 * waited)]
        real = store.environment(PUBLISHED / "h200-suitesparse")["sessions"][0]
        pattern = r"most of them small: (\d),(\d+) cases in (\d+) s on four H200s, ([\d.]+) in"
        assert said(self.page, pattern) == rate(real)
        waited = real["seconds"]["writing rows"] / sum(worker["busy"] for worker in real["workers"])
        assert said(self.page, r"Each GPU waited for (\d+) % of that time") == [round(100 * waited)]
        later = store.environment(PUBLISHED / "h200-real")["sessions"][0]
        waited = later["seconds"]["writing rows"] / sum(worker["busy"] for worker in later["workers"])
        known = [*divmod(later["rows"], 1000), round(100 * waited)]
        assert said(self.page, r"h200-real\), (\d),(\d+) cases, each GPU waited for (\d+) %") == known
        known = json.loads((PUBLISHED / "h200-scaling" / "scaling.json").read_text(encoding="utf-8"))["runs"]
        longer = [of["command"] - of["wall"] for of in known.values()]
        assert said(self.page, r"the command took (\d+) s longer than its record") == [round(mean(longer))]


def test_what_is_said_of_energy_follows_from_the_run():
    page, rows = "docs/measuring.md", verified_rows("h200-energy").dropna(subset="energy")
    half = 100 * ((rows["energy_high"] - rows["energy_low"]) / 2 / rows["energy"]).quantile([0, 1, 0.5])
    pattern = r"half of an interval is (\d+) to (\d+) % of the energy, (\d+) % in the median"
    assert said(page, pattern) == list(half.round())
    by_matrix = rows.sort_values("label").groupby("name")
    least = by_matrix.apply(lambda of: of.set_index("label")[["t_median", "energy"]].idxmin())
    (other,) = least.index[least["t_median"] != least["energy"]]
    assert len(least) == 5 and other == "fem:60:3" and list(least.loc[other]) == ["bsr", "block-sell"]
    ranks = by_matrix.apply(lambda of: of["energy"].corr(of["t_median"], method="spearman"))
    assert said(page, r"correlate ([\d.]+) to ([\d.]+)\. On fem") == [round(ranks.min(), 2), round(ranks.max(), 2)]
    watts = rows["energy"] / rows["t_median"]
    pattern = r"median time: (\d+) to (\d),(\d+) W, above the card's limit of 700 W for (\d+) %"
    known = watts.min(), watts.max(), 100 * (watts > 700).mean()
    assert said(page, pattern) == [round(known[0]), *divmod(round(known[1]), 1000), round(known[2])]


def test_how_long_the_published_runs_took():
    begun = ("headline", "long-rows", "applications", "irregular", "solvers", "pagerank", "transposed")
    runs = (*begun, "values", "energy", "advice", "stand-ins", "orders", "suitesparse", "bfs")
    every = [of for run in runs for of in store.environment(PUBLISHED / f"h200-{run}")["sessions"] if of["rows"]]
    sessions = [of for of in every if "workers" in of]  # others are of one GPU
    assert {len(of["workers"]) for of in sessions} <= {2, 3, 4}  # of four, as many as had work
    known = sum(of["rows"] for of in sessions), round(sum(of["wall"] for of in sessions))
    pattern = r"(\d+),(\d+) cases in (\d),(\d+) s on four H200s"
    assert said("docs/commands.md", pattern) == [part for number in known for part in divmod(number, 1000)]
    listed = {step.name for step in steps(ROOT / "configs" / "measure.toml")}
    assert len(listed) == 20 and "All twenty are published for both cards" in re.sub(
        r"\s+", " ", read("docs/commands.md")
    )
    assert {f"{card}-{run}" for card in ("h100", "h200") for run in listed} <= set(RUNS)


def test_what_carries_over_between_cards():
    """Sentences of docs/cards.md beside its table."""
    page = "docs/cards.md"
    here, there = (store.load(PUBLISHED / f"{card}-headline") for card in ("h200", "h100"))
    table = cards.ratios(latest_cases(here), latest_cases(there))
    over = cards.carried_over(table).set_index("matrix")
    over.index = over.index.str.removeprefix("synthetic/")
    pattern = (
        r"loses at most ([\d.]+) % on the H100 \(`bellpack` on fem:60:3 in single precision, hot\), and at most "
        r"([\d.]+) % in the other (\d+) cases\. Ranks correlate ([\d.]+) to ([\d.]+)\."
    )
    ranks, lost = over["rank_correlation"], 100 * over["lost"].sort_values()
    known = lost.iloc[-1], lost.iloc[-2], len(over) - 1, ranks.min(), ranks.max()
    assert said(page, pattern) == rounded(known, (1, 1, 0, 3, 3))
    worst = over.iloc[over["lost"].argmax()]
    assert (worst.name, worst["setting"], worst["best"]) == ("fem:60:3", "f32 hot", "bellpack")
    of_mode = table.groupby(table["setting"].str.endswith("cold"))["ratio"]
    pattern = r"the median is ([\d.]+) cold and ([\d.]+) hot\. The largest is ([\d.]+) cold and ([\d.]+) hot"
    known = (of[cold] for of in (of_mode.median(), of_mode.max()) for cold in (True, False))
    assert said(page, pattern) == [round(value, 2) for value in known]
    over = over[over["setting"] == "f64 hot"]
    bandwidths = [store.environment(PUBLISHED / f"{card}-headline")["read_bandwidth_gbps"] for card in ("h200", "h100")]
    pattern = (
        r"bandwidths have a ratio of ([\d.]+)\. .* \(rmat:20:16\) ([\d.]+) in the median, .* \(fem:60:3\) ([\d.]+)\."
    )
    middle = over["middle"].round(2)
    assert said(page, pattern) == [round(bandwidths[0] / bandwidths[1], 2), middle["rmat:20:16"], middle["fem:60:3"]]
    assert said(page, r"another ratio, up to ([\d.]+) on pde:100") == [round(over.loc["pde:100", "high"], 2)]
    here, there = (store.load(PUBLISHED / f"{card}-applications") for card in ("h200", "h100"))
    found = cards.ratios(latest_cases(here), latest_cases(there))
    small = found["nnz"] < 1_000_000
    over = cards.carried_over(found)
    pattern = r"matrices of applications, (\d+) formats .{,70} each of (\d+) matrices: (\d),(\d+) pairs"
    counts = found["label"].nunique(), (over["formats"] >= 100).sum(), *divmod(len(found), 1000)
    assert said(page, pattern) == list(counts)
    # Formats that search by timing say how long that took.
    rows = store.load(PUBLISHED / "h200-headline")
    tuned = set(rows.loc[rows["detail"].str.contains("search_seconds", na=False), "label"])
    rest = found.loc[~found["label"].isin({*tuned, "cocktail"}), "ratio"]
    every = found["ratio"]
    ends = every.min(), every.max(), every.quantile(0.01), every.quantile(0.99), rest.min(), rest.max()
    pattern = (
        r"are ([\d.]+) to ([\d.]+) times .{,40} 98 % of them ([\d.]+) to ([\d.]+) t.* are ([\d.]+) to ([\d.]+)\. The"
    )
    assert said(page, pattern) == [round(value, 2) for value in ends]
    pattern = r"median is ([\d.]+) below a million entries and ([\d.]+) above\. Ranks"
    assert said(page, pattern) == [round(every[of].median(), 2) for of in (small, ~small)]
    ranks, lost = over["rank_correlation"], 100 * over["lost"]
    farthest = found.loc[[*every.nsmallest(3).index, *every.nlargest(2).index], "label"]
    assert set(farthest) == {"cocktail", "csr-gg"}
    assert said(page, r"correlate ([\d.]+) in the median, ([\d.]+) at least") == [
        round(ranks.median(), 2),
        round(ranks.min(), 2),
    ]
    pattern = r"H200 loses at most ([\d.]+) % on the H100, `csr-am` on ct:128:90, and at most 1\.5 % on (\d+) matrices"
    assert said(page, pattern) == [round(lost.max(), 1), (lost <= 1.5).sum()]
    assert list(over.loc[lost.idxmax(), ["matrix", "best"]]) == ["synthetic/ct:128:90", "csr-am"]


def test_what_carries_over_between_cards_in_other_runs():
    page, labels = "docs/cards.md", {}

    def both(run):
        """Ratios of a run on both cards, and by setting and matrix what carries over."""
        here, there = (latest_cases(store.load(PUBLISHED / f"{card}-{run}")) for card in ("h200", "h100"))
        found = cards.ratios(here, there)
        labels[run] = found["label"].nunique()
        return found.set_index("setting")["ratio"], cards.carried_over(found).set_index(["setting", "matrix"])

    every, over = both("irregular")
    pattern = (
        r"six matrices in both precisions, the median ratio is ([\d.]+)\. In (\d+) of (\d+) cases .{,90} of rmat:20:16 "
        r"in single precision, `csr5-hub`, loses ([\d.]+) %"
    )
    lost = over["lost"]
    known = every.median(), (lost == 0).sum(), len(lost), 100 * lost.max()
    assert said(page, pattern) == rounded(known, (2, 0, 0, 1))
    worst = over.loc["f32 hot", "synthetic/rmat:20:16"]
    assert (lost > 0).sum() == 1 and worst["lost"] > 0 and worst["best"] == "csr5-hub"
    every, over = both("transposed")
    pattern = r"in h100-transposed the median ratio is ([\d.]+), and the best .{,30} loses at most ([\d.]+) %"
    assert said(page, pattern) == [round(every.median(), 2), round(100 * over["lost"].max(), 1)]
    every, over = both("long-rows")
    pattern = r"in h100-long-rows the median ratio is ([\d.]+), and `hdc` is the best of (\d+) formats"
    assert said(page, pattern) == [round(every.median(), 2), over["formats"].min()]
    assert set(over["best"]) == {"hdc"} and not over["lost"].any() and len(over) == 4
    every, over = both("values")
    settings = [over.loc[(f"{types} hot", "synthetic/pde:100"), "middle"] for types in ("f64", "f32/f64", "f16/f64")]
    pattern = (
        r"in h100-values the median ratio is ([\d.]+)\. .{,120} ([\d.]+) with values and vectors in double precision, "
        r"([\d.]+) with `f32/f64` and ([\d.]+) with `f16/f64`\. .{,40} loses at most ([\d.]+) %"
    )
    known = every.median(), *settings, 100 * over["lost"].max()
    assert said(page, pattern) == rounded(known, (2, 2, 2, 2, 1))
    found = []
    for run, op in (("solvers", "cg@100"), ("pagerank", "pagerank@50")):
        every, over = both(run)
        found.append(every[f"f64 hot {op}"].median())
        assert not over.loc[f"f64 hot {op}", "lost"].any()
    pattern = r"takes ([\d.]+) times as long on the H100 in the median of h100-solvers, one of PageRank ([\d.]+) times"
    assert said(page, pattern) == [round(value, 2) for value in found]
    every, over = both("real")
    pattern = (
        r"in h100-real, (\d+) formats .{,70} the median ratio is ([\d.]+): .{,110} ranks correlate ([\d.]+) at least"
    )
    known = labels["real"], round(every.median(), 2), round(over["rank_correlation"].min(), 3)
    assert said(page, pattern) == list(known) and not over["lost"].any() and len(over) == 8
    every, over = both("advice")
    pattern = (
        r"in h100-advice, (\d+) generated .{,30} the median ratio is ([\d.]+)\. .{,50} loses at most ([\d.]+) %, on "
        r"stray:60:2, nothing on (\d+) matrices, and ranks correlate ([\d.]+) at least"
    )
    lost, ranks = over["lost"], over["rank_correlation"]
    known = len(over), every.median(), 100 * lost.max(), (lost == 0).sum(), ranks.min()
    assert said(page, pattern) == rounded(known, (0, 2, 1, 0, 3))
    assert lost.idxmax() == ("f64 hot", "synthetic/stray:60:2")
    every, over = both("suitesparse")
    lost = over["lost"]
    pattern = (
        r"in h100-suitesparse, (\d+) formats on (\d+) matrices .{,40} the median ratio is ([\d.]+)\. .{,50} loses "
        r"nothing on (\d+) matrices and at most 5 % on (\d+)\. On HB/bcsstk13 it is `cocktail`, .{,40} loses ([\d.]+) %"
    )
    known = labels["suitesparse"], len(over), every.median(), (lost == 0).sum(), (lost <= 0.05).sum(), 100 * lost.max()
    places = 0, 0, 2, 0, 0, 1
    assert said(page, pattern) == rounded(known, places)
    worst = over.loc["f64 hot", "HB/bcsstk13"]
    assert (worst["best"], worst["lost"]) == ("cocktail", lost.max())
    every, over = both("rivals")
    pattern = r"in h100-rivals, (\d+) formats on eight .{,40} ratio is ([\d.]+), and .{,40} loses at most ([\d.]+) %"
    known = labels["rivals"], round(every.median(), 2), round(100 * over["lost"].max(), 1)
    assert said(page, pattern) == list(known) and len(over) == 2 * 8
    found = {run: both(run) for run in ("survey", "tilespmv", "fastload")}
    pattern = (
        r"ratio is ([\d.]+) in h100-survey, ([\d.]+) in h100-tilespmv and ([\d.]+) in h100-fastload\. .{,50} at most "
        r"([\d.]+) %, ([\d.]+) % and ([\d.]+) %"
    )
    known = (
        *(round(every.median(), 2) for every, _ in found.values()),
        *(round(100 * over["lost"].max(), 1) for _, over in found.values()),
    )
    assert said(page, pattern) == list(known)
    every, over = both("ehyb")
    pattern = (
        r"in h100-ehyb, (\d+) formats .{,20} for (\d+) matrices, the median ratio is ([\d.]+)\. .{,120} at most 5 % on "
        r"(\d+) matrices, and ([\d.]+) % on that for Goodwin/Goodwin_095 \(`csr5`\)"
    )
    lost = over["lost"]
    known = labels["ehyb"], len(over), every.median(), (lost <= 0.05).sum(), 100 * lost.max()
    assert said(page, pattern) == rounded(known, (0, 0, 2, 0, 1))
    assert (
        lost.idxmax() == ("f64 hot", "synthetic/like:Goodwin/Goodwin_095") and over.loc[lost.idxmax(), "best"] == "csr5"
    )
    every, over = both("stand-ins")
    pattern = (
        r"in h100-stand-ins, .{,90} ratio is ([\d.]+)\. .{,60} nothing on (\d+) of (\d+) matrices, and at most "
        r"([\d.]+) %"
    )
    lost = over["lost"]
    known = every.median(), (lost == 0).sum(), len(lost), 100 * lost.max()
    assert said(page, pattern) == rounded(known, (2, 0, 0, 1))
    every, over = both("tilespmspv")
    products = [f"f32 hot spmspv@{density}" for density in (0.0001, 0.001, 0.01, 0.1)]
    pattern = (
        r"in h100-tilespmspv, six formats on (\d+) matrices, the median ratio is ([\d.]+) with 0\.1 % of the entries "
        r"of x and ([\d.]+) with 10 %\. The best format of the H200 loses at most ([\d.]+) %"
    )
    found, lost = (every[f"f32 hot spmspv@{density}"].median() for density in (0.001, 0.1)), over["lost"]
    assert said(page, pattern) == [15, *(round(of, 2) for of in found), round(100 * lost[products].max(), 1)]
    searches = "pattern hot bfs"
    meshes, on_meshes = both("bfs")
    pattern = r"searches take ([\d.]+) times as long .{,110} loses at most ([\d.]+) %\. A likely"
    assert said(page, pattern) == [round(every[searches].median(), 2), round(100 * lost[searches].max(), 1)]
    assert meshes.median().round(2) == every[searches].median().round(2) and not on_meshes["lost"].any()


def test_claims_of_papers_on_both_cards():
    key = ["paper", "over", "op", "dtype"]
    found = []
    tested = set(re.findall(r"\(\.\./results/published/h200-([\w-]+)\)", written("docs/reproduce.md", claims.MODULE)))
    for card in ("h200", "h100"):
        runs = [PUBLISHED / f"{card}-{run}" for run in tested if f"{card}-{run}" in RUNS]
        of_card = claims.table({run.name: claims.measured(store.load(run)) for run in runs})
        authors = of_card["label"].str.contains("kernel=paper", na=False)
        mean = of_card["alike"].fillna(of_card["geomean"])
        found.append(of_card.assign(authors=authors, speedup=mean).set_index([*key, "authors"])["speedup"])
    here, there = (of_card.dropna() for of_card in found)
    means = here.index.intersection(there.index)
    measured = means.droplevel("authors").unique()
    pattern = (
        r"(\d+) of (\d+) speed-ups that papers print .{,110}: (\d+) means\. All but one .{,110} over CSR5, ([\d.]+) on "
        r"the H200 and ([\d.]+) on the H100"
    )
    (other,) = means[(here[means] > 1) != (there[means] > 1)]
    assert (other[:2], other[-1]) == (("EHYB", "CSR5"), False)
    every = found[0].index.droplevel("authors").unique()
    known = len(measured), len(every), len(means), round(here[other], 2), round(there[other], 2)
    assert said("docs/cards.md", pattern) == list(known)


def test_auto_on_both_cards():
    page, matrices, slower = "docs/cards.md", 0, []
    for run in ("advice", "applications", "suitesparse", "real", "headline"):
        chosen, slowdowns = [], []
        for card in ("h100", "h200"):
            rows = verified_rows(f"{card}-{run}").query("label != 'cupy-csr' and dtype == 'f64' and mode == 'hot'")
            rows = rows[~fewer_values(rows)].assign(name=lambda rows: rows["group"] + "/" + rows["name"])
            auto = rows[rows["label"] == "auto"].set_index("name")
            chosen.append(auto["detail"].map(lambda text: json.loads(text)["chosen"]).sort_index())
            slowdowns.append(over_the_best(rows, "auto", 1000))
        assert chosen[0].equals(chosen[1])
        matrices += len(chosen[0])
        slower.append((len(slowdowns[0]), *(float(round(geometric_mean(of), 2)) for of in slowdowns)))
    assert said(page, r"choice on both cards on all (\d+) matrices of h100-advice") == [matrices]
    pattern = (
        r"takes ([\d.]+) times .{,100} on the (\d+) matrices of h100-advice \(H200: ([\d.]+)\), ([\d.]+) times on the "
        r"(\d+) of applications \(([\d.]+)\) and ([\d.]+) times on the (\d+) of the collection \(([\d.]+)\)"
    )
    known = [(there, count, here) for count, there, here in slower[:3]]
    assert said(page, pattern) == [number for of in known for number in of]


def test_what_orders_are_worth_carries_over_between_cards():
    page = "docs/cards.md"
    rows = (verified(latest_cases(store.load(PUBLISHED / f"{card}-orders"))) for card in ("h200", "h100"))
    here, there = (of.pivot(index=["matrix", "label"], columns="order", values="t_median") for of in rows)
    lost = pd.Series({case: there.at[case, order] for case, order in here.idxmin(axis=1).items()}) / there.min(axis=1)
    pattern = r"the median ratio is ([\d.]+)\. The order .{,70} at most 5 % on the H100 in (\d+) % of (\d+) cases"
    every = (there / here).stack()
    assert said(page, pattern) == [round(every.median(), 2), round(100 * (lost <= 1.05).mean()), len(lost)]
    gains = [np.exp(np.log(times["none"] / times["rcm"]).mean()).round(2) for times in (here, there)]
    pattern = r"`rcm` is worth as much: it has ([\d.]+) times the speed .{,50} the H200, ([\d.]+) times on the H100"
    assert said(page, pattern) == gains


def test_energy_on_both_cards():
    rows = {card: verified_rows(f"{card}-energy") for card in ("h200", "h100")}
    key = ["name", "label"]
    here, there = (of[of["energy"].notna()].set_index(key)[["energy", "t_median"]] for of in rows.values())
    found = (there / here).dropna()
    pattern = (
        r"takes ([\d.]+) times the joules on the H100 in the median of (\d+) cases of h100-energy \(([\d.]+) "
        r"to ([\d.]+)\), although it takes ([\d.]+) times as long\. On all (\w+) matrices .{,80} Power is (\d+) to "
        r"(\d+) W on the H100, and (\d+) to ([\d,]+) W on the H200"
    )
    (numbers,) = re.findall(pattern.replace(" ", r"\s+"), read("docs/cards.md"), re.DOTALL)
    joules = found["energy"]
    power = [part["energy"] / part["t_median"] for part in (there, here)]
    known = [f"{value:.2f}" for value in (joules.median(), joules.min(), joules.max(), found["t_median"].median())]
    known = [
        known[0],
        str(len(found)),
        *known[1:],
        "five",
        *(f"{end:,.0f}" for of in power for end in (of.min(), of.max())),
    ]
    assert list(numbers) == known
    least = [of["energy"].groupby("name").idxmin() for of in (here, there)]
    assert least[0].equals(least[1]) and len(least[0]) == 5


def test_numbers_of_programs_and_matrices_on_the_first_page():
    public = pd.read_csv(ROOT / "configs" / "published" / "speed" / "public.csv")["program"]
    programs = public[~public.str.endswith("-once")].nunique()
    assert said("README.md", r"the best of (\d+) public programs") == [programs]
    assert said("docs/speed.md", r"the fastest of (\d+) programs and settings") == [programs]
    matrices = verified_rows("h200-applications")["matrix_sha256"].nunique()
    assert said("README.md", r"on (\d+) matrices of applications") == [matrices]


def speedups_of_orders():
    """The hot verified rows of h200-orders, and the speed-up over the natural order by matrix and label, and order."""
    rows = verified(hot(latest_cases(store.load(PUBLISHED / "h200-orders"))))
    cases = gains(rows).pivot(index=["matrix", "label"], columns="order", values="speedup")
    assert cases.notna().all(axis=None)
    return rows, cases


def kinds(cases):
    """Which of the cases are of generated matrices, and which of generated meshes."""
    matrices = cases.index.get_level_values("matrix")
    return matrices.str.startswith("synthetic/"), matrices.str.match("synthetic/(?:pde|fem):")


def test_what_is_said_of_orders_follows_from_the_run():
    """Of docs/orders.md: the sentences on natural and lost orders."""
    page, (rows, cases) = "docs/orders.md", speedups_of_orders()
    rcm, lost = cases["rcm"], cases["random"]
    generated, meshes = kinds(cases)
    known = rows["label"].nunique(), rows["matrix"].nunique()
    assert said(page, r"(\d+) formats on (\d+) matrices, eight of applications and five generated") == list(known)
    assert [len(set(cases.index[of].get_level_values(0))) for of in (~generated, generated, meshes)] == [8, 5, 4]
    pattern = r"the (\d+) pairs of .*? gains (\d+) % in .{,30} 5 % on (\d+) % of them, "
    pattern += r"at most a factor of ([\d.]+) .{,50} on (\d+) %"
    more, less = round(100 * (rcm > 1.05).mean()), round(100 * (rcm < 0.95).mean())
    assert said(page, pattern) == [len(cases), round(100 * (mean(rcm) - 1)), more, round(rcm.max(), 1), less]
    assert rcm.idxmax() == ("Gleich/usroads", "hdi")
    assert (cases.drop(columns=["rcm", "random"]).apply(mean) < 0.99).all()  # "the other orders lose in the mean"
    pattern = (
        r"have ([\d.]+) of their speed, ([\d.]+) at worst \(`hdi` on fem:24:3\)\. .*? factor of ([\d.]+) in the mean"
    )
    assert said(page, pattern) == [round(value, 2) for value in (mean(lost), lost.min(), mean(rcm / lost))]
    assert lost.idxmin() == ("synthetic/fem:24:3", "hdi")
    assert said(page, r"in the mean, and ([\d.]+) on the four meshes") == [round(mean((rcm / lost)[meshes]), 1)]
    by_matrix = lost.groupby("matrix").apply(mean)
    assert said(page, r"in random order rmat:16:16 has ([\d.]+) times") == [round(by_matrix["synthetic/rmat:16:16"], 2)]
    assert set(by_matrix.index[by_matrix > FASTER]) == {"synthetic/rmat:16:16"}
    assert said(page, r"`csr-line-enhance`, which .{,50} has ([\d.]+) times its speed there") == [round(lost.max(), 1)]
    assert lost.idxmax() == ("synthetic/rmat:16:16", "csr-line-enhance")


def test_what_is_said_of_metis_follows_from_the_run():
    """Of docs/orders.md: METIS beside reverse Cuthill-McKee."""
    page, (rows, cases) = "docs/orders.md", speedups_of_orders()
    generated, meshes = kinds(cases)
    both = cases[["rcm", "metis"]]
    gained = set((100 * (both[~generated].apply(mean) - 1)).round())
    assert said(page, r"`rcm` and `metis` gain (\d+) % each") == list(gained)
    less = (100 * (both[~generated] < 0.95).mean()).round()
    assert said(page, r"`rcm` loses over 5 % on (\d+) % of the pairs, `metis` on (\d+) %") == list(less)
    lost = (100 * (1 - both[meshes].apply(mean))).round()
    assert said(page, r"`rcm` loses (\d+) % in the mean and `metis` (\d+) %") == list(lost)
    times = rows.groupby(["matrix", "order"])["t_order"].first().unstack()
    assert said(page, r"`metis` takes ([\d.]+) times as long") == [round((times["metis"] / times["rcm"]).median(), 1)]


def test_formats_that_orders_change_most_follow_from_the_run():
    """Of docs/orders.md: which formats gain, and which lose."""
    page, (_, cases) = "docs/orders.md", speedups_of_orders()
    means = np.exp(np.log(cases).groupby("label").mean())
    found = re.search(r"\*\*Which formats gain\.\*\*(.*?) gain most by falling degree", read(page), re.DOTALL)
    cited = dict(re.findall(r"`([\w-]+)` \(([\d.]+)\)", found[1]))
    assert cited == means["degree"].nlargest(3).map("{:.2f}".format).to_dict()
    assert (means["degree"] - means["rcm"])[list(cited)].min() > 0
    banded = cases["rcm"].xs("hdi", level="label").nlargest(3)
    assert {matrix.rpartition("/")[2] for matrix in banded.index} == {"delaunay_n15", "wing", "usroads"}
    pattern = r"`rcm` gives it ([\d.]+) to ([\d.]+) times its speed on delaunay_n15, wing and usroads"
    assert said(page, pattern) == [round(banded.min(), 1), round(banded.max(), 1)]
    assert round(means.at["column-sweep", "random"], 2) == 1  # "costs it nothing in the mean"
    for order in ("degree", "hub"):
        worst = means[order].nsmallest(2).round(1)
        assert list(worst.index) == ["hdi", "csr-line-enhance"]
        assert said(page, r"`hdi` has ([\d.]+) of its speed and `csr-line-enhance` ([\d.]+\d)") == list(worst)
    worst = (100 * (1 - means["rcm"].nsmallest(3))).round()
    assert list(worst.index) == ["csr-line-enhance", "hdi", "csr-entry-tiles"]
    pattern = r"`csr-line-enhance` loses (\d+) % in the mean, `hdi` (\d+) % and `csr-entry-tiles` (\d+) %"
    assert said(page, pattern) == list(worst)
    stencil = cases.at[("synthetic/pde:64", "ell-dia"), "rcm"]
    assert said(page, r"`ell-dia` on pde:64 has ([\d.]+) of") == [round(stencil, 2)]


def payback(rows, natural, order):
    """By matrix, SpMVs after which the fastest format in `order` has paid, from that in `natural`; the speed-up."""
    made = rows.assign(made=ready(rows) + rows["t_order"].fillna(0))
    fastest = made.loc[made.groupby(["order", "matrix"])["t_median"].idxmin()].set_index(["order", "matrix"])
    after, before = fastest.loc[order].align(fastest.loc[natural], axis=0)
    paid = break_even(after["made"], after["t_median"], ready(before), before["t_median"])
    return pd.DataFrame({"paid": paid, "factor": before["t_median"] / after["t_median"]}, after.index)


def test_calls_of_operators_beside_published_rows():
    page, rows = "docs/operator.md", verified_rows("h200-headline").query("dtype == 'f64' and mode == 'hot'")
    (table,) = [table for table in tables(read(page)) if cells(table[0])[0] == "Matrix"]
    matrix, ratios_of = "", []
    for line in table[2:]:
        named, product, *_, graph = cells(line)
        matrix = named or matrix
        row = rows[(rows["name"] == matrix) & (rows["label"] == product.partition(" ")[0])]
        if graph and len(row):
            ratios_of.append(float(graph) / (1e6 * row["t_median"].item()))
    assert len(ratios_of) == 5
    ends = [round(min(ratios_of), 2), round(max(ratios_of), 2)]
    assert said(page, r"is ([\d.]+) to ([\d.]+) times what `run` measured") == ends
    assert said(page, r"over that of its kernels \| 1 \| ([\d.]+) to ([\d.]+) \|") == ends
    calls = rows[rows["label"] == "cupy-csr"].set_index("name")["t_median"] * 1e6
    fastest = rows[rows["label"] != "cupy-csr"].groupby("name")["t_median"].min() * 1e6
    names = ["pde:100", "uniform:1048576:12", "rmat:20:16"]
    pattern = r"takes ([\d.]+) microseconds on pde:100, (\d+) on uniform:1048576:12 and (\d+) on rmat"
    assert said(page, pattern) == [float(f"{calls[name]:.3g}") for name in names]
    pattern = r"in a CUDA graph, take ([\d.]+), ([\d.]+) and ([\d.]+)\."
    assert said(page, pattern) == [round(fastest[name], 1) for name in names]
    table = time_to_n.of_run(PUBLISHED / "h200-headline")
    slower = table[(table["chooser"] == CUPY) & (table["spmvs"] >= 1000)]["slowdown"]
    ends = [round(slower.min(), 1), round(slower.max(), 1)]
    assert said(page, r"([\d.]+) to ([\d.]+) times as long as the oracle") == ends


def test_aims_of_operators():
    """Those of the advice are the numbers of its page."""
    (aims,) = [table for table in tables(read("docs/operator.md")) if cells(table[0])[1:3] == ["Aim", "Measured"]]
    (known,) = [table for table in tables(read("docs/advice.md")) if cells(table[0])[:2] == ["Chooser", "Regret, %"]]
    advised = [cells(line)[2:4] for line in known[2:] if not line.startswith("| model |")]
    assert [cells(line)[1:3] for line in aims[-6:]] == advised
    regret = pd.DataFrame(model.load("h200").about["regret"]).query("of == @model.ABOVE").set_index("spmvs")
    reached = []
    for chooser, mean_aim, p95 in ((training.ADVISED, 5, 25), (training.TRIED, 1, 5)):
        part = regret[regret["chooser"] == chooser]
        for near in (part["mean"] <= mean_aim, part["p95"] <= p95, part["worst"] < 100):
            ends = dict.fromkeys(near.index[near][[0, -1]]) if near.any() else ()
            some = f"at N = {' to '.join(f'{n:,}' for n in ends)}" if ends else "no"
            if (~near).sum() == 1 and not (~near).iloc[[0, -1]].any():
                some = f"at all N but {near.index[~near].item():,}"
            reached.append("yes" if near.all() else some)
    assert [cells(line)[3] for line in aims[-6:]] == reached
    found = time_to_n.of_run(PUBLISHED / "h200-applications")
    found = found[found["chooser"] == ADVISED]
    faster = found.loc[found["spmvs"] >= 10_000, "speedup"]
    assert [cells(line)[2] for line in aims[-8:-6]] == [
        f"{faster.min():.2f} to {faster.max():.2f}",
        f"{100 * found['always'].iloc[0]:.1f}",
    ]


def test_when_orders_pay_follows_from_the_run():
    """The first order to pay on each matrix: those that gain are cited one by one, the rest by their factor."""
    page, (rows, _) = "docs/orders.md", speedups_of_orders()
    found = pd.concat({order: payback(rows, "none", order) for order in set(rows["order"]) - {"none", "random"}})
    found = found.rename_axis(["order", "matrix"]).reset_index().sort_values("paid").drop_duplicates("matrix")
    found["matrix"] = found["matrix"].str.rpartition("/")[2]
    text = re.sub(r"\s+", " ", read(page))
    cited = re.findall(r"([\d,]+)(?: products)? +\(([^\s`]+), `(\w+)`,(?: factor)? ([\d.]+)\)", text)
    assert cited == [
        (f"{round(x.paid, -3):,.0f}", x.matrix, x.order, f"{x.factor:.2f}") for x in found.head(len(cited)).itertuples()
    ]
    pays = np.isfinite(found["paid"])
    rest = found.loc[pays, "factor"].iloc[len(cited) :]
    assert said(page, r"On two more matrices its factor is ([\d.]+) at most") == [round(rest.max(), 2)]
    assert len(rest) == 2
    never = re.search(r"On (\S+), (\S+), (\S+) and (\S+) none pays", text).groups()
    assert sorted(never) == sorted(found.loc[~pays, "matrix"])
    lost = payback(rows, "random", "rcm")["paid"] / 1000
    assert said(page, r"`rcm` pays after (\d+),000 to (\d+),000") == [round(lost.min()), round(lost.max())]
    fastest = 1e6 * rows[rows["order"] == "none"].groupby("matrix")["t_median"].min()
    pattern = r"fastest product in natural order takes (\d+) to (\d+) microseconds"
    assert said(page, pattern) == [round(fastest.min()), round(fastest.max())]


def test_what_is_said_of_narrower_values_follows_from_the_run():
    page, rows = "docs/values.md", verified(latest_cases(store.load(PUBLISHED / "h200-values")))
    speed = rows.pivot(index=["name", "label"], columns="dtype", values="gflops")
    mesh = speed.loc["fem:40:3"]
    blocks = mesh.loc["block-sell"]
    pattern = (
        r"has ([\d.]+) times its speed with 16-bit values on fem:40:3 \((\d+) to ([\d,]+) GFLOPS\), "
        r"and `cds` ([\d.]+)\."
    )
    ((times, before, after, diagonals),) = re.findall(pattern.replace(" ", r"\s+"), read(page))
    assert float(times) == round(blocks["f16/f64"] / blocks["f64"], 1)
    assert (before, after) == (f"{blocks['f64']:.0f}", f"{blocks['f16/f64']:,.0f}")
    assert float(diagonals) == round(mesh.at["cds", "f16/f64"] / mesh.at["cds", "f64"], 1)
    waits = speed.xs("column-sweep", level="label")
    gained = pd.concat([waits[narrow] / waits[wide] for narrow, wide in options.TYPES.items()])
    assert said(page, r"`column-sweep` gains nothing \(([\d.]+) to ([\d.]+)\)") == [
        round(gained.min(), 2),
        round(gained.max(), 2),
    ]
    sixteen = (speed["bf16/f64"] / speed["f16/f64"]).dropna()
    diagonals = sixteen.index.get_level_values("label").isin(["ell-dia", "cds"])
    off = 100 * (np.exp(np.log(sixteen[~diagonals]).abs()) - 1)
    assert said(page, r"`f16` and `bf16` differ by at most (\d+) % in all formats but") == [round(off.max())]
    known = [round(100 * (sixteen[matrix, "ell-dia"] - 1)) for matrix in ("fem:40:3", "pde:100")]
    assert said(page, r"is faster with `bf16`, by (\d+) % on fem:40:3 and by (\d+) % on pde:100") == known
    vendor = speed.xs(VENDOR, level="label")
    vendor = (vendor["f32/f64"] / vendor["f64"])[["fem:40:3", "pde:100", "rmat:20:16"]]
    pattern = r"it has ([\d.]+) times its speed on fem:40:3, ([\d.]+) on pde:100 and ([\d.]+) on rmat:20:16"
    assert said(page, pattern) == list(vendor.round(2))
    error = rows.groupby(["name", "dtype"])["rounding_error"].max()
    pattern = (
        r"up to (\S+) \(f16\) and (\S+) \(bf16\) of a row on pde:100, (\S+) and (\S+) on fem:40:3, (\S+) and (\S+) "
        r"on rmat:20:16; f32 has (\S+) to ([\d.e-]+\d)\."
    )
    of = [(matrix, values) for matrix in ("pde:100", "fem:40:3", "rmat:20:16") for values in ("f16", "bf16")]
    known = [error[name, f"{values}/f64"] for name, values in of]
    single = error.xs("f32/f64", level="dtype")
    assert said(page, pattern) == [float(f"{value:.0e}") for value in (*known, single.min(), single.max())]


def test_what_is_said_of_stand_ins_follows_from_the_run():
    page, rows = "docs/matrices.md", hot(latest_cases(store.load(PUBLISHED / "h200-stand-ins")))
    found = stand_ins.pairs(rows, STAND_IN)

    def deviations(found, *columns):
        every = stand_ins.summary(found).query("label == 'all formats'").set_index("facts")
        return [
            round(100 * every.at[facts, column]) for facts in (stand_ins.ALL, stand_ins.INDEX) for column in columns
        ]

    assert said(page, r"(\d+) matrices and eight formats, hot, double precision, the times") == [
        found["stands_for"].nunique()
    ]
    assert found["label"].nunique() == 8
    pattern = r"by (\d+) % in the median and by (\d+) % in the 90th percentile; with the facts of the index "
    pattern += r"by (\d+) % and (\d+) %\. Without"
    assert said(page, pattern) == deviations(found, "time_median", "time_p90")
    rest = found[~found["label"].isin(["sell-p", "tile-deferred-coo"])]
    assert said(page, r"the 90th percentiles are (\d+) % and (\d+) %\.") == deviations(rest, "time_p90")


def test_what_is_said_of_conjugate_gradients_follows_from_the_run():
    rows = store.load(PUBLISHED / "h200-solvers")
    times = rows.pivot_table(index="label", columns=["name", "op"], values="t_median") * 1e6
    number, page = r"(\d+(?:\.\d+)?)", "docs/operations.md"
    fastest = rf"{number} microseconds in .*? on spd_pde:100 \(`ell-dia`\) and {number} on spd_fem:40:3 \(`bsr`\)"
    vendor, shares = (
        rf"CSR it takes {number} and {number}\.",
        rf"is {number} to {number} % and {number} to {number} % of it",
    )
    said_of = {"fastest": said(page, fastest), "vendor": said(page, vendor), "shares": said(page, shares)}
    found = {"fastest": [], "vendor": [], "shares": []}
    for matrix, label in (("spd_pde:100", "ell-dia"), ("spd_fem:40:3", "bsr")):
        iteration, spmv = times[matrix, "cg@100"] / 100, times[matrix, "spmv"]
        assert iteration.idxmin() == label and len(iteration) == 24
        found["fastest"].append(round(iteration.min(), 1))
        found["vendor"].append(round(iteration["cusparse-csr-alg1"], 1))
        found["shares"] += [round(100 * (spmv / iteration).min()), round(100 * (spmv / iteration).max())]
    assert said_of == found


def test_what_is_said_of_formats_beside_programs_follows_from_rows():
    page, public = "docs/rivals.md", published.programs().rows.set_index(["program", "matrix", "dtype"])["gflops"]
    rows = verified_rows("h200-rivals").set_index(["label", "name", "dtype"])
    dense, band = ("denserow:1000000", "f32"), ("band:1048576:24:2000", "f32")
    ours, program = rows.loc["coo-flat", *dense], public["cusparse-new-coo-alg1", *dense]
    assert said(page, r"`coo-flat\[lines=true\]` has (\d+)\.") == [
        round(rows.loc["coo-flat[lines=true]", *dense]["gflops"])
    ]
    known = (rows.loc[label, *band]["gflops"] for label in ("merge-csr[staged=true]", "merge-csr"))
    merged = said(page, r"`merge-csr\[staged=true\]` has (\d+) GFLOPS there, the default (\d+), the program (\d+)")
    assert merged == [round(value) for value in (*known, public["merge-cub", *band])]
    recent = verified_rows("h200-applications").pivot(index="name", columns="label", values="gflops")
    ratio = recent["cusparse-spmvop"] / recent["cusparse-csr-alg1"]
    pattern = r"it has ([\d.]+) times the rate of cuSPARSE's CSR ALG1 in the mean, from ([\d.]+) to ([\d.]+)\."
    assert said(page, pattern) == [
        round(value, 2) for value in (np.exp(np.log(ratio).mean()), ratio.min(), ratio.max())
    ]
    assert said(page, r"it has (\d+) GFLOPS, the program (\d+), and the bound is (\d+)\.") == [
        round(value) for value in (ours["gflops"], program, ours["bound_gflops"])
    ]
    (slower,) = [table for table in tables(read(page)) if cells(table[0])[-1] == "Of bound"]
    explained = "cusparse", "sell-petsc"  # by the library, and by the rule
    shares = [float(cells(line)[-1]) for line in slower[2:] if not cells(line)[2].startswith(explained)]
    assert said(page, r"reach ([\d.]+) of their bound at most") == [round(max(shares), 2)]
    rows = verified_rows("h200-headline").query("dtype == 'f64' and mode == 'hot'").set_index(["label", "name"])
    for pattern, labels in (
        (r"equal length, and converts in ([\d.]+) to ([\d.]+) ms", ["sell-petsc"]),
        (r"row lengths, and convert in ([\d.]+) to ([\d.]+) ms", ["csr-lrb", "cusparse-coo-alg2"]),
    ):
        times = 1e3 * rows.loc[labels, "t_convert_device"]
        assert said(page, pattern) == [round(times.min(), 1), round(times.max(), 1)]
    stored = [round(rows.loc[(label, "pde:200"), "bytes_per_nnz"], 1) for label in ("csr-ans", "bit8x4-dict")]
    assert said(page, r"([\d.]+) bytes per entry on pde:200, .* stores it in ([\d.]+\d)") == stored


def test_false_alarms_of_compare_are_those_of_the_pairs():
    page, found = "docs/measuring.md", pd.read_csv(ROOT / "docs" / "pairs" / "h200-compare.csv")
    alarms, off = found["verdict"].isin(["slower", "faster"]), 100 * (found["ratio"] - 1).abs()
    same = ~found["other_program"]
    pattern = r"gave (\d),(\d+) verdicts: (\d+) on one card and (\d+) between two"
    assert said(page, pattern) == [*divmod(len(found), 1000), found["one_card"].sum(), (~found["one_card"]).sum()]
    pattern = r"same program, (\d+) of (\d),(\d+) are false: ([\d.]+) %, .{,20} confidence ([\d.]+) to ([\d.]+) %"
    low, high = interval(int((alarms & same).sum()), int(same.sum()))
    known = [(alarms & same).sum(), *divmod(same.sum(), 1000)]
    share = 100 * (alarms & same).sum() / same.sum()
    assert said(page, pattern) == [*known, *(round(value, 2) for value in (share, 100 * low, 100 * high))]
    assert set(found.loc[alarms & same, "matrix"]) == {"synthetic/fem:20:3"}
    pattern = (
        r"differ by ([\d.]+) % in the median of the\n  cases, ([\d.]+) % .{,30} and ([\d.]+) % at the 99th; between"
    )
    middle, *far = off[same].quantile([0.5, 0.95, 0.99])
    assert said(page, pattern) == [round(middle, 2), *(round(value, 1) for value in far)]
    pattern = r"between two cards by ([\d.]+) % in the median, on one by ([\d.]+) %"
    medians = off[same].groupby(found["one_card"]).median()
    assert said(page, pattern) == [round(medians[False], 2), round(medians[True], 2)]
    pattern = r"The other (\d+) verdicts are of `csr-am`, `csr-gg` and `sell`, .{,50} and (\d+) of them"
    assert said(page, pattern) == [(~same).sum(), (alarms & ~same).sum()]
    assert set(found.loc[~same, "label"]) == {"csr-am", "csr-gg", "sell"}
    pattern = r"\| (\d+) cases: (\d+) % in the median, (\d+) % at the 95th percentile, before"
    assert said(page, pattern) == [round(value) for value in ((~same).sum(), *off[~same].quantile([0.5, 0.95]))]


def test_spread_between_machines_is_that_of_the_pairs():
    page, pairs = "docs/measuring.md", pd.read_csv(ROOT / "docs" / "pairs" / "h200-machines.csv")
    pairs = pairs.assign(off=100 * (pairs["ratio"] - 1).abs())
    on_host = pairs["label"] == "cupy-csr"
    rest = pairs[~on_host]
    without = rest[~rest["matrix"].str.startswith("rmat")]

    def spread(of, digits=(2, 1, 1), at=(0.5, 0.95, 0.99)):
        return [round(value, count) for value, count in zip(of["off"].quantile(list(at)), digits, strict=True)]

    pattern = r"\| (\d+) cases: ([\d.]+) % .{,16} ([\d.]+) % .{,26} ([\d.]+) % at the 99th; without R-MAT "
    pattern += r"([\d.]+) %, ([\d.]+) % and "
    pattern += r"([\d.]+) % \(\[h200-machines"
    assert said(page, pattern) == [len(rest), *spread(rest), *spread(without)]
    pattern = r"\| (\d+) % \| (\d+) cases: (\d+) % in the median, (\d+) % at the 95th percentile: the host"
    middle, far = spread(pairs[on_host], (None, None), (0.5, 0.95))
    assert said(page, pattern) == [far, on_host.sum(), middle, far]
    by_format = without.groupby("label")["off"].quantile(0.95)
    assert said(page, r"at most ([\d.]+) % in each of (\d+) formats") == [round(by_format.max(), 1), len(by_format)]
    assert set(by_format.nlargest(2).index) == {"mgpu-csr-plus", "sell-petsc"}


def test_verdicts_of_ab_comparisons_are_those_of_the_pairs():
    """The table and the widths of docs/measuring.md, from docs/pairs."""
    page = "docs/measuring.md"
    identical, slower = (pd.read_csv(ROOT / "docs" / "pairs" / f"{name}.csv") for name in ("identical", "slower"))
    (table,) = [table for table in tables(read(page)) if cells(table[0])[0] == "Procedure"]
    procedures = ["arrays allocated anew", "as now, shorter samples", "as now"]
    for line, procedure in zip(table[2:], procedures, strict=True):
        same, more = (pairs[pairs["procedure"] == procedure] for pairs in (identical, slower))
        alarms = same["verdict"].isin(["slower", "faster"]).sum()
        found = (1.03 * same["low"] > 1 + THRESHOLD).sum()
        known = (more["verdict"] == "slower").sum()
        assert cells(line)[1:] == [
            f"{alarms} of {len(same)}",
            f"{found} ({100 * found / len(same):.0f} %)",
            f"{known} of {len(more)} ({100 * known / len(more):.0f} %)",
        ]
        assert f"{same['pairs'].unique().item()} pairs" in cells(line)[0]
    assert said(page, r"no false alarm in (\d+) verdicts") == [len(identical)]
    now = identical[identical["procedure"] == "as now"]
    widths = ((now["high"] - now["low"]) / 2).quantile([0.5, 0.95])
    told = said(
        page, r"half of the intervals are narrower than 1 -\+ ([\d.]+), and 95 % are narrower than 1 -\+ ([\d.]+\d)"
    )
    assert all(0 <= bound - width < 2e-4 for bound, width in zip(told, widths, strict=True))


def test_false_alarms_of_ab_comparisons_are_those_of_the_pairs():
    page, pairs = "docs/measuring.md", ROOT / "docs" / "pairs"
    cards = {name: pd.read_csv(pairs / f"{name}.csv") for name in ("against", "h200-against", "h100-against")}
    found = pd.concat(cards.values())
    alarms = found["verdict"].isin(["slower", "faster"])
    pattern = r"gave (\d+) verdicts on identical builds, (\d+) on nine H200s and (\d+) on two H100s: (\d+) .the same."
    h100 = len(cards["h100-against"])
    same, undecided = ((found["verdict"] == verdict).sum() for verdict in ("same", "undecided"))
    assert said(page, pattern) == [len(found), len(found) - h100, h100, same]
    (alarm,) = found[alarms].itertuples()
    assert (alarm.label, alarm.matrix) == ("csr-gg", "synthetic/fem:20:3") and alarm.repeat == 0
    low, high = interval(1, len(found))
    pattern = r"(\d+) undecided, and one false alarm, ([\d.]+) %, with 95 % confidence ([\d.]+) to ([\d.]+) %"
    assert said(page, pattern) == [undecided, *(round(100 * share, 2) for share in (1 / len(found), low, high))]
    pattern = r"differ\s+from 1 by ([\d.]+) % in the median, ([\d.]+) % .{,25} and ([\d.]+) % at the 99th \(\[against"
    off = 100 * (found["ratio"] - 1).abs()
    assert said(page, pattern) == [round(value, 2) for value in off.quantile([0.5, 0.95, 0.99])]
    pattern = r"one false alarm in \[(\d+) verdicts\].{,80}: at most ([\d.]+) % are false"
    assert said(page, pattern) == [len(found), round(100 * high, 2)]
    tuned = pd.read_csv(pairs / "h100-tuned.csv")
    other = tuned["other_program"]
    assert tuned["label"].nunique() == 5 and set(tuned.loc[other, "label"]) == {"csr-am", "ellr-t"}
    most = round(100 * (tuned.loc[other, "ratio"] - 1).abs().max(), 1)
    pattern = r"an H100, (\d+) of (\d+) cases ran the\s+program .{,90} differ by at most ([\d.]+) %"
    assert said(page, pattern) == [(~other).sum(), len(tuned), most]


def texts(svg):
    return re.findall(r">([^<]+)</text>", svg)


@pytest.mark.slow
def test_pictures_are_those_of_the_rows(command, tmp_path, monkeypatch):
    """As `make tables` draws them: their texts, the numbers of `ratios` among them; lines depend on matplotlib."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(report, "MANY_ROWS", math.inf)  # a process for each figure would import what draws once more
    drawn = {}
    for words in map(shlex.split, re.findall(r"^\tspmvbench (report .*)$", makefile(), re.MULTILINE)):
        if "$(VENV)/pictures" not in words:
            continue
        words[words.index("--out") + 1] = str(tmp_path)
        result = command(*words)
        assert result.code == 0, result.err
        drawn |= {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "figures").glob("*.svg")}
    assert set(drawn) == {"ratios", "bounds", "products"}
    for name, svg in drawn.items():
        assert sorted(texts(svg)) == sorted(texts(read(f"docs/figures/h200-{name}.svg"))), f"{name}: make tables"


def test_picture_of_two_cards_is_that_of_the_rows(command, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (line,) = re.findall(r"^\tspmvbench (report .* --beside .*)$", makefile(), re.MULTILINE)
    words = shlex.split(line)
    words[words.index("--out") + 1] = str(tmp_path)
    result = command(*words)
    assert result.code == 0, result.err
    drawn = (tmp_path / "cards.svg").read_text(encoding="utf-8")
    assert sorted(texts(drawn)) == sorted(texts(read("docs/figures/cards.svg"))), "make tables"


def test_best_slowdowns_of_the_first_picture_are_one():
    """Not only that it is drawn again: a cell of 1.0 in each column of the picture."""
    found = pd.DataFrame(gflops(rows_of(PUBLISHED, "h200-headline")).xs("f64", level="dtype"))
    assert texts(read("docs/figures/h200-ratios.svg")).count("1.0") >= len(found) == 7


def test_rows_whose_programs_were_made_again_are_all_rows_of_their_runs():
    (table,) = [table for table in tables(read("docs/submitting.md")) if "Made again" in cells(table[0])]
    assert len(table) == 2 + 17
    for line in table[2:]:
        run, _, *counts = cells(line)
        rows, again, compiled, revised, *rest = (int(count.replace(",", "")) for count in counts)
        verified_here = verified_rows(re.match(r"\[([\w-]+)\]", run)[1])
        assert rows == (verified_here["program"] != "").sum() == again + sum(rest) and revised <= again
        assert compiled <= min(again, verified_here["code_hash"].str.startswith(CODE_HASH).sum())
