"""The key `auto`: what it chooses, and that it stores the choice as the chosen format would."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.advice import auto, choosing, model
from spmvbench.devices import open_device
from spmvbench.formats import FREE_SHARE, Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.conversion import converting_for
from spmvbench.matrices.synthetic import generate

AUTO = formats.get("auto")


def chosen(fmt):
    return fmt.detail["chosen"].partition(":")[0]


@pytest.fixture
def always(monkeypatch):
    """The model is asked for any number of products."""
    monkeypatch.setattr(choosing, "WORTH_CHOOSING", 0.0)


@pytest.mark.parametrize(("spec", "label"), [("pde:20", "csr-lanes"), ("denserow:20000", "hola")])
def test_few_products_stay_in_csr(spec, label, monkeypatch):
    a, asked = Csr.of(generate(spec)), []
    monkeypatch.setattr(choosing, "predicted", lambda *args: asked.append(args) or pytest.fail("asked"))
    fmt = AUTO.from_csr(a)
    assert chosen(fmt) == label and fmt.nbytes == formats.get(label).from_csr(a).nbytes and not asked
    with pytest.raises(pytest.fail.Exception, match="asked"):
        AUTO.from_csr(a, spmvs=1_000_000)


@pytest.mark.parametrize(
    ("longest", "mean", "label"),
    [
        (64, 1.0, "csr-lanes"),
        (65, 8.0, "hola"),
        (65, 8.2, "csr-lanes"),
        (512, 500.0, "csr-lanes"),
        (513, 500.0, "hola"),
    ],
)
def test_long_rows_are_left_to_hola(longest, mean, label):
    assert choosing.plain_label(longest, mean) == label


def test_products_take_at_least_what_reading_takes():
    known = model.load(auto.MODEL)
    for size, seconds in known.about["bounds"]["read"]:
        assert choosing.seconds_at_least(known, size, 7) == pytest.approx(7 * seconds)


@pytest.mark.parametrize("spec", ["pde:20", "rmat:12:8", "fem:8:3"])
def test_it_chooses_as_the_advice_does(spec, always):
    a = Csr.of(generate(spec))
    for spmvs in (1, 100_000):
        fmt = AUTO.from_csr(a, spmvs=spmvs)
        advice = choosing.advise(a, model.load(auto.MODEL), spmvs)
        keys = {candidate.key for candidate in auto.CANDIDATES}
        ranked = [e.label for e in advice.ranked if e.label in keys]
        fallback = advice.fallback.label if advice.out_of_range else ""
        expected = fallback if fallback in keys else ranked[0]
        assert chosen(fmt) == expected
        same = formats.get(expected).from_csr(a)
        assert fmt.nbytes == same.nbytes == AUTO.estimate(a, spmvs=spmvs)
        assert [step.kernel for step in fmt.launches(*testing.vectors(AUTO, a))] == [
            step.kernel for step in same.launches(*testing.vectors(AUTO, a))
        ]


@pytest.mark.parametrize("spec", ["poisson2d:32", "dense:80:80", "rmat:11:8"])
def test_it_is_never_predicted_slower_than_cusparse(spec, always):
    a = Csr.of(generate(spec))
    found = {}
    for spmvs in (1, 1_000_000):
        advice = choosing.advise(a, model.load(auto.MODEL), spmvs)
        found[spmvs] = chosen(AUTO.from_csr(a, spmvs=spmvs))
        (total,) = (e.total for e in advice.ranked if e.label == found[spmvs])
        assert total <= advice.vendor.total
    assert not advice.out_of_range or found[1] != "irregular" == found[1_000_000]


def test_it_tells_the_choice_of_its_choice(monkeypatch):
    irregular = formats.get("irregular")
    monkeypatch.setattr(auto, "CANDIDATES", (irregular,))
    a = Csr.of(generate("denserow:20000"))
    inner = irregular.from_csr(a).detail["chosen"]
    assert AUTO.from_csr(a, spmvs=1_000_000).detail["chosen"] == f"irregular: {inner}"


@pytest.mark.parametrize(("spec", "computed"), [("rmat:11:8", set()), ("pde:12", {"hdi"}), ("fem:6:3", {"bsr", "hdi"})])
def test_footprints_that_decide_nothing_are_not_computed(spec, computed, monkeypatch, always):
    asked = set()
    for key in ("hdi", "bsr"):
        cls = formats.get(key)

        def estimate(a, _of=cls.estimate, _key=key, **params):
            asked.add(_key)
            return _of(a, **params)

        monkeypatch.setattr(cls, "estimate", estimate)
    AUTO.from_csr(Csr.of(generate(spec)))
    assert asked == computed


def test_the_number_of_products_decides(always):
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
    free = AUTO.from_csr(a, spmvs=1_000_000)
    monkeypatch.setattr(Csr, "free_bytes", FREE_SHARE * (free.nbytes - 1))
    tight = AUTO.converted(a, spmvs=1_000_000)
    assert chosen(tight) != chosen(free)
    assert tight.nbytes < free.nbytes or chosen(tight) == "csr-lanes"


def test_a_candidate_that_refuses_is_passed_over(monkeypatch, always):
    a = Csr.of(generate("pde:20"))
    first, second, *_ = AUTO.choices(a, 1000)

    def refuse(a, **params):
        raise Skip("for a reason that its estimate did not know")

    monkeypatch.setattr(first, "convert", refuse)
    assert chosen(AUTO.converted(a)) == second.key


@pytest.mark.gpu
@pytest.mark.parametrize("spec", ["pde:16", "uniform:10000:8"])
def test_it_chooses_alike_on_a_gpu(spec, always):
    a = Csr.of(generate(spec))
    device = open_device("cuda:0")
    assert (a.nnz > auto.ON_HOST) == (spec == "uniform:10000:8")
    with converting_for(device.limits):
        expected = chosen(AUTO.converted(a))
    assert chosen(AUTO.converted(a.on(device.xp))) == expected
