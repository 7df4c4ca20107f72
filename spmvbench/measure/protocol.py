"""Messages between the measuring process and its parent, over a pipe.

Parent to worker: the descriptor of its log, Settings, then Groups, then None; after each row whether to continue, for
which the worker does not wait unless MAX_UNANSWERED answers are missing.

Worker to parent, as tuples: ("ready", facts of the device) or ("refused", message, exit code) at the start; then
("begin", index of the format in its group or None, stage, length of the log), ("matrix", columns), ("description",
columns of rows.schema.MATRIX_COLUMNS), ("row", case_id, columns), ("done",), or before it ends
("done", "left") because a format has changed what it cannot restore,
("broken", reason) because the process cannot go on, ("again", reason) because the group has to be measured by another
one, ("refused", message) because no process can: the device throttles.

The worker sends each fact at once, so that the parent can write the row of a case that crashes. Submitted formats run
in the worker and could write into the pipe. Therefore the parent accepts only messages of exactly this form, with
columns that belong to the case in question.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Container
from multiprocessing.connection import Connection
from typing import Any

from spmvbench.measure.cases import Case, Group
from spmvbench.rows.fitting import storable
from spmvbench.rows.schema import COLUMNS, MATRIX_COLUMNS, STATUSES

WAITING = "waiting for others to convert"  # a stage that does not count as a case's time
# The formats of a round report one after the other, faster than their rows are written where a scheduler is between.
MAX_UNANSWERED = 16
LOG = 2  # file descriptor of the standard error stream, which a format may have replaced in `sys`
HEADER = 4  # bytes of a message's size, before it
MAX_MESSAGE_BYTES = 2**28  # a description of a matrix has some 100 kB


class Malformed(Exception):
    """An invalid message: what is wrong with it."""


class Inbox:
    """Messages of a connection, assembled from the bytes that have arrived.

    `Connection.recv` would block on a message that is begun and never completed.
    """

    def __init__(self, connection: Connection):
        self.connection, self.buffer = connection, bytearray()

    def receive(self) -> None:
        """Read what has arrived. Raises EOFError at the end of the stream, OSError."""
        piece = os.read(self.connection.fileno(), 2**16)
        if not piece:
            raise EOFError
        self.buffer += piece

    def has_message(self) -> bool:
        """Whether `next_message` gives one, or raises Malformed."""
        return len(self.buffer) >= HEADER and not len(self.buffer) < self._end() <= HEADER + MAX_MESSAGE_BYTES

    def _end(self) -> int:
        """Where the first message ends by its header, which `Connection.send_bytes` writes."""
        return HEADER + int(struct.unpack_from("!i", self.buffer)[0])

    def next_message(self) -> tuple[Any, ...] | None:
        """The first message; None while it is incomplete. Raises Malformed if it is invalid."""
        if not self.has_message():
            return None
        end = self._end()
        if not HEADER <= end <= HEADER + MAX_MESSAGE_BYTES:
            raise Malformed("an unknown message")
        content = bytes(self.buffer[HEADER:end])
        del self.buffer[:end]
        try:
            message = pickle.loads(content)
        except Exception as error:  # unpickling a type of a format may raise anything
            raise Malformed(f"a message that cannot be read ({type(error).__name__})") from None
        if not isinstance(message, tuple) or not message or not isinstance(message[0], str):
            raise Malformed("an unknown message")
        return message


def validated(message: tuple[Any, ...], group: Group, missing: Container[str]) -> tuple[Any, ...]:
    """The message, if it is valid while `group` is measured. missing: ids of the group's cases without a row.

    Raises Malformed otherwise.
    """
    match message:
        case ("begin", index, str(), int(logged)) if logged >= 0 and (
            index is None or (isinstance(index, int) and 0 <= index < len(group.formats))
        ):
            pass
        case ("matrix", dict(columns)) if columns.keys() <= COLUMNS.keys():
            pass
        case ("description", dict(about)):
            validated_description(about)
        case ("row", str(case_id), dict(columns)):
            validated_row(case_id, columns, missing)
        case ("done",) | ("done", "left"):
            if any(case.case_id in missing for case in group.cases):
                raise Malformed("that it was done before every case had a row")
        case ("again", str()) if group.processes > 0:
            pass
        case ("broken" | "refused", str()):
            pass
        case _:
            raise Malformed("an unknown message")
    return message


def validated_row(case_id: str, columns: dict[str, Any], missing: Container[str]) -> dict[str, Any]:
    """The columns of a case. Raises Malformed if the case has a row or belongs to another worker, or if a column is
    unknown.
    """
    if case_id not in missing:
        raise Malformed("a row of a case that was not its task")
    if not columns.keys() <= COLUMNS.keys():
        raise Malformed("a row with unknown columns")
    if not isinstance(status := columns.get("status"), str) or status not in STATUSES:
        raise Malformed("a row without a known status")
    return columns


def validated_description(about: dict[str, Any]) -> dict[str, Any]:
    """The description of a matrix. Raises Malformed if it is invalid."""
    if not about.keys() <= MATRIX_COLUMNS.keys() or not isinstance(about.get("matrix_sha256"), str):
        raise Malformed("an invalid description of a matrix")
    return about


class Stop(Exception):
    """Raised in the worker when the parent wants no more rows."""


class Link:
    """The worker's end of the pipe. It remembers the stage, for the reason of a failure."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.stage = ""
        self.unanswered = 0  # rows whose answers are still to come

    def begin(self, index: int | None, stage: str) -> None:
        """Report that a stage begins, of the format with this index or of none."""
        self.stage = stage
        self.connection.send(("begin", index, stage, os.fstat(LOG).st_size))

    def row(self, case: Case, columns: dict[str, Any]) -> None:
        """Send a row, in plain values: the parent could not unpickle a format's types. Raises as `settle`.

        The parent writes it to disk while measuring goes on. It does so even if this process ends meanwhile.
        """
        self._take_answers(MAX_UNANSWERED - 1)
        self.connection.send(("row", case.case_id, storable(columns)))
        self.unanswered += 1

    def settle(self) -> None:
        """Wait until all rows are on disk. Raises Stop if the parent wants no more rows."""
        self._take_answers(0)

    def _take_answers(self, most: int) -> None:
        """Take the answers that are there, and wait until at most so many are missing. Raises Stop."""
        while self.unanswered > most or (self.unanswered and self.connection.poll()):
            self.unanswered -= 1
            if not self.connection.recv():
                raise Stop
