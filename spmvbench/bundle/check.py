"""What can be verified of handed-in results without the GPU that measured them.

Each check yields findings; one that failed says what a reader has to know before believing the rows. What only the
GPU could tell stays open: that these times were really measured.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
import os
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from spmvbench import store, untrusted
from spmvbench.bench import reading, roofs
from spmvbench.bench.record import STATUSES
from spmvbench.bundle import confined, pack, sources
from spmvbench.collection import sources as collected
from spmvbench.collection import suitesparse
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Csr
from spmvbench.paths import scratch

PASSED, FAILED, OPEN, NOTE = "passed", "FAILED", "open", "note"
MOST_BYTES = 2**31  # of an unpacked bundle
ENCRYPTED = 0x1  # flag of a file in a ZIP archive (APPNOTE.TXT, 4.4.4)
LISTED = 5
TRIAL = 600.0  # seconds that a format of a bundle has on the emulated device
SHOWN = 500  # characters of what it says
# The floor and the roofs are measured themselves, and the floor's own samples spread by some hundredths.
FLOOR, ROOF = 0.9, 1.05


@dataclass(frozen=True)
class Finding:
    """check: what was looked at. verdict: PASSED, FAILED, OPEN (should be verified, and was not) or NOTE."""

    check: str
    verdict: str
    text: str


@dataclass
class Bundle:
    """A bundle that was unpacked, or a run's folder. manifest: None for a folder."""

    folder: Path
    manifest: dict[str, Any] | None
    rows: pd.DataFrame
    sessions: list[dict[str, Any]]


@contextmanager
def opened(path: Path, temporary: Path) -> Iterator[Bundle]:
    """A bundle's or a run's content. Raises UsageError where it is neither, SpmvbenchError where it is damaged."""
    if path.is_dir():
        yield Bundle(path, None, store.load(path), store.environment(path)["sessions"])
        return
    temporary.mkdir(parents=True, exist_ok=True)
    with scratch(temporary) as folder:
        manifest = _unpacked(path, folder)
        yield Bundle(folder, manifest, store.load(folder), store.environment(folder)["sessions"])


