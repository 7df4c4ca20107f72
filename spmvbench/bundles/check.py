"""Checks of submitted results, without the GPU that measured them.

Each check yields findings. A finding that failed tells a reader what to know before believing the rows. Only the GPU
could verify that these times were measured.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from spmvbench import untrusted
from spmvbench.bundles import derived, pack, sources, trial
from spmvbench.bundles.findings import (
    FAILED,
    NOTE,
    OPEN,
    PASSED,
    Bundle,
    Finding,
    cases,
    check_rows,
    devices,
    mapping,
    shortened,
)
from spmvbench.bundles.matrices import matrices
from spmvbench.bundles.programs import processes, programs
from spmvbench.errors import SpmvbenchError, UsageError, counted
from spmvbench.measure import operations
from spmvbench.paths import UNPACKING, scratch, trusted_folder
from spmvbench.rows import store
from spmvbench.rows.schema import IMPORTED, STATUSES
from spmvbench.rows.stored import parsed

__all__ = ["FAILED", "NOTE", "OPEN", "PASSED", "Bundle", "Finding", "checks", "matrices", "opened"]

MAX_BYTES = 2**31  # of an unpacked bundle
ENCRYPTED = 0x1  # flag of a file in a ZIP archive (APPNOTE.TXT, 4.4.4)


@contextmanager
def opened(path: Path, temporary: Path) -> Iterator[Bundle]:
    """The content of a bundle or of a run's folder. Raises UsageError if it is neither, SpmvbenchError if it is
    damaged.
    """
    if path.is_dir():
        yield Bundle(path, None, store.load(path), store.environment(path)["sessions"])
        return
    with scratch(trusted_folder(temporary)) as folder:
        manifest = _unpacked(path, folder)
        yield Bundle(folder, manifest, store.load(folder), store.environment(folder)["sessions"])


def _unpacked(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack a bundle, verify it against its manifest, and return that."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(path, archive)
            for name, digest in manifest["files"].items():
                content = archive.read(name)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise SpmvbenchError(f"{path} is damaged: {name} is not what {pack.MANIFEST} says")
                parts = PurePosixPath(name).parts
                if not parts or ".." in parts or name.startswith("/"):
                    raise SpmvbenchError(f"{path} holds a file outside of itself: {name!r}")
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{path} is neither a run's folder nor a bundle (spmvbench bundle RUN makes one)") from None
    except RecursionError:
        raise SpmvbenchError(f"{path} is damaged: its {pack.MANIFEST} is nested too deep") from None
    except UNPACKING as error:
        raise SpmvbenchError(f"{path} cannot be unpacked: {error}") from None
    return manifest


def _manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The manifest of a bundle, which names all its files. Raises SpmvbenchError for another or a large one."""
    members = archive.infolist()
    sizes = {info.filename: info.file_size for info in members}
    if sum(sizes.values()) > MAX_BYTES:
        raise SpmvbenchError(f"{path} unpacks to more than {MAX_BYTES >> 30} GiB")
    if any(info.flag_bits & ENCRYPTED for info in members):
        raise SpmvbenchError(f"{path} is encrypted: a bundle is not")
    manifest: dict[str, Any] = untrusted.tree(json.loads(archive.read(pack.MANIFEST)))
    if not _is_manifest(manifest):
        raise SpmvbenchError(f"{path} is damaged: its {pack.MANIFEST} is not one that spmvbench bundle writes")
    if manifest["bundle"] > pack.VERSION:
        raise SpmvbenchError(f"{path} was written by a newer spmvbench: update spmvbench")
    if set(manifest["files"]) != set(sizes) - {pack.MANIFEST} or len(sizes) != len(members):
        raise SpmvbenchError(f"{path} is damaged: it does not hold the files that its {pack.MANIFEST} names")
    return manifest


def _is_manifest(manifest: Any) -> bool:
    """Whether this has the structure that `pack` writes."""

    def texts(value: Any, *names: str) -> bool:
        return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)

    return (
        isinstance(manifest, dict)
        and isinstance(manifest.get("bundle"), int)
        and texts(files := manifest.get("files"), *(files if isinstance(files, dict) else ()))
        and isinstance(origins := manifest.get("formats"), list)
        and all(texts(origin, "format", "source_hash", "from") for origin in origins)
    )


def checks(
    seconds: float, run_sources: bool, progress: Callable[[str], None], programs_seconds: float = 0.0
) -> list[Callable[[Bundle], Iterator[Finding]]]:
    """All checks in order, each a function of the bundle. seconds: limit for matrices. run_sources: run included
    formats. programs_seconds: limit for making programs again, which is left out if it is 0.
    """
    found: list[Callable[[Bundle], Iterator[Finding]]] = [
        metadata,
        derived.names,
        derived.identities,
        derived.verdicts,
        derived.samples,
        derived.rates,
        derived.footprints,
        derived.energies,
        derived.launch_overheads,
        derived.bounded,
        descriptions,
        lambda bundle: matrices(bundle, seconds, progress),
        lambda bundle: formats_known(bundle, run_sources, progress),
    ]
    if programs_seconds:
        found.append(lambda bundle: programs(bundle, programs_seconds, progress, workers=processes()))
    return [schema, imported, *(partial(_of_measured, check) for check in found)]


