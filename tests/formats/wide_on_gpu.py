"""y = A x of a matrix of more than 2^31 entries on a GPU, in the formats that hold it.

From the root of a checkout: ``python -m tests.formats.wide_on_gpu --scale 27 --edges 18``. The matrix, rows of
neighbouring columns, is made on the device, in pieces. x and values are small integers, so that sums are exact in
single precision: y must be equal to sums that are made piece by piece, from the entries alone. Prints a line for each
format; exit code 1 if one is wrong, fails or does not hold it.
"""

from __future__ import annotations

import gc
import itertools
import sys
import time
from typing import Any

import click
import numpy as np

from spmvbench import formats
from spmvbench.devices import Device, open_device
from spmvbench.formats import Csr
from spmvbench.formats.arrays import expand, offsets
from spmvbench.formats.conversion import converting_for
from spmvbench.formats.vectors import restored

WIDE = (
    "csr-lanes,csr-merge-tiles,csr5,merge-csr,sell-local,column-sweep,coo-load-balance,bro-ell,block-sell"
    ",cusparse-csr-alg1"
)
PIECE = 1 << 26  # entries
LARGEST = 3  # of x and of the values: rows of fewer than 2^24 / 9 entries have exact sums


def neighbours(scale: int, edges: int, xp: Any) -> Csr:
    """2^scale rows of `edges` neighbouring columns each, values 1 to 3."""
    size = 1 << scale
    col_idx = xp.empty(size * edges, np.int32)
    for start in range(0, size, PIECE // 32):
        rows = xp.arange(start, min(start + PIECE // 32, size), dtype=np.int32)
        first = xp.clip(rows - edges // 2, 0, size - edges)
        part = first[:, None] + xp.arange(edges, dtype=np.int32)
        col_idx[start * edges : start * edges + part.size] = part.reshape(-1)
    values = (col_idx % LARGEST + 1).astype(np.float32)
    return Csr((size, size), offsets(xp.full(size, edges, np.int64)), col_idx, values)


def product(a: Csr, x: Any) -> Any:
    """y in float64, from the entries in pieces."""
    xp = a.xp
    y = xp.zeros(a.rows)
    cuts = [a.rows * part // 64 for part in range(65)]
    for first, last in itertools.pairwise(cuts):
        begin, end = (int(a.row_ptr[row]) for row in (first, last))
        row = expand(a.row_ptr[first : last + 1] - begin, end - begin)
        terms = a.values[begin:end] * x[a.col_idx[begin:end]]
        y[first:last] += xp.bincount(row, terms.astype(np.float64), minlength=last - first)
    return y


def check(key: str, a: Csr, device: Device, x: Any, expected: Any) -> str:
    """What became of a format. Raises AssertionError for a wrong y."""
    xp = device.xp
    began = time.perf_counter()
    ((cls, params),) = formats.parse(key)
    fmt = cls.converted(a, **params)
    converted = time.perf_counter() - began
    y = xp.full(a.rows, np.nan, np.float32)
    x = x if fmt.x_order is None else x[fmt.x_order]
    program = device.compile(fmt.launches(x, y))
    program.run()
    wrong = int((restored(y, fmt.y_order) != expected).sum())
    assert not wrong, f"{wrong:,} of {a.rows:,} rows are wrong"
    return f"right; {fmt.nbytes / 1e9:.1f} GB, converted in {converted:.1f} s"


def free(device: Device) -> None:
    gc.collect()
    if device.kind == "cuda":
        device.xp.get_default_memory_pool().free_all_blocks()


def run(scale: int, edges: int, device: Device, keys: str = WIDE) -> list[str]:
    """Checks the formats. Returns those that are wrong, fail or refuse."""
    bad = []
    with converting_for(device.limits):
        a = neighbours(scale, edges, device.xp)
    x = (device.xp.arange(a.cols) % LARGEST + 1).astype(np.float32)
    expected = product(a, x)
    click.echo(f"{a.nnz:,} entries")
    for key in keys.split(","):
        free(device)
        try:
            with converting_for(device.limits):
                told = check(key, a, device, x, expected)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            bad.append(key)
        click.echo(f"  {key:20} {told}")
    return bad


@click.command()
@click.option("--scale", default=27, show_default=True, help="2^SCALE rows.")
@click.option("--edges", default=18, show_default=True, help="Entries for a row.")
@click.option("--formats", "keys", default=WIDE, show_default=True)
@click.option("--device", "device_name", default="cuda:0", show_default=True)
def main(scale: int, edges: int, keys: str, device_name: str) -> None:
    """Check formats beyond 2^31 entries."""
    if bad := run(scale, edges, open_device(device_name), keys):
        click.echo(f"wrong or failed: {', '.join(bad)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
