"""What matrices in tiles are made of.

Niu et al. 2021 (TileSpMV), section IV.B and Fig. 7: shares of tiles and of nonzeros by tile format.
"""

from __future__ import annotations

import json

import pandas as pd

from spmvbench.analysis.cases import right


def tile_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of each tile format in the tiles and in the nonzeros of each matrix, 0 to 1, nonzeros rising.

    Columns matrix, nnz, label, tile_format, tiles, nonzeros (shares). From the `detail` of right rows that hold
    tile_share and nnz_share; one row a matrix counts, for the census depends on neither type nor mode. Padding is no
    nonzero.
    """
    counted = right(rows)
    counted = counted[counted["detail"].str.contains("tile_share", regex=False) & (counted["nnz"] > 0)]
    counted = counted.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    found = [
        (row.matrix, row.nnz, row.label, name, share, detail["nnz_share"][name])
        for row in counted.itertuples()
        for detail in [json.loads(row.detail)]
        for name, share in detail["tile_share"].items()
    ]
    return pd.DataFrame(found, columns=["matrix", "nnz", "label", "tile_format", "tiles", "nonzeros"])
