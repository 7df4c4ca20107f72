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
from spmvbench.analysis import cards
from spmvbench.analysis.ab import THRESHOLD
from spmvbench.analysis.breakeven import break_even, ready
from spmvbench.analysis.cases import hot, latest_cases, verified
from spmvbench.analysis.orders import gains
from spmvbench.analysis.products import ADVISED, CUPY
from spmvbench.analysis.ranking import mean_slowdowns
from spmvbench.cli import report
from spmvbench.reports import in_page, published, time_to_n
from spmvbench.reports.irregular import VENDOR, gflops, rows_of
from spmvbench.rows import store

ROOT = Path(spmvbench.__file__).parents[1]
PUBLISHED = ROOT / "results" / "published"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
RUNS = sorted(path.parent.name for path in PUBLISHED.glob("*/README.md"))
COMMAND = re.compile(r"^python -m (spmvbench\.(?:reports|site)\.\w+) (.*) --page (\S+)$", re.MULTILINE)
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
        ("spmvbench.reports.speed", "docs/speed.md"),
        ("spmvbench.reports.time_to_n", "docs/advice.md"),
    ):
        table = read("README.md").partition(in_page.begin(module))[2].partition(in_page.END)[0].strip()
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
    (said_of,) = re.findall(r"([^.]*) are\s+from before rounds began with an empty L2", read("docs/results.md"))
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
    assert "wrong" not in counts
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


def said(page, pattern):
    """The numbers of a statement, which must be on the page once."""
    (found,) = re.findall(pattern.replace(" ", r"\s+"), read(page), re.DOTALL)
    return [float(number) for number in (found if isinstance(found, tuple) else (found,))]


class TestIrregularAccess:
    """Statements of docs/irregular.md."""

    page = "docs/irregular.md"

    def test_means_relative_to_cusparse(self):
        speed = ratios("h200-irregular")
        double, single = (mean(speed.xs(dtype, level="dtype")) for dtype in ("f64", "f32"))
        generated = speed.index.get_level_values("matrix").str.startswith("synthetic/")
        known = [round(value, 2) for value in (double, single, mean(speed[generated]), mean(speed[~generated]))]
        pattern = (
            r"is ([\d.]+) in double precision and ([\d.]+) in single, ([\d.]+) on the generated .* ([\d.]+) on the real"
        )
        assert said(self.page, pattern) == known

    def test_the_choice_is_near_the_best_of_its_four_formats(self):
        found = gflops(rows_of(PUBLISHED, "h200-irregular"))
        four = found["irregular"] / found[["column-sweep", "hub-cache", "csr5", "sell-local"]].max(axis=1)
        every = found["irregular"] / found.max(axis=1)
        assert said(
            self.page, r"In all (\d+) cases it has at least ([\d.]+) of the GFLOPS of the best of its four"
        ) == [
            len(four),
            np.floor(100 * four.min()) / 100,
        ]
        assert said(self.page, r"In (\d+) cases it has at least 0.95 of the best of all ten") == [(every >= 0.95).sum()]

    def test_all_applications(self):
        speed = ratios("h200-applications")
        assert said(self.page, r"mean relative to cuSPARSE is ([\d.]+) \(csr5: ([\d.]+), sell-local: ([\d.]+)\)") == [
            round(mean(ratios("h200-applications", label)), 2) for label in ("irregular", "csr5", "sell-local")
        ]
        assert said(self.page, r"\*\*All (\d+) matrices of h200-applications\*\*") == [len(speed)]

    def test_no_row_exceeds_its_bound_by_more_than_is_said(self):
        of = rows_of(PUBLISHED, "h200-irregular")
        most = np.ceil(100 * (of["gflops"] / of["bound_gflops"]).max()) / 100
        assert said(self.page, r"No row exceeds ([\d.]+) of its bound") == [most]
        rows = store.load(PUBLISHED / "h200-all")
        of = rows[rows["status"] == "ok"]
        (thousands, rest) = said(self.page, r"None of (\d+),(\d+) rows exceeds its bound")
        assert 1000 * thousands + rest == len(of)
        assert (of["gflops"] / of["bound_gflops"]).max() <= 1

    def test_how_tight_the_bounds_are(self):
        double = verified_rows("h200-all").query("dtype == 'f64'")
        best = (double["gflops"] / double["bound_gflops"]).groupby(double["name"]).max().round(2)
        pattern = (
            r"([\d.]+) on pde:100 .{,50}, ([\d.]+) on pde:200, ([\d.]+) and ([\d.]+) on .{,30} ([\d.]+) on the band"
        )
        names = ["pde:100", "pde:200", "fem:40:3", "fem:60:3", "band:1048576:24:2000"]
        assert said(self.page, pattern) == list(best[names])
        rows = verified_rows("h200-applications")
        share = (rows["gflops"] / rows["bound_gflops"]).set_axis(rows["name"])
        over = [round(100 * share[name].max() - 100) for name in ("kkt:70000:12", "kkt:13659:24")]
        pattern = r"Of (\d+),(\d+) rows in .{,90} two exceed .{,90} and kkt:13659:24, by (\d+) and (\d+) %"
        assert said(self.page, pattern) == [*divmod(len(rows), 1000), *over]
        assert (share > 1.05).sum() == 2

    def test_mean_slowdowns_of_applications(self):
        found = mean_slowdowns(latest_cases(store.load(PUBLISHED / "h200-applications"))).droplevel("setting")
        first = found["mean_slowdown"].sort_values().round(2)
        assert list(first.index[:3]) == ["irregular", "ell-warp-k2", "csr-adaptive-l"]
        pattern = r"\[mean slowdown\]\(\S+\) is ([\d.]+); that of ell-warp-k2 and csr-adaptive-l is ([\d.]+)\."
        assert said(self.page, pattern) == [first.iloc[0], first.iloc[1]] and first.iloc[1] == first.iloc[2]


