"""Best times of small matrices, on tables small enough to do by hand."""

import pytest

from spmvbench.analysis.small_matrices import COLUMNS, small_matrices
from spmvbench.reports import figures
from tests.made import row, rows


def case(name, label, seconds, launches, longest, **columns):
    about = {"nnz": 1000, "launches": launches, "row_len_max": longest, "gbps": 1e-9 / seconds}
    return row(name, label, seconds, **(about | columns))


@pytest.fixture
def some():
    return rows(
        case("even", "csr", 2e-6, 1, 64),
        case("even", "csr5", 8e-6, 2, 64),
        case("even", "dia", 1e-9, 1, 64, status="wrong"),
        case("long", "csr", 9e-6, 1, 300),
        case("long", "csr5", 4e-6, 2, 300),
        case("longer", "csr", 16e-6, 1, 70_000),
        case("large", "csr", 1e-6, 1, 10, nnz=1_000_000),
    )


def test_classes_go_by_the_longest_row(some):
    table = small_matrices(some)
    assert list(table.columns) == COLUMNS
    even, long, every = table.to_dict("records")
    assert [line["longest"] for line in (even, long, every)] == ["up to 64", "more than 256", "all"]
    assert [line["matrices"] for line in (even, long, every)] == [1, 2, 3]
    assert (even["setting"], even["mode"], even["won"]) == ("f64 hot", "hot", 0)
    assert even["best"] == even["one"] == pytest.approx(2e-6) and even["several"] == pytest.approx(8e-6)
    assert long["best"] == pytest.approx(8e-6), "of 4 and 16"
    assert (long["one"], long["several"]) == (pytest.approx(9e-6), pytest.approx(4e-6)), "on the matrix with both"
    assert long["won"] == 0.5
    assert every["best"] == pytest.approx((2 * 4 * 16) ** (1 / 3) * 1e-6)


def test_the_table_counts_launch_overheads(some):
    (figure,) = figures.choose(["small-matrices"])
    environment = {"sessions": [{"launch_overhead": {"hot": 5e-7, "cold": 3e-6}}, {}]}
    (shown,) = figure.show(small_matrices(some), figures.Options(None, {}, environment=environment))
    at = [column.heading for column in shown.columns].index("Launch overheads")
    assert [line[at].text for line in shown.rows][:2] == ["4.00", "16.0"]
