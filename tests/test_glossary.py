"""One vocabulary: words that the project does not use are found wherever its users and readers meet text."""

from __future__ import annotations

import ast
import bisect
import io
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import spmvbench
from spmvbench.cli import COMMANDS, cli, results

ROOT = Path(spmvbench.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "glossary.md").is_file(), reason="needs a checkout (git clone)")

# Words not used, as regular expressions (case ignored, a blank is any white space), with the words to use instead.
WORDS = {
    r"behind (the )?best": "mean slowdown",
    r"price of being wrong|\bloss(es)? (to|against) the best\b|\b(mean|least|most) loss\b|\bloses least\b": "regret",
    r"\bdealt\b|\bdeal(s|ing)? (out|to|them)\b": "schedule, assign or distribute",
    r"\btrespass\w*": "exceed the guard, write out of bounds",
    r"\bforet(ell\w*|old)\b": "predict, estimate",
    r"\bdeeds?\b": "writes",
    r"\b(in|whose|which) company\b": "a plain verb: who runs at the same time",
    r"\bhand(ed|ing|s)? in\b": "submit",
    r"\bout of reach\b|--beyond\b": "excluded as too slow, --exclude-slow",
    r"\bcharged (with|to|for)\b|\bis charged\b|\bblam(e|ed|es|ing)\b|\binnocent\w*": "is marked failed",
    r"\blaunch[ _-]floors?\b|\b(the|near the|a) floor\b|\bfloor of (a |the )?launch": "launch overhead",
    r"\bthreads by rule\b|\blanes? (a|per|for each) row\b": "threads per row",
    r"\broofs\b|\b(below|of|under) the roof\b": "bound, roofline efficiency",
    r"\btraits?\b": "feature",
    r"\bwhole[ -]numbers?\b|\btwins?\b": "integers, exact integer test",
    r"\berror/bound\b": "error as a fraction of the rounding bound",
    r"\b(compil\w+|made|built) ahead\b(?! of time)": "precompile",
    r"\b(builds?|compared?|measured|comparison) in pairs\b": "A/B comparison",
    r"\bx (does not|doesn't) stream\b|\bwhere x streams\b": "irregular access to x, gather-bound",
    r"\bwhere the time goes\b": "kernel breakdown",
    r"\bnot ok\b": "failed, skipped",
    r"\bby turns\b|\bin (its|their) turns\b|\ba format's turn\b": "round, group run",
    r"\bsafe (choice|one|format)\b": "fallback",
    # Not the sessions of HTTP and POSIX, and not the module runner/session.py.
    r"(?<![\w./`])(?<!HTTP )(?<!POSIX )(?<!pytest )sessions?\b(?![./`_(])": "invocation; metadata",
    r"\brecords? of (a|an|the) (run|environment|invocation)\b": "metadata",
    r"\bright (answers?|results?|rows?|cases?|y)\b|\b(is|was|are|were) right\b|\bright in both\b": (
        "verified, reference results"
    ),
    r"\bstands?\b(?!-)(?! (for|in for)\b)": "a plain verb: is, is stored, is printed",
    r"\bprepared matri\w+": "matrix cache, canonical CSR",
    r"\b(side|half) of (a|the) comparison\b": "A/B process",
    r"\b(same|one|shared|common) core of\b|\bby (the same|one) core\b|\bcores? of (the )?formats\b": (
        "shared implementation"
    ),
    r"\bthe house\b": "parts of the code",
    r"\bslice_fill\b|\brun_mean\b|\bcol_step_log2\b|\balike_rows\b": (
        "ell_fill, contiguous_run_mean, column_step_log2, repeated_row_share"
    ),
    r"\bown_kernel\b|\bkernel own\b": "project_kernel, this project's kernel",
    r"\bt_parts\b|\bnear_launch_floor\b": "t_kernels, near_launch_overhead",
    r"\bbench\.\w+|\bcollection\.(sources|suitesparse|synthetic|files|features)\b": "the module's name today",
}
# In the page's templates alone: words on buttons and headings.
PAGE_WORDS = {
    r"""[>"'] ?(Choose|On|Back) ?[<"']""": "Filter, Next, Previous",
    r"""[>"'] ?Numbers ?[<"']""": "Data",
}


