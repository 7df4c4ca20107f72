"""The documentation builds without a warning, and its notebooks run."""

import ast
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spmvbench
from spmvbench import formats
from spmvbench.publishing.format_pages import page_of
from spmvbench.rows.schema import COLUMNS
from tests.reports.conftest import served

ROOT = Path(spmvbench.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").is_file(), reason="needs a checkout (git clone)")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site, with links to reports as `make site` has them."""
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("needs MkDocs (pip install -e '.[docs]')")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "REPORTS": "runs"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(built):
    """The text of each page."""
    return {path.relative_to(built).as_posix(): path.read_text(encoding="utf-8") for path in built.rglob("*.html")}


def test_every_page_is_in_the_navigation_and_linked_from_the_first():
    """Once in the navigation; those of docs/ that are no format's also in README.md, the first page."""
    listed = re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed)), "no page twice"
    files = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    files = {name for name in files if not name.startswith("example/")}
    # Names in capitals are files of the repository's root, which become pages with names of their own.
    made = re.findall(r'"([a-z_]+)\.md"', (ROOT / "docs" / "site.py").read_text(encoding="utf-8"))
    assert {*files, *made} == set(listed)
    first = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(files) if "/" not in name and f"(docs/{name}.md" not in first] == []


@pytest.mark.slow  # they wait for the site
def test_every_page_is_there_holds_everything_and_fetches_nothing_from_elsewhere(site):
    pages = re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(pages) > 10 and {f"{name}.html" for name in pages} == site.keys() - {"404.html"}
    for name, text in site.items():
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//[^"]+"', text) == [], name
    for key in formats.keys():  # noqa: SIM118 - a function of the module
        page = page_of(formats.get(key).family).replace(".md", ".html")
        assert f'<h2 id="{key}">' in site[f"formats/{page}"], key
    assert all(f"<code>{name}</code>" in site["columns.html"] for name in COLUMNS)
    for name in ("run", "load_run", "plot", "report", "multiply", "load"):
        assert re.search(rf'id="spmvbench\.[\w.]+\.{name}"', site["python.html"]), name
    assert "Two commands" in site["index.html"], "README.md is the first page"


