"""The source line of an instruction of the checking build, by binutils or LLVM."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

# What libraries call the folders of the emulation's own files and of the headers that kernels share (`build._renamed`).
RUNTIME, HELPERS = "/spmvbench/emulation", "/spmvbench/include"


@cache
def place_name(library: Path, offset: int) -> str:
    """``csr.cu:25`` for an instruction by its offset; the offset where the tool that knows the line is not installed.

    Of a helper of kernels/include it is the line that calls it, where there is one.
    """
    tool, lines = _tool("addr2line"), list[tuple[bool, str]]()
    if tool is not None:
        command = [tool, "-i", "-e", str(library), hex(offset)]
        for frame in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            file, _, line = frame.split(" ")[0].rpartition(":")  # innermost first
            if line.isdigit() and not file.startswith(f"{RUNTIME}/"):
                lines.append((file.startswith(f"{HELPERS}/"), f"{Path(file).name}:{line}"))
    return min(lines, key=lambda of: of[0], default=(False, f"+{offset:#x}"))[1]


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(f"llvm-{name}")