UNUSED = {re.compile(word, re.IGNORECASE): instead for word, instead in WORDS.items()}
# Keys and classes are written small, so case decides.
UNUSED_ON_THE_PAGE = {re.compile(word): instead for word, instead in PAGE_WORDS.items()}


@dataclass(frozen=True)
class Text:
    """A text of a file, or of a command's help. lines: number and content of each line."""

    place: str
    lines: tuple[tuple[int, str], ...]
    page: bool = False

    def hits(self) -> Iterator[str]:
        """Place, line, word and what to use instead, for each unused word."""
        words = [(number, word) for number, line in self.lines for word in line.split()]
        starts, joined = [], ""
        for _, word in words:
            starts.append(len(joined))
            joined += word + " "
        searched = UNUSED | (UNUSED_ON_THE_PAGE if self.page else {})
        for pattern, instead in searched.items():
            for match in pattern.finditer(joined):
                number = words[bisect.bisect_right(starts, match.start()) - 1][0]
                yield f"{self.place}:{number}: {match[0]!r}: use {instead}"


def of_help() -> Iterator[Text]:
    """The help of every command and of the commands of `runs`."""
    within = click.Context(cli, **cli.context_settings)  # a command keeps the help options of its first context
    for name in COMMANDS:
        command = cli.get_command(within, name)
        assert command is not None
        every = {name: command} | {f"{name} {sub}": one for sub, one in getattr(command, "commands", {}).items()}
        for words, one in every.items():
            shown = one.get_help(click.Context(one, within, info_name=f"spmvbench {words}", terminal_width=100))
            yield Text(f"spmvbench {words} --help", tuple(enumerate(shown.splitlines(), 1)))


def of_pages() -> Iterator[Text]:
    """README.md, CONTRIBUTING.md and the pages of docs/ without their code blocks, and the notebook's Markdown."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(
            r"^```.*?^```$",
            lambda block: "\n" * block[0].count("\n"),
            path.read_text(encoding="utf-8"),
            flags=re.M | re.S,
        )
        yield Text(path.relative_to(ROOT).as_posix(), tuple(enumerate(text.splitlines(), 1)))
    notebook = ROOT / "docs" / "notebook.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    yield Text("docs/notebook.ipynb", tuple(enumerate("\n".join(texts).splitlines(), 1)))


def of_modules() -> Iterator[Text]:
    """Docstrings and blocks of comments of every module of the package."""
    for path in sorted((ROOT / "spmvbench").rglob("*.py")):
        source, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        yield from (Text(place, block) for block in docstrings(source))
        yield from (Text(place, block) for block in comments(source))


def docstrings(source: str) -> Iterator[tuple[tuple[int, str], ...]]:
    """The lines of each docstring of a module's text."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            expression = node.body[0]
            assert isinstance(expression, ast.Expr) and isinstance(expression.value, ast.Constant)
            yield tuple(enumerate(str(expression.value.value).splitlines(), expression.lineno))


def comments(source: str) -> Iterator[tuple[tuple[int, str], ...]]:
    """The lines of each block of comments of a module's text: lines that follow each other are one block."""
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1][0] + 1:
                yield tuple(block)
                block = []
            block.append((token.start[0], token.string.lstrip("#")))
    if block:
        yield tuple(block)


def of_kernels() -> Iterator[Text]:
    """Comments of the kernels and of the examples' kernels."""
    for folder, pattern in (("kernels", "*.cu"), ("kernels", "*.cuh"), ("docs/example", "*.cu")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            marked = ((number, line.partition("//")[2]) for number, line in lines)
            yield Text(path.relative_to(ROOT).as_posix(), tuple((number, line) for number, line in marked if line))


def of_templates() -> Iterator[Text]:
    """The templates of the report page."""
    for path in sorted((ROOT / "spmvbench" / "reports" / "templates").iterdir()):
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            yield Text(path.relative_to(ROOT).as_posix(), tuple(enumerate(lines, 1)), page=True)


@pytest.mark.parametrize("texts", [of_help, of_pages, of_modules, of_kernels, of_templates])
def test_words_that_are_not_used(texts):
    found = list(texts())
    assert found, "nothing was searched"
    hits = [hit for text in found for hit in text.hits()]
    assert not hits, f"{len(hits)} words that the project does not use:\n" + "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    [
        "how far it is behind the best",
        "The price of being wrong",
        "rows are dealt to warps",
        "a case is charged with its worker's death",
        "the launch\nfloor of a device",
        "far below the roof",
        "one session of the bench",
        "where it was right in both",
        "the table that stands at the end",
        "see bench.store",
    ],
)
def test_an_unused_word_is_found(text):
    (hit,) = Text("page.md", tuple(enumerate(text.split("\n"), 7))).hits()
    assert hit.startswith("page.md:7: ")


