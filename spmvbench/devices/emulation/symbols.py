"""Source lines of machine code, from the debug information of a checking build."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from spmvbench import paths

_HERE = Path(__file__).resolve().parent


def source_lines(library: Path, offsets: Iterable[int]) -> dict[int, str]:
    """The place in the kernels' sources, ``csr.cu:25``, of each offset in a library.

    Of inlined calls, the innermost that is no helper: neither the emulation's nor, where there is a choice, of
    kernels/include. An offset stays a number (``+0x1a2b``) where no symbolizer is installed (binutils or LLVM).
    """
    offsets = list(offsets)
    tool = _symbolizer()
    found = {offset: f"+{offset:#x}" for offset in offsets}
    if not offsets or tool is None:
        return found
    command = [tool, "-a", "-i", "-e", str(library), *(hex(offset) for offset in offsets)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Each offset is repeated on a line of its own; the frames follow, innermost first.
    for offset, block in zip(offsets, re.split(r"^0x[0-9a-f]+\n", answer, flags=re.MULTILINE)[1:], strict=True):
        frames = [frame.split(" ")[0].rpartition(":") for frame in block.splitlines()]
        places = [(Path(file), line) for file, _, line in frames if Path(file).parent != _HERE and line.isdigit()]
        own = [place for place in places if place[0].parent != paths.kernels() / "include"]
        if places:
            file, line = (own or places)[0]
            found[offset] = f"{file.name}:{line}"
    return found


@cache
def _symbolizer() -> str | None:
    return next(filter(None, map(shutil.which, ("addr2line", "llvm-addr2line"))), None)
