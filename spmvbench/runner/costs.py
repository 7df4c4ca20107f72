"""What groups of cases cost, roughly, before they are measured: to deal them out, to cut shards, to foretell a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import Matrix, sets
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.timing import RULES

WORTH = 3  # times its reading that a piece of a group costs at least, where the host may be another
BYTES_PER_ENTRY = 20  # of a matrix file as text, about


@dataclass(frozen=True)
class Costs:
    """Seconds. A group: reading + per entry; each of its cases: case + per entry."""

    reading: float
    reading_entry: float
    case: float
    case_entry: float
    factors: dict[str, float] = field(default_factory=dict)  # of formats that cost more or less, by label

    def learn(self, label: str, entries: int, seconds: float) -> None:
        """What a case of a format has cost; of several, the later ones count more."""
        factor = seconds / (self.case + self.case_entry * entries)
        self.factors[label] = (self.factors.get(label, factor) + factor) / 2

    def of_reading(self, group: Group) -> float:
        """Until the first case of a group can begin."""
        return self.reading + self.reading_entry * entries(group.matrix, group.seed)

    def of_cases(self, cases: Sequence[Case], group: Group) -> float:
        """Some of a group's cases, once the matrix is there."""
        ran = sum(self.factors.get(case.label, 1.0) for case in cases if not case.refusal)
        return ran * (self.case + self.case_entry * entries(group.matrix, group.seed))

    def of_group(self, group: Group) -> float:
        """Seconds of a group: its reading and its cases."""
        return self.of_reading(group) + self.of_cases(group.cases, group)


# A GPU's: 2,900 cases of results/published/h200-all and h200-suitesparse, budgets taken off, matrices read ahead by
# other cores. The emulated device's: a fast core.
PRIOR = {"cuda": Costs(1.0, 3e-8, 0.07, 1e-9), "emulated": Costs(0.05, 2e-7, 0.05, 2e-6)}


def prior(settings: Settings) -> Costs:
    """What is assumed where nothing was measured yet: the same in every process of a job array."""
    kind = device_kind(settings.device)
    budget = settings.budget or RULES[kind].budget
    return replace(PRIOR[kind], case=PRIOR[kind].case + budget / 2)  # half of it, where samples agree early


@cache
def entries(matrix: Matrix, seed: int) -> int:
    """Entries of a matrix without reading it, about: a file's by its size, one that a set lists by that."""
    if matrix.source == "synthetic" and matrix.name in sets.listed_entries():
        return sets.listed_entries()[matrix.name]  # to count them would take as long as making some of them
    try:
        if matrix.source == "file":
            return matrix.path.stat().st_size // BYTES_PER_ENTRY
        return matrix.entries(seed)
    except (SpmvbenchError, OSError):  # whoever reads it says so
        return 0


def halves(group: Group) -> list[Group]:
    """A group in two, by its formats; in one where it has only one."""
    middle = len(group.formats) // 2
    parts = (group.formats[:middle], group.formats[middle:])
    return [replace(group, formats=formats) for formats in parts if formats]


def cut(group: Group, costs: Costs, seconds: float, worth: float = WORTH) -> list[Group]:
    """A group's first formats, as many as fit the time with its reading, and the others, if there are.

    Both are worth a reading: their cases cost at least `worth` times as much.
    """
    least = worth * costs.of_reading(group)
    seconds = max(seconds - costs.of_reading(group), least)
    spent, count = 0.0, 0
    for modes in group.formats:
        spent += costs.of_cases(modes, group)
        if count and spent > seconds:
            break
        count += 1
    if costs.of_cases([case for modes in group.formats[count:] for case in modes], group) < least:
        count = len(group.formats)
    parts = (group.formats[:count], group.formats[count:])
    return [replace(group, formats=formats) for formats in parts if formats]


def shards(groups: Iterable[Group], count: int, costs: Costs) -> list[list[Group]]:
    """The groups in so many parts of about equal cost, each in the order given.

    The largest first, each to the part that has least so far; a group that is more than a part's fair share is cut
    into pieces of about that.
    """
    groups = list(groups)
    fair = sum(map(costs.of_group, groups)) / count
    pieces: list[tuple[int, Group]] = []
    for place, group in enumerate(groups):
        rest = [group]
        while rest:
            piece, *rest = cut(rest[0], costs, fair)
            pieces.append((place, piece))
    loads, found = [0.0] * count, [[] for _ in range(count)]
    for place, piece in sorted(pieces, key=lambda item: -costs.of_group(item[1])):
        least = loads.index(min(loads))
        loads[least] += costs.of_group(piece)
        found[least].append((place, piece))
    return [[piece for _, piece in sorted(part, key=lambda item: item[0])] for part in found]
