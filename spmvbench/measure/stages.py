"""What is done to one format of a group, stage by stage.

    convert_on_host -> prove -> convert -> decode -> bind -> verify_answers -> take_samples (each round) -> finish

Every stage is a function: it takes what the formats of the group share (`Context`), which format it is (`Task`) and the
results of the stages before, and returns a frozen result. A stage that finds a wrong answer raises Wrong; `failure_of`
makes one Failure of whatever a stage raises. `row.row` makes the row from these results.
"""

from __future__ import annotations

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
from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory, Program
from spmvbench.devices.guards import Guards
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Format, Launch, Loop, Skip
from spmvbench.formats.arrays import cdiv
from spmvbench.formats.base import ctype
from spmvbench.formats.dependencies import check_sources
from spmvbench.formats.footprint import bytes_read, footprint
from spmvbench.formats.vectors import parts
from spmvbench.measure import bounds, timing, verify
from spmvbench.measure.cases import Case, Settings
from spmvbench.measure.matrix_cache import CONVERTING
from spmvbench.measure.operations import Operation
from spmvbench.measure.program import program_hash
from spmvbench.measure.protocol import WAITING, Link
from spmvbench.measure.references import Shared

COMPILING = "compiling"
MOST_LEVELS = 2000  # of a search that rows keep
CONVERSIONS = 0.02  # seconds that converting again for a better time may have begun after
DECODED_ENTRIES = 1 << 27  # of the largest matrix that is decoded: beyond it the sort takes seconds and its memory GBs
X_CHANGED_PAIRS = 8  # least changes of x, two at a time, in one sample with a changing x
X_CHANGED_SLOWER = 1.25  # times as slow with a changing x as without, beyond all that caches explain: work is skipped
X_CHANGED_TRIES = 4
X_CHANGED_ALLOWANCE = 2e-6  # seconds: what two more nodes of a graph, and a colder x, cost a short SpMV


class Wrong(Exception):
    """A check failed. ratio: the error of the verdict over its bound; NaN where what was written is another's."""

    def __init__(self, reason: str, ratio: float = math.nan):
        super().__init__(reason)
        self.ratio = ratio


@dataclass(frozen=True)
class Failure:
    """Why a case has no time: the columns of its row. bytes_*: where a size was the reason."""

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
        """The format."""
        return formats.get(self.cases[0].format)

    @property
    def params(self) -> Mapping[str, Any]:
        """The value of every parameter."""
        return self.cases[0].params

    @property
    def label(self) -> str:
        """The format as tables name it."""
        return self.cases[0].label

    @property
    def ops(self) -> list[str]:
        """The names of its operations, each once."""
        return list(dict.fromkeys(case.op for case in self.cases))


