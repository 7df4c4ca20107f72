"""Two builds side by side on one device: every case in pairs, old, new, new, old, and the next the other way round.

Each build is served by a process of its own (`side`), which imports that build's formats and kernels. Only one of them
has work at a time. What is told of a pair is the geometric mean of the two bursts that each build has in it.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

import spmvbench
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.measure.cases import DTYPES, Case, Group, Settings, device_kind
from spmvbench.measure.protocol import Malformed
from spmvbench.measure.reading import read
from spmvbench.measure.timing import RULES
from spmvbench.rows import store
from spmvbench.runner.driver import READ_LIMIT, TIMEOUTS, Died, Worker

HERE = Path(spmvbench.__file__).parents[1]
PARTS = ("spmvbench", "kernels", "configs")  # of a checkout: what a build is made of


class Refused(Exception):
    """A side could not do what it was asked: the status and the reason."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


class _Build(Worker):
    """The process of one build. root: the folder that holds its package."""

    program = (str(Path(__file__).with_name("ab_worker.py")),)

    def __init__(self, root: Path, settings: Settings, log: IO[bytes]):
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        self.environment = os.environ | {"PYTHONPATH": path}
        super().__init__(settings.device, log)
        self.limit = settings.timeout or TIMEOUTS[device_kind(settings.device)]
        if not Path(self.facts["build"]).is_relative_to(root.resolve()):
            self.kill()
            raise SpmvbenchError(f"{root} was to be measured, and {self.facts['build']} was imported")

    def ask(self, what: str, *content: Any) -> Any:
        """The answer. Raises Refused, also where the process has died or had to be killed."""
        limit = READ_LIMIT if what == "matrix" else self.limit
        try:
            self.connection.send((what, *content))
            match self.receive(time.monotonic() + limit, limit, what):
                case ("done", answer):
                    return answer
                case ("failed", str(status), str(reason)):
                    raise Refused(status, reason)
            raise self.fault(Malformed("what is no answer"), what)
        except Died as died:
            raise Refused(died.status, died.reason) from None
        except ConnectionError:
            died = self.death(what)
            raise Refused(died.status, died.reason) from None


@dataclass
class Pairs:
    """A comparison under way. roots: the folders of the old build and the new. pairs: how many a case.

    settings.budget: seconds of sampling a case in each build; without, the fewest samples that a burst can have.
    """

    roots: tuple[Path, Path]
    settings: Settings
    pairs: int
    log: IO[bytes]

    def __post_init__(self) -> None:
        self.builds: list[_Build | None] = [None, None]
        self.sample = RULES[device_kind(self.settings.device)].sample
        self.facts: dict[str, Any] = {}

    def measured(self, groups: Sequence[Group], repeats: int = 1) -> Iterator[dict[str, Any]]:
        """A row a pair: matrix, label, setting, pair, first (old or new), old and new (seconds); or status and reason.

        repeats: how often each case is judged anew; the row says which time it was.
        """
        with tempfile.TemporaryDirectory() as folder:
            for group in groups:
                file = Path(folder) / "matrix.npz"
                try:
                    a = read(group.matrix, group.seed, self.settings.real_part)[0]
                    with open(file, "wb") as target:
                        np.savez(target, shape=a.shape, row_ptr=a.row_ptr, col_idx=a.col_idx, values=a.values)
                except SpmvbenchError as error:
                    yield from (self._row(case) | {"status": "skipped", "reason": str(error)} for case in group.cases)
                    continue
                for case in group.cases:
                    yield from self._case(case, str(file), repeats)

    def _case(self, case: Case, file: str, repeats: int) -> Iterator[dict[str, Any]]:
        row, side = self._row(case), 0
        refusal = case.refusal or ("" if case.op == "spmv" else f"pairs are of y = A x, not of {case.op}")
        if refusal:
            yield row | {"status": "skipped", "reason": refusal}
            return
        try:
            found: dict[str, Any] = {}
            for side in (1, 0):  # what the new one finds for itself by timing, the old one takes
                build = self._ready(side)
                matrix = (file, DTYPES[case.dtype].name, case.matrix.id)
                if build.matrix != matrix:
                    build.ask("matrix", *matrix[:2])
                    build.matrix = matrix
                found = build.ask("load", case.format, dict(case.params) | found, case.mode, self.sample)
            for repeat in range(repeats):
                for pair in range(self.pairs):
                    yield row | {"repeat": repeat, "pair": pair} | self._pair(repeat * self.pairs + pair)
        except Refused as refused:
            if self.builds[side] is not None and self.builds[side].process.poll() is not None:
                self.builds[side] = None
            yield row | {"status": refused.status, "reason": f"{('old', 'new')[side]}: {refused.reason}"}

    def _pair(self, number: int) -> dict[str, Any]:
        """Both builds at new places, then sampled in turns: old, new, new, old, every second time the reverse."""
        seconds = (self.settings.budget or 0.0) / (2 * self.pairs)
        for side in (0, 1):
            self._ready(side).ask("place", number + 1)
        logs: tuple[list[float], list[float]] = ([], [])
        first = number % 2
        for side in (first, 1 - first, 1 - first, first):
            logs[side].append(float(np.log(np.median(self._ready(side).ask("burst", seconds)))))
        old, new = (float(np.exp(np.mean(of))) for of in logs)
        return {"first": ("old", "new")[first], "old": old, "new": new, "status": "ok", "reason": ""}

    def _ready(self, side: int) -> _Build:
        build = self.builds[side]
        if build is None:
            build = self.builds[side] = _Build(self.roots[side], self.settings, self.log)
            build.matrix = None
            self.facts = build.facts
        return build

    @staticmethod
    def _row(case: Case) -> dict[str, Any]:
        setting = f"{case.dtype} {case.mode}"
        return {"matrix": case.matrix.id, "label": case.label, "setting": setting, "repeat": 0, "pair": 0}

    def close(self) -> None:
        """End both processes."""
        for build in filter(None, self.builds):
            build.end()
            build.kill()
        self.builds = [None, None]


@contextmanager
def build_of(
    name: str, results: Path | str = "results", say: Callable[[str], None] = lambda text: None
) -> Iterator[Path]:
    """The folder of a build: a checkout's, or a temporary one with a revision of this checkout; a run means its own.

    say: hears what the revision is, where it is not the name itself. Raises UsageError where there is no such thing.
    """
    if (Path(name) / PARTS[0] / "__init__.py").is_file():
        yield Path(name).resolve()
        return
    revision = name
    try:
        run = store.folder(name, results)
    except UsageError:
        pass
    else:
        revision = store.environment(run).get("git") or ""
        if not revision:
            raise UsageError(f"{run} was not measured from a checkout: it records no revision")
        if revision.endswith("-dirty"):
            say(f"{run} was measured with files that differ from its revision; the revision as it is is compared with")
            revision = revision.removesuffix("-dirty")
        say(f"{run} was measured from {revision}")
    with tempfile.TemporaryDirectory(prefix="spmvbench-") as folder:
        archive = _archived(revision, name)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield Path(folder).resolve()


def _archived(revision: str, name: str) -> bytes:
    if not (HERE / ".git").exists():
        raise UsageError(f"{name} is no folder of a checkout, and {HERE} is none whose revisions could be taken")
    if revision.startswith("-"):  # a run's record may come from anybody, and git would take it for an option
        raise UsageError(f"{name} names {revision!r}, which is no revision")
    command = ["git", "-C", str(HERE), "archive", "--format=tar", revision, "--", *PARTS]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise UsageError(f"there is no run and no revision {name!r}: {done.stderr.decode().strip()}")
    return done.stdout
