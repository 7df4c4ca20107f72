"""A/B comparison of two builds on one device: each case in pairs of old, new, new, old, and the next pair reversed.

Each build has a worker process (`ab_worker`), which imports the formats and kernels of that build. Only one of the two
works at a time. The time of a build in a pair is the geometric mean of its two bursts.
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
from spmvbench.measure.cases import DTYPES, Case, Group, Settings, device_kind, precision_of
from spmvbench.measure.protocol import Malformed
from spmvbench.measure.reading import read
from spmvbench.measure.timing import RULES
from spmvbench.orders import NATURAL
from spmvbench.rows import store
from spmvbench.runner.driver import READ_LIMIT, TIMEOUTS, Worker, WorkerDied
from spmvbench.runner.spawning import Spawned

HERE = Path(spmvbench.__file__).parents[1]
PARTS = ("spmvbench", "kernels", "configs")  # folders of a checkout that make up a build


class BuildFailed(Exception):
    """A build could not do what was requested: status and reason."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


class _Build(Worker):
    """The worker process of one build. root: the folder that holds its package."""

    def __init__(self, root: Path, settings: Settings, log: IO[bytes]):
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        self.matrix: tuple[str, str, str] | None = None  # that the process has
        program = (str(Path(__file__).with_name("ab_worker.py")),)
        super().__init__(None, log, Spawned(settings.device, program, os.environ | {"PYTHONPATH": path}))
        self.wait()
        self.limit = settings.timeout or TIMEOUTS[device_kind(settings.device)]
        if not Path(self.facts["build"]).is_relative_to(root.resolve()):
            self.kill()
            raise SpmvbenchError(f"{self.facts['build']} was imported in place of the build in {root}")

    def request(self, what: str, *content: Any) -> Any:
        """The answer to a request. Raises BuildFailed, also if the process has died or had to be killed."""
        limit = READ_LIMIT if what == "matrix" else self.limit
        try:
            self.connection.send((what, *content))
            match self.receive(time.monotonic() + limit, limit, what):
                case ("done", answer):
                    return answer
                case ("failed", str(status), str(reason)):
                    raise BuildFailed(status, reason)
            raise self.fault(Malformed("an unknown answer"), what)
        except WorkerDied as died:
            raise BuildFailed(died.status, died.reason) from None
        except ConnectionError:
            ended = self.death(what)
            raise BuildFailed(ended.status, ended.reason) from None


@dataclass
class ABComparison:
    """An A/B comparison. roots: the folders of the old build and the new. pairs: number of pairs per case.

    settings.budget: seconds of sampling per case and build; None: the minimum number of samples per burst.
    """

    roots: tuple[Path, Path]
    settings: Settings
    pairs: int
    log: IO[bytes]

    def __post_init__(self) -> None:
        self.builds: list[_Build | None] = [None, None]
        self.sample = RULES[device_kind(self.settings.device)].sample
        self.facts: dict[str, Any] = {}

    def measure(self, groups: Sequence[Group], repeats: int = 1) -> Iterator[dict[str, Any]]:
        """Yield a row per pair: matrix, label, setting, pair, first (old or new), old and new (s); or status and
        reason.

        repeats: how often the pairs of each case are measured; the row contains the number of the repeat.
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
                    yield from self._measure_case(case, str(file), repeats)

    def _measure_case(self, case: Case, file: str, repeats: int) -> Iterator[dict[str, Any]]:
        row, old_or_new = self._row(case), 0
        refusal = case.refusal or ("" if case.op == "spmv" else f"A/B comparison is for y = A x, not for {case.op}")
        if precision_of(case.dtype).is_mixed:
            refusal = refusal or f"A/B comparison is for values of the vectors' type, not for {case.dtype}"
        if refusal:
            yield row | {"status": "skipped", "reason": refusal}
            return
        try:
            found: dict[str, Any] = {}
            for old_or_new in (1, 0):  # the old build takes the parameters that the new one has found by timing
                build = self._started(old_or_new)
                matrix = (file, DTYPES[case.dtype].name, f"{case.matrix.id} {case.order}")
                if build.matrix != matrix:
                    build.request("matrix", *matrix[:2])
                    build.matrix = matrix
                params = dict(case.params) | found
                found = build.request("load", case.format, params, case.mode, self.sample, self.settings.max_bytes)
            for repeat in range(repeats):
                for pair in range(self.pairs):
                    yield row | {"repeat": repeat, "pair": pair} | self._measure_pair(repeat * self.pairs + pair)
        except BuildFailed as failure:
            failed = self.builds[old_or_new]
            if failed is not None and failed.process.poll() is not None:
                self.builds[old_or_new] = None
            yield row | {"status": failure.status, "reason": f"{('old', 'new')[old_or_new]}: {failure.reason}"}

    def _measure_pair(self, number: int) -> dict[str, Any]:
        """Move both builds' arrays to new addresses, then sample: old, new, new, old; every second pair reversed."""
        seconds = (self.settings.budget or 0.0) / (2 * self.pairs)
        for index in (0, 1):
            self._started(index).request("place", number + 1)
        logs: tuple[list[float], list[float]] = ([], [])
        first = number % 2
        for index in (first, 1 - first, 1 - first, first):
            logs[index].append(float(np.log(np.median(self._started(index).request("burst", seconds)))))
        old, new = (float(np.exp(np.mean(of))) for of in logs)
        return {"first": ("old", "new")[first], "old": old, "new": new, "status": "ok", "reason": ""}

    def _started(self, index: int) -> _Build:
        build = self.builds[index]
        if build is None:
            build = self.builds[index] = _Build(self.roots[index], self.settings, self.log)
            self.facts = build.facts
        return build

    @staticmethod
    def _row(case: Case) -> dict[str, Any]:
        setting = f"{case.dtype} {case.mode}" + (f" {case.order}" if case.order != NATURAL else "")
        return {"matrix": case.matrix.id, "label": case.label, "setting": setting, "repeat": 0, "pair": 0}

    def close(self) -> None:
        """End both processes."""
        for build in filter(None, self.builds):
            build.end()
            build.kill()
        self.builds = [None, None]


@contextmanager
def build_folder(
    name: str, results: Path | str = "results", notify: Callable[[str], None] = lambda text: None
) -> Iterator[Path]:
    """The folder of a build: that of a checkout, or a temporary one with a revision of this checkout, or with a run's
    revision.

    notify: receives a line with the revision, if that is not the name itself. Raises UsageError if there is no such
    build.
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
            notify(f"{run} was measured with uncommitted changes; its revision is compared without them")
            revision = revision.removesuffix("-dirty")
        notify(f"{run} was measured from {revision}")
    with tempfile.TemporaryDirectory(prefix="spmvbench-") as folder:
        archive = _archived(revision, name)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield Path(folder).resolve()


def _archived(revision: str, name: str) -> bytes:
    if not (HERE / ".git").exists():
        raise UsageError(f"{name} is no folder of a checkout, and {HERE} is none whose revisions could be taken")
    if revision.startswith("-"):  # metadata of a run may be untrusted, and git would read this as an option
        raise UsageError(f"{name} names {revision!r}, which is no revision")
    command = ["git", "-C", str(HERE), "archive", "--format=tar", revision, "--", *PARTS]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise UsageError(f"there is no run and no revision {name!r}: {done.stderr.decode().strip()}")
    return done.stdout
