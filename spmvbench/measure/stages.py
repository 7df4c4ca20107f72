"""Stages of measuring one format.

    convert_on_host -> verify_integers -> convert -> decode -> bind -> verify_answers
        -> take_samples (each round) -> finish

Each stage is a function of the data that the formats of a group share (`Context`), the format (`Task`) and the results
of earlier stages. It returns a frozen result. A stage that finds a wrong result raises Wrong; `failure_of` turns any
exception of a stage into a Failure. `row` makes the row from these results.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import formats, paths
from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory, Program, Throttling
from spmvbench.devices.guards import Guards
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Format, Launch, Loop, Skip
from spmvbench.formats.arrays import cdiv
from spmvbench.formats.conversion import Tuning
from spmvbench.formats.dependencies import check_sources
from spmvbench.formats.footprint import bytes_read, footprint
from spmvbench.formats.launches import ctype
from spmvbench.formats.registry import REGISTRY
from spmvbench.formats.vectors import parts
from spmvbench.measure import bounds, energy, timing, verify
from spmvbench.measure.cases import Case, Settings
from spmvbench.measure.matrix_cache import CONVERTING, preparation_lock
from spmvbench.measure.operations import Operation
from spmvbench.measure.program import program_hash
from spmvbench.measure.protocol import WAITING, Link
from spmvbench.measure.references import References

COMPILING = "compiling"
MAX_LEVELS = 2000  # of a search, in a row
REPEAT_CONVERSION_SECONDS = 0.02  # seconds of conversions, before another one begins
MAX_DECODED_ENTRIES = 1 << 27  # larger matrices are not decoded: sorting takes seconds and GBs
MAX_DISCARDED = 10  # formats without a sample, until the GPU is given up
X_CHANGED_PAIRS = 8  # minimum pairs of changes of x in one sample
X_CHANGED_SECONDS = 32e-3  # fewer pairs, at least one, where the SpMVs of one sample would take longer
X_CHANGED_SLOWER = 1.25  # work is skipped if an SpMV takes so many times longer while x changes
X_CHANGED_TRIES = 4
X_CHANGED_ALLOWANCE = 2e-6  # seconds: two more graph nodes and a colder x, for a short SpMV


class Wrong(Exception):
    """A check failed. ratio: the error as a fraction of its bound; NaN if an array was overwritten."""

    def __init__(self, reason: str, ratio: float = math.nan):
        super().__init__(reason)
        self.ratio = ratio


@dataclass(frozen=True)
class Failure:
    """Why a case has no time: the columns of its row. bytes_*: if a size was the reason."""

    status: str
    reason: str
    bytes_needed: int = 0
    bytes_limit: int = 0


@dataclass(frozen=True)
class Task:
    """One format of a group with its parameters. index: its place in the group. cases: its operations and modes."""

    index: int
    cases: tuple[Case, ...]

    @property
    def cls(self) -> type[Format]:
        """The format's class."""
        return formats.get(self.cases[0].format)

    @property
    def params(self) -> Mapping[str, Any]:
        """The value of every parameter."""
        return self.cases[0].params

    @property
    def label(self) -> str:
        """The format's name in tables."""
        return self.cases[0].label

    @property
    def ops(self) -> list[str]:
        """Names of its operations, without repeats."""
        return list(dict.fromkeys(case.op for case in self.cases))


