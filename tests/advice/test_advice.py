"""Advice: training, the model that ships, and the output of the command."""

import dataclasses
import json
import sys

import numpy as np
import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.advice import choosing, features, model, training
from spmvbench.cli.report import rows_of as rows_of_run
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Skip, determinism
from spmvbench.formats.arrays import Csr
from spmvbench.formats.two_copies import transposed
from spmvbench.matrices.features import features as features_of
from spmvbench.matrices.synthetic import generate
from spmvbench.measure.bounds import Fetched, upper
from spmvbench.operators import format_choice
from spmvbench.publishing import advice as publishing
from spmvbench.rows.schema import blank_row
from spmvbench.runner import api
from tests.made import on_some_gpu

EVEN = (
    "pde:12",
    "pde:20",
    "poisson2d:60",
    "poisson2d:90",
    "band:2000:9:40",
    "band:4000:12:90",
    "uniform:2000:12",
    "xxz:12",
)
SKEW = ("rmat:10:8", "rmat:12:8", "powerlaw:3000:8", "powerlaw:6000:8", "denserow:5000", "denserow:3000")
BOUNDS = {
    "read": [[1e4, 1e-6], [1e6, 2e-6], [1e9, 3e-4]],
    "sectors": [[1e4, 1e-12], [1e9, 1e-11]],
    "lines": [[1e4, 2e-12], [1e9, 3e-11]],
}
# Times over the bound on even rows and on skewed ones, and the seconds that a conversion takes.
FORMATS = {
    "cusparse-csr-alg1": (2.0, 2.0, 1e-6),
    "csr-lanes": (1.6, 9.0, 1e-6),
    "csr5": (1.5, 1.2, 1e-5),
    "ell": (1.1, 1.1, 1e-3),
}


def measured(vectors=1, times=FORMATS):
    """Rows as a run would have them, if times were as above."""
    found = []
    for spec in EVEN + SKEW:
        a = Csr.of(generate(spec))
        fetched = Fetched.by(a, 132, vectors=vectors)
        known = features_of(a)
        for label, (even, skew, made) in times.items():
            cls = formats.get(label)
            row = blank_row() | known | {"group": "synthetic", "name": spec, "kind": spec.split(":")[0]}
            row |= {
                "run_id": "r",
                "sequence": len(found),
                "format": label,
                "label": label,
                "dtype": "f64",
                "op": model.operation(vectors),
            }
            row |= {"device": "cuda:0", "device_name": "A GPU", "mode": "hot", "status": "ok", "matrix_sha256": spec}
            size = cls.estimate(a, **cls.resolve({})) + 8 * vectors * (a.rows + a.cols)
            moved, work = {"model_bytes": size, "x_bytes": 8 * vectors * a.cols}, 2 * vectors * a.nnz
            bound = upper(BOUNDS, nnz=a.nnz, fetched=fetched, flops=work, **moved)
            row |= {"bound_gflops": bound.gflops, "bound_by": bound.by}
            took = 1e-9 * work / row["bound_gflops"] * (even if spec in EVEN else skew)
            row |= {"model_bytes": size, "t_median": took, "t_convert_device": made, "t_setup": 0.0}
            found.append(row | {"gflops": 1e-9 * work / took})
    return pd.DataFrame(found)


@pytest.fixture(scope="module")
def rows():
    return measured()


ABOUT = {"runs": ["r"], "bounds": BOUNDS, "multiprocessors": 132}


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "TREES", 10)
        patch.setattr(training, "PAIR_TREES", 10)
        yield


@pytest.fixture(scope="module")
def trained(rows, few_trees):
    return training.trained(rows, ABOUT)


