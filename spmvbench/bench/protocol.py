"""What the measuring process and its parent say to each other over a pipe.

Parent to worker: Settings, then Groups, then None; after every row whether to go on.
Worker to parent, tuples: ("ready", facts of the device) or ("refused", message, exit code) at the start; then
("begin", index of the format in its group or None, stage, length of the log), ("matrix", columns),
("description", columns of bench.record.MATRIX_COLUMNS), ("row", case_id, columns), ("done",); ("broken", reason)
before it ends because the device can no longer be used.
What the worker knows of a case is sent at once, so that the parent can write the row of a case that did not survive.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from spmvbench.bench.plan import Case
from spmvbench.bench.record import storable

WAITING = "waiting for others to convert"  # a stage that no case's time is spent in


class Stop(Exception):
    """The parent wants no more rows."""


class Link:
    """The worker's end of the pipe; remembers the stage for the reason of a failure."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.stage = ""

    def begin(self, index: int | None, stage: str) -> None:
        self.stage = stage
        self.connection.send(("begin", index, stage, os.fstat(sys.stderr.fileno()).st_size))

    def row(self, case: Case, columns: dict[str, Any]) -> None:
        """Send a row and wait until it is on disk. In plain values: the parent could not take a format's own types."""
        self.connection.send(("row", case.case_id, storable(columns)))
        if not self.connection.recv():
            raise Stop
