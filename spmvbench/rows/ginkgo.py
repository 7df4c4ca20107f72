"""Rows from the JSON of Ginkgo's benchmarks: times, storage and facts of matrices that others measured.

The file is a list with an entry for each matrix, as Ginkgo's spmv benchmark writes it and `reports.export.ginkgo` does:
``problem`` holds facts of the matrix, ``spmv`` a result for each format. Older files have times in nanoseconds and
storage as a number of elements, newer ones seconds and bytes; no file says so, and both are found from the numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.paths import written_whole
from spmvbench.rows import files, metadata, store, stored
from spmvbench.rows.checks import invalid_rows, shown
from spmvbench.rows.schema import IMPORTED, MEASURED, SCHEMA_VERSION, STATUSES

if TYPE_CHECKING:
    import pyarrow as pa

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MOST_BYTES = 2**30  # of an unpacked file: Ginkgo's of one GPU and the whole collection has 20 MB
# Of a distribution of lengths: name in the file, and end of the name of the column in facts.csv.
LENGTHS = {"min": "min", "q1": "q1", "median": "median", "q3": "q3", "max": "max", "variance": "std"}
FACT_COLUMNS = (
    "matrix", "rows", "cols", "entries", "pattern_symmetry", "spatial", "kind", "source", "bandwidth",
    *(f"{side}_len_{name}" for side in ("row", "col") for name in LENGTHS.values()),
)  # fmt: skip
# Words that begin the names of libraries' formats, which Ginkgo measures, too; others are its own.
_LIBRARIES = {"cusp": "cusparse", "hipsp": "hipsparse"} | {name: name for name in ("cusparse", "hipsparse", "onemkl")}
# Time of a product that units are compared with: a launch, and CSR's bytes at a bandwidth that lies between those of
# the GPUs of fifteen years. The fastest format of a matrix differs from it by less than a factor of ten.
_LAUNCH, _BANDWIDTH = 5e-6, 3e11
_CLEAR = 1.2  # decades from the nearest unit; in the middle between two it would be 1.5
_LEAST_VALUE = 4  # bytes: less than this an entry is no storage in bytes


@dataclass(frozen=True)
class File:
    """What a file holds. unit: of its times. in_bytes: formats whose storage is in bytes. left_out: reasons."""

    path: Path
    sha256: str
    gpu: str
    unit: str
    in_bytes: frozenset[str]
    entries: Sequence[Mapping[str, Any]]
    left_out: Sequence[str]


def read(path: Path, gpu: str = "", unit: str = "") -> File:
    """The entries of a file, also of one that gzip has compressed.

    gpu: name of the device; by default that of the file's ``dataset``, else the file's own. unit: a key of UNITS; by
    default it is found. Entries that are none are left out. Raises SpmvbenchError for a file without entries, and if
    its times fit no unit.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        if content[:2] == b"\x1f\x8b":
            content = _unpacked(content)
        found = json.loads(content)
        if not isinstance(found, list):
            raise ValueError("it is no list")
    except (ValueError, RecursionError, zlib.error) as error:
        raise SpmvbenchError(f"{path} is not the JSON of Ginkgo's benchmarks: {files.damage(error)}") from None
    entries, left_out = [], []
    for number, entry in enumerate(found, start=1):
        why = _fault(entry)
        if why:
            left_out.append(f"entry {number}: {why}")
        else:
            entries.append(entry)
    if not entries:
        raise SpmvbenchError(f"{path} holds no result of an SpMV{f' ({left_out[0]})' if left_out else ''}")
    return File(
        path,
        digest,
        gpu or _system(entries) or path.name.partition(".")[0],
        unit or _unit(path, entries),
        _in_bytes(entries),
        entries,
        left_out,
    )


