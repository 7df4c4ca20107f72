"""Values that are stored with fewer digits than x, y and the sums: rounding, deduced types, and every format."""

from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats, testing
from spmvbench.formats import Csr, Launch, Skip, single_steps
from spmvbench.formats.kernels import declaration
from spmvbench.formats.precision import PRECISIONS, Precision, rounding_error
from tests.formats.representatives import FEW, REPRESENTATIVES
from tests.formats.together import together

HARD = testing.hard_matrices()
MIXED = [name for name, found in PRECISIONS.items() if found.is_mixed]
NAMES = ("power law", "3x3 blocks", "empty rows at both ends")  # short, dense and missing rows, cut rows, padding
EMULATED = [
    key
    for key in formats.keys()  # noqa: SIM118 - a function of the module
    if formats.get(key).op == "spmv" and "emulated" in formats.get(key).devices
]
# Those that the operation was made for; more are found by their kernels.
CAN = (
    "csr-lanes", "csr-merge-tiles", "csr-adaptive-l", "csr5", "sell", "sell-local", "ell", "hyb", "bro-hyb", "coadell",
    "irregular", "column-sweep", "hub-cache", "dia", "cds", "ell-dia", "bsr", "block-sell", "coo-flat", "merge-csr",
)  # fmt: skip


def met(key, slow):
    """The matrices that a format meets, by precision.

    All hard ones in the narrowest values, of which most are loaded at once; in others those that tell kernels apart.
    Formats that share their kernels with another of these meet few: types of values are the kernels' matter.
    """
    if not slow:
        return dict.fromkeys(("f32/f64", "bf16/f32"), NAMES)
    return dict.fromkeys(MIXED, NAMES) | {"bf16/f32": tuple(HARD) if key in REPRESENTATIVES else FEW}


def launched(key, slow):
    """Source and expression of the kernels that a format launches in the tests below."""
    cls = formats.get(key)
    for name, matrices in met(key, slow).items():
        precision = PRECISIONS[name]
        for matrix in matrices:
            with suppress(Skip):
                a = precision.rounded(testing.suited(cls, HARD[matrix]))
                launches = testing.convert(key, precision.stored(a)).launches(*testing.vectors(cls, a))
                yield from ((one.source, one.kernel) for one in single_steps(precision.launches(launches)))


@pytest.fixture(scope="session")
def device(request):
    return together(request, __file__, launched, CAN, EMULATED)


def row(*values):
    return Csr.of(sparse.csr_array(np.array([values], np.float64)))


def test_precisions_have_values_no_wider_than_vectors():
    assert set(PRECISIONS) == {"f64", "f32/f64", "f16/f64", "bf16/f64", "f32", "f16/f32", "bf16/f32"}
    assert [PRECISIONS[name].dtype for name in ("f32/f64", "bf16/f32")] == [np.float64, np.float32]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("f32/f64", 1 + 2**-24 + 2**-30, 1 + 2**-23),
        ("f16/f32", 1 + 2**-11, 1.0),  # a tie goes to the even one
        ("f16/f32", 1 + 3 * 2**-11, 1 + 2**-9),
        ("f16/f64", 2**-25 + 2**-40, 2**-24),  # to the smallest subnormal
        ("bf16/f32", 1 + 2**-8, 1.0),
        ("bf16/f64", 1 + 3 * 2**-8, 1 + 2**-6),
        # By way of float32 this would be rounded twice, to 1.
        ("bf16/f64", 1 + 2**-8 + 2**-40, 1 + 2**-7),
        ("bf16/f64", -3 * 2.0**-134, -(2.0**-132)),
        ("bf16/f64", 255.5 * 2.0**119, 2.0**127),
    ],
)
def test_values_are_rounded_once_to_nearest(name, given, expected):
    rounded = PRECISIONS[name].rounded(row(given))
    assert rounded.values.dtype == PRECISIONS[name].dtype
    assert rounded.values.tolist() == [expected]


@pytest.mark.parametrize("name", [name for name in MIXED if "16" in name])
def test_stored_bits_are_those_of_the_type(name):
    precision, a = PRECISIONS[name], row(1.0, -2.5, 2.0**-15, 0.1)
    stored = precision.stored(precision.rounded(a))
    bits = stored.values.view(np.uint16).tolist()
    assert bits == ([0x3F80, 0xC020, 0x3800, 0x3DCD] if name.startswith("bf16") else [0x3C00, 0xC100, 0x0200, 0x2E66])
    assert stored.vector_dtype == precision.dtype and stored.fresh().vector_dtype == precision.dtype


