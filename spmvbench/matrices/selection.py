"""A selection of matrices, and the matrices that it means; missing ones of the collection are fetched."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spmvbench.errors import SpmvbenchError, UsageError, counted
from spmvbench.matrices import sets, suitesparse
from spmvbench.matrices.conditions import ANY, Conditions, option
from spmvbench.matrices.download import Unreachable
from spmvbench.matrices.lookup import Matrix, is_own, resolve
from spmvbench.matrices.suitesparse import Entry

# Entries that groups, sets, globs and conditions fetch unasked: about a gigabyte of archives.
UNASKED_ENTRIES = 200_000_000

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Selection:
    """Matrices by name, groups, sets and conditions, as `resolve` takes them. Raises UsageError for a wrong limit.

    every: the whole collection, or the groups and conditions of it.
    """

    matrices: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    conditions: Conditions = ANY
    limit: int | None = None
    every: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and (not hasattr(self.limit, "__index__") or self.limit < 1):
            raise UsageError(f"limit takes an integer from 1 on, not {self.limit!r}")
        if self.every and (self.matrices or self.sets):
            raise UsageError(
                "--all is the whole collection, or a --group or conditions of it: name no matrix and no set"
            )

    def __bool__(self) -> bool:
        """Whether anything was chosen; a limit alone chooses nothing."""
        return bool(self.every or self.matrices or self.groups or self.sets or self.conditions)

    def or_cached(self, notify: Notify) -> Selection:
        """The selection, or without one all matrices in the cache, with a notice; empty if there are none."""
        if self:
            return self
        names = [f"{group}/{name}" for group, name in suitesparse.cached_names()]
        if names:
            notify(f"No matrix is named: the {len(names)} in the cache are selected")
        return replace(self, matrices=tuple(names))

    def words(self) -> list[str]:
        """The selection as it is typed, without matrices that are not of the collection."""
        found = [name for name in self.matrices if not is_own(name)]
        found += [word for group in self.groups for word in ("--group", group)]
        found += [word for name in self.sets for word in ("--set", name)]
        return [*found, *self.conditions.words(), *(["--limit", str(self.limit)] if self.limit else [])]

    def find(
        self, seed: int = 0, notify: Notify = lambda line: None, *, dry_run: bool = False, unasked: bool = False
    ) -> list[Matrix]:
        """The matrices; missing ones of the collection are fetched.

        Named matrices are always fetched. Those of groups, sets, globs and conditions are fetched if they hold at most
        UNASKED_ENTRIES; otherwise a notice says how to fetch them. seed: of generated matrices. dry_run: fetch nothing
        and count those to be fetched as found. unasked: no limit on the entries. Raises UsageError and SpmvbenchError.
        """
        resolved = partial(
            resolve, self.matrices, groups=self.groups, sets=self.sets, conditions=self.conditions, limit=self.limit,
            seed=seed,
        )  # fmt: skip
        found, missing = resolved()
        for of in map(sets.get, filter(sets.names().__contains__, self.sets)):
            if gone := sorted(set(of.files) - set(of.at_hand())):
                notify(
                    f"Left out because not in the folder of {sets.FILES}: {len(gone)} of {of.name}, such as {gone[0]}"
                )
        if missing:
            named = [name for name in missing if name in self.matrices or name.partition("/")[2] in self.matrices]
            most = math.inf if unasked else UNASKED_ENTRIES
            expected = _fetched(missing, named, notify, dry_run=dry_run, most=most)
            found, missing = (found + expected, missing) if dry_run else resolved()
            missing = sorted(set(missing) - {matrix.id for matrix in found})
        fetch = shlex.join(["spmvbench", "fetch", *self.words()])
        if missing and found:
            notify(f"Left out because not cached: {counted(len(missing), 'matrix')}; to fetch them: {fetch}")
        elif missing:
            raise SpmvbenchError(f"none of the {len(missing)} matrices is cached; to fetch them: {fetch}")
        elif not found:
            options = [f"--{option(name)}" for name, _ in self.conditions.given()]
            raise SpmvbenchError(f"no matrix meets the conditions: relax {' or '.join(options)}")
        return found


def _fetched(missing: list[str], named: list[str], notify: Notify, *, dry_run: bool, most: float) -> list[Matrix]:
    """Fetch matrices into the cache; those not named may fail. Returns, for a dry run, those to be fetched."""
    try:
        entries = suitesparse.search(missing)
        if sum(entry.stored or 0 for entry in entries if entry.id not in named) > most:
            entries = [entry for entry in entries if entry.id in named]
        if not entries:
            return []
        notify(f"{'To be fetched first' if dry_run else 'Fetching'}: {_few(entries)}")
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
        notify(f"Nothing fetched: {error}")
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
        notify(f"Not fetched: {first.id}: {reason}{more}")
    return []


def _few(entries: Sequence[Entry]) -> str:
    """The first three, and the number of the others."""
    return ", ".join(entry.id for entry in entries[:3]) + (f" and {len(entries) - 3} more" * (len(entries) > 3))
