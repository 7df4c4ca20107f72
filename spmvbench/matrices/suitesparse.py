"""The SuiteSparse Matrix Collection: its index and its archives.

T. A. Davis and Y. Hu, The University of Florida Sparse Matrix Collection, ACM TOMS 38(1), 2011. A matrix is named
`group/name`: names repeat between groups. A mirror is a folder or an address laid out as the site is:
`files/ssstats.csv` and `MM/<group>/<name>.tar.gz`. Neither is trusted: names become paths only if they are valid for an
Entry, and an archive is accepted only if it holds a matrix of the size in the index and is not much larger.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import logging
import os
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from spmvbench.errors import UsageError, counted, did_you_mean
from spmvbench.matrices import archive, download, ssgetpy_home
from spmvbench.matrices.conditions import ANY, Conditions
from spmvbench.matrices.download import LIMITS, Downloads, Failed, Limits, Missing, NoSpace, Unreachable
from spmvbench.matrices.readers import harwell_boeing, matlab, matrix_market
from spmvbench.paths import home

SITE = "https://sparse.tamu.edu"
INDEX = "files/ssstats.csv"
FORMATS = {"MM": ("MM", ".tar.gz"), "MAT": ("mat", ".mat"), "RB": ("RB", ".tar.gz")}  # folder of the site, suffix
INDEX_MAX_AGE = 30 * 24 * 3600  # s
INDEX_MOST = 64 << 20  # bytes
SHA256 = Path(__file__).with_name("sha256.csv.gz")

# Valid groups and names: they become parts of paths, rows, figures and commands.
_NAME = re.compile(r"\w[\w.+-]{0,99}", re.ASCII)
_OWN_GROUPS = ("file", "synthetic")  # groups of matrices that are not of the collection; see lookup.Matrix

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A matrix in the index; the numbers are None for one that is in a folder but not in the index.

    nnz: nonzeros, explicit zeros left out; stored: entries, explicit zeros included. dtype: real, complex or binary.
    pattern_symmetry, numeric_symmetry: share of the off-diagonal entries that are mirrored, 0 to 1. number: its place
    in the index, from 1. Raises UsageError for an invalid group, name, number or kind.
    """

    group: str
    name: str
    rows: int | None = None
    cols: int | None = None
    nnz: int | None = None
    dtype: str = ""
    is2d3d: bool = False
    spd: bool = False
    pattern_symmetry: float | None = None
    numeric_symmetry: float | None = None
    kind: str = ""
    stored: int | None = None
    number: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not _may_be(self.group, self.name):
            raise UsageError(
                f"{f'{self.group}/{self.name}'[:80]!r} is no matrix of the collection: "
                "a group and a name are of letters, digits and _ . + - and begin with none of the last three"
            )
        if any(not 0 <= n < 1 << 63 for n in (self.rows, self.cols, self.nnz, self.stored) if n is not None):
            raise UsageError(f"{self.id} has sizes that no matrix has")
        if len(self.kind) > 200 or not self.kind.isprintable():
            raise UsageError(f"{self.id} has a kind of over 200 characters, or of some that do not print")

    @property
    def id(self) -> str:
        """``group/name``, its name in rows and commands."""
        return f"{self.group}/{self.name}"

    @property
    def most_bytes(self) -> int:
        """Limit on the size of its archive: uncompressed text of all entries, and companions of some columns."""
        if self.stored is None or self.rows is None or self.cols is None:
            return 1 << 36
        return (64 << 20) + 64 * self.stored + 256 * (self.rows + self.cols)


def _may_be(group: str, name: str) -> bool:
    return bool(_NAME.fullmatch(group) and _NAME.fullmatch(name)) and group not in _OWN_GROUPS


@dataclass
class Outcome:
    """Results of `fetch`, in the order of the given entries.

    failed: (entry, reason). differing: entries that a mirror holds with other bytes than the site's. size: bytes
    fetched.
    """

    fetched: list[Entry] = field(default_factory=list)
    present: list[Entry] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)
    failed: list[tuple[Entry, str]] = field(default_factory=list)
    differing: list[Entry] = field(default_factory=list)
    size: int = 0


