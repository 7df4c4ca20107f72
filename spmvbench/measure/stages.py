"""Stages of measuring one format.

    convert_on_host -> verify_integers -> convert -> decode -> bind -> verify_answers -> compare_bits
        -> take_samples (each round) -> finish

Each stage is a function of the data that the formats of a group share and the format (`context`), and of the results of
earlier stages (`results`). It returns a frozen result. A stage that finds a wrong result raises Wrong (`failures`).
`row` makes the row from these results.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter  # bound before a format can replace it
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.devices import Device, Program, Throttling
from spmvbench.devices.guards import Guards
from spmvbench.formats import Call, Format, Launch, Loop, Skip, refilling
from spmvbench.formats.conversion import Tuning, converting_for, timed_conversion, unchecked
from spmvbench.formats.dependencies import check_sources
from spmvbench.formats.footprint import bytes_read, footprint
from spmvbench.formats.vectors import moved
from spmvbench.measure import energy, operations, timing, verify
from spmvbench.measure.cases import Case
from spmvbench.measure.changing_x import time_with_changing_x
from spmvbench.measure.context import Context, Task
from spmvbench.measure.failures import COMPILING, OUT_OF_MEMORY, Wrong, raise_if_wrong
from spmvbench.measure.matrix_cache import CONVERTING, preparation_lock
from spmvbench.measure.program import float_atomics, program_hash
from spmvbench.measure.protocol import WAITING
from spmvbench.measure.results import Bits, Bound, Converted, Decoded, Finished, HostConversion, IntegerTest

COMPARED_PRODUCTS = 40  # whose bits are compared, at most, with the arrays in either place
MAX_LEVELS = 2000  # of a search, in a row
REPEAT_CONVERSION_SECONDS = 0.02  # seconds of conversions, before another one begins
MAX_DECODED_ENTRIES = 1 << 27  # larger matrices are not decoded: sorting takes seconds and GBs
MAX_DISCARDED = 10  # formats without a sample, until the GPU is given up


def convert_on_host(context: Context, task: Task) -> HostConversion:
    """Skip a format that would not fit; convert on the host; time the conversion and the copy to the device. Raises
    Skip.
    """
    device, references = context.device, context.references
    limit = context.settings.max_bytes or device.default_max_bytes
    on_device = device.kind == "cuda"
    both = context.settings.convert == "both" and task.cls.converts_on_host
    on_host = both or not on_device  # an emulated device shares the host's memory
    context.begin(task, "converting on the host" if on_host else "converting on the device")
    task.cls.refuse_beyond(limit, references.stored if on_host else references.estimated, **task.params)
    if not on_host:
        return HostConversion()
    a = references.stored.fresh()  # without derived arrays that another format has computed
    with _exclusively(context, task):
        fmt, seconds = timed_conversion(lambda: task.cls.converted(a, **task.params))
    if not on_device:
        return HostConversion(fmt, seconds)
    context.begin(task, "moving to the device")

    def move() -> list[Any]:
        moved = [device.to_device(array) for array in fmt.arrays().values()]
        device.synchronize()
        return moved

    return HostConversion(None, seconds, timing.timed(move)[1])


def wait_for_preparation(context: Context, task: Task) -> None:
    """Wait while another process of this host prepares formats for the matrix (`Format.prepare`)."""
    settings, case = context.settings, task.cases[0]
    if settings.per_host is not None and task.cls.prepares():
        lock = preparation_lock(Path(settings.per_host), case.matrix, case.seed, settings.real_part)
        with _waited_for(context, task, lock):
            pass


@contextmanager
def _exclusively(context: Context, task: Task) -> Iterator[None]:
    """Hold the lock under which only one process of this host times a conversion. Waiting does not count as the case's
    time.
    """
    if context.settings.per_host is None:
        yield
        return
    stage = context.link.stage
    with _waited_for(context, task, Path(context.settings.per_host) / CONVERTING):
        context.begin(task, stage)
        yield


@contextmanager
def _waited_for(context: Context, task: Task, lock: Path) -> Iterator[None]:
    """Hold a lock. Waiting for it does not count as the case's time."""
    began = perf_counter()
    context.begin(task, WAITING)
    with paths.locked(lock):
        context.waited += perf_counter() - began
        yield


