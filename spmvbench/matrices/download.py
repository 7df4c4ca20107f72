"""Download or copy of one file: locked, resumed, retried, checked, then renamed atomically."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, BinaryIO

from spmvbench import paths
from spmvbench.errors import SpmvbenchError

if TYPE_CHECKING:
    from requests import PreparedRequest, Request, Response, Session
    from requests.adapters import HTTPAdapter

CHUNK = 1 << 18


@dataclass(frozen=True)
class Retry:
    """Limits of a download.

    tries: attempts without progress. backoff: seconds after the first of them, then doubled. connect, read: seconds to
    wait for a connection, and for the next bytes. slowest: minimum average of bytes per second after `patience`
    seconds.
    """

    tries: int = 5
    backoff: float = 0.5
    connect: float = 10.0
    read: float = 30.0
    patience: float = 300.0
    slowest: float = 4096.0


RETRY = Retry()


class Failed(SpmvbenchError):
    """Raised if this file cannot be fetched; others may be available."""


class Broken(Failed):
    """Raised if the connection failed too often; the received part is kept for the next attempt."""


class Missing(Failed):
    """Raised if the source does not have this file."""


class Unreachable(SpmvbenchError):
    """Raised if the address does not answer, so that no other file can be fetched from it."""


class NoSpace(SpmvbenchError):
    """Raised if the disk or its quota is full."""


class Stopped(SpmvbenchError):
    """Raised if the caller set `stop`; the received part is kept for the next attempt."""


class _Transient(Exception):
    """A temporary failure."""


@dataclass
class _Allowance:
    """Limits of one file: bytes, with those received earlier, and time for the new ones."""

    most: int | None
    retry: Retry
    started: float = field(default_factory=time.monotonic)
    received: int = 0

    def check(self, url: str, size: int | None) -> None:
        """Raise Failed if the file is too large, Broken if it arrives too slowly."""
        if self.most is not None and size is not None and size > self.most:
            raise Failed(f"{url}: it has over {self.most:,} bytes, more than the requested file can have: refused")
        late = time.monotonic() - self.started - self.retry.patience
        if late * self.retry.slowest > self.received:
            raise Broken(f"{url}: it arrives at less than {self.retry.slowest:,.0f} bytes per second, given up")


def transfer(
    source: str | Path,
    target: Path,
    *,
    accept: Callable[[Path], None],
    session: Session | None = None,
    retry: Retry = RETRY,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    stop: Event | None = None,
    replace: bool = False,
    most: int | None = None,
) -> bool:
    """Fetch `source` (a path, or a URL, which needs an HTTP session) to `target`. Returns False if `target` exists.

    The bytes are written to `<target>.part`, which is locked: a second process waits and then finds the target. An
    existing part is continued if the server confirms that the file is unchanged. `accept` checks the complete part and
    raises to refuse it, which removes it. progress(done, total): bytes. replace: fetch even if `target` exists. most:
    larger files are refused, by the length that the server declares or by the bytes received.

    Raises Missing, Failed, Unreachable, NoSpace, Stopped, and what `accept` raises.
    """
    stop = stop or Event()
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(part, stop) as file:
            try:
                if target.is_file() and not replace:
                    _discard(part)
                    return False
                allowance = _Allowance(most, retry)
                if isinstance(source, Path):
                    _copy(source, file, allowance, progress, stop)
                else:
                    assert session is not None, "an address is fetched with a session"
                    _download(source, file, _validator(part), session, allowance, progress, stop)
                accept(part)
                _validator(part).unlink(missing_ok=True)
                os.replace(part, target)
                return True
            except (Broken, Unreachable, Stopped):
                if isinstance(source, Path) or not os.path.getsize(part):
                    _discard(part)
                raise
            except BaseException:
                _discard(part)
                raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise NoSpace(
                f"no space left for {target} ({error.strerror}): free some, or point SPMVBENCH_HOME to another disk"
            ) from None
        raise


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator(part).unlink(missing_ok=True)


def _validator(part: Path) -> Path:
    """The file with the ETag or date of a part."""
    return part.with_name(part.name + ".etag")


@contextmanager
def _locked(part: Path, stop: Event) -> Iterator[BinaryIO]:
    """The part, open for update and locked against other threads and processes."""
    while True:
        with open(paths.opened(part, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if stop.wait(0.05):
                        raise Stopped("stopped") from None
            # The previous holder of the lock has renamed or removed the file, so check again.
            if paths.is_at(file.fileno(), part):
                yield file
                return


def _write(file: BinaryIO, data: bytes) -> None:
    """Write all of data to an unbuffered file, which may take less at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _copy(
    source: Path, file: BinaryIO, allowance: _Allowance, progress: Callable[[int, int | None], None], stop: Event
) -> None:
    try:
        file.truncate(0)
        if source.exists() and not source.is_file():
            raise Failed(f"{source} is no file")
        with open(source, "rb") as origin:
            total = os.path.getsize(source)
            allowance.check(str(source), total)
            while chunk := origin.read(CHUNK):
                _write(file, chunk)
                progress(file.tell(), total)
                if stop.is_set():
                    raise Stopped("stopped")
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(f"{source} does not exist") from None
    except (PermissionError, IsADirectoryError) as error:
        raise Failed(f"{source} cannot be read: {error.strerror}") from None


