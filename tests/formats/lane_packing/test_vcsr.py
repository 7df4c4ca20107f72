"""VCSR: in which windows rows are sorted, and which rows leave the slices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spmvbench import testing
from tests.formats.rows import with_lengths


def test_rows_are_sorted_in_windows_alone():
    part = testing.convert("vcsr[sigma=32]", with_lengths([*[1] * 32, 2])).parts["slices"]
    assert part.perm.tolist() == [*range(33)]


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=90))
def test_long_rows_leave_the_slices_and_nothing_is_padded(lengths):
    fmt = testing.convert("vcsr[longest=100]", with_lengths(lengths))
    short = sum(n for n in lengths if n <= 100)
    assert fmt.entries == {"slices": short, "long": sum(lengths) - short}
    if short:
        assert len(fmt.parts["slices"].values) == short