def _unpacked(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack a bundle, held to its manifest, and return that."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = {info.filename: info.file_size for info in archive.infolist()}
            if sum(held.values()) > MOST_BYTES:
                raise SpmvbenchError(f"{path} unpacks to more than {MOST_BYTES >> 30} GiB")
            if any(info.flag_bits & ENCRYPTED for info in archive.infolist()):
                raise SpmvbenchError(f"{path} is encrypted: a bundle is not")
            manifest = untrusted.tree(json.loads(archive.read(pack.MANIFEST)))
            if not _is_manifest(manifest):
                raise SpmvbenchError(f"{path} is damaged: its {pack.MANIFEST} is not one that spmvbench bundle writes")
            if manifest["bundle"] > pack.VERSION:
                raise SpmvbenchError(f"{path} was written by a newer spmvbench: update spmvbench")
            files = manifest["files"]
            if set(files) != set(held) - {pack.MANIFEST} or len(held) != len(archive.infolist()):
                raise SpmvbenchError(f"{path} is damaged: it does not hold the files that its {pack.MANIFEST} names")
            for name, digest in files.items():
                content = archive.read(name)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise SpmvbenchError(f"{path} is damaged: {name} is not what {pack.MANIFEST} says")
                parts = PurePosixPath(name).parts
                if not parts or ".." in parts or name.startswith("/"):
                    raise SpmvbenchError(f"{path} holds a file outside of itself: {name!r}")
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
    except RecursionError:
        raise SpmvbenchError(f"{path} is damaged: its {pack.MANIFEST} is nested too deep") from None
    except (NotImplementedError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise SpmvbenchError(f"{path} cannot be unpacked: {error}") from None
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{path} is neither a run's folder nor a bundle (spmvbench bundle RUN makes one)") from None
    return manifest


def _is_manifest(manifest: Any) -> bool:
    """Whether this has the shape of what `pack` writes."""

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
    seconds: float, run_sources: bool, progress: Callable[[str], None]
) -> list[Callable[..., Iterator[Finding]]]:
    """Every check in order, each a function of the bundle. seconds: for matrices. run_sources: run what it brings."""
    return [
        schema,
        record,
        samples,
        rates,
        floors,
        bounds,
        lambda bundle: matrices(bundle, seconds, progress),
        lambda bundle: formats_known(bundle, run_sources),
    ]


def _ok(bundle: Bundle) -> pd.DataFrame:
    return bundle.rows[bundle.rows["status"] == "ok"]


def _held(check: str, rows: pd.DataFrame, bad: Any, what: str, fine: str) -> Iterator[Finding]:
    """FAILED with the first of the bad rows, else PASSED."""
    found = rows[np.asarray(bad, dtype=bool)]
    if found.empty:
        yield Finding(check, PASSED, fine)
        return
    named = [f"{row.name} {row.label} {row.dtype} {row.mode}" for row in found.head(LISTED).itertuples(index=False)]
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    yield Finding(check, FAILED, f"{what}: {'; '.join(named)}{more}")


def schema(bundle: Bundle) -> Iterator[Finding]:
    """Statuses that exist, cases that stand once, counts that the manifest tells."""
    rows = bundle.rows
    if left_out := rows.attrs.get("left_out"):
        yield Finding("schema", FAILED, left_out)
    unknown = sorted(set(rows["status"]) - set(STATUSES))
    if unknown:
        yield Finding("schema", FAILED, f"there is no status {' or '.join(unknown)}")
    if bundle.manifest is not None and bundle.manifest.get("cases") != len(rows):
        yield Finding(
            "schema", FAILED, f"{pack.MANIFEST} tells of {bundle.manifest.get('cases')} cases, not {len(rows)}"
        )
    silent = rows[~rows["status"].isin(["ok"]) & (rows["reason"] == "")]
    yield from _held("schema", rows, rows.index.isin(silent.index), "neither right nor a reason", f"{len(rows)} rows")


def record(bundle: Bundle) -> Iterator[Finding]:
    """What the record of each session has to tell: what ran, on which GPU, at which clocks."""
    missing, older = set(), set()
    for session in bundle.sessions:
        about = session.get("properties") or {}
        if not (session.get("git") or session.get("spmvbench")):
            missing.add("revision or version")
        if session.get("kind") == "cuda":
            missing |= {name for name in ("device_name", "driver", "max_sm_clock_mhz") if not about.get(name)}
            older |= {name for name in ("gpu", "ecc", "cusparse") if name not in about}
    if not bundle.sessions:
        missing.add("any session")
    if missing:
        yield Finding("record", FAILED, f"run.json lacks {', '.join(sorted(missing))}")
    else:
        devices = sorted({str((s.get("properties") or {}).get("device_name")) for s in bundle.sessions})
        yield Finding("record", PASSED, f"{len(bundle.sessions)} sessions on {', '.join(devices)}")
    if older:
        yield Finding("record", NOTE, f"measured before records held {', '.join(sorted(older))}")


def samples(bundle: Bundle) -> Iterator[Finding]:
    """Samples that look like time, and rows that are what their samples say."""
    rows = _ok(bundle)

    def wrong(row: Any) -> bool:
        taken = np.asarray(row.samples, dtype=float)
        if len(taken) != row.n_samples or not len(taken) or not (taken > 0).all() or not np.isfinite(taken).all():
            return True
        alike = len(taken) >= 10 and len(np.unique(taken)) < 3  # a clock never repeats itself
        low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75])
        told = np.array([row.t_q1, row.t_median, row.t_q3])
        longer = taken.sum() * row.repeats > 2 * row.t_case  # more time in samples than the case took
        return alike or longer or not np.allclose(told, [low, middle, high], rtol=1e-5)

    bad = pd.Series([wrong(row) for row in rows.itertuples(index=False)], rows.index, dtype=bool)
    total = int(rows["n_samples"].sum())
    yield from _held(
        "samples", rows, bad, "rows are not what their samples say", f"{total} samples of {len(rows)} rows"
    )


