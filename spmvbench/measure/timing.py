"""The timing core: how long one SpMV takes, hot and cold. It knows a Program and a Device, and no format.

Hot: a sample is one replay of `repeats` complete SpMVs with no launch latency between them, divided by `repeats`; L2
holds what these SpMVs keep there and nothing of other work.
Cold: a sample is one SpMV after the L2 cache was flushed. Samples are taken until the 95 % confidence interval of
their median is within 0.5 % of it to either side, or the round's time is spent. The interval comes from order
statistics, so it holds for any distribution of the samples (Hoefler & Belli 2015, section 3.1.3; the 0.5 % is that of
NVBench). A sample during which the device lowered its clocks is thrown away and counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from spmvbench.devices.base import Device, Program

MODES = ("hot", "cold")
MAX_REPEATS = 4000


@dataclass(frozen=True)
class Rule:
    """How long to sample. Times in seconds.

    rounds: how often a case takes its turn. budget: wall time of one case over all rounds. sample: what one hot sample
    lasts at least. min_samples: what a round needs before its spread is believed. spread: the goal, half the width of
    the median's confidence interval over the median. look: between looks at the device's clocks. judged: how many
    runs are judged one by one before any is timed, in at most which share of the budget.
    """

    rounds: int
    budget: float
    sample: float
    min_samples: int
    spread: float = 0.005
    look: float = 0.0
    judged: tuple[int, float] = (60, 0.06)


RULES = {
    "cuda": Rule(rounds=3, budget=0.5, sample=1e-3, min_samples=10, look=0.02),  # a look takes about 1 ms
    "emulated": Rule(rounds=1, budget=0.05, sample=0.0, min_samples=3, judged=(60, 0.5)),
}


@dataclass
class Series:
    """The samples of one case in one mode, and the work that gives the next.

    seconds: per SpMV, in the order taken. throttled: samples thrown away. sm_clock_mhz: after the last sample.
    """

    work: Callable[[], None]
    repeats: int
    flush: bool
    seconds: list[float] = field(default_factory=list)
    throttled: int = 0
    sm_clock_mhz: float = math.nan


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and the host's seconds that it took."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


@cache
def _median_rank(n: int) -> int:
    """The largest k such that the k-th smallest and k-th largest of n samples hold the median in between at 95 %.

    0 where n is too small for any (n < 6): k - 1 successes of n coin tosses or fewer have a chance of at most 2.5 %.
    """
    if n > 200:  # the binomial is normal enough, and its exact sum slow
        return math.floor((n - 1.96 * math.sqrt(n)) / 2)
    chance, k = 2.0**-n, 0
    below = chance
    while below <= 0.025:
        k += 1
        chance *= (n - k + 1) / k
        below += chance
    return k


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The low end of the 95 % confidence interval of the median, the median, and the high end.

    Samples too few for the interval to exist are judged by their whole range; of one or none anything is possible.
    """
    ordered = np.sort(samples)
    if len(ordered) < 2:
        return 0.0, math.nan, math.inf
    k = max(_median_rank(len(ordered)), 1)
    return float(ordered[k - 1]), float(np.median(ordered)), float(ordered[-k])


def relative_spread(samples: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, over the median; infinite where there is none."""
    low, middle, high = median_interval(samples)
    return (high - low) / 2 / middle if middle > 0 else math.inf


def repeats_for(seconds: float, sample: float) -> int:
    """SpMVs in one hot sample, from the time of one: enough to last `sample` seconds, at least 1."""
    return min(max(math.ceil(sample / seconds), 1), MAX_REPEATS) if seconds > 0 else MAX_REPEATS if sample > 0 else 1


def prepare(program: Program, device: Device, mode: str, rule: Rule) -> Series:
    """Choose the repeats and capture the work; nothing is sampled yet."""
    once = device.capture(program, 1)
    if mode == "cold" or rule.sample == 0:
        return Series(once, repeats=1, flush=mode == "cold")
    device.elapsed(once)
    repeats = repeats_for(device.elapsed(once), rule.sample)
    return Series(device.capture(program, repeats) if repeats > 1 else once, repeats, flush=False)


def take_round(series: Series, device: Device, rule: Rule, clock: Callable[[], float] = time.perf_counter) -> None:
    """Add one round of samples to the series, after one that is not counted: it warms caches and clocks up.

    That one begins with an empty L2. Lines that other work left there outlive any number of SpMVs whose loads are
    marked as read once, and a matrix about as large as L2 would be as fast as they let it be (docs/measuring.md).
    """
    deadline = clock() + rule.budget / rule.rounds
    if rule.sample > 0:
        if not series.flush:
            device.empty_cache()
        device.elapsed(series.work, flush=series.flush)
    taken: list[float] = []
    before = device.throttled()
    while True:
        batch: list[float] = []
        look = min(clock() + rule.look, deadline)
        while not batch or clock() < look:
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


def summary(series: Series) -> dict[str, Any]:
    """The columns of a row that the samples give; times are NaN where every sample was thrown away."""
    samples = np.asarray(series.seconds)
    q1, median, q3 = np.percentile(samples, (25, 50, 75)).tolist() if len(samples) else (math.nan,) * 3
    return {
        "t_median": median,
        "t_q1": q1,
        "t_q3": q3,
        "n_samples": len(samples),
        "n_throttled": series.throttled,
        "repeats": series.repeats,
        "samples": series.seconds,
        "sm_clock_mhz": series.sm_clock_mhz,
    }
