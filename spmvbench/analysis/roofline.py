"""The roofline of SpMV: the rate that bandwidth allows, lower ceilings for imbalanced work, roofline efficiency.

Williams, Waterman & Patterson 2009; the ceilings are those of Filippone et al. 2017, section 5.3 and Figure 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import verified

# Of a stored value, by type; mixed types begin with that of the values.
VALUE_BYTES = {"f64": 8, "f32": 4, "f32/f64": 4, "f16/f64": 2, "bf16/f64": 2, "f16/f32": 2, "bf16/f32": 2}
INDEX_BYTES = 4
WARP = 32

# Results per clock and multiprocessor of a fused multiply-add in double and single precision, by architecture
# (CUDA C++ Programming Guide, table of arithmetic throughput).
_FMA_PER_CLOCK = {
    "sm_20": (16, 32),
    "sm_30": (8, 192),
    "sm_35": (64, 192),
    "sm_37": (64, 192),
    "sm_50": (4, 128),
    "sm_52": (4, 128),
    "sm_60": (32, 64),
    "sm_61": (4, 128),
    "sm_70": (32, 64),
    "sm_75": (2, 64),
    "sm_80": (32, 64),
    "sm_86": (2, 128),
    "sm_89": (2, 128),
    "sm_90": (64, 128),
    "sm_100": (64, 128),
    "sm_120": (2, 128),
}


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """Points of the roofline: columns setting, matrix, label, intensity, gflops, gbps of each verified row.

    intensity: 2 nnz / model_bytes in flop/byte. model_bytes counts the footprint, x read once and y written once, so
    gflops / intensity is the bandwidth that the kernel needs if it reads x from memory exactly once.
    """
    counted = verified(rows)
    counted = counted[(counted["model_bytes"] > 0) & (counted["gflops"] > 0)]
    intensity = 2.0 * counted["nnz"] / counted["model_bytes"]
    return counted[["setting", "matrix", "label", "gflops", "gbps"]].assign(intensity=intensity).reset_index(drop=True)


def efficiency(rows: pd.DataFrame) -> pd.DataFrame:
    """Roofline efficiency of each verified row with a bound.

    Columns setting, matrix, label, gflops, bound_gflops, bound_by, efficiency (gflops over bound_gflops).
    """
    counted = verified(rows)
    counted = counted[(counted["bound_gflops"] > 0) & (counted["gflops"] > 0)]
    columns = ["setting", "matrix", "label", "gflops", "bound_gflops", "bound_by"]
    return counted[columns].assign(efficiency=counted["gflops"] / counted["bound_gflops"]).reset_index(drop=True)


def gather_bounds(rows: pd.DataFrame) -> pd.DataFrame:
    """The gather bound of each matrix that is gather-bound for some format: columns setting, matrix, gflops.

    One row for each matrix and setting, the lowest bound first; it is the same for all formats.
    """
    found = efficiency(rows)
    found = found[found["bound_by"] == "gathers"].groupby(["setting", "matrix"], as_index=False)["bound_gflops"].first()
    return found.rename(columns={"bound_gflops": "gflops"}).sort_values("gflops", ignore_index=True)


def intensity_bounds(dtype: str) -> dict[str, float]:
    """Upper bounds on arithmetic intensity (flop/byte) of general formats: 1/4 and 1/6 for f64, 1/2 and 1/4 for f32.

    values only: 2 flops for each value read. values and indices: 2 flops for each value and its 32-bit index.
    """
    size = VALUE_BYTES[dtype]
    return {"values only": 2 / size, "values and indices": 2 / (size + INDEX_BYTES)}


def ceilings(properties: Mapping[str, Any], dtype: str) -> pd.DataFrame:
    """Arithmetic throughput (columns ceiling, gflops) if only a part of the device works, highest first.

    - peak: all threads of all multiprocessors.
    - single multiprocessor: one block has all the work (imbalance between blocks).
    - idle threads: one thread of every warp works (imbalance inside warps).
    - idle threads, single multiprocessor: one thread works.

    properties: multiprocessors, architecture (``sm_90``) and max_sm_clock_mhz of the device. The table is empty if one
    of them is missing or the architecture is unknown.
    """
    per_clock = _FMA_PER_CLOCK.get(str(properties.get("architecture", "")).rstrip("a"))
    multiprocessors, clock = properties.get("multiprocessors"), properties.get("max_sm_clock_mhz")
    if per_clock is None or not multiprocessors or not clock:
        return pd.DataFrame({"ceiling": pd.Series(dtype=str), "gflops": pd.Series(dtype=float)})
    peak = multiprocessors * 2 * per_clock[0 if dtype.endswith("f64") else 1] * clock * 1e-3
    return pd.DataFrame(
        {
            "ceiling": [
                "peak",
                "single multiprocessor",
                "idle threads",
                "idle threads, single multiprocessor",
            ],
            "gflops": [peak, peak / multiprocessors, peak / WARP, peak / (multiprocessors * WARP)],
        }
    ).sort_values("gflops", ascending=False, ignore_index=True)


def roofs(setting: str, environment: Mapping[str, Any]) -> dict[str, float]:
    """What the bandwidth of memory allows SpMV at each of `intensity_bounds`, GFLOPS by name, at most the peak.

    setting: as in `cases.latest_cases`. environment: metadata of the run. Empty for other operations, and if the
    bandwidth was not measured.
    """
    dtype, _, mode = setting.partition(" ")
    bandwidth = environment.get("read_bandwidth_gbps")
    if dtype not in VALUE_BYTES or not bandwidth or any(op in mode for op in ("spmspv", "bfs", "cg", "pagerank")):
        return {}
    limits = ceilings(environment.get("properties", {}), dtype)["gflops"]
    peak = limits.max() if len(limits) else np.inf
    return {name: float(attainable(bound, bandwidth, peak)) for name, bound in intensity_bounds(dtype).items()}


def attainable(intensity: Any, bandwidth_gbps: float, peak_gflops: float = np.inf) -> Any:
    """Attainable GFLOPS at an intensity (flop/byte): bandwidth times intensity, at most the peak."""
    return np.minimum(np.asarray(intensity) * bandwidth_gbps, peak_gflops)