def verify_integers(context: Context, task: Task, tuning: Tuning) -> IntegerTest:
    """The exact integer test: convert the matrix with integer values and compare products exactly, in every row.

    A format that tunes searches here, and the conversion that is timed takes what it found. The matrix is converted
    before, without a search, so that no CuPy kernel is compiled in the search: its time counts as preprocessing. The
    test is left out if no integer matrix gives exact sums, or if the format refuses its values. Raises Wrong.
    """
    context.begin(task, "converting the integer matrix")
    checks, peak = context.references.checks, 0
    if not all(checks[op].integer for op in context.products(task)):
        return IntegerTest(False)
    try:
        if context.references.integers is None:
            return IntegerTest(False)
        integers = context.references.precision.integers(context.references.integers.fresh())

        def converted(warm_up: bool) -> Format:
            tuning.begin(warm_up=warm_up)
            # Derived arrays are kept: the timed conversion computes them, and the search must not count them again.
            return task.cls.converted(integers, **task.params)

        def tuned() -> Format:
            nonlocal peak
            fmt: Format | None = converted(warm_up=True)
            if tuning.asked:
                fmt = None  # memory may be too small for two
                held = _reset_memory_peak(context.device)
                fmt = converted(warm_up=False)
                peak = (context.device.memory_peak() or 0) - held
            assert fmt is not None
            return fmt

        fmt, guards = _guarded(context, tuned)
    except Skip:
        return IntegerTest(False)
    compiling, error = 0.0, 0.0
    for op in context.products(task):
        context.begin(task, COMPILING)
        program = context.device.compile(context.launches(fmt, op))
        compiling += program.compile_seconds
        context.begin(task, "checking integer products", op)
        cases = checks[op].integer
        run = context.run(fmt, program, op)
        verdict = verify.run_and_verify(run, cases, ("garbage", "stale"))
        context.inspect(guards)
        error = max(error, raise_if_wrong(verdict, context.named("exact integer test", op)))
        error = max(error, repeat(context, task, op, run, cases))
    context.inspect(guards)
    return IntegerTest(True, compiling, error, fmt.in_use, peak)


def convert(context: Context, task: Task, host: HostConversion, integer_test: IntegerTest, tuning: Tuning) -> Converted:
    """The matrix in the format, in device memory, between guards. Raises Wrong if the parameters in use are not those
    of the exact integer test.
    """
    on_host = host.fmt
    if on_host is not None:
        found = Converted(*_guarded(context, lambda: on_host))
    else:
        context.begin(task, "converting on the device")
        found = _converted_on_device(context, task, integer_test, tuning)
    if integer_test.in_use is not None and found.fmt.in_use != integer_test.in_use:
        tested, timed = (json.dumps(used, default=str) for used in (integer_test.in_use, found.fmt.in_use))
        raise Wrong(f"the exact integer test was of {tested}, the arrays to be timed are of {timed}")
    return found


