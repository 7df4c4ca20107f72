"""Scheduler of a cluster: which worker measures which group next.

Large groups whose matrices are at hand come first; at the end, groups are split among the workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spmvbench.measure.cases import Group
from spmvbench.runner.costs import Costs, cut, split

MIN_READINGS = 0.5  # minimum cost of a part of a group, in times its reading: the host has the matrix already
PREFETCHES = 2  # matrices per worker that are prefetched at a time
MAX_LOSSES = 3  # workers that may die while they run a case alone, before it is marked `crashed`


def matrix_and_type(group: Group) -> Any:
    """What identifies the matrix that a worker has in memory after a group: the matrix, its seed and its type."""
    return *matrix_and_seed(group), group.dtype


def matrix_and_seed(group: Group) -> Any:
    """What identifies a matrix for prefetching, for groups of all types."""
    return group.matrix, group.seed


class Schedule:
    """Unassigned groups, the state of prefetching, and the losses of cases whose worker died.

    No worker waits for a large matrix while other work is left: workers begin with matrices that are quick to read, and
    the largest are prefetched meanwhile.

    If a worker dies, its cases are rescheduled; the second time in two halves. In this way a case that kills Dask
    workers (not only the measuring process, which is replaced) is isolated, and all others are measured. A case is
    marked `crashed` after MAX_LOSSES workers died while running it alone.
    """

    def __init__(self, groups: Iterable[Group], costs: Costs):
        self.costs = costs
        self.left = sorted(groups, key=costs.of_group, reverse=True)
        self.begun: set[Any] = set()
        self.known: set[Any] = set()  # matrices that are measured or were assigned for prefetching
        self.reading: set[Any] = set()  # those of them that may not be read yet
        self.losses: Counter[str] = Counter()  # by case
        self.alone: Counter[str] = Counter()  # losses while the case ran alone

    def __bool__(self) -> bool:
        return bool(self.left)

    def assign(self, workers: int, last_read: Any = None) -> Group | None:
        """The next group for one of `workers` workers. last_read: the matrix and type that it has in memory."""
        if not self.left:
            return None
        group = next(group for suitable in self._ranked(last_read) for group in suitable)
        self.left.remove(group)
        self.begun.add(matrix_and_type(group))
        self.known.add(matrix_and_seed(group))
        self.reading.discard(matrix_and_seed(group))
        taken, *rest = split(group, self.costs, self._fair_share(group, workers), MIN_READINGS)
        if rest:
            self.put_back(*rest)
        return taken

    def _fair_share(self, group: Group, workers: int) -> float:
        """Cost of all that is left, a chosen group included, for each worker: all of them end at about the same time.
        As far as it is counted: where a share exceeds the group, which is whole then, there are thousands of others.
        """
        enough = 1.01 * workers * self.costs.of_group(group)  # which sums in another order
        total = 0.0
        for each in (group, *self.left):
            total += self.costs.of_group(each)
            if total > enough:
                break
        return total / workers

    def _ranked(self, last_read: Any) -> Iterator[Iterable[Group]]:
        """In order: the matrix in the worker's memory; the same in another type; the largest prefetched one that no
        worker has begun; the quickest to read; a part of a group that another worker has begun; one that is still being
        read.
        """
        if last_read is not None:
            yield (group for group in self.left if matrix_and_type(group) == last_read)
            yield (group for group in self.left if matrix_and_seed(group) == last_read[:2])
        new, read = (
            [group for group in self.left if matrix_and_type(group) not in self.begun],
            self.known - self.reading,
        )
        yield (group for group in new if matrix_and_seed(group) in read)
        yield sorted((g for g in new if matrix_and_seed(g) not in self.known), key=self.costs.of_reading)
        yield (group for group in self.left if matrix_and_type(group) in self.begun)
        yield new

    def next_to_prefetch(self, workers: int) -> Any:
        """The largest matrix that is neither assigned nor prefetched; None if enough are being prefetched for all
        workers.
        """
        if len(self.reading) >= PREFETCHES * workers:
            return None
        found = next((matrix_and_seed(group) for group in self.left if matrix_and_seed(group) not in self.known), None)
        if found is not None:
            self.known.add(found)
            self.reading.add(found)
        return found

    def put_back(self, *groups: Group) -> None:
        """Put back what a worker has not done."""
        self.left += groups
        self.left.sort(key=self.costs.of_group, reverse=True)

    def lost(self, group: Group) -> Sequence[Any]:
        """Reschedule the group of a lost worker. Returns the cases that are to be marked `crashed` instead."""
        ids = [case.case_id for case in group.cases]
        self.losses.update(ids)
        if len(group.formats) == 1:
            self.alone.update(ids)
            if self.alone[ids[0]] >= MAX_LOSSES:
                return group.cases
        halved = max(self.losses[case_id] for case_id in ids) > 1
        for part in cut(group, len(group.formats) // 2) if halved else [group]:
            self.put_back(part)
        return []