def _download(
    url: str,
    file: BinaryIO,
    validator: Path,
    session: Session,
    allowance: _Allowance,
    progress: Callable[[int, int | None], None],
    stop: Event,
) -> None:
    """Send requests until the file is complete. Raises Broken after `retry.tries` requests without progress."""
    import requests
    import urllib3

    retry, furthest, tries = allowance.retry, 0, 0
    while True:
        unreachable = False
        try:
            return _request(url, file, validator, session, allowance, progress, stop)
        except requests.Timeout as error:
            refused = isinstance(error, requests.ConnectTimeout)
            problem = f"no answer within {retry.connect if refused else retry.read:g} s"
            unreachable = refused and _same_host(error.request, url)
        except requests.ConnectionError as error:
            # A MaxRetryError means that no connection came about at all: no network, no such host, nobody listening.
            cause = error.args[0] if error.args else error
            problem = "the connection was cut"
            if isinstance(cause, urllib3.exceptions.MaxRetryError):
                problem = str(cause.reason).rpartition(": ")[2]
                unreachable = _same_host(error.request, url)
        except urllib3.exceptions.ReadTimeoutError:
            problem = f"nothing came for {retry.read:g} s"
        except urllib3.exceptions.HTTPError:
            problem = "the connection was cut"
        except _Transient as error:
            problem = str(error)
        except (requests.RequestException, ValueError) as error:  # ValueError: of a redirect to what is no address
            raise Failed(f"{url}: the server's answer makes no sense ({error})") from None
        position = file.seek(0, os.SEEK_END)
        tries = 1 if position > furthest else tries + 1
        furthest = max(furthest, position)
        if tries >= retry.tries:
            if unreachable:
                raise Unreachable(
                    f"cannot reach {url} ({problem}): name another address or a folder with --mirror, "
                    "or use cached matrices or generated ones such as pde:60"
                )
            raise Broken(f"{url}: {problem}, given up after {tries} tries")
        allowance.check(url, position)
        if stop.wait(retry.backoff * 2 ** (tries - 1)):
            raise Stopped("stopped")


def _same_host(request: Request | PreparedRequest | None, url: str) -> bool:
    """Whether a request was for the host of this address; the target of a redirect says nothing about other files."""
    from urllib.parse import urlsplit

    return request is None or urlsplit(request.url).netloc == urlsplit(url).netloc


