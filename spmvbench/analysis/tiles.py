"""Census of tile formats: the share of tiles and of nonzeros in each.

Niu et al. 2021 (TileSpMV), section IV.B and Fig. 7: shares of tiles and of nonzeros by tile format.
"""

from __future__ import annotations

import json

import pandas as pd

from spmvbench.analysis.cases import verified


def tile_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of each tile format in the tiles and in the nonzeros of each matrix, by rising nonzeros.

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
