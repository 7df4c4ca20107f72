"""Which worker measures what next: the largest groups first, pieces of what is left at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from spmvbench.bench.costs import Costs, cut, halves
from spmvbench.bench.plan import Group

WORTH = 1  # times its reading that a piece costs at least: the matrix is at hand on the host
LOSSES = 3  # workers that a case may lose while nothing else was in flight, before it is charged


def subject(group: Group) -> Any:
    """What a worker has at hand once it has read a group."""
    return group.matrix, group.seed, group.dtype


class Deal:
    """Groups that nobody has, and what became of the cases whose worker was lost.

    A case that was in flight with others twice when their worker was lost goes on in halves, so that one that takes
    its worker down (not its measuring process, which is replaced) is found and all others are measured.
    """

    def __init__(self, groups: Iterable[Group], costs: Costs):
        self.costs = costs
        self.left = sorted(groups, key=costs.of_group, reverse=True)
        self.begun: set[Any] = set()
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
        fair = sum(map(self.costs.of_group, [group, *self.left])) / workers  # so that all end at about the same time
        taken, *rest = cut(group, self.costs, fair, WORTH)
        self.left += rest
        self.left.sort(key=self.costs.of_group, reverse=True)
        return taken

    def _choose(self, had: Any) -> Group:
        """What the worker has at hand, else its matrix in another type, else what nobody has begun, else any."""
        ranked = (
            lambda group: subject(group) == had,
            lambda group: had is not None and subject(group)[:2] == had[:2],
            lambda group: subject(group) not in self.begun,
            lambda group: True,
        )
        return next(group for suits in ranked for group in self.left if suits(group))

    def following(self, hinted: set[Any]) -> Group | None:
        """What nobody has begun nor heard of yet: worth reading ahead."""
        return next((g for g in self.left if subject(g) not in self.begun and subject(g)[:2] not in hinted), None)

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