# --- the source and the local paths


@dataclass(frozen=True)
class _Source:
    """Source of files: an address or a folder, and the login, separate from it so that it is never printed."""

    place: str | Path
    login: tuple[str, str] | None = None

    @classmethod
    def of(cls, mirror: str | os.PathLike[str] | None) -> _Source:
        """The mirror given, SPMVBENCH_MIRROR or the site: an address, or the folder that holds `MM`."""
        from urllib.parse import unquote, urlsplit, urlunsplit
        from urllib.request import url2pathname

        text = str(mirror or os.environ.get("SPMVBENCH_MIRROR") or SITE)
        try:
            parts = urlsplit(text)
            sound = bool(parts.hostname) and parts.port != 0 and not parts.query and not parts.fragment
        except ValueError:
            raise UsageError(f"the mirror {without_login(text)} is no address") from None
        if parts.scheme in ("http", "https"):
            if not sound:
                raise UsageError(f"the mirror {without_login(text)} is no address that paths can be added to")
            login, _, host = parts.netloc.rpartition("@")
            user, _, password = login.partition(":")
            address = urlunsplit((parts.scheme, host, parts.path, "", "")).rstrip("/")
            return cls(address, (unquote(user), unquote(password)) if login else None)
        if parts.scheme and parts.scheme != "file" and "://" in text:
            raise UsageError(f"the mirror {without_login(text)} is neither an http(s) address nor a folder")
        folder = Path(url2pathname(parts.path) if parts.scheme == "file" else os.path.expanduser(text))
        if not folder.is_dir():
            raise UsageError(f"the mirror {without_login(text)} is not a folder")
        return cls(folder)

    @property
    def folder(self) -> Path | None:
        return self.place if isinstance(self.place, Path) else None

    def file(self, path: str) -> str | Path:
        from urllib.parse import quote

        return self.place / path if isinstance(self.place, Path) else f"{self.place}/{quote(path)}"

    def downloads(self, limits: Limits, connections: int = 1) -> Downloads:
        session = None if self.folder else download.session(self.login, connections)
        return Downloads(session, limits)


def without_login(mirror: str) -> str:
    """A mirror's address for output, without user and password."""
    return re.sub(r"^(\w+://|)[^/]*@", r"\1", mirror)


def location(group: str, name: str, format: str = "MM", folder: Path | None = None) -> Path:
    """The local path of a matrix, fetched or not. folder: None for the cache."""
    return (home() / format if folder is None else folder) / group / f"{name}{FORMATS[format][1]}"


def cached(group: str, name: str) -> Path | None:
    """The path of a fetched archive; None if it was not fetched, and for invalid names."""
    path = location(group, name)
    return path if _may_be(group, name) and path.is_file() else None


def at_hand(group: str, name: str) -> bool:
    """Whether a matrix can be read without a network: it was fetched, or the mirror is a folder that holds it."""
    if not _may_be(group, name):
        return False
    folder = _Source.of(None).folder
    return cached(group, name) is not None or bool(folder and (folder / "MM" / group / f"{name}.tar.gz").is_file())


def cached_names() -> list[tuple[str, str]]:
    """(group, name) of every matrix that was fetched, sorted."""
    return _held(home())


def _held(folder: Path) -> list[tuple[str, str]]:
    found = ((path.parent.name, path.name.removesuffix(".tar.gz")) for path in folder.glob("MM/*/*.tar.gz"))
    return sorted(names for names in found if _may_be(*names))


# --- the index


def index(mirror: str | None = None, *, network: bool = True, limits: Limits = LIMITS) -> list[Entry]:
    """The whole collection in the order of the index, then other matrices in the mirror's folder or the cache.

    The index comes from the mirror's folder or from a copy in the cache, which is renewed from the mirror's address or
    the site if it is older than 30 days. Without a network an old copy is used with a notice; without any copy this
    raises Unreachable. network=False: never use the network; empty without a copy.
    """
    source = _Source.of(mirror)
    path = _index_file(source, network, limits)
    known = _parsed(path, path.stat().st_mtime_ns) if path else []
    names = {(entry.group, entry.name) for entry in known}
    held = {*cached_names(), *(_held(source.folder) if source.folder else ())}
    return [*known, *(Entry(group, name) for group, name in sorted(held - names))]


