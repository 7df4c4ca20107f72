"""Y = A X of several vectors by the kernels for one: over hard matrices, and faults that the checks must find."""

import re
from contextlib import suppress
from dataclasses import astuple

import numpy as np
import pytest
import scipy.sparse

from spmvbench import devices, formats, testing
from spmvbench.devices import DeviceUnavailable, cuda
from spmvbench.errors import UsageError
from spmvbench.formats import Call, Launch, Skip, kernel_path, multivector
from spmvbench.formats.arrays import Csr
from spmvbench.formats.coo import coo
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure import operations, verify

HARD = testing.hard_matrices()
NAMES = ("no entries", "1xN", "empty rows at both ends", "one full row", "power law", "3x3 blocks", "stored zeros")
PLAIN = [cls.key for cls in map(formats.get, formats.keys()) if cls.op == "spmv" and "emulated" in cls.devices]
# Rows added up by a thread, lanes, shuffles, carries, in shared memory, by atomics, in several parts; X in windows.
FEW = ("csr-vector", "coo-flat", "csr5", "merge-csr", "ell", "sell", "dia", "bsr", "hyb", "jad", "sell-window")


@pytest.fixture(scope="module")
def device():
    return devices.open_device("emulated")


@pytest.mark.parametrize(
    ("key", "op", "dtypes"),
    [(key, "spmm@8", "df") for key in FEW]
    + [(key, "spmm-t@5", "d") for key in ("csr-vector", "dia", "sell", "coo-flat", "hyb", "bsr")]
    + [("acsr[kernel=paper,bin_max=6]", "spmm@4", "d")]  # of whose kernels one has no types
    + [("csr-vector", op, dtype) for op, dtype in (("spmm@2", "f"), ("spmm-column@3", "d"), ("spmm@19", "f"))],
)
def test_products_of_several_vectors_are_right(key, op, dtypes, device):
    for name in NAMES:
        for dtype in dtypes:
            assert testing.check_product(key, HARD[name].astype(dtype), device, ops=[op]) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("key", PLAIN)
def test_every_format_multiplies_several_vectors_or_says_why_not(key, device):
    """Products are right, and a GPU has the shared memory and registers for the kernels."""

    reason = ""
    for name in NAMES:
        try:
            testing.check_product(key, HARD[name], device, ops=["spmm@8"])
            a = testing.suited(formats.get(key), HARD[name])
            steps = testing.convert(key, a).multiplied(*operations.get("spmm@8").vectors(a), 8, "row")
        except Skip as skip:
            reason = skip.reason
            continue
        for step in steps:
            with suppress(DeviceUnavailable):
                cuda.compiled(kernel_path(step.source), step.kernel, "sm_90", None)
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("key", ["csr-vector", "sell", "block-sell", "coo-flat", "sell-window"])
def test_threads_beside_each_other_do_not_race(key):
    checking = devices.open_device("emulated-check")
    for op in ("spmm@8",) if key == "sell-window" else ("spmm@3", "spmm@8"):
        assert testing.check_product(key, HARD["uniform 8"], checking, ops=[op]) <= 1