def _converted_on_device(context: Context, task: Task, integer_test: IntegerTest, tuning: Tuning) -> Converted:
    """Convert on the device and time it, after a warm-up that compiles CuPy's kernels and fills its memory pool.

    Short conversions: the median of three, because delays of the host are as long as the conversion. Before them one
    counts what is allocated and looks at each launch, after them one leaves room for guards around its arrays: each
    takes microseconds an allocation that users do not have.
    """
    device, device_a, guards = context.device, context.references.device_stored, Guards(context.device)

    def converted(warm_up: bool = False) -> Format:
        tuning.begin(warm_up=warm_up)
        fmt = task.cls.converted(device_a.fresh(), **task.params)
        device.synchronize()
        return fmt

    def timed() -> tuple[Format, float]:
        fmt, seconds = timed_conversion(converted)
        return fmt, seconds + tuning.uncounted - tuning.seconds

    if not integer_test.passed:
        converted(warm_up=True)
    held = _reset_memory_peak(device)
    fmt: Format | None
    with guards.leaving_room():
        fmt, counted = timed()
    peak = (device.memory_peak() or 0) - held + device_a.nbytes
    seconds: list[float] = []
    with device.uncounted(), unchecked():
        while len(seconds) < 3 and counted + sum(seconds) < REPEAT_CONVERSION_SECONDS:
            fmt = None  # memory may be too small for two
            fmt, latest = timed()
            seconds.append(latest)
        if seconds and device.xp is not np:  # the host's arrays are copied in any case
            fmt = None
            with guards.leaving_room():
                fmt = converted()
    assert fmt is not None
    search = tuning.seconds if tuning.asked else math.nan
    peak = max(peak, integer_test.peak + device_a.nbytes if integer_test.peak else 0)
    return Converted(guards.hold_format(fmt), guards, float(np.median(seconds or [counted])), peak, search)


def _reset_memory_peak(device: Device) -> int:
    """Bytes that are allocated now, from which `Device.memory_peak` rises."""
    device.reset_memory_peak()
    return device.memory_peak() or 0


def _guarded(context: Context, make: Callable[[], Format]) -> tuple[Format, Guards]:
    """The format that `make` returns, in separate memory between guards."""
    guards = Guards(context.device)
    with guards.leaving_room():
        fmt = make()
    return guards.hold_format(fmt), guards


def decode(context: Context, task: Task, fmt: Format) -> Decoded:
    """Verify the conversion independently of any kernel: the decoded arrays are the matrix, with values equal bit for
    bit.

    Raises Wrong with the first entry that differs. Left out for matrices beyond MAX_DECODED_ENTRIES, and if memory runs
    out.
    """
    a = context.references.device_stored
    if a.nnz > MAX_DECODED_ENTRIES:
        return Decoded(f"no: over {MAX_DECODED_ENTRIES:,} entries")
    context.begin(task, "decoding")
    began = perf_counter()
    try:
        difference = verify.decoding_difference(fmt, a)
        context.device.synchronize()
    except OUT_OF_MEMORY as error:
        context.reject(error)
        return Decoded("no: out of memory")
    except NotImplementedError:
        return Decoded("n/a")  # a program that gives its entries to nobody
    if difference:
        raise Wrong(f"{difference} (decoded)")
    return Decoded("yes", perf_counter() - began)


def bind(context: Context, task: Task, converted: Converted, op: str, *, warm: bool) -> Bound:
    """Make and compile the format's launches for this operation's x. Making them is timed as setup."""
    context.begin(task, COMPILING)
    fmt, x, y, device = converted.fmt, context.x[op], context.y, context.device
    if not warm:  # one-time work of the process, such as loading a library, is not setup
        context.launches(replace(fmt), op)
        device.synchronize()

    def made() -> list[Launch | Call | Loop]:
        found = context.launches(fmt, op)
        device.synchronize()
        return found

    launches, setup = timing.timed(made)
    check_sources(task.cls, launches, context.ops[op].kernels)
    program = device.compile(launches)
    detail = context.references.checks[op].facts | fmt.in_use | fmt.detail
    first = device.try_out(program)
    if program.host_driven:
        detail |= {"driven_by": program.host_driven}
    found = footprint(fmt, launches, x, y)
    same = program_hash(fmt, launches, device.checksums, x, y, program.code_hash)
    adds = float_atomics(launches, device)
    setup += fmt.setup_seconds + first
    workspace, read = sum(found.values()) - fmt.nbytes, bytes_read(fmt, found, launches)
    timed_by = "self" if fmt.own_times else program.timed_by
    return Bound(program, launches, setup, workspace, read, same, detail, adds, timed_by)