@pytest.mark.slow
def test_families_that_were_left_out_get_the_right_format(trained):
    _, evaluation = trained
    chosen = evaluation.choices[evaluation.choices["chooser"] == "model"].set_index(["spmvs", "matrix"])["format"]
    assert set(chosen[10_000_000 // 10]) <= {"ell", "csr5"}
    once = chosen[1]
    assert "ell" not in set(once)
    regrets = evaluation.summary().set_index(["of", "chooser", "spmvs"])["mean"]["all"]
    assert regrets["model"][1_000_000] < 5 < regrets["always cuSPARSE"][1_000_000]
    assert (evaluation.choices["regret"] >= 0).all()


@pytest.mark.slow
def test_regrets_are_those_of_the_rows(rows, trained):
    _, evaluation = trained
    known = training.table(rows)
    for line in evaluation.choices.itertuples():
        total = known.total(line.spmvs).loc[line.matrix]
        assert line.regret == pytest.approx(total[line.format] / total.min() - 1)


def test_the_trees_are_scikit_learns(monkeypatch):
    import sklearn.ensemble

    kept = []

    class Kept(sklearn.ensemble.ExtraTreesRegressor):
        def fit(self, *args, **options):
            kept.append(self)
            return super().fit(*args, **options)

    monkeypatch.setattr(sklearn.ensemble, "ExtraTreesRegressor", Kept)
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 5)), rng.random((40, 3))
    forest, new = training.grown(x, y), rng.random((7, 5))
    np.testing.assert_allclose(forest(new), kept[0].predict(new), rtol=1e-5)
    each = np.stack([tree.predict(new.astype(np.float32)) for tree in kept[0].estimators_], axis=1)
    np.testing.assert_allclose(forest.each(new), each, rtol=1e-5)


def test_what_is_missing_differs_as_it_does_elsewhere():
    matrices, formats = np.array([[0.0], [1.0], [5.0], [2.0]]), np.array([0.0, 0.5, -0.5])
    y = matrices + formats
    gaps = y.copy()
    gaps[[0, 0, 1], [1, 2, 2]] = np.nan
    shared, own = training.additive(gaps)
    np.testing.assert_allclose(shared + own, y, atol=1e-6)
    np.testing.assert_allclose(own.mean(axis=1), 0, atol=1e-12)


@pytest.mark.slow
def test_a_format_that_is_missing_somewhere_is_no_choice_there(rows):
    gone = (rows["label"] == "ell") & rows["kind"].eq("rmat")
    known = training.table(rows.assign(status=np.where(gone, "skipped", rows["status"])))
    assert known.spmv["ell"].isna().sum() == 2
    found = training.evaluated(known).choices
    assert set(found.loc[(found["family"] == "rmat") & (found["chooser"] == "model"), "format"]) <= {
        "csr5",
        "cusparse-csr-alg1",
        "csr-lanes",
    }


def test_a_format_that_was_excluded_as_too_slow_is_slow_there(rows):
    gone = (rows["label"] == "csr-lanes") & rows["kind"].eq("rmat")
    far = sorted({f"synthetic/{name}" for name in rows.loc[gone, "name"]})
    known, other = (training.table(rows[~gone], exclude_slow=exclude_slow) for exclude_slow in (far, ()))
    assert known.excluded.sum().to_dict() == {"csr-lanes": len(far)} | dict.fromkeys(set(FORMATS) - {"csr-lanes"}, 0)
    assert not other.excluded.any(axis=None)
    labels = sorted(FORMATS)
    whole = training.table(rows).of(far)
    times = [training.predictions(training.fitted(t, labels), whole)[0] for t in (known, other)]
    assert (times[0] > times[1])[:, labels.index("csr-lanes")].all()
    skipped = training.table(rows.assign(status=np.where(gone, "skipped", rows["status"])), exclude_slow=far)
    assert not skipped.excluded.any(axis=None)


def test_of_a_matrix_of_several_runs_the_one_with_most_formats_counts_then_the_last(rows):
    first = rows.assign(started_at="2026-01-01")
    again = rows[rows["kind"] == "rmat"].assign(run_id="s", started_at="2026-02-01", t_median=1.0)
    found = training.of_one_run(pd.concat([again, first], ignore_index=True))
    assert len(found) == len(rows) and (found["t_median"].eq(1) == found["kind"].eq("rmat")).all()
    part = training.of_one_run(pd.concat([again[again["label"] == "csr5"], first], ignore_index=True))
    assert len(part) == len(rows) and not part["t_median"].eq(1).any()


