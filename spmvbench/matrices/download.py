"""Downloads by HTTP or from a folder: continued, retried, checked, then renamed atomically."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from spmvbench import paths
from spmvbench.errors import SpmvbenchError

if TYPE_CHECKING:
    from requests import Session

Progress = Callable[[int, int | None], None]
Receive = Callable[[BinaryIO, Callable[[int], bytes], int | None], None]

CHUNK = 1 << 18
LOCKS = 64  # lock files of all downloads to a cache; two that share one wait for each other
TEMPORARY = (408, 425, 429, *range(500, 600))  # statuses of HTTP after which a request is repeated


@dataclass(frozen=True)
class Limits:
    """Limits of a download.

    tries: attempts without progress. backoff: seconds after the first of them, then doubled; pause: most seconds of a
    longer wait that the server asks for. connect, read: seconds to wait for a connection, and for the
    next bytes. slowest: minimum average of bytes per second after `patience` seconds.
    """

    tries: int = 5
    backoff: float = 0.5
    pause: float = 600.0
    connect: float = 10.0
    read: float = 30.0
    patience: float = 300.0
    slowest: float = 4096.0


LIMITS = Limits()


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


def session(login: tuple[str, str] | None, connections: int) -> Session:
    """A requests.Session with this login, for so many threads."""
    import requests
    from requests.adapters import HTTPAdapter

    from spmvbench import __version__

    found = requests.Session()
    found.headers.update({"User-Agent": f"spmvbench/{__version__}", "Accept-Encoding": "identity"})
    found.auth = login
    for scheme in ("http://", "https://"):
        found.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=connections))
    return found


@dataclass
class Downloads:
    """Files from one source, by several threads. session: for addresses. stop: ends all, which raises Broken."""

    session: Session | None = None
    limits: Limits = LIMITS
    stop: Event = field(default_factory=Event)

    def transfer(
        self,
        source: str | Path,
        target: Path,
        accept: Callable[[Path], None],
        progress: Progress = lambda done, total: None,
        *,
        most: int,
        replace: bool = False,
    ) -> bool:
        """Fetch `source` (a path or a URL) to `target`. Returns False if `target` exists.

        The bytes are written to `<target>.part` under a lock: a second process waits and then finds the target. An
        existing part is continued. `accept` checks the complete part and raises to refuse it, which removes it; if it
        came in pieces, it is fetched once more as a whole, because the source may have changed between them.
        progress(done, total): bytes. most: larger files are refused. replace: fetch even if `target` exists.

        Raises Missing, Failed, Unreachable, NoSpace, and what `accept` raises.
        """
        part = target.with_name(target.name + ".part")
        lock = paths.home() / "locks" / f"fetch-{zlib.crc32(os.fsencode(target)) % LOCKS}"
        receive = partial(self._receive, str(source), most, progress)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with paths.locked(lock, self.stop.is_set) as had, _removed(part):
                if not had or (target.is_file() and not replace):
                    return False
                for whole in (False, True):
                    with open(paths.opened(part, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as file:
                        if isinstance(source, Path):
                            in_pieces = _copy(source, file, receive)
                        else:
                            in_pieces = self._download(source, file, receive)
                    try:
                        accept(part)
                        break
                    except Exception:
                        if whole or not in_pieces:
                            raise
                        part.unlink(missing_ok=True)
                os.replace(part, target)
                return True
        except OSError as error:
            if error.errno in paths.FULL:
                reason = f"no space left for {target} ({error.strerror})"
                raise NoSpace(f"{reason}: free some, or point SPMVBENCH_HOME to another disk") from None
            raise

    def close(self) -> None:
        """End all of them."""
        self.stop.set()
        if self.session:
            self.session.close()

    def _download(self, url: str, file: BinaryIO, receive: Receive) -> bool:
        """Send requests until nothing is missing, or `limits.tries` of them have brought nothing."""
        import requests
        import urllib3

        tries = 0
        while True:
            offset, pause = file.seek(0, os.SEEK_END), 0.0
            try:
                return self._request(url, file, offset, receive)
            except requests.HTTPError as error:
                failure: SpmvbenchError = Broken(f"{url}: {error}, given up after {self.limits.tries} tries")
                pause = min(_asked_pause(error.response), self.limits.pause)
            except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
                failure = _failure(error, url)
            except (requests.RequestException, ValueError) as error:  # ValueError: of a redirect to what is no address
                raise Failed(f"{url}: the server's answer makes no sense ({error})") from None
            tries = 1 if file.seek(0, os.SEEK_END) > offset else tries + 1
            if tries >= self.limits.tries or self.stop.wait(max(pause, self.limits.backoff * 2 ** (tries - 1))):
                raise failure

    def _request(self, url: str, file: BinaryIO, offset: int, receive: Receive) -> bool:
        """One request for the bytes from `offset` on. Returns whether it brought them and not the whole file."""
        from requests import HTTPError
        from urllib3.exceptions import ProtocolError

        assert self.session is not None, "an address is fetched with a session"
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        timeout = self.limits.connect, self.limits.read
        with closing(self.session.get(url, headers=headers, stream=True, timeout=timeout)) as answer:
            status, text = answer.status_code, f"HTTP {answer.status_code} {answer.reason}"
            if status in (404, 410):
                raise Missing(f"{url} does not exist")
            in_pieces = status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
            if not in_pieces and status in (200, 206, 416):
                file.truncate(file.seek(0))
                if status != 200:
                    raise ProtocolError(text)
            elif status in TEMPORARY:
                raise HTTPError(text, response=answer)
            elif not in_pieces:
                raise Failed(f"{url}: {text}")
            # Without waiting for full chunks, whose bytes a connection that breaks would lose, and below requests'
            # decoding, because some servers label .tar.gz files as gzip-encoded.
            left = answer.raw.length_remaining
            total = None if left is None else file.tell() + left
            receive(file, partial(answer.raw.read1, decode_content=False), total)
            return in_pieces

    def _receive(
        self, name: str, most: int, progress: Progress, file: BinaryIO, read: Callable[[int], bytes], total: int | None
    ) -> None:
        """Append what is read to a file, within limits of size and time."""
        started, size, received = time.monotonic(), file.tell(), 0
        while True:
            if max(size, total or 0) > most:
                raise Failed(f"{name}: it has over {most:,} bytes, more than the requested file can have: refused")
            late = time.monotonic() - started - self.limits.patience
            if late * self.limits.slowest > received:
                slowest = f"{self.limits.slowest:,.0f} bytes per second"
                raise Broken(f"{name}: it arrives at less than {slowest}, given up")
            if self.stop.is_set():
                raise Broken("stopped")
            progress(size, total)
            piece = memoryview(read(CHUNK))
            if not piece:
                return
            received += len(piece)
            while piece:  # an unbuffered file may take less at a time
                piece = piece[file.write(piece) :]
            size = file.tell()


def _copy(source: Path, file: BinaryIO, receive: Receive) -> bool:
    if source.exists() and not source.is_file():
        raise Failed(f"{source} is no file")
    try:
        with open(source, "rb") as origin:
            file.truncate(0)
            receive(file, origin.read, os.path.getsize(source))
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(f"{source} does not exist") from None
    except PermissionError as error:
        raise Failed(f"{source} cannot be read: {error.strerror}") from None
    return False


@contextmanager
def _removed(part: Path) -> Iterator[None]:
    """Remove a part that is of no use: all but what a connection that broke has left to be continued."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Broken | Unreachable) or not part.exists() or not os.path.getsize(part):
            part.unlink(missing_ok=True)
        raise


def _asked_pause(answer: Any) -> float:
    """Seconds that a server asks to wait (Retry-After: a number or a date); 0 if it does not."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    try:
        return float(Retry().parse_retry_after(answer.headers["Retry-After"]))
    except (AttributeError, KeyError, InvalidHeader):
        return 0.0


def _failure(error: Exception, url: str) -> SpmvbenchError:
    """What to raise if this is the last failure of a connection."""
    from urllib.parse import urlsplit

    from urllib3.exceptions import MaxRetryError

    cause, request = error.args[0] if error.args else error, getattr(error, "request", None)
    if not isinstance(cause, MaxRetryError):
        return Broken(f"{url}: the connection was cut ({type(cause).__name__}), given up")
    problem = str(cause.reason).rpartition(": ")[2]  # no connection came about: no network, no host, nobody listening
    if request is not None and urlsplit(request.url).netloc != urlsplit(url).netloc:  # of a redirect
        return Broken(f"{url}: {problem}, given up")
    ways = "name another address or a folder by SPMVBENCH_MIRROR (fetch: --mirror)"
    return Unreachable(
        f"cannot reach {url} ({problem}): {ways}, or use cached matrices or generated ones such as pde:60"
    )
