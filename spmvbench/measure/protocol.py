"""What the measuring process and its parent say to each other over a pipe.

Parent to worker: Settings, then Groups, then None; after every row whether to go on.
Worker to parent, tuples: ("ready", facts of the device) or ("refused", message, exit code) at the start; then
("begin", index of the format in its group or None, stage, length of the log), ("matrix", columns),
("description", columns of bench.record.MATRIX_COLUMNS), ("row", case_id, columns), ("done",); ("broken", reason)
before it ends because the device can no longer be used.
What the worker knows of a case is sent at once, so that the parent can write the row of a case that did not survive.
The worker runs strangers' formats, which can write into the pipe: the parent takes a message for one only as it stands
here, and of a case only what the worker is to tell of it.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Container
from multiprocessing.connection import Connection
from typing import Any

from spmvbench.measure.cases import Case, Group
from spmvbench.rows.schema import COLUMNS, MATRIX_COLUMNS, STATUSES, storable

WAITING = "waiting for others to convert"  # a stage that no case's time is spent in


MOST_BYTES = 2**28  # of a message: a description of a matrix has some 100 kB


class Malformed(Exception):
    """What came is no message: what is wrong with it."""


class Inbox:
    """The messages of a connection, put together from its bytes as they come: one that is begun and never ended, or
    written by who does not know how, keeps nobody waiting, as `Connection.recv` would.
    """

    def __init__(self, connection: Connection):
        self.connection, self.held = connection, bytearray()

    def more(self) -> None:
        """Take up what has come. Raises EOFError where nothing will any more, OSError."""
        piece = os.read(self.connection.fileno(), 2**16)
        if not piece:
            raise EOFError
        self.held += piece

    def take(self) -> tuple | None:
        """The first message; None while it is not whole. Raises Malformed where it is none."""
        if len(self.held) < 4:
            return None
        (size,), start = struct.unpack_from("!i", self.held), 4  # as `Connection.send_bytes` writes it
        if not 0 <= size <= MOST_BYTES:
            raise Malformed("what is no message")
        if len(self.held) < start + size:
            return None
        content = bytes(self.held[start : start + size])
        del self.held[: start + size]
        try:
            message = pickle.loads(content)
        except Exception as error:  # a format's own type may raise anything here
            raise Malformed(f"a message that cannot be read ({type(error).__name__})") from None
        if not isinstance(message, tuple) or not message or not isinstance(message[0], str):
            raise Malformed("what is no message")
        return message


def understood(message: tuple, group: Group, missing: Container[str]) -> tuple:
    """A message while a group is measured, as it came. missing: ids of the group's cases without a row.

    Raises Malformed where the parent could not act on it.
    """
    match message:
        case ("begin", index, str(), int(logged)) if logged >= 0 and (
            index is None or (isinstance(index, int) and 0 <= index < len(group.formats))
        ):
            pass
        case ("matrix", dict(columns)) if columns.keys() <= COLUMNS.keys():
            pass
        case ("description", dict(about)):
            description_of(about)
        case ("row", str(case_id), dict(columns)):
            row_of(case_id, columns, missing)
        case ("done",):
            if any(case.case_id in missing for case in group.cases):
                raise Malformed("that it was done, before every case had its row")
        case ("broken", str()):
            pass
        case _:
            raise Malformed("what is no message")
    return message


def row_of(case_id: str, columns: dict[str, Any], missing: Container[str]) -> dict[str, Any]:
    """The columns that are told of a case. Raises Malformed where it has a row, or is another's, or they are none."""
    if case_id not in missing:
        raise Malformed("a row of a case that it was not to measure")
    if not columns.keys() <= COLUMNS.keys():
        raise Malformed("a row with columns that there are not")
    if not isinstance(status := columns.get("status"), str) or status not in STATUSES:
        raise Malformed("a row without a status that there is")
    return columns


def description_of(about: dict[str, Any]) -> dict[str, Any]:
    """What is told of a matrix. Raises Malformed where it is none of that."""
    if not about.keys() <= MATRIX_COLUMNS.keys() or not isinstance(about.get("matrix_sha256"), str):
        raise Malformed("what describes no matrix")
    return about


class Stop(Exception):
    """The parent wants no more rows."""


class Link:
    """The worker's end of the pipe; remembers the stage for the reason of a failure."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.stage = ""

    def begin(self, index: int | None, stage: str) -> None:
        """Tell that a stage begins, of the case with this index or of none."""
        self.stage = stage
        self.connection.send(("begin", index, stage, os.fstat(sys.stderr.fileno()).st_size))

    def row(self, case: Case, columns: dict[str, Any]) -> None:
        """Send a row and wait until it is on disk. In plain values: the parent could not take a format's own types."""
        self.connection.send(("row", case.case_id, storable(columns)))
        if not self.connection.recv():
            raise Stop
