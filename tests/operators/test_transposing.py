"""A^T of an operator: which of one copy and two is used, and why."""

import gc
import weakref

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats
from spmvbench.devices import OutOfDeviceMemory, open_device
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Skip
from spmvbench.formats.two_copies import TwoCopies
from spmvbench.operators import format_choice, operator, transposing
from spmvbench.operators.format_choice import Candidate
from spmvbench.operators.transposing import Transposed


@pytest.fixture(scope="module")
def device():
    return open_device("emulated")


@pytest.fixture(scope="module")
def a():
    rng = np.random.default_rng(1)
    return sparse.random_array((70, 50), density=0.1, format="csr", rng=rng)


def check(op, a):
    """The products of an operator with its matrix, with factors too."""
    x = np.random.default_rng(2).standard_normal(a.shape[1])
    np.testing.assert_allclose(op @ x, a @ x, rtol=1e-12, atol=1e-13)
    for alpha, beta in [(1, 1), (2, -0.5)]:
        y = np.ones(a.shape[0])
        op.matvec(x, out=y, alpha=alpha, beta=beta)
        np.testing.assert_allclose(y, alpha * (a @ x) + beta, rtol=1e-12, atol=1e-13)


@pytest.fixture
def times(monkeypatch):
    """Seconds of a product by format class, in place of the device's time; and what was timed."""
    known = {}
    monkeypatch.setattr(transposing, "TIMED", ("emulated",))

    def timed(fmt, device, most=np.inf):
        known.setdefault("timed", []).append(type(fmt).__name__)
        return known["one"] if isinstance(fmt, Transposed) else known["two"]

    monkeypatch.setattr(transposing, "timed", timed)
    return known


@pytest.fixture
def advised(monkeypatch):
    """Sets the advice to one format and its predicted seconds of a product and of the conversion."""

    def give(label, *predicted):
        def found(a, device, spmvs, max_bytes=None):
            yield Candidate(label, "as the test says", predicted or None)

        monkeypatch.setattr(format_choice, "advised", found)

    return give


@pytest.mark.parametrize("label", ["csr-scalar", "csc-atomic", "coo-flat", "sell-p", "hyb", "cds", "bsr"])
def test_on_the_emulated_device_arrays_are_shared(label, a, device):
    op = operator(a, format=label, device=device)
    flipped = op.T
    assert flipped.choice.shared and flipped.choice.label == label and flipped.choice.nbytes == 0
    assert "one copy, because times of the emulated device say nothing" in str(flipped.choice)
    mine = {id(array) for array in op.format.arrays().values()}
    assert {id(array) for array in flipped.format.arrays().values()} == mine
    assert flipped.shape == (50, 70) and flipped.T is op
    check(flipped, a.T)
    check(op, a)
    np.testing.assert_array_equal(flipped.diagonal(), a.diagonal())


@pytest.mark.parametrize("label", ["csr5", "irregular", "ehyb[order=native]"])
def test_a_format_without_a_kernel_gets_a_second_copy(label, device):
    a = spmvbench.load("poisson2d:6") + sparse.diags_array(np.arange(35.0), offsets=1)
    op = operator(a, format=label, device=device)
    choice = op.T.choice
    assert not choice.shared and choice.conversion_seconds > 0 and choice.nbytes == op.T.nbytes > 0
    assert choice.reason.startswith("a second copy, because no kernel multiplies with A^T from the arrays of ")
    check(op.T, a.T)


def test_the_faster_one_is_used(a, device, times, advised):
    advised("csr5", 1e-9, 0.0)
    times |= {"one": 3e-6, "two": 2e-6}
    op = operator(a, format="csr-scalar", device=device, spmvs=20_000)
    choice = op.T.choice
    assert choice.label == "csr5" and not choice.shared and times["timed"] == ["Transposed", "Csr5"]
    assert "a product is faster: 3 us a product from the arrays of A, 2 us in csr5" in choice.reason
    check(op.T, a.T)
    times["two"] = 4e-6
    op = operator(a, format="csr-scalar", device=device, spmvs=20_000)
    assert op.T.choice.shared and op.T.choice.label == "csr-scalar"
    assert op.T.choice.reason == "one copy, because 3 us a product from the arrays of A, 4 us in csr5"
    check(op.T, a.T)


def test_too_few_products_for_a_second_copy(a, device, times, advised):
    advised("csr5", 1e-6, 1e-1)
    times["one"] = 2e-6
    op = operator(a, format="csr-scalar", device=device, spmvs=14_999)
    assert (
        op.T.choice.reason
        == "one copy, because 14,999 products take 0.03 s, and no second copy saves the time of trying it"
    )
    op = operator(a, format="csr-scalar", device=device, spmvs=99_999)
    assert op.T.choice.shared and times["timed"] == 2 * ["Transposed"]
    assert op.T.choice.reason.startswith("one copy, because 99,999 products take 0.2 s, and csr5 with its conversion")
    times |= {"two": 1e-6}
    op = operator(a, format="csr-scalar", device=device, spmvs=100_001)
    assert not op.T.choice.shared


