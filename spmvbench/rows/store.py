"""A run's folder: rows as they finish, descriptions of matrices, the environment, resuming, loading.

    results/<run>/rows.parquet        what `compact` has merged
                  parts/*.parquet     one row each, named by its case: written whole or not at all
                  matrices.parquet    the same of matrices, each described once, before its first row
                  matrices/*.parquet
                  run.json            one record of the environment a session
                  worker.log          what the measuring process wrote
    results/.trash/<run>-<time>/      a run that was removed

A case can stand in two files (killed while compacting, measured again): its part is the later row, and counts.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import math
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from spmvbench import untrusted
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean
from spmvbench.paths import is_at, naming, opened, written_whole
from spmvbench.rows.schema import (
    COLUMNS,
    MATRIX_COLUMNS,
    MOST_REASON,
    SCHEMA_VERSION,
    SETTLED,
    arrow_schema,
    blank_row,
    current,
    current_metadata,
    unfit,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS, PARTS, ENVIRONMENT, LOG, LOCK = "rows.parquet", "parts", "run.json", "worker.log", ".lock"
MATRICES, MATRIX_PARTS = "matrices.parquet", "matrices"
TRASH = ".trash"
# What lies in a run's folder, and what lies beside runs in a folder of reports: names that no run may have.
_HELD = {ROWS, PARTS, ENVIRONMENT, LOG, LOCK, MATRICES, MATRIX_PARTS, "report", "pairs.csv", "pairs.json", "README.md"}
_TAKEN = _HELD | {"index.html", "shared"}
_LONGEST = 200  # bytes of a name: a file system allows 255, and parts, shards and removed runs have longer names
_TIME = "%Y%m%d-%H%M%S-%f"
MOST_ROWS, MOST_BYTES = 10_000_000, 2**32  # of a table, unpacked: a few bytes of a file can stand for very many
NAMED = 3  # rows left out that are named


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


def name_of(run: str) -> str:
    """The name of a run, as it was given: letters, digits and ``. _ + -``, a letter or digit first.

    Raises UsageError for other names, for long ones, and for those of files and folders that lie in or beside runs.
    """
    if not re.fullmatch(r"\w[\w.+-]*", run):
        raise UsageError(f"{run!r} is no name for a run: use letters, digits and . _ + -")
    if run.casefold() in {taken.casefold() for taken in _TAKEN}:
        raise UsageError(f"{run!r} is no name for a run: a file or folder of spmvbench has it")
    if len(run.encode()) > _LONGEST:
        raise UsageError(f"{run[:40]!r}... is no name for a run: it has more than {_LONGEST} bytes")
    return run


def _is_name(run: str) -> bool:
    try:
        return bool(name_of(run))
    except UsageError:
        return False


def runs(results: Path | str = "results") -> list[Path]:
    """The run folders under `results`, the one worked on last first."""
    found = [path for path in Path(results).glob(f"*/{ENVIRONMENT}") if not path.parent.name.startswith(".")]
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def folder(run: Path | str, results: Path | str = "results") -> Path:
    """The folder of a run, given by its path or by its name under `results`. Raises UsageError where there is none."""
    if not str(run):
        name_of(str(run))  # as a path it would be the current folder
    for path in ([Path(results) / run] if _is_name(str(run)) else []) + [Path(run)]:
        if (path / ROWS).is_file() or (path / PARTS).is_dir():
            return path
    known = [path.name for path in runs(results)]
    hint = did_you_mean(str(run), known) or "; start one with spmvbench run --set demo"
    raise UsageError(f"there is no run {str(run)!r} in {results}{hint}")


def load(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """All rows of a run, each case once, in the order written; columns as in rows/schema.py.

    Texts are such as `untrusted.text` writes them. A damaged part, and rows that do not fit the schema
    (`record.unfit`), are named on stderr and left out; for the latter attrs of the table has ``left_out``, a sentence.
    Raises UsageError where there is no such run, SpmvbenchError for rows of a newer spmvbench and for a damaged
    rows.parquet.
    """
    table, said = _fitting(folder(run, results), _CASES)
    rows = table.to_pandas()
    if said:
        rows.attrs["left_out"] = said
    return rows


def load_run(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """A run, by its name under `results` or its folder: all rows as `load` gives them, with where they came from.

    attrs of the table: ``environment``, as `environment` gives it, and ``folder``. Most operations of pandas keep them.
    """
    place = folder(run, results)
    rows = load(place)
    rows.attrs |= {"environment": environment(place), "folder": str(place)}
    return rows


def matrices(run: Path | str, results: Path | str = "results") -> pd.DataFrame:
    """The descriptions of a run's matrices, each once; columns as in rows/schema.py. Raises as `load` does.

    A run measured before descriptions were kept has none.
    """
    return _fitting(folder(run, results), _DESCRIPTIONS)[0].to_pandas()


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
    rows, _ = _fitting(run_folder, _CASES)
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
    return set(_fitting(run_folder, _DESCRIPTIONS)[0]["matrix_sha256"].to_pylist())


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

    Makes the folder where it is missing. Raises SpmvbenchError where another process has it, and if something in it
    that a session writes to is a symbolic link: somebody else may have made the folder.
    """
    run_folder.mkdir(parents=True, exist_ok=True)
    for place in (run_folder / name for name in (LOCK, LOG, PARTS, MATRIX_PARTS)):
        if place.is_symlink():
            raise SpmvbenchError(f"{place} is a symbolic link, and rows are not written to where it leads: remove it")
    with _locked(run_folder):
        for leftover in (run_folder / f".{name}.tmp" for name in (ROWS, MATRICES)):
            leftover.unlink(missing_ok=True)
        for kept in (_CASES, _DESCRIPTIONS):
            for leftover in (run_folder / kept.parts).glob(".*.parquet.tmp"):
                leftover.unlink()
        try:
            yield
        finally:
            _leave_unused(run_folder)