@dataclass
class Context:
    """What the formats of a group share: the device, the matrix with its right answers, x and y on the device.

    x: by operation; all write one y. read_again: makes `shared` anew, after a format has changed it. waited: seconds
    that stages have waited for other processes.
    """

    link: Link
    device: Device
    settings: Settings
    facts: dict[str, Any]
    rule: timing.Rule
    ops: dict[str, Operation]
    shared: Shared
    fetched: bounds.Fetched
    read_again: Callable[[], Shared]
    waited: float = 0.0

    def __post_init__(self) -> None:
        self.guards = Guards(self.device)
        vectors = {name: op.vectors(self.shared.a) for name, op in self.ops.items()}
        self.x = {
            name: self.guards.hold_vector("x" if len(vectors) == 1 else f"x of {name}", x)
            for name, (x, _) in vectors.items()
        }
        self.y = self.guards.hold_vector("y", next(iter(vectors.values()))[1])
        self.guards.watch()
        self._flips: dict[str, float] = {}

    def begin(self, task: Task, stage: str, op: str = "") -> None:
        """Tell the parent which stage of which format begins; with the operation where there are several."""
        self.link.begin(task.index, self.named(stage, op))

    def named(self, stage: str, op: str = "") -> str:
        """A stage, or when a check was, in words."""
        return stage if not op or len(self.ops) == 1 else f"{stage}, {op}"

    def inspect(self, guards: Guards | None) -> None:
        """Restores shared arrays that a format has overwritten. Raises Wrong where there are any."""
        self.device.synchronize()
        beside = [name for held in (self.guards, guards) if held for name in held.overwritten()]
        altered = self.shared.altered()
        if altered:
            self.shared = self.read_again()
        written = [*(f"wrote beyond {name}" for name in beside), *(f"changed the shared {name}" for name in altered)]
        if written:
            raise Wrong(f"{' and '.join(written)} while {self.link.stage}")

    def flip_seconds(self, op: str) -> float:
        """Seconds that one change of x takes by itself, in a graph of many: the same for all formats."""
        if op not in self._flips:
            rule = replace(self.rule, rounds=1, budget=self.rule.budget / 10)
            series = timing.prepare(self.device.compile([self.flip(op)]), self.device, "hot", rule)
            timing.take_round(series, self.device, rule)
            self._flips[op] = timing.summary(series)["t_median"]
        return self._flips[op]

    def flip(self, op: str) -> Launch:
        """The launch that changes x, in place; run twice, it leaves x as it was.

        Values change their sign. A search's source becomes another and back: the two that its checks know.
        """
        values = parts(self.x[op])[-1]
        total = 0
        if values.dtype.kind != "f":
            first, second = (int(reference.x[0]) for reference in self.shared.checks[op].dense[:2])
            total = first + second
        args = (values, values.dtype.type(total), np.int64(len(values)))
        return Launch("vector.cu", f"reflect<{ctype(values)}>", cdiv(len(values), 256), 256, args)


@dataclass(frozen=True)
class HostConversion:
    """Conversion on the host. seconds, transfer: NaN where left out. fmt: kept where host and device share memory."""

    fmt: Format | None = None
    seconds: float = math.nan
    transfer: float = math.nan


@dataclass(frozen=True)
class Proof:
    """The exact integer test. passed: False where there was none. compile: seconds. error: largest over its bound."""

    passed: bool
    compile: float = 0.0
    error: float = math.nan


@dataclass(frozen=True)
class Converted:
    """A format between guards in the device's memory. seconds: of its conversion there; peak: bytes held meanwhile."""

    fmt: Format
    guards: Guards
    seconds: float = math.nan
    peak: int = 0


@dataclass(frozen=True)
class Decoded:
    """Whether decoding the arrays gave the matrix back: ``yes``, or ``no`` with the reason. seconds: what it took."""

    decoded: str
    seconds: float = math.nan


@dataclass(frozen=True)
class Bound:
    """A format's launches for one operation, bound to its x and y.

    steps: its launches. setup: seconds that making them took, and of work kept from before the conversion. workspace:
    bytes of arrays that are no field of the format. read: bytes of all arrays that a product reads at least.
    program_hash: as `program.program_hash`.
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
    """What is found of one operation after the last round. t_parts: seconds by part. detail: levels of a search.

    t_x_changed: seconds of one SpMV by mode while x changes before each, the change's own time taken off.
    """

    t_parts: dict[str, float]
    t_x_changed: dict[str, float]
    detail: dict[str, Any]


def convert_on_host(context: Context, task: Task) -> HostConversion:
    """Refuses what would not fit; converts on the host, and times that and the copy to the device. Raises Skip."""
    device, shared = context.device, context.shared
    limit = context.settings.max_bytes or device.default_max_bytes
    on_device = device.kind == "cuda"
    on_host = context.settings.convert == "both" or not on_device  # an emulated device's memory is the host's
    context.begin(task, "converting on the host" if on_host else "converting on the device")
    task.cls.refuse_beyond(limit, shared.a if on_host else shared.device_a.fresh(), **task.params)
    if not on_host:
        return HostConversion()
    a = shared.a.fresh()  # what another format has asked for would be had for nothing
    with _alone(context, task):
        fmt, seconds = timing.timed(lambda: task.cls.converted(a, **task.params))
    if not on_device:
        return HostConversion(fmt, seconds)
    context.begin(task, "moving to the device")

    def move() -> list[Any]:
        moved = [device.to_device(array) for array in fmt.arrays().values()]
        device.synchronize()
        return moved

    return HostConversion(None, seconds, timing.timed(move)[1])


@contextmanager
def _alone(context: Context, task: Task) -> Iterator[None]:
    """While no other process of this host times a conversion. Waiting for that is no time of the case's."""
    if context.settings.per_host is None:
        yield
        return
    stage, began = context.link.stage, time.perf_counter()
    context.begin(task, WAITING)
    with paths.turn(Path(context.settings.per_host) / CONVERTING):
        context.waited += time.perf_counter() - began
        context.begin(task, stage)
        yield


