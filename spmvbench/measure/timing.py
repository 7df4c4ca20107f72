"""Timing: samples of one SpMV, hot and cold, and the rule when to stop. It knows a Program and a Device, and no format.

Hot: a sample is one replay of `repeats` complete SpMVs without launch latency between them, divided by `repeats`. L2
holds what these SpMVs leave there, and nothing of other work.

Cold: a sample is one SpMV after the L2 cache was flushed.

Samples are taken until the 95 % confidence interval of their median is within 0.5 % of it to either side, or the time
of the round is used up. The interval comes from order statistics and holds for any distribution of the samples (Hoefler
& Belli 2015, section 3.1.3; NVBench uses the same 0.5 %). Samples taken while the GPU throttles are discarded and
counted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from time import monotonic, perf_counter, sleep  # bound before a format can replace it
from typing import Any, NamedTuple

import numpy as np

from spmvbench.devices.base import Device, Program, Throttling

MODES = ("hot", "cold")
MAX_REPEATS = 4000
REST = 20.0  # seconds in which a GPU cools down


@dataclass(frozen=True)
class Rule:
    """How long to sample. Times in seconds.

    rounds: number of rounds of a case. budget: wall time of one case over all rounds. sample: minimum length of one hot
    sample. min_samples: minimum number per round. spread: target of half the width of the median's confidence interval
    over the median. clock_check: interval between checks of the device's clocks. verified_runs: maximum number of runs
    that are verified one by one before timing, and the maximum share of the budget for them.
    """

    rounds: int
    budget: float
    sample: float
    min_samples: int
    spread: float = 0.005
    clock_check: float = 0.0
    verified_runs: tuple[int, float] = (60, 0.06)

    def short(self, **changes: Any) -> Rule:
        """The rule of a series beside a case's own: one round, in a tenth of the budget."""
        return replace(self, rounds=1, budget=self.budget / 10, **changes)


RULES = {
    "cuda": Rule(
        rounds=3, budget=0.5, sample=1e-3, min_samples=10, clock_check=0.02
    ),  # reading the clocks takes about 1 ms
    "emulated": Rule(rounds=1, budget=0.05, sample=0.0, min_samples=3, verified_runs=(60, 0.5)),
}


FIRST_RULES = {"aa338f13", "11b54f0c"}  # hashes of the rules of rows without one


def facts(rule: Rule) -> dict[str, Any]:
    """The rule as metadata of an invocation has it, and as its hash covers it: without the budget, an option of its
    own.
    """
    found = asdict(rule)
    del found["budget"]
    return found


def rule_hash(kind: str) -> str:
    """Hash (8 hex digits) of the rule of a kind of device; empty for those of rows that have none."""
    return _hash(RULES[kind])


@cache
def _hash(rule: Rule) -> str:
    found = hashlib.sha256(json.dumps(facts(rule), sort_keys=True).encode()).hexdigest()[:8]
    return "" if found in FIRST_RULES else found


@dataclass
class Series:
    """Samples of one case in one mode, and the work of the next sample.

    seconds: per SpMV, in order. throttled: number of discarded samples. sm_clock_mhz: after the last sample.
    """

    work: Callable[[], None]
    repeats: int
    flush: bool
    seconds: list[float] = field(default_factory=list)
    throttled: int = 0
    sm_clock_mhz: float = math.nan


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `work`, and its wall time in seconds."""
    began = perf_counter()
    result = work()
    return result, perf_counter() - began


@cache
def _median_rank(n: int) -> int:
    """The largest k such that the k-th smallest and k-th largest of n samples enclose the median with 95 % confidence.

    0 if n is too small (n < 6). At most k - 1 successes in n fair coin tosses have a probability of at most 2.5 %.
    """
    if n > 200:  # the normal approximation holds
        return math.floor((n - 1.96 * math.sqrt(n)) / 2)
    sums = itertools.accumulate(math.comb(n, successes) for successes in range(n))
    return sum(40 * of <= 2**n for of in sums)


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The 95 % confidence interval of the median: its low end, the median, its high end.

    If there are too few samples for an interval, it is their range; with fewer than two it is unbounded.
    """
    ordered = np.sort(samples)
    if len(ordered) < 2:
        return 0.0, math.nan, math.inf
    k = max(_median_rank(len(ordered)), 1)
    half = len(ordered) // 2  # np.median takes 20 us, and a comparison asks it a million times
    return float(ordered[k - 1]), float(ordered[half] + ordered[~half]) / 2, float(ordered[-k])


def relative_spread(samples: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, over the median; infinite if there is none."""
    low, middle, high = median_interval(samples)
    return (high - low) / 2 / middle if middle > 0 else math.inf


def repeats_for(seconds: float, sample: float) -> int:
    """Number of SpMVs in one hot sample of at least `sample` seconds, from the time of one SpMV; at least 1."""
    return min(max(math.ceil(sample / seconds), 1), MAX_REPEATS) if seconds > 0 else MAX_REPEATS if sample > 0 else 1


def prepare(program: Program, device: Device, mode: str, rule: Rule) -> Series:
    """Choose the number of repeats and capture the work; nothing is sampled yet."""
    once = device.capture(program, 1)
    if mode == "cold" or rule.sample == 0:
        return Series(once, repeats=1, flush=mode == "cold")
    device.elapsed(once)
    repeats = repeats_for(device.elapsed(once), rule.sample)
    return Series(device.capture(program, repeats) if repeats > 1 else once, repeats, flush=False)


def take_round(
    series: Series, device: Device, rule: Rule, clock: Callable[[], float] = perf_counter, *, in_use: bool = False
) -> None:
    """Add one round of samples to the series, after one uncounted sample that warms up caches and clocks.

    The warm-up begins with an empty L2, or, in_use, with one that is full of other work's lines. These survive many
    SpMVs whose loads are marked as read once, and change the time of matrices about as large as L2 (docs/measuring.md).
    """
    deadline = clock() + rule.budget / rule.rounds
    if rule.sample > 0:
        if not series.flush:
            device.fill_cache() if in_use else device.empty_cache()
        device.elapsed(series.work, flush=series.flush)
    taken: list[float] = []
    before = device.throttled()
    while True:
        batch: list[float] = []
        next_check = min(clock() + rule.clock_check, deadline)
        while not batch or clock() < next_check:
            batch.append(device.elapsed(series.work, flush=series.flush) / series.repeats)
        after = device.throttled()
        if before or after:
            series.throttled += len(batch)
        else:
            taken += batch
        before = after
        if clock() >= deadline or (len(taken) >= rule.min_samples and relative_spread(taken) <= rule.spread):
            break
    series.seconds += taken
    series.sm_clock_mhz = device.sm_clock_mhz()


def rest(device: Device, clock: Callable[[], float] = monotonic, sleep: Callable[[float], None] = sleep) -> None:
    """Give the device no work until it does not throttle. Raises Throttling if it does so for REST seconds."""
    until = clock() + REST
    while reason := device.throttle_reason():
        if clock() >= until:
            raise Throttling(f"{reason}, after {REST:g} s without work")
        sleep(0.1)


class Quartiles(NamedTuple):
    """Quartiles of the samples, seconds; NaN if every sample was discarded."""

    q1: float
    median: float
    q3: float


def quartiles(series: Series) -> Quartiles:
    """Quartiles of a series, as of np.percentile, which takes ten times as long for few samples."""
    samples = series.seconds
    if len(samples) < 2:
        return Quartiles(*(samples or [math.nan]) * 3)
    return Quartiles(*statistics.quantiles(samples, method="inclusive"))