def test_the_bytes_of_a_format_decide_on_its_time(rows):
    rng, slow = np.random.default_rng(0), rows["label"] == "ell"
    factors = rows["name"].map({name: rng.uniform(0.3, 3) for name in EVEN + SKEW}).where(slow, 1)
    wide = rows.assign(model_bytes=rows["model_bytes"] * factors, t_median=rows["t_median"] * factors)
    known = dataclasses.replace(
        training.fitted(training.table(wide), sorted(FORMATS)), about={"vendor": "cusparse-csr-alg1"}
    )
    a = Csr.of(generate("pde:15"))
    labels = list(known.labels)
    x = features.of(features_of(a))[None]
    sizes = np.full((1, len(labels)), 12.0 * a.nnz + 20 * a.rows)
    ell, bounds = labels.index("ell"), np.full((1, len(labels)), 1e-6)

    def slower(factor):
        return known.slower(x, [a.nnz], [7], np.where(np.arange(len(labels)) == ell, factor, 1) * sizes, bounds)[0]

    times = [slower(factor)[ell] for factor in (0.3, 1.0, 3.0)]
    assert times[0] < times[1] < times[2]
    np.testing.assert_array_equal(np.delete(slower(3.0), ell), np.delete(slower(1.0), ell))
    assert np.isnan(slower(np.nan)).tolist() == [label == "ell" for label in labels]


def test_no_format_goes_through_the_longest_row_faster_than_it_did_in_the_training(rows):
    known = training.table(rows)
    found = training.fitted(known, sorted(FORMATS))
    once = known.columns["row_len_max"].to_numpy()[:, None] / known.spmv[sorted(FORMATS)]
    assert found.rates.tolist() == once.max().tolist()
    longer = {name: np.array([value]) for name, value in features_of(Csr.of(generate("denserow:50000"))).items()}
    spmv, _ = found.predicted(longer, np.full((1, len(FORMATS)), 3e6), np.full((1, len(FORMATS)), 1e-9))
    assert spmv[0] == pytest.approx(50_000 / found.rates)


@pytest.mark.slow
def test_single_precision_is_evaluated_and_not_learned(rows, trained):
    single = rows[rows["kind"].isin(["pde", "rmat"])].assign(dtype="f32")
    both, evaluation = training.trained(pd.concat([rows, single], ignore_index=True), ABOUT)
    alone, _ = trained
    np.testing.assert_array_equal(both.own.value, alone.own.value)
    counts = evaluation.choices[evaluation.choices["spmvs"] == 1].groupby(["dtype", "chooser"]).size().unstack()
    assert set(counts.loc["f32"]) == {4} and set(counts.loc["f64"]) == {len(EVEN + SKEW)}
    of = evaluation.summary().groupby("of")["matrices"].first()
    assert (of["all"], of[model.SINGLE]) == (len(EVEN + SKEW), 4)


@pytest.mark.slow
def test_more_ways_of_leaving_out(rows):
    _, evaluation = training.trained(rows, ABOUT, more=True)
    found = evaluation.choices[evaluation.choices["spmvs"] == 1].groupby("chooser")["matrix"].nunique()
    for chooser in (training.HALVED, training.RANDOM, training.FALLBACK):
        assert found[chooser] == len(EVEN + SKEW)


def test_smaller_matrices_are_evaluated_by_a_model_of_larger_ones(rows, monkeypatch):
    assert training.evaluated(training.table(rows), smaller=True).choices.empty
    monkeypatch.setattr(training, "FEWEST", 3)
    monkeypatch.setattr(training, "LARGE", 24_000)
    known = training.table(rows)
    nnz, trained_on = known.columns["nnz"], []
    fitted = training.fitted
    monkeypatch.setattr(training, "fitted", lambda rest, labels: trained_on.append(rest) or fitted(rest, labels))
    found = training.evaluated(known, smaller=True).choices
    assert set(found["matrix"]) == set(nnz.index[nnz < 8_000]) != set()
    assert trained_on and all((rest.columns["nnz"] > 24_000).all() for rest in trained_on)


def test_cusparse_is_always_in_the_portfolio(rows):
    known = training.table(rows)
    assert training.portfolio(known, 2) == ["csr5", "cusparse-csr-alg1"]


@pytest.mark.parametrize("change", [{"full_diagonal_share": np.nan}, {"dtype": "f32"}, {"label": "csr5"}])
def test_rows_that_make_no_model(rows, change):
    with pytest.raises(SpmvbenchError, match="several matrices"):
        training.table(rows.assign(**change))


def test_rows_of_two_gpus_make_no_model(rows):
    with pytest.raises(SpmvbenchError, match="several GPUs"):
        training.table(rows.assign(device_name=np.where(rows["kind"] == "pde", "Another", "A GPU")))


