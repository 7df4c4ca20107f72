"""The check that no work is skipped while x stays the same: SpMVs between which x changes, verified and timed."""

from __future__ import annotations

import math
from dataclasses import replace
from time import process_time  # bound before a format can replace it

import numpy as np

from spmvbench.formats import Format
from spmvbench.formats.vectors import parts
from spmvbench.measure import timing, verify
from spmvbench.measure.cases import Case
from spmvbench.measure.context import Context, Task
from spmvbench.measure.failures import Wrong, raise_if_wrong
from spmvbench.measure.results import Bound

X_CHANGED_PAIRS = 8  # minimum pairs of changes of x in one sample
X_CHANGED_SECONDS = 32e-3  # fewer pairs, at least one, where the SpMVs of one sample would take longer
X_CHANGED_SLOWER = 1.25  # work is skipped if an SpMV takes so many times longer while x changes
X_CHANGED_TRIES = 4
X_CHANGED_ALLOWANCE = 2e-6  # seconds: two more graph nodes and a colder x, for a short SpMV
# On the emulated device, where two pairs of SpMVs are one try.
X_CHANGED_SLOWER_ON_HOST, X_CHANGED_TRIES_ON_HOST = 1.5, 10


def time_with_changing_x(
    context: Context, task: Task, fmt: Format, bound: Bound, case: Case, series: timing.Series
) -> float:
    """Seconds of one SpMV while x changes before each, without the time of the change: one short series. Raises Wrong.

    It detects programs that skip work while x stays the same, and programs that worked only during their first capture.
    Their y is wrong, or their time exceeds X_CHANGED_SLOWER times that of the SpMVs before. The comparison fails only
    after X_CHANGED_TRIES tries, because another process on the device can slow down single series. NaN if every sample
    was discarded. On an emulated device the processor's time is compared (`_compare_on_host`).
    """
    context.begin(task, f"timing {case.mode} while x changes", case.op)
    rule = context.rule.short()
    # Before x is set: it changes x an unknown number of times.
    cost = context.change_x_seconds(case.op) if _alternates(context, case) else 0.0
    changes = _changes_of_x(series, cost, min(rule.sample, rule.budget))  # a sample is no longer than its series
    seconds = _seconds_with_changing_x(context, fmt, bound, case, changes, cost)
    if context.device.kind != "cuda":
        _compare_on_host(context, bound, case)
        return seconds
    before, tries = series, 1
    while _skips_work(context, case, before, seconds):
        if tries == X_CHANGED_TRIES:
            raise _skipped(context, case, seconds, timing.quartiles(before).median)
        verify.set_x(fmt, context.references.checks[case.op].timed, context.x[case.op])
        before, tries = replace(series, seconds=[]), tries + 1
        timing.take_round(before, context.device, rule)
        seconds = _seconds_with_changing_x(context, fmt, bound, case, changes, cost)
    return seconds


def _alternates(context: Context, case: Case) -> bool:
    """Whether a sample is of changes, each with an SpMV after it, from which the time of the changes is subtracted."""
    return case.mode == "hot" and context.rule.sample > 0


def _compare_on_host(context: Context, bound: Bound, case: Case) -> None:
    """Compare the processor's time of SpMVs with an x that changed, and of SpMVs between them with one that did not.

    Before both x is written. The least of all times so far, of two tries at least, is compared: other processes only
    add to it. Searches are left out: their sources differ in work. Raises Wrong.
    """
    if parts(context.x[case.op])[-1].dtype.kind != "f":
        return
    device = context.device
    change, work = device.compile([context.change_x(case.op)]), device.capture(bound.program, 1)
    same, changed = math.inf, math.inf

    def seconds(changes: int) -> float:
        for _ in range(changes):
            change.run()
        began = process_time()
        work()
        return process_time() - began

    for tries in range(X_CHANGED_TRIES_ON_HOST):
        for _ in range(2):  # so that x ends as it began
            same, changed = min(same, seconds(2)), min(changed, seconds(1))
        if tries and changed - X_CHANGED_ALLOWANCE <= X_CHANGED_SLOWER_ON_HOST * same:
            return
    raise _skipped(context, case, changed, same)


def _skipped(context: Context, case: Case, changed: float, same: float) -> Wrong:
    return Wrong(
        f"{changed:.3g} s while x changes between SpMVs, {same:.3g} s while it does not: work is skipped "
        f"({context.named(case.mode, case.op)})"
    )


def _changes_of_x(series: timing.Series, cost: float, sample: float) -> int:
    """How often x changes in one sample: before each of its SpMVs, and an even number, so that x ends as it began.

    cost: seconds of a change. sample: minimum seconds of a sample.
    """
    seconds = timing.quartiles(series).median
    pairs, repeats = X_CHANGED_PAIRS, series.repeats
    if seconds > 0:  # not NaN
        pairs = min(pairs, max(math.floor(X_CHANGED_SECONDS / (2 * seconds)), 1))
        repeats = min(repeats, timing.repeats_for(seconds + cost, sample))
    return 2 * max(repeats // 2, pairs)


def _seconds_with_changing_x(
    context: Context, fmt: Format, bound: Bound, case: Case, changes: int, cost: float
) -> float:
    """The median of a few samples, see `time_with_changing_x`; y is verified after the last. cost: of a change."""
    device, rule, op, y = context.device, context.rule, case.op, context.y
    x, checks, change = context.x[op], context.references.checks[op], context.change_x(op)
    searched = 0.0
    if parts(x)[-1].dtype.kind != "f":  # half of the searches start from the other source, whose time is measured apart
        verify.set_x(fmt, checks.dense[0], x)
        once = device.capture(bound.program, 1)
        searched = float(np.median([device.elapsed(once) for _ in range(changes)]))
    placed = verify.set_x(fmt, checks.timed, x)
    y[...] = verify.garbage(y)
    device.synchronize()
    if _alternates(context, case):
        work = device.capture(device.compile([change, *bound.steps]), changes)
        series = timing.Series(work, changes, flush=False)
        timing.take_round(series, device, rule.short(spread=0.02))
        samples = [seconds - cost for seconds in series.seconds]
    else:
        changing, work, samples = device.compile([change]), device.capture(bound.program, 1), []
        for _ in range(changes if rule.sample > 0 else 2):
            changing.run()
            samples.append(device.elapsed(work, flush=case.mode == "cold"))
    device.synchronize()
    raise_if_wrong(
        verify.verify_result(fmt, x, y, placed, checks.timed), context.named(f"while x changes, {case.mode}", op)
    )
    found = float(np.median(samples)) if samples else math.nan
    return max(2 * found - searched if searched else found, 0.0)  # NaN stays; noise may exceed a short time


def _skips_work(context: Context, case: Case, series: timing.Series, changed: float) -> bool:
    """Whether SpMVs take longer with a changing x than caches explain: x is written before, and written back later."""
    rate = 1e9 * context.facts.get("copy_bandwidth_gbps", math.inf)
    allowed = X_CHANGED_ALLOWANCE + 2 * sum(array.nbytes for array in parts(context.x[case.op])) / rate
    return bool(changed - allowed > X_CHANGED_SLOWER * timing.quartiles(series).q3)
