"""The measuring process: one per device, replaced if a case kills it. It answers over a pipe (`protocol`)."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import secrets
import signal
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

import numpy as np

from spmvbench import formats, paths
from spmvbench.devices import Device, DeviceFault, Throttling, open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr
from spmvbench.measure import operations, row, timing
from spmvbench.measure.bounds import Fetched
from spmvbench.measure.cases import Group, Settings, precision_of
from spmvbench.measure.context import Context, reject
from spmvbench.measure.device_limits import compilation_lock, measure_limits
from spmvbench.measure.failures import FailedAllocation, failure_of
from spmvbench.measure.group import GroupRun
from spmvbench.measure.operations import Operation
from spmvbench.measure.process_state import ProcessState, take_own
from spmvbench.measure.protocol import LOG, Link, Stop
from spmvbench.measure.reading import host_spmv, read
from spmvbench.measure.references import References
from spmvbench.rows.store import now

PR_SET_PDEATHSIG = 1  # linux/prctl.h
READING = "reading the matrix"


@dataclass
class PreviousGroup:
    """References of the last group, still on the device. The next group may be another part of the same one.

    key: what identifies them. columns: those of the matrix. discarded: as of `Context`, which goes on with it.
    """

    key: Any = None
    references: References | None = None
    fetched: Fetched | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    discarded: int = 0


@dataclass(frozen=True)
class Source:
    """Where the references of a group come from. fresh: seed of all x but the first, which no format can know."""

    group: Group
    device: Device
    settings: Settings
    fresh: int

    @property
    def reading(self) -> tuple[Any, ...]:
        """The arguments of `read`."""
        return self.group.matrix, self.group.seed, self.settings.real_part, self.settings.per_host

    @cached_property
    def ops(self) -> dict[str, Operation]:
        """The group's operations by name, with those of solvers' products."""
        ops = {name: operations.get(name) for name in self.group.ops}
        return ops | {op.product: operations.get(op.product) for op in ops.values() if op.product}

    @property
    def kind(self) -> Operation:
        """One of the operations; those of a group are of one kind."""
        return self.ops[self.group.ops[0]]

    def rounded(self) -> Csr:
        """The matrix in the group's type."""
        with np.errstate(over="ignore"):  # `verify.reference_of` reports entries beyond float32
            return precision_of(self.group.dtype).rounded(read(*self.reading)[0])

    def references(self, a: Csr) -> References:
        """References of the matrix that `rounded` has given."""
        group = self.group
        return References.of(self.kind.matrix(a), self.ops, self.device, group.seed, self.fresh, group.dtype)

    def read_again(self) -> References:
        """References from the matrix as it is read anew."""
        read.cache_clear()
        return self.references(self.rounded())

    def prepare(self, link: Link, previous: PreviousGroup) -> tuple[References, Fetched]:
        """The group's references, those of the previous group if they are the same. Sends columns and description."""
        link.begin(None, READING)
        _, known, about = read(*self.reading)
        columns = row.identity_columns(known, self.fresh)
        link.connection.send(("matrix", columns))
        link.connection.send(("description", about))
        link.begin(None, "computing the reference results")
        if previous.references is None or previous.fetched is None:
            a = self.rounded()
            previous.references = self.references(a)
            multiplied, shares = previous.references.device_a, self.device.limits.multiprocessors
            previous.fetched = Fetched.by(multiplied, shares, **self.kind.gathered)
            if not self.kind.pattern:
                seconds = host_spmv(previous.references.a)
                columns = row.matrix_columns(read(*self.reading)[0], a, previous.fetched, seconds, columns)
            previous.columns = columns
        link.connection.send(("matrix", previous.columns))
        return previous.references, previous.fetched


def _import_formats(group: Group, process: ProcessState) -> None:
    """Import the formats of a group, and restore what that has changed."""
    formats.import_shipped(group.modules)
    for cases in group.formats:
        formats.get(cases[0].format)
    if changed := process.restore():
        print(f"importing formats changed {', '.join(changed)}: restored", file=sys.stderr, flush=True)
    process.note_modules()


