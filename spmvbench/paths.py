"""Where things live: kernels and configs that ship with the package, and the user's cache folder."""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

FULL = (errno.ENOSPC, errno.EDQUOT)  # of an OSError: the disk, or one's share of it, is full

_PACKAGE = Path(__file__).resolve().parent
_SESSION = re.compile("[0-9a-f]{16}")  # the names of folders that `common` shares and clears


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

    What killed writers of the same target left behind goes, too. Makes the folder. A symbolic link at `target` is
    replaced and not followed; see `output` for a file that a user names. Raises OSError where the folder cannot be
    made, the writing or the renaming fails, and where `target` is a device, a FIFO or a socket.
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
    """A binary file for what goes to `target`, which a user has named; nothing is written where the block fails.

    A regular file is replaced whole and keeps its permissions; so is the target of a symbolic link, and the link stays.
    A device, a FIFO and this process's own output, whatever its name, are written to; the text ``-`` is standard
    output. Makes the folder of a new file. Raises OSError: among others for a block device, whose content is a file
    system, and for a file without write permission.
    """
    found = None if target == "-" else _status(target)
    descriptor = 1 if target == "-" else _own_output(found)
    if descriptor is None and (found is None or stat.S_ISREG(found.st_mode)):
        if found is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        with written_whole(Path(os.path.realpath(target))) as file:
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
        while left:  # where Python does not buffer (-u), a write may be of a part
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
    """The number of the standard stream that a file is: /dev/stdout may be a regular file, which others write too."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if found is not None and os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def opened(path: Path, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a file that only this program writes: a lock, a log, a part, a cache.

    Raises OSError for a symbolic link, which could lead to any file of the user's, for what is no regular file, and
    for one to be written that has a second name: an archive may bring a hard link.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)  # opening a FIFO must not wait
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
    """Whether a file or folder is this user's or root's: nobody else could have written what it holds."""
    return status.st_uid in (os.geteuid(), 0)


def own(folder: Path) -> Path:
    """A folder for what this program runs or trusts later: compiled kernels, shared matrices. Made if missing.

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
    """The path of a folder to write to, in a folder that may come from somebody else.

    Raises OSError for a symbolic link: what is written there would replace files elsewhere.
    """
    found = folder / name
    if found.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link is not followed here: remove it, or write elsewhere", str(found))
    return found


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, gone when the block ends; what killed processes left of theirs goes when it begins.

    Raises OSError where it cannot be made.
    """
    _remove_abandoned(parent.glob(f".scratch.{'[0-9a-f]' * 8}"))
    folder, descriptor = _claimed(parent, ".scratch.", _new_folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def common(folder: Path) -> Iterator[None]:
    """A folder that processes share and the last of them removes; what killed ones left beside it goes, too.

    Beside it, only folders named by 16 hexadecimal digits are cleared. Raises OSError where it cannot be made, and
    where it or its parent is not this user's own.
    """
    own(folder.parent)
    while True:
        try:
            own(folder)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its last user was just leaving
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
def turn(path: Path, stopping: Callable[[], bool] = lambda: False) -> Iterator[bool]:
    """Wait for a turn at what only one process of the host may do at a time; `path` is the file of its lock.

    Yields False where `stopping`, asked while it waits, said True first. The lock goes with the process, however that
    ends; a file system without locks gives every process its turn at once. Makes the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(opened(path, os.O_RDWR | os.O_CREAT), "rb") as file:
        while not (had := _locked(file)) and not stopping():
            time.sleep(0.02)
        yield had


def _locked(file: IO[bytes]) -> bool:
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
            status = temporary.lstat()
            folder = stat.S_ISDIR(status.st_mode)
            if status.st_uid != os.geteuid() or not (folder or stat.S_ISREG(status.st_mode)):
                continue  # none of this user's making
            flags = os.O_RDONLY if folder else os.O_RDWR  # NFS locks what can be written
            descriptor = os.open(temporary, flags | os.O_NOFOLLOW)
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
