"""Gain by narrower values, on tables small enough to do by hand."""

import numpy as np
import pytest

from spmvbench.analysis.values import COLUMNS, gains, gains_by_format
from tests.made import row, rows


@pytest.fixture
def few():
    def narrow(name, label, seconds, **columns):
        known = {"dtype": "f32/f64", "bytes_format": 800, "rounding_error": 1e-8}
        return row(name, label, seconds, **(known | columns))

    wide = {"bytes_format": 1200, "rounding_error": 0.0}
    return rows(
        row("m", "csr", 3e-5, **wide), narrow("m", "csr", 2e-5), row("n", "csr", 4e-5, **wide),
        narrow("n", "csr", 4e-5, rounding_error=3e-8), row("m", "ell", 1e-5, **wide),
        narrow("m", "ell", 1e-5, status="wrong"), narrow("m", "ell", 8e-6, dtype="f16/f64", rounding_error=1e-4),
        narrow("o", "csr", 1e-5), row("m", "csr", 9e-6, dtype="f32", **wide),
        narrow("m", "csr", 6e-6, dtype="bf16/f32", bytes_format=600, rounding_error=2e-3),
    )  # fmt: skip


def test_settings_of_mixed_types_name_both(few):
    assert list(few["setting"].cat.categories) == ["f64 hot", "f32/f64 hot", "f16/f64 hot", "f32 hot", "bf16/f32 hot"]


def test_gains_are_over_the_same_vectors(few):
    table = gains(few)
    assert list(table.columns) == COLUMNS
    found = table.set_index(["setting", "values", "label", "matrix"])["speedup"].to_dict()
    assert found == pytest.approx(
        {
            ("f64 hot", "f32", "csr", "G/m"): 1.5,
            ("f64 hot", "f32", "csr", "G/n"): 1.0,
            ("f64 hot", "f16", "ell", "G/m"): 1.25,
            ("f32 hot", "bf16", "csr", "G/m"): 1.5,
        }
    )
    assert set(table["bytes"].round(3)) == {0.667, 0.5}


def test_formats_by_gain(few):
    table = gains_by_format(gains(few))
    csr = table[(table["label"] == "csr") & (table["setting"] == "f64 hot")].iloc[0]
    assert (csr["mean"], csr["least"], csr["most"]) == pytest.approx((np.sqrt(1.5), 1.0, 1.5))
    assert (csr["rounding_error"], csr["matrices"]) == (3e-8, 2)
    assert table["setting"].tolist()[0] == "f32 hot"