@pytest.mark.parametrize(("run", "k"), [(64, 8), (32, 8), (16, 8), (8, 8), (8, 2)])
def test_entries_of_a_thread_go_by_the_matrix(run, k, device, monkeypatch):
    a = Csr.of(HARD["power law"])
    monkeypatch.setattr(coo, "BUSY", k // 2 * a.nnz // run)
    steps = testing.convert("coo-flat", a).multiplied(*operations.get(f"spmm@{k}").vectors(a), k, "row")
    assert f"int, {run}," in steps[-1].kernel
    assert testing.check_product("coo-flat", HARD["power law"], device, ops=[f"spmm@{k}"]) <= 1


def test_nothing_is_packed_for_a_matrix_without_entries(device):
    a = testing.suited(formats.get("coo-flat"), HARD["no entries"])
    steps = testing.convert("coo-flat", a).multiplied(*operations.get("spmm-column@8").vectors(a), 8, "column")
    assert [step.kernel for step in steps] == ["zero_fill<double>"]


def test_narrower_values_multiply_several_vectors_too(device):
    for dtype in ("f32/f64", "bf16/f32"):
        assert testing.check_product("csr-vector", HARD["power law"], device, dtype=dtype, ops=["spmm@4"]) <= 1


FAULTS = {
    "lost": lambda y: y[:, -1].fill(0),
    "swapped": lambda y: y.__setitem__((slice(None), [0, 1]), y[:, [1, 0]]),
    "repeated": lambda y: y.__setitem__((slice(None), 5), y[:, 4]),  # what comes of one tile of vectors twice
}


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_single_vectors_are_found(fault, layout, device, monkeypatch):
    whole = CsrArrays.multiplied

    def multiplied(self, x, y, k, layout):
        of_rows = y.reshape(-1, k) if layout == "row" else y.reshape(k, -1).T
        return [*whole(self, x, y, k, layout), Call("fault", lambda stream: FAULTS[fault](of_rows), (y,))]

    op = "spmm@7" if layout == "row" else "spmm-column@7"
    testing.check_product("csr-scalar", HARD["uniform 8"], device, ops=[op])
    monkeypatch.setattr(CsrArrays, "multiplied", multiplied)
    with pytest.raises(AssertionError, match=r"y\[\d+\] is"):
        testing.check_product("csr-scalar", HARD["uniform 8"], device, ops=[op])


@pytest.mark.parametrize("op", ["spmm@6", "spmm-column@6"])
def test_references_are_those_of_one_vector_each(op, device):
    """Also for a matrix whose small entries only the sparse references detect."""
    a = HARD["power law"].copy()
    a.data[::5] *= 1e-15
    csr = Csr.of(a)
    operation = operations.get(op)
    found = operation.checks(csr, csr, device, 0, 1)
    shape = (lambda v: v.reshape(-1, 6)) if operation.layout == "row" else (lambda v: v.reshape(6, -1).T)
    for reference in found.dense:
        y = shape(reference.y)
        np.testing.assert_allclose(y, a @ shape(reference.x), rtol=1e-12, atol=1e-14)
        assert len({tuple(column) for column in y.T}) == 6
    one = verify.references(csr, 0, 1)[0]
    assert np.array_equal(shape(found.dense[0].x)[:, 0], one.x)
    assert np.array_equal(shape(found.dense[0].bound)[:, 0], one.bound)
    assert found.sparse and found.work == 12 * csr.nnz
    whole = [shape(r.whole_x(6 * csr.cols)) for r in found.sparse[:7]]
    assert [int(np.flatnonzero(x.any(axis=0))[0]) for x in whole] == [0, 1, 2, 3, 4, 5, 0][: len(whole)]


def test_formats_that_cannot_say_why(device):
    with pytest.raises(Skip, match="takes values and vectors of one type"):
        testing.check_product("mbsr", HARD["uniform 8"], device, ops=["spmm@8"])


@pytest.mark.parametrize(("blocks", "shape"), [(100, (2, 4, 1, True)), (2048, (4, 2, 1, False))])
def test_threads_take_less_of_a_row_where_they_are_few(blocks, shape):
    launch = Launch("csr/csr.cu", "csr_vector<double>", blocks, 128, (), row_lanes=4)
    assert astuple(multivector.Shape.of(launch, 8, 8)) == shape


@pytest.mark.parametrize(("vectors", "launched"), [(1, (2 * 4, (512,), 16)), (4, (2 * 2, (2, 256), 32))])
def test_tiles_are_as_wide_as_windows_have_room_for(vectors, launched):
    a = Csr.of(scipy.sparse.random(64, 12_000, density=0.2, format="csr", random_state=np.random.default_rng(0)))
    fmt = formats.get("sell-window").from_csr(a, vectors=vectors)
    (step,) = fmt.multiplied(*operations.get("spmm@8").vectors(a), 8, "row")
    assert (step.grid, step.block, step.shared_bytes) == (*launched[:2], fmt.columns * launched[2])


@pytest.mark.parametrize("word", ["spmm@", "spmm@0", "spmm@65", "spmm-column@x"])
def test_wrong_numbers_of_vectors_are_refused(word):
    with pytest.raises(UsageError, match=f"names no number of vectors: write {re.escape(word.partition('@')[0])}@8"):
        operations.instances(word)
