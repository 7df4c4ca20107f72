"""The tables of docs/results/rivals.md, on rows small enough to do by hand."""

import pandas as pd
import pytest

from spmvbench.publishing import rivals
from spmvbench.reports import published
from tests.made import row, rows

PUBLIC = published.PublicPrograms(
    "NVIDIA H200",
    pd.DataFrame({"program": ["p", "q", "r"], "title": ["P", "Q", "R"], "label": ["ell", "csr5", "dia"]}),
    pd.DataFrame(
        [("p", "a", "f64", 100.0), ("q", "a", "f64", 150.0), ("r", "a", "f32", 1.0)],
        columns=["program", "matrix", "dtype", "gflops"],
    ),
)


def case(label, gflops, name="a", **columns):
    facts = {"device_name": PUBLIC.gpu, "gflops": gflops, "bound_gflops": 200.0, "compresses_values": False}
    return row(name, label, 1e-3, **(facts | columns))


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr(published, "public_programs", lambda: PUBLIC)
    found = [case("ell", 96), case("cb", 50), case("amb", 40), case("bit8x4", 900, name="b")]
    found += [case("mbsr", 0, status="skipped", reason="5 distinct values"), case("csr5", 900, device_name="other")]
    return rivals.markdown(rows(*found))


def test_a_format_below_its_program_is_listed_with_its_share_of_the_bound(written):
    assert "| P | ell | 96 / 100 = 0.96 |" in written
    assert "| f64 hot | P | ell | a | 0.960 | 0.480 |" in written


def test_recent_formats_of_the_programs_matrices_have_a_table(written):
    assert "| Matrix | First of these | cb | amb |" in written and "| a | cb | **50** | 40 |" in written


def test_what_has_no_rows_is_named(written):
    lines = written.splitlines()
    assert "In f64 hot, no format has rows beside: Q." in lines, "R has no figure in double precision"
    (missing,) = [line for line in lines if line.startswith("In f64 hot, no verified rows of: `sell-petsc`; ")]
    assert "`mbsr`" in missing and "`cb`" not in missing and "`bit8x4`;" in missing, "b is no matrix of the programs"
