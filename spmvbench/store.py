"""A run's folder: rows as they finish, descriptions of matrices, the environment, resuming, loading.

    results/<run>/rows.parquet        what `compact` has merged
                  parts/*.parquet     one row each, named by its case: written whole or not at all
                  matrices.parquet    the same of matrices, each described once, before its first row
                  matrices/*.parquet
                  run.json            one record of the environment a session
                  worker.log          what the measuring process wrote

A case can stand in two files (killed while compacting, measured again): its part is the later row, and counts.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench.bench.record import COLUMNS, MATRIX_COLUMNS, SCHEMA_VERSION, SETTLED, arrow_schema, blank_row
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean
from spmvbench.paths import is_at, naming, written_whole

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS, PARTS, ENVIRONMENT, LOG, LOCK = "rows.parquet", "parts", "run.json", "worker.log", ".lock"
MATRICES, MATRIX_PARTS = "matrices.parquet", "matrices"


@dataclass(frozen=True)
class _Kept:
    """A table that a run keeps: the file of what is merged, the folder of what is not, and the column that names a row.

    Of two rows with one name the part counts: it was written after the file that it will be merged into.
    """

    merged: str
    parts: str
    key: str
    columns: Mapping[str, tuple[str, str]]

    @cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)


_CASES = _Kept(ROWS, PARTS, "case_id", COLUMNS)
_DESCRIPTIONS = _Kept(MATRICES, MATRIX_PARTS, "matrix_sha256", MATRIX_COLUMNS)


def now() -> str:
    """The time as rows and records hold it: see `timestamp`."""
    return _text(datetime.datetime.now(datetime.UTC))


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as rows hold time: ISO 8601 in UTC, of a fixed width so that text sorts as time does."""
    return _text(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def _text(time: datetime.datetime) -> str:
    return time.isoformat(timespec="microseconds")


def runs(results: Path | str = "results") -> list[Path]:
    """The run folders under `results`, the one worked on last first."""
    found = list(Path(results).glob(f"*/{ENVIRONMENT}"))
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def folder(run: Path | str, results: Path | str = "results") -> Path:
    """The folder of a run, given by its path or by its name under `results`. Raises UsageError where there is none."""
    for path in (Path(results) / run, Path(run)):
        if (path / ROWS).is_file() or (path / PARTS).is_dir():
            return path
    known = [path.name for path in runs(results)]
    hint = did_you_mean(str(run), known) or "; start one with spmvbench run --set demo"
    raise UsageError(f"there is no run {str(run)!r} in {results}{hint}")


def load(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """All rows of a run, each case once, in the order written; columns as in bench/record.py.

    A damaged part is named on stderr and left out. Raises UsageError where there is no such run, SpmvbenchError for
    rows of a newer spmvbench and for a damaged rows.parquet.
    """
    return _read(folder(run, results), _CASES)[0].to_pandas()


def load_run(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """A run, by its name under `results` or its folder: all rows as `load` gives them, with where they came from.

    attrs of the table: ``environment``, as `environment` gives it, and ``folder``. Most operations of pandas keep them.
    """
    place = folder(run, results)
    rows = load(place)
    rows.attrs |= {"environment": environment(place), "folder": str(place)}
    return rows


def matrices(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """The descriptions of a run's matrices, each once; columns as in bench/record.py. Raises as `load` does.

    A run measured before descriptions were kept has none.
    """
    return _read(folder(run, results), _DESCRIPTIONS)[0].to_pandas()


def environment(run: Path | str, results: Path | str = "results") -> dict[str, Any]:
    """The record of the run's last session (device, host, versions, settings), and all of them under ``sessions``.

    What the record holds as null is missing. Raises UsageError where there is no such run, SpmvbenchError where
    run.json cannot be read.
    """
    sessions = _sessions(folder(run, results))
    last = {name: value for name, value in (sessions[-1] if sessions else {}).items() if value is not None}
    return {**last, "sessions": sessions}


def measured(run_folder: Path, *, settled: bool = False, max_bytes: int | None = None) -> dict[str, str]:
    """The source hash of every case that the folder holds a row of, by case_id; empty for a folder yet to be made.

    Without those whose matrix could not be read: a file mended, or read in another way, is worth another try. Without
    those skipped for their size that have room under `max_bytes` (None: the device's own limit, as far as a session has
    recorded it). settled: without those that failed, either.
    """
    if max_bytes is None:
        limits = [session.get("default_max_bytes") for session in _sessions(run_folder)]
        max_bytes = next(filter(None, reversed(limits)), math.inf)
    rows, _ = _read(run_folder, _CASES)
    names = ("case_id", "source_hash", "matrix_sha256", "status", "bytes_needed", "bytes_limit")
    return {
        case_id: source_hash
        for case_id, source_hash, matrix, status, needed, limit in zip(
            *(rows[name].to_pylist() for name in names), strict=True
        )
        if matrix and (status in SETTLED or not settled) and not 0 < limit < needed <= max_bytes
    }


def read_matrices(run_folder: Path) -> dict[str, tuple[str, str]]:
    """The hash of the matrix and the start of every case that the folder holds a row of, by case_id; without those
    whose matrix could not be read.
    """
    rows, _ = _read(run_folder, _CASES)
    columns = (rows[name].to_pylist() for name in ("case_id", "matrix_sha256", "started_at"))
    return {case_id: (matrix, started) for case_id, matrix, started in zip(*columns, strict=True) if matrix}


def mixed(rows: pd.DataFrame) -> str:
    """A sentence about names that stand for several matrices in a run's rows; empty where there are none.

    Contents of a file are told apart by `file_sha256`, and are no mixture.
    """
    read = rows[rows["matrix_sha256"] != ""]
    names = (read["group"] + "/" + read["name"]).rename("matrix")
    counts = read.groupby([names, "file_sha256"])["matrix_sha256"].nunique()
    found = sorted(set(counts[counts > 1].index.get_level_values("matrix")))
    if not found:
        return ""
    return (
        f"The run holds rows of different matrices under one name, as another seed, an edited generator or a replaced "
        f"archive gives them: {', '.join(found)}. --fresh or another --run keeps them apart."
    )


def next_sequence(run_folder: Path) -> int:
    """The place of the row to be written next."""
    kept = (_read(run_folder, kept)[0]["sequence"].to_pylist() for kept in (_CASES, _DESCRIPTIONS))
    return 1 + max((place for places in kept for place in places), default=0)


def described(run_folder: Path) -> set[str]:
    """The hashes of the matrices that the folder holds a description of; empty for a folder yet to be made."""
    return set(_read(run_folder, _DESCRIPTIONS)[0]["matrix_sha256"].to_pylist())


def append(run_folder: Path, row: dict[str, Any]) -> None:
    """Write one row. It is on disk whole when this returns, and replaces an earlier part of the same case."""
    _append(run_folder, _CASES, row)


def describe(run_folder: Path, description: dict[str, Any]) -> None:
    """Write the description of one matrix, as `append` writes a row."""
    _append(run_folder, _DESCRIPTIONS, description)


def compact(run_folder: Path) -> None:
    """Merge the parts into their files. Killed at any moment, no row is lost and none counts twice."""
    for kept in (_DESCRIPTIONS, _CASES):
        table, merged = _read(run_folder, kept)
        if merged:
            _write(table, run_folder / kept.merged, durable=True)
            for part in merged:
                part.unlink(missing_ok=True)


def append_session(run_folder: Path, session: dict[str, Any]) -> None:
    """Add a session's record to run.json, or replace the one with the same start."""
    sessions = [old for old in _sessions(run_folder) if old["started"] != session["started"]]
    _write_sessions(run_folder, [*sessions, session])


def _write_sessions(run_folder: Path, sessions: Sequence[dict[str, Any]]) -> None:
    text = json.dumps({"schema_version": SCHEMA_VERSION, "sessions": list(sessions)}, indent=2, default=str)
    with written_whole(run_folder / ENVIRONMENT) as file:
        file.write(f"{text}\n".encode())


@contextmanager
def lock(run_folder: Path) -> Iterator[None]:
    """Keep the folder for this process (the system lets go of it when the process ends, however it ends).

    Makes the folder where it is missing. Raises SpmvbenchError where another process has it.
    """
    run_folder.mkdir(parents=True, exist_ok=True)
    with open(run_folder / LOCK, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = f" (process {pid})" if (pid := file.read().strip()) else ""
            raise SpmvbenchError(
                f"another spmvbench{holder} is working on {run_folder}: wait for it, or choose another --run"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        for place in (run_folder, *(run_folder / kept.parts for kept in (_CASES, _DESCRIPTIONS))):
            for leftover in place.glob(".*.parquet.tmp"):
                leftover.unlink()
        try:
            yield
        finally:
            _leave_unused(run_folder)


def _leave_unused(run_folder: Path) -> None:
    """Remove a run's folder to which nothing was written: a device that could not be opened is no run."""
    held = list(run_folder.iterdir()) if run_folder.is_dir() else []
    if (
        held
        and {path.name for path in held} <= {LOCK, LOG}
        and not any(p.stat().st_size for p in held if p.name == LOG)
    ):
        for path in held:
            path.unlink()
        run_folder.rmdir()


def shard(run_folder: Path, part: int, count: int) -> Path:
    """The folder of a part of a run, a run of its own beside it: `merge` makes one of all parts."""
    return run_folder.with_name(f"{run_folder.name}.shard-{part}-of-{count}")


@contextmanager
def standing(run_folder: Path) -> Iterator[Callable[[], None]]:
    """A question for who writes into the folder: it raises SpmvbenchError where that was removed or moved meanwhile.

    Without it, rows would go to a new folder of the same name.
    """
    opened = os.open(run_folder, os.O_RDONLY)

    def ask() -> None:
        if not is_at(opened, run_folder):
            raise SpmvbenchError(
                f"{run_folder} was removed or moved while the run wrote into it: run the command again to start anew"
            )

    try:
        yield ask
    finally:
        os.close(opened)


def set_aside(run_folder: Path) -> Path | None:
    """Move what a run holds to a folder of its own beside it, still readable as a run; None where there is nothing."""
    names = (ROWS, PARTS, MATRICES, MATRIX_PARTS, ENVIRONMENT, LOG)
    held = [path for name in names if (path := run_folder / name).exists()]
    if not held:
        return None
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    aside = run_folder.with_name(f"{run_folder.name}.before-{stamp}")
    aside.mkdir()
    for path in held:
        path.rename(aside / path.name)
    return aside


def merge(sources: Sequence[Path], target: Path) -> int:
    """Put the rows, descriptions of matrices and sessions of several runs into a new run, whole or not at all.

    Every row once, in the order of the runs and in each as written; `run_id` is the new run's name. Returns the number
    of rows. Raises SpmvbenchError where `target` is there, and UsageError where two runs hold rows of one case that are
    not the same row: a run has one row of a case.
    """
    if target.exists():
        raise SpmvbenchError(f"{target} is there already: choose another name")
    rows: dict[str, dict[str, Any]] = {}
    places: dict[str, Path] = {}
    for source in sources:
        for row in _read(source, _CASES)[0].to_pylist():
            row |= {"run_id": target.name, "sequence": len(rows) + 1}
            held = rows.setdefault(row["case_id"], row)
            if str(held | row) != str(held | {"sequence": row["sequence"]}):  # as text: NaN is not equal to itself
                raise UsageError(
                    f"{places[row['case_id']]} and {source} hold two rows of one case, {row['group']}/{row['name']} "
                    f"{row['label']} {row['dtype']} {row['mode']}, and a run has one: set them side by side with "
                    "spmvbench compare"
                )
            places.setdefault(row["case_id"], source)
    about = {row["matrix_sha256"]: row for source in sources for row in _read(source, _DESCRIPTIONS)[0].to_pylist()}
    described = [row | {"sequence": place} for place, row in enumerate(about.values(), start=1)]
    sessions = [session for source in sources for session in _sessions(source)]
    sessions = [session for place, session in enumerate(sessions) if session not in sessions[:place]]

    target.mkdir(parents=True)
    try:
        _write_sessions(target, sorted(sessions, key=lambda session: session["started"]))
        _write_rows(target / MATRICES, _DESCRIPTIONS, described)
        _write_rows(target / ROWS, _CASES, list(rows.values()), durable=True)
    except BaseException:
        shutil.rmtree(target)
        raise
    return len(rows)


def remove(run_folder: Path) -> None:
    """Remove a run's folder with all that is in it. Raises SpmvbenchError where a session works on it."""
    with lock(run_folder):
        shutil.rmtree(run_folder)


def _append(run_folder: Path, kept: _Kept, row: dict[str, Any]) -> None:

    path = run_folder / kept.parts / f"{row[kept.key]}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_rows(path, kept, [row])


def _write_rows(path: Path, kept: _Kept, rows: list[dict[str, Any]], *, durable: bool = False) -> None:
    import pyarrow as pa

    _write(pa.Table.from_pylist(rows, schema=kept.schema), path, durable=durable)


def _write(table: pa.Table, path: Path, *, durable: bool = False) -> None:
    """Write a table under a temporary name and rename it; `durable` also before a loss of power."""
    import pyarrow.parquet as pq

    temporary = path.with_name(f".{path.name}.tmp")
    with naming(path):
        with open(temporary, "wb") as file:
            pq.write_table(table, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)


def _read(run_folder: Path, kept: _Kept) -> tuple[pa.Table, list[Path]]:
    """The row of each key that was written last, in the order written, and the parts that could be read.

    Another process may compact meanwhile: then everything is read again, for a part that it removed may be in none of
    the files that were read.
    """
    import pyarrow as pa

    merged, stale = run_folder / kept.merged, True
    while stale:
        before = _version(merged)
        tables, parts, damaged = [kept.schema.empty_table()], [], []
        try:
            tables.append(_table(merged, kept))
        except FileNotFoundError:
            pass
        except (pa.ArrowException, ValueError, OSError) as error:
            raise SpmvbenchError(
                f"{merged} is damaged ({_first_line(error)}): restore it, or start anew with --fresh"
            ) from None
        for part in sorted((run_folder / kept.parts).glob("*.parquet")):
            try:
                tables.append(_table(part, kept))
                parts.append(part)
            except FileNotFoundError:  # merged after the folder was listed
                continue
            except (pa.ArrowException, ValueError, OSError) as error:
                damaged.append(f"Warning: ignored the damaged row {part} ({_first_line(error)})")
        stale = _version(merged) != before
    for warning in damaged:
        print(warning, file=sys.stderr)
    table = pa.concat_tables(tables)
    last = {key: index for index, key in enumerate(table[kept.key].to_pylist())}
    places = table["sequence"].to_pylist()
    order = sorted(last.values(), key=lambda index: (places[index], index))
    return table.take(pa.array(order, pa.int64())), parts


def _version(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _table(path: Path, kept: _Kept) -> pa.Table:
    """One file's rows in this version's schema, empty where a column came later than the file, or holds nothing.

    Raises SpmvbenchError for rows of a newer version, ValueError for a file that is none of ours.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        metadata = file.schema_arrow.metadata or {}
        version = int(metadata.get(b"schema_version", 0))
        if version > SCHEMA_VERSION:
            raise SpmvbenchError(
                f"{path} was written by a newer spmvbench (schema {version}, this one knows {SCHEMA_VERSION}): "
                "update spmvbench"
            )
        table = file.read()
    blank = blank_row(kept.columns)
    if version:
        for name in set(kept.schema.names) - set(table.column_names):
            field = kept.schema.field(name)
            table = table.append_column(field, pa.array([blank[name]] * len(table), field.type))
        table = table.select(kept.schema.names)
    table = table.cast(kept.schema)
    for index, field in enumerate(kept.schema):
        if table.column(index).null_count:  # a row of before they were checked
            values = [blank[field.name] if value is None else value for value in table.column(index).to_pylist()]
            table = table.set_column(index, field, pa.array(values, field.type))
    return table


# What is computed with, of a session's record.
_RECORDED = {"default_max_bytes", "read_bandwidth_gbps", "copy_bandwidth_gbps", "multiprocessors", "max_sm_clock_mhz"}


def _sessions(run_folder: Path) -> list[dict[str, Any]]:
    path = run_folder / ENVIRONMENT
    try:
        sessions = json.loads(path.read_text(encoding="utf-8"))["sessions"]
        if not all(isinstance(session["started"], str) and _sound(session) for session in sessions):
            raise ValueError
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SpmvbenchError(f"{path} is damaged: restore or remove it") from None
    return sessions


def _sound(session: dict[str, Any]) -> bool:
    """Whether what is computed with is of its kind, or null."""
    facts = session | dict(session.get("properties") or {})
    numbers = [value for name, value in facts.items() if name in _RECORDED]
    return all(value is None or (isinstance(value, int | float) and 0 < value < math.inf) for value in numbers)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
