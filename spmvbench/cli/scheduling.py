"""Where a run is measured: on this process's device, on the workers of a scheduler, or only a part of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from spmvbench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from spmvbench.bench.cluster.workers import Workers
    from spmvbench.bench.plan import Case, Group, Settings
    from spmvbench.bench.session import Watcher


class Shard(click.ParamType):
    """K/N: part K, from 1, of N."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
        part, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= part <= count:
            self.fail(f"{value!r} is no part of a whole: write 1/8 to 8/8", param, ctx)
        return part, count


@dataclass(frozen=True)
class Places:
    """What the person at the terminal chose. scheduler: an address or ``local``. count: workers of ``local``."""

    scheduler: str | None
    count: int | None
    shard: tuple[int, int] | None

    def open(self, device: str, *, dry_run: bool) -> tuple[str, str, Workers | None]:
        """The device's own name, what to say about it, and a scheduler's workers, there until the command ends.

        Raises UsageError, DeviceUnavailable, SpmvbenchError where no scheduler answers or Dask is not installed.
        """
        if self.scheduler != "local" and self.count is not None:
            raise UsageError("--workers goes with --scheduler local: another scheduler has the workers that it has")
        if self.scheduler is None:
            return *choose_device(device, dry_run=dry_run), None
        if re.fullmatch(r"cuda:0*[1-9]\d*", device):
            raise UsageError(f"--scheduler takes every GPU: leave out --device {device}")
        here = self.scheduler == "local"
        if dry_run and (here or device != "auto"):
            return *choose_device(device, dry_run=True), None
        from spmvbench.bench.cluster import workers

        workers.require()
        keep = click.get_current_context().with_resource
        if here:
            device, notice = choose_device(device, dry_run=False)
            visible = workers.gpus(self.count) if device == "cuda:0" else [None] * (self.count or 1)
            return device, notice, keep(workers.local(visible))
        found = keep(workers.connected(self.scheduler))
        if device != "auto":
            return *choose_device(device, dry_run=True), found
        if found.kind() == "cuda":
            return "cuda:0", "", found
        return "emulated", "The workers emulate a GPU, for right answers and not for times", found

    def shard_of(self, cases: list[Case], folder: Path, settings: Settings) -> tuple[list[Case], Path]:
        """The cases of the part that was asked for, and the folder of its run; all of them where none was.

        Raises UsageError for a part without cases.
        """
        if self.shard is None:
            return cases, folder
        from spmvbench import store
        from spmvbench.bench import costs, plan

        part, count = self.shard
        groups = costs.shards(plan.grouped(cases), count, costs.prior(settings))[part - 1]
        if not groups:
            raise UsageError(f"--shard {part}/{count} is empty: there is too little to measure for so many parts")
        return [case for group in groups for case in group.cases], store.shard(folder, part, count)

    def measure(
        self, folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher, workers: Workers | None
    ) -> bool:
        """As `bench.session.measure`, wherever that is."""
        if workers is None:
            from spmvbench.bench import session

            return session.measure(folder, groups, settings, watcher)
        from spmvbench.bench import costs
        from spmvbench.bench.cluster import session as many

        return many.measure(folder, groups, settings, watcher, workers, costs.prior(settings))


_PARAMETERS = (
    click.option(
        "--scheduler",
        metavar="ADDRESS|local",
        help="Measure on the workers of a dask.distributed scheduler; local: on all GPUs of this host.",
    ),
    click.option(
        "--workers",
        "count",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Workers of --scheduler local. Default: one a GPU, or one that emulates.",
    ),
    click.option("--shard", type=Shard(), metavar="K/N", help="Part K of N, as a run of its own, for job arrays."),
)


def scheduling(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; it takes them as `places`."""

    @functools.wraps(command)
    def gathered(
        *args: Any, scheduler: str | None, count: int | None, shard: tuple[int, int] | None, **options: Any
    ) -> Any:
        return command(*args, places=Places(scheduler, count, shard), **options)

    for parameter in reversed(_PARAMETERS):
        gathered = parameter(gathered)
    return gathered


def choose_device(name: str, *, dry_run: bool) -> tuple[str, str]:
    """The device's own name, and what to say about it: ``auto`` without a GPU gives ``emulated``.

    A GPU that cannot be used raises DeviceUnavailable, unless nothing is to be measured. Raises UsageError.
    """
    from spmvbench.devices import DeviceUnavailable, cuda

    if name == "auto":
        reason = cuda.why_unavailable()
        if reason is None:
            return "cuda:0", ""
        return "emulated", f"Emulating a GPU on this machine's cores, for right answers and not for times: {reason}"
    if not re.fullmatch(r"cuda:\d+|emulated(-check)?", name):
        hint = did_you_mean(name, ["auto", "cuda:0", "emulated", "emulated-check"])
        raise UsageError(f"there is no device {name!r}{hint or ': use auto, cuda:0 or emulated'}")
    kind, _, ordinal = name.partition(":")
    reason = cuda.why_unavailable(int(ordinal)) if kind == "cuda" and not dry_run else None
    if reason is not None:
        raise DeviceUnavailable(reason)
    return name, ""
