import math
from types import SimpleNamespace

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.devices import Throttling, open_device
from spmvbench.formats import Csr, refilling
from spmvbench.matrices.synthetic import generate
from spmvbench.measure import stages, timing
from spmvbench.measure.failures import Wrong
from spmvbench.measure.timing import RULES, Rule, Series, quartiles, relative_spread, repeats_for, take_round


class StreamDevice:
    """Returns the times of a list, one after the other, and advances its clock by them."""

    def __init__(self, seconds, throttled=()):
        self.seconds, self.samples, self.clock, self.flushed = iter(seconds), 0, 0.0, []
        self.emptied, self.filled = [], []  # before which samples
        self.throttled_at = set(throttled)

    def elapsed(self, work, *, flush=False):
        work()
        self.flushed.append(flush)
        self.samples += 1
        seconds = next(self.seconds)
        self.clock += seconds
        return seconds

    def empty_cache(self):
        self.emptied.append(self.samples)

    def fill_cache(self):
        self.filled.append(self.samples)

    def capture(self, program, repeats):
        return lambda: program.append(repeats)

    def throttled(self):
        return self.samples in self.throttled_at

    def sm_clock_mhz(self):
        return 1980.0

    def now(self):
        return self.clock


def endless(values):
    while True:
        yield from values


def a_round(device, rule, repeats=1):
    series = Series(lambda: None, repeats, flush=False)
    take_round(series, device, rule, device.now)
    return series


