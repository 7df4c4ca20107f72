"""The collection's archives: checked before they are stored, read as a stream, never unpacked to disk.

An archive is a gzipped tar with `<name>/<name>.mtx` and, for some matrices, companion files: right-hand sides
(`_b`), solutions (`_x`), coordinates (`_coord`), names (`_nodename`) and the like.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tarfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from spmvbench.errors import SpmvbenchError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 1 << 20

# Limits on what an archive unpacks to. Matrix Market text shrinks 3 to 10 times; deflate reaches 1,032 on a bomb.
MAX_RATIO = 300
MIN_LIMIT = 64 << 20
MAX_MEMBERS = 10_000


class BadArchive(SpmvbenchError):
    """Raised for a file that is not an archive of a matrix, or is malicious."""


@contextmanager
def _any_error(name: str) -> Iterator[None]:
    """Raise BadArchive in place of what libraries raise for damaged bytes, each its own exceptions and others too."""
    try:
        yield
    except SpmvbenchError:
        raise
    except EOFError:
        raise BadArchive(f"{name} is cut short") from None
    except Exception as error:
        raise BadArchive(f"{name} is damaged or no archive: {error}") from None


class _Bounded(io.RawIOBase):
    """A stream that raises BadArchive after `limit` bytes, and in place of whatever the decompression raises."""

    def __init__(self, stream: io.BufferedIOBase, limit: int, name: str):
        self.stream, self.limit, self.name = stream, limit, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with _any_error(self.name):
            count = self.stream.readinto(buffer)
        self.limit -= count
        if self.limit < 0:
            raise BadArchive(f"{self.name} unpacks to over {MAX_RATIO} times its size: not a matrix, refused")
        return count


def unpacked_limit(path: Path) -> int:
    """Limit on the bytes that a gzipped file may unpack to."""
    return max(MIN_LIMIT, MAX_RATIO * os.path.getsize(path))


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[io.BufferedReader]:
    """The content of a gzipped file as a buffered stream. Errors, also while reading, become BadArchive.

    name: of the file in messages.
    """
    from isal import igzip  # three times as fast as zlib, which would take as long as parsing

    with open(path, "rb") as file:
        start = file.read(512)
    if not start.startswith(b"\x1f\x8b"):
        what = "an HTML page" if b"<html" in start.lower() or b"<!doctype" in start.lower() else "no gzip file"
        raise BadArchive(f"{name} is not an archive: it is {what if start else 'empty'}")
    opener: Callable[[Path, str], gzip.GzipFile] = igzip.IGzipFile
    with opener(path, "rb") as stream:
        yield io.BufferedReader(_Bounded(stream, unpacked_limit(path), name), CHUNK)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[tarfile.TarFile, io.BufferedReader]]:
    """The archive as a forward-only tar, and the unpacked stream below it. All errors become BadArchive."""
    file = f"{name}.tar.gz"
    with unpacked(path, file) as stream, ExitStack() as stack:
        with _any_error(file):
            tar = stack.enter_context(tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK))
        try:
            yield tar, stream
        except tarfile.TarError as error:  # of a member that is read
            raise BadArchive(f"{file} is damaged or no archive: {error}") from None


def _members(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """The regular files of an archive with their plain paths; raises BadArchive at the first hostile member."""
    members = iter(tar)
    for count in itertools.count():
        with _any_error(f"{name}.tar.gz"):
            member = next(members, None)
        if member is None:
            return
        parts = PurePosixPath(member.name)
        if count >= MAX_MEMBERS:
            raise BadArchive(f"{name}.tar.gz holds over {MAX_MEMBERS:,} members: not a matrix, refused")
        if parts.is_absolute() or ".." in parts.parts or "\\" in member.name:
            raise BadArchive(f"{name}.tar.gz holds the path {member.name!r}, which leads out of its folder: refused")
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise BadArchive(f"{name}.tar.gz holds {member.name!r}, a link or device and no plain file: refused")
        yield str(parts), member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "links and devices have no content, and _members refuses them"
    return content


def choice(file: str, names: Collection[str], asked: str) -> str:
    """The matrix that is asked for, or the only one, of a file's. Raises SpmvbenchError, which says what to write."""
    if asked in names or (len(names) == 1 and not asked):
        return asked or next(iter(names))
    what = f"no matrix {asked}" if asked else f"{len(names)} matrices"
    ends = " or ".join(f":{name}" for name in names)
    raise SpmvbenchError(f"{file} holds {what}: add {ends} to its name, as in {file}:{next(iter(names))}")


def _main(files: list[str], name: str, suffix: str, asked: str | None = None) -> str:
    """The matrix among its companions: `<name>/<name>.mtx`, else the file whose name is the prefix of all others.

    asked: the path of another one, without suffix; if empty, one of several may be named.
    """
    wanted = f"{name}/{name}{suffix}"
    if wanted in files and not asked:
        return wanted
    matrices = [file.removesuffix(suffix) for file in files if file.endswith(suffix)]
    heads = [file for file in matrices if not any(file.startswith(other + "_") for other in matrices)]
    if not heads or (len(heads) > 1 and asked is None):
        found = ", ".join(files[:5]) or "nothing"
        raise BadArchive(f"{name}.tar.gz holds no {wanted} (it holds {found})")
    return choice(f"{name}.tar.gz", matrices if asked else heads, asked or "") + suffix


def check(path: Path, name: str, suffix: str = ".mtx") -> None:
    """Read a whole archive. Raises BadArchive unless it is intact, harmless and holds the matrix `name`.

    suffix: of the matrix, .mtx for Matrix Market or .rb for Rutherford-Boeing.

    Refused: files that are not gzip and tar, truncated files and wrong checksums, absolute paths and `..`, links,
    devices and sparse members, sizes out of proportion, and a main member that is not in Matrix Market format.
    """
    banners = {}
    with _opened(path, name) as (tar, stream):
        for file, member in _members(tar, name):
            banners[file] = _content(tar, member).read(14)
        while stream.read(CHUNK):  # gzip's checksum and length follow the end of the tar
            pass
    main = _main(list(banners), name, suffix)
    if suffix == ".mtx" and banners[main].lower() != b"%%matrixmarket":
        raise BadArchive(f"{main} in {name}.tar.gz is not in Matrix Market format")


@contextmanager
def open_matrix(path: Path, name: str, suffix: str = ".mtx", asked: str = "") -> Iterator[IO[bytes]]:
    """The text of the matrix `name` as a buffered byte stream, unpacked while it is read.

    asked: the path of another one, without suffix. Raises BadArchive, also while reading, for the same reasons as
    `check`; checksums are left to `check`.
    """
    seen = []
    with _opened(path, name) as (tar, _):
        for file, member in _members(tar, name):
            if file == f"{asked or f'{name}/{name}'}{suffix}":
                yield _content(tar, member)
                return
            seen.append(file)
    main = _main(seen, name, suffix, asked)
    with _opened(path, name) as (tar, _):
        member = next(member for file, member in _members(tar, name) if file == main)
        yield _content(tar, member)