def rates(bundle: Bundle) -> Iterator[Finding]:
    """GFLOPS and GB/s are work and bytes over the time."""
    rows = _ok(bundle)
    rows = rows[(rows["op"] == "spmv") & (rows["t_median"] > 0)]
    off = [
        ~np.isclose(rows[name], 1e-9 * work / rows["t_median"], rtol=1e-6)
        for name, work in (("gflops", 2 * rows["nnz"]), ("gbps", rows["model_bytes"]))
    ]
    bad = pd.Series(np.logical_or(*off), rows.index)
    yield from _held("rates", rows, bad, "GFLOPS or GB/s are not work over time", "work over time, everywhere")


def floors(bundle: Bundle) -> Iterator[Finding]:
    """No time below that of an empty kernel on the same device."""
    rows = _ok(bundle)
    lowest = {
        mode: min(
            (s["launch_floor"][mode] for s in bundle.sessions if mode in (s.get("launch_floor") or {})), default=0.0
        )
        for mode in set(rows["mode"])
    }
    bad = (
        (rows["t_median"] < FLOOR * rows["mode"].map(lowest).astype(float)) & (rows["nnz"] > 0) & (rows["launches"] > 0)
    )
    yield from _held("floor", rows, bad, "faster than an empty kernel", "no time below an empty kernel's")


def bounds(bundle: Bundle) -> Iterator[Finding]:
    """No row faster than its values and y can be moved: what no format goes without.

    Above the bound of all bytes that a format holds is a note: it need not read them all.
    """
    rows = _ok(bundle)
    rows = rows[(rows["op"] == "spmv") & ~rows["device"].str.startswith("emulated")]
    itemsize = rows["dtype"].map({"f64": 8, "f32": 4}).astype(float).fillna(1)
    needed, held = (rows["nnz"] + rows["rows"]) * itemsize, rows["model_bytes"]
    fastest = _fastest_reading(bundle.sessions)
    if fastest is None:
        yield Finding("bounds", NOTE, "the record holds no bandwidth: no time is held to one")
        return
    bad = needed.map(fastest) > ROOF * rows["t_median"]
    yield from _held(
        "bounds", rows, bad, "faster than the bytes can be read", "no time below that of reading the values"
    )
    above = rows[held.map(fastest) > ROOF * rows["t_median"]]
    if len(above):
        yield Finding("bounds", NOTE, f"{len(above)} rows take less than reading all that their format holds would")


def _fastest_reading(sessions: list[dict[str, Any]]) -> Callable[[float], float] | None:
    """Seconds that reading so many bytes takes at least, by the fastest session; None where none has measured it."""
    measured = [session["roofs"] for session in sessions if session.get("roofs")]
    if measured:
        return lambda size: min(roofs.reading(found, size) for found in measured)
    rates = [
        (session["read_bandwidth_gbps"], (session.get("properties") or {}).get("l2_bytes", math.inf))
        for session in sessions
        if session.get("read_bandwidth_gbps")
    ]
    if not rates:
        return None
    rate, cache = max(rates)
    return lambda size: 1e-9 * size / rate if size > 2 * cache else 0.0  # a cache may hold the rest


