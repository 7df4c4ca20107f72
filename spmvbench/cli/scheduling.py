"""Where a run is measured: on this process's device, on the workers of a scheduler, or only a part of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion
from spmvbench.cli.selection import Selection, found_matrices
from spmvbench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from spmvbench.matrices import Matrix
    from spmvbench.measure.cases import Case, Group, Settings
    from spmvbench.runner.cluster.workers import Workers
    from spmvbench.runner.estimate import Sample
    from spmvbench.runner.session import Watcher


class Shard(click.ParamType):
    """K/N: part K, from 1, of N."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """The number of the shard, from 1, and how many there are."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
        part, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= part <= count:
            self.fail(f"{value!r} is no part of a whole: write 1/8 to 8/8", param, ctx)
        return part, count


@dataclass(frozen=True)
class Places:
    """What the person at the terminal chose. scheduler: an address or ``local``. count: its workers.

    sample: how many of the matrices. like: runs to foretell from.
    """

    scheduler: str | None
    count: int | None
    shard: tuple[int, int] | None
    sample: int | None = None
    like: tuple[str, ...] = ()
    estimate: bool = False

    def open(self, device: str, *, dry_run: bool) -> tuple[str, str, Workers | None]:
        """The device's own name, what to say about it, and a scheduler's workers, there until the command ends.

        Raises UsageError, DeviceUnavailable, SpmvbenchError where no scheduler answers or Dask is not installed.
        """
        if self.estimate and not dry_run:
            raise UsageError("--estimate goes with --dry-run")
        if self.scheduler != "local" and self.count is not None and not self.estimate:
            raise UsageError("--workers goes with --scheduler local: another scheduler has the workers that it has")
        if self.scheduler is None:
            return *choose_device(device, dry_run=dry_run), None
        if re.fullmatch(r"cuda:0*[1-9]\d*", device):
            raise UsageError(f"--scheduler takes every GPU: leave out --device {device}")
        here = self.scheduler == "local"
        if dry_run and (here or device != "auto"):
            return *choose_device(device, dry_run=True), None
        from spmvbench.runner.cluster import workers

        workers.require()
        keep = click.get_current_context().with_resource
        if here:
            device, notice = choose_device(device, dry_run=False)
            visible = workers.gpus(self.count) if device == "cuda:0" else [None] * (self.count or 1)
            return device, notice, keep(workers.local(visible))
        found = keep(workers.connected(self.scheduler))
        if device != "auto":
            name, notice = choose_device(device, dry_run=True)
        elif found.kind() == "cuda":
            name, notice = "cuda:0", ""
        else:
            name, notice = "emulated", "The workers emulate a GPU, for right answers and not for times"
        return name, "\n".join(filter(None, [found.notice, notice])), found

    def shard_of(self, cases: list[Case], folder: Path, settings: Settings) -> tuple[list[Case], Path]:
        """The cases of the part that was asked for, and the folder of its run; all of them where none was.

        Raises UsageError for a part without cases.
        """
        if self.shard is None:
            return cases, folder
        from spmvbench.rows import store
        from spmvbench.runner import costs, plan

        part, count = self.shard
        sampled = self._sample(cases, []) if self.like else None
        expected = sampled.costs() if sampled else costs.default_costs(settings)
        groups = costs.shards(plan.grouped(cases), count, expected)[part - 1]
        if not groups:
            raise UsageError(f"--shard {part}/{count} is empty: there is too little to measure for so many parts")
        return [case for group in groups for case in group.cases], store.shard(folder, part, count)

    def found(self, chosen: Selection, seed: int, *, dry_run: bool) -> list[Matrix]:
        """The matrices of a selection, or those of --sample. Nothing but those is fetched, for an estimate nothing."""
        if self.sample is not None:
            from spmvbench.runner.estimate import stratified

            few = stratified(found_matrices(chosen, seed, dry_run=True, unasked=True), self.sample, seed)
            named = {"synthetic": lambda m: m.name, "file": lambda m: str(m.path), "suitesparse": lambda m: m.id}
            chosen = Selection(tuple(named[m.source](m) for m in few), (), (), dict.fromkeys(chosen.conditions), None)
        return found_matrices(chosen, seed, dry_run=dry_run, unasked=self.estimate)

    def _sample(self, cases: Sequence[Case], also: list[Path]) -> Sample | None:
        from spmvbench.rows import store
        from spmvbench.runner import estimate

        return estimate.Sample.of([*map(store.folder, self.like), *also], cases)

    def foretell(self, cases: Sequence[Case], folder: Path) -> None:
        """Say how long cases will take. Raises UsageError where there are no rows to tell that from."""
        from spmvbench.rows import store
        from spmvbench.runner import estimate, plan

        sample = self._sample(cases, [folder] if (folder / store.ENVIRONMENT).exists() else [])
        if sample is None:
            raise UsageError(
                f"--estimate goes by rows, of {estimate.MIN_MATRICES} matrices or more: measure a sample of them first "
                "(--sample 20), or name a run with --like"
            )
        labels = {case.label for case in cases if not case.refusal}
        unknown = len(labels - sample.labels)
        gpus = self.count or 1
        found = estimate.estimate(sample, plan.grouped(cases), gpus)
        others = f"; {unknown} of {len(labels)} formats have no rows and are taken for the others' mean" * bool(unknown)
        click.echo(f"By {sample.cases} cases on {len(sample.seconds)} matrices{others}:")
        duration = estimate.duration
        click.echo("on one GPU about {}, {} to {} with 95 % confidence".format(*map(duration, found.one)))
        if gpus > 1:
            click.echo(
                "on {} GPUs about {}, {} to {}; the longest part is {:.2f} times the mean".format(
                    gpus, *map(duration, found.many), found.longest
                )
            )

    def measure(
        self, folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher, workers: Workers | None
    ) -> bool:
        """As `bench.session.measure`, wherever that is."""
        if workers is None:
            from spmvbench.runner import session

            return session.measure(folder, groups, settings, watcher)
        from spmvbench.runner import costs
        from spmvbench.runner.cluster import session as many

        return many.measure(folder, groups, settings, watcher, workers, costs.default_costs(settings))


