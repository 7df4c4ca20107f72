"""Selection of matrices: the argument and the options that `fetch` and `run` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion
from spmvbench.cli.option_types import gathered
from spmvbench.matrices.conditions import CONDITIONS, Conditions, option

if TYPE_CHECKING:
    from spmvbench.matrices.selection import Selection


def _completed(name: Callable[[Any], str]) -> Callable[..., list[str]]:
    """Completions of the names of the collection's entries that are known here."""
    return completion.of(
        "matrices.suitesparse", lambda found: sorted({name(entry) for entry in found.index(network=False)})
    )


def _option(name: str) -> Callable[..., Any]:
    """The option of a condition."""
    condition, text = CONDITIONS[name], option(name)
    if condition.values is bool:
        return click.option(f"--{text}/--no-{text}", name, default=None, help=condition.help)
    if isinstance(condition.values, tuple):
        return click.option(f"--{text}", name, type=click.Choice(condition.values), help=condition.help)
    count = condition.values is int
    kind = click.IntRange(min=0) if count else click.STRING
    return click.option(f"--{text}", name, type=kind, metavar="N" if count else "TEXT", help=condition.help)


OPTIONS = ("--group", *(f"--{option(name)}" for name in CONDITIONS), "--limit")  # all but --set


def _selection(values: dict[str, Any]) -> Selection:
    from spmvbench.matrices.selection import Selection

    conditions = Conditions(**{name: values.pop(name) for name in CONDITIONS})
    named = {name: values.pop(name) for name in ("matrices", "groups", "sets", "limit")}
    return Selection(conditions=conditions, **named)


# The argument and the options, as one parameter `chosen`.
selection = gathered(
    "chosen",
    _selection,
    click.argument("matrices", nargs=-1, metavar="[MATRIX]...", shell_complete=_completed(lambda entry: entry.id)),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME",
        shell_complete=_completed(lambda entry: entry.group),
        help="A whole group of the SuiteSparse collection; repeat for more.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME",
        shell_complete=completion.of("matrices.sets", lambda sets: sets.names()),
        help="A named set, such as demo or survey34; repeat for more.",
    ),
    *map(_option, CONDITIONS),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="At most N matrices: the first of the index."
    ),
)
