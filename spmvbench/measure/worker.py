"""The measuring process: one per device, replaced when a case kills it. It answers over a pipe (`protocol`)."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import secrets
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from spmvbench.devices import Device, DeviceFault, open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr
from spmvbench.measure import operations, row, timing
from spmvbench.measure.bounds import Fetched
from spmvbench.measure.cases import DTYPES, Group, Settings
from spmvbench.measure.device_limits import probe
from spmvbench.measure.group import GroupRun
from spmvbench.measure.protocol import Link, Stop
from spmvbench.measure.reading import host_spmv, read
from spmvbench.measure.references import Shared
from spmvbench.measure.stages import Context, failure_of
from spmvbench.rows.store import now

READING = "reading the matrix"


@dataclass
class Held:
    """What the last group has left on the device, for the next where that goes on with it: groups come in pieces."""

    of: Any = None
    shared: Shared | None = None
    fetched: Fetched | None = None
    columns: dict[str, Any] = field(default_factory=dict)


def measure(
    group: Group, device: Device, settings: Settings, facts: dict[str, Any], link: Link, held: Held | None = None
) -> None:
    """Every case of a group gives one row."""
    started = {"started_at": now()}
    ops = {name: operations.get(name) for name in group.ops}
    kind = ops[group.ops[0]]  # what they share
    held = Held() if held is None else held
    reading = group.matrix, group.seed, settings.real_part, settings.per_host
    of = *reading, group.dtype, group.ops
    if held.of != of:
        held.of, held.shared = of, None
    fresh = held.columns["x_seed"] if held.shared else secrets.randbits(63)  # nothing that a format could know

    def matrix() -> Csr:
        with np.errstate(over="ignore"):  # entries beyond float32 are found, and named, by whoever computes with them
            return kind.matrix(read(*reading)[0].astype(DTYPES[group.dtype]))

    def read_again() -> Shared:
        read.cache_clear()
        return Shared.of(matrix(), ops, device, group.seed, fresh)

    try:
        link.begin(None, READING)
        _, known, about = read(*reading)
        columns = known | {"x_seed": fresh}
        link.connection.send(("matrix", columns))
        link.connection.send(("description", about))
        link.begin(None, "computing the right answers")
        if held.shared is None:
            held.shared = Shared.of(matrix(), ops, device, group.seed, fresh)
            held.fetched = Fetched.by(held.shared.device_a, device.limits.multiprocessors)
            held.columns = columns
            if not kind.pattern:
                fetched = {"x_sectors": held.fetched.sectors, "x_lines": held.fetched.lines}
                held.columns = columns | {"t_spmv_host": host_spmv(held.shared.a)} | fetched
        columns = held.columns
        link.connection.send(("matrix", columns))
        rule = timing.RULES[device.kind]
        context = Context(
            link,
            device,
            settings,
            facts,
            rule if settings.budget is None else replace(rule, budget=settings.budget),
            ops,
            held.shared,
            held.fetched,
            read_again,
        )
    except Exception as error:
        if isinstance(error, DeviceFault) and error.sticky:
            raise
        failure = failure_of(error, link.stage)
        # A matrix that the reader refuses is no format's fault. A file that somebody named was to be measured.
        if isinstance(error, SpmvbenchError) and not (group.matrix.source == "file" and link.stage == READING):
            failure = replace(failure, status="skipped")
        for case in group.cases:
            link.row(case, started | row.failure_columns(failure))
        held.of = held.shared = None
        return
    GroupRun(context).run(group)
    held.shared = context.shared  # read again, where a format has changed it


def stay_tied(parent: int, *, expendable: bool = True) -> None:
    """End with the parent, and leave signals of the terminal to it; expendable: go first where memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a hung kernel would outlive a killed parent
    if sys.platform == "linux" and expendable:
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # a sandbox that forbids it loses only the preference
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """`python -m spmvbench.measure.worker FD PARENT`: serve the parent at the pipe's other end until it says None."""
    stay_tied(int(sys.argv[2]))
    faulthandler.enable()
    connection = Connection(int(sys.argv[1]))
    settings: Settings = connection.recv()
    try:
        device = open_device(settings.device)
        facts = probe(device, settings)
    except (SpmvbenchError, DeviceFault) as error:
        connection.send(("refused", str(error), getattr(error, "exit_code", 1)))
        return
    connection.send(("ready", facts))
    link, held = Link(connection), Held()
    try:
        while (group := connection.recv()) is not None:
            measure(group, device, settings, facts, link, held)
            connection.send(("done",))
    except DeviceFault as fault:
        connection.send(("broken", f"fault while {link.stage}: {fault}"))
        os._exit(0)  # a broken context can hang in its own clean-up
    except (Stop, EOFError, BrokenPipeError):
        pass
    device.close()


if __name__ == "__main__":
    main()
