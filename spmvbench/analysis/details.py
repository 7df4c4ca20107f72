"""What rows keep beside their times: the times of kernels, shares of tile formats, energy."""

from __future__ import annotations

import json

import pandas as pd

from spmvbench.analysis.cases import verified


def kernel_times(rows: pd.DataFrame) -> pd.DataFrame:
    """The time of each named kernel, timed on its own: columns setting, matrix, label, nnz, kernel, seconds, share.

    share: of the sum over the row's kernels, 0 to 1. From rows with status ok, experiments included; kernels in the
    order in which they run.
    """
    counted = rows[(rows["status"] == "ok") & (rows["t_kernels"] != "")]
    found = [
        (row.setting, row.matrix, row.label, row.nnz, kernel, seconds, seconds / sum(kernels.values()))
        for row in counted[["setting", "matrix", "label", "nnz", "t_kernels"]].itertuples()
        for kernels in [json.loads(row.t_kernels)]
        for kernel, seconds in kernels.items()
    ]
    table = pd.DataFrame(found, columns=["setting", "matrix", "label", "nnz", "kernel", "seconds", "share"])
    return table.astype({"setting": rows["setting"].dtype})


def tile_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of each tile format in the tiles and in the nonzeros of each matrix, by rising nonzeros.

    Niu et al. 2021 (TileSpMV), section IV.B and Fig. 7.

    Columns matrix, nnz, label, tile_format, tiles, nonzeros (shares, 0 to 1). From the `detail` of verified rows with
    tile_share and nnz_share. One row for each matrix counts, because the census depends on neither type nor mode.
    Padding does not count as nonzeros.
    """
    counted = verified(rows)
    counted = counted[counted["detail"].str.contains("tile_share", regex=False) & (counted["nnz"] > 0)]
    counted = counted.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    found = [
        (row.matrix, row.nnz, row.label, name, share, detail["nnz_share"][name])
        for row in counted.itertuples()
        for detail in [json.loads(row.detail)]
        for name, share in detail["tile_share"].items()
    ]
    return pd.DataFrame(found, columns=["matrix", "nnz", "label", "tile_format", "tiles", "nonzeros"])


def gflops_per_watt(rows: pd.DataFrame) -> pd.DataFrame:
    """Work over energy of each verified row whose energy was measured: 10^9 flops a joule.

    Columns matrix, label, setting, energy (J of an SpMV), energy_low, energy_high, gflops_per_watt.
    """
    found = verified(rows)
    found = found[found["energy"] > 0]
    rate = 1e-9 * found["work"] / found["energy"]
    kept = found[["matrix", "label", "setting", "energy", "energy_low", "energy_high"]]
    return kept.assign(gflops_per_watt=rate).reset_index(drop=True)