def verify_answers(
    context: Context, task: Task, fmt: Format, bound: Bound, op: str, integer_test: IntegerTest
) -> float:
    """Verify y before timing: dense x, sparse x, and many runs if there was no exact integer test. Raises Wrong.

    Before a solver its products are verified in the same way: they have a bound for each row.
    Returns the largest error as a fraction of its bound.
    """
    if product := context.ops[op].product:
        context.begin(task, COMPILING)
        program = context.device.compile(context.launches(fmt, product))
        error = _verify_program(context, task, fmt, program, product, integer_test)
        return max(error, _verify_program(context, task, fmt, bound.program, op, IntegerTest(True)))
    return _verify_program(context, task, fmt, bound.program, op, integer_test)


def _verify_program(
    context: Context, task: Task, fmt: Format, program: Program, op: str, integer_test: IntegerTest
) -> float:
    """Verify y of one program. Returns the largest error as a fraction of its bound. Raises Wrong."""
    context.begin(task, "checking", op)
    checks, run = context.references.checks[op], context.run(fmt, program, op)
    # As many runs as there are kinds of content of y before them.
    dense = (checks.dense * len(verify.STARTS))[: max(len(verify.STARTS), len(checks.dense) + 1)]
    error = check(context, run, op, dense, "before timing")
    error = max(error, check(context, run, op, checks.sparse, "in a group of columns", ("stale", "garbage")))
    if not integer_test.passed:
        error = max(error, repeat(context, task, op, run, checks.dense))
    return error


def check(
    context: Context,
    run: verify.Run,
    op: str,
    references: list[verify.Reference],
    when: str,
    starts: tuple[str, ...] = verify.STARTS,
) -> float:
    """Run the format for each reference. Returns the largest error as a fraction of its bound. Raises Wrong."""
    return raise_if_wrong(verify.run_and_verify(run, references, starts), context.named(when, op))


def repeat(context: Context, task: Task, op: str, run: verify.Run, references: list[verify.Reference]) -> float:
    """Verify many runs one by one. Returns the largest error as a fraction of its bound. Raises Wrong."""
    context.begin(task, "checking many runs", op)
    most, share = context.rule.verified_runs
    verdict = verify.repeat_and_verify(run, references, most, share * context.rule.budget)
    return raise_if_wrong(verdict, context.named("in one of many runs", op))


def compare_bits(context: Context, task: Task, fmt: Format, bound: Bound, op: str) -> Bits:
    """Compare the bits of many products with the same x, with all arrays where they are and in copies of them.

    x is the one that follows from the run's seed, so that other processes have it too; if no x does, the one that is
    timed. The copies are left out if memory runs out.
    """
    context.begin(task, "comparing bits", op)
    device, checks = context.device, context.references.checks[op]
    (most, share), budget = context.rule.verified_runs, context.rule.budget
    limits = min(most, COMPARED_PRODUCTS), share * budget
    seeded = isinstance(operations.get(op), operations.Spmv)
    reference = checks.dense[0] if seeded else checks.timed
    found = verify.distinct_results(context.run(fmt, bound.program, op), reference, *limits)
    try:
        copy, x, y = (
            fmt.with_arrays(lambda _, a: a.copy(order="K")),
            moved(context.x[op], lambda a: a.copy()),
            context.y.copy(),
        )
        other = verify.Run(copy, device.compile(context.launches(copy, op, x, y)), device, x, y)
        found += verify.distinct_results(other, reference, *limits, found.total())
    except OUT_OF_MEMORY as error:
        context.reject(error)
    return Bits(len(found), found.total(), next(iter(found)) if seeded and len(found) == 1 else None)


def prepare_series(context: Context, task: Task, fmt: Format, bound: Bound, case: Case) -> timing.Series:
    """Capture the work of one sample; nothing is sampled yet.

    One product with the x of the samples comes first: what leaves y as it is while x is unchanged leaves the garbage
    that is written before the first sample.
    """
    context.begin(task, f"timing {case.mode}", case.op)
    verify.set_x(fmt, context.references.checks[case.op].timed, context.x[case.op])
    context.device.synchronize()
    bound.program.run()
    return timing.prepare(bound.program, context.device, case.mode, context.rule)


