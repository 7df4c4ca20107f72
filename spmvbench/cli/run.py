"""`spmvbench run`: measures matrices in formats on a device, verifies every result and stores it."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spmvbench.cli import completion, option_types
from spmvbench.cli.config import read_config
from spmvbench.cli.distribution import Distribution, distribution
from spmvbench.cli.formats import echo_meanings
from spmvbench.cli.option_groups import GroupedCommand
from spmvbench.cli.option_types import SECONDS, SIZE, words
from spmvbench.cli.progress import Progress, stoppable
from spmvbench.cli.results import echo_failed, echo_next, echo_results
from spmvbench.cli.selection import OPTIONS, selection
from spmvbench.errors import UsageError, counted

if TYPE_CHECKING:
    from pathlib import Path

    from spmvbench.matrices import Matrix
    from spmvbench.matrices.selection import Selection
    from spmvbench.measure.cases import Case
    from spmvbench.runner.cluster.workers import Workers
    from spmvbench.runner.request import RunRequest


GROUPS = {
    "Most used": ("--set", "--formats", "--dtype", "--mode", "--device", "--run"),
    "Matrices": (*OPTIONS, "--sample", "--seed", "--real-part"),
    "Formats and operations": (
        "--program",
        "--op",
        "--order",
        "--values",
        "--vectors",
        "--max-bytes",
        "--convert",
        "--deterministic",
    ),
    "Measuring": (
        "--budget",
        "--energy",
        "--update",
        "--timeout",
        "--dry-run",
        "--retry",
        "--fresh",
        "--results",
        "--config",
    ),
    "The whole collection": ("--all", "--disk", "--plan"),
    "Many GPUs": ("--scheduler", "--workers", "--shard", "--estimate", "--like"),
    "Comparison of two builds": ("--against", "--pairs"),
    "Help": ("--help",),
}


@click.command(name="run", cls=GroupedCommand, groups=GROUPS)
@selection
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="The whole SuiteSparse collection, or a --group or conditions of it, in three stages: 300 matrices in formats "
    "of the advice, all in 24, all in all; with --formats in those. Archives are fetched ahead and removed again.",
)
@click.option(
    "--disk",
    type=SIZE,
    default="100GB",
    help="With --all: most that archives and converted matrices take on the disk.",
)
@click.option(
    "--plan",
    type=click.Choice(["table", "json"]),
    is_flag=False,
    flag_value="table",
    help="With --all: print what it will fetch, measure and cost, and stop. --plan json: as JSON.",
)
@click.option(
    "--formats",
    "-f",
    metavar="LIST",
    shell_complete=completion.of("formats", lambda formats: formats.keys(), listed=True),
    help="Formats, such as csr-*,ell[threads=2]. Default: all that the device can run; emulated, one per storage idea.",
)
@option_types.program
@click.option(
    "--op",
    "ops",
    type=words(),
    help="Operations: spmv,spmv-t,pair,spmspv,bfs; spmspv@0.05 or bfs@3 for one alone; spmm@K for K vectors, by "
    "rows, spmm-column@K, spmm-t@K; solvers of N iterations: cg@N, pagerank@N, pdhg@N. Default: those of the formats, "
    "else spmv.",
)
@click.option(
    "--order",
    "orders",
    type=words(),
    default="none",
    shell_complete=completion.of("orders", lambda orders: orders.names(), listed=True),
    help="Orders of rows and columns: none,rcm,metis,nd,degree,hub,random,gray. The matrix is permuted before any "
    "format sees it.",
)
@click.option(
    "--dtype", "dtypes", type=words("f64", "f32"), show_default="f64", help="Precisions of values, x and y: f64,f32."
)
@click.option(
    "--values",
    type=words("f64", "f32", "f16", "bf16"),
    metavar="TYPES",
    help="In place of --dtype: types that values are stored in, f64,f32,f16,bf16, at most as wide as the vectors.",
)
@click.option(
    "--vectors",
    type=words("f64", "f32"),
    metavar="TYPES",
    help="In place of --dtype: types of x, y and sums, f64,f32. Default with --values: f64.",
)
@click.option(
    "--mode",
    "modes",
    type=words("hot", "cold"),
    help="hot: L2 is warm from earlier SpMVs; cold: it is flushed before each SpMV. Default: both on a GPU, else hot.",
)
@click.option(
    "--device",
    default="auto",
    metavar="NAME",
    shell_complete=completion.of("devices.cuda", completion.devices),
    help="auto, cuda:0, emulated, or emulated-check, which also finds data races and accesses out of bounds. "
    "auto: the first GPU, or emulated without one.",
)
@distribution
@click.option(
    "--run",
    "run_name",
    metavar="NAME",
    shell_complete=completion.runs,
    help="Name of the run. Default: from the selection and device.",
)
@click.option("--results", type=click.Path(file_okay=False), default="results", help="Folder of the runs.")
@click.option("--budget", type=SECONDS, help="Longest sampling time of a case. Default: 0.5 on a GPU, 0.05 emulated.")
@click.option(
    "--energy",
    type=SECONDS,
    help="Measure the energy of each hot case over so long, on GPUs that count joules. Default: not measured.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Time new values in the same pattern, too: what Operator.update takes. In hot cases, column t_update.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    help="A case that takes longer is marked timeout. Default: 60 on a GPU, 120 emulated.",
)
@click.option(
    "--max-bytes",
    type=SIZE,
    help="Formats that need more memory are skipped. Default: a share of the device's memory.",
)
@option_types.seed
@click.option(
    "--convert",
    type=click.Choice(["both", "device"]),
    default="both",
    help="Conversions to time on a GPU. device: skip the one on the host, which is slow for large matrices.",
)
@option_types.real_part
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=read_config,
    shell_complete=completion.configs,
    help="TOML file with options, or the name of a ready-made one. Options on the command line override it.",
)
@click.option(
    "--against",
    metavar="BUILD",
    shell_complete=completion.runs,
    help="A/B comparison with another build: a revision, a run (its revision), or the folder of a checkout.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=8),
    metavar="N",
    help="With --against: measured pairs per case, 8 or more. Default: 20.",
)
@click.option(
    "--deterministic",
    is_flag=True,
    help="Leave out formats that are known to give other bits in products with the same x.",
)
@click.option("--dry-run", is_flag=True, help="Count the cases and stop.")
@click.option(
    "--retry",
    is_flag=True,
    help="Measure again what failed: wrong, implausible, oom, timeout, crashed, error; or lacked a library.",
)
@click.option("--fresh", is_flag=True, help="Start again. Existing rows are moved to another folder.")
def command(
    chosen: Selection,
    distribution: Distribution,
    device: str,
    run_name: str | None,
    results: str,
    convert: str,
    against: str | None,
    pairs: int | None,
    dry_run: bool,
    every: bool,
    disk: int,
    plan: str | None,
    **asked: Any,
) -> int:
    """Measure matrices in formats on a device. An unfinished run continues where it stopped.

    MATRIX is group/name, a glob such as 'HB/bcs*', a generated matrix such as pde:16, or a file. Without any selection,
    the matrices in the cache are measured.

    \b
    spmvbench run --set demo
    spmvbench run HB/1138_bus pde:32 --formats 'csr-*,ell[threads=2]' --dtype f64,f32
    spmvbench run --set h200 --formats 'sell*' --against HEAD~1    (exit code 3: slower, 4: not measured in both)
    """  # noqa: D301 - click reads the backspace
    from spmvbench.runner.spawning import started_ahead

    _check_comparison(against, pairs, distribution, asked)
    _check_collection(every, against, plan)
    chosen, dry_run = replace(chosen, every=every), dry_run or plan is not None
    if asked["programs"]:  # processes that start from here on know them
        from spmvbench.programs.using import use

        use(asked["programs"])
    if distribution.scheduler is None and against is None and not dry_run:
        click.get_current_context().with_resource(started_ahead(device))
    from spmvbench.measure import operations
    from spmvbench.measure.cases import device_kind
    from spmvbench.runner.request import RunRequest

    device, notice, workers = distribution.open(device, dry_run=dry_run)
    if device_kind(device) != "cuda" and not _is_typed("convert"):
        convert = "both"  # a configuration for GPUs can be tried without one
    run = default_name(chosen, device) if run_name is None else run_name
    chosen = chosen.or_cached(functools.partial(click.echo, err=True))
    request = RunRequest.of(selection=chosen, run=run, device=device, results=results, convert=convert, **asked)
    if every:
        from spmvbench.cli import collection

        plan = "table" if dry_run and plan is None else plan
        return collection.measure(request, distribution, workers, disk, plan, notice)
    echo_meanings(request.formats or "", {operations.kind(op) for op in request.ops} or None)
    found = distribution.found(request, dry_run=dry_run)
    cases, folder = distribution.shard_of(request.cases(found), request.folder, request.settings())
    if notice:
        click.echo(notice, err=True)
    if left_out := request.left_out(found):
        click.echo(f"Left out, for other bits in products with the same x: {', '.join(left_out)}")
    if against is not None:
        from spmvbench.cli.against import compare_builds

        return compare_builds(against, request, folder, cases, pairs, dry_run=dry_run)
    if dry_run:
        todo = request.pending(folder, cases)
        _echo_plan(folder, found, cases, len(todo), by_default=request.has_default_formats)
        if distribution.estimate:
            distribution.predict(todo, folder, request.settings())
        return 0
    return _measure(request, folder, found, cases, distribution, workers)


def _is_typed(name: str) -> bool:
    """Whether an option is from the command line, not from a configuration or a default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def _check_comparison(
    against: str | None, pairs: int | None, distribution: Distribution, asked: dict[str, Any]
) -> None:
    """Raise UsageError for options that do not go with --against, or that need it."""
    if against is None:
        if pairs is not None:
            raise UsageError("--pairs goes with --against, which names the build to compare with")
        return
    if distribution.scheduler is not None:
        raise UsageError("--against compares on one GPU: leave out --scheduler")
    if others := [f"--{name}" for name in ("fresh", "retry", "energy") if asked[name] and _is_typed(name)]:
        raise UsageError(f"--against measures all pairs anew, and no energy: leave out {' and '.join(others)}")


