"""Preprocessing cost of a format in seconds and in SpMVs, its break-even against CSR, and footprints.

Filippone et al. 2017, section 5.4 and Table 10.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import emulated, one_per_matrix, verified


def setups(rows: pd.DataFrame) -> pd.DataFrame:
    """Preprocessing time, from canonical CSR to a format ready to multiply, of each verified case.

    Columns setting, matrix, label, dtype, nnz, t_median, t_spmv_host, path, setup (seconds). path host: converted on
    the host and copied to the device (on the emulated device nothing is copied). path device: converted on the device
    from CSR in its memory, and tuned there. Both include a vendor's preprocessing. Neither includes compilation:
    kernels are compiled once, not for each matrix. A path that was not measured has no row.
    """
    counted = verified(rows)
    columns = ["setting", "matrix", "label", "dtype", "nnz", "t_median", "t_spmv_host"]
    tables = [counted[columns].assign(path=path, setup=seconds) for path, seconds in _paths(counted).items()]
    return pd.concat(tables, ignore_index=True).dropna(subset="setup").reset_index(drop=True)


def ready(rows: pd.DataFrame) -> pd.Series:
    """Preprocessing time of each row in seconds: on the device if measured there, else on the host, else NaN."""
    paths = _paths(rows)
    return paths["device"].fillna(paths["host"])


def _paths(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Preprocessing time of each row in seconds, by path (`setups`)."""
    seconds = {
        "device": rows["t_convert_device"] + rows["t_tune"].fillna(0.0),
        "host": rows["t_convert_host"] + rows["t_transfer"].where(~emulated(rows), 0.0),
    }
    return {path: taken + rows["t_setup"].fillna(0.0) for path, taken in seconds.items()}


def break_even(setup: object, t: object, setup_csr: object, t_csr: object) -> np.ndarray:
    """Number of SpMVs after which a format breaks even with CSR: (setup - setup_csr) / (t_csr - t).

    Arguments in seconds, broadcast against each other. 0 if the format's SpMV is faster and its setup is not slower.
    inf if its SpMV is slower, even if a shorter setup gives it a lead at first. If both SpMVs take equal time: 0 if the
    setup is not longer, else inf. NaN if an argument is missing.
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
    """The rows of `setups` with three more columns, all in SpMVs.

    spmvs: setup over the time of one SpMV of the format; host_spmvs: over that of one on a host thread (NaN in rows
    older than that column); break_even: against the baseline (NaN if that is not verified on the matrix).
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
    """The setups of one path: those on the device if any was measured there, else those on the host."""
    return table[table["path"] == ("device" if (table["path"] == "device").any() else "host")]


def footprints(rows: pd.DataFrame) -> pd.DataFrame:
    """Bytes of each format on each matrix with a verified row.

    Columns matrix, label, dtype, nnz, bytes_format, bytes_per_nnz.
    """
    counted = one_per_matrix(rows)
    counted = counted[(counted["nnz"] > 0) & (counted["bytes_per_nnz"] > 0)]  # imported rows may not know them
    return counted[["matrix", "label", "dtype", "nnz", "bytes_format", "bytes_per_nnz"]].reset_index(drop=True)


def largest_footprints(rows: pd.DataFrame, baseline: str, most: int) -> pd.DataFrame:
    """The footprints on the `most` largest matrices, by nonzeros, that the baseline holds, for each type.

    Columns of `footprints` and ratio (bytes over the baseline's bytes); ordered by type, then by rising nonzeros.
    """
    table = footprints(rows).drop_duplicates(["matrix", "label", "dtype"])  # the same on every device
    base = table[table["label"] == baseline].sort_values(["dtype", "nnz", "matrix"], ascending=[False, True, True])
    base = base.groupby("dtype", sort=False).tail(most)[["dtype", "matrix", "bytes_format"]]
    table = base.rename(columns={"bytes_format": "base"}).merge(table, on=["dtype", "matrix"])
    return table.assign(ratio=table["bytes_format"] / table["base"]).drop(columns="base")