@pytest.fixture
def shipped(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "folder", lambda: tmp_path)
    trained[0].save(tmp_path / "mine.npz")
    return model.load("mine")


def test_what_ships_is_what_was_trained(shipped, trained):
    a = Csr.of(generate("pde:15"))
    before, after = (choosing.advise(a, m, 100) for m in (trained[0], shipped))
    assert before.ranked == after.ranked
    assert json.dumps(shipped.about) == json.dumps(trained[0].about)


def test_a_matrix_without_the_vendors_row_teaches_nothing(rows):
    """A run was stopped there."""
    stopped = rows[(rows["name"] != "pde:12") | (rows["label"] == "ell")]
    assert set(training.table(rows).spmv.index) - set(training.table(stopped).spmv.index) == {"synthetic/pde:12"}


def test_what_auto_chose_is_no_format_of_its_own(rows):
    """Its time is that of another format once more, with other noise: no choice has a regret for it."""
    chosen = rows[rows["label"] == "ell"].assign(format="auto", label="auto", t_median=rows["t_median"] / 2)
    with_auto, without = (training.table(part) for part in (pd.concat([rows, chosen]), rows))
    pd.testing.assert_frame_equal(with_auto.spmv, without.spmv)


def test_files_and_names_that_are_no_model(shipped, tmp_path):
    with pytest.raises(UsageError, match="mine"):
        model.load("mime")
    whole = (tmp_path / "mine.npz").read_bytes()
    for content in (b"", b"no model", whole[:1000], whole[:100] + b"\xff" * 40 + whole[140:]):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(SpmvbenchError, match="is no model"):
            model.load("bad")


def test_advice_on_a_matrix(shipped):
    a = Csr.of(generate("pde:15"))
    often, once = (choosing.advise(a, shipped, n) for n in (1e7, 1))
    assert (often.ranked[0].label, often.vendor.label, often.out_of_range) == ("ell", "cusparse-csr-alg1", [])
    assert once.ranked[0].label in ("csr-lanes", "cusparse-csr-alg1")
    best = often.ranked[0]
    assert best.low <= best.spmv * 1.1
    assert best.high >= best.spmv * 0.9
    assert best.total == pytest.approx(best.conversion + 1e7 * best.spmv, rel=0.2)
    assert often.regret["spmvs"] == 1_000_000
    single = choosing.advise(a.astype(np.float32), shipped, 1e7)
    assert single.ranked[0].spmv < best.spmv


def test_the_interval_of_a_format_of_few_matrices_is_the_widest_of_the_others(shipped):
    count = len(shipped.labels)
    errors = np.tile([[-0.1, 0.1], [-0.2, 0.05], [-0.3, -0.29], *[[-0.1, 0.1]] * (count - 3)], (2, 1, 1))
    of_rows = [dataclasses.replace(shipped, about=shipped.about | {"rows": rows}, errors=errors).interval[:3].tolist()
               for rows in ([40, 20, 2, *[10] * (count - 3)], [3, 3, 2, *[3] * (count - 3)], [2] * count)]  # fmt: skip
    assert of_rows == [[[-0.1, 0.1], [-0.2, 0.05], [-0.2, 0.1]]] * 2 + [errors[0, :3].tolist()]


def test_advice_for_several_vectors(shipped, rows, tmp_path, command):
    """By a model of its own, for the nearest number of vectors that has one."""
    words = ("advise", "pde:15", "--device-like", "mine", "--vectors", "6")
    assert "no model of mine for several vectors" in command(*words).err
    times = FORMATS | {"csr-lanes": (1.1, 1.1, 1e-6), "ell": (3.0, 3.0, 1e-3)}
    both = pd.concat([rows, measured(8, times)])
    for k in (8, 2):
        training.trained(both.replace("spmm@8", f"spmm@{k}"), ABOUT, vectors=k)[0].save(tmp_path / f"mine-spmm{k}.npz")
    assert model.trained() == ["mine"] and model.load("mine", 6).about["vectors"] == 8
    a = Csr.of(generate("pde:15"))
    found = choosing.advise(a, model.load("mine", 6), 1e7, vectors=6)
    size = formats.get("csr-lanes").estimate(a, **formats.get("csr-lanes").resolve({})) + 8 * 6 * (a.rows + a.cols)
    moved = {"model_bytes": size, "x_bytes": 8 * 6 * a.cols, "fetched": Fetched.by(a, 132, vectors=6)}
    least = 2e-9 * 6 * a.nnz / upper(BOUNDS, nnz=a.nnz, flops=12 * a.nnz, **moved).gflops
    assert found.ranked[0].label == "csr-lanes" and found.ranked[0].spmv == pytest.approx(1.1 * least, rel=0.3)
    said = command(*words, "--spmvs", "1e7").out
    assert "10,000,000 products of 6 vectors" in said and "trained on products of 8 vectors" in said
    assert "Y = op @ X" in said and "per product" in said and "per SpMV" not in said
    ranked = choosing.advise(a, shipped, 10, vectors=6, deterministic=True).ranked
    assert ranked and all(determinism.repeats(each.label, "spmm@6") for each in ranked)


