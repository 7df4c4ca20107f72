"""What the command line prints passes here: characters that steer a terminal are written as their escapes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from spmvbench import untrusted

# What this program itself sends to steer: click's bold and colours; and progress bars, which only stderr shows.
_STYLE = r"\x1b\[(?:0|1|3[0-7])m"
_PROGRESS = r"\r|\x1b\[A"


class Shown:
    """A text stream that shows texts and lets nothing else through but line ends, tabs and what `steering` matches.

    What the stream's encoding does not have is written as its escape, too.
    """

    def __init__(self, stream: TextIO, steering: str):
        self._stream = stream
        self._parts = re.compile(f"({steering})")

    def write(self, text: str) -> int:
        """Write a text; what does not print in it is spelled out."""
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
        # click writes to the buffer of a stream that is ASCII alone, past this one.
        if name == "buffer" and (self._stream.encoding or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Standard output and standard error as `Shown` streams, where there are such."""
    before = sys.stdout, sys.stderr
    if sys.stdout is not None:
        sys.stdout = Shown(sys.stdout, _STYLE)  # type: ignore[assignment]
    if sys.stderr is not None:
        sys.stderr = Shown(sys.stderr, f"{_STYLE}|{_PROGRESS}")  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
