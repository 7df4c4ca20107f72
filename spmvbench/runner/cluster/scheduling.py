"""Which worker measures what next: the largest groups that are at hand first, pieces of what is left at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from spmvbench.measure.cases import Group
from spmvbench.runner.costs import Costs, cut, halves

WORTH = 1  # times its reading that a piece costs at least: the matrix is at hand on the host
AHEAD = 2  # matrices a worker that are read ahead at a time
LOSSES = 3  # workers that a case may lose while nothing else was in flight, before it is charged


def subject(group: Group) -> Any:
    """What a worker has at hand once it has read a group."""
    return *matrix(group), group.dtype


def matrix(group: Group) -> Any:
    """What is read ahead for a group, and for that of another type."""
    return group.matrix, group.seed


class Deal:
    """Groups that nobody has, what is read ahead, and what became of the cases whose worker was lost.

    Nobody waits for a large matrix to be read while there is something else to measure: workers begin with what is read
    soonest, the largest are read ahead meanwhile.

    A case that was in flight with others twice when their worker was lost goes on in halves, so that one that takes
    its worker down (not its measuring process, which is replaced) is found and all others are measured.
    """

    def __init__(self, groups: Iterable[Group], costs: Costs):
        self.costs = costs
        self.left = sorted(groups, key=costs.of_group, reverse=True)
        self.begun: set[Any] = set()
        self.ahead: set[Any] = set()  # matrices that somebody was told to read ahead, or measures
        self.reading: set[Any] = set()  # those of them that are not known to be there
        self.losses: Counter[str] = Counter()  # by case
        self.alone: Counter[str] = Counter()  # those of them with nothing else in flight

    def __bool__(self) -> bool:
        return bool(self.left)

    def take(self, workers: int, had: Any = None) -> Group | None:
        """The next group of one of so many workers, which has read `had` (a subject) last."""
        if not self.left:
            return None
        group = self._choose(had)
        self.left.remove(group)
        self.begun.add(subject(group))
        self.ahead.add(matrix(group))
        self.reading.discard(matrix(group))
        fair = sum(map(self.costs.of_group, [group, *self.left])) / workers  # so that all end at about the same time
        taken, *rest = cut(group, self.costs, fair, WORTH)
        self.left += rest
        self.left.sort(key=self.costs.of_group, reverse=True)
        return taken

    def _choose(self, had: Any) -> Group:
        """What the worker has read, else that in another type, else the largest that nobody has begun and was read
        ahead, else what is read soonest, else a piece of what another has begun, else what is still being read.
        """
        new = [group for group in self.left if subject(group) not in self.begun]
        ranked = (
            (group for group in self.left if subject(group) == had),
            (group for group in self.left if had is not None and matrix(group) == had[:2]),
            (group for group in new if matrix(group) in self.ahead - self.reading),
            sorted((group for group in new if matrix(group) not in self.ahead), key=self.costs.of_reading),
            (group for group in self.left if subject(group) in self.begun),
            new,
        )
        return next(group for suitable in ranked for group in suitable)

    def following(self, workers: int) -> Any:
        """A matrix for one of so many workers to read ahead: the largest that nobody has heard of. None where enough
        is being read.
        """
        if len(self.reading) >= AHEAD * workers:
            return None
        found = next((matrix(group) for group in self.left if matrix(group) not in self.ahead), None)
        if found is not None:
            self.ahead.add(found)
            self.reading.add(found)
        return found

    def back(self, group: Group) -> None:
        """Take back what a worker has not done."""
        self.left.append(group)
        self.left.sort(key=self.costs.of_group, reverse=True)

    def lost(self, group: Group) -> Sequence[Any]:
        """Take back what a lost worker had. Returns the cases that are charged with it."""
        ids = [case.case_id for case in group.cases]
        self.losses.update(ids)
        if len(group.formats) == 1:
            self.alone.update(ids)
            if self.alone[ids[0]] >= LOSSES:
                return group.cases
        again = max(self.losses[case_id] for case_id in ids) > 1
        for part in halves(group) if again else [group]:
            self.back(part)
        return []