class TestSpeed:
    """Statements of docs/speed.md beside its tables."""

    page = "docs/speed.md"

    def test_cells_that_are_done(self):
        lines = [cells(line) for line in read(self.page).splitlines() if line.count("|") == 12][2:]
        done = [line[:2] for line in lines if "**" in line[5] and "**" in line[6] + line[9]]
        assert said(self.page, r"That is (\d+) of (\d+)\.") == [len(done), len(lines)]
        assert {tuple(cell) for cell in done} == {
            *((matrix, dtype) for matrix in ("fem:40:3", "fem:60:3", "denserow:1000000") for dtype in ("f64", "f32")),
            *((matrix, "f32") for matrix in ("pde:100", "pde:200")),
        }

    def test_bytes_bound_the_stencils(self):
        rows = verified_rows("h200-headline").set_index(["name", "label"])
        found = rows.loc[[("pde:100", "crsd[kernel=paper]"), ("pde:200", "brcsd")]]
        pattern = (
            r"take ([\d.]+) and ([\d.]+) bytes per entry, .{,40} at (\d),(\d+) and (\d),(\d+) GB/s, .*? (\d),(\d+)\."
        )
        read_at = store.environment(PUBLISHED / "h200-headline")["sessions"][0]["read_bandwidth_gbps"]
        rates = [part for rate in (*found["gbps"], read_at) for part in divmod(round(rate), 1000)]
        assert said(self.page, pattern) == [*found["bytes_per_nnz"].round(2), *rates]

    def test_rates_on_the_larger_graph(self):
        best = gflops(rows_of(PUBLISHED, "h200-irregular")).loc["synthetic/rmat:22:16"].max(axis=1).round()
        assert said(self.page, r"on rmat:22:16 (\d+) of 340, and (\d+) of 450") == list(best[["f64", "f32"]])

    def test_dense_row(self):
        rows = verified_rows("h200-dense")
        best = rows[rows["label"] != "hdc"].groupby("dtype")["gflops"].max().round()
        assert said(self.page, r"Formats on CSR's arrays reach (\d+) and (\d+) in the same run") == list(
            best[["f64", "f32"]]
        )

    def test_searches(self):
        runs = "h200-bfs", "h200-tilespmspv", "h200-searches"
        rows = pd.concat([verified_rows(run).assign(run=run) for run in runs])
        rows = rows[rows["op"].str.startswith("bfs")].assign(ms=lambda rows: 1e3 * rows["t_median"])
        matrices = ["fem:40:3", "poisson2d:1024", "rmat:20:16", "uniform:1048576:12"]
        programs = pd.read_csv(ROOT / "configs" / "published" / "speed" / "searches.csv").groupby("matrix")["us"].min()
        first = rows[rows["op"] == "bfs@0"].groupby("name")["ms"].min()
        pattern = r"takes ([\d.]+) ms on fem.{,14} ([\d.]+) on pois.{,20} ([\d.]+) on rmat.{,14} ([\d.]+) on uniform"
        assert said(self.page, pattern) == [float(f"{value:.3g}") for value in first[matrices]]
        pattern = r"BLEST takes ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+) ms"
        assert said(self.page, pattern) == [float(f"{value / 1e3:.3g}") for value in programs[matrices]]
        mean_ms = rows.groupby(["run", "name", "label"])["ms"].mean()
        for run, matrix, label in (
            ("h200-bfs", "fem:40:3", "bfs-merged"),
            ("h200-searches", "poisson2d:1024", "bfs-do"),
        ):
            assert mean_ms[run, matrix].idxmin() == label
            known = said(self.page, rf"{matrix}\*\*: ([\d.]+) ms in `{label}`")
            assert known == [float(f"{mean_ms[run, matrix, label]:.3g}")]
        before = mean_ms["h200-tilespmspv", "poisson2d:1024"]
        assert before.idxmin() == "bfs-push"
        assert said(self.page, r"It was ([\d.]+) ms in `bfs-push`") == [float(f"{before.min():.3g}")]
        grid = rows[(rows["run"] == "h200-searches") & (rows["name"] == "poisson2d:1024") & (rows["label"] == "bfs-do")]
        detail = grid.set_index("op")["detail"].map(json.loads)
        levels = np.array([of["levels"] for of in detail])
        each = 1e3 * grid["ms"].to_numpy() / levels
        pattern = r"(\d),(\d+) to (\d),(\d+) levels, and a level takes ([\d.]+) to ([\d.]+) microseconds"
        ends = [*divmod(levels.min(), 1000), *divmod(levels.max(), 1000), each.min().round(1), each.max().round(1)]
        assert said(self.page, pattern) == ends
        found = detail["bfs@0"]["level_found"]
        assert said(self.page, r"a level has (\d+) to (\d),(\d+) vertices") == [min(found), *divmod(max(found), 1000)]

    def test_one_format_for_all(self):
        rows = verified_rows("h100-applications").query("label != 'cupy-csr'")
        times = rows.pivot(index="name", columns="label", values="t_median")
        loss = times["auto"] / times.drop(columns="auto").min(axis=1)
        pattern = r"the fastest of (\d+) other formats on (\d+) % of the (\d+) matrices and within 15 % on (\d+) %"
        near = (round(100 * (loss <= most).mean()) for most in (1.05, 1.15))
        first, second = near
        assert said(self.page, pattern) == [times.shape[1] - 1, first, len(times), second]
        took = 1e3 * rows.loc[rows["label"] == "auto", "t_convert_device"]
        pattern = r"Choosing and converting took (\d+) to (\d+) ms there, (\d+) in the median"
        assert said(self.page, pattern) == [round(took.min()), round(took.max()), round(took.median())]

    def test_small_matrices(self):
        rows = verified_rows("h200-suitesparse").query("nnz < 1_000_000")
        overhead = store.environment(PUBLISHED / "h200-suitesparse")["sessions"][0]["launch_overhead"]["hot"]
        least = rows["t_median"].min()
        pattern = r"No time is below ([\d.]+) microseconds, which is ([\d.]+) launch overheads"
        assert said(self.page, pattern) == [round(1e6 * least, 1), round(least / overhead, 1)]
        best = rows.loc[rows.groupby(["group", "name"])["t_median"].idxmin()]
        assert said(self.page, r"read and write (\d+) GB/s in the median") == [round(best["gbps"].median())]
        several = best[best["launches"] > 1]
        assert len(several) == 2 and several["row_len_max"].min() > 256
        largest = (12 * rows["nnz"] + 4 * rows["rows"]).max() / 1e6
        assert said(self.page, r"largest of these matrices takes (\d+) MB in CSR") == [round(largest)]

    def test_how_long_a_run_takes(self):
        def first(run):
            """Seconds from an invocation's start to its first row."""
            begun = pd.Timestamp(store.environment(PUBLISHED / run)["sessions"][0]["started"])
            row = store.load(PUBLISHED / run).sort_values("started_at").iloc[0]
            return round((pd.Timestamp(row["started_at"]) - begun).total_seconds() + row["t_case"], 1)

        session = store.environment(PUBLISHED / "h200-headline")["sessions"][0]
        seconds, wall = session["seconds"], pd.Timestamp(session["ended"]) - pd.Timestamp(session["started"])
        pattern = r"First row\*\*: ([\d.]+) s if .{,90} 180 labels, ([\d.]+) s"
        assert said(self.page, pattern) == [first("h200-headline"), round(seconds["precompiling"], 1)]
        pattern = r"it is ([\d.]+) s in \[h200-long-rows\].{,60} ([\d.]+) s in .{,150} On two GPUs it is ([\d.]+) s"
        assert said(self.page, pattern) == [first(run) for run in ("h200-long-rows", "h200-orders", "h200-scaling")]
        pattern = r"(\d),(\d+) cases in (\d+) s with nothing compiled, ([\d.]+) in a second"
        took = wall.total_seconds()
        assert said(self.page, pattern) == [
            *divmod(session["rows"], 1000),
            round(took),
            round(session["rows"] / took, 1),
        ]
        pattern = (
            r"take (\d+) s, those .{,80} (\d+) s, timing (\d+) s, the start (\d+) s, checks after timing (\d+) s, "
        )
        pattern += r"compilation for single cases (\d+) s, decoding (\d+) s"
        names = "converting on the device", "converting the integer matrix", "timing", "starting", "checking again"
        known = seconds | {"timing": seconds["timing hot"] + seconds["timing hot while x changes"]}
        assert said(self.page, pattern) == [round(known[name]) for name in (*names, "compiling", "decoding")]
        rows = store.load(PUBLISHED / "h200-headline")
        tuned = rows.loc[rows["label"] == "tile-composite", "t_case"].sum()
        assert said(self.page, r"`tile-composite`, takes (\d+) s") == [round(tuned)]
        session = store.environment(PUBLISHED / "h100-headline")["sessions"][0]
        took = (pd.Timestamp(session["ended"]) - pd.Timestamp(session["started"])).total_seconds()
        pattern = r"(\d),(\d+) cases on seven matrices in (\d+) s .{,60} after ([\d.]+) s of them, of which ([\d.]+) s"
        known = [*divmod(session["rows"], 1000), round(took), first("h100-headline")]
        assert said(self.page, pattern) == [*known, round(session["seconds"]["precompiling"], 1)]
        seconds = session["seconds"]
        pattern = r"there too\. Conversions take (\d+) s, those of the exact integer test (\d+) s, timing (\d+) s\."
        timing = seconds["timing hot"] + seconds["timing hot while x changes"]
        made = seconds["converting on the device"], seconds["converting the integer matrix"], timing
        assert said(self.page, pattern) == [round(each) for each in made]
        rows = store.load(PUBLISHED / "h100-headline")
        tuned = rows.loc[rows["label"] == "tile-composite", "t_case"].sum()
        assert said(self.page, r"on the H100 below it takes (\d+) s") == [round(tuned)]
        known = json.loads((PUBLISHED / "h200-scaling" / "scaling.json").read_text(encoding="utf-8"))["runs"]
        longer = [of["command"] - of["wall"] for of in known.values()]
        assert said(self.page, r"the command took (\d+) s longer than its record") == [round(mean(longer))]