def exact_coverage(n, k):
    """Chance that the median lies between the k-th smallest and the k-th largest of n samples."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


@pytest.mark.parametrize("n", [6, 7, 10, 25, 60, 199])
def test_median_rank_is_the_narrowest_that_covers_95_percent(n):
    k = timing._median_rank(n)
    assert exact_coverage(n, k) >= 0.95 > exact_coverage(n, k + 1)


def test_median_rank_is_zero_without_an_interval_and_continuous_at_the_normal_approximation():
    assert [timing._median_rank(n) for n in (1, 2, 5)] == [0, 0, 0]
    assert 0 <= timing._median_rank(201) - timing._median_rank(200) <= 1


@pytest.mark.parametrize(
    ("samples", "low", "high"),
    [
        # Ranks 2 and 9 of 10 cover the median at 97.9 %.
        ([1.09, 1.08, 1.07, 1.06, 1.05, 1.04, 1.03, 1.02, 1.01, 1.00], 0.03349, 0.03350),
        ([1.0] * 30 + [50.0], 0, 0),  # a single outlier
        ([1.0] * 20 + [2.0] * 20, 0.2, 1),  # two halves
        *(([value] * n, math.inf, math.inf) for value, n in ((1.0, 0), (1.0, 1), (0.0, 20))),  # no interval
    ],
)
def test_spread_of_known_samples(samples, low, high):
    assert low <= relative_spread(samples) <= high


@pytest.mark.parametrize(
    ("seconds", "repeats"), [(3e-6, 334), (3e-4, 4), (0.5, 1), (1e-9, timing.MAX_REPEATS), (0.0, 4000)]
)
def test_repeats_fill_a_sample(seconds, repeats):
    assert repeats_for(seconds, 1e-3) == repeats


def test_a_round_ends_with_the_minimum_of_steady_samples_or_with_its_budget():
    rule = Rule(rounds=2, budget=2.0, sample=1e-3, min_samples=10)
    assert a_round(StreamDevice(endless([1e-3])), rule).seconds == [1e-3] * 10
    noisy = StreamDevice(endless([0.01, 0.02]))
    assert len(a_round(noisy, rule).seconds) > 60 and 1.0 <= noisy.clock < 1.03
    assert a_round(StreamDevice([7.0]), RULES["emulated"]).seconds == [7.0], "one sample even beyond the budget"


def test_spread_goal_is_met_when_sampling_stops_early():
    rng = np.random.default_rng(1)
    rule = Rule(rounds=1, budget=1e9, sample=1e-3, min_samples=10)
    series = a_round(StreamDevice(rng.normal(1e-3, 2e-5, 100_000)), rule)
    assert 10 < len(series.seconds) < 10_000
    assert relative_spread(series.seconds) <= 0.005
    assert np.median(series.seconds) == pytest.approx(1e-3, rel=0.01)


def test_throttled_samples_are_discarded_and_counted():
    rule = Rule(rounds=1, budget=1.0, sample=0.0, min_samples=4)
    # throttled() is called after samples 2 and 3: samples 2 and 3 ended, 3 and 4 began, in a slow state
    series = a_round(StreamDevice([1.0e-3, 9e-3, 9e-3, 9e-3] + [1.0e-3] * 3, throttled=[2, 3]), rule)
    assert series.seconds == [1e-3] * 4
    assert series.throttled == 3


class Cooling:
    """Throttles for so many seconds."""

    def __init__(self, seconds):
        self.clock, self.seconds = 0.0, seconds

    def throttle_reason(self):
        return "heat: 345 of 1980 MHz" if self.clock < self.seconds else ""

    def sleep(self, seconds):
        self.clock += seconds


def test_a_device_rests_until_it_does_not_throttle_and_is_given_up_if_it_does_at_rest():
    device = Cooling(3.0)
    timing.rest(device, lambda: device.clock, device.sleep)
    assert device.clock == pytest.approx(3.0, abs=0.2)
    device = Cooling(1e6)
    with pytest.raises(Throttling, match=r"throttles \(heat: 345 of 1980 MHz, after 20 s without work\)"):
        timing.rest(device, lambda: device.clock, device.sleep)
    assert device.clock == pytest.approx(timing.REST, abs=0.2)


def test_a_device_that_is_always_throttled_ends_with_the_budget_and_no_sample():
    rule = Rule(rounds=1, budget=1.0, sample=0.0, min_samples=3)
    series = a_round(StreamDevice(endless([0.1]), throttled=range(100)), rule)
    assert series.seconds == []
    assert series.throttled >= 10
    assert math.isnan(quartiles(series).median)


def test_samples_are_per_spmv_and_add_up_over_rounds():
    rule = Rule(rounds=2, budget=1e9, sample=1e-3, min_samples=10)
    series = Series(lambda: None, 4, flush=False)
    device = StreamDevice(endless([1e-3]))
    take_round(series, device, rule, device.now)
    take_round(series, device, rule, device.now)
    assert series.seconds == [2.5e-4] * 20
    assert device.samples == 22  # each round warms up once
    assert device.emptied == [0, 11]  # and begins with an empty cache
    take_round(series, device, rule, device.now, in_use=True)
    assert device.emptied == [0, 11] and device.filled == [22]  # or with one of other work's lines


def test_a_sample_that_flushes_by_itself_needs_no_empty_cache():
    device = StreamDevice(endless([1e-3]))
    take_round(Series(lambda: None, 1, flush=True), device, RULES["cuda"], device.now)
    assert device.emptied == [] and all(device.flushed)


def test_hot_replays_a_graph_that_fills_a_sample_and_cold_flushes_before_one_spmv():
    ran = []
    hot = timing.prepare(ran, StreamDevice(endless([1e-5])), "hot", RULES["cuda"])
    cold = timing.prepare(ran, StreamDevice(endless([1e-5])), "cold", RULES["cuda"])
    emulated = timing.prepare(ran, StreamDevice(endless([1e-5])), "hot", RULES["emulated"])
    assert (hot.repeats, cold.repeats, emulated.repeats) == (100, 1, 1)
    ran.clear()
    hot.work()
    cold.work()
    assert ran == [100, 1]
    device = StreamDevice(endless([1e-5]))
    take_round(cold, device, RULES["cuda"], device.now)
    assert all(device.flushed)
    assert not hot.flush


def test_quartiles_of_known_samples():
    assert quartiles(Series(lambda: None, 8, False, seconds=[4.0, 1.0, 3.0, 2.0, 5.0])) == (2.0, 3.0, 4.0)


def test_new_values_in_wrong_places_are_no_time(monkeypatch):
    device, a = open_device("emulated"), Csr.of(generate("rmat:6:6"))
    context = SimpleNamespace(
        settings=SimpleNamespace(update=True), begin=lambda *_: None, device=device, rule=RULES["emulated"],
        references=SimpleNamespace(device_stored=a), launches=lambda *_: [],
    )  # fmt: skip
    fmt = testing.convert("csr5", a)
    assert stages.time_update(context, None, fmt, "spmv") > 0
    found = refilling.places(fmt, a)
    monkeypatch.setattr(refilling, "places", lambda *_: found.renumbered(fmt, np.roll(np.arange(a.nnz), 1)))
    with pytest.raises(Wrong, match="new values in place gave another values than conversion"):
        stages.time_update(context, None, fmt, "spmv")