def _index_file(source: _Source, network: bool, limits: Limits) -> Path | None:
    """The local copy of the index of `source`, renewed if needed; else the newest copy of another source."""
    kept = home() / "files"
    place = str(source.place)
    copy = kept / ("" if place == SITE else re.sub(r"[^\w.-]+", "_", place)) / "ssstats.csv"
    if source.folder:
        theirs = source.folder / INDEX
        fresh = copy.exists() and theirs.exists() and copy.read_bytes() == theirs.read_bytes()
    else:
        fresh = not network or (copy.exists() and time.time() - copy.stat().st_mtime < INDEX_MAX_AGE)
    copies = [copy] if copy.exists() else sorted(kept.glob("**/ssstats.csv"), key=lambda path: -path.stat().st_mtime)
    if fresh:
        return copies[0] if copies else None
    if copies:  # with a copy at hand, do not wait long for a dead network
        limits = replace(limits, tries=1, connect=min(3, limits.connect))
    try:
        source.downloads(limits).transfer(source.file(INDEX), copy, _check_index, most=INDEX_MOST, replace=True)
    except (Unreachable, Failed):
        if not copies:
            raise
        _say_old(place, round((time.time() - copies[0].stat().st_mtime) / 86400))
        return copies[0]
    return copy


@cache
def _say_old(place: str, days: int) -> None:
    """Once in a process: a selection may look at the index several times."""
    log.warning("Cannot renew the collection's index from %s, so a copy of %s ago is used", place, counted(days, "day"))


def _check_index(path: Path) -> None:
    if not _parsed(path, path.stat().st_mtime_ns):
        raise Failed(f"what came as {INDEX} is not the collection's index (it is empty)")


@lru_cache(maxsize=4)
def _parsed(path: Path, mtime_ns: int) -> list[Entry]:
    """The entries of an index file. Its first two lines are their number and the date. Raises Failed."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.reader(itertools.islice(file, 2, None))
            return [_entry(row, number) for number, row in enumerate(rows, start=1)]
    except (ValueError, csv.Error, UsageError) as error:
        what, then = (f"what came as {INDEX}", "") if path.suffix == ".part" else (path, ": remove it")
        raise Failed(f"{what} is not the collection's index ({error}){then}") from None


def _entry(row: Sequence[str], number: int) -> Entry:
    """A line of the index. The last of its first 13 columns counts entries with explicit zeros.

    Raises ValueError and UsageError.
    """
    group, name, rows, cols, nnz, real, binary, is2d3d, spd, pattern, numeric, kind, stored = row[:13]
    dtype = "binary" if int(binary) else "real" if int(real) else "complex"
    symmetry = float(pattern), float(numeric)
    sizes = int(rows), int(cols), int(nnz)
    return Entry(group, name, *sizes, dtype, bool(int(is2d3d)), bool(int(spd)), *symmetry, kind, int(stored), number)


def search(
    patterns: Iterable[str] = (),
    *,
    groups: Iterable[str] = (),
    conditions: Conditions = ANY,
    limit: int | None = None,
    mirror: str | None = None,
    network: bool = True,
) -> list[Entry]:
    """Entries that match any pattern or group (everything if neither is given) and all the conditions.

    patterns: `group/name`, a glob (`HB/bcs*`), or a name alone if only one group has it. limit: keep the first so many.
    mirror, network: as for `index`.
    Raises UsageError for a group, name or glob that nothing matches, with the nearest ones.
    """
    entries = index(mirror, network=network)
    patterns, groups = list(patterns), list(groups)
    if patterns or groups:
        chosen = {entry.id for pattern in patterns for entry in _matching(pattern, entries)}
        for group in groups:
            _check_group(group, entries)
        entries = [entry for entry in entries if entry.id in chosen or entry.group in groups]
    return [entry for entry in entries if conditions.meets(partial(getattr, entry))][:limit]


def _check_group(group: str, entries: Sequence[Entry]) -> None:
    groups = sorted({entry.group for entry in entries})
    if group not in groups:
        raise UsageError(f"the collection has no group {group}{did_you_mean(group, groups)}")


def _matching(pattern: str, entries: Sequence[Entry]) -> list[Entry]:
    group, slash, name = pattern.rpartition("/")
    if any(sign in pattern for sign in "*?["):
        whole = pattern if slash else f"*/{pattern}"
        found = [entry for entry in entries if fnmatchcase(entry.id, whole)]
        if not found:
            raise UsageError(f"no matrix of the collection matches {pattern}")
        return found
    found = [entry for entry in entries if entry.name == name and group in ("", entry.group)]
    if len(found) == 1:
        return found
    if found:
        raise UsageError(f"{name} is in several groups: say {' or '.join(entry.id for entry in found)}")
    if slash:
        _check_group(group, entries)
        names = [entry.id for entry in entries if entry.group == group]
        raise UsageError(f"group {group} has no matrix {name}{did_you_mean(pattern, names)}")
    if any(entry.group == name for entry in entries):
        raise UsageError(f"{name} is a group: say --group {name} or '{name}/*'")
    near = did_you_mean(name, sorted({entry.name for entry in entries}))
    raise UsageError(f"the collection has no matrix {name}{near}")


# --- the archives


@cache
def _sha256() -> dict[str, str]:
    """SHA-256 of the site's archives in Matrix Market form by `group/name`, as of 2020."""
    import gzip

    with gzip.open(SHA256, "rt", newline="") as file:
        return {f"{row['group']}/{row['name']}": row["sha256"] for row in csv.DictReader(file)}