@pytest.mark.parametrize(("name", "largest"), [("f16/f32", 65504.0), ("bf16/f64", 255 * 2.0**120)])
def test_what_exceeds_the_largest_number_is_refused(name, largest):
    assert PRECISIONS[name].rounded(row(largest)).values.tolist() == [largest]
    with pytest.raises(Skip, match=r"1 entries exceed .* the largest number of b?f16"):
        PRECISIONS[name].rounded(row(1.0, 1.01 * largest))


def test_rounding_error_is_the_worst_row_in_the_1_norm():
    a = Csr.of(sparse.csr_array(np.array([[1.0, 0.5], [1 + 2**-9, 3.0], [0, 0]])))
    rounded = PRECISIONS["bf16/f64"].rounded(a)
    assert rounding_error(a, rounded) == pytest.approx(2**-9 / (4 + 2**-9))
    assert rounding_error(a, a) == 0.0
    lost = PRECISIONS["f16/f64"].rounded(row(1e-9))  # below half of the smallest subnormal
    assert rounding_error(row(1e-9), lost) == 1.0


def test_a_kernel_is_declared_with_the_types_that_it_takes():
    found = declaration("csr/csr.cu", "csr_vector")
    assert [name for name, _ in found.template] == ["V", "I", "LANES", "ENTRIES", "ROWS", "S"]
    assert dict(found.template)["S"] == "V"
    assert found.types == ("int", "I", "I", "int", "S", "V", "V")
    assert declaration("csr/csr.cu", "no_such_kernel").parameters == ()
    assert declaration("dia/brcsd.cu", "brcsd_list").template[-1] == ("...", "")


def test_types_of_a_launch_follow_from_its_arrays():
    ints, narrow, wide = np.zeros(1, np.int32), np.zeros(1, np.float16), np.zeros(1, np.float64)
    args = (np.int32(1), np.int32(1), ints, ints, narrow, wide, wide)
    launch = Launch("csr/csr.cu", "csr_vector<f16, int, 4, 1, 1>", 1, 32, args)
    (typed,) = Precision("bf16", "f64").launches([launch])
    assert typed.kernel == "csr_vector<double, int, 4, 1, 1, bf16>"
    assert Precision("f64", "f64").launches([launch]) == [launch]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros(1, np.float32), "reflect takes values and vectors of one type"),
        (np.zeros(1), "packed with other data"),
    ],
)
def test_a_launch_whose_types_do_not_follow_is_refused(values, reason):
    launch = Launch("vector.cu", "reflect<double>", 1, 32, (values, np.float64(0), np.int64(1)))
    with pytest.raises(Skip, match=reason):
        Precision("f32", "f64").launches([launch])


def checked(key, name, device, matrices=NAMES):
    """How many matrices a format was right on; Skip with a reason for every other."""
    right, reasons = 0, []
    for matrix in matrices:
        try:
            testing.check_product(key, HARD[matrix].astype(np.float64), device, dtype=name)
            right += 1
        except Skip as skip:
            reasons.append(skip.reason)
    assert all(reasons) and right + len(reasons) == len(matrices)
    return right, reasons


@pytest.mark.parametrize("key", CAN)
@pytest.mark.parametrize("name", met("csr5", slow=False))
def test_formats_multiply_narrower_values(key, name, device):
    right, reasons = checked(key, name, device)
    assert right, reasons


@pytest.mark.slow
@pytest.mark.parametrize("key", EMULATED)
def test_every_format_is_right_or_refuses(key, device):
    found = [checked(key, name, device, matrices) for name, matrices in met(key, slow=True).items()]
    if not any(right for right, _ in found):  # it may take stencils alone
        right, reasons = checked(key, "bf16/f32", device, HARD)
        if not right:
            pytest.skip(reasons[0])


@pytest.mark.parametrize("name", ["f16/f64", "bf16/f32"])
def test_small_blocks_in_strips_take_narrower_values(name, device):
    """Few matrices have blocks that `bcoo-bcsr` stores as such."""
    a = spmvbench.load("fem:3:2")
    assert len(formats.get("bcoo-bcsr").from_csr(a).arrays()["blocks.values"])
    testing.check_product("bcoo-bcsr", a, device, dtype=name)


def test_formats_of_one_type_refuse_with_the_reason(device):
    unknown = "the types that crsd_generated takes are not known"
    for key, reason in (("mbsr", "one type"), ("cb", "packed with"), ("crsd[kernel=paper]", unknown)):
        right, reasons = checked(key, "f32/f64", device, NAMES[:1])
        assert not right and reason in reasons[0]
