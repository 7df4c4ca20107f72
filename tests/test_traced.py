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
from spmvbench.analysis.ab import THRESHOLD
from spmvbench.analysis.cases import hot, latest_cases, verified
from spmvbench.analysis.orders import gains
from spmvbench.analysis.ranking import mean_slowdowns
from spmvbench.cli import report
from spmvbench.reports import in_page, published
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
    ("docs/operator.md", ""): "a separate measurement, tests/solvers/overhead.py",
    ("docs/operator.md", "Matrix"): "a separate measurement, tests/solvers/overhead.py",
    ("docs/operator.md", "Pattern"): "a separate measurement, tests/solvers/overhead.py",
    ("docs/values.md", "Values"): "facts of the types",
}
WRITTEN = ("docs/advice.md",)  # as a whole, which tests/advice/test_advice.py compares
pytestmark = pytest.mark.skipif(not RUNS, reason="needs a checkout (git clone)")


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


def test_every_published_run_is_listed():
    listed = re.findall(r"^\| \[([\w-]+)\]\(\.\./results/published/\1\) \|", read("docs/results.md"), re.MULTILINE)
    assert sorted(listed) == RUNS


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
    rows = verified_rows("h200-all").set_index(["label", "name", "dtype"])
    dense = "denserow:1000000", "f32"
    ours, program = rows.loc["coo-flat", *dense], public["cusparse-new-coo-alg1", *dense]
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


def test_best_slowdowns_of_the_first_picture_are_one():
    """Not only that it is drawn again: a cell of 1.0 in each column of the picture."""
    found = pd.DataFrame(gflops(rows_of(PUBLISHED, "h200-all")).xs("f64", level="dtype"))
    assert texts(read("docs/figures/h200-ratios.svg")).count("1.0") >= len(found) == 8
