"""Energy of one SpMV, from a counter that is updated now and then."""

import math
from types import SimpleNamespace

import pytest

from spmvbench.measure import energy
from spmvbench.measure.cases import Settings
from spmvbench.measure.timing import Series
from spmvbench.runner.driver import timeout


class CountingDevice:
    """Uses `watts` while it works; its counter is updated every `period` seconds. Its clock is the work done."""

    def __init__(self, watts=lambda now: 500.0, period=0.1, seconds=1e-3):
        self.watts, self.period, self.seconds = watts, period, seconds
        self.clock, self.used, self.shown, self.updated = 0.0, 1e6, 1e6, 0.0

    def elapsed(self, work):
        before = self.clock
        work()
        return self.clock - before

    def work(self):
        """One sample."""
        self.clock += self.seconds
        self.used += self.seconds * self.watts(self.clock)
        if self.clock >= self.updated + self.period:
            self.updated += self.period
            self.shown = self.used

    def energy(self):
        return self.shown

    def measured(self, seconds, repeats=10):
        return energy.measured(Series(self.work, repeats, flush=False), self, seconds, lambda: self.clock)


@pytest.mark.parametrize(("period", "seconds"), [(0.02, 1.0), (0.1, 1.0), (0.1, 0.05)])  # the last, longer than asked
def test_energy_is_power_times_time(period, seconds):
    found = CountingDevice(period=period).measured(seconds)
    assert found.joules == pytest.approx(500 * 1e-3 / 10, rel=0.02)
    assert found.watts == pytest.approx(500, rel=0.02)
    assert found.low <= found.joules * 1.02
    assert found.high >= found.joules * 0.98


def test_the_interval_covers_a_power_that_changes():
    found = CountingDevice(watts=lambda now: 400.0 if int(now / 0.3) % 2 else 600.0).measured(3.0)
    assert found.low < 0.9 * found.joules < found.joules < 0.95 * found.high


def test_no_energy_without_a_counter_or_with_one_that_stands_still():
    still = CountingDevice(period=math.inf)
    assert math.isnan(still.measured(1.0).joules)
    assert still.clock < 7
    slow = CountingDevice(period=1.0)  # seven updates within the time, where an interval takes eight
    assert math.isnan(slow.measured(1.0).joules)
    missing = CountingDevice()
    missing.shown = math.nan
    assert math.isnan(missing.measured(1.0).joules)
    assert missing.clock == 0


@pytest.mark.parametrize("shown", [0.0, math.nan], ids=["begins anew", "fails"])
def test_a_counter_that_begins_anew_or_fails_gives_no_energy(shown):
    device = CountingDevice()
    known = device.energy
    device.energy = lambda: shown if device.clock > 0.5 else known()
    assert math.isnan(device.measured(1.0).joules)
    assert 0.5 < device.clock < 0.6


def test_time_for_energy_is_added_to_the_limit_of_a_case():
    hot, cold = (SimpleNamespace(mode=mode) for mode in ("hot", "cold"))
    settings = Settings("cuda:0", timeout=5.0, energy=20.0)
    assert timeout(settings, [hot, cold, hot]) == 5 + 2 * energy.longest(20.0) > 45
    assert timeout(settings) == timeout(Settings("cuda:0", timeout=5.0), [hot]) == 5