def test_advice_for_a_pair_is_that_for_both_matrices(shipped, command):
    words = ("advise", "rect:60:900:4", "--device-like", "mine", "--pair", "--spmvs", "1e6")
    found, a = json.loads(command(*words, "--json").out), Csr.of(generate("rect:60:900:4"))
    both = [choosing.advise(matrix, shipped, 1e6) for matrix in (a, transposed(a))]
    for way, advice in zip(("A", "A^T"), both, strict=True):
        assert [each["label"] for each in found[way]["ranked"]] == [each.label for each in advice.ranked]
    assert found["choice"]["format"] == "+".join(advice.choice.label.partition("[")[0] for advice in both)
    said = command(*words).out
    assert "A^T of synthetic/rect:60:900:4: 900 x 60" in said and "z = op.T @ w" in said
    assert "run rect:60:900:4 --op pair measures pairs" in command(*words, "--vectors", "2").err


def test_a_smaller_matrix_is_not_unlike_all_others(shipped):
    for spec in ("pde:6", "rmat:8:8"):
        a = Csr.of(generate(spec))
        advice = choosing.advise(a, shipped, 1000)
        assert a.nnz < min(Csr.of(generate(other)).nnz for other in ("pde:12", "rmat:10:8"))
        assert not {"entries", "rows"} & set(shipped.out_of_range(choosing.predicted(a, shipped, 1000).columns))
        assert advice.out_of_range or advice.choice == advice.ranked[0]
    larger = choosing.predicted(Csr.of(generate("pde:40")), shipped, 1000).columns
    assert {"entries", "rows"} <= set(shipped.out_of_range(larger))


def test_a_matrix_unlike_all_others_is_named(shipped):
    advice = choosing.advise(Csr.of(generate("dense:300:300")), shipped, 1000)
    assert any("rows of 300 entries each" in text for text in advice.out_of_range)
    assert advice.fallback.label == "csr5" and advice.fallback.label in shipped.about["fallbacks"]


def test_a_format_that_cannot_hold_the_matrix_is_left_out(shipped, monkeypatch):
    def refuse(a, **params):
        raise Skip("too wide")

    monkeypatch.setattr(formats.get("ell"), "estimate", refuse)
    advice = choosing.advise(Csr.of(generate("pde:15")), shipped, 1e7)
    assert "ell" not in [e.label for e in advice.ranked]


def test_modules_whose_footprint_is_sampled_exist():
    modules = {cls.__module__.removeprefix("spmvbench.formats.") for cls in map(formats.get, formats.keys())}
    for start in choosing.SAMPLED:
        assert any(name == start or name.startswith(f"{start}.") for name in modules), start


def test_words_of_features():
    a = Csr.of(generate("pde:15"))
    known = features_of(a)
    assert features.words("share on full diagonals", known) == "7 diagonals hold 100 % of the entries"
    assert features.words("longest row", known).startswith("rows of 4 to 7 entries, 6.6")
    assert all(features.words(name, known) for name in features.NAMES)
    assert features.of(known).shape == (len(features.NAMES),)


# --- GPUs without rows, and the one at hand


