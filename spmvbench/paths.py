"""Where things live: kernels and configs that ship with the package, and the user's cache folder."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

FULL = (errno.ENOSPC, errno.EDQUOT)  # of an OSError: the disk, or one's share of it, is full

_PACKAGE = Path(__file__).resolve().parent


def _shipped(folder: str) -> Path:
    """`kernels` and `configs` stand inside the package in a wheel and beside it in a checkout."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def kernels() -> Path:
    """Folder of the CUDA sources (``*.cu``); their headers are in its ``include``."""
    return _shipped("kernels")


def include() -> Path:
    """Folder of the headers that kernels share."""
    return kernels() / "include"


def headers(source: Path) -> list[Path]:
    """Every header that a kernel's source file may include: the shared ones and those beside it, by name."""
    return sorted({*include().glob("*.cuh"), *source.parent.glob("*.cuh")}, key=lambda path: path.name)


def configs() -> Path:
    """Folder of the named sets (``sets/*.toml``) and the ready-made runs (``runs/*.toml``)."""
    return _shipped("configs")


def home() -> Path:
    """Matrices and caches: ``SPMVBENCH_HOME``, or the platform's cache folder."""
    chosen = os.environ.get("SPMVBENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("spmvbench", appauthor=False))


def compiled() -> Path:
    """Compiled kernels: ``SPMVBENCH_COMPILED``, or the folder of everything else that is kept."""
    chosen = os.environ.get("SPMVBENCH_COMPILED")
    return Path(chosen).expanduser() if chosen else home()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """The error of a full disk, which names no file, names the one that was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the name `target` when the block ends well, and leaves nothing where it does not.

    What killed writers of the same target left behind goes, too. Makes the folder. Raises OSError where that, the
    writing or the renaming fails.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}"))
    temporary, descriptor = _claimed(target.parent, f".{target.name}.", _new_file)
    try:
        with naming(target), open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, gone when the block ends; what killed processes left of theirs goes when it begins.

    Raises OSError where it cannot be made.
    """
    _remove_abandoned(parent.glob("tmp*"))
    folder, descriptor = _claimed(parent, "tmp", _new_folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def common(folder: Path) -> Iterator[None]:
    """A folder that processes share and the last of them removes; what killed ones left beside it goes, too.

    Raises OSError where it cannot be made.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # its last user was just leaving
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if is_at(descriptor, folder):
            break
        os.close(descriptor)
    try:
        _remove_abandoned(folder.parent.iterdir())
        yield
    finally:
        os.close(descriptor)
        _remove_abandoned([folder])


@contextmanager
def turn(path: Path, stopping: Callable[[], bool] = lambda: False) -> Iterator[bool]:
    """Wait for a turn at what only one process of the host may do at a time; `path` is the file of its lock.

    Yields False where `stopping`, asked while it waits, said True first. The lock goes with the process, however that
    ends; a file system without locks gives every process its turn at once. Makes the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="ascii") as file:
        while not (had := _locked(file)) and not stopping():
            time.sleep(0.02)
        yield had


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is what its path still names: others may have renamed or removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


# Whoever uses a temporary holds a lock on it, which the system lets go of when the process ends, however it ends.


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _new_folder(path: Path) -> int:
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _claimed(parent: Path, prefix: str, new: Callable[[Path], int]) -> tuple[Path, int]:
    """The path and the descriptor of something new that is locked."""
    while True:
        path = parent / f"{prefix}{secrets.token_hex(4)}"
        try:
            descriptor = new(path)
        except FileNotFoundError:
            if not parent.is_dir():
                raise
            continue  # another process took the folder for abandoned before it was opened
        with suppress(OSError):  # a file system without locks: then nothing there counts as abandoned, either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_at(descriptor, path):  # else another process took it for abandoned before it was locked
            return path, descriptor
        os.close(descriptor)


def _remove_abandoned(temporaries: Iterable[Path]) -> None:
    for temporary in temporaries:
        with suppress(OSError):  # locked by a process that lives, or gone meanwhile
            folder = temporary.is_dir()
            descriptor = os.open(temporary, os.O_RDONLY if folder else os.O_RDWR)  # NFS locks what can be written
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_at(descriptor, temporary):
                    continue  # it has gone, and what has its name now is another's
                if folder:
                    shutil.rmtree(temporary)
                else:
                    temporary.unlink()
            finally:
                os.close(descriptor)