def _unpacked(content: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    found = unpacker.decompress(content, MOST_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
    if not unpacker.eof:
        raise ValueError("its end is missing")
    return found


def _fault(entry: Any) -> str:
    """Why an entry cannot be read; empty if it can."""
    problem, results = (entry.get("problem"), entry.get("spmv")) if isinstance(entry, dict) else (None, None)
    if not isinstance(problem, dict) or not isinstance(results, dict) or not results:
        return "it has no problem or no results under spmv"
    if not all(isinstance(problem.get(name), str) and problem[name] for name in ("group", "name")):
        return "its problem has no group or no name"
    if not all(type(problem.get(name)) is int and 0 <= problem[name] < 2**62 for name in ("rows", "nonzeros")):
        return "its problem has no rows or no nonzeros"
    if not all(isinstance(result, dict) for result in results.values()):
        return "a result is no object"
    return ""


def _system(entries: Sequence[Mapping[str, Any]]) -> str:
    """The GPU that our own export names, without the setting."""
    dataset = entries[0].get("dataset")
    system = dataset.get("system") if isinstance(dataset, dict) else None
    return str(system).removesuffix(f" {_setting(entries[0])}") if system else ""


def _setting(entry: Mapping[str, Any]) -> str:
    """Type and mode as our own export names them. Ginkgo's benchmarks repeat products in double precision."""
    ours = entry.get("spmvbench")
    return str(ours.get("setting")) if isinstance(ours, dict) else "f64 hot"


def _results(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, float, float]]:
    """Of every timed product: nonzeros, format, time, and storage (NaN if there is none)."""
    for entry in entries:
        for name, result in entry["spmv"].items():
            if _time(result):
                yield entry["problem"]["nonzeros"], name, _time(result), _number(result.get("storage"))


def _time(result: Mapping[str, Any]) -> float:
    """The time of a product as the file has it; 0 if it was not timed."""
    time = _number(result.get("time")) if result.get("completed") is True else math.nan
    return time if time > 0 else 0.0


def _number(value: Any) -> float:
    """NaN for what is no number, and for one that no row or table holds."""
    return float(value) if type(value) in (int, float) and abs(value) < 2**62 else math.nan


def _unit(path: Path, entries: Sequence[Mapping[str, Any]]) -> str:
    """The unit in which times of the fastest format are those of a GPU. Raises SpmvbenchError if there is none."""
    away = [
        math.log10(min(times) / (_LAUNCH + 12 * entry["problem"]["nonzeros"] / _BANDWIDTH))
        for entry in entries
        if (times := [time for time in map(_time, entry["spmv"].values()) if time])
    ]
    if not away:
        raise SpmvbenchError(f"{path} holds no product that was completed and timed")
    decades = float(np.median(away))
    nearest = min(UNITS, key=lambda unit: abs(decades + math.log10(UNITS[unit])))
    if abs(decades + math.log10(UNITS[nearest])) > _CLEAR:
        raise SpmvbenchError(
            f"the times of {path} are those of a GPU in no unit: in seconds, the median is 10^{decades:.1f} times what "
            "is usual; say the unit with --unit"
        )
    return nearest


def _in_bytes(entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The formats whose storage is in bytes, not in elements or unknown: they have at least a value for each entry."""
    shares: dict[str, list[float]] = {}
    for nonzeros, name, _, storage in _results(entries):
        if nonzeros and not math.isnan(storage):
            shares.setdefault(name, []).append(storage / nonzeros)
    return frozenset(name for name, of in shares.items() if np.quantile(of, 0.05) >= _LEAST_VALUE)


def label(name: str, *, ours: bool) -> str:
    """The label of a format: ``CuspCsrex`` is cusparse-csrex, ``Coo`` is ginkgo-coo; ours stay as they are."""
    if ours:
        return name
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()
    first, _, rest = words.partition("-")
    return f"{_LIBRARIES[first]}-{rest}" if rest and first in _LIBRARIES else f"ginkgo-{words}"


def rows(sources: Sequence[File], run: str) -> pa.Table:
    """The rows of files as the store merges them, one for each matrix, format and setting.

    Of several the one that counts by the rule of `rows.newest`. Raises SpmvbenchError for a value that no row can hold.
    """
    import pyarrow as pa

    found = dict[str, dict[str, Any]]()
    for row in (row for source in sources for row in _rows(source)):
        if row["status"] in MEASURED or found.get(row["case_id"], row)["status"] not in MEASURED:
            found[row["case_id"]] = row
    for place, row in enumerate(found.values(), start=1):
        row |= {"run_id": run, "sequence": place, "schema_version": SCHEMA_VERSION}
    try:
        columns = next(iter(found.values()))
        table = files.CASES.completed(pa.table({name: [row[name] for row in found.values()] for name in columns}))
    except (pa.ArrowException, OverflowError) as error:
        raise SpmvbenchError(f"{sources[0].path} holds a value that no row can hold: {files.damage(error)}") from None
    if faults := invalid_rows(stored.full(table)):
        place, why = next(iter(faults.items()))
        name, of = (shown(table[column][place].as_py(), 60) for column in ("name", "label"))
        raise SpmvbenchError(f"{sources[0].path} holds what no row can hold: {why}, of {name} in {of}")
    return table


def _rows(source: File) -> Iterator[dict[str, Any]]:
    for entry in source.entries:
        problem, ours = entry["problem"], isinstance(entry.get("spmvbench"), dict)
        dtype, _, mode = _setting(entry).partition(" ")
        name = f"{problem['group']}/{problem['name']}"
        matrix = {
            "group": problem["group"],
            "name": problem["name"],
            "kind": str(problem.get("kind") or ""),
            # Nothing is known of the values: who compares by content finds no other row.
            "matrix_sha256": f"{IMPORTED}:{hashlib.sha256(name.encode()).hexdigest()[:16]}",
            "nnz": problem["nonzeros"],
            "work": 2 * problem["nonzeros"],
        }
        facts = _facts(entry)
        matrix |= {key: facts[key] for key in _OF_ROWS}
        matrix |= {key: None if math.isnan(facts[key]) else int(facts[key]) for key in ("row_len_min", "row_len_max")}
        for key, result in entry["spmv"].items():
            of = label(key, ours=ours)
            identity = json.dumps([source.gpu, name, of, dtype, mode])
            yield (
                matrix
                | {
                    "case_id": f"{IMPORTED}:{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
                    "format": of.partition("[")[0],
                    "family": of.partition("-")[0],
                    "params": "{}",
                    "label": of,
                    "dtype": dtype,
                    "mode": mode,
                    "op": "spmv",
                    "device": IMPORTED,
                    "device_name": source.gpu,
                }
                | _measured(result, UNITS[source.unit], in_bytes=key in source.in_bytes)
            )


_OF_ROWS = ("rows", "cols", "pattern_symmetry", "row_len_median", "row_len_std")


def _measured(result: Mapping[str, Any], unit: float, *, in_bytes: bool) -> dict[str, Any]:
    """Status, time, storage and the error that the file has of a product."""
    storage, error = _number(result.get("storage")), _number(result.get("max_relative_norm2"))
    seconds = unit * _time(result)
    repetitions = result.get("repetitions")
    repeats = repetitions if type(repetitions) is int and 0 < repetitions < 2**31 else 1
    about = {
        "status": "ok",
        "reason": "",
        stored.SAMPLES: stored.milliseconds([seconds], repeats),
        "repeats": repeats,
        "bytes_arrays": json.dumps({"storage": int(storage)}) if in_bytes and storage >= 0 else "",
        "detail": json.dumps({"max_relative_norm2": error}) if error >= 0 else "",
    }
    if seconds:
        return about
    status = result.get("error_type")
    reason = str(result.get("error") or "not completed; the file does not say why")
    known = str(status) if status in STATUSES and status != "ok" else "error"
    return about | {"status": known, "reason": reason, stored.SAMPLES: np.zeros(0, np.float32), "bytes_arrays": ""}


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an entry's matrix, in the columns of facts.csv; what is missing is left out or NaN."""
    problem = entry["problem"]
    cols = problem.get("cols", problem.get("columns", problem["rows"]))
    found = {
        "matrix": f"{problem['group']}/{problem['name']}",
        "rows": problem["rows"],
        "cols": cols if type(cols) is int else problem["rows"],
        "entries": problem["nonzeros"],
        "pattern_symmetry": _number(problem.get("psym")),
        "spatial": "yes" if problem.get("2d3d") else "no",
        "kind": str(problem.get("kind") or ""),
    }
    for side in ("row", "col"):
        lengths = problem.get(f"{side}_distribution")
        lengths = lengths if isinstance(lengths, dict) else {}
        for name, of in LENGTHS.items():
            value = _number(lengths.get(name))
            value = value if value >= 0 else math.nan
            found[f"{side}_len_{of}"] = math.sqrt(value) if name == "variance" else value
    return found


def keep(sources: Sequence[File], folder: Path, session: Mapping[str, Any]) -> int:
    """Write a new run: its rows, facts of matrices (store.FACTS) and metadata. Returns the number of rows.

    Raises SpmvbenchError if the folder is there, and as `rows`; nothing is written then.
    """
    import pandas as pd

    from spmvbench.rows import folders

    table = rows(sources, folder.name)
    gpus = [{"device_name": gpu} for gpu in dict.fromkeys(source.gpu for source in sources)]
    files_read = [{"name": of.path.name, "sha256": of.sha256, "unit": of.unit} for of in sources]
    about: dict[str, Any] = {"run": folder.name, "started": store.now(), "ended": store.now(), "kind": IMPORTED}
    about |= {"properties": gpus[0], "workers": gpus, "files": files_read, **session}
    known = {
        facts["matrix"]: facts | {"source": source.path.name}
        for source in sources
        for entry in source.entries
        if not math.isnan((facts := _facts(entry))["pattern_symmetry"])
    }
    facts = pd.DataFrame(list(known.values()), columns=FACT_COLUMNS).convert_dtypes()  # whole numbers without a point
    with folders.created(folder) as place:
        metadata.write(place, [about])
        with written_whole(place / store.FACTS) as file:
            file.write(facts.to_csv(index=False, lineterminator="\n").encode())
        with written_whole(place / files.CASES.merged, durable=True) as file:
            files.write(table, files.CASES, file)
    return len(table)
