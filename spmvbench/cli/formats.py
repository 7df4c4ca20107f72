"""`spmvbench formats`: lists the formats by family, with paper, storage and parameters."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Container
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from spmvbench.cli import completion, option_types
from spmvbench.errors import UsageError, counted, did_you_mean

if TYPE_CHECKING:
    from spmvbench.formats import Format


def _family(cls: type[Format], quote: str = "") -> str:
    """The family, with the operation unless it is y = A x."""
    return cls.family if cls.op == "spmv" else f"{cls.family} ({quote}--op {cls.op}{quote})"


def _chosen(name: str | None, family: str | None, text: str | None) -> list[type[Format]]:
    """The formats by family: of a name as in `run --formats`, of a family (its case ignored), or that contain the words
    of a text, best first; all if none is given. Raises UsageError.
    """
    from spmvbench import formats
    from spmvbench.formats.descriptions import by_family
    from spmvbench.formats.search import search

    if name:
        return by_family(formats.find(name))
    found = by_family(formats.keys())
    if family:
        found = [cls for cls in found if cls.family.lower() == family.lower()]
        known = formats.families()
        if not found:
            hint = did_you_mean(family, known) or f"; there are {', '.join(known)}"
            raise UsageError(f"there is no family {family!r}{hint}")
    elif text:
        found = search(found, text)
        if not found:
            raise UsageError(f"no format's description contains {text!r}: spmvbench formats lists them all")
    return found


def _show_keys(classes: list[type[Format]]) -> None:
    for family, members in itertools.groupby(classes, key=_family):
        click.secho(family, bold=True)
        click.echo(_wrapped("  ".join(cls.key for cls in members), "  "))
    hint = "spmvbench formats NAME describes a format or a family; see also --search TEXT, --survey, --recent"
    click.echo(f"\n{counted(len(classes), 'format')}; {hint}")


def _show_some(classes: list[type[Format]]) -> None:
    """Print a few lines for every format, in the given order, under the names of their families."""
    from spmvbench.formats import survey
    from spmvbench.formats.descriptions import summary

    width = _width()
    for place, (family, members) in enumerate(itertools.groupby(classes, key=_family)):
        click.secho(f"{chr(10) if place else ''}{family}", bold=True)
        for cls in members:
            named = f"  [{cls.survey_name} in the survey, {survey.confidence(cls.key)}]" if cls.survey_name else ""
            click.echo(f"  {click.style(cls.key, fg='cyan')}{named}")
            settings = ", ".join(f"{name}={p.default}" for name, p in cls.parameters().items())
            for text in filter(None, (summary(cls), cls.shared_implementation, settings, cls.reference)):
                click.echo(click.wrap_text(text, width, " " * 6, " " * 6))
    click.echo(f"\n{counted(len(classes), 'format')}; spmvbench formats KEY shows all of one.")


def _show_survey() -> None:
    """Print the survey's names in its order, with the formats for each, or why there is none."""
    from spmvbench import formats
    from spmvbench.formats import survey

    def said(key: str) -> str:
        alias = formats.get(key).alias_of
        return f"{key} (= {alias})" if alias else key

    entries = [(name, name.title if name.in_table2 else f"({name.title})") for name in survey.names()]
    column = max(len(title) for _, title in entries) + 4
    click.secho(f"{'Section':9}{'Name':{column}}Runs as [confidence]", bold=True)
    issues = ""
    for name, title in entries:
        if name.issues and name.issues != issues:
            click.secho(issues := name.issues, bold=True)
        title += " *" if name.available else ""
        runs = f"{', '.join(map(said, name.keys))} [{name.confidence}]" if name.keys else ""
        text = "; ".join(filter(None, (runs, name.lacks and f"lacks {name.lacks}", name.why_not)))
        click.echo(_wrapped(text, f"{name.section:9}{title:{column}}"))
    count = "{} of the {} names in Table 2 run here: {}.".format(*survey.count(), survey.shares())
    click.echo(f"\n{_wrapped(count, '')}")
    click.echo(
        _wrapped(
            "Confidence: the best source that was read. (Names) are not in Table 2. = marks another name of a format, "
            "* a source code that the survey lists as available. Headings are its base formats and their issues.",
            "",
        )
    )


