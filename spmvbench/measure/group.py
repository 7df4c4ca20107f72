"""Measures all formats of one matrix: convert, verify, time in interleaved rounds, verify again, report.

`stages` has the work on one format, `row` the content of its row. This module has the order. Formats stay on the device
over all rounds; if memory runs out, they are measured in several lots. A program that several formats share is timed
once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter  # bound before a format can replace it
from typing import Any

from spmvbench.devices import DeviceFault
from spmvbench.formats import Call, Format, single_steps
from spmvbench.formats.conversion import Tuning, converting_for
from spmvbench.formats.dependencies import check_sources
from spmvbench.measure import row, stages, timing
from spmvbench.measure.cases import Group
from spmvbench.measure.context import Context, Task
from spmvbench.measure.failures import Failure, Wrong, failure_of
from spmvbench.measure.overwriting import Watch
from spmvbench.measure.results import Bits, Bound, Converted, Finished
from spmvbench.rows.store import now

NOTE = 200  # letters of a note
ENDED_TOGETHER = 8  # formats, for all of which the arrays of all that are on the device are checked once


@dataclass(frozen=True, eq=False)
class Prepared:
    """A format on the device. bound: by operation; all of them once it was verified."""

    converted: Converted
    bound: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def goes_on_by_python(self) -> bool:
        """Whether Python of the format runs in its samples and after them: calls, its own times, traces. Kernels are
        bound already.
        """
        steps = single_steps(step for bound in self.bound.values() for step in bound.steps)
        cls = type(self.converted.fmt)
        own = cls.own_times is not Format.own_times or cls.traced is not Format.traced
        return own or any(isinstance(step, Call) for step in steps)


@dataclass(eq=False)
class Progress:
    """One format of a group, and what is known for its rows.

    prepared: as long as it is on the device. failure: the last one if there are several. series: by operation and mode.
    finished: by operation. general, columns: of all its rows, and by operation. error_ratio: the largest so far.
    program: hash of its program, bits: of its results, by operation. same_as: format of the group with the same
    program. notes: what else it did in the process, for `detail`: ``changed``, settings that were restored, and
    ``printed``, on standard output.
    """

    task: Task
    started_at: str
    prepared: Prepared | None = None
    failure: Failure | None = None
    series: dict[tuple[str, str], timing.Series] = field(default_factory=dict)
    finished: dict[str, Finished] = field(default_factory=dict)
    general: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    error_ratio: float = math.nan
    seconds: float = 0.0
    program: dict[str, str] = field(default_factory=dict)
    bits: dict[str, Bits] = field(default_factory=dict)
    same_as: Progress | None = None
    notes: dict[str, str] = field(default_factory=dict)

    def known(self, op: str) -> dict[str, Any]:
        """Columns of rows of an operation that do not follow from samples."""
        return self.general | self.columns.get(op, {})

    def add_error(self, error: float) -> None:
        """Keep the largest error as a fraction of its bound."""
        if not math.isnan(error):
            self.error_ratio = max(error, 0.0 if math.isnan(self.error_ratio) else self.error_ratio)

    def covers(self, other: Progress) -> bool:
        """Whether this runs the program of `other`, in all of its operations and modes."""
        modes = {(case.op, case.mode) for case in self.task.cases}
        return (
            all(other.program.values())
            and other.program.items() <= self.program.items()
            and all((case.op, case.mode) in modes for case in other.task.cases)
        )


class GroupRun:
    """Measures the formats of one matrix in one type, which share `context`."""

    def __init__(self, context: Context):
        self.context = context
        self.prepared: list[Progress] = []
        self.watch = Watch(context.device)
        self.timed_columns: dict[Progress, dict[tuple[str, str], dict[str, Any]]] = {}  # results of timing, by case
        self.waiting: list[Progress] = []  # until the format with the same program is timed
        self.formats = 0  # in the group
        self.remeasured: list[Task] = []  # overwritten by another format: measured alone at the end

    def run(self, group: Group) -> None:
        """Measure the group: each case gives one row."""
        self.formats = len(group.formats)
        # Formats that another process may still be preparing come last.
        for index, cases in sorted(enumerate(group.formats), key=lambda item: Task(*item).cls.prepares()):
            for case in cases:
                if case.refusal:
                    refused = row.failure_columns(Failure("skipped", case.refusal))
                    self.context.link.row(case, row.case_columns(now()) | refused)
            left = tuple(case for case in cases if not case.refusal)
            if left:
                self._prepare_format(Task(index, left))
        self._sample_prepared()
        while self.remeasured:
            self._prepare_format(self.remeasured.pop())
            self._sample_prepared()

    def _prepare_format(self, task: Task) -> None:
        """Run all stages before the first sample. If memory runs out, finish the prepared formats and try again."""
        progress = Progress(task, now())
        failure = self._attempt(progress, self._stages_before_sampling)
        if failure is not None and failure.status == "oom" and self.prepared:
            progress.prepared = None  # frees its memory
            self._sample_prepared()
            progress = Progress(task, now())
            self._attempt(progress, self._stages_before_sampling)
        if progress.failure or progress.same_as:
            self._report(progress)
            return
        self.prepared.append(progress)
        self._record_checksums(progress)
        if self.context.rule.rounds == 1:
            self._sample_prepared()

    def _attempt(self, progress: Progress, step: Callable[[Progress], None]) -> Failure | None:
        """Run one step of a format. An exception becomes its failure, which is returned. Sticky device faults are not
        caught.
        """
        context, began, waited = self.context, perf_counter(), self.context.waited

        def work() -> None:
            prepared, updates = progress.prepared, context.settings.update
            try:
                step(progress)
            finally:
                own = prepared is None or updates or prepared.goes_on_by_python
                self._restore_process(progress, own=own)

        def inspect() -> None:
            context.inspect(progress.prepared.converted.guards if progress.prepared else None)

        for each in (work, inspect):
            try:
                each()
            except Exception as error:
                context.reject(error)
                progress.failure = failure_of(error, context.link.stage)
                progress.add_error(error.ratio if isinstance(error, Wrong) else math.nan)
        failure = progress.failure
        if failure is not None and failure.status == "error":  # the log holds all of a compiler's messages
            print(f"{progress.task.label}: {failure.reason}", file=sys.stderr, flush=True)
        progress.seconds += perf_counter() - began - (context.waited - waited)
        return failure

    def _restore_process(self, progress: Progress, *, own: bool) -> None:
        """Restore what the format has changed in this process, and keep what it has printed. own: whether Python of the
        format ran. Raises DeviceFault, sticky, if others come after it and something cannot be restored.
        """
        process = self.context.process
        if changed := ", ".join(process.restore() if own else ()):
            print(f"{progress.task.label} changed {changed}: restored", file=sys.stderr, flush=True)
            progress.notes.setdefault("changed", changed[:NOTE])
        if printed := process.printed():  # standard output is this process's own again
            progress.notes.setdefault("printed", printed[:NOTE])
        if process.lost and self.formats > 1:
            raise DeviceFault(f"it changed {', '.join(process.lost)}, which cannot be restored", sticky=True)

    def _stages_before_sampling(self, progress: Progress) -> None:
        context, task, known = self.context, progress.task, progress.general
        stages.wait_for_preparation(context, task)
        tuning = Tuning()
        with converting_for(context.device.limits, partial(check_sources, task.cls), tuning):
            host = stages.convert_on_host(context, task)
            known |= row.host_columns(host)
            integer_test = stages.verify_integers(context, task, tuning)
            known |= row.integer_test_columns(integer_test)
            progress.add_error(integer_test.error)
            converted = stages.convert(context, task, host, integer_test, tuning)
        del host
        known |= row.converted_columns(context, converted)
        progress.prepared = Prepared(converted)
        known |= row.decoded_columns(stages.decode(context, task, converted.fmt))
        bound: dict[str, Bound] = {}
        for op in task.ops:
            bound[op] = stages.bind(context, task, converted, op, warm=integer_test.passed)
            progress.program[op] = bound[op].program_hash
            progress.columns[op] = row.bound_columns(context, op, integer_test, bound[op])
        progress.prepared = Prepared(converted, bound)
        progress.same_as = next(
            (other for other in (*self.prepared, *self.timed_columns) if other.covers(progress)), None
        )
        if progress.same_as is None:
            for op, each in bound.items():
                progress.add_error(stages.verify_answers(context, task, converted.fmt, each, op, integer_test))
                progress.bits[op] = stages.compare_bits(context, task, converted.fmt, each, op)

    def _sample_round(self, progress: Progress) -> None:
        assert progress.prepared is not None
        context, task, prepared = self.context, progress.task, progress.prepared
        for case in task.cases:
            which = case.op, case.mode
            if which not in progress.series:
                bound = prepared.bound[case.op]
                progress.series[which] = stages.prepare_series(context, task, prepared.converted.fmt, bound, case)
            series = progress.series[which]
            progress.add_error(stages.take_samples(context, task, prepared.converted.fmt, case, series))

    def _stages_after_sampling(self, progress: Progress) -> None:
        assert progress.prepared is not None
        for op, bound in progress.prepared.bound.items():
            series = {mode: found for (of, mode), found in progress.series.items() if of == op}
            arrays = self.context, progress.task, progress.prepared.converted.fmt, bound
            progress.finished[op], error = stages.finish(*arrays, op, series)
            progress.add_error(error)

    def _sample_prepared(self) -> None:
        """Sample the prepared formats in interleaved rounds, and report each after its last round. Leaves none."""
        for left in reversed(range(self.context.rule.rounds)):
            ended: list[Progress] = []
            for progress in list(self.prepared):
                if progress not in self.prepared:  # removed meanwhile: it overwrote arrays, or was overwritten
                    continue
                if self.watch.has_changed(progress):
                    self._find_overwriter(progress)
                    continue
                if self._attempt(progress, self._sample_round) is None and left == 0:
                    self._attempt(progress, self._stages_after_sampling)
                self._record_checksums(progress)
                if progress.failure:  # the device may be unusable
                    self._finish(progress)
                elif left == 0:
                    ended.append(progress)
                if len(ended) == ENDED_TOGETHER:
                    self._finish_all(ended)
            self._finish_all(ended)

    def _finish_all(self, ended: list[Progress]) -> None:
        """Report formats that have ended, and empty the list. Before their rows say `ok`, no format's arrays may have
        been changed by another.
        """
        if ended and not self.watch.all_are_intact():
            for other in list(self.prepared):
                if other in self.prepared and self.watch.has_changed(other):
                    self._find_overwriter(other)
        for progress in ended:
            if progress in self.prepared:
                self._finish(progress)
        ended.clear()

    def _finish(self, progress: Progress) -> None:
        self.prepared.remove(progress)
        self._report(progress)

    def _record_checksums(self, progress: Progress) -> None:
        """Record the checksums of the format's arrays: until its next step no other format may change them."""
        if self.context.rule.rounds > 1 and progress.prepared is not None:
            self.watch.record(progress, progress.prepared.converted.fmt)

    def _find_overwriter(self, victim: Progress) -> None:
        """Find the format whose samples change the victim's arrays: run every other prepared format once more.

        The format that is found is marked `wrong`. The victim is measured again, alone, after all others.
        """
        self.prepared.remove(victim)
        self.remeasured.append(victim.task)
        print(f"{victim.task.label}: another format has overwritten its arrays", file=sys.stderr, flush=True)
        for suspect in list(self.prepared):
            if suspect not in self.prepared:
                continue
            if self.watch.has_changed(suspect):  # another victim, whose own run would be wrong
                self._find_overwriter(suspect)
            elif self.watch.is_changed_by(victim, partial(self._attempt, suspect, self._sample_round)):
                reason = f"overwrote arrays of {victim.task.label} while {self.context.link.stage}"
                suspect.failure = Failure("wrong", reason)
                self._finish(suspect)
            else:
                self._record_checksums(suspect)
        self._release(victim)

    def _release(self, progress: Progress) -> None:
        self.watch.forget(progress)
        progress.prepared = None

    def _report(self, progress: Progress) -> None:
        """Send the rows of one format, measured or failed, and of the formats that share its program."""
        self._release(progress)
        failure = progress.failure
        if progress.same_as in self.timed_columns:
            self._send(progress, self.timed_columns[progress.same_as])
        elif progress.same_as is not None and failure is None:
            self.waiting.append(progress)
        else:
            timed = self._timed_columns(progress)
            self._send(progress, timed)
            if failure is None:
                self.timed_columns[progress] = timed
            for other in [other for other in self.waiting if other.same_as is progress]:
                self.waiting.remove(other)
                if failure is not None:
                    reason = f"runs the program of {progress.task.label}, {failure.reason}"
                    other.failure = replace(failure, reason=reason)
                self._send(other, timed)
        progress.series, progress.finished = {}, {}  # they are in its rows; samples hold what they launch
        if failure:
            self.context.device.synchronize()  # raises DeviceFault if the failure left the device unusable

    def _timed_columns(self, progress: Progress) -> dict[tuple[str, str], dict[str, Any]]:
        """Columns of timing by operation and mode, with the check whether the time is plausible."""
        found = {}
        for case in progress.task.cases:
            known = progress.known(case.op)
            columns = row.error_columns(progress.error_ratio)
            series = progress.series.get((case.op, case.mode))
            if series is not None and series.seconds:
                columns |= row.timed_columns(self.context, case, series, known)
                columns |= row.failure_columns(row.implausible(self.context, case, known | columns))
            if case.op in progress.bits:
                columns |= row.bits_columns(progress.bits[case.op])
            if case.op in progress.finished:
                columns |= row.finished_columns(case, progress.finished[case.op], known)
            found[case.op, case.mode] = columns
        return found

    def _send(self, progress: Progress, timed: dict[tuple[str, str], dict[str, Any]]) -> None:
        for case in progress.task.cases:
            columns = row.case_columns(progress.started_at, progress.seconds / len(progress.task.cases))
            known = progress.known(case.op)
            columns |= known | timed[case.op, case.mode]
            if progress.same_as is not None and "t_median" in columns:
                columns |= row.byte_columns(self.context, case, columns["t_median"], known)
            columns |= row.note_columns(progress.notes, columns)
            if progress.failure is not None:
                columns |= row.error_columns(progress.error_ratio) | row.failure_columns(progress.failure)
            self.context.link.row(case, columns)