def prove(context: Context, task: Task) -> Proof:
    """The exact integer test: converts the matrix with whole numbers for values; products are right to the last bit.

    Nothing is proven where there is no such twin, or where the format refuses it for its values. Raises Wrong.
    """
    context.begin(task, "converting whole numbers")
    checks = context.shared.checks
    if not all(checks[op].whole for op in task.ops):
        return Proof(False)
    try:
        twin = verify.twin(context.shared.device_a)
        fmt, guards = _guarded(context, lambda: task.cls.converted(twin, **task.params))
    except Skip:
        return Proof(False)
    compiling, error = 0.0, 0.0
    for op in task.ops:
        context.begin(task, COMPILING)
        program = context.device.compile(fmt.launches(context.x[op], context.y))
        compiling += program.compile_seconds
        context.begin(task, "checking whole numbers", op)
        whole = checks[op].whole
        arrays = fmt, program, context.device, context.x[op], context.y
        verdict = verify.run_and_judge(*arrays, whole, ("garbage", "stale"))
        context.inspect(guards)
        error = max(error, _judged(verdict, context.named("whole numbers", op)))
        error = max(error, repeat(context, task, op, fmt, program, whole[1]))
    context.inspect(guards)
    return Proof(True, compiling, error)


def convert(context: Context, task: Task, host: HostConversion, proof: Proof) -> Converted:
    """The matrix in the format, in the device's memory, between guards."""
    if host.fmt is not None:
        found = host.fmt
        return Converted(*_guarded(context, lambda: found))
    context.begin(task, "converting on the device")
    seconds, peak = math.nan, 0

    def timed() -> Format:
        nonlocal seconds, peak
        fmt, seconds, peak = _converted_on_device(context, task, warm=proof.passed)
        return fmt

    fmt, guards = _guarded(context, timed)
    return Converted(fmt, guards, seconds, peak)


def _converted_on_device(context: Context, task: Task, warm: bool) -> tuple[Format, float, int]:
    """Timed once it is warm: a first time compiles CuPy's own kernels and fills its memory pool.

    The median of three where they are short, for the host's own delays are as long as a short one.
    """
    device, device_a = context.device, context.shared.device_a

    def once() -> Format:
        fmt = task.cls.converted(device_a.fresh(), **task.params)
        device.synchronize()
        return fmt

    if not warm:
        once()
    device.reset_memory_peak()
    held = device.memory_peak() or 0
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < CONVERSIONS:
        fmt = None  # two of them may not fit
        fmt, latest = timing.timed(once)
        seconds.append(latest)
    assert fmt is not None
    return fmt, float(np.median(seconds)), (device.memory_peak() or 0) - held + device_a.nbytes


def _guarded(context: Context, make: Callable[[], Format]) -> tuple[Format, Guards]:
    """The format that `make` gives, in memory of its own, between guards."""
    guards = Guards(context.device)
    with guards.leaving_room():
        fmt = make()
    return guards.hold_format(fmt), guards


