"""Whole runs: set aside, sharded, merged and removed."""

from __future__ import annotations

import datetime
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.paths import scratch, written_whole
from spmvbench.rows import files, metadata, store, stored
from spmvbench.rows.newest import newest, written

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MATRIX = ["device", "group", "name", "file_sha256", "order"]  # what has one matrix
_CASE = [*_MATRIX, "device_name", "label", "dtype", "mode", "op"]
# What becomes of a row that is merged. OLDER: or the same. NO_RESULT: the newest one, and an earlier one was measured.
MERGED = TAKEN, OLDER, NO_RESULT, OTHER = "taken", "older", "not measured", "another matrix"


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


def merge(sources: Sequence[Path], target: Path) -> pd.DataFrame:
    """Merge runs into a new one, completely or not at all: the newest row of each case, every invocation, all facts.

    A case is what pages take the row of (`analysis.cases.latest_cases`), by the same rule: `rows.newest`. A name has
    the matrix of the first run that read it. Rows are in the order of writing, `run_id` is the new run's name. Returns
    all rows of the sources: the columns of `_CASE`, `status`, `run` (the source) and `merged`, one of `MERGED`. Raises
    UsageError if `target` exists, or if rows of one case are of several devices or have several labels.
    """
    import pyarrow as pa

    tables = [store.valid(source, files.CASES)[0] for source in sources]
    table = pa.concat_tables(tables)
    if not len(table):
        raise UsageError(f"no row is in {' and '.join(map(str, sources))}: there is nothing to merge")
    rows = table.select([*_CASE, "case_id", "matrix_sha256", "status", "sequence", "started_at"]).to_pandas()
    rows["run"] = np.repeat([str(source) for source in sources], [len(each) for each in tables])
    case = rows[_CASE].assign(order=rows["order"].replace("", "none"), device=rows["device"].str.partition(":")[0])
    case["device_name"] = case["device_name"].mask(case["device"].str.startswith("emulated"), "")
    case = case.assign(run_id=rows["run"], **{name: rows[name] for name in ("sequence", "started_at", "status")})
    read = rows["matrix_sha256"].where(rows["matrix_sha256"] != "")
    other = read.notna() & (read != read.groupby([case[name] for name in _MATRIX]).transform("first"))
    order = written(case[~other])
    taken = order[order.isin(newest(case, _CASE, order))]
    last = case.loc[order].drop_duplicates(_CASE, keep="last").index
    places = [rows.index.isin(taken), other, rows.index.isin(last)]
    rows["merged"] = np.select(places, [TAKEN, OTHER, NO_RESULT], OLDER)
    if (twice := rows.loc[taken][rows.loc[taken, "case_id"].duplicated(keep=False)]).size:
        pair = twice[twice["case_id"] == twice["case_id"].iloc[0]]
        one, runs, labels = pair.iloc[0], *(" and ".join(pair[name].unique()) for name in ("run", "label"))
        why = "of several devices" if labels == one["label"] else "as one case, whose label changed with a default"
        raise UsageError(
            f"{runs} hold {one['group']}/{one['name']} {labels} {one['dtype']} {one['mode']} {why}, and a run has one "
            "row of a case: set them side by side with spmvbench compare"
        )
    found = stored.clocked(table.take(pa.array(taken, pa.int64())))
    for name, values in (("run_id", [target.name] * len(found)), ("sequence", range(1, len(found) + 1))):
        place = found.column_names.index(name)
        found = found.set_column(place, found.schema.field(name), pa.array(values))
    described = descriptions((store.matrices(source) for source in sources), set(rows.loc[taken, "matrix_sha256"]))
    sessions = [session for source in sources for session in metadata.sessions(source)]
    sessions = [session for place, session in enumerate(sessions) if session not in sessions[:place]]

    facts = _facts([path for source in sources if _is_regular(path := source / store.FACTS)])

    with created(target) as folder:
        if facts:
            with written_whole(folder / store.FACTS) as file:
                file.write(facts)
        metadata.write(folder, sorted(sessions, key=lambda session: session["started"]))
        for layout, content in ((files.DESCRIPTIONS, described), (files.CASES, found)):
            with written_whole(folder / layout.merged, durable=True) as file:
                files.write(content, layout, file)
    return rows


def _facts(paths: Sequence[Path]) -> bytes:
    """A file of the facts of matrices that imported runs hold; of several of a matrix the first. Empty without any."""
    import pandas as pd

    try:
        read = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
        facts = pd.concat(read).drop_duplicates("matrix") if read else pd.DataFrame()
    except (ValueError, KeyError) as error:
        raise SpmvbenchError(f"{' or '.join(map(str, paths))} holds no facts of matrices: {error}") from None
    return facts.to_csv(index=False, lineterminator="\n").encode() if len(facts) else b""


def descriptions(tables: Iterable[pd.DataFrame], only: set[str] | None = None) -> pa.Table:
    """The descriptions of matrices of several tables, each matrix once. only: hashes of matrices; None: all."""
    import pandas as pd

    found = pd.concat(list(tables)).drop_duplicates("matrix_sha256")
    found = found[found["matrix_sha256"].isin(only)] if only is not None else found
    return files.parsed(found.assign(sequence=range(1, len(found) + 1)).to_dict("records"), files.DESCRIPTIONS)


@contextmanager
def created(folder: Path) -> Iterator[Path]:
    """A folder to write a new run into, which becomes `folder` at the end: a killed process leaves no part of a run.

    Raises UsageError if `folder` exists.
    """
    there = UsageError(f"{folder} is there already: choose another name")
    if os.path.lexists(folder):
        raise there
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch(folder.parent) as place:
        (place / folder.name).mkdir()
        yield place / folder.name
        try:
            (place / folder.name).rename(folder)
        except OSError:
            if os.path.lexists(folder):  # made meanwhile
                raise there from None
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