def take_samples(context: Context, task: Task, fmt: Format, case: Case, series: timing.Series) -> float:
    """Add one round of samples to the series, then verify the y of the last. Returns its error over the bound. Raises
    Wrong.

    y is overwritten with garbage before the first sample, not before the capture. A call that works only during its
    first capture leaves that garbage.
    """
    x, reference = context.x[case.op], context.references.checks[case.op].timed
    context.begin(task, f"timing {case.mode}", case.op)
    placed = verify.set_x(fmt, reference, x)
    context.y[...] = verify.garbage(context.y)
    context.device.synchronize()
    timing.take_round(series, context.device, context.rule)
    if fmt.own_times:
        series.seconds = list(fmt.own_times)
    context.device.synchronize()
    verdict = verify.verify_result(fmt, x, context.y, placed, reference)
    return raise_if_wrong(verdict, context.named(f"left by a sample, {case.mode}", case.op))


def finish(
    context: Context, task: Task, fmt: Format, bound: Bound, op: str, series: Mapping[str, timing.Series]
) -> tuple[Finished, float]:
    """All stages after the last round of an operation; y is verified again. Raises Wrong; Throttling as
    `timing.rest`, and after MAX_DISCARDED formats without a sample.

    series: by mode. Returns the results, and the largest error as a fraction of its bound.
    """
    discarded = [mode for mode, found in series.items() if not found.seconds]
    if discarded:
        context.discarded += 1
        if context.discarded >= MAX_DISCARDED:
            raise Throttling(f"whenever it works: in all samples of {MAX_DISCARDED} formats one after the other")
        timing.rest(context.device)
        what = " and ".join(context.named(mode, op) for mode in discarded)
        raise RuntimeError(f"every {what} sample was discarded: the GPU throttled")
    context.discarded = 0
    changed = {
        case.mode: time_with_changing_x(context, task, fmt, bound, case, series[case.mode])
        for case in task.cases
        if case.op == op and not fmt.own_times  # each product is a process, which has nothing of the last
    }
    seconds = time_kernels(context, task, bound, op) if "hot" in series else {}
    used = measure_energy(context, task, op, series["hot"]) if "hot" in series else energy.Energy()
    in_use = time_in_use(context, task, op, series["hot"]) if "hot" in series and not fmt.own_times else math.nan
    update = time_update(context, task, fmt, op) if "hot" in series and op == Format.op else math.nan
    context.begin(task, "checking again", op)
    dense = context.references.checks[op].dense
    error = check(context, context.run(fmt, bound.program, op), op, dense, "after timing", ("garbage", "stale"))
    levels = trace_levels(context, task, fmt, op) if op.startswith("bfs") and op.endswith("@0") else {}
    return Finished(seconds, changed, levels, used, in_use, update), error


def measure_energy(context: Context, task: Task, op: str, series: timing.Series) -> energy.Energy:
    """Energy of one SpMV, if the settings ask for it. Leaves y undefined."""
    if not context.settings.energy or not context.counts_energy:
        return energy.Energy()
    context.begin(task, "measuring energy", op)
    found = energy.measured(series, context.device, context.settings.energy)
    context.counts_energy = not math.isnan(found.joules)
    return found


def time_in_use(context: Context, task: Task, op: str, hot: timing.Series) -> float:
    """Seconds of one SpMV, hot, after other work filled L2: the work of the hot series again, in a tenth of a case's
    budget. NaN if every sample was discarded.
    """
    context.begin(task, "timing after other work", op)
    series = replace(hot, seconds=[])
    rule = context.rule.short(min_samples=3)
    timing.take_round(series, context.device, rule, in_use=True)
    return timing.quartiles(series).median


