"""`spmvbench run --all`: plans, fetches, measures and removes the whole collection, in stages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli.progress import Progress, stoppable
from spmvbench.cli.results import echo_failed, echo_next, echo_results, echo_table, few
from spmvbench.errors import SpmvbenchError, UsageError, counted, percent

if TYPE_CHECKING:
    from spmvbench.cli.distribution import Distribution
    from spmvbench.matrices.suitesparse import Entry
    from spmvbench.runner.cluster.workers import Workers
    from spmvbench.runner.collection import Item, Simulated
    from spmvbench.runner.request import RunRequest

RATES = (100e6, 10e6)  # bytes per second of a network that a plan is made for; the first is that of its table
# Runs whose rows say what cases take, if no --like does and a checkout has them.
LIKE = ("h200-suitesparse", "h200-applications", "h200-collection-like")


@dataclass(frozen=True)
class Stage:
    """A stage, and what of it is left to be measured. hours: an interval, low and high. known: of rows, not assumed."""

    name: str
    request: RunRequest
    items: Sequence[Item]
    hours: tuple[float, float, float]
    known: bool

    @property
    def cases(self) -> int:
        """Cases that are left."""
        return sum(item.cases for item in self.items)


def measure(
    request: RunRequest, distribution: Distribution, workers: Workers | None, disk: int, plan: str | None, notice: str
) -> int:
    """Print the plan; unless only that is asked for, run it. Returns the exit code. plan: None, table or json."""
    import math

    import psutil

    from spmvbench.matrices import suitesparse
    from spmvbench.rows import store
    from spmvbench.runner import collection

    if distribution.shard or distribution.sample or distribution.scheduler not in (None, "local"):
        raise UsageError(
            "--all fetches archives for this host: leave out --shard, --sample and other schedulers than local"
        )
    asked = request.selection
    entries = suitesparse.search(groups=asked.groups, conditions=asked.conditions, limit=asked.limit)
    device = request.max_bytes or _device_memory(request.device) or math.inf
    kept, left_out = collection.left_out(
        entries, real_part=request.real_part, disk=disk, memory=psutil.virtual_memory().total, device=device
    )
    if notice:
        click.echo(notice, err=True)
    if not kept:
        reasons = ", ".join(f"{len(of):,} {reason}" for reason, of in left_out.items())
        raise SpmvbenchError(
            f"nothing of the collection is left to be measured: {reasons or 'nothing meets the conditions'}"
        )
    if plan:
        stages = list(_stages(request, kept, distribution, {}))
        _echo_plan(stages, left_out, len(entries), disk, plan)
        return 0
    with collection.alone(), store.lock(request.folder), stoppable() as stopping:
        if request.fresh:
            from spmvbench.rows import folders

            folders.set_aside(request.folder)
        measured = store.measured(request.folder, settled=request.retry, max_bytes=request.max_bytes)
        stages = list(_stages(request, kept, distribution, measured))
        _echo_plan(stages, left_out, len(entries), disk, "table")
        for number, stage in enumerate(stages):
            again = frozenset(item.entry.id for later in stages[number + 1 :] for item in later.items)
            if not _run(stage, again, distribution, workers, disk, stopping):
                click.echo(f"Stopped in the stage {stage.name}. The same command continues.", err=True)
                return 130
    return _finish(request)


def _device_memory(device: str) -> int:
    """Bytes of a GPU's memory; 0 if there is none here."""
    from spmvbench.devices import cuda
    from spmvbench.measure.cases import device_kind

    ordinal = int(device.partition(":")[2] or 0)
    if device_kind(device) != "cuda" or cuda.why_unavailable(ordinal):
        return 0
    return cuda.memory_bytes(ordinal)


def formats_of_stages() -> tuple[str, str, str]:
    """The formats of each stage: of the advice; 24 that the advice would choose from; all."""
    from spmvbench import paths
    from spmvbench.advice import model

    few = (paths.configs() / "collection.txt").read_text(encoding="ascii").split()
    return ",".join(model.loaded(model.names()[0]).labels), ",".join(few), "all"


