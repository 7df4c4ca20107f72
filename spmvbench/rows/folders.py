"""Whole runs: set aside, sharded, merged and removed."""

from __future__ import annotations

import datetime
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.paths import written_whole
from spmvbench.rows import files, metadata, store


def shard(run_folder: Path, part: int, count: int) -> Path:
    """The folder of a shard of a run, next to the run's; `merge` makes one run of all shards."""
    return run_folder.with_name(f"{run_folder.name}.shard-{part}-of-{count}")


def set_aside(run_folder: Path) -> Path | None:
    """Move the contents of a run to a new folder next to it, a readable run; None if there is nothing to move."""
    names = (store.ROWS, store.LINES, store.MATRICES, store.MATRIX_LINES, metadata.ENVIRONMENT, store.LOG)
    held = [path for name in names if (path := run_folder / name).exists()]
    if not held:
        return None
    aside = run_folder.with_name(f"{run_folder.name}.before-{datetime.datetime.now():%Y%m%d-%H%M%S-%f}")
    aside.mkdir()
    for path in held:
        path.rename(aside / path.name)
    return aside


def merge(sources: Sequence[Path], target: Path) -> int:
    """Merge rows, descriptions of matrices and metadata of several runs into a new run, completely or not at all.

    Each row once, in the order of the runs and of writing; `run_id` is the new run's name. Returns the number of rows.
    Raises SpmvbenchError if `target` exists, UsageError if two runs have different rows of one case.
    """
    rows: dict[str, dict[str, Any]] = {}
    places: dict[str, Path] = {}
    for source in sources:
        for row in store.valid(source, files.CASES)[0].to_pylist():
            row |= {"run_id": target.name, "sequence": len(rows) + 1}
            held = rows.setdefault(row["case_id"], row)
            if str(held | row) != str(held | {"sequence": row["sequence"]}):  # as text: NaN is not equal to itself
                raise UsageError(
                    f"{places[row['case_id']]} and {source} hold two rows of one case, {row['group']}/{row['name']} "
                    f"{row['label']} {row['dtype']} {row['mode']}, and a run has one: set them side by side with "
                    "spmvbench compare"
                )
            places.setdefault(row["case_id"], source)
    about = {row["matrix_sha256"]: row for source in sources for row in store.matrices(source).to_dict("records")}
    described = [row | {"sequence": place} for place, row in enumerate(about.values(), start=1)]
    sessions = [session for source in sources for session in metadata.sessions(source)]
    sessions = [session for place, session in enumerate(sessions) if session not in sessions[:place]]

    with created(target):
        metadata.write(target, sorted(sessions, key=lambda session: session["started"]))
        for layout, found in ((files.DESCRIPTIONS, described), (files.CASES, list(rows.values()))):
            with written_whole(target / layout.merged, durable=True) as file:
                files.write(files.parsed(found, layout), layout, file)
    return len(rows)


@contextmanager
def created(folder: Path) -> Iterator[None]:
    """Make the folder of a new run, and remove it if what writes it fails. Raises SpmvbenchError if it exists."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise SpmvbenchError(f"{folder} is there already: choose another name") from None
    try:
        yield
    except BaseException:
        shutil.rmtree(folder)
        raise


def removable(run: Path | str, results: Path | str = "results") -> Path:
    """The folder of a run that may be removed, given by its name under `results` or by its path.

    It has a run.json with metadata. Raises UsageError for everything else: symbolic links, folders that contain runs,
    ``.`` and ``..``; SpmvbenchError for a damaged run.json.
    """
    named = store.is_name(str(run)) and os.path.lexists(Path(results) / run)
    path = Path(results) / run if named else Path(run)
    if path.name in ("", ".."):
        raise UsageError(f"{str(run)!r} is no run: name one under {results}, or its folder")
    if path.is_symlink():
        raise UsageError(f"{path} is a symbolic link and no run: name the folder that it leads to, or remove the link")
    if not path.is_dir():
        store.folder(run, results)  # raises, and says which names are near
        raise UsageError(f"{path} is no run's folder")
    if any(path.glob(f"*/{metadata.ENVIRONMENT}")):
        raise UsageError(f"{path} holds other runs: name one of those")
    if not _is_regular(path / metadata.ENVIRONMENT):
        raise UsageError(f"{path} has no {metadata.ENVIRONMENT}, so nothing proves that it is a run: it is left alone")
    if not metadata.sessions(path):
        raise UsageError(f"{path} has a {metadata.ENVIRONMENT} without metadata, so nothing proves that it is a run")
    return path


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def remove(run_folder: Path) -> None:
    """Delete a run's folder, from `removable`. Symbolic links in it are not followed.

    Raises SpmvbenchError if a process works on it, OSError if it cannot be deleted.
    """
    if not _is_regular(run_folder / store.LOCK):
        (run_folder / store.LOCK).unlink(missing_ok=True)  # no process holds such a lock
    with store.locked_folder(run_folder):
        shutil.rmtree(run_folder)


def size(folder: Path) -> int:
    """Bytes of the files in a folder, 0 without one; neither links are followed nor files counted that vanish."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                status = os.lstat(os.path.join(place, name))
                total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total