def matrices(bundle: Bundle, seconds: float, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Generated matrices are made again, those of the collection read where they are here; hashes must agree."""
    rows = bundle.rows[bundle.rows["matrix_sha256"] != ""]
    found = rows.drop_duplicates("matrix_sha256").sort_values("nnz")
    seeds = sorted({int(session.get("seed") or 0) for session in bundle.sessions}) or [0]
    until = time.monotonic() + seconds
    right, wrong, late, away = [], [], [], []
    for row in found.itertuples(index=False):
        name = row.name if row.group == "synthetic" else f"{row.group}/{row.name}"
        if row.group == "file" or (row.group != "synthetic" and not _here(name)):
            away.append(name)
        elif time.monotonic() > until:
            late.append(name)
        else:
            progress(f"making {name} again")
            try:
                same = any(_digest(name, seed) == row.matrix_sha256 for seed in seeds)
            except SpmvbenchError as error:
                yield Finding("matrices", OPEN, f"{name}: {error}")
                continue
            (right if same else wrong).append(name)
    if wrong:
        yield Finding("matrices", FAILED, f"another matrix than its name says: {', '.join(wrong)}")
    if right:
        yield Finding("matrices", PASSED, f"{len(right)} of {len(found)} matrices made again: the same hashes")
    if late:
        yield Finding("matrices", OPEN, f"not made again in {seconds:g} s (--seconds): {', '.join(late)}")
    if away:
        yield Finding("matrices", NOTE, f"{len(away)} matrices are not here to be read (spmvbench fetch)")


def _here(name: str) -> bool:
    group, _, short = name.partition("/")
    return suitesparse.cached(group, short) is not None


def _digest(name: str, seed: int) -> str:
    return reading.digest(Csr.of(collected.obtain(name).read(seed, "real")).astype(np.float64))


def brought(bundle: Bundle) -> list[Path]:
    """The modules of formats that lie in a bundle, none in a run's folder: programs of whoever sent it."""
    own = any(origin["from"] == "bundle" for origin in (bundle.manifest or {}).get("formats", []))
    return sorted((bundle.folder / "sources").glob("*.py")) if own else []


def formats_known(bundle: Bundle, run_sources: bool) -> Iterator[Finding]:
    """Every format's source is a release's, or lies in the bundle and is right on the emulated device."""
    pairs = bundle.rows[["format", "source_hash"]].drop_duplicates().itertuples(index=False, name=None)
    own = {origin["format"] for origin in (bundle.manifest or {}).get("formats", []) if origin.get("from") == "bundle"}
    unknown = sorted({key for key, digest in pairs if not sources.known(key, digest)} - own)
    total = bundle.rows["format"].nunique()
    if unknown:
        yield Finding("formats", OPEN, f"sources of no known release: {', '.join(unknown)}")
    yield Finding("formats", PASSED, f"{total - len(unknown) - len(own)} of {total} formats have released sources")
    if not own:
        return
    modules = brought(bundle)
    if not run_sources:
        names = ", ".join(path.name for path in modules)
        yield Finding("formats", OPEN, f"not run: {names} of {', '.join(sorted(own))}; read them, then --run-sources")
        return
    environment = {"SPMVBENCH_FORMATS": os.pathsep.join(str(path.resolve()) for path in modules)}
    measured = {origin["format"]: origin["source_hash"] for origin in bundle.manifest["formats"]}
    for key in sorted(own):
        program = (
            "import sys; from spmvbench import formats, testing; cls = formats.get(sys.argv[1])\n"
            "print(formats.source_hash(cls), flush=True); testing.main([sys.argv[1], '--largest', '9000'])"
        )
        with scratch(bundle.folder) as own_folder:
            ran = confined.run([sys.executable, "-P", "-c", program, key], own_folder, TRIAL, environment)
        first, _, told = ran.out.partition("\n")
        if ran.limit:
            yield Finding("formats", FAILED, f"{key}: {ran.limit}")
            continue
        if first != measured[key]:
            yield Finding(
                "formats",
                FAILED,
                f"{key} was measured from {measured[key]}, the bundle holds {untrusted.text(first)[:SHOWN] or 'none'}",
            )
        elif ran.code:
            last = (told.strip() or ran.err.strip()).splitlines()[-1:]
            yield Finding(
                "formats", FAILED, f"{key} is wrong on the emulated device: {untrusted.text(' '.join(last))[:SHOWN]}"
            )
        else:
            yield Finding("formats", PASSED, f"{key}: the source of the bundle, right on the emulated device")