def adapter(connections: int, patience: float) -> HTTPAdapter:
    """An adapter for a requests.Session that closes a connection if headers take longer than `patience` seconds.

    The timeout of requests is for the next byte only, and a header may have any number of bytes.
    """
    from requests.adapters import HTTPAdapter
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    def patient(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
        def getresponse(self: Any) -> Any:
            with _cut_after(patience, self):
                return pool.ConnectionCls.getresponse(self)

        connection = type("Connection", (pool.ConnectionCls,), {"getresponse": getresponse})
        return type(pool.__name__, (pool,), {"ConnectionCls": connection})

    found = HTTPAdapter(pool_connections=1, pool_maxsize=connections)
    pools = {"http": patient(HTTPConnectionPool), "https": patient(HTTPSConnectionPool)}
    found.poolmanager.pool_classes_by_scheme = pools
    return found


@contextmanager
def _cut_after(seconds: float, connection: Any) -> Iterator[None]:
    """Shut a connection down if the block takes longer, which ends a read that waits for bytes."""

    def cut() -> None:
        with suppress(OSError, AttributeError):  # closed meanwhile, or none any more
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _request(
    url: str,
    file: BinaryIO,
    validator: Path,
    session: Session,
    allowance: _Allowance,
    progress: Callable[[int, int | None], None],
    stop: Event,
) -> None:
    """One request for the missing bytes, or for the whole file if it may have changed."""
    offset = file.seek(0, os.SEEK_END)
    headers = {"Accept-Encoding": "identity"}
    if offset and validator.exists():
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator.read_text(encoding="utf-8")}
    timeout = (allowance.retry.connect, allowance.retry.read)
    with ExitStack() as answers:

        def close_later(answer: Response, **_: object) -> None:
            answers.callback(answer.close)  # nothing else closes an answer that redirects to an invalid address

        answer = session.get(url, headers=headers, stream=True, timeout=timeout, hooks={"response": close_later})
        status, span = answer.status_code, answer.headers.get("Content-Range", "")
        if status in (404, 410):
            raise Missing(f"{url} does not exist")
        if status == 416 and span == f"bytes */{offset}":
            return  # the part was whole already
        if (
            status in (408, 416, 425, 429)
            or status >= 500
            or (status == 206 and not span.startswith(f"bytes {offset}-"))
        ):
            if status in (206, 416):
                validator.unlink(missing_ok=True)  # so that the next request is for the whole file
            raise _Transient(f"HTTP {status} {answer.reason}")
        if status not in (200, 206):
            raise Failed(f"{url}: HTTP {status} {answer.reason}")
        if status == 200:
            file.seek(0)
            file.truncate()
            offset = 0
            _keep_validator(answer, validator)
        length = answer.headers.get("Content-Length")
        if length and not re.fullmatch(r"\d{1,18}", length, re.ASCII):
            raise Failed(f"{url}: the server's answer makes no sense (its length is {length[:40]!r})")
        total = offset + int(length) if length else None
        allowance.check(url, total)
        # Below requests' decoding, because some servers label .tar.gz files as gzip-encoded. Without waiting for full
        # chunks, which would lose the bytes of a slow connection before it breaks.
        while chunk := _some(answer, allowance):
            _write(file, chunk)
            allowance.received += len(chunk)
            allowance.check(url, file.tell())
            progress(file.tell(), total)
            if stop.is_set():
                raise Stopped("stopped")
        if total is not None and file.tell() != total:
            raise _Transient(f"{file.tell()} of {total} bytes came")


def _some(answer: Response, allowance: _Allowance) -> bytes:
    """The received bytes of a body. A chunked body has the time limit of headers, because chunk lengths may be slow."""
    chunked = answer.raw.chunked
    with _cut_after(allowance.retry.patience, answer.raw.connection) if chunked else nullcontext():
        return answer.raw.read1(CHUNK, decode_content=False)


def _keep_validator(answer: Response, validator: Path) -> None:
    """Store the validator that shows whether the file has changed (a strong one, RFC 9110, 13.1.5), if there is any."""
    etag = answer.headers.get("ETag", "")
    chosen = etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified", "")
    if chosen:
        with paths.written_whole(validator) as file:
            file.write(chosen.encode())
    else:
        validator.unlink(missing_ok=True)