@contextmanager
def _locked(run_folder: Path) -> Iterator[None]:
    """As `lock`, and the folder is left as it is."""
    descriptor = opened(run_folder / LOCK, os.O_RDWR | os.O_CREAT)
    with open(descriptor, "r+", encoding="ascii", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = file.read(20).strip()
            holder = f" (process {pid})" if pid.isdecimal() else ""
            raise SpmvbenchError(
                f"another spmvbench{holder} is working on {run_folder}: wait for it, or choose another --run"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def opened_log(run_folder: Path) -> BinaryIO:
    """The file that the measuring processes of a run write to, open at its end. Raises OSError for a symbolic link."""
    return open(run_folder / LOG, "ab", opener=lambda path, flags: opened(Path(path), flags))


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


def _stamp() -> str:
    return datetime.datetime.now().strftime(_TIME)


def set_aside(run_folder: Path) -> Path | None:
    """Move what a run holds to a folder of its own beside it, still readable as a run; None where there is nothing."""
    names = (ROWS, PARTS, MATRICES, MATRIX_PARTS, ENVIRONMENT, LOG)
    held = [path for name in names if (path := run_folder / name).exists()]
    if not held:
        return None
    aside = run_folder.with_name(f"{run_folder.name}.before-{_stamp()}")
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
        for row in _fitting(source, _CASES)[0].to_pylist():
            row |= {"run_id": target.name, "sequence": len(rows) + 1}
            held = rows.setdefault(row["case_id"], row)
            if str(held | row) != str(held | {"sequence": row["sequence"]}):  # as text: NaN is not equal to itself
                raise UsageError(
                    f"{places[row['case_id']]} and {source} hold two rows of one case, {row['group']}/{row['name']} "
                    f"{row['label']} {row['dtype']} {row['mode']}, and a run has one: set them side by side with "
                    "spmvbench compare"
                )
            places.setdefault(row["case_id"], source)
    about = {row["matrix_sha256"]: row for source in sources for row in _fitting(source, _DESCRIPTIONS)[0].to_pylist()}
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


def removable(run: Path | str, results: Path | str = "results") -> Path:
    """The folder of a run that may be removed, given by its name under `results` or by its path.

    It has a run.json with a session's record. If that is damaged, the folder has to hold rows and nothing that is not a
    run's. Raises UsageError for everything else: for symbolic links, folders around runs, ``.`` and ``..``.
    """
    named = _is_name(str(run)) and os.path.lexists(Path(results) / run)
    path = Path(results) / run if named else Path(run)
    if path.name in ("", ".."):
        raise UsageError(f"{str(run)!r} is no run: name one under {results}, or its folder")
    if path.is_symlink():
        raise UsageError(f"{path} is a symbolic link and no run: name the folder that it leads to, or remove the link")
    if not path.is_dir():
        folder(run, results)  # raises, and says which names are near
        raise UsageError(f"{path} is no run's folder")
    if any(path.glob(f"*/{ENVIRONMENT}")):
        raise UsageError(f"{path} holds other runs: name one of those")
    if not _is_regular(path / ENVIRONMENT):
        raise UsageError(f"{path} has no {ENVIRONMENT}, so nothing proves that it is a run: it is left alone")
    try:
        if _sessions(path):
            return path
    except SpmvbenchError:
        pass
    ours = "|".join(map(re.escape, _HELD))
    temporary = re.compile(rf"\.({ours})\.(tmp|[0-9a-f]{{8}})")
    foreign = sorted(p.name for p in path.iterdir() if p.name not in _HELD and not temporary.fullmatch(p.name))
    if foreign:
        raise UsageError(f"{path} has a damaged {ENVIRONMENT} and holds {foreign[0]!r}, which is no run's: it stays")
    if not any(map(_is_regular, [path / ROWS, *(path / PARTS).glob("*.parquet")])):
        raise UsageError(f"{path} has a damaged {ENVIRONMENT} and no rows, so nothing proves that it is a run")
    return path


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def remove(run_folder: Path, *, now: bool = False) -> Path | None:
    """Move a run's folder to the folder `.trash` beside it and return where it is; now: delete it, and return None.

    Only for what `removable` gave. Raises SpmvbenchError where a session works on it, OSError where it cannot be moved.
    """
    trash = run_folder.parent / TRASH
    trash.mkdir(exist_ok=True)
    if trash.is_symlink():
        raise SpmvbenchError(f"{trash} is a symbolic link, and no run is moved to where it leads: remove it")
    if not _is_regular(run_folder / LOCK):
        (run_folder / LOCK).unlink(missing_ok=True)  # no session holds such a lock
    target = trash / f"{run_folder.name}-{_stamp()}"
    try:
        with _locked(run_folder):
            run_folder.rename(target)
        if not now:
            return target
        shutil.rmtree(target)
        return None
    finally:
        if not any(trash.iterdir()):
            trash.rmdir()


def removed(results: Path | str = "results") -> list[Path]:
    """The folders that `remove` moved to the trash of `results`, the oldest first."""
    trash = Path(results) / TRASH
    if trash.is_symlink() or not trash.is_dir():
        return []
    named = re.compile(r".+-(\d{8}-\d{6}-\d{6})")
    found = [(match[1], path) for path in trash.iterdir() if (match := named.fullmatch(path.name))]
    return [path for _, path in sorted(found) if path.is_dir() and not path.is_symlink()]


def empty_trash(removed_runs: Sequence[Path]) -> None:
    """Delete folders that `removed` gave, and the trash itself if nothing else is in it."""
    for path in removed_runs:
        shutil.rmtree(path)
    for trash in {path.parent for path in removed_runs}:
        if not any(trash.iterdir()):
            trash.rmdir()


def size(run_folder: Path) -> int:
    """Bytes of the files in a folder; symbolic links are not followed."""
    statuses = (os.lstat(os.path.join(place, name)) for place, _, names in os.walk(run_folder) for name in names)
    return sum(status.st_size for status in statuses if stat.S_ISREG(status.st_mode))


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
        temporary.unlink(missing_ok=True)  # what a killed process left, or a symbolic link that somebody put there
        with open(opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
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
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise SpmvbenchError(
                f"{merged} is damaged ({_damage(error)}): restore it from a copy; run --fresh measures anew and keeps "
                "what there is in a folder beside it"
            ) from None
        for part in sorted((run_folder / kept.parts).glob("*.parquet")):
            try:
                tables.append(_table(part, kept))
                parts.append(part)
            except FileNotFoundError:  # merged after the folder was listed
                continue
            except (pa.ArrowException, KeyError, ValueError, OSError) as error:
                damaged.append(f"Warning: ignored the damaged row {part} ({_damage(error)})")
        stale = _version(merged) != before
    for warning in damaged:
        print(warning, file=sys.stderr)
    table = pa.concat_tables(tables)
    last = {key: index for index, key in enumerate(table[kept.key].to_pylist())}
    places = table["sequence"].to_pylist()
    order = sorted(last.values(), key=lambda index: (places[index], index))
    return table.take(pa.array(order, pa.int64())), parts


def _fitting(run_folder: Path, kept: _Kept) -> tuple[pa.Table, str]:
    """The rows of `_read` that fit the schema, their texts made printable, and a sentence of those left out, if any.

    The sentence is said on stderr, too. What is left out stays in its file.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table, _ = _read(run_folder, kept)
    for index, field in enumerate(kept.schema):
        if field.type == pa.string():
            column = table.column(index)
            if field.name == "reason":
                column = pc.utf8_slice_codeunits(column, 0, MOST_REASON)
            steering = {text for text in pc.unique(column).to_pylist() if not text.isprintable()}
            if steering:
                stay = "\n\t" if field.name == "reason" else ""
                texts = [untrusted.text(text, stay) if text in steering else text for text in column.to_pylist()]
                column = pa.chunked_array([pa.array(texts, field.type)])
            table = table.set_column(index, field, column)
    faults = unfit(table, kept.columns)
    if not faults:
        return table, ""
    named = [f"{_named(table, place)}: {why}" for place, why in list(faults.items())[:NAMED]]
    more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    said = f"left out {len(faults)} of {len(table)} rows of {run_folder}, which cannot be: {'; '.join(named)}{more}"
    print(f"Warning: {said}", file=sys.stderr)
    fits = np.ones(len(table), dtype=bool)
    fits[list(faults)] = False
    return table.filter(pa.array(fits)), said


def _named(table: pa.Table, place: int, most: int = 60) -> str:
    """A row in a few words."""
    names = [
        str(table[name][place]) for name in ("group", "name", "label", "dtype", "mode") if name in table.column_names
    ]
    words = " ".join(["/".join(names[:2]), *names[2:]])
    return words if len(words) <= most else f"{words[:most]}..."


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

    # Opened here: Arrow takes names of files in UTF-8 alone, and a locale may have others.
    with open(path, "rb") as opened, pq.ParquetFile(opened) as file:
        metadata = file.schema_arrow.metadata or {}
        version = int(metadata.get(b"schema_version", 0))
        if version > SCHEMA_VERSION:
            raise SpmvbenchError(
                f"{path} was written by a newer spmvbench (schema {version}, this one knows {SCHEMA_VERSION}): "
                "update spmvbench"
            )
        table = current(_bounded(file))
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


def _bounded(file: Any) -> pa.Table:
    """A file's rows. Raises ValueError where they are more, or take more memory, than those of any run."""
    import pyarrow as pa

    batches, size = [], 0
    if file.metadata.num_rows > MOST_ROWS:
        raise ValueError(f"it declares {file.metadata.num_rows:,} rows")
    for batch in file.iter_batches(1024, use_threads=False):
        size += batch.nbytes
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES >> 30} GiB")
        batches.append(batch)
    return pa.Table.from_batches(batches, file.schema_arrow)


MOST_RECORD = 2**26  # bytes of run.json


def _sessions(run_folder: Path) -> list[dict[str, Any]]:
    path = run_folder / ENVIRONMENT
    try:
        if path.stat().st_size > MOST_RECORD:
            raise ValueError
        sessions = untrusted.tree(json.loads(path.read_text(encoding="utf-8"))["sessions"])
        if not isinstance(sessions, list):
            raise ValueError
        sessions = [current_metadata(session) for session in sessions]
        if not all(map(_sound, sessions)):
            raise ValueError
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SpmvbenchError(f"{path} is damaged: restore it from a copy, or move it away; the rows stay") from None
    return sessions


def _sound(session: Any) -> bool:
    """Whether a session's record holds what is shown and computed with in its kind, or null, or not at all."""
    if not isinstance(session, dict) or not isinstance(session.get("started"), str):
        return False
    return all(
        value is None
        or (check(value) if (check := _RECORDED.get(name)) else not _SIZE.search(name) or _positive(value))
        for facts in (session, session.get("properties") or {})
        for name, value in facts.items()
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e30


def _positives(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_positive, value.values()))


def _roofs(value: Any) -> bool:
    """Whether these are roofs as `bench.roofs` has them: pairs of bytes and seconds, by rising bytes."""
    return isinstance(value, dict) and all(
        isinstance(pairs, list)
        and pairs
        and all(isinstance(pair, list) and len(pair) == 2 and all(map(_positive, pair)) for pair in pairs)
        and all(one[0] < other[0] for one, other in pairwise(pairs))
        for pairs in value.values()
    )


_SIZE = re.compile("_(bytes|gbps|mhz)$")
_RECORDED: dict[str, Callable[[Any], bool]] = {
    "seed": lambda value: isinstance(value, int) and 0 <= value < 2**63,
    "command": lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    "properties": lambda value: isinstance(value, dict),
    "multiprocessors": _positive,
    "launch_overhead": _positives,
    "bounds": _roofs,
    "seconds": lambda value: (
        isinstance(value, dict) and all(isinstance(part, int | float) and 0 <= part < 1e30 for part in value.values())
    ),
}


def _damage(error: Exception) -> str:
    """What an error says of a file that is damaged. One of the system, which may read it another time, is raised."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return untrusted.text(str(error).partition("\n")[0])[:300]
