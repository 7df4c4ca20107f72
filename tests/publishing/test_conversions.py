from spmvbench.publishing import conversions
from tests.made import row, rows


def test_bounds_are_multiples_of_the_time_of_the_bytes_and_misses_are_counted():
    made = [(1000, 1e-4), (2000, 2e-4), (10**7, 1e-3), (2 * 10**7, 0.9e-3)]  # entries, seconds
    table = rows(
        *(
            row(str(n), "csr5", 1e-5, nnz=n, rows=9, bytes_format=12 * n + 40, t_convert_device=t, t_tune=0.02)
            for n, t in made
        )
    )
    found = conversions.conversions(table, 1e12).sort_values("nnz")
    assert found["bounds"].round(2).tolist()[2:] == [4.17, 1.87]
    (line,) = conversions.lines(found, ["csr5"])
    assert line == ["`csr5`", "0.15", "-", "0.95", "2.8", "4.2", "20", "1 of 2 small, 1 of 2 large"]
