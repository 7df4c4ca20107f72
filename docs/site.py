"""Hooks of MkDocs: pages of the site that are no files of this folder.

These are README.md, CONTRIBUTING.md, CHANGELOG.md, the notebooks and the columns of a row. The hooks also add a section
for each format to the page of its family, and adapt links.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
NOTEBOOKS = {"docs/notebook.ipynb": "notebook.md", "docs/operator.ipynb": "operator_notebook.md"}
MADE = (*PAGES.values(), *NOTEBOOKS.values())


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    told = [relinked((ROOT / name).read_text(encoding="utf-8"), name, page) for name, page in PAGES.items()]
    for name, text in zip(MADE, [*told, *(notebook(ROOT / name) for name in NOTEBOOKS)], strict=True):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page, and below the table of a family a section for each of its formats."""
    if page.file.generated_by is not None:
        return markdown
    name = page.file.src_uri
    text = relinked(markdown, f"docs/{name}", name)
    return f"{text}\n{sections(name)}" if name.startswith("formats/") else text


def relinked(text: str, place: str, page: str) -> str:
    """The text with links as pages of the site have them.

    place: the text's file in the repository. page: its page of the site. A published run is its report in the site if
    the variable REPORTS has the reports' folder (`make site`), else words. Raises PluginError for a link to nothing.
    """
    pages = PAGES | NOTEBOOKS

    def changed(match: re.Match[str]) -> str:
        sign, words, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        if not (ROOT / linked).exists():
            raise PluginError(f"a link leads nowhere: {target} in {place}")
        inside = linked.startswith("docs/") and not linked.startswith("docs/example") and (ROOT / linked).is_file()
        inside = inside and not linked.endswith(".py")  # exclude_docs of mkdocs.yml
        if linked in pages or inside:
            goal = pages.get(linked, linked.removeprefix("docs/"))
            return f"{sign}[{words}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{hash_}{anchor})"
        run = re.fullmatch(r"results/published(/[\w-]+)?", linked)
        if run and (reports := os.environ.get("REPORTS")):  # as HTML: MkDocs does not know pages that come later
            goal = f"{reports}{run[1]}/report/index.html" if run[1] else f"{reports}/index.html"
            return f'<a href="{posixpath.relpath(goal, posixpath.dirname(page) or ".")}">{words}</a>'
        return words if words in (path, linked, f"`{linked}`") else f"{words} (`{linked}`)"

    return re.sub(r"(!?)\[([^\]\n]*(?:\n[^\]\n]+)?)\]\(([^)\s]+)\)", changed, text)


def sections(page: str) -> str:
    """A section for each format of a family's page: description, facts, parameters, arrays."""
    from spmvbench import formats
    from spmvbench.formats.descriptions import describe, facts
    from spmvbench.publishing.format_pages import page_of

    lines: list[str] = []
    for key in formats.shipped():
        cls = formats.get(key)
        if f"formats/{page_of(cls.family)}" != page:
            continue
        about = describe(cls)
        lines += [f"## `{cls.key}` {{ #{cls.key} }}", "", _plain(about["doc"]), ""]
        lines += [f"- {name}: {_plain(text)}" for name, text in facts(cls).items()]
        lines.append("")
        if parameters := cls.parameters():
            lines += ["| Parameter | Default | Range | |", "| --- | --- | --- | --- |"]
            lines += [
                f"| `{name}` | `{p.default}` | {_cell(p.range)} | {_cell(p.doc)} |" for name, p in parameters.items()
            ]
            lines.append("")
        if about["arrays"]:
            lines += ["| Array | |", "| --- | --- |"]
            lines += [f"| `{name}` | {_cell(text)} |" for name, text in about["arrays"].items()] + [""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Words of a docstring: signs that Markdown or HTML would read are shown."""
    text = text.replace("``", "`")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]|])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return _plain(" ".join(text.split()))


def notebook(path: Path) -> str:
    """The cells of a notebook, one after the other."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join([*parts, f"This page is the notebook `docs/{path.name}`, which the tests execute."])