def test_what_carries_over_between_cards():
    """Sentences of docs/cards.md beside its table."""
    page = "docs/cards.md"
    here, there = (store.load(PUBLISHED / f"{card}-headline") for card in ("h200", "h100"))
    table = cards.ratios(latest_cases(here), latest_cases(there))
    over = cards.carried_over(table).set_index("matrix")
    over.index = over.index.str.removeprefix("synthetic/")
    pattern = r"loses at most ([\d.]+) % on the H100, and ranks correlate ([\d.]+) to ([\d.]+)\."
    ranks = over["rank_correlation"]
    assert said(page, pattern) == [round(100 * over["lost"].max(), 1), round(ranks.min(), 3), round(ranks.max(), 3)]
    bandwidths = [store.environment(PUBLISHED / f"{card}-headline")["sessions"][0] for card in ("h200", "h100")]
    first, second = (session["read_bandwidth_gbps"] for session in bandwidths)
    pattern = (
        r"bandwidths have a ratio of ([\d.]+)\. .* \(rmat:20:16\) ([\d.]+) in the median, .* \(fem:60:3\) ([\d.]+)\."
    )
    middle = over["middle"].round(2)
    assert said(page, pattern) == [round(first / second, 2), middle["rmat:20:16"], middle["fem:60:3"]]
    assert said(page, r"another ratio, up to ([\d.]+) on pde:100") == [round(over.loc["pde:100", "high"], 2)]
    others = store.load_all([PUBLISHED / run for run in ("h200-applications", "h200-recent")])
    found = cards.ratios(latest_cases(others), latest_cases(store.load(PUBLISHED / "h100-applications")))
    small = found["nnz"] < 1_000_000
    middles = (found.loc[of, "ratio"].median() for of in (small, ~small))
    pattern = r"matrices of applications, (\d+) formats .* are ([\d.]+) to ([\d.]+) times those on"
    ends = [found["ratio"].min(), found["ratio"].max(), *middles]
    assert said(page, pattern + r".* median is ([\d.]+) below a million entries and ([\d.]+) above\.") == [
        found["label"].nunique(),
        *(round(value, 2) for value in ends),
    ]
    over = cards.carried_over(found)
    ranks, lost = over["rank_correlation"], 100 * over["lost"]
    assert said(page, r"correlate ([\d.]+) in the median, ([\d.]+) at least") == [
        round(ranks.median(), 2),
        round(ranks.min(), 2),
    ]
    pattern = r"H200 loses at most ([\d.]+) % on the H100, and at most 1\.5 % on (\d+) matrices"
    assert said(page, pattern) == [round(lost.max(), 1), (lost <= 1.5).sum()]