def decode(context: Context, task: Task, fmt: Format) -> Decoded:
    """Proves the conversion apart from any kernel: the arrays, decoded, give the matrix back, values bit for bit.

    Raises Wrong, with the first entry that differs. A matrix beyond DECODED_ENTRIES is left out, and so is one whose
    decoding needs more memory than there is.
    """
    a = context.shared.device_a
    if a.nnz > DECODED_ENTRIES:
        return Decoded(f"no: over {DECODED_ENTRIES:,} entries")
    context.begin(task, "decoding")
    began = time.perf_counter()
    try:
        difference = verify.decoding_difference(fmt, a)
        context.device.synchronize()
    except (MemoryError, OutOfDeviceMemory):  # CuPy's is a MemoryError
        return Decoded("no: out of memory")
    if difference:
        raise Wrong(f"{difference} (decoded)")
    return Decoded("yes", time.perf_counter() - began)


def bind(context: Context, task: Task, fmt: Format, op: str, *, warm: bool) -> Bound:
    """The format's launches for this operation's x, compiled. Making them is setup: its time is taken."""
    context.begin(task, COMPILING)
    x, y, device = context.x[op], context.y, context.device
    if not warm:  # what a process does once, such as loading a library, is no format's time
        replace(fmt).launches(x, y)
        device.synchronize()

    def made() -> list[Launch | Call | Loop]:
        found = list(fmt.launches(x, y))
        device.synchronize()
        return found

    launches, setup = timing.timed(made)
    check_sources(task.cls, launches)
    program = device.compile(launches)
    detail = context.shared.checks[op].facts | fmt.detail
    if program.host_driven:
        detail |= {"driven_by": "the host, between levels: its graphs have no loops before CUDA 12.4"}
    found = footprint(fmt, launches, x, y)
    same = program_hash(fmt, launches, device, x, y, program.code_hash)
    setup += fmt.setup_seconds
    return Bound(program, launches, setup, sum(found.values()) - fmt.nbytes, bytes_read(fmt, found), same, detail)


def verify_answers(context: Context, task: Task, fmt: Format, bound: Bound, op: str, proof: Proof) -> float:
    """The checks before timing: dense x, sparse x, and many runs where the twin had none. Raises Wrong.

    Returns the largest error over its bound.
    """
    context.begin(task, "checking", op)
    checks = context.shared.checks[op]
    error = check(context, fmt, bound, op, [*checks.dense, checks.dense[0]], "before timing")
    error = max(error, check(context, fmt, bound, op, checks.sparse, "in a group of columns", ("stale", "garbage")))
    if not proof.passed:
        error = max(error, repeat(context, task, op, fmt, bound.program, checks.timed))
    return error


def check(
    context: Context,
    fmt: Format,
    bound: Bound,
    op: str,
    references: list[verify.Reference],
    when: str,
    starts: tuple[str, ...] = verify.STARTS,
) -> float:
    """Runs the format for each reference. Returns the largest error over its bound. Raises Wrong."""
    arrays = fmt, bound.program, context.device, context.x[op], context.y
    return _judged(verify.run_and_judge(*arrays, references, starts), context.named(when, op))


def repeat(context: Context, task: Task, op: str, fmt: Format, program: Program, reference: verify.Reference) -> float:
    """Judges many runs one by one. Returns the largest error over its bound. Raises Wrong."""
    context.begin(task, "checking many runs", op)
    most, share = context.rule.judged
    arrays = fmt, program, context.device, context.x[op], context.y
    verdict = verify.repeat_and_judge(*arrays, reference, most, share * context.rule.budget)
    return _judged(verdict, context.named("in one of many runs", op))


def _judged(verdict: verify.Verdict, when: str) -> float:
    if not verdict.right:
        raise Wrong(f"{verdict} ({when})", verdict.ratio)
    return verdict.ratio


