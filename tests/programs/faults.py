"""The faults of planted.cpp: builds a library of each, measures all in one run, and says which are found."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

import spmvbench
from spmvbench.programs import making

SOURCE = Path(__file__).with_name("planted.cpp")
MATRICES = {"emulated": "pde:16", "cuda:0": "pde:60"}  # on a GPU large enough for its measure of memory
HANG_SECONDS, SECONDS = 3.0, 600.0  # that one matrix may take: of the library that hangs, of the others

# Each fault, and what status, reason and detail of one of its rows say. On the host and on a GPU:
FAULTS = {
    "KEEPS_POINTERS": "crashed.*SIGSEGV|wrong",
    "STALE": "wrong",
    "CACHED": "wrong",
    "LAST_ENTRY_LOST": "wrong.*exact integer test",
    "BEYOND_Y": "wrong.*wrote beyond y",
    "ALLOCATED_BEYOND": "wrong.*wrote beyond allocation 0 of 64 B",
    "CRASHES": "crashed.*(SIGSEGV|illegal)",
    "EXITS": "crashed.*exited with code 0.*: no licence",
    "HANGS": "timeout.*no end after",
    "REFUSES": "skipped.*rows longer than 3 do not fit",
    "FAILS": "error.*the licence server did not answer",
    "LEAKS": r'"bytes_kept": \d{5}',
    "WRONG_WHERE_ZERO": "wrong",
    "ADDS_TO_Y": "wrong",
    "SECOND_THREAD": "wrong|crashed|error",
    "DESCRIBES": "error.*what spmv_describe has prepared is gone",
    "PRINTS": 'ok.*"printed": "converting',
    "LOCALE": 'ok.*"changed": .*the locale',
    "SIGNALS": 'ok.*"changed": .*signal handlers',
    "ROUNDING": 'ok.*"changed": .*rounding',
    "STANDARD_OUT": 'ok.*"changed": .*file descriptors',
    "SMALL_CLAIM": r'ok.*"bytes_said": 1, "bytes_taken": \d{5}',
    "LAZY": r"ok.*setup (0\.0[5-9]|0\.[1-9]|[1-9])",
    "IGNORES_VALUES": "wrong.*with twice the values",
    "KEEPS_CONVERSION": "wrong|error.*a second matrix changed the product of the first",
}
# Those that there are on a GPU alone:
ON_GPU = {
    "OTHER_STREAM": "wrong",
    "FIRST_CAPTURE": "wrong",
    "DEVICE": '"changed": .*the current CUDA context or device|error',
}
LAST = ["KEEPS_POINTERS", "SECOND_THREAD", "DESCRIBES", "CRASHES", "EXITS", "HANGS"]  # each ends a process, or may


def libraries(folder: Path, faults: Iterable[str], *, gpu: bool = False) -> list[Path]:
    """A library for each fault, called planted-FAULT."""

    def built(fault: str) -> Path:
        source, out = folder / f"{fault}{'.cu' if gpu else '.cpp'}", folder / f"lib{fault}.so"
        source.write_text(f'#define FAULT {fault}\n#define NAME "planted-{fault}"\n#include "{SOURCE}"\n')
        making.build(source, out, ("-O1",))
        return out

    with ThreadPoolExecutor() as pool:
        return list(pool.map(built, faults))


def in_order(expected: Iterable[str]) -> list[str]:
    """NONE, then the faults, those last that end the measuring process or may end it."""
    return ["NONE", *sorted(expected, key=lambda fault: LAST.index(fault) if fault in LAST else -1)]


def said(rows: pd.DataFrame) -> dict[str, list[str]]:
    """What the rows say, by fault: status, reason, detail and seconds of setup."""
    found: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        details = json.dumps(json.loads(row["detail"])) if row.get("detail") else ""
        text = f"{row['status']}: {row.get('reason', '')} {details} setup {row.get('t_setup', math.nan):.3f}"
        found.setdefault(row["format"].removeprefix("planted-"), []).append(text)
    return found


def matches(text: str, rows: Iterable[str]) -> bool:
    """Whether one of the rows says it."""
    return any(re.search(text, row) for row in rows)


def measured(paths: Iterable[Path], results: Path, device: str) -> pd.DataFrame:
    """The rows of all libraries and of one format, which has to be ok.

    The library that hangs has a run of its own, as its limit could decide over others on a busy machine.
    """
    paths = list(paths)
    found = []
    for formats, hangs, seconds in (("csr-vector", False, SECONDS), ("planted-HANGS", True, HANG_SECONDS)):
        if programs := [path for path in paths if (path.stem == "libHANGS") == hangs]:
            rows = spmvbench.run(
                MATRICES[device], formats, programs=programs, device=device, results=results / formats, budget=0.02,
                timeout=seconds, update=True, mode="hot", convert="both" if device == "emulated" else "device",
                progress=False,
            )  # fmt: skip
            found.append(rows)
    return pd.concat(found)
