"""Reports for papers: widths, fonts, LaTeX, BibTeX, pairs of formats, rows of another run, sweeps of a parameter."""

import json
import math
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import scipy  # whose stats take a second to import: those who use them do
from matplotlib.text import Text

from spmvbench import formats
from spmvbench.analysis.cards import beside
from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.ranking import by_mean_slowdown
from spmvbench.analysis.speedup import against, against_summary, interval, logarithms, opponents
from spmvbench.analysis.sweeps import sweeps
from spmvbench.errors import UsageError
from spmvbench.formats import survey
from spmvbench.paths import configs
from spmvbench.reports import bibliography, figures, style
from spmvbench.reports import paper as latex
from spmvbench.rows import store
from tests.reports.conftest import generated_rows

pytestmark = pytest.mark.slow

FORMATS = {"csr-vector": (4.0, 0.7, 0.0), "csr5": (4.4, 0.78, 0.0), "ell": (4.0, 0.8, 0.1)}


@pytest.fixture(scope="module")
def few():
    return generated_rows(9, FORMATS, seed=5)


@pytest.fixture
def results(few, tmp_path):
    for row in few.assign(run_id="mine").to_dict("records"):
        if row["mode"] == "hot" and row["dtype"] == "f64":
            store.append(tmp_path / "mine", row)
    store.append_session(tmp_path / "mine", {"started": "2026-03-01", "device": "cuda:0"})
    return tmp_path


def fonts(pdf):
    """The types of fonts in a PDF of matplotlib, whose objects of fonts are not compressed."""
    return set(re.findall(rb"/Subtype\s*/(Type\w+|TrueType|CIDFont\w+)", pdf.read_bytes()))


@pytest.mark.parametrize(("columns", "inches"), [("one-column", 3.5), ("two-column", 7.16)])
def test_a_report_for_a_paper(command, results, columns, inches):
    out = results / "out"
    result = command(
        "report", "mine", "--results", results, "--paper", columns, "--figures", "profile,gflops", "--out", out,
        "--formats", "csr5,ell,csr-vector",
    )  # fmt: skip
    assert result.code == 0, result.err
    for name in ("profile", "gflops"):
        pdf = out / "figures" / f"{name}.pdf"
        (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", pdf.read_bytes())
        assert float(width) == pytest.approx(72 * inches, abs=0.5)
        assert fonts(pdf) == {b"Type0", b"CIDFontType2"}, "TrueType"
        if shutil.which("pdffonts"):
            told = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True).stdout
            assert "Type 3" not in told and "TrueType" in told
    text = (out / "figures.tex").read_text()
    assert "\\cite" not in text and "highlighted" not in text
    assert text.count("NVIDIA H200; double precision; warm cache; ") == 2
    papers = (out / "formats.bib").read_text()
    cited = ",".join(re.findall(r"\\cite\{([^}]*)\}", (out / "formats.tex").read_text())).split(",")
    assert len(cited) == len(set(cited))
    assert {"liu2015csr5", "bell2008efficient"} <= set(cited) == set(re.findall(r"^@\w+\{(.*),$", papers, re.MULTILINE))
    star = "*" if columns == "two-column" else ""
    assert text.count(rf"\begin{{figure{star}}}") == 2 and r"\label{fig:profile}" in text
    tables = (out / "tables.tex").read_text()
    assert tables.count(rf"\begin{{table{star}}}") == tables.count(r"\caption{") == tables.count(r"\label{tab:") == 2
    assert re.search(r"\\label\{tab:[a-z0-9-]+\}", tables)


CLASSES = {
    # It balances the columns of the last page, and counts their floats as lines of text: boxes that are too high.
    "acmart": (r"\documentclass[sigconf,nonacm,balance=false]{acmart}", "ACM-Reference-Format"),
    "IEEEtran": (r"\documentclass[conference]{IEEEtran}", "IEEEtran"),
    "elsarticle": (r"\documentclass[5p,twocolumn]{elsarticle}", "elsarticle-num"),
}


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return tmp_path_factory.mktemp("papers")


@pytest.fixture
def headline(command, papers):
    """What `--paper` makes of a published run of many formats."""

    def made(columns):
        folder = configs().parent / "results" / "published" / "h200-headline"
        if not folder.is_dir():
            pytest.skip("needs a checkout (git clone)")
        if not (papers / columns).exists():
            result = command("report", folder, "--paper", columns, "--out", papers / columns)
            assert result.code == 0, result.err
        return papers / columns

    return made