@dataclass
class Context:
    """Data that the formats of a group share: the device, the matrix with its references, x and y on the device.

    x: by operation; all operations write the same y. read_again: makes `references` anew after a format has changed
    them. waited: seconds that stages have waited for other processes. counts_energy: False once the device's counter of
    joules has failed for a format: it is not waited for again. discarded: formats, one after the other, of which every
    sample of a mode was discarded.
    """

    link: Link
    device: Device
    settings: Settings
    facts: dict[str, Any]
    rule: timing.Rule
    ops: dict[str, Operation]
    references: References
    fetched: bounds.Fetched
    read_again: Callable[[], References]
    waited: float = 0.0
    counts_energy: bool = True
    discarded: int = 0

    def __post_init__(self) -> None:
        self.guards = Guards(self.device)
        vectors = {name: op.vectors(self.references.a) for name, op in self.ops.items()}
        self.x = {
            name: self.guards.hold_vector("x" if len(vectors) == 1 else f"x of {name}", x)
            for name, (x, _) in vectors.items()
        }
        self.y = self.guards.hold("y", self.device.to_device(next(iter(vectors.values()))[1]))
        self.guards.watch()
        self._change_x_seconds: dict[str, float] = {}

    def products(self, task: Task) -> list[str]:
        """The task's operations, with that of its products in place of a solver."""
        return list(dict.fromkeys(self.ops[op].product or op for op in task.ops))

    def launches(self, fmt: Format, op: str) -> list[Launch | Call | Loop]:
        """The launches of a format for an operation, bound to its x and y. Raises Skip as `Precision.launches` does."""
        found = self.ops[op].launches(fmt, self.x[op], self.y, self.references.checks[op], self.device)
        return self.references.precision.launches(found)

    def begin(self, task: Task, stage: str, op: str = "") -> None:
        """Report to the parent that a stage of a format begins; with the operation if there are several."""
        self.link.begin(task.index, self.named(stage, op))

    def named(self, stage: str, op: str = "") -> str:
        """The text of a stage or check, with the operation if there are several."""
        return stage if not op or len(self.ops) == 1 else f"{stage}, {op}"

    def inspect(self, guards: Guards | None) -> None:
        """Restore shared arrays that a format has overwritten. Raises Wrong if there are any."""
        self.device.synchronize()
        beyond = [name for watched in (self.guards, guards) if watched for name in watched.overwritten()]
        changed = self.references.changed()
        if changed:
            self.references = self.read_again()
        written = [*(f"wrote beyond {name}" for name in beyond), *(f"changed the shared {name}" for name in changed)]
        if written:
            raise Wrong(f"{' and '.join(written)} while {self.link.stage}")

    def change_x_seconds(self, op: str) -> float:
        """Seconds of one change of x alone, in a graph of many changes; the same for all formats."""
        if op not in self._change_x_seconds:
            rule = replace(self.rule, rounds=1, budget=self.rule.budget / 10)
            series = timing.prepare(self.device.compile([self.change_x(op)]), self.device, "hot", rule)
            timing.take_round(series, self.device, rule)
            self._change_x_seconds[op] = timing.summary(series)["t_median"]
        return self._change_x_seconds[op]

    def change_x(self, op: str) -> Launch:
        """The launch that changes x in place; two of them leave x as it was.

        Values change their sign. A search's source alternates between the two sources that its references know.
        """
        values = parts(self.x[op])[-1]
        total = 0
        if values.dtype.kind != "f":
            first, second = (int(parts(reference.x)[0][0]) for reference in self.references.checks[op].dense[:2])
            total = first + second
        args = (values, values.dtype.type(total), np.int64(len(values)))
        return Launch("vector.cu", f"reflect<{ctype(values)}>", cdiv(len(values), 256), 256, args)


@dataclass(frozen=True)
class HostConversion:
    """Conversion on the host. seconds, transfer: NaN if left out. fmt: kept if host and device share memory."""

    fmt: Format | None = None
    seconds: float = math.nan
    transfer: float = math.nan


@dataclass(frozen=True)
class IntegerTest:
    """Result of the exact integer test. passed: False if it was not possible. compile: seconds. error: the largest, as
    a fraction of its bound. in_use: as `Format.in_use`; None if there was no test. peak: bytes allocated while
    parameters were searched; 0 if they were not.
    """

    passed: bool
    compile: float = 0.0
    error: float = math.nan
    in_use: Mapping[str, Any] | None = None
    peak: int = 0


