"""The table of the authors' kernels beside the defaults, on times small enough to do by hand."""

import pytest

from spmvbench.errors import UsageError
from spmvbench.publishing.run_tables import ratios
from tests.made import row, rows


def test_times_of_both_kernels_are_compared_on_the_matrices_that_have_both():
    cases = [row("a", "csr5", 1.0), row("a", "csr5[kernel=paper]", 2.0), row("a", "ell", 9.0)]
    cases += [row("b", "csr5", 1.0), row("b", "csr5[kernel=paper]", 8.0), row("c", "csr5[kernel=paper]", 1.0)]
    cases += [row("c", "csr5", 1.0, status="wrong"), row("a", "tile[kernel=paper]", 1.0)]
    (found,) = ratios(rows(*cases)).to_dict("records")
    assert (found["label"], found["setting"], found["matrices"]) == ("csr5", "f64 hot", 2)
    assert (found["mean"], found["least"], found["most"]) == pytest.approx((4, 2, 8))


def test_runs_without_both_kernels_are_refused():
    with pytest.raises(UsageError, match="both kernels"):
        ratios(rows(row("a", "csr5", 1.0), row("a", "tile[kernel=paper]", 1.0)))
