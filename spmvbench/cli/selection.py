"""Selection of matrices: the argument and the options that `fetch` and `run` share."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from spmvbench.errors import SpmvbenchError

if TYPE_CHECKING:
    from spmvbench.matrices import Matrix
    from spmvbench.matrices.suitesparse import Entry

# Entries that groups, sets, globs and conditions fetch unasked: about a gigabyte of archives.
UNASKED_ENTRIES = 200_000_000


@dataclass(frozen=True)
class Selection:
    """Values of these options. conditions: kind, min_nnz, max_nnz, spd; None if not given."""

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
    from spmvbench.matrices import suitesparse

    return [entry.id for entry in suitesparse.index(network=False) if entry.id.startswith(incomplete)]


def _complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from spmvbench.matrices import suitesparse

    return sorted({entry.group for entry in suitesparse.index(network=False) if entry.group.startswith(incomplete)})


def _complete_sets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from spmvbench.matrices import sets

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
        help="A whole group of the SuiteSparse collection; repeat for more.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME",
        shell_complete=_complete_sets,
        help="A named set, such as demo or survey34; repeat for more.",
    ),
    click.option("--kind", metavar="TEXT", help="Only matrices whose kind contains TEXT, such as 'circuit'."),
    click.option("--min-nnz", type=_COUNT, metavar="N", help="Only matrices with at least N entries."),
    click.option("--max-nnz", type=_COUNT, metavar="N", help="Only matrices with at most N entries."),
    click.option("--spd/--no-spd", default=None, help="Only symmetric positive definite matrices, or only others."),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="At most N matrices: the first of the index."
    ),
)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that gives a command the shared argument and options as one parameter `chosen`, a Selection."""

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


def found_matrices(chosen: Selection, seed: int = 0, *, dry_run: bool = False, unasked: bool = False) -> list[Matrix]:
    """The matrices of a selection; missing ones of the collection are fetched.

    Named matrices are always fetched. Those of groups, sets, globs and conditions are fetched if they hold at most
    UNASKED_ENTRIES; otherwise a line says how to fetch them. dry_run: fetch nothing and count those to be fetched as
    found. unasked: no limit on the entries. Raises UsageError and SpmvbenchError.
    """
    from spmvbench.matrices import resolve

    matrices = chosen.matrices
    resolve = functools.partial(
        resolve,
        matrices,
        groups=chosen.groups,
        sets=chosen.sets,
        limit=chosen.limit,
        seed=seed,
        **chosen.conditions,
    )
    found, missing = resolve()
    if missing:
        named = [name for name in missing if name in matrices or name.partition("/")[2] in matrices]
        expected = _fetched(missing, named, dry_run=dry_run, most=math.inf if unasked else UNASKED_ENTRIES)
        found, missing = (found + expected, missing) if dry_run else resolve()
        missing = sorted(set(missing) - {matrix.id for matrix in found})
    fetch = shlex.join(["spmvbench", "fetch", *_words(chosen)])
    if missing and found:
        click.echo(f"Left out because not cached: {len(missing)} matrices; to fetch them: {fetch}", err=True)
    elif missing:
        raise SpmvbenchError(f"none of the {len(missing)} matrices is cached; to fetch them: {fetch}")
    elif not found:
        raise SpmvbenchError("no matrix meets the conditions: relax --kind, --min-nnz, --max-nnz or --spd")
    return found


def _fetched(missing: list[str], named: list[str], *, dry_run: bool, most: float) -> list[Matrix]:
    """Fetch matrices into the cache; those not named may fail. Returns, for a dry run, those to be fetched."""
    from spmvbench.matrices import Matrix, suitesparse
    from spmvbench.matrices.download import Unreachable

    try:
        entries = suitesparse.search(missing)
        if sum(entry.stored or 0 for entry in entries if entry.id not in named) > most:
            entries = [entry for entry in entries if entry.id in named]
        if not entries:
            return []
        click.echo(f"{'To be fetched first' if dry_run else 'Fetching'}: {_few(entries)}", err=True)
        if dry_run:
            places = [suitesparse.location(entry.group, entry.name) for entry in entries]
            return [
                Matrix(entry.group, entry.name, entry.kind, "suitesparse", place, entry.stored)
                for entry, place in zip(entries, places, strict=True)
            ]
        outcome = suitesparse.fetch(entries)
    except Unreachable as error:
        if named:
            raise
        click.echo(f"Nothing fetched: {error}", err=True)
        return []
    failed = dict(outcome.failed) | dict.fromkeys(outcome.missing, "not found at the source")
    by_reason: dict[str, list[Entry]] = {}
    for entry, reason in failed.items():
        if entry.id in named:
            by_reason.setdefault(reason, []).append(entry)
    if by_reason:
        raise SpmvbenchError("; ".join(f"{_few(entries)}: {reason}" for reason, entries in by_reason.items()))
    if failed:
        first, reason = next(iter(failed.items()))
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        click.echo(f"Not fetched: {first.id}: {reason}{more}", err=True)
    return []


def _few(entries: Sequence[Entry]) -> str:
    """The first three, and the number of the others."""
    return ", ".join(entry.id for entry in entries[:3]) + (f" and {len(entries) - 3} more" * (len(entries) > 3))


def _words(chosen: Selection) -> list[str]:
    """The selection as it is typed, without matrices that are not of the collection."""
    from spmvbench.matrices.sources import is_own

    words = [name for name in chosen.matrices if not is_own(name)]
    words += [word for group in chosen.groups for word in ("--group", group)]
    words += [word for name in chosen.sets for word in ("--set", name)]
    for name, value in chosen.conditions.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-"))
        elif value is not None:
            words += [option, str(value)]
    return words + (["--limit", str(chosen.limit)] if chosen.limit else [])