@pytest.mark.parametrize(
    ("seconds_of_two", "spmvs", "label"),
    [(1e-6, 20_000, "csr5+csr5"), (1e-6, 10_000, "csr-scalar"), (3e-6, 20_000, "csr-scalar"), (None, 1, "csr5+csr5")],
)
def test_a_pair_is_the_faster_of_one_copy_and_two(a, device, monkeypatch, seconds_of_two, spmvs, label):
    """Seconds of a product from two copies; None: on a device whose times say nothing. From one copy it is 1 us."""
    monkeypatch.setattr(
        format_choice, "advised", lambda *_: (Candidate(each, "told") for each in ("csr5", "csr-scalar"))
    )
    monkeypatch.setattr(transposing, "TIMED", ("emulated",) if seconds_of_two else ())

    def timed(fmt, device, most=np.inf):
        held = fmt.matrix if isinstance(fmt, Transposed) else fmt
        return seconds_of_two * 0.9 if isinstance(held, TwoCopies) else 1e-6

    monkeypatch.setattr(transposing, "timed", timed)
    for updatable in (False, True):
        op = operator(a, spmvs, device=device, pair=True, updatable=updatable)
        assert op.choice.label == label
        check(op, a)
        assert op.T.choice.shared or updatable
        check(op.T, a.T)
    op.update(3 * a.data)
    check(op, 3 * a)
    check(op.T, 3 * a.T)


@pytest.mark.parametrize(("spmvs", "label"), [(60_000, "csr5-dict+csr-lanes"), (20_000, "csr-scalar+csr-scalar")])
def test_each_way_of_a_pair_is_the_fastest_of_those_that_are_tried(a, device, monkeypatch, spmvs, label):
    monkeypatch.setattr(format_choice, "advised", lambda *_: iter([Candidate("csr-scalar", "told")]))
    monkeypatch.setattr(transposing, "TIMED", ("emulated",))
    monkeypatch.setattr(transposing, "is_paired", lambda *_: False)
    microseconds = {"csr-scalar": (1, 0.6), "csr5-dict": (0.8, 0.7), "csr-lanes": (0.9, 0.5), "sell-pack": (0.1, 0.1)}
    sell_pack = formats.get("sell-pack")
    monkeypatch.setattr(sell_pack, "estimate", classmethod(lambda cls, a, **params: 2 * a.nbytes + 1))
    monkeypatch.setattr(
        transposing, "timed", lambda fmt, device, most=np.inf: 1e-6 * microseconds[fmt.key][fmt.shape[0] == a.shape[1]]
    )
    op = operator(a, spmvs, device=device, pair=True)
    assert op.choice.label == label
    check(op, a)
    check(op.T, a.T)


def test_a_pair_is_one_copy_where_two_do_not_fit(a, device, monkeypatch):
    monkeypatch.setattr(format_choice, "advised", lambda *_: iter([Candidate("csr-scalar", "told")]))
    monkeypatch.setattr(transposing, "TIMED", ("emulated",))
    monkeypatch.setattr(transposing, "timed", lambda *_: 1.0)
    most = operator(a, format="csr-scalar", device=device).nbytes + 100
    op = operator(a, device=device, pair=True, max_bytes=most)
    assert op.choice.label == "csr-scalar"
    check(op.T, a.T)


def test_a_pair_of_formats_that_repeat_their_bits(a, device):
    op = operator(a, device=device, pair=True, deterministic=True)
    assert "+" in op.choice.label
    check(op.T, a.T)
    with pytest.raises(UsageError, match=r"coo-atomic\+csr-scalar is not known to give the same bits"):
        operator(a, format="coo-atomic+csr-scalar", device=device, deterministic=True)


def test_the_memory_limit(a, device, times):
    times |= {"one": 1.0, "two": 1e-9}
    needed = operator(a, format="csr-scalar", device=device).nbytes
    op = operator(a, format="csr-scalar", device=device, max_bytes=needed + 100)
    assert op.T.choice.shared and "one copy, because there is no second: no format " in op.T.choice.reason
    check(op.T, a.T)
    assert not operator(a, format="csr-scalar", device=device, max_bytes=10 * needed).T.choice.shared
    with pytest.raises(Skip, match="over the limit of 100 B"):
        operator(a, format="csr-scalar", device=device, max_bytes=100)
    op = operator(a, format="csr5", device=device, max_bytes=5500)
    with pytest.raises(SpmvbenchError, match="no format"):
        op.T  # noqa: B018 - neither one copy nor two


def test_a_device_without_memory_for_a_second_copy(a, device, times, monkeypatch):
    times["one"] = 1.0
    op = operator(a, format="csr-scalar", device=device)

    def full(fmt):
        raise OutOfDeviceMemory("out of memory")

    monkeypatch.setattr(transposing, "transposed_csr", full)
    assert op.T.choice.reason == "one copy, because there is no second: out of memory"


def test_timed_on_a_device(a, device):
    op = operator(a, format="csr-scalar", device=device)
    assert 0 < transposing.timed(Transposed.of(op.format), device) < np.inf


def test_a_solver_on_shared_arrays(device):
    graph = abs(spmvbench.load("rmat:6:5"))
    x, info, _ = spmvbench.solve.pagerank(operator(graph, format="csr-scalar", device=device).T, tol=1e-12)
    expected, _, _ = spmvbench.solve.pagerank(operator(graph.T.tocsr(), format="csr-scalar", device=device), tol=1e-12)
    assert info == 0
    np.testing.assert_allclose(x, expected, rtol=1e-10)


def test_shared_arrays_are_given_back(a, device):
    op = operator(a, format="csr-scalar", device=device)
    held = weakref.ref(op.format)
    op.T  # noqa: B018 - made
    op.free()
    gc.collect()
    assert held() is None
