"""Progress display of a run, and how a signal stops it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from spmvbench.measure.cases import Case, Group

PLAIN_PROGRESS_SECONDS = 10
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
BESIDE_DESCRIPTION = 43  # columns: per cent, a bar of 8, elapsed and remaining time


class Work:
    """Amount of finished work in cases, counted also while a group of cases is running.

    A case counts fully when its row is written. Before, it counts in equal steps: one for the verification, one for
    each round of samples.
    """

    def __init__(self, rounds: int):
        self.steps = rounds + 2  # the last step is the row
        self.rows = 0
        self._group: Group | None = None
        self._taken: Counter[str] = Counter()

    def begin(self, group: Group, case: Case | None, stage: str) -> None:
        """Count a stage that begins. case: the first case of its format, None for a stage of the group."""
        if group is not self._group:
            self._group = group
            self._taken.clear()
        modes = next((modes for modes in group.formats if modes[0] is case), ())
        what, _, mode = stage.partition(" ")
        for each in modes:
            if stage == "checking" or (what == "timing" and mode == each.mode):
                self._taken[each.case_id] += 1

    def end(self, case_id: str) -> None:
        """Count a row that was written."""
        self.rows += 1
        self._taken.pop(case_id, None)

    @property
    def done(self) -> float:
        """Number of finished cases, running ones counted partially."""
        return self.rows + sum(min(steps, self.steps - 1) for steps in self._taken.values()) / self.steps


class Progress:
    """A progress bar on a terminal, elsewhere a line every few seconds. rounds: see `measure.timing.Rule`."""

    def __init__(self, total: int, rounds: int):
        from tqdm import tqdm

        self.work, self.total, self.began = Work(rounds), total, time.monotonic()
        self.last_line = self.began
        # Time and work done, `since` when a quarter to half of the time was over.
        self.since = self.latest = (self.began, 0.0)
        self.bar = tqdm(total=total, disable=not sys.stderr.isatty() or not total, dynamic_ncols=True, bar_format=BAR)
        self.now = ""
        self.notices: list[str] = []

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def on_begin(self, group: Group, case: Case | None, stage: str) -> None:
        """Show the case or stage that begins."""
        order = "" if group.matrix.order == "none" else f" in order {group.matrix.order}"
        self.work.begin(group, case, stage)
        self.show(f"{group.matrix.id}{order} {case.label if case else stage}")

    def show(self, text: str) -> None:
        """Show what happens."""
        self.now = text
        self.bar.set_description_str(self._fitting(text.removeprefix("synthetic/")), refresh=False)
        self._show()

    def on_row(self, row: dict[str, Any]) -> None:
        """Count a row that was written."""
        self.work.end(row["case_id"])
        self._show()

    def on_notice(self, line: str) -> None:
        """Show a line and store it in `notices`."""
        self.notices.append(line)
        self.bar.write(line if self.bar.disable else wrapped(line), file=sys.stderr)

    def _fitting(self, text: str) -> str:
        """A description that leaves room for the bar, the cases and the time left."""
        room = max(12, shutil.get_terminal_size().columns - BESIDE_DESCRIPTION - 2 * len(str(self.total)))
        return text if len(text) <= room else f"{text[: room - 2]}.."

    def left(self, now: float) -> str:
        """Estimated remaining time in minutes and seconds, empty before any work is done: at the rate since `since`, as
        later cases may take longer, such as those of more vectors.
        """
        (begin, before), done = self.since, self.work.done
        return f"about {_clock((now - begin) / (done - before) * (self.total - done))} left" if done > before else ""

    def _show(self) -> None:
        now = time.monotonic()
        if now - self.began >= 2 * (self.latest[0] - self.began):
            self.since, self.latest = self.latest, (now, self.work.done)
        if not self.bar.disable:
            self.bar.set_postfix_str(self.left(now), refresh=False)
            self.bar.update(int(self.work.done) - self.bar.n)
        elif now - self.last_line >= PLAIN_PROGRESS_SECONDS:
            self.last_line = now
            done = f"{int(self.work.done)}/{self.total} cases in {_clock(now - self.began)}"
            click.echo(f"{', '.join(filter(None, (done, self.left(now))))}: {self.now}", err=True)


def wrapped(line: str) -> str:
    """A message in lines as wide as the terminal, without breaking words."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM asks to stop after the current case; a second one stops at once."""
    asked: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        # Not through click or tqdm: the signal may interrupt one of their writes.
        os.write(2, b"\nStopping after the current case; a second signal stops at once.\n")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