@dataclass(frozen=True)
class Converted:
    """A format between guards in device memory. seconds: of the conversion on the device, search for parameters
    included; peak: bytes allocated meanwhile. search: seconds of that search; NaN if there was none.
    """

    fmt: Format
    guards: Guards
    seconds: float = math.nan
    peak: int = 0
    search: float = math.nan


@dataclass(frozen=True)
class Decoded:
    """Whether decoding the arrays reproduces the matrix: ``yes``, or ``no`` with the reason. seconds: its duration."""

    decoded: str
    seconds: float = math.nan


@dataclass(frozen=True)
class Bound:
    """Launches of a format for one operation, bound to its x and y.

    steps: the launches. setup: seconds to make them, and seconds of setup during the conversion. workspace: bytes of
    arrays that are not fields of the format. read: minimum bytes that a product reads of all arrays. program_hash: see
    `program.program_hash`.
    """

    program: Program
    steps: list[Launch | Call | Loop]
    setup: float
    workspace: int
    read: int
    program_hash: str
    detail: dict[str, Any]


@dataclass(frozen=True)
class Finished:
    """Results of one operation after the last round. t_kernels: the kernel breakdown, seconds by part. detail: levels
    of a search.

    t_x_changed: seconds of one SpMV by mode while x changes before each, without the time of the change itself. energy:
    of one SpMV, hot.
    """

    t_kernels: dict[str, float]
    t_x_changed: dict[str, float]
    detail: dict[str, Any]
    energy: energy.Energy


