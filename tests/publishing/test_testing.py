"""The table of what tests take."""

from spmvbench.publishing import testing


def test_parts_are_ordered_and_added_up():
    table = testing.markdown({"installation": 30.4}, {"tests/a": [1.2, 2.0], "tests/b": [0.4, 9.6]})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    assert rows[0] == ["Part", "make test", "make test-all"]
    assert rows[2:] == [
        ["installation", "30", "30"],
        ["tests/b", "0", "10"],
        ["tests/a", "1", "2"],
        ["together", "32", "42"],
    ]
