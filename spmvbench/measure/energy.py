"""Energy of one SpMV, from a counter of the device that counts joules.

The counter is updated every 20 to 100 ms, depending on the GPU. The device repeats the work of a hot sample, and the
counter is read after each. Between the first and the last update seen, the joules divided by the number of SpMVs are
the energy of one; the joules between two updates give its interval. The joules over the seconds between the same two
updates are the power: a time from shorter bursts, at clocks that the device does not hold, would give more than it can
draw. Everything that the device uses meanwhile counts, what it uses when idle included.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter  # bound before a format can replace it

from spmvbench.devices.base import Device
from spmvbench.measure.timing import Series, median_interval

BETWEEN_READINGS = 0.01  # seconds of work: a reading takes up to 1 ms, in which the device is idle
MIN_UPDATES = 8  # of the counter: an interval of the median needs six pieces
MAX_WAIT = 5.0  # seconds beyond those asked for, in which a counter that works has so many


@dataclass(frozen=True)
class Energy:
    """Joules of one SpMV, with the 95 % confidence interval of the median over the counter's updates, and the watts
    meanwhile; NaN if the device does not count.
    """

    joules: float = math.nan
    low: float = math.nan
    high: float = math.nan
    watts: float = math.nan


def longest(seconds: float) -> float:
    """Limit in seconds on `measured`, beyond the reading in progress; 0 if nothing is measured."""
    return seconds + MAX_WAIT if seconds else 0.0


def measured(series: Series, device: Device, seconds: float, clock: Callable[[], float] = perf_counter) -> Energy:
    """Energy of one SpMV of a hot series, over at least `seconds` of work and MIN_UPDATES updates of the counter.

    NaN if the device has no counter, if it had fewer updates MAX_WAIT seconds later, or if a reading fails or is less
    than the one before: the driver was loaded again.
    """
    if math.isnan(last := device.energy()):
        return Energy()
    once = device.elapsed(series.work)
    samples = max(math.ceil(BETWEEN_READINGS / once), 1) if once > 0 else 1

    def work() -> None:
        for _ in range(samples):
            series.work()

    updates: list[tuple[float, int, float]] = []  # joules, and SpMVs and seconds until then
    done, began = 0, clock()
    while len(updates) < MIN_UPDATES or clock() - began < seconds:
        if clock() - began > longest(seconds):
            return Energy()
        device.elapsed(work)
        done += samples * series.repeats
        now = device.energy()
        if not now >= last:
            return Energy()
        if now > last:
            updates.append((now, done, clock()))
            last = now
    pieces = [(one[0] - other[0]) / (one[1] - other[1]) for other, one in itertools.pairwise(updates)]
    (first, since, start), (final, until, end) = updates[0], updates[-1]
    low, _, high = median_interval(pieces)
    return Energy((final - first) / (until - since), low, high, (final - first) / (end - start))
