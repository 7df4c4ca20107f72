"""`spmvbench run`: matrices through formats on a device, every result timed, judged and kept."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from spmvbench.cli.selection import Selection, selection
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from spmvbench.bench.plan import Case, Group
    from spmvbench.collection import Matrix

PLAIN_PROGRESS_SECONDS = 10
LISTED_FAILURES = 20


class _List(click.ParamType):
    """Words of a known few, separated by commas; without repeats, in the order given."""

    name = "list"

    def __init__(self, *known: str):
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        words = tuple(dict.fromkeys(filter(None, (word.strip() for word in value.split(",")))))
        for word in words:
            if word not in self.known:
                self.fail(f"{word!r} is none of {', '.join(self.known)}", param, ctx)
        if not words:
            self.fail(f"give one or more of {', '.join(self.known)}", param, ctx)
        return words


class _Bytes(click.ParamType):
    """A count of bytes, with a decimal unit if wanted: 500MB, 2GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", str(value))
        count = float(match[1]) * 1000 ** " kMGT".index(match[2] or " ") if match else 0
        if count < 1:
            self.fail(f"{value!r} is no size: write 500MB or 2GB", param, ctx)
        return int(count)


class _Seconds(click.ParamType):
    """A length of time, above 0 and below a fortnight."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0
        if not 0 < seconds < 1e6:
            self.fail(f"{value!r} is no number of seconds above 0", param, ctx)
        return seconds


def _read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take from a TOML file what the command line leaves at its default."""
    if value is None:
        return
    import tomllib

    from spmvbench import paths

    shipped = {path.stem: path for path in sorted((paths.configs() / "runs").glob("*.toml"))}
    path = Path(value) if Path(value).is_file() else shipped.get(value)
    if path is None:
        hint = did_you_mean(value, list(shipped)) or f"; ready-made are {', '.join(shipped)}"
        raise UsageError(f"there is no configuration {value!r}{hint}")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    valued = [option for option in ctx.command.params if not getattr(option, "is_flag", False)]
    options = {option.opts[0].lstrip("-"): option for option in valued if option.name != "config"}
    ctx.default_map = {}
    for key, setting in given.items():
        option = options.get(key.replace("_", "-"))
        if option is None:
            hint = did_you_mean(key, list(options)) or f"; it takes {', '.join(options)}"
            raise UsageError(f"{path} has an unknown key {key}{hint}")
        items = setting if isinstance(setting, list) else [setting]
        many = option.multiple if isinstance(option, click.Option) else option.nargs == -1
        comma = isinstance(option.type, _List) or key == "formats"
        if not all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in items) or (
            isinstance(setting, list) and not many and not comma
        ):
            raise UsageError(f"{path}: {key} takes {'a list of texts' if many or comma else 'one text or number'}")
        texts = [str(item) for item in items]
        ctx.default_map[option.name] = texts if many else ",".join(texts)


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from spmvbench import formats

    before, comma, word = incomplete.rpartition(",")
    return [CompletionItem(before + comma + key) for key in sorted(formats.keys()) if key.startswith(word)]


@click.command(name="run")
@selection
@click.option(
    "--formats",
    metavar="LIST",
    shell_complete=_complete_formats,
    help="Formats, such as csr-*,ell[threads=2]. Default: all that the device can run.",
)
@click.option("--dtype", "dtypes", type=_List("f64", "f32"), default="f64", show_default=True, help="f64,f32")
@click.option(
    "--mode",
    "modes",
    type=_List("hot", "cold"),
    help="hot: L2 as warm as repetition makes it; cold: flushed before each SpMV. Default: both on a GPU, else hot.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cuda:0, emulated.")
