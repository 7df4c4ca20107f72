"""Rows of every kind in the formats that give a row several lanes, or a lane several rows."""

import pytest

from spmvbench import testing
from tests.formats.rows import with_lengths

TILES = [0, 5, 0], [0, 0], [700, 0, *[1] * 40], [3, 500, *[1] * 95], [900]
STRIPS = [0, 0, 0], [900], [0] * 40 + [7], [*range(70)], [1000, *[1] * 31, 2]
SLICES = [0, 0], [1], [700, 0, *[1] * 40], [3, *range(70)], [0] * 33 + [9]
KINDS = {
    "aligned-coo": ([0, 0], [1], [700, 0, *[1] * 40], [128, 129], [3] * 33),
    "argcsr": ([0, 0], [1], [700, 0, *[1] * 40], [500], [3] * 33, [0] * 16 + [400] * 2),
    "rgcsr": ([0, 0], [1], [700, 0, *[1] * 40], [500], [0] * 160, [0] * 16 + [400] * 2),
    "ell-warp-k2": ([0, 5, 0], [0, 0], [70, 0, *[1] * 40]),
    **dict.fromkeys(("biell", "bijad"), STRIPS),
    **dict.fromkeys(("adell", "adell-plus[side=1]", "brc", "brc[order=row]"), TILES),
    **dict.fromkeys(("vcsr[longest=3]", "vcsr[longest=300]", "vcsr[align=4]"), SLICES),
}


@pytest.mark.parametrize("spec", KINDS)
def test_rows_of_every_kind(spec, checking):
    for lengths in KINDS[spec]:
        testing.check_conversion(spec, with_lengths(lengths))
        testing.check_product(spec, with_lengths(lengths), checking)