def convert_on_host(context: Context, task: Task) -> HostConversion:
    """Skip a format that would not fit; convert on the host; time the conversion and the copy to the device. Raises
    Skip.
    """
    device, references = context.device, context.references
    limit = context.settings.max_bytes or device.default_max_bytes
    on_device = device.kind == "cuda"
    on_host = context.settings.convert == "both" or not on_device  # an emulated device shares the host's memory
    context.begin(task, "converting on the host" if on_host else "converting on the device")
    task.cls.refuse_beyond(limit, references.stored if on_host else references.device_stored.fresh(), **task.params)
    if not on_host:
        return HostConversion()
    a = references.stored.fresh()  # without derived arrays that another format has computed
    with _exclusively(context, task):
        fmt, seconds = timing.timed(lambda: task.cls.converted(a, **task.params))
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
    began = time.perf_counter()
    context.begin(task, WAITING)
    with paths.locked(lock):
        context.waited += time.perf_counter() - began
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
        integers = verify.integer_matrix(context.references.device_a)
        if integers is None:
            return IntegerTest(False)
        integers = context.references.precision.integers(integers)

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
        arrays = fmt, program, context.device, context.x[op], context.y
        verdict = verify.run_and_verify(*arrays, cases, ("garbage", "stale"))
        context.inspect(guards)
        error = max(error, _raise_if_wrong(verdict, context.named("exact integer test", op)))
        error = max(error, repeat(context, task, op, fmt, program, cases[1]))
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

    Short conversions: the median of three, because delays of the host are as long as the conversion.
    """
    seconds, search, peak = math.nan, math.nan, 0

    def timed() -> Format:
        nonlocal seconds, search, peak
        fmt, seconds, peak = _timed_on_device(context, task, tuning, warm=integer_test.passed)
        search = tuning.seconds if tuning.asked else math.nan
        return fmt

    fmt, guards = _guarded(context, timed)
    peak = max(peak, integer_test.peak + context.references.device_stored.nbytes if integer_test.peak else 0)
    return Converted(fmt, guards, seconds, peak, search)


def _timed_on_device(context: Context, task: Task, tuning: Tuning, warm: bool) -> tuple[Format, float, int]:
    """The format, seconds of its conversion and bytes allocated meanwhile, see `_converted_on_device`."""
    device, device_a = context.device, context.references.device_stored

    def once(warm_up: bool = False) -> Format:
        tuning.begin(warm_up=warm_up)
        fmt = task.cls.converted(device_a.fresh(), **task.params)
        device.synchronize()
        return fmt

    if not warm:
        once(warm_up=True)
    held = _reset_memory_peak(device)
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < REPEAT_CONVERSION_SECONDS:
        fmt = None  # memory may be too small for two
        fmt, latest = timing.timed(once)
        seconds.append(latest + tuning.uncounted)
    assert fmt is not None
    return fmt, float(np.median(seconds)), (device.memory_peak() or 0) - held + device_a.nbytes


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
    began = time.perf_counter()
    try:
        difference = verify.decoding_difference(fmt, a)
        context.device.synchronize()
    except (MemoryError, OutOfDeviceMemory):  # CuPy's is a subclass of MemoryError
        return Decoded("no: out of memory")
    if difference:
        raise Wrong(f"{difference} (decoded)")
    return Decoded("yes", time.perf_counter() - began)


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
    if not math.isnan(converted.search):
        detail |= {"search_seconds": converted.search}
    if program.host_driven:
        detail |= {"driven_by": program.host_driven}
    found = footprint(fmt, launches, x, y)
    same = program_hash(fmt, launches, device, x, y, program.code_hash)
    setup += fmt.setup_seconds
    workspace, read = sum(found.values()) - fmt.nbytes, bytes_read(fmt, found, launches)
    return Bound(program, launches, setup, workspace, read, same, detail)


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
    checks = context.references.checks[op]
    error = check(context, fmt, program, op, [*checks.dense, checks.dense[0]], "before timing")
    error = max(error, check(context, fmt, program, op, checks.sparse, "in a group of columns", ("stale", "garbage")))
    if not integer_test.passed:
        error = max(error, repeat(context, task, op, fmt, program, checks.timed))
    return error


def check(
    context: Context,
    fmt: Format,
    program: Program,
    op: str,
    references: list[verify.Reference],
    when: str,
    starts: tuple[str, ...] = verify.STARTS,
) -> float:
    """Run the format for each reference. Returns the largest error as a fraction of its bound. Raises Wrong."""
    arrays = fmt, program, context.device, context.x[op], context.y
    return _raise_if_wrong(verify.run_and_verify(*arrays, references, starts), context.named(when, op))


def repeat(context: Context, task: Task, op: str, fmt: Format, program: Program, reference: verify.Reference) -> float:
    """Verify many runs one by one. Returns the largest error as a fraction of its bound. Raises Wrong."""
    context.begin(task, "checking many runs", op)
    most, share = context.rule.verified_runs
    arrays = fmt, program, context.device, context.x[op], context.y
    verdict = verify.repeat_and_verify(*arrays, reference, most, share * context.rule.budget)
    return _raise_if_wrong(verdict, context.named("in one of many runs", op))


def _raise_if_wrong(verdict: verify.Verdict, when: str) -> float:
    if not verdict.passed:
        raise Wrong(f"{verdict} ({when})", verdict.ratio)
    return verdict.ratio


def prepare_series(context: Context, task: Task, fmt: Format, bound: Bound, case: Case) -> timing.Series:
    """Capture the work of one sample; nothing is sampled yet."""
    context.begin(task, f"timing {case.mode}", case.op)
    verify.set_x(fmt, context.references.checks[case.op].timed, context.x[case.op])
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
    context.device.synchronize()
    verdict = verify.verify_result(fmt, x, context.y, placed, reference)
    return _raise_if_wrong(verdict, context.named(f"left by a sample, {case.mode}", case.op))


def time_with_changing_x(
    context: Context, task: Task, fmt: Format, bound: Bound, case: Case, series: timing.Series
) -> float:
    """Seconds of one SpMV while x changes before each, without the time of the change: one short series. Raises Wrong.

    It detects programs that skip work while x stays the same, and programs that worked only during their first capture.
    Their y is wrong, or their time exceeds X_CHANGED_SLOWER times that of the SpMVs before. The comparison fails only
    after X_CHANGED_TRIES tries, because another process on the device can slow down single series. NaN if every sample
    was discarded. Times of an emulated device are not compared.
    """
    context.begin(task, f"timing {case.mode} while x changes", case.op)
    changes = _changes_of_x(series)
    seconds = _seconds_with_changing_x(context, fmt, bound, case, changes)
    if context.device.kind != "cuda":
        return seconds
    rule = replace(context.rule, rounds=1, budget=context.rule.budget / 10)
    before, tries = series, 1
    while _skips_work(context, case, before, seconds):
        if tries == X_CHANGED_TRIES:
            without = timing.summary(before)["t_median"]
            raise Wrong(
                f"{seconds:.3g} s while x changes between SpMVs, {without:.3g} s while it does not: work is skipped "
                f"({context.named(case.mode, case.op)})"
            )
        verify.set_x(fmt, context.references.checks[case.op].timed, context.x[case.op])
        before, tries = replace(series, seconds=[]), tries + 1
        timing.take_round(before, context.device, rule)
        seconds = _seconds_with_changing_x(context, fmt, bound, case, changes)
    return seconds


def _changes_of_x(series: timing.Series) -> int:
    """How often x changes in one sample: before each of its SpMVs, and an even number, so that x ends as it began."""
    seconds = timing.summary(series)["t_median"]
    pairs = X_CHANGED_PAIRS
    if seconds > 0:  # not NaN
        pairs = min(pairs, max(math.floor(X_CHANGED_SECONDS / (2 * seconds)), 1))
    return 2 * max(series.repeats // 2, pairs)


def _seconds_with_changing_x(context: Context, fmt: Format, bound: Bound, case: Case, changes: int) -> float:
    """The median of a few samples, see `time_with_changing_x`; y is verified after the last."""
    device, rule, op, y = context.device, context.rule, case.op, context.y
    x, checks, change = context.x[op], context.references.checks[op], context.change_x(op)
    timed_alone = case.mode == "hot" and rule.sample > 0
    cost = (
        context.change_x_seconds(op) if timed_alone else 0.0
    )  # before x is set: it changes x an unknown number of times
    searched = 0.0
    if parts(x)[-1].dtype.kind != "f":  # half of the searches start from the other source, whose time is measured apart
        verify.set_x(fmt, checks.dense[0], x)
        once = device.capture(bound.program, 1)
        searched = float(np.median([device.elapsed(once) for _ in range(changes)]))
    placed = verify.set_x(fmt, checks.timed, x)
    y[...] = verify.garbage(y)
    device.synchronize()
    if timed_alone:
        work = device.capture(device.compile([change, *bound.steps]), changes)
        series = timing.Series(work, changes, flush=False)
        timing.take_round(series, device, replace(rule, rounds=1, budget=rule.budget / 10, spread=0.02))
        samples = [seconds - cost for seconds in series.seconds]
    else:
        changing, work, samples = device.compile([change]), device.capture(bound.program, 1), []
        for _ in range(changes if rule.sample > 0 else 2):
            changing.run()
            samples.append(device.elapsed(work, flush=case.mode == "cold"))
    device.synchronize()
    _raise_if_wrong(
        verify.verify_result(fmt, x, y, placed, checks.timed), context.named(f"while x changes, {case.mode}", op)
    )
    found = float(np.median(samples)) if samples else math.nan
    return max(2 * found - searched, 0.0) if searched else found


def _skips_work(context: Context, case: Case, series: timing.Series, changed: float) -> bool:
    """Whether SpMVs take longer with a changing x than caches explain: x is written before, and written back later."""
    rate = 1e9 * context.facts.get("copy_bandwidth_gbps", math.inf)
    allowed = X_CHANGED_ALLOWANCE + 2 * sum(array.nbytes for array in parts(context.x[case.op])) / rate
    return bool(changed - allowed > X_CHANGED_SLOWER * timing.summary(series)["t_q3"])


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
        if case.op == op
    }
    seconds = time_kernels(context, task, bound, op) if "hot" in series else {}
    used = measure_energy(context, task, op, series["hot"]) if "hot" in series else energy.Energy()
    context.begin(task, "checking again", op)
    dense = context.references.checks[op].dense
    error = check(context, fmt, bound.program, op, dense, "after timing", ("garbage", "stale"))
    levels = trace_levels(context, task, fmt, op) if op.startswith("bfs") and op.endswith("@0") else {}
    return Finished(seconds, changed, levels, used), error


def measure_energy(context: Context, task: Task, op: str, series: timing.Series) -> energy.Energy:
    """Energy of one SpMV, if the settings ask for it. Leaves y undefined."""
    if not context.settings.energy or not context.counts_energy:
        return energy.Energy()
    context.begin(task, "measuring energy", op)
    found = energy.measured(series, context.device, context.settings.energy)
    context.counts_energy = not math.isnan(found.joules)
    return found


def time_kernels(context: Context, task: Task, bound: Bound, op: str) -> dict[str, float]:
    """Kernel breakdown: seconds of each named part alone, hot, in a tenth of a case's budget. Leaves y undefined."""
    rule = replace(context.rule, rounds=1, budget=context.rule.budget / 10)
    found = {}
    for part, launches in by_part(bound.steps).items():
        context.begin(task, f"timing {part}", op)
        series = timing.prepare(context.device.compile(launches), context.device, "hot", rule)
        timing.take_round(series, context.device, rule)
        if series.seconds:
            found[part] = timing.summary(series)["t_median"]
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
        _raise_if_wrong(verify.verify_result(fmt, x, y, placed, timed), context.named("tracing levels", op))
    clock, kernel = device.to_host(trace)[:MAX_LEVELS].T
    count = 1 + int(np.count_nonzero(kernel[1:]))
    level = device.to_host(timed.y).astype(np.int64)
    return {
        "level_seconds": (1e-9 * np.diff(clock[:count])).tolist(),
        "level_kernel": kernel[1:count].tolist(),
        "level_found": np.bincount(level[level >= 0], minlength=count)[1:count].tolist(),
    }