def _check_collection(every: bool, against: str | None, plan: str | None) -> None:
    """Raise UsageError for options that do not go with --all, or that need it."""
    if every and against is not None:
        raise UsageError("--against compares a run, not the whole collection: leave out --all")
    if plan is not None and not every:
        raise UsageError("--plan goes with --all: other runs have --dry-run")
    if _is_typed("disk") and not every:
        raise UsageError("--disk goes with --all: other runs keep what they fetch")


def _measure(
    request: RunRequest,
    folder: Path,
    found: list[Matrix],
    cases: list[Case],
    distribution: Distribution,
    workers: Workers | None,
) -> int:
    """Measure the pending cases and print the table of all. Returns the exit code."""
    from spmvbench.measure.cases import device_kind
    from spmvbench.measure.timing import RULES
    from spmvbench.rows import folders, store
    from spmvbench.runner import plan, session
    from spmvbench.runner.request import rows_of

    with store.lock(folder):
        if request.fresh and (aside := folders.set_aside(folder)):
            click.echo(f"The contents of {folder} were moved to {aside}")
        todo = request.pending(folder, cases)
        _echo_plan(folder, found, cases, len(todo), by_default=request.has_default_formats)
        progress = Progress(len(todo), RULES[device_kind(request.device)].rounds)
        with stoppable() as stopping, progress:
            watcher = session.Watcher(progress.on_begin, progress.on_row, progress.on_notice, stopping)
            finished = distribution.measure(folder, plan.grouped(todo), request.settings(), watcher, workers)
        if not finished:
            click.echo(
                f"Stopped after {progress.work.rows} of {counted(len(todo), 'case')}. The same command continues.",
                err=True,
            )
            return 130
        rows, mixture = rows_of(folder, cases)
    echo_results(rows)
    if mixture:
        click.echo(f"\n{mixture}")
    if progress.notices:
        click.echo("\n" + "\n".join(progress.notices))
    code = echo_failed(rows)
    echo_next(folder, request.results, request.device)
    return code