def prepare_series(context: Context, task: Task, fmt: Format, bound: Bound, case: Case) -> timing.Series:
    """The work of one sample, captured; nothing is sampled yet."""
    context.begin(task, f"timing {case.mode}", case.op)
    verify.put(fmt, context.shared.checks[case.op].timed, context.x[case.op])
    return timing.prepare(bound.program, context.device, case.mode, context.rule)


def take_samples(context: Context, task: Task, fmt: Format, case: Case, series: timing.Series) -> float:
    """Adds one round of samples to the series. Returns the largest error of the y that the last one left. Raises Wrong.

    y holds garbage when the first sample begins, not when the work is captured: a call that does its work only while it
    is captured for the first time leaves that garbage.
    """
    x, reference = context.x[case.op], context.shared.checks[case.op].timed
    context.begin(task, f"timing {case.mode}", case.op)
    placed = verify.put(fmt, reference, x)
    context.y[...] = verify.garbage(context.y)
    context.device.synchronize()
    timing.take_round(series, context.device, context.rule)
    context.device.synchronize()
    verdict = verify.judge_left(fmt, x, context.y, placed, reference)
    return _judged(verdict, context.named(f"left by a sample, {case.mode}", case.op))


def vary_x(context: Context, task: Task, fmt: Format, bound: Bound, case: Case, series: timing.Series) -> float:
    """Seconds of one SpMV while x changes before each, the change's own time taken off: one short series.

    A program that skips work while x stays the same, or that did its work only while it was first captured, shows here:
    as a wrong y, or as a time over X_CHANGED_SLOWER times that of SpMVs before it, X_CHANGED_TRIES times in a row:
    another process on the device slows single series down. Raises Wrong. NaN where every sample was discarded. Times of
    an emulated device are not compared.
    """
    context.begin(task, f"timing {case.mode} while x changes", case.op)
    seconds = _seconds_with_changing_x(context, fmt, bound, case, series.repeats)
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
        verify.put(fmt, context.shared.checks[case.op].timed, context.x[case.op])
        before, tries = replace(series, seconds=[]), tries + 1
        timing.take_round(before, context.device, rule)
        seconds = _seconds_with_changing_x(context, fmt, bound, case, series.repeats)
    return seconds