def test_a_gpu_without_rows_is_scaled_by_bandwidth():
    here, there = model.load("h200"), model.load("h100")
    assert {"h200", "h100"} <= set(model.names()) and "h100" not in model.trained()
    a = Csr.of(generate("pde:12"))
    found = [choosing.predicted(a, m, 1000).expected for m in (here, there)]
    same = [found[1][k].spmv for k in found[0]]
    assert same == pytest.approx([e.spmv for e in found[0].values()], rel=1e-12)  # it fits into L2
    bounds, scaled = there.about["bounds"], there.about["scaled_bounds"]
    ratio = [theirs[1] / ours[1] for ours, theirs in zip(bounds["read"], scaled["read"], strict=True)]
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(4.8 / 3.35)
    slow = {of: [[size, 2 * seconds] for size, seconds in pairs] for of, pairs in bounds.items() if of in scaled}
    twice = dataclasses.replace(here, about=here.about | {"scaled_bounds": slow})
    double = choosing.predicted(a, twice, 1000).expected
    assert [double[k].spmv for k in double] == pytest.approx([2 * found[0][k].spmv for k in double])
    assert there.about["memory_bytes"] < here.about["memory_bytes"] and "scaled by bandwidth" in there.about["device"]


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA A100-SXM4-40GB", None),
    ],
)
def test_the_model_of_a_gpu(gpu, name):
    assert model.of_gpu(gpu) == name


def test_the_gpu_at_hand(monkeypatch):
    class Opened:
        def properties(self):
            return {"device_name": gpu}

    monkeypatch.setattr(format_choice, "shared_device", lambda name: Opened())
    monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: None)
    gpu = "NVIDIA H100 80GB HBM3"
    assert (format_choice.like("auto"), format_choice.like("h200")) == ("h100", "h200")
    gpu = "NVIDIA L4"
    with pytest.raises(UsageError, match=r"no model of NVIDIA L4: name one of h100, h200"):
        format_choice.like("auto")
    monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: "no NVIDIA GPU was found")
    with pytest.raises(UsageError, match="no NVIDIA GPU was found"):
        format_choice.like("auto")


# --- the command


def test_command(shipped, command):
    found = command("advise", "pde:15", "--device-like", "mine", "--spmvs", "1e7")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0] == "synthetic/pde:15: 3,375 x 3,375, 22,275 entries"
    assert "trained on 14 matrices of 8 families" in lines[1]
    (first,) = (line for line in lines if line.startswith("ell "))
    assert " us - " in first
    assert any(line.startswith("cusparse-csr-alg1") and line.endswith("cuSPARSE") for line in lines)
    assert any(line.startswith("Why ell: ") for line in lines)
    assert "Expected regret on unseen matrix families" in found.out
    unlike = command("advise", "dense:300:300", "--device-like", "mine").out
    assert "Unlike all matrices" in unlike
    assert "Use the fallback, csr5" in unlike


def test_command_as_json(shipped, command):
    found = json.loads(command("advise", "pde:15", "--device-like", "mine", "--json", "--spmvs", "10").out)
    assert {e["label"] for e in found["ranked"]} == set(FORMATS)
    assert found["vendor"]["label"] == "cusparse-csr-alg1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pde:15", "--device-like", "gtx"), "no model of 'gtx'"),
        (("empty:3:4", "--device-like", "mine"), "no entries"),
        (("pde:15", "--device-like", "mine", "--dtype", "f64,f32"), "is not one of 'f64', 'f32'"),
        (("pde:15", "--device-like", "mine", "--measure"), "needs a GPU"),
    ],
)
def test_commands_that_cannot_be(shipped, command, words, said, monkeypatch):
    monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: "no NVIDIA GPU was found")
    found = command("advise", *words)
    assert found.code != 0
    assert said in found.err


TIMES = {"csr5": 3e-6, "cusparse-csr-alg1": 5e-6, "csr-lanes": 1e-6, "ell": 2e-6}


@pytest.fixture
def measure(shipped, command, monkeypatch):
    """`advise pde:15 --measure` on a GPU that has TIMES, where some formats fail: what it printed, and what it ran."""

    def of(*words, failing=(), programs=None):
        asked = {}

        def run(matrices, labels, **options):
            asked.update(options, matrices=matrices, labels=labels)
            failed = pd.Series(labels).isin(failing)
            rows = on_some_gpu(labels, pd.Series(labels).map(TIMES), failed, "crashed", "it fell")
            if programs is None:
                return rows
            return rows.assign(program=rows["label"].map(programs).fillna(""), params="{}", alias_of="")

        monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: None)
        monkeypatch.setattr(api, "run", run)
        return command("advise", "pde:15", "--device-like", "mine", "--measure", "--spmvs", "1e6", *words), asked

    return of


