"""A run's folder: writing rows and metadata, resuming, loading.

    results/<run>/rows.parquet      rows that `compact` has merged
                  rows.jsonl        rows since then: a line of JSON each, appended as they are measured
                  matrices.parquet  descriptions of matrices, one each, written before the matrix's first row
                  matrices.jsonl    the same, not yet merged
                  run.json          metadata of each invocation, under ``sessions``
                  worker.log        output of the measuring process

If a case is in both files (killed while compacting, measured again), the line counts, because it is newer. Of two lines
the later one counts, unless it was skipped for a library that is missing where the run went on, and the other has a
verdict on a measurement. A last line without its end was cut off by a kill or a full disk, and is no row.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from spmvbench import untrusted
from spmvbench.errors import SpmvbenchError, UsageError, counted, did_you_mean
from spmvbench.paths import locked, naming, opened, written_whole
from spmvbench.rows import files, metadata, stored
from spmvbench.rows.checks import MOST_REASON, invalid_rows
from spmvbench.rows.metadata import ENVIRONMENT
from spmvbench.rows.schema import COLUMNS, IMPORTED, MEASURED, MISSING, SETTLED, arrow_schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LOG, LOCK, FACTS = "worker.log", ".lock", "facts.csv"  # facts: of an imported run
ROWS, LINES = files.CASES.merged, files.CASES.lines
MATRICES, MATRIX_LINES = files.DESCRIPTIONS.merged, files.DESCRIPTIONS.lines
PUBLISHED = "results/published"  # folder of the runs that a checkout holds
# Names of files in a run's folder and next to runs in a folder of reports: no run may have them.
_TAKEN = {ROWS, LINES, ENVIRONMENT, LOG, LOCK, MATRICES, MATRIX_LINES, "report", "pairs.csv", "pairs.json", "README.md"}
_TAKEN |= {FACTS, "index.html", "shared", "formats", "papers.html"}
_LONGEST = 200  # bytes of a name: file systems allow 255, and shards and removed runs have longer names
NAMED = 3  # most invalid rows named in a warning


def now() -> str:
    """The current time in the format of rows and metadata, see `timestamp`."""
    return timestamp(time.time())


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, with a fixed width so that texts sort by time."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="microseconds")


def name_of(run: str) -> str:
    """The given name if it is valid for a run: letters, digits and ``. _ + -``, a letter or digit first.

    Raises UsageError for other names, for long ones, and for names of files and folders in or next to runs.
    """
    if not re.fullmatch(r"\w[\w.+-]*", run):
        raise UsageError(f"{run!r} is no name for a run: use letters, digits and . _ + -")
    if run.casefold() in {taken.casefold() for taken in _TAKEN}:
        raise UsageError(f"{run!r} is no name for a run: a file or folder of spmvbench has it")
    if len(run.encode()) > _LONGEST:
        raise UsageError(f"{run[:40]!r}... is no name for a run: it has more than {_LONGEST} bytes")
    return run


def is_name(run: str) -> bool:
    """Whether a text is a name for a run, see `name_of`."""
    try:
        return bool(name_of(run))
    except UsageError:
        return False


def runs(results: Path | str = "results") -> list[Path]:
    """The run folders under `results`, the most recently used first."""
    found = [path for path in Path(results).glob(f"*/{ENVIRONMENT}") if not path.parent.name.startswith(".")]
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def folder(run: Path | str, results: Path | str = "results") -> Path:
    """The folder of a run, given by its name under `results`, its path, or its name among the published runs.

    Every command and function that reads a run finds it so. Raises UsageError if there is none.
    """
    if not str(run):
        name_of(str(run))  # as a path it would be the current folder
    here, published = ([Path(place) / run] if is_name(str(run)) else [] for place in (results, PUBLISHED))
    for path in (*here, Path(run), *published):
        if (path / ROWS).is_file() or (path / LINES).is_file():
            return path
        if (path / ENVIRONMENT).is_file():
            raise UsageError(f"{path} holds no rows yet: continue it with spmvbench run")
    known = dict.fromkeys(path.name for place in (results, PUBLISHED) for path in runs(place))
    way = "spmvbench runs lists them" if runs(results) else "start one with spmvbench run --set demo"
    hint = did_you_mean(str(run), list(known)) or f"; {way}"
    raise UsageError(f"there is no run {str(run)!r} in {results}{hint}")


def load(
    run: Path | str, results: Path | str = "results", needs: Callable[[str], bool] = lambda column: True
) -> pd.DataFrame:
    """All rows of a run, one per case, in the order of writing; columns as in rows/schema.py, those that `needs` names.

    Texts are escaped as by `untrusted.text`. Damaged lines and rows that violate the schema (`checks.invalid_rows`) are
    left out and named on stderr; for the latter, attrs of the table has ``left_out``, a sentence. Raises UsageError if
    there is no such run, SpmvbenchError for rows of another version of spmvbench and for a damaged rows.parquet.
    """
    table, left_out = valid(folder(run, results), files.CASES)
    rows = table.select([name for name in table.column_names if needs(name)]).to_pandas()
    if left_out:
        rows.attrs["left_out"] = left_out
    return rows


def load_all(runs: Iterable[Path | str]) -> pd.DataFrame:
    """The rows of one or more runs, one run after the other. Raises as `load`."""
    import pandas as pd

    return pd.concat([load(run) for run in runs], ignore_index=True)


def load_run(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """All rows of a run, by its name under `results` or its folder, as `load`, with their origin.

    attrs of the table: ``environment``, as `environment`, and ``folder``. Most operations of pandas keep attrs.
    """
    place = folder(run, results)
    rows = load(place)
    rows.attrs |= {"environment": environment(place), "folder": str(place)}
    return rows


def matrices(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """The descriptions of a run's matrices, one each; columns `schema.MATRIX_COLUMNS`. Raises as `load`.

    The file beside the run's folder, which published runs share, has those that are not in the folder.
    """
    import pandas as pd

    place = folder(run, results)
    own = valid(place, files.DESCRIPTIONS)[0].to_pandas()
    if not (place.resolve().parent / MATRICES).is_file():
        return own
    shared = valid(place.resolve().parent, files.DESCRIPTIONS)[0].to_pandas().set_index("matrix_sha256")
    rows = _read(place, files.CASES, "matrix_sha256", "group", "name")[0].to_pandas()
    named = rows.drop_duplicates("matrix_sha256").set_index("matrix_sha256")  # one matrix may have several names
    named = named[named.index.isin(shared.index) & ~named.index.isin(own["matrix_sha256"])]
    found = shared.loc[named.index].assign(**named).reset_index()[list(own.columns)]
    return pd.concat([own, found], ignore_index=True) if len(own) else found


def environment(run: Path | str) -> dict[str, Any]:
    """The metadata of the run's last invocation (device, host, versions, settings), and of all under ``sessions``.

    Null entries are left out. Raises UsageError if there is no such run, SpmvbenchError if run.json cannot be read.
    """
    sessions = metadata.sessions(folder(run))
    last = {name: value for name, value in (sessions[-1] if sessions else {}).items() if value is not None}
    return {**last, "sessions": sessions}


def measured(run_folder: Path, *, settled: bool = False, max_bytes: int | None = None) -> dict[str, str]:
    """The source hash of every case that need not be measured again, by case_id; empty if there is no folder yet.

    Not included: cases whose matrix could not be read, because the file may be readable by now; cases skipped for
    their size that fit into `max_bytes` (None: the device's limit, as far as metadata has it); with `settled`, cases
    that failed, or were skipped for a missing library.
    """
    limit_now: float = math.inf if max_bytes is None else max_bytes
    if max_bytes is None:
        limits = [session.get("default_max_bytes") for session in metadata.sessions(run_folder)]
        limit_now = next(filter(None, reversed(limits)), math.inf)
    rows, _ = valid(run_folder, files.CASES)
    names = ("case_id", "source_hash", "matrix_sha256", "status", "reason", "bytes_needed", "bytes_limit")
    return {
        case_id: source_hash
        for case_id, source_hash, matrix, status, reason, needed, limit in zip(
            *(rows[name].to_pylist() for name in names), strict=True
        )
        if matrix
        and (not settled or (status in SETTLED and not _lacked_library(status, reason)))
        and not 0 < limit < needed <= limit_now
    }


def _lacked_library(status: str, reason: str | None) -> bool:
    return status == "skipped" and (reason or "").startswith(MISSING)


def read_matrices(run_folder: Path) -> dict[str, tuple[str, str]]:
    """The hash of the matrix and the start of every case with a row and a readable matrix, by case_id."""
    rows, _ = _read(run_folder, files.CASES, "matrix_sha256", "started_at")
    columns = (rows[name].to_pylist() for name in ("case_id", "matrix_sha256", "started_at"))
    return {case_id: (matrix, started) for case_id, matrix, started in zip(*columns, strict=True) if matrix}


def mixed(rows: pd.DataFrame) -> str:
    """A sentence on names with several matrices in a run's rows, or on several rules of timing; empty without such.

    Different contents of a file do not count, because `file_sha256` distinguishes them.
    """
    read = rows[rows["matrix_sha256"] != ""]
    names = (read["group"] + "/" + read["name"]).rename("matrix")
    counts = read.groupby([names, "file_sha256", read["order"].replace("", "none")])["matrix_sha256"].nunique()
    found = sorted(set(counts[counts > 1].index.get_level_values("matrix")))
    if not found:
        rules = rows.groupby(rows["device"].str.partition(":")[0])["timing_rule"].nunique()
        timed = "The run holds rows of several rules of timing, as versions have them. --fresh or another --run keeps "
        return f"{timed}them apart." if (rules > 1).any() else ""
    return (
        f"The run holds rows of different matrices under one name, as another seed, an edited generator or a replaced "
        f"archive gives them: {', '.join(found)}. --fresh or another --run keeps them apart."
    )


def imported(rows: pd.DataFrame, source: str = "") -> str:
    """A sentence on imported rows; empty without such. source: what they are from."""
    count = (rows["device"] == IMPORTED).sum()
    of = f"{count} of {counted(len(rows), 'row')} {'is' if count == 1 else 'are'} imported{source and ' from '}{source}"
    return f"{of}: others measured them, and nothing of them is verified here" if count else ""


def next_sequence(run_folder: Path) -> int:
    """The `sequence` of the next row."""
    written = (
        _read(run_folder, layout, "sequence")[0]["sequence"].to_pylist() for layout in (files.CASES, files.DESCRIPTIONS)
    )
    return 1 + max((place for places in written for place in places), default=0)


def described(run_folder: Path) -> set[str]:
    """The hashes of the matrices with a description; empty if there is no folder yet."""
    return set(valid(run_folder, files.DESCRIPTIONS)[0]["matrix_sha256"].to_pylist())


def append(run_folder: Path, row: dict[str, Any]) -> None:
    """Append one row as a line. It replaces an earlier row of the same case, unless a library was missing and
    that was measured. The caller holds the folder's lock.
    """
    files.append(run_folder / LINES, row)


def describe(run_folder: Path, description: dict[str, Any]) -> None:
    """Append the description of one matrix, as `append`."""
    files.append(run_folder / MATRIX_LINES, description)


def compact(run_folder: Path) -> None:
    """Merge the lines into their files. If killed at any moment, no row is lost and none counts twice."""
    for layout in (files.DESCRIPTIONS, files.CASES):
        lines = run_folder / layout.lines
        if lines.is_file():
            table, damaged = _read(run_folder, layout)
            if not damaged:  # else they stay, for whoever looks into them
                with written_whole(run_folder / layout.merged, durable=True) as file:
                    files.write(table, layout, file)
                lines.unlink(missing_ok=True)


def append_session(run_folder: Path, session: dict[str, Any]) -> None:
    """Add the metadata of an invocation to run.json, or replace what it has written before.

    An invocation is known by its ``invocation``, a random text: two may start at one time of a clock that was set back.
    """
    same, known = ("started", "invocation"), metadata.sessions(run_folder)
    others = [old for old in known if any(old.get(name) != session.get(name) for name in same)]
    metadata.write(run_folder, [*others, session])


@contextmanager
def lock(run_folder: Path) -> Iterator[None]:
    """Lock the folder for this process. The system releases the lock when the process ends, however it ends.

    Makes the folder if it is missing. Raises SpmvbenchError if another process has the lock, and if a file to be
    written to is a link or has a second name: the folder may be untrusted.
    """
    run_folder.mkdir(parents=True, exist_ok=True)
    for place in (run_folder / name for name in (LOCK, LOG, LINES, MATRIX_LINES)):
        status = place.lstat() if os.path.lexists(place) else None
        if status and not (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            raise SpmvbenchError(f"{place} is a link or no regular file, and is not written to: remove it")
    with locked_folder(run_folder):
        try:
            yield
        finally:
            _leave_unused(run_folder)


@contextmanager
def locked_folder(run_folder: Path) -> Iterator[None]:
    """As `lock`, without any other change to the folder."""

    def warn(error: OSError) -> None:
        print(
            f"Warning: the file system of {run_folder} has no locks ({error.strerror}): let no other spmvbench work on "
            "this run meanwhile",
            file=sys.stderr,
        )

    with locked(run_folder / LOCK, lambda: True, warn) as had:
        if not had:
            raise SpmvbenchError(
                f"another spmvbench{_holder(run_folder)} is working on {run_folder}: wait for it, or choose another "
                "--run"
            )
        with naming(run_folder / LOCK):
            (run_folder / LOCK).write_text(str(os.getpid()))
        yield


def _holder(run_folder: Path) -> str:
    """The process that has a lock, as it has written into the file."""
    with open(run_folder / LOCK, encoding="ascii", errors="replace") as file:
        pid = file.read(20).strip()
    return f" (process {pid})" if pid.isdecimal() else ""


def opened_log(run_folder: Path) -> BinaryIO:
    """The log of a run's measuring processes, opened for appending. Raises OSError for a symbolic link."""
    return open(run_folder / LOG, "ab", opener=lambda path, flags: opened(Path(path), flags))


def _leave_unused(run_folder: Path) -> None:
    """Remove a run's folder without rows, as after a device could not be opened."""
    held = list(run_folder.iterdir()) if run_folder.is_dir() else []
    if (
        held
        and {path.name for path in held} <= {LOCK, LOG}
        and not any(p.stat().st_size for p in held if p.name == LOG)
    ):
        for path in held:
            path.unlink()
        run_folder.rmdir()


def require_folder(run_folder: Path) -> None:
    """Raise SpmvbenchError if the folder was removed or moved: rows would go to a new one of the same name."""
    if not run_folder.is_dir():
        raise SpmvbenchError(
            f"{run_folder} was removed or moved while the run wrote into it: run the command again to start anew"
        )


def _read(run_folder: Path, layout: files.Layout, *names: str) -> tuple[pa.Table, bool]:
    """The newest row of each key, in the order of writing, and whether there are damaged lines. names: of columns,
    which is much faster for a large run; none: all. One skipped for a missing library is older than a measured one.

    If another process compacts meanwhile, all files are read again: rows whose lines it removed may be in none of them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    merged, stale = run_folder / layout.merged, True
    state = ["status", "reason"] if layout is files.CASES else []
    only = list(dict.fromkeys((layout.key, "sequence", *state, *names))) if names else []
    schema = layout.completed(layout.schema.empty_table(), only).schema
    while stale:
        before = files.version(merged)
        tables, damaged = [pa.Table.from_batches([], schema)], list[str]()
        try:
            tables.append(files.read(merged, layout, only))
        except FileNotFoundError:
            pass
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise SpmvbenchError(
                f"{merged} is damaged ({files.damage(error)}): restore it from a copy; run --fresh measures again and "
                "keeps the old files in a folder next to it"
            ) from None
        with suppress(FileNotFoundError):  # none, or merged meanwhile
            found, damaged = files.read_lines(run_folder / layout.lines, layout)
            tables += [table.select(schema.names) for table in found]
        stale = files.version(merged) != before
    for warning in damaged:
        print(warning, file=sys.stderr)
    table = pa.concat_tables(tables)
    if not len(table):  # Arrow imports pandas, which takes 0.2 s, to make an array of a list
        return table, bool(damaged)
    places = table["sequence"].to_numpy()
    if pc.count_distinct(table[layout.key]).as_py() == len(table) and (np.diff(places) >= 0).all():
        return table, bool(damaged)  # as a rule they are in order, and a copy of many rows is large
    last = dict[str, int]()
    statuses, reasons = (table[name].to_pylist() for name in state) if state else [[""] * len(table)] * 2
    for index, (key, reason) in enumerate(zip(table[layout.key].to_pylist(), reasons, strict=True)):
        if not _lacked_library(statuses[index], reason) or statuses[last.get(key, index)] not in MEASURED:
            last[key] = index
    order = sorted(last.values(), key=lambda index: (places[index], index))
    return table.take(pa.array(order, pa.int64())), bool(damaged)


def valid(run_folder: Path, layout: files.Layout) -> tuple[pa.Table, str]:
    """The rows of `_read` that satisfy the schema, with printable texts, and a sentence on rows left out, if any.

    The sentence is printed on stderr, too. Rows left out stay in their files.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = COLUMNS if layout is files.CASES else layout.columns
    table, _ = _read(run_folder, layout)
    if not len(table):  # Arrow imports pandas to hand out arrays
        return arrow_schema(columns).empty_table(), ""
    if layout is files.CASES:
        table = stored.full(table)
    for index, field in enumerate(table.schema):
        if field.type == pa.string():
            column = table.column(index)
            if field.name == "reason":
                column = pc.utf8_slice_codeunits(column, 0, MOST_REASON)
            unprintable = {text for text in pc.unique(column).to_pylist() if not text.isprintable()}
            if unprintable:
                stay = "\n\t" if field.name == "reason" else ""
                texts = [untrusted.text(text, stay) if text in unprintable else text for text in column.to_pylist()]
                column = pa.chunked_array([pa.array(texts, field.type)])
            table = table.set_column(index, field, column)
    faults = invalid_rows(table, columns)
    if not faults:
        return table, ""
    named = [f"{_named(table, place)}: {why}" for place, why in list(faults.items())[:NAMED]]
    more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    left_out = f"left out {len(faults)} of {len(table)} rows of {run_folder}, which cannot be: {'; '.join(named)}{more}"
    print(f"Warning: {left_out}", file=sys.stderr)
    fits = np.ones(len(table), dtype=bool)
    fits[list(faults)] = False
    return table.filter(pa.array(fits)), left_out


def _named(table: pa.Table, place: int) -> str:
    names = [
        str(table[name][place]) for name in ("group", "name", "label", "dtype", "mode") if name in table.column_names
    ]
    words = " ".join(["/".join(names[:2]), *names[2:]])
    return words if len(words) <= 60 else f"{words[:60]}..."
