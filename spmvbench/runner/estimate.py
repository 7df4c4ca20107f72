"""Run time estimate from rows of a sample of its matrices: a fitted line, with a confidence interval.

The mean time of a case on a matrix is modelled as constant + slope * entries, fitted to relative deviations over the
matrices of the sample. The overhead of an invocation (reading, references, starts) is a share of the time in cases.

The error comes from the bootstrap: the sample's matrices are resampled with replacement, and each matrix of the run
deviates from the line by the residual of a random one. The standard deviation of the logarithm, with Student's t, gives
a 95 % interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spmvbench.matrices import Matrix
from spmvbench.matrices.suitesparse import Entry
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.timing import RULES
from spmvbench.rows import store
from spmvbench.runner.costs import Costs, entries, shards

if TYPE_CHECKING:
    import pandas as pd

M = TypeVar("M", Matrix, Entry)

MIN_MATRICES = 3  # minimum for a line and its error
DRAWS = 400
STEPS = 4  # of the fit
NOT_OVERHEAD = ("precompiling", "compiling ahead")  # of an invocation: once per host, for any size of the run


@dataclass(frozen=True)
class Sample:
    """Mean seconds of a case by matrix. overhead: as a share of the time in cases. labels: formats in the sample."""

    entries: np.ndarray
    seconds: np.ndarray
    cases: int
    overhead: float
    labels: frozenset[str]

    @classmethod
    def of(cls, runs: Sequence[Path], cases: Sequence[Case], settings: Settings) -> Sample | None:
        """A sample from the rows of runs, for formats, types and modes as in `cases`, as if sampled with the budget of
        the settings. None if there are too few matrices.
        """
        if not runs:
            return None
        rows = store.load_all(runs)
        rows = rows[(rows["matrix_sha256"] != "") & (rows["t_case"] > 0)]
        for name in ("label", "dtype", "mode"):
            rows = rows[rows[name].isin({getattr(case, name) for case in cases})]
        if rows["matrix_sha256"].nunique() < MIN_MATRICES:
            return None
        rows["t_case"] = _with_budget(rows, settings)
        # A slow format that only some matrices have must not make those look slow.
        usual = rows.groupby("label")["t_case"].transform("mean")
        by_matrix = rows.assign(usual=usual).groupby("matrix_sha256")
        relative = by_matrix["t_case"].sum() / by_matrix["usual"].sum()
        labels = frozenset(rows["label"])
        mean = rows.groupby("label")["t_case"].mean().mean()
        seconds = (relative * mean).to_numpy()
        return cls(by_matrix["nnz"].first().to_numpy(float), seconds, len(rows), _overhead(runs), labels)

    def resampled(self, rng: np.random.Generator) -> Sample:
        """A bootstrap sample: as many matrices, drawn with replacement."""
        places = rng.integers(len(self.seconds), size=len(self.seconds))
        return Sample(self.entries[places], self.seconds[places], self.cases, self.overhead, self.labels)

    def costs(self) -> Costs:
        """The line, with the overhead included."""
        constant, slope = self.line * (1 + self.overhead)
        return Costs(0.0, 0.0, float(constant), float(slope))

    @cached_property
    def line(self) -> np.ndarray:
        """Constant and slope, neither negative. Deviations are relative to the line: relative to the times, they would
        bias it downwards.
        """
        from scipy.optimize import nnls

        terms = np.stack([np.ones_like(self.entries), self.entries], axis=1)
        weights = 1 / self.seconds
        for _ in range(STEPS):
            line = nnls(terms * weights[:, None], self.seconds * weights)[0]
            weights = 1 / (terms @ line)
        return np.asarray(line)

    @property
    def residuals(self) -> np.ndarray:
        """Times divided by the line."""
        return np.asarray(self.seconds / (self.line[0] + self.line[1] * self.entries))


def _with_budget(rows: pd.DataFrame, settings: Settings) -> pd.Series:
    """Seconds of cases had they been sampled with the budget of the settings. Samples that agree early end at the first
    check of the clocks. A row with more seconds of samples than of its case has the samples of another one.
    """
    rule = RULES[device_kind(settings.device)]
    sampled = rows["repeats"] * rows["samples"].map(np.sum, na_action="ignore").astype(float)
    expected = sampled.clip(lower=rule.rounds * rule.clock_check).clip(upper=settings.budget or rule.budget)
    own = (rows["mode"] == "hot") & sampled.between(0, rows["t_case"], inclusive="neither")
    return rows["t_case"] + (expected - sampled).where(own, 0.0)


def _overhead(runs: Sequence[Path]) -> float:
    """Time of the invocations of some runs outside of their cases, as a share of the time in cases."""
    spent = in_cases = 0.0
    for run in runs:
        sessions = store.environment(run)["sessions"]
        seconds: list[dict[str, float]] = [session.get("seconds") or {} for session in sessions]
        spent += sum(sum(s for stage, s in stages.items() if stage not in NOT_OVERHEAD) for stages in seconds)
        in_cases += float(store.load(run)["t_case"].sum())
    return max(spent / in_cases - 1, 0.0) if in_cases else 0.0


@dataclass(frozen=True)
class Estimate:
    """Seconds on one GPU and on many, each with its 95 % interval. longest: the longest shard over the mean."""

    one: tuple[float, float, float]
    many: tuple[float, float, float]
    longest: float


def estimate(sample: Sample, groups: Sequence[Group], gpus: int, seed: int = 0) -> Estimate:
    """Estimate how long the groups take on `gpus` GPUs, each with its shard."""
    runs = np.array([sum(not case.refusal for case in group.cases) for group in groups], float)
    sizes = np.array([entries(group.matrix, group.seed) for group in groups], float)
    one = interval(sample, runs, sizes, seed)
    costs, whole = sample.costs(), one[0]
    loads = [sum(map(costs.of_group, part)) for part in shards(groups, gpus, costs)]
    longest = max(loads) / (whole / gpus) if whole else 1.0
    return Estimate(one, tuple(seconds * longest / gpus for seconds in one), longest)  # type: ignore[arg-type]


def interval(sample: Sample, runs: np.ndarray, sizes: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """Seconds of `runs` cases on each matrix of `sizes` entries, with a 95 % interval."""
    from scipy.stats import t

    rng = np.random.default_rng(seed)

    def total(of: Sample, residuals: np.ndarray) -> float:
        costs = of.costs()
        return float(runs @ ((costs.case + costs.case_entry * sizes) * rng.choice(residuals, len(sizes))))

    whole = total(sample, np.ones(1))
    drawn = [total(sample.resampled(rng), sample.residuals) for _ in range(DRAWS)]
    free = len(sample.seconds) - 2
    width = math.exp(t.ppf(0.975, free) * np.std(np.log(drawn)) * math.sqrt(1 + 2 / free))
    return whole, whole / width, whole * width


def stratified(matrices: Sequence[M], count: int, seed: int, rank: Callable[[M], Any]) -> list[M]:
    """`count` of the matrices, one at random from each of as many classes of neighbours in a ranking."""
    ranked = sorted(matrices, key=rank)
    rng, count = np.random.default_rng(seed), min(count, len(ranked))
    ends = [math.floor(part * len(ranked) / count) for part in range(count + 1)]
    chosen = {ranked[int(rng.integers(low, high))].id for low, high in itertools.pairwise(ends)}
    return [matrix for matrix in matrices if matrix.id in chosen]


def duration(seconds: float) -> str:
    """A length of time with about two digits: 40 s, 12 min, 5.3 h, 3.1 days."""
    for size, unit in ((86400 * 2, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            value: Any = seconds / (86400 if unit == "days" else size)
            return f"{value:.{1 if value < 10 else 0}f} {unit}"
    return f"{seconds:.0f} s"
