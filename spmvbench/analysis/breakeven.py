"""What a format costs before the first SpMV, and when that has paid.

Filippone et al. 2017, section 5.4 and Table 10: conversion in seconds, in SpMVs, and the break-even against CSR.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import emulated, once_a_matrix, right


def setups(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds from canonical CSR on the host or the device to a format ready to multiply, of each right case.

    Columns setting, matrix, label, dtype, nnz, t_median, t_spmv_host, path, setup. path host: converted on the host and
    copied to the device (on the emulated device nothing is copied); path device: converted on the device, from CSR that
    lies there. A vendor's own preprocessing counts in both. Compiling does not: kernels are compiled once, not once a
    matrix. A path that was not measured gives no row.
    """
    counted = right(rows)
    columns = ["setting", "matrix", "label", "dtype", "nnz", "t_median", "t_spmv_host"]
    tables = [counted[columns].assign(path=path, setup=seconds) for path, seconds in _paths(counted).items()]
    return pd.concat(tables, ignore_index=True).dropna(subset="setup").reset_index(drop=True)


def ready(rows: pd.DataFrame) -> pd.Series:
    """Seconds from canonical CSR to a format ready to multiply, of each row: on the device, or on the host where the
    device converts nothing; NaN where neither was measured.
    """
    paths = _paths(rows)
    return paths["device"].fillna(paths["host"])


def _paths(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Seconds of each path, as `setups` names them, of each row."""
    seconds = {
        "device": rows["t_convert_device"],
        "host": rows["t_convert_host"] + rows["t_transfer"].where(~emulated(rows), 0.0),
    }
    return {path: taken + rows["t_setup"].fillna(0.0) for path, taken in seconds.items()}


def break_even(setup: object, t: object, setup_csr: object, t_csr: object) -> np.ndarray:
    """SpMVs after which a format has paid for itself against CSR: (setup - setup_csr) / (t_csr - t), in SpMVs.

    All in seconds, broadcast against one another. Where the format is faster and sets up no slower, it pays from the
    first: 0. Where it is slower it never stays ahead: inf, also when a quick setup puts it ahead for a while. At equal
    times the setup alone decides: 0 where it is not longer, else inf. NaN where anything is missing.
    """
    setup, t, setup_csr, t_csr = np.broadcast_arrays(
        *(np.asarray(v, dtype=float) for v in (setup, t, setup_csr, t_csr))
    )
    extra, gain = setup - setup_csr, t_csr - t
    with np.errstate(divide="ignore", invalid="ignore"):
        after = np.where(gain > 0, np.maximum(extra, 0) / gain, np.inf)
    after = np.where((gain == 0) & (extra <= 0), 0.0, after)
    return np.where(np.isnan(extra) | np.isnan(gain), np.nan, after)


def overheads(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The setups with three columns more, all in SpMVs: spmvs (setup over the time of one SpMV of the format),
    host_spmvs (over that of one on a host thread) and break_even against the baseline.

    host_spmvs is NaN where the row is older than that column, break_even where the baseline is not right on the matrix.
    """
    table = setups(rows)
    keys = ["setting", "matrix", "path"]
    base = table[table["label"] == baseline].set_index(keys)[["setup", "t_median"]].add_suffix("_base")
    table = table.join(base, on=keys)
    paid = break_even(table["setup"], table["t_median"], table["setup_base"], table["t_median_base"])
    table = table.assign(
        spmvs=table["setup"] / table["t_median"], host_spmvs=table["setup"] / table["t_spmv_host"], break_even=paid
    )
    return table.drop(columns=["setup_base", "t_median_base"])


def of_one_path(table: pd.DataFrame) -> pd.DataFrame:
    """The setups of the path that counts: on the device where any was measured there, else on the host."""
    return table[table["path"] == ("device" if "device" in set(table["path"]) else "host")]


def footprints(rows: pd.DataFrame) -> pd.DataFrame:
    """Bytes of each format on each matrix it holds: columns matrix, label, dtype, nnz, bytes_format,
    bytes_per_nnz.
    """
    counted = once_a_matrix(rows)
    counted = counted[counted["nnz"] > 0]
    return counted[["matrix", "label", "dtype", "nnz", "bytes_format", "bytes_per_nnz"]].reset_index(drop=True)


def largest_footprints(rows: pd.DataFrame, baseline: str, most: int) -> pd.DataFrame:
    """The footprints on the `most` matrices with the most nonzeros of those that the baseline holds, by type.

    The columns of `footprints` and ratio (bytes over the baseline's); in the order of type, then rising nonzeros.
    """
    table = footprints(rows).drop_duplicates(["matrix", "label", "dtype"])  # the same on every device
    base = table[table["label"] == baseline].sort_values(["dtype", "nnz", "matrix"], ascending=[False, True, True])
    base = base.groupby("dtype", sort=False).tail(most)[["dtype", "matrix", "bytes_format"]]
    table = base.rename(columns={"bytes_format": "base"}).merge(table, on=["dtype", "matrix"])
    return table.assign(ratio=table["bytes_format"] / table["base"]).drop(columns="base")
