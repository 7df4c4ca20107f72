"""Paths and files: folders of kernels and configs, the user's cache, atomic writes, temporary folders and locks."""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import logging
import os
import re
import secrets
import shutil
import stat
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

log = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)  # errno of an OSError: the disk or the quota is full

_PACKAGE = Path(__file__).resolve().parent
_SESSION = re.compile("[0-9a-f]{16}")  # names of folders that `shared_folder` removes


def _shipped(folder: str) -> Path:
    """The folder `kernels` or `configs`: inside the package in a wheel, next to it in a checkout."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def kernels() -> Path:
    """Folder of the CUDA sources (``*.cu``); their headers are in its ``include``."""
    return _shipped("kernels")


def include() -> Path:
    """Folder of the headers that kernels share."""
    return kernels() / "include"


def configs() -> Path:
    """Folder of the named sets (``sets/*.toml``) and the ready-made runs (``runs/*.toml``)."""
    return _shipped("configs")


def home() -> Path:
    """Folder of matrices and caches: ``SPMVBENCH_HOME``, or the platform's cache folder."""
    chosen = os.environ.get("SPMVBENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("spmvbench", appauthor=False))


def compiled() -> Path:
    """Folder of compiled kernels: ``SPMVBENCH_COMPILED``, or `home`."""
    chosen = os.environ.get("SPMVBENCH_COMPILED")
    return Path(chosen).expanduser() if chosen else home()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of `path` to the error of a full disk, which names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces `target` atomically if the block succeeds; if it fails, nothing is left.

    Temporary files of killed writers of the same target are removed. Makes the folder. A symbolic link at `target` is
    replaced and not followed; see `output` for a file that a user names. Raises OSError if the folder cannot be made,
    or writing or renaming fails, and if `target` is a device, a FIFO or a socket.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _replaceable(target)
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


def _replaceable(target: Path) -> None:
    with suppress(FileNotFoundError):
        mode = target.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EEXIST, "this is no regular file and is not replaced", str(target))


@contextmanager
def output(target: Path | str) -> Iterator[BinaryIO]:
    """A binary file for output to `target`, which a user has named; nothing is written if the block fails.

    A regular file is replaced atomically and keeps its permissions. The same holds for the target of a symbolic link;
    the link stays. A device, a FIFO and this process's own output, under any name, are written to; the text ``-`` is
    standard output. Raises OSError, among others for a block device, whose content is a file system, for a file without
    write permission, and for one in a folder that does not exist.
    """
    found = None if target == "-" else _status(target)
    descriptor = 1 if target == "-" else _own_output(found)
    if descriptor is None and (found is None or stat.S_ISREG(found.st_mode)):
        if found is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        place = Path(os.path.realpath(target))
        if not place.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(place.parent))
        with written_whole(place) as file:
            if found is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
            yield file
        return
    if found is not None and stat.S_ISBLK(found.st_mode):
        raise OSError(errno.EPERM, "this is a block device and is not written to", str(target))
    content = io.BytesIO()
    yield content
    if target == "-":
        if sys.stdout is None:
            raise OSError(errno.EBADF, "standard output is closed")
        sys.stdout.flush()
        left = content.getbuffer()
        while left:  # without buffering (python -u), a write may be partial
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.flush()
        return
    if descriptor is not None and sys.stdout is not None:
        sys.stdout.flush()
    with open(target if descriptor is None else os.dup(descriptor), "wb") as through:
        through.write(content.getbuffer())


def _status(target: Path | str) -> os.stat_result | None:
    try:
        return os.stat(target)
    except FileNotFoundError:
        return None


def _own_output(found: os.stat_result | None) -> int | None:
    """The number of the standard stream that a file is: /dev/stdout may be a regular file, which other processes write
    too.
    """
    for descriptor in (1, 2):
        with suppress(OSError):
            if found is not None and os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def opened(path: Path, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a file that only this program writes: a lock, a log, a part, a cache.

    Raises OSError for a symbolic link, which could point to any file of the user, for anything but a regular file, and,
    if it is opened for writing, for a file with a second hard link: an archive may contain one.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)  # opening a FIFO must not block
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link is not followed here: remove it", str(path)) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EEXIST, "this is no regular file: remove it", str(path))
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "this file has a second name and would change under both: remove it", str(path))
    return descriptor


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user or to root: nobody else could have written its content."""
    return status.st_uid in (os.geteuid(), 0)


def load_arrays(file: Path) -> dict[str, Any] | None:
    """The arrays of a file that `save_arrays` wrote; None if there is none. A damaged file is logged and counts as
    none, as does one of another user.
    """
    import numpy as np

    try:
        with open(opened(file), "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            if not is_own(os.fstat(stream.fileno())):
                raise ValueError("another user wrote it")
            return dict(arrays)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("%s is damaged (%s) and is made again", file, error)
        return None


def save_arrays(file: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name, whole or not at all; if that fails, the log says so."""
    import numpy as np

    try:
        with written_whole(file) as stream:
            np.savez(stream, **arrays)
    except OSError as error:
        log.warning("%s is not kept: %s", file, error)


def trusted_folder(folder: Path) -> Path:
    """A folder for files that this program executes or trusts: compiled kernels, shared matrices. Made if missing.

    Raises PermissionError if another user owns it or everybody may write to it.
    """
    folder.mkdir(0o755, parents=True, exist_ok=True)
    status = folder.stat()
    if not is_own(status):
        reason = "this folder belongs to another user: name your own with SPMVBENCH_HOME"
        raise PermissionError(errno.EPERM, reason, str(folder))
    if status.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "everybody may write to this folder: chmod o-w", str(folder))
    return folder


def inside(folder: Path, name: str) -> Path:
    """The path of a folder to write to, inside a folder that may come from somebody else.

    Raises OSError for a symbolic link: files elsewhere would be replaced.
    """
    found = folder / name
    if found.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link is not followed here: remove it, or write elsewhere", str(found))
    return found


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, removed when the block ends. Folders left by killed processes are removed at the
    beginning.

    Raises OSError if it cannot be made.
    """
    _remove_abandoned(parent.glob(f".scratch.{'[0-9a-f]' * 8}"))
    folder, descriptor = _claimed(parent, ".scratch.", _new_folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """A folder that several processes share; the last of them removes it, and folders next to it left by killed
    processes.

    Only folders named by 16 hexadecimal digits are removed there. Raises OSError if the folder cannot be made, or if it
    or its parent does not belong to this user.
    """
    trusted_folder(folder.parent)
    while True:
        try:
            trusted_folder(folder)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its last user has just removed it
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if is_at(descriptor, folder):
            break
        os.close(descriptor)
    try:
        _remove_abandoned(path for path in folder.parent.iterdir() if _SESSION.fullmatch(path.name) and path.is_dir())
        yield
    finally:
        os.close(descriptor)
        _remove_abandoned([folder])


@contextmanager
def locked(path: Path, stopping: Callable[[], bool] = lambda: False, *, shared: bool = False) -> Iterator[bool]:
    """Hold a lock that only one process of the host can hold at a time; `path` is its file. shared: several processes
    that ask for this can hold it at once.

    Yields False if `stopping`, called while waiting, has returned True before. The lock is released when the process
    ends. On a file system without locks every process gets it at once. Makes the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(opened(path, os.O_RDWR | os.O_CREAT), "rb") as file:
        while not (had := _try_lock(file, shared)) and not stopping():
            time.sleep(0.02)
        yield had


def _try_lock(file: IO[bytes], shared: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is still the one at its path: others may have renamed or removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


# A process that uses a temporary file or folder holds a lock on it; the system releases it when the process ends.


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _new_folder(path: Path) -> int:
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _claimed(parent: Path, prefix: str, new: Callable[[Path], int]) -> tuple[Path, int]:
    """Path and descriptor of a new file or folder that is locked."""
    while True:
        path = parent / f"{prefix}{secrets.token_hex(4)}"
        try:
            descriptor = new(path)
        except FileNotFoundError:
            if not parent.is_dir():
                raise
            continue  # another process removed the folder as abandoned before it was opened
        with suppress(OSError):  # a file system without locks: there nothing is removed as abandoned, either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_at(descriptor, path):  # else another process removed it as abandoned before it was locked
            return path, descriptor
        os.close(descriptor)


def _remove_abandoned(temporaries: Iterable[Path]) -> None:
    for temporary in temporaries:
        with suppress(OSError):  # locked by a running process, or removed meanwhile
            status = temporary.lstat()
            folder = stat.S_ISDIR(status.st_mode)
            if status.st_uid != os.geteuid() or not (folder or stat.S_ISREG(status.st_mode)):
                continue  # not made by this user
            flags = os.O_RDONLY if folder else os.O_RDWR  # NFS requires write access for a lock
            descriptor = os.open(temporary, flags | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_at(descriptor, temporary):
                    continue  # it was replaced by another one of the same name
                if folder:
                    shutil.rmtree(temporary)
                else:
                    temporary.unlink()
            finally:
                os.close(descriptor)