@pytest.mark.parametrize(
    "text",
    [
        "a roofline, its efficiency and the bound",
        "floor(x) and the integer part",
        "the right-hand side, left and right",
        "its own column; a stand-in stands for another matrix",
        "runner/session.py, `session.measure` and an HTTP session of requests.Session",
        "compiled ahead of time; one CPU core",
        "handed to the worker in one piece; in turn; the loss of a worker",
        "a lossless conversion; a portrait",
    ],
)
def test_ordinary_words_are_not_found(text):
    assert list(Text("page.md", ((1, text),)).hits()) == []


def test_words_on_buttons_are_searched_in_templates_alone():
    line = ((3, '<button class="numbers">Back</button>'),)
    assert list(Text("a.md", line).hits()) == []
    assert [hit.partition(": ")[0] for hit in Text("a.html", line, page=True).hits()] == ["a.html:3"]


def test_docstrings_and_comments_keep_their_lines():
    source = '"""One.\n\nTwo."""\n# three\n# four\nx = 1  # five\n\n\ndef f():\n    """Six."""\n'
    assert list(docstrings(source)) == [((1, "One."), (2, ""), (3, "Two.")), ((10, "Six."),)]
    assert list(comments(source)) == [((4, " three"), (5, " four"), (6, " five"))]


# --- what is used instead is explained


def terms() -> list[str]:
    """The terms of docs/glossary.md."""
    return re.findall(r"^### (.+)$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)


VOCABULARY = (
    "mean slowdown", "regret", "launch overhead", "threads per row", "bound", "roofline efficiency", "feature",
    "exact integer test", "rounding bound", "precompile", "A/B comparison", "gather-bound", "kernel breakdown",
    "failed", "skipped", "verified", "round", "group run", "fallback", "invocation", "metadata",
    "matrix cache", "canonical CSR",
    "shared implementation", "this project's kernel", "excluded as too slow", "worker", "ablation", "stand-in",
    "preprocessing",
)  # fmt: skip


@pytest.mark.parametrize("term", VOCABULARY)
def test_the_vocabulary_is_in_the_glossary(term):
    assert term in terms()


# Heads that are not terms by themselves, with the term that explains them.
HEADS = {
    "wins": "win",
    "bytes/nonzero": "bytes per nonzero",
    "error / rounding bound": "rounding bound",
    "wrong": "failed",
}


@pytest.mark.parametrize("head", sorted({*results._MEASURED, *results._VERIFIED}))
def test_heads_of_tables_are_in_the_glossary(head):
    assert HEADS.get(head, head) in terms()


# Terms of this benchmark that a reader from the field need not know; others are linked where that helps.
LINKED = (
    "mean slowdown", "regret", "launch overhead", "roofline efficiency", "exact integer test", "rounding bound",
    "kernel breakdown", "group run", "invocation", "metadata", "matrix cache", "gather-bound", "excluded as too slow",
    "emulated device", "coverage", "footprint",
)  # fmt: skip
PAGES = ("advice", "cluster", "commands", "irregular", "matrices", "measuring", "operations", "results", "submitting")


@pytest.mark.parametrize("page", PAGES)
def test_terms_are_linked_where_they_first_appear(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$|^#[^\n]*$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for term in LINKED:
        words = re.escape(term).replace(r"\ ", r"\s+")
        # Links whole, other targets of links apart, and the term in a sentence, in the order of the page.
        uses = re.findall(rf"\[[^\]]*\b{words}[^\]]*\]\([^)]*\)|\]\([^)]*\)|\b{words}", prose, re.IGNORECASE)
        first = next((use for use in uses if not use.startswith("](")), "")
        if first and "glossary.md#" not in first:
            wrong.append(term)
    assert wrong == [], "link these to glossary.md where they first appear"
