"""Cost estimates for groups of cases, used to schedule work, split shards and predict run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import Matrix, sets
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.timing import RULES

MIN_READINGS = 3  # minimum cost of a part of a group, in times its reading, if the host may differ
BYTES_PER_ENTRY = 20  # of a matrix file as text, approximately


@dataclass(frozen=True)
class Costs:
    """Costs in seconds. A group costs `reading` and `reading_entry` per entry; each of its cases `case` and
    `case_entry` per entry.
    """

    reading: float
    reading_entry: float
    case: float
    case_entry: float
    factors: dict[str, float] = field(default_factory=dict)  # relative costs of formats, by label

    def learn(self, label: str, entries: int, seconds: float) -> None:
        """Update the cost of a format from a measured case, exponentially weighted towards recent cases."""
        factor = seconds / (self.case + self.case_entry * entries)
        self.factors[label] = (self.factors.get(label, factor) + factor) / 2

    def of_reading(self, group: Group) -> float:
        """Seconds until the first case of a group can begin."""
        return self.reading + self.reading_entry * entries(group.matrix, group.seed)

    def of_cases(self, cases: Sequence[Case], group: Group) -> float:
        """Seconds of some of a group's cases, after the matrix was read."""
        ran = sum(self.factors.get(case.label, 1.0) for case in cases if not case.refusal)
        return ran * (self.case + self.case_entry * entries(group.matrix, group.seed))

    def of_group(self, group: Group) -> float:
        """Seconds of a group: its reading and its cases."""
        return self.of_reading(group) + self.of_cases(group.cases, group)


# GPU: 2,900 cases on 60 matrices, on an H200, without budgets, matrices prefetched on other cores. Emulated device: a
# fast core.
DEFAULTS = {"cuda": Costs(1.0, 3e-8, 0.07, 1e-9), "emulated": Costs(0.05, 2e-7, 0.05, 2e-6)}


def default_costs(settings: Settings) -> Costs:
    """Default cost model, used when there are no measurements. Identical in all processes of a job array."""
    kind = device_kind(settings.device)
    budget = settings.budget or RULES[kind].budget
    # Half of the budget, because samples often agree early.
    return replace(DEFAULTS[kind], case=DEFAULTS[kind].case + budget / 2)


@cache
def entries(matrix: Matrix, seed: int) -> int:
    """Approximate number of entries of a matrix without reading it: from the file's size, or as a set lists it."""
    if matrix.source == "synthetic" and matrix.name in sets.listed_entries():
        return sets.listed_entries()[matrix.name]  # counting can take as long as generating
    try:
        if matrix.source == "file" and matrix.path is not None:
            return matrix.path.stat().st_size // BYTES_PER_ENTRY
        return matrix.entries(seed)
    except (SpmvbenchError, OSError):  # the reader reports it
        return 0


def cut(group: Group, count: int) -> list[Group]:
    """The first `count` formats of a group and the others, if there are any of both."""
    parts = (group.formats[:count], group.formats[count:])
    return [replace(group, formats=formats) for formats in parts if formats]


def split(group: Group, costs: Costs, seconds: float, min_readings: float = MIN_READINGS) -> list[Group]:
    """The first formats of a group, as many as fit `seconds` with the reading; then the others, if any.

    The cases of both parts cost at least `min_readings` times the reading.
    """
    least = min_readings * costs.of_reading(group)
    seconds = max(seconds - costs.of_reading(group), least)
    spent, count = 0.0, 0
    for modes in group.formats:
        spent += costs.of_cases(modes, group)
        if count and spent > seconds:
            break
        count += 1
    if costs.of_cases([case for modes in group.formats[count:] for case in modes], group) < least:
        count = len(group.formats)
    return cut(group, count)


def shards(groups: Iterable[Group], count: int, costs: Costs) -> list[list[Group]]:
    """The groups in `count` shards of about equal cost, each in the order given.

    Largest first, each to the shard with the lowest cost so far; a group above the mean cost of a shard is split.
    """
    groups = list(groups)
    fair = sum(map(costs.of_group, groups)) / count
    pieces: list[tuple[int, Group]] = []
    for place, group in enumerate(groups):
        rest = [group]
        while rest:
            piece, *rest = split(rest[0], costs, fair)
            pieces.append((place, piece))
    loads = [0.0] * count
    found: list[list[tuple[int, Group]]] = [[] for _ in range(count)]
    for place, piece in sorted(pieces, key=lambda item: -costs.of_group(item[1])):
        least = loads.index(min(loads))
        loads[least] += costs.of_group(piece)
        found[least].append((place, piece))
    return [[piece for _, piece in sorted(part, key=lambda item: item[0])] for part in found]
