"""Options that distribute a run: a scheduler and its workers, shards, samples of the matrices, estimated run time."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion
from spmvbench.cli.option_types import Checked, gathered
from spmvbench.errors import UsageError, counted

if TYPE_CHECKING:
    from pathlib import Path

    from spmvbench.matrices import Matrix
    from spmvbench.measure.cases import Case, Group, Settings
    from spmvbench.runner.cluster.workers import Workers
    from spmvbench.runner.estimate import Sample
    from spmvbench.runner.request import RunRequest
    from spmvbench.runner.session import Watcher


def _shard(value: Any) -> tuple[int, int]:
    """The number of the shard, from 1, and the number of shards."""
    if isinstance(value, tuple):
        return value
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
    part, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= count:
        raise UsageError(f"{value!r} is not K/N with K from 1 to N: write 1/8 to 8/8")
    return part, count


SHARD = Checked("shard", lambda _, __, value: _shard(value))


@dataclass(frozen=True)
class Distribution:
    """Values of these options.

    scheduler: an address or ``local``. count: number of its workers. shard: number from 1, and of how many. sample:
    number of matrices. like: runs whose rows estimates use. estimate: whether to estimate the run time.
    """

    scheduler: str | None
    count: int | None
    shard: tuple[int, int] | None
    sample: int | None = None
    like: tuple[str, ...] = ()
    estimate: bool = False

    def open(self, device: str, *, dry_run: bool) -> tuple[str, str, Workers | None]:
        """The name of the device, a notice about it, and a scheduler's workers, which live until the command ends.

        Raises UsageError, DeviceUnavailable, and SpmvbenchError if no scheduler answers or Dask is not installed.
        """
        if self.estimate and not dry_run:
            raise UsageError("--estimate needs --dry-run")
        if self.like and not (self.estimate or self.shard):
            raise UsageError("--like needs --estimate or --shard, which use its rows")
        if self.scheduler != "local" and self.count is not None and not self.estimate:
            raise UsageError("--workers needs --scheduler local: other schedulers have a fixed set of workers")
        if self.scheduler is None:
            return *choose_device(device, dry_run=dry_run), None
        if re.fullmatch(r"cuda:0*[1-9]\d*", device):
            raise UsageError(f"--scheduler uses every GPU: leave out --device {device}")
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
            name, notice = "emulated", "The workers emulate a GPU: results are verified, times are meaningless"
        return name, "\n".join(filter(None, [found.notice, notice])), found

    def shard_of(self, cases: list[Case], folder: Path, settings: Settings) -> tuple[list[Case], Path]:
        """The cases of the shard and the folder of its run; all cases without --shard.

        Raises UsageError for a shard without cases.
        """
        if self.shard is None:
            return cases, folder
        from spmvbench.rows import folders
        from spmvbench.runner import costs, plan

        part, count = self.shard
        sampled = self._sample(cases, folder.parent, [], settings) if self.like else None
        expected = sampled.costs() if sampled else costs.default_costs(settings)
        groups = costs.shards(plan.grouped(cases), count, expected)[part - 1]
        if not groups:
            raise UsageError(f"--shard {part}/{count} is empty: there are too few cases for so many shards")
        return [case for group in groups for case in group.cases], folders.shard(folder, part, count)

    def found(self, request: RunRequest, *, dry_run: bool) -> list[Matrix]:
        """The matrices of a request, or the --sample of them. Only these are fetched; for an estimate, none."""
        notify = functools.partial(click.echo, err=True)
        if self.sample is not None:
            from spmvbench.matrices.selection import Selection
            from spmvbench.runner.costs import entries
            from spmvbench.runner.estimate import stratified

            every = request.find(notify, dry_run=True, unasked=True)
            seed = request.seed
            drawn = stratified(every, self.sample, seed, lambda matrix: (entries(matrix, seed), matrix.id))
            few = [matrix.typed for matrix in drawn]
            request = replace(request, selection=Selection(tuple(few)))
        return request.find(notify, dry_run=dry_run, unasked=self.estimate)

    def _sample(self, cases: Sequence[Case], results: Path, also: list[Path], settings: Settings) -> Sample | None:
        from spmvbench.rows import store
        from spmvbench.runner import estimate

        return estimate.Sample.of([*(store.folder(run, results) for run in self.like), *also], cases, settings)

    def predict(self, cases: Sequence[Case], folder: Path, settings: Settings) -> None:
        """Print the estimated run time of cases. Raises UsageError if there are too few rows to estimate it from."""
        from spmvbench.rows import metadata
        from spmvbench.runner import estimate, plan

        also = [folder] if (folder / metadata.ENVIRONMENT).exists() else []
        sample = self._sample(cases, folder.parent, also, settings)
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
        click.echo(f"By {counted(sample.cases, 'case')} on {counted(len(sample.seconds), 'matrix')}{others}:")
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
        """Measure on this process's device or on the scheduler's workers; see `runner.session.measure`."""
        if workers is None:
            from spmvbench.runner import session

            return session.measure(folder, groups, settings, watcher)
        from spmvbench.runner import costs
        from spmvbench.runner.cluster import session as many

        return many.measure(folder, groups, settings, watcher, workers, costs.default_costs(settings))


distribution = gathered(
    "distribution",
    lambda values: Distribution(**{field.name: values.pop(field.name) for field in fields(Distribution)}),
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
    click.option("--shard", type=SHARD, metavar="K/N", help="Measure part K of N as a separate run, for job arrays."),
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        metavar="N",
        help="Measure only N of the matrices, spread over all sizes.",
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


def choose_device(name: str, *, dry_run: bool) -> tuple[str, str]:
    """The name of the device, and a notice about it. ``auto`` without a GPU gives ``emulated``.

    Raises UsageError, and DeviceUnavailable for a GPU that cannot be used unless it is a dry run.
    """
    from spmvbench.devices import DeviceUnavailable, cuda, known

    if name == "auto":
        reason = cuda.why_unavailable()
        if reason is None:
            return "cuda:0", ""
        return (
            "emulated",
            f"Emulating a GPU on this machine's cores (results are verified, times are meaningless): {reason}",
        )
    kind, _, ordinal = known(name).partition(":")
    reason = cuda.why_unavailable(int(ordinal)) if kind == "cuda" and not dry_run else None
    if reason is not None:
        raise DeviceUnavailable(reason)
    return name, ""