def test_the_best_few_are_measured_here(measure):
    found, asked = measure()
    assert found.code == 0
    assert asked["matrices"] == ["pde:15"]
    assert {"ell", "cusparse-csr-alg1", "csr5"} <= set(asked["labels"])
    assert (asked["mode"], asked["convert"], asked["dtype"]) == ("hot", "device", "f64")
    measured = found.out.partition("Measured on Some GPU")[2].split()
    assert measured.index("ell") < measured.index("cusparse-csr-alg1")
    assert "2 us" in found.out
    assert "nan" not in found.out


def test_what_is_one_program_here_is_marked(measure):
    found, _ = measure(programs={"ell": "one", "csr5": "one", "cusparse-csr-alg1": "two"})
    lines = found.out.partition("Measured on Some GPU")[2].partition("In Python")[0].splitlines()
    assert {line.split()[0]: line.rpartition("  ")[2] for line in lines if "= " in line} == {"csr5": "= ell"}
    assert " = " not in measure()[0].out.partition("In Python")[0]


def test_what_failed_here_is_named(measure):
    found, _ = measure(failing=["ell"])
    assert found.code == 1
    assert "crashed: ell: it fell" in found.out
    none, _ = measure(failing=list(TIMES))
    assert none.code == 1
    assert "nothing could be measured here: " in none.err


def test_what_was_measured_is_json_too(measure):
    found, _ = measure("--json", failing=["ell"])
    measured = {row["label"]: row for row in json.loads(found.out)["measured"]}
    assert measured["csr5"]["total"] == pytest.approx(3 + 1e-3)
    assert (measured["ell"]["status"], measured["ell"]["t_median"]) == ("crashed", None)


def test_training_needs_scikit_learn(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    found = command("advise", "pde:15", "--from", "somewhere")
    assert "pip install scikit-learn" in found.err


# --- the models that ship, against the published rows that they are from


@pytest.mark.slow
@pytest.mark.parametrize("name", model.trained())
def test_a_model_that_ships_is_of_published_rows(name):
    root = model.folder().parents[1]
    known = model.load(name)
    runs = [root / "results" / "published" / run for run in known.about["runs"]]
    if not all(run.is_dir() for run in runs):
        pytest.skip("needs a checkout (git clone)")
    rows = pd.concat([rows_of_run(run) for run in runs], ignore_index=True)
    table = training.table(training.of_one_run(rows), exclude_slow=known.about["exclude_slow"])
    choices = pd.read_csv(model.folder() / f"{name}.csv")
    single = choices["dtype"] == "f32"
    assert choices[single]["matrix"].nunique() == known.about["single"]
    choices = choices[~single]
    assert set(choices["matrix"]) == set(table.spmv.index)
    for spmvs, part in choices.groupby("spmvs"):
        total = table.total(spmvs)
        lost = [
            total.at[m, label] / total.loc[m].min() - 1 for m, label in zip(part["matrix"], part["format"], strict=True)
        ]
        np.testing.assert_allclose(part["regret"], lost, rtol=1e-4, atol=1e-5)
        (said,) = (x for x in known.about["regret"] if (x["of"], x["chooser"], x["spmvs"]) == ("all", "model", spmvs))
        assert said["mean"] == pytest.approx(100 * np.expm1(np.log1p(part["regret"]).mean()), rel=1e-3)
        predicted = training.predictions(known, table)
        chosen = pd.DataFrame(predicted[1] + spmvs * predicted[0], total.index, known.labels).idxmin(axis=1)
        mean = np.mean([np.log(total.at[m, label] / total.loc[m].min()) for m, label in chosen.items()])
        assert np.expm1(mean) < said["mean"] / 100 + 0.02  # having seen a family cannot be worse than not


@pytest.mark.slow
@pytest.mark.parametrize("name", model.trained())
def test_the_page_is_of_the_model_that_ships(name):
    page = model.folder().parents[1] / "docs" / "results" / "advice.md"
    if not page.is_file():
        pytest.skip("needs a checkout (git clone)")
    assert page.read_text(encoding="utf-8") == publishing.page(name)
