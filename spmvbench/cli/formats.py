"""`spmvbench formats`: what can be run, by family, with its paper, storage and parameters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from spmvbench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from spmvbench.formats import Format

BEGIN, END = "<!-- formats: `make docs` writes this table -->", "<!-- formats: end -->"


def _summary(cls: type[Format]) -> str:
    """What the format stores, in its docstring's first line."""
    return _doc(cls).partition("\n")[0]


def _doc(cls: type[Format]) -> str:
    import inspect

    return inspect.getdoc(cls) or ""


def _arrays(cls: type[Format]) -> dict[str, str]:
    """The format's arrays with the comment that stands behind each in the source, bases first."""
    import dataclasses
    import inspect
    import re

    comments: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is not object:
            comments |= dict(re.findall(r"^    (\w+): [^=#\n]+#\s*(.+)$", inspect.getsource(base), re.MULTILINE))
    kinds = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return {
        name: comments.get(name, "" if kind == "Array" else f"a part stored as {kind}")
        for name, kind in kinds.items()
        if name not in ("shape", "params")
    }


def describe(cls: type[Format]) -> dict[str, Any]:
    """Everything that a format says of itself, ready for JSON."""
    return {
        "key": cls.key,
        "family": cls.family,
        "survey_name": cls.survey_name,
        "core": cls.core,
        "reference": cls.reference,
        "doc": _doc(cls),
        "arrays": _arrays(cls),
        "parameters": {
            name: {"default": p.default, "range": p.range, "doc": p.doc} for name, p in cls.parameters().items()
        },
        "devices": list(cls.devices),
        "experiment": cls.experiment,
        "sources": list(cls.sources),
        "module": cls.__module__,
    }


def _by_family(family: str | None = None) -> list[type[Format]]:
    """Every format (or those of a family, its case ignored), sorted by family and key. Raises UsageError."""
    from spmvbench import formats

    classes = sorted(map(formats.get, formats.keys()), key=lambda cls: (cls.family, cls.key))
    if family is None:
        return classes
    chosen = [cls for cls in classes if cls.family.lower() == family.lower()]
    if not chosen:
        known = _families(classes)
        hint = did_you_mean(family.lower(), [name.lower() for name in known]) or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no family {family!r}{hint}")
    return chosen


def _families(classes: list[type[Format]]) -> list[str]:
    return list(dict.fromkeys(cls.family for cls in classes))


def markdown_table() -> str:
    """The README's table: one row a format, by family."""
    rows = [("Family", "Key", "Survey", "Storage", "Parameters", "Reference"), ("---",) * 6]
    for cls in _by_family():
        parameters = ", ".join(f"`{name}={p.default}`" for name, p in cls.parameters().items())
        rows.append((cls.family, f"`{cls.key}`", cls.survey_name, _summary(cls), parameters, cls.reference))
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def with_table(text: str) -> str:
    """The same document with the table of today between its two markers. Raises UsageError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UsageError(f"the document has no place for the table: it lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{markdown_table()}\n\n{END}{after}"


def _show_all(classes: list[type[Format]]) -> None:
    width = _width()
    family = None
    for cls in classes:
        if cls.family != family:
            click.secho(f"{'' if family is None else chr(10)}{cls.family}", bold=True)
            family = cls.family
        survey = f"  [{cls.survey_name} in the survey]" if cls.survey_name else ""
        click.echo(f"  {click.style(cls.key, fg='cyan')}{survey}")
        settings = ", ".join(f"{name}={p.default}" for name, p in cls.parameters().items())
        for text in filter(None, (_summary(cls), cls.core, settings, cls.reference)):
            click.echo(click.wrap_text(text, width, " " * 6, " " * 6))
    click.echo(f"\n{len(classes)} formats; spmvbench formats KEY shows one whole.")


def _show_one(cls: type[Format]) -> None:
    width = _width()
    about = describe(cls)
    click.secho(cls.key, bold=True)
    click.echo(about["doc"])
    facts = {
        "Family": cls.family,
        "Survey": cls.survey_name,
        "Core": cls.core,
        "Reference": cls.reference,
        "Devices": ", ".join(cls.devices),
        "Kernels": ", ".join(cls.sources),
        "Experiment": "measured, never ranked" if cls.experiment else "",
        "Module": cls.__module__,
    }
    click.echo()
    for name, fact in facts.items():
        if fact:
            click.echo(click.wrap_text(fact, width, f"{name:11}", " " * 11))
    tables = {
        "Arrays": about["arrays"],
        "Parameters": {
            f"{name}={p['default']}": f"{p['doc']} ({p['range']})" for name, p in about["parameters"].items()
        },
    }
    for title, entries in tables.items():
        if entries:
            click.secho(f"\n{title}", bold=True)
            column = max(map(len, entries)) + 4
            for name, text in entries.items():
                click.echo(click.wrap_text(text or "-", width, f"  {name:{column - 2}}", " " * column))


def _width() -> int:
    """Columns to fill with text: the terminal's, and no more than the eye follows."""
    import shutil

    return min(shutil.get_terminal_size().columns, 120)


def _complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(cls.key, help=_summary(cls)) for cls in _by_family() if cls.key.startswith(incomplete.lower())
    ]


def _complete_family(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _families(_by_family()) if name.lower().startswith(incomplete.lower())]


@click.command(name="formats")
@click.argument("key", required=False, shell_complete=_complete_key)
@click.option("--family", metavar="NAME", help="Only this family.", shell_complete=_complete_family)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option(
    "--update",
    type=click.Path(exists=True, dir_okay=False, writable=True),
    metavar="FILE",
    help="Rewrite the table of formats between the markers of FILE, a Markdown document.",
)
def command(key: str | None, family: str | None, as_json: bool, update: str | None) -> None:
    """List the formats by family, or show one whole: storage, arrays, parameters, paper.

    Parameters are set as in  spmvbench run --formats 'ell[threads=2],csr-vector'.
    """
    from pathlib import Path

    from spmvbench import formats

    if sum(map(bool, (key, family, update))) > 1:
        raise UsageError("give a KEY, --family or --update, not several")
    if update:
        path = Path(update)
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
    elif key:
        cls = formats.get(key)
        if as_json:
            click.echo(json.dumps(describe(cls), indent=2))
        else:
            _show_one(cls)
    else:
        classes = _by_family(family)
        if as_json:
            click.echo(json.dumps([describe(cls) for cls in classes], indent=2))
        else:
            _show_all(classes)