def time_update(context: Context, task: Task, fmt: Format, op: str) -> float:
    """Seconds of putting new values where the format stores them, hot, in a tenth of a case's budget; NaN if the
    settings do not ask for it, if values decide what is stored, and if memory for it runs out.

    The values go to arrays of zeros. Raises Wrong if these are not the format's afterwards, bit for bit. A program or a
    library may keep a copy: it takes twice the values first, and is wrong if its product is not twice as large.
    """
    if not context.settings.update:
        return math.nan
    context.begin(task, "timing new values", op)
    device, a = context.device, context.references.device_stored
    rule = context.rule.short()
    try:
        with converting_for(device.limits):
            if (places := refilling.places(fmt, a)) is None:
                return math.nan
        if any(isinstance(step, Call) for step in context.launches(fmt, op)):
            doubled = fmt.with_arrays(lambda name, array: array.copy() if name in places.moves else array)
            program = device.compile(context.launches(doubled, op))
            device.compile(places.launches(doubled, 2 * a.values)).run()
            twice = [replace(r, y=2 * r.y, bound=2 * r.bound) for r in context.references.checks[op].dense]
            check(context, context.run(doubled, program, op), op, twice, "with twice the values")
        empty = fmt.with_arrays(lambda name, array: fmt.xp.zeros_like(array) if name in places.moves else array)
        program = device.compile(places.launches(empty, a.values))
        series = timing.prepare(program, device, "hot", rule)
        timing.take_round(series, device, rule)
        device.synchronize()
    except OUT_OF_MEMORY as error:
        context.reject(error)
        return math.nan
    for name in places.moves:
        written, stored = (each.arrays()[name].reshape(-1).view(np.uint8) for each in (empty, fmt))
        if bool((written != stored).any()):
            raise Wrong(f"new values in place gave another {name} than conversion", math.nan)
    return timing.quartiles(series).median if series.seconds else math.nan


def time_kernels(context: Context, task: Task, bound: Bound, op: str) -> dict[str, float]:
    """Kernel breakdown: seconds of each named part alone, hot, in a tenth of a case's budget. Leaves y undefined."""
    rule = context.rule.short()
    found = {}
    for part, launches in by_part(bound.steps).items():
        context.begin(task, f"timing {part}", op)
        series = timing.prepare(context.device.compile(launches), context.device, "hot", rule)
        timing.take_round(series, context.device, rule)
        if series.seconds:
            found[part] = timing.quartiles(series).median
    return found


def trace_levels(context: Context, task: Task, fmt: Format, op: str) -> dict[str, Any]:
    """Time, kernel and size of each level of one search, if the format traces them. Raises Wrong."""
    x, y, device = context.x[op], context.y, context.device
    traced = fmt.traced(x, y)
    if not traced:
        return {}
    context.begin(task, "tracing levels", op)
    steps, trace = traced
    timed = context.references.checks[op].timed
    work = device.capture(device.compile(steps), 1)
    for _ in range(3):  # the first warms up
        placed = verify.set_x(fmt, timed, x)
        y[...], trace[...] = verify.garbage(y), 0
        device.elapsed(work)
        raise_if_wrong(verify.verify_result(fmt, x, y, placed, timed), context.named("tracing levels", op))
    clock, kernel = device.to_host(trace)[:MAX_LEVELS].T
    count = 1 + int(np.count_nonzero(kernel[1:]))
    level = device.to_host(timed.y).astype(np.int64)
    return {
        "level_seconds": (1e-9 * np.diff(clock[:count])).tolist(),
        "level_kernel": kernel[1:count].tolist(),
        "level_found": np.bincount(level[level >= 0], minlength=count)[1:count].tolist(),
    }


def by_part(launches: list[Launch | Call | Loop]) -> dict[str, list[Launch | Call | Loop]]:
    """The launches of each named part that has work, in order; launches without a name belong to no part."""
    found: dict[str, list[Launch | Call | Loop]] = {}
    for launch in launches:
        if launch.part and (not isinstance(launch, Launch) or np.all(launch.grid)):
            found.setdefault(launch.part, []).append(launch)
    return found
