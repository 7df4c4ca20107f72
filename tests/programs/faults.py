"""The faults of planted.cpp: builds a library of each, measures all in one run, and says which are found.

``python tests/programs/faults.py --device cuda:0`` does so on a GPU, with nvcc.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import click
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


def text_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """The fault of a row, and what the row says: status, reason, detail and seconds of setup."""
    details = json.dumps(json.loads(row["detail"])) if row.get("detail") else ""
    text = f"{row['status']}: {row.get('reason', '')} {details} setup {row.get('t_setup', math.nan):.3f}"
    return row["format"].removeprefix("planted-"), text


def said(rows: pd.DataFrame) -> dict[str, list[str]]:
    """What the rows say, by fault."""
    found: dict[str, list[str]] = {}
    for fault, text in map(text_of, rows.to_dict("records")):
        found.setdefault(fault, []).append(text)
    return found


def matches(text: str, rows: Iterable[str]) -> bool:
    """Whether one of the rows says it."""
    return any(re.search(text, row) for row in rows)


def measured(
    paths: Iterable[Path], results: Path, device: str, progress: bool | Callable[[dict[str, Any]], bool] = False
) -> pd.DataFrame:
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
                progress=progress,
            )  # fmt: skip
            found.append(rows)
    return pd.concat(found)


@click.command()
@click.option("--device", default="emulated")
@click.option("--only", default="", help="Faults, with commas between them; else all.")
def main(device: str, only: str) -> None:
    """Say of each fault whether it is found, as soon as it is measured."""
    gpu = device != "emulated"
    expected = FAULTS | (ON_GPU if gpu else {})
    expected = {fault: expected[fault] for fault in only.split(",")} if only else expected
    right: dict[str, bool] = {}
    began = monotonic()

    def follow(row: dict[str, Any]) -> bool:
        fault, text = text_of(row)
        if fault in expected:
            right[fault] = right.get(fault, False) or matches(expected[fault], [text])
        verdict = "found" if right.get(fault) else "NOT FOUND" if fault in expected else ""
        click.echo(f"{monotonic() - began:5.0f} s  {verdict:10}{fault:18}{text[:150]}")
        return True

    with tempfile.TemporaryDirectory() as folder:
        paths = libraries(Path(folder), in_order(expected), gpu=gpu)
        click.echo(f"{monotonic() - began:5.0f} s  {len(paths)} libraries are built")
        measured(paths, Path(folder) / "results", device, follow)
    click.echo(f"{sum(right.values())} of {len(expected)} planted faults are found on {device}")


if __name__ == "__main__":
    main()