def _seconds_with_changing_x(context: Context, fmt: Format, bound: Bound, case: Case, repeats: int) -> float:
    """The median over a few samples, as `vary_x` says; y is judged after the last."""
    device, rule, op, y = context.device, context.rule, case.op, context.y
    x, checks, flip = context.x[op], context.shared.checks[op], context.flip(op)
    timed_alone = case.mode == "hot" and rule.sample > 0
    cost = context.flip_seconds(op) if timed_alone else 0.0  # before x is put: it changes x, how often is open
    searched = 0.0
    if parts(x)[-1].dtype.kind != "f":  # half of the searches are from the other source, which takes a time of its own
        verify.put(fmt, checks.dense[0], x)
        once = device.capture(bound.program, 1)
        searched = float(np.median([device.elapsed(once) for _ in range(2 * X_CHANGED_PAIRS)]))
    placed = verify.put(fmt, checks.timed, x)
    y[...] = verify.garbage(y)
    device.synchronize()
    if timed_alone:
        changes = 2 * max(repeats // 2, X_CHANGED_PAIRS)  # even: x ends as it began
        work = device.capture(device.compile([flip, *bound.steps]), changes)
        series = timing.Series(work, changes, flush=False)
        timing.take_round(series, device, replace(rule, rounds=1, budget=rule.budget / 10, spread=0.02))
        samples = [seconds - cost for seconds in series.seconds]
    else:
        flipping, work, samples = device.compile([flip]), device.capture(bound.program, 1), []
        for _ in range(2 * X_CHANGED_PAIRS if rule.sample > 0 else 2):
            flipping.run()
            samples.append(device.elapsed(work, flush=case.mode == "cold"))
    device.synchronize()
    _judged(verify.judge_left(fmt, x, y, placed, checks.timed), context.named(f"while x changes, {case.mode}", op))
    found = float(np.median(samples)) if samples else math.nan
    return max(2 * found - searched, 0.0) if searched else found


def _skips_work(context: Context, case: Case, series: timing.Series, changed: float) -> bool:
    """Whether SpMVs take longer with a changing x than caches explain: x was written, and is written back later."""
    rate = 1e9 * context.facts.get("copy_bandwidth_gbps", math.inf)
    allowed = X_CHANGED_ALLOWANCE + 2 * sum(array.nbytes for array in parts(context.x[case.op])) / rate
    return changed - allowed > X_CHANGED_SLOWER * timing.summary(series)["t_q3"]


def finish(
    context: Context, task: Task, fmt: Format, bound: Bound, op: str, series: Mapping[str, timing.Series]
) -> tuple[Finished, float]:
    """What comes after the last round of an operation; its answers are still right. Raises Wrong.

    series: by mode. Returns what was found, and the largest error over its bound.
    """
    discarded = [mode for mode, found in series.items() if not found.seconds]
    if discarded:
        what = " and ".join(context.named(mode, op) for mode in discarded)
        raise RuntimeError(f"every {what} sample was discarded: the device lowered its clocks")
    changed = {
        case.mode: vary_x(context, task, fmt, bound, case, series[case.mode]) for case in task.cases if case.op == op
    }
    seconds = time_parts(context, task, bound, op) if "hot" in series else {}
    context.begin(task, "checking again", op)
    error = check(context, fmt, bound, op, context.shared.checks[op].dense, "after timing", ("garbage", "stale"))
    levels = trace_levels(context, task, fmt, op) if op.startswith("bfs") and op.endswith("@0") else {}
    return Finished(seconds, changed, levels), error


def time_parts(context: Context, task: Task, bound: Bound, op: str) -> dict[str, float]:
    """Seconds of every named part by itself, hot, in a tenth of a case's time. y holds anything afterwards."""
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
    """Time, kernel and size of every level of one search, of a format that tells them. Raises Wrong."""
    x, y, device = context.x[op], context.y, context.device
    traced = fmt.traced(x, y)
    if not traced:
        return {}
    context.begin(task, "tracing levels", op)
    steps, trace = traced
    timed = context.shared.checks[op].timed
    work = device.capture(device.compile(steps), 1)
    for _ in range(3):  # the first warms up
        placed = verify.put(fmt, timed, x)
        y[...], trace[...] = verify.garbage(y), 0
        device.elapsed(work)
        _judged(verify.judge_left(fmt, x, y, placed, timed), context.named("tracing levels", op))
    clock, kernel = device.to_host(trace)[:MOST_LEVELS].T
    count = 1 + int(np.count_nonzero(kernel[1:]))
    level = device.to_host(timed.y).astype(np.int64)
    return {
        "level_seconds": (1e-9 * np.diff(clock[:count])).tolist(),
        "level_kernel": kernel[1:count].tolist(),
        "level_found": np.bincount(level[level >= 0], minlength=count)[1:count].tolist(),
    }


def failure_of(error: Exception, stage: str) -> Failure:
    """What a row says of an exception."""
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
    # The innermost frame of this package or a format's module says more than one deep inside NumPy.
    ours = {here} | {os.path.dirname(sys.modules[cls.__module__].__file__ or "") for cls in formats.REGISTRY.values()}
    frame = next((f for f in reversed(frames) if f.filename.startswith(tuple(ours))), frames[-1])
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return Failure("error", f"{type(error).__name__} while {stage}: {error} ({where})")


def by_part(launches: list[Launch | Call | Loop]) -> dict[str, list[Launch | Call | Loop]]:
    """The launches of each named part that has work, in order; those without a name are of none."""
    found: dict[str, list[Launch | Call | Loop]] = {}
    for launch in launches:
        if launch.part and (not isinstance(launch, Launch) or np.all(launch.grid)):
            found.setdefault(launch.part, []).append(launch)
    return found
