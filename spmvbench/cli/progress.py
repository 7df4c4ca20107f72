"""What a person sees of a session under way, and how they stop it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from spmvbench.bench.plan import Case, Group

PLAIN_PROGRESS_SECONDS = 10


class Progress:
    """A bar on a terminal; elsewhere a line every few seconds."""

    def __init__(self, total: int):
        from tqdm import tqdm

        self.done, self.total, self.began = 0, total, time.monotonic()
        self.last_line = self.began
        self.bar = tqdm(total=total, unit="case", disable=not sys.stderr.isatty() or not total, dynamic_ncols=True)
        self.now = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def on_begin(self, group: Group, case: Case | None, stage: str) -> None:
        self.now = f"{group.matrix.id} {case.label if case else stage}"
        self.bar.set_description_str(self.now, refresh=False)
        self.bar.update(0)

    def on_row(self, row: dict[str, Any]) -> None:
        self.done += 1
        self.bar.update(1)
        now = time.monotonic()
        if self.bar.disable and now - self.last_line >= PLAIN_PROGRESS_SECONDS:
            self.last_line = now
            left = (now - self.began) / self.done * (self.total - self.done)
            clock = [f"{int(seconds) // 60}:{int(seconds) % 60:02d}" for seconds in (now - self.began, left)]
            click.echo(f"{self.done}/{self.total} cases in {clock[0]}, about {clock[1]} left: {self.now}", err=True)


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM asks to stop after the current case; a second one stops at once."""
    asked: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        # Not through click or tqdm: the signal may have come in the middle of one of their writes.
        os.write(2, b"\nStopping after the current case; once more stops at once.\n")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