def measure(
    group: Group,
    device: Device,
    settings: Settings,
    facts: dict[str, Any],
    link: Link,
    previous: PreviousGroup | None = None,
    process: ProcessState | None = None,
) -> None:
    """Measure a group: each case gives one row. process: noted before any format was imported."""
    started = row.case_columns(now())
    process = ProcessState() if process is None else process
    _import_formats(group, process)
    previous = PreviousGroup() if previous is None else previous
    key = group.matrix, group.seed, settings.real_part, settings.per_host, group.dtype, group.ops
    if previous.key != key:
        previous.key, previous.references = key, None
    fresh = previous.columns["x_seed"] if previous.references else secrets.randbits(63)
    source = Source(group, device, settings, fresh)
    rule, may_fail = timing.RULES[device.kind], group.processes > 0
    if settings.budget is not None:
        rule = replace(rule, budget=settings.budget)
    try:
        shared = *source.prepare(link, previous), source.read_again
        context = Context(link, device, settings, facts, rule, source.ops, *shared, process=process, may_fail=may_fail)
    except Exception as error:
        reject(error, device, settings, may_fail, link.stage)
        failure = failure_of(error, link.stage)
        # If a reader refuses a matrix, no format has failed. A file that the user named is an error all the same.
        if isinstance(error, SpmvbenchError) and not (group.matrix.source == "file" and link.stage == READING):
            failure = replace(failure, status="skipped")
        for case in group.cases:
            link.row(case, started | row.failure_columns(failure))
        previous.key = previous.references = None
        return
    context.discarded = previous.discarded
    GroupRun(context).run(group)
    previous.references = context.references  # read again if a format has changed it
    previous.discarded = context.discarded


def stay_tied(parent: int) -> None:
    """End with the parent, ignore Ctrl-C at the terminal, and be killed first if memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(
            PR_SET_PDEATHSIG, signal.SIGKILL
        )  # otherwise a hung kernel would outlive a killed parent
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # forbidden in some sandboxes; only the preference is lost
    if os.getppid() != parent:
        sys.exit(1)


def _opened(name: str) -> Device | SpmvbenchError | DeviceFault:
    """A device, or why there is none."""
    try:
        return open_device(name)
    except (SpmvbenchError, DeviceFault) as error:
        return error


def main() -> None:
    """`python -m spmvbench.measure.worker DEVICE FD PARENT`: serve the parent at the pipe's other end until it sends
    None. The device is opened before there is anything to do: the parent may plan meanwhile.
    """
    name, descriptor, parent = sys.argv[1:]
    stay_tied(int(parent))
    faulthandler.enable()
    connection = Connection(int(descriptor))
    device = _opened(name)
    importlib.import_module("scipy.sparse")  # by which references are computed
    with os.fdopen(recv_handle(connection)) as log:
        os.dup2(log.fileno(), LOG)
    settings: Settings = connection.recv()
    take_own()  # to the log
    if getattr(device, "name", settings.device) != settings.device:  # `auto` meant another one to the parent
        device = _opened(settings.device)
    try:
        if isinstance(device, Exception):
            raise device
        with paths.locked(compilation_lock()) if device.kind == "cuda" else nullcontext():
            facts = measure_limits(device, settings)
    except (SpmvbenchError, DeviceFault) as error:
        connection.send(("refused", str(error), getattr(error, "exit_code", 1)))
        return
    connection.send(("ready", facts))
    link, previous, process = Link(connection), PreviousGroup(), ProcessState(take_own)
    try:
        while (group := connection.recv()) is not None:
            measure(group, device, settings, facts, link, previous, process)
            link.settle()
            connection.send(("done", *(["left"] if process.lost else [])))
            if process.lost:
                break
    except Throttling as throttling:  # another worker would find the same: the cases are left for another time
        connection.send(("refused", str(throttling)))
    except FailedAllocation as failed:
        print(f"{failed}: far more was free, another process measures the group", file=sys.stderr, flush=True)
        connection.send(("again", str(failed)))
        os._exit(0)  # it may hold much
    except DeviceFault as fault:
        connection.send(("broken", f"fault while {link.stage}: {fault}"))
        os._exit(0)  # a broken context can hang while it is destroyed
    except (Stop, EOFError, BrokenPipeError):
        pass
    device.close()


if __name__ == "__main__":
    main()
