"""Gain by order, on tables small enough to do by hand."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.cases import natural_products
from spmvbench.analysis.orders import COLUMNS, gains, gains_by_format, mean_gains
from tests.made import row, rows


@pytest.fixture
def two():
    def both(name, label, natural, ordered, **columns):
        known = {"t_convert_device": np.nan, "t_transfer": 0.0, "t_convert_host": 1e-3}
        yield row(name, label, natural, **known)
        yield row(name, label, ordered, **(known | {"order": "rcm", "t_order": 9e-3, "t_convert_host": 2e-3} | columns))

    return rows(
        *both("m", "csr", 4e-5, 2e-5), *both("n", "csr", 4e-5, 4e-5),
        *both("m", "ell", 1e-5, 2e-5), *both("n", "ell", 1e-5, 1e-5, status="wrong"),
        row("o", "csr", 1e-5),
    )  # fmt: skip


def test_gains_are_of_cases_verified_in_both_orders(two):
    table = gains(two)
    assert list(table.columns) == COLUMNS
    found = table.set_index(["label", "matrix"])
    assert sorted(found.index) == [("csr", "G/m"), ("csr", "G/n"), ("ell", "G/m")]
    assert set(found["order"]) == {"rcm"} and set(found["setting"]) == {"f64 hot"}
    assert found["speedup"].to_dict() == pytest.approx({("csr", "G/m"): 2, ("csr", "G/n"): 1, ("ell", "G/m"): 0.5})
    assert found.loc[("csr", "G/m"), "break_even"] == pytest.approx((2e-3 + 9e-3 - 1e-3) / 2e-5)
    assert np.isinf(found["break_even"]).sum() == 2


def test_formats_by_gain(two):
    table = gains_by_format(gains(two))
    assert table["label"].tolist() == ["csr", "ell"]
    csr = table.iloc[0]
    assert (csr["faster"], csr["matrices"], csr["break_even"]) == (0.5, 2, pytest.approx(500))
    assert csr["mean"] == pytest.approx(np.sqrt(2))
    assert mean_gains(gains(two)).to_dict() == {"rcm": pytest.approx({"csr": np.sqrt(2), "ell": 0.5})}


def test_figures_of_all_formats_show_the_natural_order_alone(two):
    assert len(natural_products(two)) == 5 and set(natural_products(two)["order"]) <= {"none", ""}
    old = two.drop(columns="order")
    assert len(natural_products(old)) == len(old)


def test_empty_tables_have_no_gains():
    assert gains(pd.DataFrame({"op": [], "status": []})).empty