def _show_recent() -> None:
    """Print the names since the survey in the file's order, with the formats for each, or why there is none."""
    from spmvbench.formats import recent

    click.secho(f"{'Kind':17}Name: runs as [confidence]", bold=True)
    for name in recent.names():
        runs = f"{', '.join(name.keys)} [{name.confidence}]" if name.keys else ""
        text = "; ".join(filter(None, (runs, name.why_not, name.note)))
        title = name.name if name.counts else f"({name.name})"
        click.echo(_wrapped(f"{title}: {text}" if text else title, f"{name.kind:17}"))
    built, every = recent.count()
    click.echo(f"\n{_wrapped(f'{built} of {every} exact storages and kernels for GPUs run here.', '')}")
    click.echo(_wrapped("(Names) are not counted: they are for other devices, not exact, tuners or orders.", ""))


def echo_meanings(text: str, ops: Container[str] | None = None) -> None:
    """Print to stderr which words of a list of formats mean a family (`formats.meanings`)."""
    from spmvbench import formats

    for line in formats.meanings(text, ops):
        click.echo(line, err=True)


def _wrapped(text: str, lead: str) -> str:
    """Text after a lead, wrapped to the terminal. Keys and paths are not broken."""
    import textwrap

    return textwrap.fill(
        text,
        _width(),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _show_one(cls: type[Format]) -> None:
    from spmvbench import paths
    from spmvbench.formats.descriptions import describe, facts

    about = describe(cls)
    click.secho(cls.key, bold=True)
    click.echo(about["doc"])
    own = [_from_here(source) for source in about["sources"] if os.path.isabs(source)]
    shipped = ", ".join(source for source in about["sources"] if not os.path.isabs(source))
    shipped += f" in {_from_here(str(paths.kernels()))}" if shipped else ""
    files = {"File": _from_here(about["file"]), "Kernels": "; ".join(filter(None, [*own, shipped]))}
    click.echo()
    for name, fact in (facts(cls) | files).items():
        if fact:
            click.echo(_wrapped(fact, f"{name:11}"))
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
                click.echo(_wrapped(text or "-", f"  {name:{column - 2}}"))


def _from_here(path: str) -> str:
    """The path as it is typed: relative if it is in the working folder."""
    return os.path.relpath(path) if path.startswith(os.path.join(os.getcwd(), "")) else path


def _width() -> int:
    """Width of text: the terminal's, at most 120 for readability."""
    import shutil

    return min(shutil.get_terminal_size().columns, 120)


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from spmvbench import formats
    from spmvbench.formats.descriptions import summary

    found = [cls for cls in map(formats.get, formats.keys()) if cls.key.startswith(incomplete.lower())]
    return [CompletionItem(cls.key, help=summary(cls)) for cls in found]


@click.command(name="formats")
@click.argument("name", required=False, shell_complete=_complete_name)
@click.option(
    "--family",
    metavar="NAME",
    help="Describe the formats of a family.",
    shell_complete=completion.of("formats", lambda formats: formats.families()),
)
@click.option("--search", metavar="TEXT", help="Find formats whose description contains the words of TEXT.")
@click.option("--survey", is_flag=True, help="List the survey's names with the formats for each.")
@click.option("--recent", is_flag=True, help="List the names of the years since the survey, likewise.")
@option_types.JSON
def command(
    name: str | None,
    family: str | None,
    search: str | None,
    survey: bool,
    recent: bool,
    as_json: bool,
) -> None:
    """List the formats by family, or describe one: storage, arrays, parameters, paper, files.

    NAME is a key, a glob such as 'csr-*', a family, or the survey's name of a format; case is ignored.
    Parameters are set as in  spmvbench run --formats 'ell[threads=2],csr-vector'.
    """
    if sum(map(bool, (name, family, search, survey, recent))) > 1:
        raise UsageError("give a NAME, --family, --search, --survey or --recent, not several")
    if (survey or recent) and not as_json:
        _show_survey() if survey else _show_recent()
    elif survey or recent:
        from spmvbench.formats import recent as since
        from spmvbench.formats import survey as of_survey

        names = of_survey.names() if survey else since.names()
        click.echo(json.dumps([dataclasses.asdict(name) for name in names], indent=2))
    else:
        if name:
            echo_meanings(name)
        found = _chosen(name, family, search)
        alone = bool(name) and len(found) == 1
        if as_json:
            from spmvbench.formats.descriptions import describe

            about = [describe(cls) for cls in found]
            click.echo(json.dumps(about[0] if alone else about, indent=2))
        elif alone:
            _show_one(found[0])
        elif name or family or search:
            _show_some(found)
        else:
            _show_keys(found)
