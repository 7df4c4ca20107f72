"""The whole collection as one run: its stages, what each costs, and archives that are fetched ahead and removed after.

Nothing is fetched for a plan. The measurement goes by chunks of matrices, each an invocation as of any other run: while
one is measured, threads fetch those that follow, as far as the disk allows. `Disk` decides that, here and in the
simulation that the plan is made of.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spmvbench import paths
from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import Matrix, cache, stand_ins, suitesparse
from spmvbench.matrices.suitesparse import Archives, Entry
from spmvbench.runner.estimate import stratified
from spmvbench.runner.prefetch import MOST, READING_BYTES

CONNECTIONS = 4  # to the site, at most
SAMPLE = 300  # matrices of the first stage
# Bytes of a compressed entry in an archive: usual, and most of what 275 archives take; of values with all their digits.
ENTRY_BYTES = {"binary": (3.1, 9.0), "": (7.0, 13.0)}
CONVERTED_BYTES = 14  # of an entry as canonical CSR in float64, row pointers included
NOT_FETCHED = "not fetched"  # begins the reason of rows whose matrix could not be had
MOST_ENTRIES = 2**31
START = 15.0  # seconds from the start of an invocation to its first case
FIRST, SHARE = 200_000_000, 1 / 4  # bytes of the first chunk, soon there; of the disk in a chunk, at most


def entries_in_file(entry: Entry) -> int:
    """Entries in the file of a matrix: of a symmetric one, the lower triangle."""
    stored, rows, cols = (entry.stored or entry.nnz or 0), entry.rows or 0, entry.cols or 0
    symmetric = entry.numeric_symmetry == 1 and entry.pattern_symmetry == 1 and rows == cols
    return (stored + rows) // 2 if symmetric else stored


@dataclass(frozen=True)
class Item:
    """A matrix of the collection on its way through the disk.

    fetched: bytes of its archive, about. most: bytes that it takes on the disk, at most: archive and conversion.
    seconds: of its cases on the device, about.
    """

    entry: Entry
    fetched: int
    most: int
    converted: int
    cases: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, entry: Entry) -> Item:
        """The matrix without cases."""
        usual, most = ENTRY_BYTES.get(entry.dtype, ENTRY_BYTES[""])
        count, converted = entries_in_file(entry), CONVERTED_BYTES * (entry.stored or 0)
        return cls(entry, int(usual * count) + 1000, int(most * count) + 1000 + converted, converted)

    def matrix(self, folder: Path, unavailable: str = "") -> Matrix:
        """The matrix as cases name it: of the cache if it is there, else in a folder. unavailable: why it is not."""
        path = suitesparse.cached(self.entry.group, self.entry.name) or self.place(folder)
        one = self.entry
        return Matrix(
            one.group, one.name, one.kind, "suitesparse", path, one.stored or one.nnz, unavailable=unavailable
        )

    def place(self, folder: Path) -> Path:
        """The path of its archive in a folder."""
        return suitesparse.location(self.entry.group, self.entry.name, folder=folder)


def left_out(
    entries: Iterable[Entry], *, real_part: bool, disk: float, memory: float, device: float
) -> tuple[list[Entry], dict[str, list[Entry]]]:
    """The entries that are measured, by rising size, and the others by the reason.

    disk, memory and device: bytes of the disk that may be used, of the host's memory, and of the device's.
    """
    found: dict[str, list[Entry]] = {}
    kept, most = [], 0
    for entry in sorted(entries, key=lambda entry: (entry.stored or 0, entry.id)):
        count, item = entry.stored or entry.nnz or 0, Item.of(entry)
        reasons = {
            "not in the index": entry.rows is None,
            "complex values": entry.dtype == "complex" and not real_part,
            "2^31 entries or more": count >= MOST_ENTRIES,
            "over the memory of the device": 12 * count > device,
            "over the memory of the host": READING_BYTES * count > memory,
            "over --disk": max(most, item.most) + max(item.converted, SHARE * disk) > disk,  # beside what is converted
        }
        reason = next((text for text, is_so in reasons.items() if is_so), None)
        if reason is None:
            kept.append(entry)
            most = max(most, item.most)
        else:
            found.setdefault(reason, []).append(entry)
    return kept, found


def sample(entries: Sequence[Entry], count: int, seed: int) -> list[Entry]:
    """`count` of the entries by strata: decades of entries, kinds of problem, spreads of row lengths.

    The spread is known of matrices with facts (`stand_ins.known`); the others are a class of their own.
    """
    known = stand_ins.known()

    def stratum(entry: Entry) -> tuple[int, str, int, int, str]:
        facts, count = known.get(entry.id), entry.stored or 1
        deviation = math.nan if facts is None or facts.row_len_std is None else facts.row_len_std / facts.mean
        spread = int(np.digitize(deviation, (0.1, 0.5, 1.0, 3.0)))  # not a number: a class of its own
        problem = next((word for word in ("graph", "linear programming", "circuit") if word in entry.kind), "")
        return int(math.log10(count)), "mesh" if entry.is2d3d else problem, spread, count, entry.id

    return stratified(entries, count, seed, stratum)


def chunks(items: Iterable[Item], disk: int) -> list[list[Item]]:
    """The items in their order, in chunks that are measured at once: small ones first, at most SHARE of the disk."""
    found: list[list[Item]] = []
    most = 0.0
    size = math.inf
    for item in items:
        if size + item.most > most:
            most = min(2 * most or FIRST, SHARE * disk)
            found.append([])
            size = 0
        found[-1].append(item)
        size += item.most
    return found


def converted_at_once(chunk: Sequence[Item]) -> int:
    """Bytes of the matrices of a chunk that the processes of the host share at one time: one, and those read ahead."""
    return sum(sorted((item.converted for item in chunk), reverse=True)[: MOST + 1])


@dataclass
class Disk:
    """What is on the disk: bytes by matrix, and what may come next. used: the most that it has held.

    bound: bytes, less those for matrices that processes share. again: matrices that a later stage needs; they stay
    while there is room, the largest ones leave first. The others leave when they are measured.
    """

    bound: int
    again: frozenset[str] = frozenset()
    held: dict[str, int] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)
    used: int = 0

    def admit(self, name: str = "", size: int = 0) -> list[str] | None:
        """Reserve room for a matrix: those that have to leave for it; None if it has to wait.

        Without a name: those that have to leave because a stage has less room than the one before.
        """
        free = self.bound - sum(self.held.values()) + self.held.get(name, 0)
        leaving = []
        for other in sorted(self.measured, key=lambda other: -self.held[other]):
            if free >= size:
                break
            if other != name:
                leaving.append(other)
                free += self.held[other]
        if free < size:
            return None
        for other in leaving:
            self.drop(other)
        if name:
            self.measured.discard(name)
            self.held[name] = size
        self.used = max(self.used, sum(self.held.values()))
        return leaving

    def done(self, name: str) -> bool:
        """Note that a matrix is measured. Returns whether it leaves at once."""
        if name in self.again:
            self.measured.add(name)
            return False
        self.drop(name)
        return True

    def drop(self, name: str) -> None:
        """Note that a matrix is not on the disk."""
        self.held.pop(name, None)
        self.measured.discard(name)


@dataclass(frozen=True)
class Simulated:
    """Of one stage: seconds in all, of them waiting for archives, and the most bytes on the disk."""

    seconds: float
    waiting: float
    peak: int
    fetched: int


def simulate(stages: Sequence[Sequence[Item]], disk: int, rate: float) -> list[Simulated]:
    """What happens if archives come at `rate` bytes per second and cases take as long as estimated.

    stages: the items of each, in order. disk: bytes. Archives come, too, in the START seconds before an invocation
    measures. Of archives that come at the same time, this takes one after the other.
    """
    found = []
    room = Disk(disk)
    for number, items in enumerate(stages):
        clock = fetched_at = waiting = 0.0
        fetched = 0
        again = frozenset(item.entry.id for later in stages[number + 1 :] for item in later)
        parts = chunks(items, disk)
        shared = max(map(converted_at_once, parts), default=0)
        room = Disk(disk - shared, again, {**room.held}, set(room.held))
        room.admit()
        queue = deque(items)
        for chunk in parts:
            wanted = {item.entry.id for item in chunk}
            while queue:  # what comes until this chunk is whole, then until it is measured
                needed = queue[0].entry.id in wanted  # chunks are in the order of the queue
                if not needed and fetched_at >= clock + START + sum(item.seconds for item in chunk):
                    break
                item = queue[0]
                had = item.entry.id in room.held
                if room.admit(item.entry.id, item.most) is None:
                    if needed:
                        raise SpmvbenchError(f"{item.entry.id} does not fit on the disk with its chunk")
                    break
                queue.popleft()
                fetched += 0 if had else item.fetched
                fetched_at = fetched_at + (0 if had else item.fetched / rate)
                if needed and not (queue and queue[0].entry.id in wanted):
                    waiting += max(fetched_at - clock, 0.0)
                    clock = max(clock, fetched_at)
            clock += START + sum(item.seconds for item in chunk)
            fetched_at = max(fetched_at, clock)  # what had no room comes from now on
            for item in chunk:
                room.done(item.entry.id)
        found.append(Simulated(clock, waiting, room.used + shared, fetched))
    return found


class Stock:
    """Fetches the archives of a stage ahead of its measurement, and removes them after it. To be used as a context.

    folder: of these archives alone. An archive in the user's cache is used where it is, and stays.
    """

    def __init__(self, items: Sequence[Item], disk: Disk, archives: Archives, folder: Path):
        self.folder, self.disk, self.archives = folder, disk, archives
        self.changed = threading.Condition()
        self.failed: dict[str, str] = {}
        self.ready: set[str] = set()
        self.stopped = False
        self.pool = ThreadPoolExecutor(CONNECTIONS)
        self.queue = deque(items)
        self.thread = threading.Thread(target=self._fetch_all, daemon=True)

    def __enter__(self) -> Stock:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self.archives.downloads.close()
        self.thread.join()
        self.pool.shutdown(cancel_futures=True)

    def _fetch_all(self) -> None:
        under_way: set[Future[None]] = set()
        while self.queue:
            item = self.queue.popleft()
            try:
                if not self._has_room(item, under_way):
                    return
            except Exception as error:  # a file that cannot be removed, a folder that cannot be read
                self._is_ready(item, error)
            else:
                under_way.add(self.pool.submit(self._fetch, item))

    def _has_room(self, item: Item, under_way: set[Future[None]]) -> bool:
        """Wait until there is room for an archive and one of `under_way` has come. Returns whether to go on."""
        name = item.entry.id
        with self.changed:
            while not self.stopped:
                under_way -= {future for future in under_way if future.done()}
                if suitesparse.cached(item.entry.group, item.entry.name):
                    return True
                held = self.disk.held.copy()
                leaving = self.disk.admit(name, item.most) if len(under_way) < CONNECTIONS else None
                if leaving is not None:
                    self.disk.held |= {other: held[other] for other in leaving}  # until they have left
                    for other in leaving:
                        remove(self.folder, other)
                        self.disk.drop(other)
                    return True
                self.changed.wait(1.0)
        return False

    def _fetch(self, item: Item) -> None:
        error: Exception | None = None
        try:
            if not suitesparse.cached(item.entry.group, item.entry.name):
                self.archives.bring(item.entry)
        except Exception as found:  # whatever one archive raises, the others are fetched
            error = found
        self._is_ready(item, error)

    def _is_ready(self, item: Item, error: Exception | None) -> None:
        """Note that an archive is there, or why it cannot be had."""
        name = item.entry.id
        with self.changed:
            if error:
                self.failed[name] = f"{NOT_FETCHED}: {str(error) or type(error).__name__}"
            try:
                size = item.place(self.folder).stat().st_size
            except OSError:  # it failed, or another process fetched it to the user's cache
                self.disk.drop(name)
            else:
                if name in self.disk.held:
                    self.disk.held[name] = min(item.most, size + item.converted)
            self.ready.add(name)
            self.changed.notify_all()

    def wait(self, chunk: Sequence[Item], is_cancelled: Callable[[], bool]) -> Iterator[int]:
        """Wait until the archives of a chunk are there or have failed: yields how many are missing, every second."""
        while not is_cancelled():
            with self.changed:
                if not (missing := sum(item.entry.id not in self.ready for item in chunk)):
                    return
                self.changed.wait(1.0)
            yield missing

    def matrices(self, chunk: Sequence[Item]) -> list[Matrix]:
        """The matrices of a chunk that is there."""
        return [item.matrix(self.folder, self.failed.get(item.entry.id, "")) for item in chunk]

    def done(self, chunk: Sequence[Item]) -> None:
        """Remove what no case needs any more, and make room for what follows."""
        with self.changed:
            for item in chunk:
                if item.entry.id in self.disk.held and self.disk.done(item.entry.id):
                    remove(self.folder, item.entry.id)
            self.changed.notify_all()


def folder() -> Path:
    """Folder of the archives that runs of the collection have fetched: all of it may be removed."""
    return paths.home() / "collection"


@contextmanager
def alone() -> Iterator[None]:
    """Hold the folder. Raises SpmvbenchError if another process does: it would remove what this one measures."""
    with paths.locked(folder() / "lock", lambda: True) as had:
        if not had:
            raise SpmvbenchError(
                f"another run of the collection fetches to {folder()}: wait for it, or give this one an SPMVBENCH_HOME "
                "of its own"
            )
        yield


def remove(place: Path, name: str) -> None:
    """Remove an archive from the folder, and its conversion."""
    group, _, rest = name.partition("/")
    archive = suitesparse.location(group, rest, folder=place)
    for path in (archive, cache.location(archive), archive.with_name(archive.name + ".part")):
        path.unlink(missing_ok=True)


def on_disk(place: Path, items: Mapping[str, Item]) -> dict[str, int]:
    """Bytes of the archives of an earlier, perhaps killed run, with their conversions; those of no item are removed."""
    found = {}
    for path in sorted(place.glob("*/*")):
        name = f"{path.parent.name}/{path.name.partition('.tar.gz')[0]}"
        if name not in items:
            path.unlink(missing_ok=True)
        elif path.name.endswith(".tar.gz"):
            found[name] = path.stat().st_size + items[name].converted
    return found
