"""GFLOPS a watt."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.details import gflops_per_watt


def test_flops_over_joules_of_rows_that_have_both():
    rows = pd.DataFrame(
        {
            "matrix": ["a", "b", "c"], "label": "ell", "setting": "f64 hot", "status": ["ok", "ok", "wrong"],
            "work": 2_000_000, "energy": [0.004, np.nan, 0.004], "energy_low": 0.003, "energy_high": 0.005,
        }
    )  # fmt: skip
    table = gflops_per_watt(rows)
    assert list(table["matrix"]) == ["a"]
    assert table["gflops_per_watt"].item() == pytest.approx(0.5)  # 2e6 flops by 4 mJ