def imported(bundle: Bundle) -> Iterator[Finding]:
    """Say that rows are imported: what others measured cannot be verified here."""
    files = [file for session in bundle.sessions for file in session.get("files") or () if isinstance(file, dict)]
    names = ", ".join(f"{file.get('name')} (SHA-256 {str(file.get('sha256'))[:12]})" for file in files)
    if text := store.imported(bundle.rows, names or "unknown files"):
        yield Finding("imported", OPEN, text)


def _of_measured(check: Callable[[Bundle], Iterator[Finding]], bundle: Bundle) -> Iterator[Finding]:
    """Check the rows that are not imported, and the metadata of their invocations."""
    foreign = bundle.rows["device"] == IMPORTED
    if not foreign.any():  # a copy of all rows would be large
        yield from check(bundle)
    elif not foreign.all():
        sessions = [session for session in bundle.sessions if session.get("kind") != IMPORTED]
        yield from check(replace(bundle, rows=bundle.rows[~foreign], sessions=sessions))


def schema(bundle: Bundle) -> Iterator[Finding]:
    """Check that statuses exist, that no case has two rows, and that the number of rows is that of the manifest."""
    import pyarrow.parquet as pq

    rows = bundle.rows
    if left_out := rows.attrs.get("left_out"):
        yield Finding("schema", FAILED, left_out)
    if not len(rows):
        yield Finding("schema", FAILED, "there are no rows")
    if (written := bundle.folder / store.ROWS).is_file():  # of which `store.load` keeps the last row of a case
        ids = pq.read_table(written, columns=["case_id"])["case_id"]
        if twice := len(ids) - len(ids.unique()):
            yield Finding("schema", FAILED, f"{store.ROWS} holds {twice} rows of cases that have a row already")
    unknown = sorted(set(rows["status"]) - set(STATUSES))
    if unknown:
        yield Finding("schema", FAILED, f"unknown status {' or '.join(unknown)}")
    if bundle.manifest is not None and bundle.manifest.get("cases") != len(rows):
        yield Finding("schema", FAILED, f"{pack.MANIFEST} lists {bundle.manifest.get('cases')} cases, not {len(rows)}")
    unexplained = (rows["status"] != "ok") & (rows["reason"] == "")
    yield from check_rows("schema", rows, unexplained.to_numpy(bool), "every row that is not ok has a reason")


# Metadata of the device that must be present, by the device's kind.
PROPERTIES = {
    "cuda": ("device_name", "driver", "max_sm_clock_mhz", "multiprocessors", "l2_bytes", "memory_bytes"),
    "emulated": ("device_name", "compiler"),
}
LATER = ("gpu", "ecc", "cusparse")  # of a GPU; missing in runs of the first versions


def metadata(bundle: Bundle) -> Iterator[Finding]:
    """Check the metadata of each invocation: what ran, on which GPU, at which clocks, and the measured limits."""
    missing, older = set(), set()
    has_bounds = bool((bundle.rows["bound_by"] != "").any() or bundle.rows["x_sectors"].notna().any())
    for session in bundle.sessions:
        about, kind = mapping(session.get("properties")), session.get("kind")
        if not (session.get("git") or session.get("spmvbench")):
            missing.add("revision or version")
        if kind not in PROPERTIES:
            missing.add("the kind of a device")
            continue
        missing |= {name for name in PROPERTIES[kind] if not about.get(name)}
        modes = mapping(session.get("launch_overhead"))
        ran = set(bundle.verified["mode"]) if len(bundle.sessions) == 1 else {"hot"}
        missing |= {f"launch_overhead ({mode})" for mode in ran if not _positive(modes.get(mode))}
        if kind != "cuda":
            continue
        missing |= {name for name in ("read_bandwidth_gbps", "copy_bandwidth_gbps") if not _positive(session.get(name))}
        older |= {name for name in LATER if name not in about}
        if not derived.valid_bounds(session):
            (missing if has_bounds or session.get("bounds") else older).add("bounds")
    if not bundle.sessions:
        missing.add("any invocation")
    yield from _devices(bundle)
    if missing:
        yield Finding("metadata", FAILED, f"run.json lacks {', '.join(sorted(missing))}")
    else:
        names = sorted({str(mapping(session.get("properties")).get("device_name")) for session in bundle.sessions})
        yield Finding("metadata", PASSED, f"{counted(len(bundle.sessions), 'invocation')} on {', '.join(names)}")
    if older:
        text = f"run.json held nothing of {', '.join(sorted(older))} yet: not checked"
        yield Finding("metadata", OPEN, text)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def _devices(bundle: Bundle) -> Iterator[Finding]:
    """Check that every row belongs to a device, and a time, of an invocation."""
    rows, known, complete = bundle.rows, list[dict[str, Any]](), True
    for session in bundle.sessions:
        known += devices(session)
        complete &= bool(session.get("ended"))  # if an invocation was killed, its metadata lacks workers
    names, gpus = ({str(part.get(name) or "") for part in known} for name in ("device_name", "gpu"))
    unknown = ~rows["device_name"].isin(names)
    yield from check_rows("metadata", rows, unknown.to_numpy(bool), "the device is one of the run's")
    unknown = ~rows["gpu"].isin([*gpus, ""])
    blank = (rows["gpu"] == "") & rows["device"].str.startswith("cuda")
    wrong, missing = (unknown, blank) if complete else (unknown & False, unknown | blank)
    yield from check_rows("metadata", rows, wrong.to_numpy(bool), "the GPU is one of the run's", missing.to_numpy(bool))
    within = np.zeros(len(rows), bool)
    for sessions, places in bundle.invocations(rows):
        within[places] = bool(sessions)
    if not within.all():
        text = f"{int((~within).sum())} of {len(rows)} rows were measured outside of all invocations (hosts' clocks)"
        yield Finding("metadata", OPEN, f"{text}: {cases(rows[~within])}")