def _stages(
    request: RunRequest, entries: Sequence[Entry], distribution: Distribution, measured: Mapping[str, str]
) -> Iterator[Stage]:
    """The stages with what is left of them. measured: source hash of each case with a row, by case_id."""
    from spmvbench.runner import collection, plan

    if request.formats is not None:
        planned = [("all matrices", entries, request.formats)]
    else:
        few = collection.sample(entries, collection.SAMPLE, request.seed)
        first, second, third = formats_of_stages()
        planned = [("sample", few, first), ("24 formats", entries, second), ("all formats", entries, third)]
    done: dict[str, set[str]] = defaultdict(set)  # case ids of earlier stages, by matrix
    for place, (name, matrices, formats) in enumerate(planned):
        part = replace(request, formats=formats)
        items = []
        for entry in matrices:
            item = collection.Item.of(entry)
            cases = plan.pending(part.cases([item.matrix(collection.folder())]), measured)
            ids = {case.case_id for case in cases} - done[entry.id]
            if ids:
                items.append(replace(item, cases=len(ids)))
            if place + 1 < len(planned):
                done[entry.id] |= ids
        yield _with_costs(name, part, items, distribution)


def _with_costs(name: str, request: RunRequest, items: Sequence[Item], distribution: Distribution) -> Stage:
    """A stage whose items know what their cases take: by rows of --like, published ones, or defaults."""
    import numpy as np

    from spmvbench.rows import store
    from spmvbench.runner import costs, estimate

    results = request.results
    known = [store.folder(run, results) for run in distribution.like]
    if not known:
        known = [place for run in LIKE if (place := results.parent / store.PUBLISHED / run).is_dir()]
    cases = request.cases([items[0].matrix(results)]) if items else []
    sample = estimate.Sample.of(known, cases, request.settings())
    line = sample.costs() if sample else costs.default_costs(request.settings())
    timed = [
        replace(item, seconds=item.cases * (line.case + line.case_entry * (item.entry.stored or 0))) for item in items
    ]
    whole = sum(item.seconds for item in timed)
    seconds = (whole, whole / 2, whole * 2)
    if sample and items:
        runs, sizes = (np.array(of, float) for of in zip(*((i.cases, i.entry.stored or 0) for i in items), strict=True))
        seconds = estimate.interval(sample, runs, sizes)
    low, middle, high = sorted(of / 3600 for of in seconds)
    return Stage(name, request, timed, (middle, low, high), sample is not None)


