"""Filter for terminal output: control characters are written as their escapes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from spmvbench import untrusted

# Control sequences of this program: click's bold and colours, and progress bars, which only stderr shows.
_STYLE = r"\x1b\[(?:0|1|3[0-7])m"
_PROGRESS = r"\r|\x1b\[A"


class Shown:
    """A text stream that escapes control characters, except line ends, tabs and matches of `steering`.

    Characters that the stream's encoding lacks are escaped, too.

    encoding: UTF-8, since every character may be written; if click saw ASCII here, it would write past this stream.
    """

    encoding = "utf-8"

    def __init__(self, stream: TextIO, steering: str):
        self._stream = stream
        self._parts = re.compile(f"({steering})")

    def write(self, text: str) -> int:
        """Write a text, with escapes for characters that do not print."""
        if not text.isprintable():
            parts = self._parts.split(text)
            text = "".join(part if i % 2 else untrusted.text(part, "\n\t") for i, part in enumerate(parts))
        encoding = self._stream.encoding or "utf-8"
        return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def writelines(self, lines: Any) -> None:
        """Write several texts, each as `write` does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Replace standard output and standard error, if there are any, by `Shown` streams.

    At the end, what a stream cannot write is discarded: Python would report it once more when it exits.
    """
    before = sys.stdout, sys.stderr
    if sys.stdout is not None:
        sys.stdout = Shown(sys.stdout, _STYLE)
    if sys.stderr is not None:
        sys.stderr = Shown(sys.stderr, f"{_STYLE}|{_PROGRESS}")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in filter(None, before):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
