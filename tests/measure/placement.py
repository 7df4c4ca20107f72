"""Dependence of hot times on the addresses of x, y and the matrix in the GPU's memory.

    python tests/measure/placement.py rmat:20:16 --formats csr-merge-tiles,cusparse-csr-alg1,csc-warp

For each format the least, median and greatest time in microseconds: with everything where it was, with x, y and the
matrix each in new places one after the other, and how the times of the places of x correlate with a second measurement
of the same places.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.devices import open_device
from spmvbench.formats import Csr
from spmvbench.formats.conversion import converting_for
from spmvbench.matrices import synthetic
from spmvbench.measure import timing

RULE = timing.Rule(rounds=1, budget=0.03, sample=1e-3, min_samples=10, clock_check=0.02)
PLACES = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("--formats", default="csr-merge-tiles,cusparse-csr-alg1,csc-warp")
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    device, rng = open_device(args.device), np.random.default_rng(0)
    xp, a = device.xp, Csr.of(synthetic.generate(args.spec)).on(device.xp)
    values = xp.asarray(rng.standard_normal(a.cols))
    held: list[Any] = []

    def elsewhere(make: Any) -> Any:
        """The result of `make` after a gap of 1 to 40 MB; both are kept."""
        held.extend((xp.empty(int(rng.integers(1, 41)) << 20, np.uint8), make()))
        return held[-1]

    def microseconds(fmt: Any, x: Any, y: Any) -> float:
        series = timing.prepare(device.compile(fmt.launches(x, y)), device, "hot", RULE)
        timing.take_round(series, device, RULE)
        return 1e6 * timing.quartiles(series).median

    for cls, params in formats.parse(args.formats):

        def converted(cls: Any = cls, params: Any = params) -> Any:
            with converting_for(device.limits):
                return cls.from_csr(a, **params)

        fmt, x, y = converted(), values.copy(), xp.zeros(a.rows)
        places = [elsewhere(values.copy) for _ in range(PLACES)]
        found = {
            "same": [microseconds(fmt, x, y) for _ in range(PLACES)],
            "x": [microseconds(fmt, place, y) for place in places],
            "y": [microseconds(fmt, x, elsewhere(lambda: xp.zeros(a.rows))) for _ in range(PLACES)],
            "matrix": [microseconds(elsewhere(converted), x, y) for _ in range(PLACES)],
        }
        again = np.corrcoef(found["x"], [microseconds(fmt, place, y) for place in places])[0, 1]
        spans = "  ".join(f"{name} {min(t):.1f} {np.median(t):.1f} {max(t):.1f}" for name, t in found.items())
        print(f"{args.spec} {cls.key}: {spans}  x again {again:.2f}", flush=True)
        held.clear()


if __name__ == "__main__":
    main()