def is_known(text: str) -> bool:
    """Whether a matrix of the collection, as of 2020 or by a copy of the index, has this name or ``group/name``."""
    ids = itertools.chain(_sha256(), (entry.id for entry in index(network=False)))
    return any(text in (known, known.partition("/")[2]) for known in ids)


def fetch(
    entries: Iterable[Entry],
    *,
    mirror: str | None = None,
    jobs: int = 4,
    verify: bool = True,
    progress: bool = True,
    limits: Limits = LIMITS,
    format: str = "MM",
    folder: Path | None = None,
) -> Outcome:
    """Fetch the archives of the entries into the cache, `jobs` at a time. Cached ones are not fetched again.

    format: one of FORMATS. folder: for the files, by group, instead of the cache.

    verify: compare with the site's SHA-256 of 2020. An archive that differs is moved to `quarantine` and counted as
    failed if it comes from the site. It is kept and listed in `differing` if it comes from a mirror, which may have
    packed it again. Every archive must pass `archive.check`. progress: show a bar on a terminal. limits: of a download.

    Raises Unreachable and NoSpace, which end the whole call; archives fetched until then are kept.
    """
    from tqdm import tqdm

    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r}: known are {', '.join(FORMATS)}")
    entries = list(dict.fromkeys(entries))
    source = _Source.of(mirror)
    hidden = None if progress else True  # None: hidden unless stderr is a terminal
    bar = tqdm(desc="fetch", total=len(entries), unit="matrix", disable=hidden)
    archives = Archives(source, source.downloads(limits, jobs), verify, bar, format, folder)
    results: dict[Entry, bool | Exception] = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(archives.bring, entry): entry for entry in entries}
        for future in as_completed(futures):
            bar.update()
            try:
                results[futures[future]] = future.result()
            except (Unreachable, NoSpace):
                raise
            except Exception as failure:  # whatever one archive raises, the others are fetched
                results[futures[future]] = failure
    finally:
        bar.close()
        archives.downloads.close()
        pool.shutdown(cancel_futures=True)
    outcome = Outcome(differing=[entry for entry in entries if entry in archives.differing])
    for entry in entries:
        match results[entry]:
            case bool(new):
                (outcome.fetched if new else outcome.present).append(entry)
            case Missing():
                outcome.missing.append(entry)
            case error:
                outcome.failed.append((entry, str(error) or type(error).__name__))
    outcome.size = sum(archives.place(entry).stat().st_size for entry in outcome.fetched)
    return outcome


