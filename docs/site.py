"""What the site is made of beside the pages in this folder: sections of README.md, and pages that the code writes.

A line ``<!-- README: How it measures -->`` in a page stands for that section of README.md, so that nothing is told
twice. Links of whatever is taken from the repository lead to the site's page of a file, where it has one.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
MADE = ("contributing.md", "changes.md", "formats.md", "rows.md", "notebook.md")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    told = [relinked((ROOT / name).read_text(encoding="utf-8"), "") for name in ("CONTRIBUTING.md", "CHANGELOG.md")]
    texts = [*told, formats(), rows(), notebook(ROOT / "docs" / "notebook.ipynb")]
    for name, text in zip(MADE, texts, strict=True):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page, and the sections of README.md and the operations that it takes in."""
    if page.file.generated_by is not None:
        return markdown
    text = relinked(markdown, "docs")
    text = re.sub(r"^<!-- README: (.+?) -->$", lambda m: section(m[1]), text, flags=re.MULTILINE)
    return text.replace("<!-- operations -->", operations())


def section(title: str) -> str:
    """The section of README.md under a title, without it; a title with a star takes every one that it matches."""
    parts = re.split(r"^## (.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pattern = re.escape(title).replace(r"\*", ".*")
    found = [text for name, text in zip(parts[1::2], parts[2::2], strict=True) if re.fullmatch(pattern, name)]
    if not found and "*" not in title:
        raise PluginError(f"README.md has no section {title!r}")
    return relinked("\n".join(found).strip(), "")


def relinked(text: str, folder: str) -> str:
    """The text with links as pages of the site have them. folder: where it stands in the repository."""

    def changed(match: re.Match[str]) -> str:
        sign, words, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path or (folder == "docs" and path in MADE):
            return match[0]
        place = posixpath.normpath(posixpath.join(folder, path))
        if place in PAGES:
            return f"{sign}[{words}]({PAGES[place]}{hash_}{anchor})"
        if place.startswith("docs/") and not place.startswith("docs/example") and (ROOT / place).is_file():
            return f"{sign}[{words}]({place.removeprefix('docs/')}{hash_}{anchor})"
        if not (ROOT / place).exists():
            raise PluginError(f"a link leads nowhere: {target} in {folder or 'the repository'}")
        return words if words in (path, place, f"`{place}`") else f"{words} (`{place}`)"

    return re.sub(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)", changed, text)


def formats() -> str:
    """A chapter a family, a section a format."""
    from spmvbench import formats
    from spmvbench.cli.formats import describe

    known = [formats.get(key) for key in formats.keys()]  # noqa: SIM118 - a function of the module
    lines = ["# Formats", "", f"{len(known)} formats in {len(formats.families())} families."]
    lines += ["`spmvbench formats NAME` shows the same of one at the terminal.", ""]
    for family in formats.families():
        lines += [f"## {family}", ""]
        for cls in (cls for cls in known if cls.family == family):
            about = describe(cls)
            lines += [f"### `{cls.key}` {{ #{cls.key} }}", "", _plain(about["doc"]), ""]
            facts = {"Reference": cls.reference, "The survey's name": cls.survey_name, "Storage": cls.core}
            facts["Confidence"] = about["confidence"]
            facts["Another name of"] = cls.alias_of and f"`{cls.alias_of}`"
            facts["Operation"] = "" if cls.op == "spmv" else f"`{cls.op}`"
            facts["Kernels"] = ", ".join(f"`{Path(source).name}`" for source in formats.sources(cls))
            lines += [f"- {name}: {_plain(text)}" for name, text in facts.items() if text]
            lines.append("")
            if parameters := cls.parameters():
                lines += ["| Parameter | Default | Range | |", "| --- | --- | --- | --- |"]
                lines += [
                    f"| `{name}` | `{p.default}` | {_cell(p.range)} | {_cell(p.doc)} |"
                    for name, p in parameters.items()
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


def rows() -> str:
    """The columns of rows.parquet and matrices.parquet."""
    from spmvbench.bench.record import COLUMNS, MATRIX_COLUMNS

    lines = [
        "# Columns of a row",
        "",
        "One row a case, in `rows.parquet`; a column's meaning is in the file's metadata too.",
        "",
    ]
    for title, columns in (("", COLUMNS), ("## Descriptions of matrices", MATRIX_COLUMNS)):
        lines += [title, "", "| Column | Type | Meaning |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {kind} | {_cell(meaning)} |" for name, (kind, meaning) in columns.items()] + [""]
    return "\n".join(lines)


def operations() -> str:
    """What the bench can time, with the formats that do it where they are few."""
    from spmvbench import formats
    from spmvbench.bench.operations import OPERATIONS

    lines = ["| Operation | | Formats |", "| --- | --- | --- |"]
    for key, cls in OPERATIONS.items():
        keys = [name for name in formats.keys() if formats.get(name).op == cls.key]  # noqa: SIM118
        named = ", ".join(f"[`{name}`](formats.md#{name})" for name in keys)
        said = (cls.__doc__ or "").partition("\n\n")[0]
        lines.append(
            f"| `{key}` | {_cell(said)} | {named if len(keys) < 20 else f'{len(keys)} [formats](formats.md)'} |"
        )
    return "\n".join(lines)


def notebook(path: Path) -> str:
    """The cells of a notebook, one after the other."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join([*parts, f"This page is the notebook `docs/{path.name}`, which the tests execute."])