def default_name(chosen: Selection, device: str) -> str:
    """A run's name from the selection and the kind of device, so that the same command continues its run."""
    words = ["collection"] if chosen.every else [*chosen.sets, *chosen.groups, *chosen.matrices]
    first = re.sub(r"[^\w.+-]+", "_", words[0] if words else "selection" if chosen else "cache").strip("_.+-") or "run"
    more = f"+{len(words) - 1}" if len(words) > 1 else ""
    first = first[:80].encode()[:160].decode(errors="ignore")
    return f"{first}{more}-{device.partition(':')[0]}"


def _echo_plan(folder: Path, found: list[Matrix], cases: list[Case], todo: int, *, by_default: bool) -> None:
    named = {"format": "label", "type": "dtype", "mode": "mode", "operation": "op", "order": "order"}
    counts = {"matrix": len(found)} | {
        word: len({getattr(case, name) for case in cases}) for word, name in named.items()
    }
    if {case.op for case in cases} <= {"spmv"}:
        del counts["operation"]
    if {case.order for case in cases} <= {"none"}:
        del counts["order"]
    parts = [counted(count, word) for word, count in counts.items()]
    done = f", {len(cases) - todo} measured already" if todo < len(cases) else ""
    # A format runs one kind of operation: with several kinds not every combination is a case.
    sign, equal = (" x ", " =") if len(cases) == math.prod(counts.values()) else (", ", ":")
    click.echo(f"{folder}: {sign.join(parts)}{equal} {counted(len(cases), 'case')}{done}, {todo} to measure")
    if by_default:
        click.echo("Default on the emulated device: one format per storage idea; --formats all takes minutes")