def test_numbers_of_programs_and_matrices_on_the_first_page():
    public = pd.read_csv(ROOT / "configs" / "published" / "speed" / "public.csv")["program"]
    programs = public[~public.str.endswith("-once")].nunique()
    assert said("README.md", r"the best of (\d+) public programs") == [programs]
    assert said("docs/speed.md", r"the fastest of (\d+) programs and settings") == [programs]
    matrices = verified_rows("h200-applications")["matrix_sha256"].nunique()
    assert said("README.md", r"on (\d+) matrices of applications") == [matrices]


def test_what_is_said_of_orders_follows_from_the_run():
    """Of docs/orders.md: the sentences on natural and lost orders."""
    page, rows = "docs/orders.md", hot(latest_cases(store.load(PUBLISHED / "h200-orders")))
    cases = gains(verified(rows)).pivot(index=["matrix", "label"], columns="order", values="speedup").dropna()
    rcm, lost = cases["rcm"], cases["random"]
    pattern = r"gains (\d+) % .{,30} on (\d+) % of the (\d+) pairs .{,30} at most (\d+) %.*? loses over 5 % on (\d+) %"
    more, less = 100 * (rcm > 1.05).mean(), 100 * (rcm < 0.95).mean()
    known = 100 * (mean(rcm) - 1), more, len(cases), 100 * (rcm.max() - 1), less
    assert said(page, pattern) == [round(value) for value in known]
    assert rcm.idxmax() == ("DIMACS10/delaunay_n15", "ell-dia")
    pattern = r"have ([\d.]+) of their speed, ([\d.]+) at worst\. .*? factor of ([\d.]+) in the mean"
    assert said(page, pattern) == [round(value, 2) for value in (mean(lost), lost.min(), mean(rcm / lost))]
    assert said(page, r"`ell-dia` on pde:64 has ([\d.]+) of") == [round(rcm["synthetic/pde:64", "ell-dia"], 2)]
    meshes = (rcm / lost)[["synthetic/fem:24:3", "synthetic/pde:64"]]
    assert said(page, r"and ([\d.]+) on meshes in three dimensions") == [round(mean(meshes), 1)]