@pytest.mark.parametrize("columns", ["one-column", "two-column"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_whole_document_compiles_without_a_box_that_is_too_wide(headline, name, columns, tmp_path):
    if not (shutil.which("pdflatex") and shutil.which("bibtex")):
        pytest.skip(
            "needs LaTeX (apt-get install texlive-latex-recommended texlive-publishers texlive-fonts-recommended)"
        )
    start, references = CLASSES[name]
    if not subprocess.run(["kpsewhich", f"{name}.cls"], capture_output=True, check=False).stdout:
        pytest.skip(f"needs {name}.cls (apt-get install texlive-publishers)")
    shutil.copytree(headline(columns), tmp_path, dirs_exist_ok=True)
    lines = [start, r"\usepackage{graphicx,booktabs}", r"\begin{document}", r"\title{T}\author{A}"]
    lines += [r"\affiliation{\institution{I}\country{C}}"] if name == "acmart" else []
    lines += [r"\maketitle", "A text that is long enough. " * 400]
    lines += [rf"\input{{{part}}}" for part in ("formats", "figures", "tables")]
    lines += [rf"\bibliographystyle{{{references}}}", r"\bibliography{formats}", r"\end{document}"]
    (tmp_path / "whole.tex").write_text("\n".join(lines))
    for program in ("pdflatex -interaction=nonstopmode", "bibtex", *["pdflatex -interaction=nonstopmode"] * 2):
        done = subprocess.run([*program.split(), "whole"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
    log = (tmp_path / "whole.log").read_text(errors="replace")
    boxes = re.findall(r"Overfull \\[hv]box \(([\d.]+)pt too", log)
    assert [box for box in boxes if float(box) > 5] == []
    assert "Float too large" not in log and "Citation" not in log


def test_the_formats_of_a_paper_are_the_baseline_the_highlighted_and_the_best_of_families(few, headline, monkeypatch):
    rows = few[few["dtype"] == "f64"].assign(family=few["label"].map({"ell": "ELL"}).fillna("CSR"))
    order = by_mean_slowdown(latest_cases(rows))
    best = min((label for label in order if label != "ell"), key=order.index)
    assert set(latex.series(rows, None, [])) == {"csr-vector", "csr5", "ell"}, "as many as a figure can tell apart"
    monkeypatch.setattr(latex, "SERIES", 2)
    assert set(latex.series(rows, None, [])) == {best, "ell"}
    assert latex.series(rows, "csr-vector", ["csr5", "ell"]) == ["csr-vector", "csr5", "ell"]
    monkeypatch.undo()
    shown = pd.read_csv(headline("one-column") / "figures" / "gflops.csv")
    assert shown["label"].nunique() == latex.SERIES and set(shown["setting"]) == {"f64 hot", "f32 hot"}


def test_a_paper_needs_pdf_and_a_folder_of_its_own(command, results):
    for words, said in (("--image svg", "--paper writes PDF"), (f"--site {results}", "use --out")):
        result = command("report", "mine", "--results", results, "--paper", "one-column", *words.split())
        assert result.code == 2 and said in result.err


def test_text_in_a_paper_is_eight_points_and_the_page_s_is_not_changed(few):
    table = latest_cases(few)
    (figure,) = figures.choose(["gflops"])
    options = figures.Options("csr-vector", style.marks(["csr5", "ell"], "csr-vector"))
    sizes = {}
    for name in ("one-column", None):
        with style.paper(name) if name else style.theme(), style.theme():
            drawing = figure.draw(figures.table_of(figure, table, options), options)
            style.rendered(drawing, "svg")
        texts = [text for text in drawing.findobj(Text) if text.get_text()]
        sizes[name] = ({text.get_fontsize() for text in texts}, drawing.get_size_inches()[0])
    assert sizes["one-column"] == ({8.0}, 3.5)
    assert max(sizes[None][0]) == 10 and sizes[None][1] == 11


class TestBibliography:
    def test_entries_are_whole_and_each_is_of_a_format(self):
        numbers = {number for name in survey.names() if name.keys for number in name.references}
        references = [formats.get(key).reference for key in formats.keys()]  # noqa: SIM118
        assert len({paper.id for paper in bibliography.papers()}) == len(bibliography.papers()) >= 75
        for paper in bibliography.papers():
            assert paper.authors and paper.title and paper.venue and re.fullmatch(r"(19|20)\d\d", paper.year)
            assert re.fullmatch(r"[a-z]+\d{4}[a-z0-9]+", paper.id)
            assert paper.survey in numbers or paper.named, paper.id
            for text in paper.named:
                assert any(text in reference for reference in references), text

    def test_every_format_with_a_paper_is_cited(self):
        for key in formats.keys():  # noqa: SIM118
            cls = formats.get(key)
            found = bibliography.cited(key, cls.reference)
            assert found or cls.reference.startswith("this project"), key

    def test_papers_of_formats(self):
        def of(key):
            return bibliography.cited(key, formats.get(key).reference)

        assert of("csr5") == ["liu2015csr5"]
        assert of("merge-csr") == ["merrill2016merge"]
        assert of("tile") == ["niu2021tilespmv"]
        assert of("csr5-hub") == ["liu2015csr5"]
        assert of("column-sweep") == []
        assert of("merbit") == ["spmvbench-merbit"]

    def test_what_is_special_in_tex_is_escaped(self):
        text = bibliography.bibtex(["evil[x=1]", "csr5 (h200-headline)"], {"evil": r"A & B_{\x}, 50 % of $1, 1999"})
        assert r"howpublished = {A \& B\_x, 50 \% of \$1, 1999}" in text and "@inproceedings{liu2015csr5," in text
        assert text.count("{") == text.count("}")


class TestAgainst:
    def rows(self, times):
        """Rows of one matrix each with the times of two labels."""
        template = generated_rows(1, {"csr5": FORMATS["csr5"]}).iloc[0].to_dict() | {"status": "ok", "mode": "hot"}
        return latest_cases(
            pd.DataFrame(
                template | {"label": label, "format": label, "t_median": t, "name": f"m{m}", "case_id": f"{m}{label}"}
                for m, pair in enumerate(times)
                for label, t in zip(("mine", "csr5"), pair, strict=True)
                if t
            )
        )

    def test_wins_ties_and_mean(self):
        times = [(1.0, 2.0), (1.0, 4.0), (1.0, 1.004), (2.0, 1.0), (1.0, None)]
        table = against(self.rows(times), "mine", "csr5")
        assert table["outcome"].tolist() == ["win", "win", "tie", "loss"]
        assert table["speedup"].tolist() == pytest.approx([4, 2, 1.004, 0.5])
        (row,) = against_summary(table).to_dict("records")
        assert (row["matrices"], row["wins"], row["ties"], row["losses"]) == (4, 2, 1, 1)
        logs = np.log([4, 2, 1.004, 0.5])
        low, high = scipy.stats.t.interval(0.95, 3, logs.mean(), scipy.stats.sem(logs))
        assert row["geomean"] == pytest.approx(math.exp(logs.mean()))
        assert (row["low"], row["high"]) == pytest.approx((math.exp(low), math.exp(high)))

    def test_one_matrix_has_no_interval(self):
        low, mean, high = interval(np.array([2.0]))
        assert math.isnan(low) and mean == pytest.approx(2) and math.isnan(high)

    def test_opponents_are_ordered_by_the_share_that_they_win(self, few):
        rows = latest_cases(few)
        logs = logarithms(rows.assign(setting=rows["setting"].astype(str)), ["setting", "matrix"])
        for row in opponents(logs, "csr-vector").itertuples():
            counts = against(rows, "csr-vector", row.label)["outcome"].value_counts()
            assert (row.faster, row.slower) == (counts.get("win", 0), counts.get("loss", 0))
            assert row.speedup == pytest.approx(
                1 / np.exp(np.log(against(rows, "csr-vector", row.label)["speedup"]).mean())
            )

    def test_command(self, command, results, few):
        result = command("compare", "mine", "--results", results, "--format", "csr5,ell")
        assert result.code == 0, result.err
        rows = latest_cases(store.load(results / "mine"))
        table = against(rows, "csr5", "ell")
        (row,) = against_summary(table).to_dict("records")
        assert (
            f"csr5 against ell, f64 hot: wins {row['wins']}, ties {row['ties']}, losses {row['losses']}" in result.out
        )
        assert f"speed-up {row['geomean']:.3f} (95 %: {row['low']:.3f} to {row['high']:.3f})" in result.out
        assert [line.split()[-2:] for line in result.out.splitlines() if "/matrix" in line] == [
            [f"{speedup:.3f}", outcome] for speedup, outcome in zip(table["speedup"], table["outcome"], strict=True)
        ]
        wide = command("compare", "mine", "--results", results, "--format", "csr5,ell", "--threshold", "99%")
        assert f"wins 0, ties {row['matrices']}, losses 0" in wide.out


class TestBeside:
    def test_rows_of_the_same_cases_join_under_the_run_s_name(self, few):
        mine = few[few["name"].isin(["matrix0000", "matrix0001"]) & (few["dtype"] == "f64") & (few["mode"] == "hot")]
        mine = mine[mine["label"] == "csr5"].assign(group="file", name="other name")
        rows = beside(mine, few.assign(run_id="h200-headline"), "h200-headline")
        added = rows[rows["label"].str.endswith(" (h200-headline)")]
        assert set(added["label"]) == {"csr-vector (h200-headline)", "csr5 (h200-headline)", "ell (h200-headline)"}
        assert set(added["dtype"]) == {"f64"} and set(added["mode"]) == {"hot"}
        assert set(added["matrix_sha256"]) == set(mine["matrix_sha256"]) and set(added["name"]) == {"other name"}

    def test_another_gpu_is_refused(self, few):
        with pytest.raises(UsageError, match="different GPUs"):
            beside(few, few.assign(device_name="another"), "x")
        with pytest.raises(UsageError, match="no row of these"):
            beside(few, few.assign(matrix_sha256="0" * 64), "x")

    def test_command(self, command, results):
        shutil.copytree(results / "mine", results / "theirs")
        words = ("mine", "--results", results, "--beside", "theirs")
        result = command("compare", *words, "--format", "csr5,csr5 (theirs)")
        assert result.code == 0, result.err
        assert "wins 0, ties 9, losses 0 on 9 matrices" in result.out or "wins 0, ties 8, losses 0" in result.out
        result = command("report", *words, "--figures", "speedup")
        assert result.code == 0, result.err
        assert "csr5 (theirs)" in (results / "mine" / "report" / "figures" / "speedup.csv").read_text()


class TestSweep:
    def test_a_star_is_every_choice(self):
        found = [formats.label(cls, params) for cls, params in formats.parse("sell[height=*]")]
        choices = formats.get("sell").parameters()["height"].choices
        assert found == [
            "sell" if n == formats.get("sell").parameters()["height"].default else f"sell[height={n}]" for n in choices
        ]
        both = formats.parse("sell[height=*,threads=1]")
        assert len(both) == len(choices) and {params["threads"] for _, params in both} == {1}
        with pytest.raises(UsageError, match="no list of choices"):
            formats.parse("hyb[breakeven=*]")
        with pytest.raises(UsageError, match="no parameter"):
            formats.parse("sell[nothing=*]")

    def swept(self):
        template = generated_rows(3, {"sell": FORMATS["csr5"]})
        template = template[(template["mode"] == "hot") & (template["dtype"] == "f64") & (template["status"] == "ok")]
        parts = [
            template.assign(
                label=f"sell[height={height}]" if height != 32 else "sell",
                params=json.dumps({"height": height, "threads": 0}),
                t_median=template["t_median"] * factor,
            )
            for height, factor in ((128, 2.0), (32, 1.0), (64, 1.5))
        ]
        other = template.assign(label="sell[threads=2]", params=json.dumps({"height": 32, "threads": 2}))
        return pd.concat([*parts, other], ignore_index=True)

    def test_table_is_relative_to_the_best_value(self):
        table = sweeps(latest_cases(self.swept()))
        assert set(table["parameter"]) == {"height"} and set(table["fixed"]) == {"threads=0"}
        means = table.groupby("value")["ratio"].mean()
        assert means.to_dict() == pytest.approx({"32": 1.0, "64": 1.5, "128": 2.0})
        assert table.drop_duplicates("place").sort_values("place")["value"].tolist() == ["32", "64", "128"]

    def test_two_values_are_no_sweep(self):
        rows = self.swept()
        assert sweeps(latest_cases(rows[rows["label"] != "sell[height=64]"])).empty

    def test_a_report_takes_the_labels_of_a_sweep(self):
        from spmvbench.analysis.choice import labels_of

        rows = self.swept()
        assert set(labels_of(rows, "sell[height=*]", "--formats")) == {"sell", "sell[height=64]", "sell[height=128]"}
        assert set(labels_of(rows, "sell[threads=*]", "--formats")) == {"sell", "sell[threads=2]"}
