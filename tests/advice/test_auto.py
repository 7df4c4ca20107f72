"""The key `auto`: what it chooses, and that it stores the choice as the chosen format would."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.advice import auto, quick, training
from spmvbench.devices import open_device
from spmvbench.formats import FREE_SHARE, Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.conversion import EMULATED, converting_for
from spmvbench.matrices.features import features
from spmvbench.matrices.synthetic import generate
from spmvbench.publishing import auto as publishing
from tests.advice.test_advice import measured

AUTO = formats.get("auto")
MATRICES = testing.hard_matrices() | {spec: generate(spec) for spec in ("pde:12", "fem:6:3", "rmat:12:8")}


def chosen(fmt):
    return fmt.detail["chosen"].partition(":")[0]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_kernel_finds_the_numbers_that_arrays_give(dtype):
    device = open_device("emulated")
    for name, matrix in MATRICES.items():
        a = Csr.of(matrix)
        if a.nnz:
            a = dataclasses.replace(a, row_ptr=a.row_ptr.astype(dtype))
            expected = quick.Numbers.of(a.fresh())
            with converting_for(EMULATED, run=lambda launch: device.compile([launch]).run()):
                assert quick.Numbers.of(a) == expected, name
            assert a.row_len_max == int(a.row_lengths.max())


@pytest.mark.parametrize("spec", ["pde:12", "fem:6:3", "rmat:12:8", "poisson2d:64", "dense:80:80", "denserow:20000"])
def test_the_numbers_estimate_the_columns_of_a_row(spec):
    a = Csr.of(generate(spec))
    found, exact = quick.Numbers.of(a), quick.Numbers.of_row(features(a))
    assert found[:7] == pytest.approx(exact[:7])
    assert found.contiguous_run_mean == pytest.approx(exact.contiguous_run_mean, rel=0.5)
    assert found[8:] == pytest.approx(exact[8:], abs=0.15)


@pytest.mark.parametrize(("spmvs", "looks"), [(1, False), (10_000, True)])
def test_few_products_are_not_worth_a_look(spmvs, looks, monkeypatch):
    a, looked = Csr.of(generate("uniform:12500:8")), []
    monkeypatch.setattr(quick, "counts", lambda *args, _of=quick.counts: looked.append(1) or _of(*args))
    fmt = AUTO.from_csr(a, spmvs=spmvs)
    assert looked == [1] * looks, "once, for the footprint and the conversion together"
    numbers, forest = quick.Numbers.of(a).features(spmvs), quick.chooser()
    found, unseen = forest.by_sizes(numbers)
    assert found == looks and chosen(fmt) == (next(forest.ranked(numbers)) if looks else unseen[0])
    assert sorted(unseen) == sorted(forest.labels)


def test_the_forest_ranks_as_its_leaves_say():
    leaves = np.array([[0, 0, 0], [30, 60, 0], [90, 0, 0], [0, 0, 0], [60, 30, 20], [10, 20, 20]])
    forest = quick.Chooser(
        ("here", "there"),
        np.array([1, -1, -1, 0, -1, -1]),
        np.array([0.5, 0, 0, 9.5, 0, 0]),
        *(np.array([k, 0, 0, k + 3, 0, 0]) for k in (1, 2)),
        leaves,
        np.array([0, 3]),
        {},
    )
    assert forest.by_sizes([9.0]) == (True, ["there", "here"]) and forest.by_sizes([9.6]) == (False, ["here", "there"])
    assert list(forest.ranked([9.0, 0.5])) == ["here", "there"] and list(forest.ranked([0.0, 0.6])) == ["there", "here"]
    other = dataclasses.replace(forest, slowdown=leaves[::-1])
    assert len({forest.digest, dataclasses.replace(forest, about={"runs": 1}).digest, other.digest}) == 2


def test_without_the_number_of_products_the_mean_over_all_decides(monkeypatch):
    for name, value in {"MIXED": 150, "LONGER": 100, "ALIKE": 20, "TEACHING": (10, 10, 3)}.items():
        monkeypatch.setattr(publishing, name, value)
    # Times over the bound, and seconds of the conversion: each is the best for some number of products.
    times = {"csr-lanes": (100, 100, 1e-6), "csr5": (1, 1, 1e-2), "csr-scalar": (0.6, 0.6, 3e-2)}
    slow = {"csr-vector": (200, 200, 1e-1), "cusparse-csr-alg1": (200, 200, 1e-1)}
    known = training.table(measured(times=times | slow))
    found = publishing.trained(known, 1e-9, 1e-9)
    best = {1: "csr-lanes", 10: "csr-lanes", 1_000: "csr5", 1_000_000: "csr-scalar", 0: "csr5"}
    for row in known.columns.to_dict("records"):
        features = {spmvs: quick.Numbers.of_row(row).features(spmvs) for spmvs in best}
        assert {spmvs: next(found.ranked(of)) for spmvs, of in features.items()} == best
        assert {spmvs: found.by_sizes(of)[1][0] for spmvs, of in features.items()} == best


def test_no_candidate_needs_a_library_or_times_products():
    candidates = [quick.parsed(label)[0] for label in quick.chooser().labels]
    assert all("emulated" in cls.devices for cls in candidates) and len(candidates) == len(set(quick.chooser().labels))
    tuned = {formats.get(key) for key in ("csr-am", "csr-gg", "ell-warp-k2", "hec", "sell")}
    assert not tuned & set(candidates) and formats.get("csr-lanes") in candidates


@pytest.mark.parametrize("spec", ["pde:20", "rmat:12:8", "denserow:20000"])
def test_it_stores_what_its_choice_does(spec):
    a = Csr.of(generate(spec))
    for spmvs in (1, 100_000):
        fmt = AUTO.from_csr(a, spmvs=spmvs)
        cls, params = quick.parsed(next(quick.ranked(a, spmvs)))
        same = cls.from_csr(a, **params)
        assert type(fmt.chosen) is cls and fmt.nbytes == same.nbytes == AUTO.estimate(a, spmvs=spmvs)
        x, y = testing.vectors(AUTO, a)
        assert [step.kernel for step in fmt.launches(x, y)] == [step.kernel for step in same.launches(x, y)]


def ranked(monkeypatch, *labels):
    monkeypatch.setattr(quick, "ranked", lambda a, spmvs: list(labels))


def test_it_tells_the_choice_of_its_choice(monkeypatch):
    ranked(monkeypatch, "irregular")
    a = Csr.of(generate("denserow:20000"))
    inner = formats.get("irregular").from_csr(a).detail["chosen"]
    assert AUTO.from_csr(a).detail["chosen"] == f"irregular: {inner}"


def test_the_number_of_products_decides():
    a = Csr.of(generate("pde:20"))
    assert len({chosen(AUTO.from_csr(a, spmvs=spmvs)) for spmvs in (1, 1_000_000)}) == 2


def test_what_cannot_be_described_is_csr():
    nothing = Csr.of(sparse.csr_array((5, 4)))
    last = 2**31 - 2
    wide = Csr((1, last + 1), np.array([0, 2], np.int32), np.array([0, last], np.int32), np.ones(2))
    for a in (nothing, wide):
        assert chosen(AUTO.from_csr(a)) == "csr-lanes"


def test_no_choice_exceeds_the_memory(monkeypatch):
    a = Csr.of(generate("pde:20"))
    ranked(monkeypatch, "hyb", "sell-p", "csr-lanes")
    sizes = [cls.estimate(a, **params) for cls, params in AUTO.choices(a, 1000)]
    monkeypatch.setattr(auto, "SMALL", 0)
    monkeypatch.setattr(Csr, "free_bytes", FREE_SHARE * (max(sizes) - 1))
    fits = [cls.estimate(a, **params) for cls, params in AUTO.choices(a, 1000)]
    assert fits == [size for size in sizes if size < max(sizes)]


@pytest.mark.parametrize("error", [Skip("for a reason that its estimate did not know"), MemoryError()])
def test_a_candidate_that_refuses_is_passed_over(monkeypatch, error):
    a = Csr.of(generate("pde:20"))
    (first, _), (second, params), *_ = AUTO.choices(a, 1000)
    size = second.estimate(a, **params)

    def refuse(a, **params):
        raise error

    monkeypatch.setattr(first, "convert", refuse)
    monkeypatch.setattr(first, "estimate", refuse)  # of so small a matrix nothing is estimated
    assert chosen(AUTO.converted(a, spmvs=1000)) == second.key
    if isinstance(error, Skip):  # or the bench would skip a case that auto can run
        assert AUTO.estimate(a, spmvs=1000) == size


@pytest.mark.gpu
@pytest.mark.parametrize("spec", ["pde:16", "uniform:10000:8"])
def test_it_chooses_alike_on_a_gpu(spec):
    a = Csr.of(generate(spec))
    device = open_device("cuda:0")
    with converting_for(device.limits):
        expected = chosen(AUTO.converted(a, spmvs=1000))
    assert chosen(AUTO.converted(a.on(device.xp), spmvs=1000)) == expected