def payback(rows, natural, order):
    """By matrix, SpMVs after which the fastest format in `order` has paid, from that in `natural`; the speed-up."""
    made = rows.assign(made=ready(rows) + rows["t_order"].fillna(0))
    fastest = made.loc[made.groupby(["order", "matrix"])["t_median"].idxmin()].set_index(["order", "matrix"])
    after, before = fastest.loc[order].align(fastest.loc[natural], axis=0)
    paid = break_even(after["made"], after["t_median"], ready(before), before["t_median"])
    return pd.DataFrame({"paid": paid, "factor": before["t_median"] / after["t_median"]}, after.index)


def test_calls_of_operators_beside_published_rows():
    page, rows = "docs/operator.md", verified_rows("h200-headline").query("dtype == 'f64'")
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
    found = verified_rows("h200-products").query("mode == 'hot'")
    calls = found[found["label"] == "cupy-csr"].set_index("name")["t_median"] * 1e6
    fastest = found[found["label"] != "cupy-csr"].groupby("name")["t_median"].min() * 1e6
    names = ["pde:16", "pde:100", "uniform:1048576:12", "rmat:20:16"]
    pattern = (
        r"takes ([\d.]+) microseconds on pde:16, ([\d.]+) on pde:100, (\d+) on uniform:1048576:12 and (\d+) on rmat"
    )
    assert said(page, pattern) == [float(f"{calls[name]:.3g}") for name in names]
    pattern = r"in a CUDA graph, take ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+)\."
    assert said(page, pattern) == [round(fastest[name], 1) for name in names]
    table = time_to_n.of_run(PUBLISHED / "h200-products")
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
            ends = " to ".join(f"{n:,}" for n in dict.fromkeys((near.index[near].min(), near.index[near].max())))
            reached.append("yes" if near.all() else f"at N = {ends}")
    assert [cells(line)[3] for line in aims[-6:]] == reached
    found = time_to_n.of_run(PUBLISHED / "h200-applications")
    found = found[found["chooser"] == ADVISED]
    faster = found.loc[found["spmvs"] >= 10_000, "speedup"]
    assert [cells(line)[2] for line in aims[-8:-6]] == [
        f"{faster.min():.2f} to {faster.max():.2f}",
        f"{100 * found['always'].iloc[0]:.1f}",
    ]