@click.option("--run", "run_name", metavar="NAME", help="Name of the run. Default: from the selection and device.")
@click.option(
    "--results", type=click.Path(file_okay=False), default="results", show_default=True, help="Where runs lie."
)
@click.option(
    "--budget",
    type=_Seconds(),
    metavar="SECONDS",
    help="Sampling time of a case at most. Default: 0.5 on a GPU, 0.05 emulated.",
)
@click.option(
    "--timeout",
    type=_Seconds(),
    metavar="SECONDS",
    help="A case that takes longer is given up. Default: 60 on a GPU, 120 emulated.",
)
@click.option(
    "--max-bytes",
    type=_Bytes(),
    metavar="SIZE",
    help="A format that needs more is skipped. Default: a share of the device's memory.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=0,
    show_default=True,
    help="Of x and of generated values.",
)
@click.option(
    "--convert",
    type=click.Choice(["both", "device"]),
    default="both",
    show_default=True,
    help="Conversions to time on a GPU. device leaves out the host's, which takes long where matrices are large.",
)
@click.option("--real-part", is_flag=True, help="Take the real part of a complex matrix, which is refused otherwise.")
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file with options, or the name of a ready-made one; the command line goes before it.",
)
@click.option("--dry-run", is_flag=True, help="Count what would be measured, and stop.")
@click.option("--retry", is_flag=True, help="Measure again what failed: wrong, oom, timeout, crashed or error.")
@click.option("--fresh", is_flag=True, help="Start anew; what the run holds is moved to a folder beside it.")
def command(
    chosen: Selection,
    formats: str | None,
    dtypes: tuple[str, ...],
    modes: tuple[str, ...] | None,
    device: str,
    run_name: str | None,
    results: str,
    budget: float | None,
    timeout: float | None,
    max_bytes: int | None,
    seed: int,
    convert: str,
    real_part: bool,
    dry_run: bool,
    retry: bool,
    fresh: bool,
) -> int:
    """Measure matrices in formats on a device. An unfinished run continues where it stopped.

    MATRIX is group/name, a glob such as 'HB/bcs*', a generated matrix such as pde:16, or a file.

    \b
    spmvbench run --set demo
    spmvbench run HB/1138_bus pde:32 --formats 'csr-*,ell[threads=2]' --dtype f64,f32
    """  # noqa: D301 - click reads the backspace
    from spmvbench import store
    from spmvbench.bench import plan, session
    from spmvbench.bench.record import SETTLED

    if not chosen:
        raise UsageError("nothing to run: name matrices (HB/1138_bus, pde:16, a file), a --group, or --set demo")
    device = _choose_device(device)
    if convert == "device" and plan.device_kind(device) != "cuda":
        raise UsageError(f"--convert device needs a GPU: {device} takes what the host converts")
    classes = plan.choose_formats(formats, device)
    if not classes:
        raise UsageError("--formats names no format: see spmvbench formats")
    folder = Path(results) / (run_name or default_name([*chosen.sets, *chosen.groups, *chosen.matrices], device))
    if not re.fullmatch(r"\w[\w.+-]*", folder.name) or (run_name or folder.name) != folder.name:
        raise UsageError(f"{run_name!r} is no name for a run: use letters, digits and . _ + -")
    found = _select(chosen)
    cases = plan.cross(found, classes, dtypes, modes or plan.DEFAULT_MODES[plan.device_kind(device)], device, seed)

    if dry_run:
        todo = plan.pending(cases, {} if fresh else store.measured(folder, settled=retry))
        _echo_plan(folder, found, cases, len(todo))
        return 0
    with store.lock(folder):
        if fresh and (aside := store.set_aside(folder)):
            click.echo(f"What {folder} held is now in {aside}")
        todo = plan.pending(cases, store.measured(folder, settled=retry))
        _echo_plan(folder, found, cases, len(todo))
        settings = plan.Settings(device, max_bytes, budget, timeout, real_part, convert)
        progress = _Progress(len(todo))
        with _stoppable() as stopping, progress:
            watcher = session.Watcher(progress.on_begin, progress.on_row, stopping)
            finished = session.measure(folder, plan.grouped(todo), settings, watcher)
        if not finished:
            click.echo(f"Stopped after {progress.done} of {len(todo)} cases. The same command continues.", err=True)
            return 130
        rows = store.load(folder)
    rows = rows[rows["case_id"].isin({case.case_id for case in cases})]
    _echo_results(rows)
    failed = int((~rows["status"].isin(SETTLED)).sum())
    if failed:
        click.echo(f"\n{failed} case{'s' * (failed != 1)} failed; the same command with --retry measures them again.")
    click.echo(f"\nRows: {folder / store.ROWS}\nNext: spmvbench report {_report_arguments(folder, results)}")
    return 1 if (rows["status"] == "wrong").any() else 0


def _report_arguments(folder: Path, results: str) -> str:
    return folder.name if results == "results" else str(folder)


def default_name(selection: Sequence[str], device: str) -> str:
    """A run's name from what was named and the kind of device: the same command finds its run again."""
    first = re.sub(r"[^\w.+-]+", "_", selection[0] if selection else "selection").strip("_.+-") or "run"
    more = f"+{len(selection) - 1}" if len(selection) > 1 else ""
    return f"{first[:80]}{more}-{device.partition(':')[0]}"


def _choose_device(name: str) -> str:
    """The device's own name. Without a GPU, ``auto`` says so and gives ``emulated``. Raises UsageError."""
    if name == "auto":
        from spmvbench.devices import cuda

        reason = cuda.why_unavailable()
        if reason is None:
            return "cuda:0"
        click.echo(f"Emulating a GPU on this machine's cores, for right answers and not for times: {reason}", err=True)
        return "emulated"
    if not re.fullmatch(r"cuda:\d+|emulated(-check)?", name):
        hint = did_you_mean(name, ["auto", "cuda:0", "emulated", "emulated-check"])
        raise UsageError(f"there is no device {name!r}{hint or ': use auto, cuda:0 or emulated'}")
    return name