def _echo_plan(
    stages: Sequence[Stage], left_out: Mapping[str, Sequence[Entry]], count: int, disk: int, layout: str
) -> None:
    """Print the plan as a table or as JSON."""
    from spmvbench.formats.admission import byte_text
    from spmvbench.runner import collection
    from spmvbench.runner.estimate import duration

    items = [stage.items for stage in stages]
    by_rate = {rate: collection.simulate(items, disk, rate) for rate in RATES}
    first: list[Simulated] = by_rate[RATES[0]]
    if layout == "json":
        shares = {
            f"{rate / 1e6:g} MB/s": [round(seen.waiting / (seen.seconds or 1.0), 4) for seen in found]
            for rate, found in by_rate.items()
        }
        listed = [
            {
                "stage": stage.name,
                "matrices": len(stage.items),
                "cases": stage.cases,
                "download_bytes": seen.fetched,
                "peak_disk_bytes": seen.peak,
                "hours": dict(zip(("estimate", "low", "high"), stage.hours, strict=True)),
                "hours_from": "rows" if stage.known else "defaults",
                "share_waiting": {rate: of_stage[place] for rate, of_stage in shares.items()},
            }
            for place, (stage, seen) in enumerate(zip(stages, first, strict=True))
        ]
        out = {reason: [entry.id for entry in entries] for reason, entries in left_out.items()}
        click.echo(json.dumps({"matrices": count, "disk_bytes": disk, "stages": listed, "left_out": out}, indent=1))
        return
    columns = {
        "stage": lambda row: row[0].name,
        "matrices": lambda row: f"{len(row[0].items):,}",
        "cases": lambda row: f"{row[0].cases:,}",
        "download": lambda row: byte_text(row[1].fetched),
        "peak disk": lambda row: byte_text(row[1].peak),
        "time": lambda row: duration(3600 * row[0].hours[0]),
        "interval": lambda row: " to ".join(duration(3600 * part) for part in row[0].hours[1:]),
    }
    echo_table(list(zip(stages, first, strict=True)), columns, ("stage",))
    for rate, found in by_rate.items():
        waiting = sum(seen.waiting for seen in found)
        total = sum(seen.seconds for seen in found) or 1.0
        click.echo(
            f"At {byte_text(rate)}/s the device waits {duration(waiting)} for archives, {percent(waiting / total)}."
        )
    if not all(stage.known for stage in stages):
        click.echo("Times are of an H200, within a factor of two: --like RUN takes them from your rows.")
    for reason, entries in left_out.items():
        names = few([entry.id for entry in entries])
        click.echo(f"Left out, {reason}: {counted(len(entries), 'matrix')}: {names}")


def _run(
    stage: Stage, again: frozenset[str], distribution: Distribution, workers: Workers | None, disk: int, stopping: Any
) -> bool:
    """Measure a stage, an invocation for each chunk of its matrices. Returns whether it came to its end."""
    from spmvbench.matrices.suitesparse import Archives
    from spmvbench.measure.cases import device_kind
    from spmvbench.measure.timing import RULES
    from spmvbench.rows import store
    from spmvbench.runner import collection, plan, session, spawning

    if not stage.items:
        return True
    request, place = stage.request, collection.folder()
    measured = store.measured(request.folder, settled=request.retry, max_bytes=request.max_bytes)
    parts = collection.chunks(stage.items, disk)
    wanted = {item.entry.id: item for item in stage.items}
    held = collection.on_disk(place, wanted)
    room = collection.Disk(disk - max(map(collection.converted_at_once, parts)), again, held, set(held))
    for name in room.admit() or ():
        collection.remove(place, name)
    click.echo(f"{request.folder}: {stage.name}, {counted(stage.cases, 'case')} on {counted(len(wanted), 'matrix')}")
    progress = Progress(stage.cases, RULES[device_kind(request.device)].rounds)
    watcher = session.Watcher(progress.on_begin, progress.on_row, progress.on_notice, stopping)
    archives = Archives.to(place, collection.CONNECTIONS)
    with progress, collection.Stock(stage.items, room, archives, place) as stock:
        for part in parts:
            with nullcontext() if workers else spawning.started_ahead(request.device):
                for missing in stock.wait(part, stopping):
                    progress.show(f"waiting for {counted(missing, 'archive')}")
                if stopping():
                    return False
                cases = plan.pending(request.cases(stock.matrices(part)), measured)
                if not distribution.measure(request.folder, plan.grouped(cases), request.settings(), watcher, workers):
                    return False
            stock.done(part)
    if stock.failed:
        name, reason = next(iter(stock.failed.items()))
        click.echo(f"{counted(len(stock.failed), 'matrix')} could not be had, such as {name}: {reason}", err=True)
    return True


def _finish(request: RunRequest) -> int:
    from spmvbench.rows import store
    from spmvbench.runner import collection

    rows = store.load_run(request.folder)
    echo_results(rows)
    code = echo_failed(rows)
    if (rows["reason"].str.startswith(collection.NOT_FETCHED) & (rows["matrix_sha256"] == "")).any():
        click.echo("\nThe same command tries again to fetch what could not be had.")
        code = 1
    echo_next(request.folder, request.results, request.device)
    return code