def test_when_orders_pay_follows_from_the_run():
    """The first order to pay on each matrix; four are cited one by one, three by their range."""
    page, rows = "docs/orders.md", verified(hot(latest_cases(store.load(PUBLISHED / "h200-orders"))))
    rows = rows[rows["matrix"] != "SNAP/ca-AstroPh"]  # not whole
    found = pd.concat({order: payback(rows, "none", order) for order in set(rows["order"]) - {"none", "random"}})
    found = found.rename_axis(["order", "matrix"]).reset_index().sort_values("paid").drop_duplicates("matrix")
    cited = re.findall(
        r"([\d,]+)(?: products)? +\((\S+), `(\w+)`,(?: factor)? ([\d.]+)\)", re.sub(r"\s+", " ", read(page))
    )
    assert [(matrix.rpartition("/")[2], order) for _, matrix, order, _ in cited] == [
        (x.matrix.rpartition("/")[2], x.order) for x in found.head(4).itertuples()
    ]
    assert [(paid, float(factor)) for paid, _, _, factor in cited] == [
        (f"{round(x.paid, -3):,.0f}", round(x.factor, 2)) for x in found.head(4).itertuples()
    ]
    rest = found.iloc[4:7]
    assert list(found["matrix"][~np.isfinite(found["paid"])]) == ["synthetic/pde:64"] and len(found) == 8
    pattern = r"and (\d+),000 to (\d+),000 \(delaunay_n15, usroads, fem:24:3; factors of ([\d.]+) to ([\d.]+)\)"
    ends = [round(rest["paid"].iloc[k] / 1000) for k in (0, -1)]
    assert said(page, pattern) == [*ends, round(rest["factor"].min(), 2), round(rest["factor"].max(), 2)]
    lost = payback(rows, "random", "rcm")["paid"] / 1000
    assert said(page, r"`rcm` pays after (\d+),000 to (\d+),000") == [round(lost.min()), round(lost.max())]


