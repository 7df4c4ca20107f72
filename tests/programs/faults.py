"""The faults of planted.cpp: builds a library of each, measures all in one run, and says which are found.

``python tests/programs/faults.py --device cuda:0`` does so on a GPU, with nvcc.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pandas as pd

import spmvbench
from spmvbench.programs import making

SOURCE = Path(__file__).with_name("planted.cpp")
MATRICES = {"emulated": "pde:16", "cuda:0": "pde:60"}  # on a GPU large enough for its measure of memory
SECONDS = 20.0  # that one matrix may take; longer than the first kernels of a GPU

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
    "SMALL_CLAIM": r'ok.*"bytes_said": 1, "bytes_taken": \d{5}',
    "LAZY": r"ok.*setup 0\.0[4-9]",
    "KEEPS_CONVERSION": "wrong",
}
# Those that there are on a GPU alone:
ON_GPU = {"OTHER_STREAM": "wrong", "FIRST_CAPTURE": "wrong"}


def libraries(folder: Path, faults: Iterable[str], *, gpu: bool = False) -> list[Path]:
    """A library for each fault, called planted-FAULT."""

    def built(fault: str) -> Path:
        source, out = folder / f"{fault}{'.cu' if gpu else '.cpp'}", folder / f"lib{fault}.so"
        source.write_text(f'#define FAULT {fault}\n#define NAME "planted-{fault}"\n#include "{SOURCE}"\n')
        making.build(source, out, ("-O1",))
        return out

    with ThreadPoolExecutor() as pool:
        return list(pool.map(built, faults))


def said(rows: pd.DataFrame) -> dict[str, list[str]]:
    """What each row says, by fault: status, reason, detail and seconds of setup."""
    found: dict[str, list[str]] = {}
    for row in rows.to_dict("records"):
        details = json.dumps(json.loads(row["detail"])) if row["detail"] else ""
        text = f"{row['status']}: {row['reason']} {details} setup {row['t_setup']:.3f}"
        found.setdefault(row["format"].removeprefix("planted-"), []).append(text)
    return found


def matches(text: str, rows: Iterable[str]) -> bool:
    """Whether one of the rows says it."""
    return any(re.search(text, row) for row in rows)


def measured(paths: Iterable[Path], results: Path, device: str) -> pd.DataFrame:
    """The rows of one run of all libraries and one format, which has to be ok."""
    return spmvbench.run(
        MATRICES[device], "csr-vector", programs=paths, device=device, results=results, budget=0.02, timeout=SECONDS,
        progress=False,
    )  # fmt: skip


@click.command()
@click.option("--device", default="emulated")
def main(device: str) -> None:
    """Say which faults are found."""
    gpu = device != "emulated"
    expected = FAULTS | (ON_GPU if gpu else {})
    with tempfile.TemporaryDirectory() as folder:
        paths = libraries(Path(folder), ["NONE", *expected], gpu=gpu)
        rows = said(measured(paths, Path(folder) / "results", device))
    right = {fault: matches(text, rows[fault]) for fault, text in expected.items()}
    for fault, texts in rows.items():
        click.echo(
            f"{'' if fault not in right else 'found' if right[fault] else 'NOT FOUND':10}{fault:18}{texts[0][:150]}"
        )
    click.echo(f"{sum(right.values())} of {len(right)} planted faults are found on {device}")


if __name__ == "__main__":
    main()