def _select(chosen: Selection) -> list[Matrix]:
    """The matrices of a selection; those named one by one are fetched where they are not cached."""
    from spmvbench import collection

    matrices, groups, sets = chosen.matrices, chosen.groups, chosen.sets
    resolve = functools.partial(
        collection.resolve, matrices, groups=groups, sets=sets, limit=chosen.limit, **chosen.conditions
    )
    found, missing = resolve()
    named = [matrix for matrix in missing if matrix in matrices or matrix.partition("/")[2] in matrices]
    if named:
        from spmvbench.collection import suitesparse

        click.echo(f"Fetching {', '.join(named)}", err=True)
        outcome = suitesparse.fetch(suitesparse.search(named))
        reasons = [f"{entry.id}: {reason}" for entry, reason in outcome.failed]
        reasons += [f"{entry.id} is not where matrices are fetched from" for entry in outcome.missing]
        if reasons:
            raise SpmvbenchError("; ".join(reasons))
        found, missing = resolve()
    fetch = " ".join(["spmvbench fetch", *matrices, *(f"--group {g}" for g in groups), *(f"--set {s}" for s in sets)])
    if missing and found:
        click.echo(f"Left out, being not cached: {len(missing)} matrices; to fetch them: {fetch}", err=True)
    elif missing:
        raise SpmvbenchError(f"none of the {len(missing)} matrices is cached; to fetch them: {fetch}")
    elif not found:
        raise SpmvbenchError("the selection holds no matrix: loosen --kind, --min-nnz, --max-nnz or --spd")
    return found


def _echo_plan(folder: Path, found: list[Matrix], cases: list[Case], todo: int) -> None:
    counts = [len({getattr(case, name) for case in cases}) for name in ("label", "dtype", "mode")]
    parts = [
        f"{count} {word}{'s' * (count != 1)}"
        for count, word in zip([len(found), *counts], ["matrix", "format", "type", "mode"], strict=True)
    ]
    parts[0] = parts[0].replace("matrixs", "matrices")
    there = f", {len(cases) - todo} measured already" if todo < len(cases) else ""
    click.echo(f"{folder}: {' x '.join(parts)} = {len(cases)} cases{there}, {todo} to measure")


class _Progress:
    """A bar on a terminal; elsewhere a line every few seconds."""

    def __init__(self, total: int):
        from tqdm import tqdm

        self.done, self.total, self.began = 0, total, time.monotonic()
        self.last_line = self.began
        self.bar = tqdm(total=total, unit="case", disable=not sys.stderr.isatty() or not total, dynamic_ncols=True)
        self.now = ""

    def __enter__(self) -> _Progress:
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
def _stoppable() -> Iterator[Callable[[], bool]]:
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


def _echo_results(rows: pd.DataFrame) -> None:
    """The table that ends a run, a part for each type and mode; then what went wrong."""
    from spmvbench.analysis.coverage import coverage

    for setting, part in coverage(rows).groupby("setting", observed=True):
        device = part["device"].iloc[0]
        emulated = device.startswith("emulated")
        title = f"EMULATED, {setting}: answers are checked, times are no measure of performance"
        click.secho(f"\n{title if emulated else f'{device}, {setting}'}", bold=True)
        if emulated:
            part = part.sort_values(["coverage", "label"], ascending=[False, True])
        _echo_table(part, _CHECKED if emulated else _MEASURED)
    failures = rows[~rows["status"].isin(["ok", "skipped"])]
    if len(failures):
        click.echo()
    for row in failures.head(LISTED_FAILURES).itertuples():
        reason = row.reason.partition("\n")[0]
        click.echo(f"{row.status}: {row.group}/{row.name} {row.label} {row.dtype} {row.mode}: {reason}")
    if len(failures) > LISTED_FAILURES:
        click.echo(f"and {len(failures) - LISTED_FAILURES} more; the rows hold every reason")
    unread = rows[rows["matrix_sha256"] == ""].drop_duplicates(["group", "name"])
    for row in unread[unread["status"] == "skipped"].itertuples():
        click.echo(f"not read: {row.group}/{row.name}: {row.reason}")


_COUNTS = {
    "right": lambda row: f"{row.ok}/{row.cases}",
    "skipped": lambda row: str(row.skipped or ""),
    "wrong": lambda row: str(row.wrong or ""),
    "failed": lambda row: str(row.failed or ""),
}
_MEASURED = {
    "format": lambda row: row.label,
    "GFLOPS": lambda row: _number(row.gflops, ".4g"),
    "wins": lambda row: str(row.wins),
    "worst case": lambda row: f"{row.slowdown:.3g}x on {row.worst}" if row.worst else "",
    **_COUNTS,
}
_CHECKED = {
    "format": lambda row: row.label,
    "bytes/nonzero": lambda row: _number(row.bytes_per_nnz, ".3g"),
    "error/bound": lambda row: _number(row.error_ratio, ".2g"),
    **_COUNTS,
}


def _number(value: float, spec: str) -> str:
    return "" if value != value else format(value, spec)


def _echo_table(table: pd.DataFrame, columns: dict[str, Callable[[Any], str]]) -> None:
    """Print rows under a header; text to the left, numbers to the right; a row with wrong answers in red."""
    lines = [list(columns), *([text(row) for text in columns.values()] for row in table.itertuples())]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    left = {"format", "worst case"}
    for line, wrong in zip(lines, [0, *table["wrong"]], strict=True):
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        ]
        click.secho("  ".join(cells).rstrip(), fg="red" if wrong else None)