@dataclass
class Archives:
    """Archives on their way into the cache, or to another folder. differing: those whose hash is not the site's."""

    source: _Source
    downloads: Downloads
    verify: bool
    bar: Any  # of tqdm
    format: str
    folder: Path | None
    differing: set[Entry] = field(default_factory=set)

    @classmethod
    def to(cls, folder: Path, connections: int) -> Archives:
        """Archives in Matrix Market form of the mirror or the site, to a folder, by so many threads."""
        from tqdm import tqdm

        source = _Source.of(None)
        return cls(source, source.downloads(LIMITS, connections), True, tqdm(disable=True), "MM", folder)

    def place(self, entry: Entry) -> Path:
        """The path of an archive that is here."""
        return location(entry.group, entry.name, self.format, self.folder)

    def bring(self, entry: Entry) -> bool:
        """Fetch an archive. Returns False if it was there."""
        target = self.place(entry)
        if target.is_file():
            return False
        site_folder, suffix = FORMATS[self.format]
        path = self.source.file(f"{site_folder}/{entry.group}/{entry.name}{suffix}")

        def show(done: int, total: int | None) -> None:
            of = f" of {total / 1e6:.1f}" if total else ""
            self.bar.set_postfix_str(f"{entry.id}: {done / 1e6:.1f}{of} MB", refresh=False)
            self.bar.update(0)  # shows it, unless it was shown a moment ago

        if self.format == "MM":
            with ssgetpy_home.archive(entry.group, entry.name) as own, suppress(Failed, archive.BadArchive):
                if own:
                    accept = partial(self._accept, entry, "")
                    return self.downloads.transfer(own, target, accept, show, most=entry.most_bytes)
        known = _sha256().get(entry.id, "") if self.verify and self.format == "MM" else ""
        accept = partial(self._accept, entry, known)
        return self.downloads.transfer(path, target, accept, show, most=entry.most_bytes)

    def _accept(self, entry: Entry, known: str, part: Path) -> None:
        """Raise for a file that is not that of this matrix. known: SHA-256 of the site's archive."""
        if known:
            with open(part, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == known:
                    return  # the bytes of the site need no further check
        if self.format == "MAT":
            _check_shape(entry, *matlab.read(part).matrix.shape)
            return
        suffix = ".rb" if self.format == "RB" else ".mtx"
        archive.check(part, entry.name, suffix)
        if self.format == "RB":
            with archive.open_matrix(part, entry.name, suffix) as text:
                rows, cols, _ = harwell_boeing.header([text.readline(4096) for _ in range(4)], entry.name)[2]
            _check_shape(entry, rows, cols)
            return
        if known and self.source.place == SITE:
            _quarantine(entry, part)
        _check_header(entry, part)
        if known:
            self.differing.add(entry)


def _check_shape(entry: Entry, rows: int, cols: int) -> None:
    if entry.rows is not None and (rows, cols) != (entry.rows, entry.cols):
        raise Failed(f"another matrix came: {rows} x {cols}; the index says {entry.rows} x {entry.cols}")


def _check_header(entry: Entry, part: Path) -> None:
    """Raise Failed for an archive whose matrix does not have the size in the index."""
    with archive.open_matrix(part, entry.name) as text:
        try:
            found = matrix_market.header(text)
        except ValueError as error:
            raise Failed(f"its matrix cannot be read: {error}") from None
    sizes = entry.rows, entry.cols, entry.nnz, entry.stored
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes) and not found.holds(*known):
        raise Failed(
            f"another matrix came: {found.rows} x {found.cols} with {found.entries:,} entries, {found.symmetry}; "
            f"the index says {entry.rows} x {entry.cols} with {entry.stored:,}"
        )


def _quarantine(entry: Entry, part: Path) -> None:
    kept = home() / "quarantine" / entry.group / f"{entry.name}.tar.gz"
    kept.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, kept)
    raise Failed(f"its SHA-256 is not the collection's; put aside as {kept} (--no-verify takes it as it is)")
