"""Energy of SpMVs."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import verified


def gflops_per_watt(rows: pd.DataFrame) -> pd.DataFrame:
    """Work over energy of each verified row whose energy was measured: 10^9 flops a joule.

    Columns matrix, label, setting, energy (J of an SpMV), energy_low, energy_high, gflops_per_watt.
    """
    found = verified(rows)
    found = found[found["energy"] > 0]
    rate = 1e-9 * found["work"] / found["energy"]
    kept = found[["matrix", "label", "setting", "energy", "energy_low", "energy_high"]]
    return kept.assign(gflops_per_watt=rate).reset_index(drop=True)