@pytest.mark.slow  # they wait for the site
def test_the_first_page_has_both_tables_and_one_picture(site):
    """Those that commands have written into README.md from rows, as tables of the site."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ((?:pde:100|denserow:1000000) \| f\d\d .*|advised.*) \|$", readme, re.MULTILINE)
    assert len(lines) == 6
    page = re.sub(r"<(?:/?strong|/?code|td[^>]*)>", "", site["index.html"])
    for line in lines:
        shown = [cell.strip(" *`") for cell in line.split("|")]
        assert re.search(r"\s*</td>\s*".join(map(re.escape, shown)), page), line
    article = re.search(r"<article.*</article>", site["index.html"], re.DOTALL)[0]
    assert len(re.findall(r"<img ", article)) == 1 and 'src="figures/h200-ratios.svg"' in article
    assert site["index.html"].count('data-md-component="search-query"') == 1


@pytest.mark.slow  # they wait for the site
def test_published_runs_are_links_to_their_reports(site):
    listed = site["results/index.html"]
    assert '<a href="../runs/h200-headline/report/index.html">h200-headline</a>' in listed
    assert '<a href="runs/index.html">results/published</a>' in site["index.html"]
    assert '<a href="runs/h200-survey/report/index.html">' in site["reproduce.html"]
    linked = {run for text in site.values() for run in re.findall(r'href="(?:\.\./)?runs/([\w-]+)/report', text)}
    assert len(linked) > 5
    assert all((ROOT / "results" / "published" / run / "README.md").is_file() for run in linked)


@pytest.mark.slow  # they wait for the site
@pytest.mark.parametrize("place", ["disk", "HTTP"])
def test_the_search_works(built, browser, place):
    with contextlib.nullcontext(built.as_uri()) if place == "disk" else served(built) as address:
        page = browser.open(f"{address}/index.html")
        page.run("""
          const input = document.querySelector("[data-md-component=search-query]");
          input.focus();
          input.value = "mean slowdown";
          input.dispatchEvent(new Event("keyup", { bubbles: true }));
          await new Promise((done) => {
            const look = () => (document.querySelector(".md-search-result__item a") ? done() : setTimeout(look, 50));
            look();
          });
        """)
        found = page.run("return [...document.querySelectorAll('.md-search-result__item a')].map((a) => a.href);")
        page.close()
    assert any("glossary.html" in link for link in found)


# Words not used in pages, docstrings and comments (case ignored), with the glossary's words to use instead.
WORDS = {
    r"behind (the )?best|price of being wrong": "mean slowdown, regret",
    r"\bdeal out\b|\bby turns\b": "schedule, round",
    r"\btrespass\w*|\bforetell\w*|\bdeeds?\b": "exceed the guard, predict, writes",
    r"\bhand(ed|ing)? in\b": "submit",
    r"\bout of reach\b|--beyond\b": "excluded as too slow",
    r"\bcharged (with|to|for)\b|\bblam(e|ed|ing)\b|\binnocent\w*": "is marked failed",
    r"\blaunch[ -]floors?\b|\b(near the|a) floor\b": "launch overhead",
    r"\b(below|under) the roof\b": "bound, roofline efficiency",
    r"\btraits?\b|\btwins?\b": "feature, integers",
    r"\bwhere the time goes\b|\bsafe (choice|format)\b": "kernel breakdown, fallback",
    r"\bright (answers?|results?|rows?|cases?)\b": "verified",
    r"\bprepared matri\w+|\bthe house\b": "matrix cache, rooms",
}


def test_words_that_are_not_used():
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("spmvbench/**/*.py"),
        *ROOT.glob("kernels/**/*.cu*"),
    ]
    hits = [
        f"{path.relative_to(ROOT)}: {match[0]!r}: use {instead}"
        for path in files
        for text in [" ".join(path.read_text(encoding="utf-8").split())]
        for word, instead in WORDS.items()
        for match in re.finditer(word, text, re.IGNORECASE)
    ]
    assert len(files) > 500 and hits == []


def run_notebook(name):
    """Cell by cell in one namespace, the last expression of each shown as a notebook would: (names, what is shown)."""
    cells = json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))["cells"]
    names, shown = {}, []
    for cell in cells:
        assert not cell.get("outputs"), "outputs are not kept: clear them"
        if cell["cell_type"] == "code":
            *lines, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(lines, []), "notebook", "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), names))
    return names, shown


@pytest.mark.slow
def test_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, shown = run_notebook("notebook.ipynb")
    assert set(names["rows"]["status"]) <= {"ok", "skipped"} and len(names["rows"]) == 6
    assert [plot._repr_svg_()[:5] for plot in shown if hasattr(plot, "_repr_svg_")] == ["<?xml"] * 2
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.slow
def test_notebook_of_operators_runs(capsys):
    names, shown = run_notebook("operator.ipynb")
    assert names["op"].choice.label in capsys.readouterr().out
    assert names["op"].shape == names["a"].shape and len(names["advice"].table) >= 5
    iterations, error = next(cell for cell in shown if isinstance(cell, tuple) and len(cell) == 2 and cell[1] < 1e-7)
    assert iterations == len(names["residuals"]) - 1 > 10 and error < 1.1e-8
    assert {"this project", "SciPy"} <= set(names["times"])
    best, total, _ = next(cell for cell in shown if isinstance(cell, tuple) and len(cell) == 3)
    assert abs(total - 1) < 1e-12 and names["ranks"][best[0]] == names["ranks"].max()
    assert set(names["ranking"]) == {"this project", "CuPy" if names["on_gpu"] else "SciPy"}