def test_what_is_said_of_narrower_values_follows_from_the_run():
    page, rows = "docs/values.md", verified(latest_cases(store.load(PUBLISHED / "h200-values")))
    speed = rows.pivot(index=["name", "label"], columns="dtype", values="gflops").loc["fem:40:3"]
    blocks = speed.loc["block-sell"]
    pattern = (
        r"has ([\d.]+) times its speed with 16-bit values on fem:40:3 \((\d+) to ([\d,]+) GFLOPS\), "
        r"and `cds` ([\d.]+)\."
    )
    ((times, before, after, diagonals),) = re.findall(pattern.replace(" ", r"\s+"), read(page))
    assert float(times) == round(blocks["f16/f64"] / blocks["f64"], 1)
    assert (before, after) == (f"{blocks['f64']:.0f}", f"{blocks['f16/f64']:,.0f}")
    assert float(diagonals) == round(speed.at["cds", "f16/f64"] / speed.at["cds", "f64"], 1)
    error = rows.groupby(["name", "dtype"])["rounding_error"].max()
    pattern = (
        r"up to (\S+) \(f16\) and (\S+) \(bf16\) of a row on pde:100, (\S+) and (\S+) on fem:40:3, (\S+) \(f16\) on "
        r"rmat:20:16; f32 has (\S+) to ([\d.e-]+\d)\."
    )
    of = [("pde:100", "f16"), ("pde:100", "bf16"), ("fem:40:3", "f16"), ("fem:40:3", "bf16"), ("rmat:20:16", "f16")]
    known = [error[name, f"{values}/f64"] for name, values in of]
    single = error.xs("f32/f64", level="dtype")
    assert said(page, pattern) == [float(f"{value:.0e}") for value in (*known, single.min(), single.max())]


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
    recent = verified_rows("h200-recent").pivot(index="name", columns="label", values="gflops")
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
    rows = verified_rows("h200-headline").set_index(["label", "name"])
    for pattern, labels in (
        (r"equal length, and converts in ([\d.]+) to ([\d.]+) ms", ["sell-petsc"]),
        (r"row lengths, and convert in ([\d.]+) to ([\d.]+) ms", ["csr-lrb", "cusparse-coo-alg2"]),
    ):
        times = 1e3 * rows.loc[labels, "t_convert_device"]
        assert said(page, pattern) == [round(times.min(), 1), round(times.max(), 1)]
    stored = [round(rows.loc[(label, "pde:200"), "bytes_per_nnz"], 1) for label in ("csr-ans", "bit8x4-dict")]
    assert said(page, r"([\d.]+) bytes per entry on pde:200, .* stores it in ([\d.]+\d)") == stored


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
    found = pd.DataFrame(gflops(rows_of(PUBLISHED, "h200-all")).xs("f64", level="dtype"))
    assert texts(read("docs/figures/h200-ratios.svg")).count("1.0") >= len(found) == 8
