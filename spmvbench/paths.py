"""Paths and files: folders of kernels and configs, the user's cache, atomic writes, temporary folders and locks."""

from __future__ import annotations

import errno
import glob
import io
import logging
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import BaseFileLock, FileLock, Timeout

log = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errno of an OSError: no more fits on the disk or in the file
# The same: the file system has no locks, as some network and user-space ones.
WITHOUT_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EIO)
# What damaged members of an archive raise beside BadZipFile: RuntimeError one that seems encrypted or unknown.
UNPACKING = (RuntimeError, zlib.error, lzma.LZMAError, EOFError)
SUFFIX, OLD = ".spmvbench-tmp", 7 * 86400.0  # of temporary files and folders; seconds until they count as abandoned

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
def written_whole(target: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A binary file that replaces `target` atomically if the block succeeds; if it fails, nothing is left.

    durable: flushed to the disk before. Makes the folder. A symbolic link at `target` is replaced and not followed; see
    `output` for a file that a user names. Raises OSError if the folder cannot be made, or writing or renaming fails,
    and if `target` is a device, a FIFO or a socket.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _replaceable(target)
    _remove_old(target.parent, f".{target.name}.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{SUFFIX}")
    try:
        with naming(target), open(temporary, "xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            temporary.replace(target)
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
    """The descriptor of a file that only this program writes: a log, rows, a cache.

    Raises OSError for a symbolic link, which could point to any file of the user.
    """
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link is not followed here: remove it", str(path)) from None
        raise


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
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, *UNPACKING) as error:
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
    """A new folder in `parent`, removed when the block ends, with those that killed processes left long ago.

    Raises OSError if it cannot be made.
    """
    _remove_old(parent, ".scratch.")
    with tempfile.TemporaryDirectory(SUFFIX, ".scratch.", parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """A folder that several processes share; the last of them removes it, and folders next to it left by killed
    processes.

    Each process holds the lock of a file of its own in it. Only folders named by 16 hexadecimal digits are removed.
    Raises OSError if the folder cannot be made, or if it or its parent does not belong to this user.
    """
    entrance = trusted_folder(folder.parent).with_suffix(".lock")
    with ExitStack() as stack:
        with locked(entrance):
            for other in folder.parent.iterdir():
                if other != folder and _SESSION.fullmatch(other.name) and other.is_dir() and not _in_use(other):
                    shutil.rmtree(other, ignore_errors=True)
            trusted_folder(inside(folder.parent, folder.name))
            user = folder / f"{secrets.token_hex(4)}.user"
            stack.enter_context(locked(user))
        yield
    with locked(entrance):
        user.unlink(missing_ok=True)
        if not _in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _in_use(folder: Path) -> bool:
    """Whether a process uses a folder of `shared_folder`, or is not known to have ended: without locks."""
    unknown: list[OSError] = []
    for user in folder.glob("*.user"):
        with locked(user, lambda: True, unknown.append) as free:
            if unknown or not free:
                return True
    return False


@contextmanager
def locked(
    path: Path, stopping: Callable[[], bool] = lambda: False, without: Callable[[OSError], None] = lambda error: None
) -> Iterator[bool]:
    """Hold a lock that only one process of the host can hold at a time; `path` is its file.

    Yields False if `stopping`, called while waiting, has returned True before. The lock is released when the process
    ends. On a file system without locks every process gets it at once, after `without` was called. Makes the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, fallback_to_soft=False)
    with naming(path):
        while not (had := _try_lock(lock, without)) and not stopping():
            time.sleep(0.02)
    try:
        yield had
    finally:
        lock.release()


def _try_lock(lock: BaseFileLock, without: Callable[[OSError], None]) -> bool:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        without(error)
    return True


def _remove_old(folder: Path, prefix: str) -> None:
    """Remove temporary files and folders of this user that a killed process has left more than a week ago."""
    for temporary in folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
        with suppress(OSError):
            status = temporary.lstat()
            if status.st_uid != os.geteuid() or status.st_mtime > time.time() - OLD:
                continue
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(temporary)
            elif stat.S_ISREG(status.st_mode):
                temporary.unlink()