def descriptions(bundle: Bundle) -> Iterator[Finding]:
    """Check that the description of a matrix has the number of rows and entries that its rows have."""
    rows = bundle.rows.drop_duplicates("matrix_sha256").set_index("matrix_sha256")
    descriptions, wrong = store.matrices(bundle.folder), []
    for about in descriptions.itertuples(index=False):
        if about.matrix_sha256 in rows.index:
            row = rows.loc[about.matrix_sha256]
            entries = int((about.row_lengths * about.row_counts).sum())
            if (row["rows"], row["nnz"]) != (int(about.row_counts.sum()), entries):
                wrong.append(f"{about.group}/{about.name}")
    if wrong:
        yield Finding("matrices", FAILED, f"other sizes in {store.MATRICES} than in the rows: {shortened(wrong)}")


def included_modules(bundle: Bundle) -> list[Path]:
    """Modules of formats that are in a bundle, none in a run's folder. They are untrusted programs."""
    included = any(origin["from"] == "bundle" for origin in (bundle.manifest or {}).get("formats", []))
    return sorted((bundle.folder / "sources").glob("*.py")) if included else []


def _foreign(bundle: Bundle, unknown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of unknown formats, by key and source hash, that are programs whose sources nobody can run here: libraries,
    and Python files that are not in the bundle.
    """
    origins = (bundle.manifest or {}).get("formats", [])
    included = {(o["format"], o["source_hash"]) for o in origins if o["from"] == "bundle"}
    described = pack.described(bundle.sessions)
    known = {pair: described.get((pair[0], sources.of_format(pair[1]))) for pair in unknown}
    return [pair for pair, about in known.items() if about is not None and ("file" in about or pair not in included)]


def _programs(bundle: Bundle, foreign: list[tuple[str, str]]) -> Iterator[Finding]:
    if foreign:
        libraries = any(name.startswith(pack.LIBRARIES) for name in (bundle.manifest or {}).get("files", {}))
        what = "libraries of the bundle are not run" if libraries else "hash only"
        keys = ", ".join(dict.fromkeys(key for key, _ in foreign))
        yield Finding("formats", OPEN, f"program not in this project: {what}: {keys}")


def formats_known(
    bundle: Bundle, run_sources: bool, progress: Callable[[str], None] = lambda text: None
) -> Iterator[Finding]:
    """Check that each format's source is a release's, or is in the bundle and gives verified results on the emulated
    device.
    """
    pairs = list(bundle.rows[["format", "source_hash"]].drop_duplicates().itertuples(index=False, name=None))
    unknown = sorted(pair for pair in pairs if not sources.known(*pair))
    modules = included_modules(bundle)
    if len(unknown) < len(pairs):
        yield Finding("formats", PASSED, f"{len(pairs) - len(unknown)} of {len(pairs)} formats have released sources")
    yield from _programs(bundle, foreign := _foreign(bundle, unknown))
    unknown = [pair for pair in unknown if pair not in foreign]
    if not unknown:
        return
    keys = ", ".join(dict.fromkeys(key for key, _ in unknown))
    if not modules:
        yield Finding("formats", OPEN, f"sources of no known release: {keys}")
        return
    if not run_sources:
        names = ", ".join(path.name for path in modules)
        yield Finding("formats", OPEN, f"not run: {names} of {keys}; read them, then use --run-sources")
        return
    runnable = [pair for pair in unknown if sources.solver_known(pair[1])]
    if solved := [key for key, measured in unknown if (key, measured) not in runnable]:
        yield Finding("formats", OPEN, f"measured in a solver of no known release: {shortened(solved)}")
    for key, measured in runnable:
        rows = bundle.rows[(bundle.rows["format"] == key) & (bundle.rows["source_hash"] == measured)]
        settings = [parsed(text) for text in sorted(rows["params"].unique())]
        progress(f"running {key}")
        own = sources.of_format(measured)
        finding = trial.run(key, own, settings, sorted(rows["op"].map(operations.kind).unique()), modules)
        yield Finding("formats", finding.verdict, f"{key}: {finding.text}")
