"""Which matrices: the argument and the options that `fetch` and `run` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from spmvbench.errors import SpmvbenchError

if TYPE_CHECKING:
    from spmvbench.collection import Matrix


@dataclass(frozen=True)
class Selection:
    """What the person at the terminal chose. conditions: kind, min_nnz, max_nnz, spd; None where not given."""

    matrices: tuple[str, ...]
    groups: tuple[str, ...]
    sets: tuple[str, ...]
    conditions: dict[str, Any]
    limit: int | None

    def __bool__(self) -> bool:
        """Whether anything was chosen; a limit alone chooses nothing."""
        named = self.matrices or self.groups or self.sets
        return bool(named) or any(value is not None for value in self.conditions.values())


def _complete_matrices(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from spmvbench.collection import suitesparse

    return [entry.id for entry in suitesparse.index(network=False) if entry.id.startswith(incomplete)]


def _complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from spmvbench.collection import suitesparse

    return sorted({entry.group for entry in suitesparse.index(network=False) if entry.group.startswith(incomplete)})


def _complete_sets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from spmvbench.collection import sets

    return [name for name in sets.names() if name.startswith(incomplete)]


_COUNT = click.IntRange(min=0)
_PARAMETERS = (
    click.argument("matrices", nargs=-1, metavar="[MATRIX]...", shell_complete=_complete_matrices),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME",
        shell_complete=_complete_groups,
        help="A whole group; repeat for more.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME",
        shell_complete=_complete_sets,
        help="A named set; repeat for more.",
    ),
    click.option("--kind", metavar="TEXT", help="Only matrices whose kind contains TEXT, such as 'circuit'."),
    click.option("--min-nnz", type=_COUNT, metavar="N", help="Only matrices with at least N entries."),
    click.option("--max-nnz", type=_COUNT, metavar="N", help="Only matrices with at most N entries."),
    click.option("--spd/--no-spd", default=None, help="Only symmetric positive definite matrices, or only others."),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="At most N matrices, the first of the index."
    ),
)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the shared argument and options; it takes them as one Selection named `chosen`."""

    @functools.wraps(command)
    def gathered(
        *args: Any,
        matrices: tuple[str, ...],
        groups: tuple[str, ...],
        sets: tuple[str, ...],
        limit: int | None,
        kind: str | None,
        min_nnz: int | None,
        max_nnz: int | None,
        spd: bool | None,
        **options: Any,
    ) -> Any:
        conditions = {"kind": kind, "min_nnz": min_nnz, "max_nnz": max_nnz, "spd": spd}
        return command(*args, chosen=Selection(matrices, groups, sets, conditions, limit), **options)

    for parameter in reversed(_PARAMETERS):
        gathered = parameter(gathered)
    return gathered


def found_matrices(chosen: Selection) -> list[Matrix]:
    """The matrices of a selection; those named one by one are fetched where they are not cached."""
    from spmvbench import collection

    matrices, groups, sets = chosen.matrices, chosen.groups, chosen.sets
    resolve = functools.partial(
        collection.resolve, matrices, groups=groups, sets=sets, limit=chosen.limit, **chosen.conditions
    )
    found, missing = resolve()
    named = [matrix for matrix in missing if matrix in matrices or matrix.partition("/")[2] in matrices]
    if named:
        from spmvbench.collection import suitesparse

        click.echo(f"Fetching {', '.join(named)}", err=True)
        outcome = suitesparse.fetch(suitesparse.search(named))
        reasons = [f"{entry.id}: {reason}" for entry, reason in outcome.failed]
        reasons += [f"{entry.id} is not where matrices are fetched from" for entry in outcome.missing]
        if reasons:
            raise SpmvbenchError("; ".join(reasons))
        found, missing = resolve()
    fetch = " ".join(["spmvbench fetch", *matrices, *(f"--group {g}" for g in groups), *(f"--set {s}" for s in sets)])
    if missing and found:
        click.echo(f"Left out, being not cached: {len(missing)} matrices; to fetch them: {fetch}", err=True)
    elif missing:
        raise SpmvbenchError(f"none of the {len(missing)} matrices is cached; to fetch them: {fetch}")
    elif not found:
        raise SpmvbenchError("the selection holds no matrix: loosen --kind, --min-nnz, --max-nnz or --spd")
    return found