def failure_of(error: Exception, stage: str) -> Failure:
    """The failure that a row reports for an exception."""
    if isinstance(error, Wrong):
        return Failure("wrong", str(error))
    if isinstance(error, Skip):
        return Failure("skipped", error.reason, error.needed_bytes or 0, error.limit_bytes or 0)
    if isinstance(error, MemoryError | OutOfDeviceMemory):
        return Failure("oom", f"out of memory while {stage}: {error}")
    if isinstance(error, DeviceFault):
        return Failure("error" if stage == COMPILING else "crashed", f"fault while {stage}: {error}")
    if isinstance(error, SpmvbenchError):
        return Failure("error", str(error))
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # The innermost frame of this package or of a format's module is more useful than one deep inside NumPy.
    own_folders = {here} | {os.path.dirname(sys.modules[cls.__module__].__file__ or "") for cls in REGISTRY.values()}
    frame = next((f for f in reversed(frames) if f.filename.startswith(tuple(own_folders))), frames[-1])
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return Failure("error", f"{type(error).__name__} while {stage}: {error} ({where})")


def by_part(launches: list[Launch | Call | Loop]) -> dict[str, list[Launch | Call | Loop]]:
    """The launches of each named part that has work, in order; launches without a name belong to no part."""
    found: dict[str, list[Launch | Call | Loop]] = {}
    for launch in launches:
        if launch.part and (not isinstance(launch, Launch) or np.all(launch.grid)):
            found.setdefault(launch.part, []).append(launch)
    return found