_PARAMETERS = (
    click.option(
        "--scheduler",
        metavar="ADDRESS|local",
        help="Measure on the workers of a Dask scheduler. local: on all GPUs of this host.",
    ),
    click.option(
        "--workers",
        "count",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Number of workers of --scheduler local, or of GPUs of --estimate. Default: one per GPU, else one.",
    ),
    click.option("--shard", type=Shard(), metavar="K/N", help="Measure part K of N as a separate run, for job arrays."),
    click.option(
        "--sample", type=click.IntRange(min=1), metavar="N", help="Only N of the matrices, spread over all sizes."
    ),
    click.option("--estimate", is_flag=True, help="With --dry-run: estimate the run time from existing rows."),
    click.option(
        "--like",
        multiple=True,
        metavar="RUN",
        shell_complete=completion.runs,
        help="A run whose rows --estimate and --shard use; repeat for more.",
    ),
)


def scheduling(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; it takes them as `places`."""

    @functools.wraps(command)
    def gathered(
        *args: Any,
        scheduler: str | None,
        count: int | None,
        shard: tuple[int, int] | None,
        sample: int | None,
        like: tuple[str, ...],
        estimate: bool,
        **options: Any,
    ) -> Any:
        return command(*args, places=Places(scheduler, count, shard, sample, like, estimate), **options)

    for parameter in reversed(_PARAMETERS):
        gathered = parameter(gathered)
    return gathered


def choose_device(name: str, *, dry_run: bool) -> tuple[str, str]:
    """The device's own name, and what to say about it: ``auto`` without a GPU gives ``emulated``.

    A GPU that cannot be used raises DeviceUnavailable, unless nothing is to be measured. Raises UsageError.
    """
    from spmvbench.devices import DeviceUnavailable, cuda, known

    if name == "auto":
        reason = cuda.why_unavailable()
        if reason is None:
            return "cuda:0", ""
        return "emulated", f"Emulating a GPU on this machine's cores, for right answers and not for times: {reason}"
    kind, _, ordinal = known(name).partition(":")
    reason = cuda.why_unavailable(int(ordinal)) if kind == "cuda" and not dry_run else None
    if reason is not None:
        raise DeviceUnavailable(reason)
    return name, ""
