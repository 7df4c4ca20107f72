"""The advice as an object, its fallback, and what the command says of how to use it."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats
from spmvbench.advice import choosing, model
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats.arrays import Csr
from spmvbench.matrices.synthetic import generate
from tests.made import on_some_gpu

# Regular, skewed, tiny (outside of what the model was trained on), and one that is wide.
SPECS = ("pde:12", "rmat:11:8", "dense:40:40", "powerlaw:3000:8", "random:20:4000:0.01")


@pytest.fixture(scope="module")
def shipped():
    return model.load("h200")


def matrix(spec):
    if spec.startswith("random"):
        _, rows, cols, density = spec.split(":")
        rng = np.random.default_rng(0)
        return sparse.random_array((int(rows), int(cols)), density=float(density), format="csr", rng=rng)
    return generate(spec)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("spmvs", [1, 100, 1e6])
def test_the_fallback_is_never_predicted_slower_than_cusparse(shipped, spec, spmvs):
    advice = choosing.advise(Csr.of(matrix(spec)), shipped, spmvs)
    assert advice.fallback.total <= advice.vendor.total
    assert advice.choice.total <= advice.vendor.total
    assert advice.choice in advice.ranked
    assert advice.fallback.label in shipped.about["fallbacks"]


def test_conversion_decides_on_the_fallback(shipped):
    a = Csr.of(generate("powerlaw:5000:8"))
    once, often = (choosing.advise(a, shipped, n).fallback for n in (1, 1e6))
    assert once.label != often.label and {once.label, often.label} <= set(shipped.about["fallbacks"])
    assert once.conversion < often.conversion and once.spmv > often.spmv


def test_no_format_exceeds_the_memory(shipped):
    a = Csr.of(generate("rmat:11:8"))
    free = choosing.advise(a, shipped, 1e6)
    sizes = {e.label: formats.parse(e.label)[0][0].estimate(a, **formats.parse(e.label)[0][1]) for e in free.ranked}
    limit = sorted(sizes.values())[len(sizes) // 2]
    tight = choosing.advise(a, shipped, 1e6, max_bytes=limit)
    assert {e.label for e in tight.ranked} == {label for label, size in sizes.items() if size <= limit}
    assert tight.fallback in tight.ranked and tight.choice in tight.ranked
    with pytest.raises(SpmvbenchError, match=r"no format fits into 10 B: the smallest takes"):
        choosing.advise(a, shipped, 1e6, max_bytes=10)
    without = dataclasses.replace(shipped, about=shipped.about | {"memory_bytes": 4 * limit})
    assert {e.label for e in choosing.advise(a, without, 1e6).ranked} == {e.label for e in tight.ranked}


def test_a_recommendation(shipped):
    a = matrix("pde:20")
    found = spmvbench.advise(a, spmvs=1e6)
    table = found.table
    assert table["total"].is_monotonic_increasing and len(table) >= 5
    assert (table["low"] <= table["spmv"]).all() and (table["spmv"] <= table["high"]).all()
    np.testing.assert_allclose(table["total"], table["conversion"] + 1e6 * table["spmv"])
    (vendor,) = table.loc[table["note"] == "cuSPARSE", "relative to cuSPARSE"]
    assert vendor == 1
    assert found.choice == found.advice.choice.label and found.choice in set(table["format"])
    assert found.params == formats.parse(found.choice)[0][1]
    assert found.choice in str(found) and "8,000 x 8,000" in repr(found)
    op = found.operator("emulated")
    x = np.random.default_rng(0).standard_normal(a.shape[1])
    np.testing.assert_allclose(op @ x, a @ x, rtol=1e-12, atol=1e-12)
    assert op.choice.spmvs == 1e6
    if "emulated" in formats.parse(found.choice)[0][0].devices:
        assert op.choice.label == found.choice


def test_single_precision_and_specs():
    found = spmvbench.advise("pde:60", dtype=np.float32)
    assert found.a.dtype == np.float32 and found.operator("emulated").dtype == np.float32
    assert found.advice.ranked[0].spmv < 0.8 * spmvbench.advise("pde:60").advice.ranked[0].spmv


@pytest.fixture
def gpu(monkeypatch):
    """A GPU on which the third of the ranking is the fastest and the first fails; what was asked of it."""
    asked = {}

    def run(matrices, labels, **options):
        asked.update(options, matrices=matrices, labels=labels)
        place = np.arange(len(labels))
        rows = on_some_gpu(labels, np.where(place == 2, 1e-6, 1e-5), place == 0, "skipped")
        return rows.assign(params="{}", alias_of="", program="")

    monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: None)
    monkeypatch.setattr("spmvbench.runner.api.run", run)
    return asked


def test_measured(gpu):
    a = matrix("pde:20").astype(np.float32)
    found = spmvbench.advise(a, spmvs=1e6, measure=True)
    (measured,) = gpu["matrices"]
    assert (measured != a).nnz == 0 and gpu["dtype"] == "f32" and gpu["convert"] == "device"
    assert {found.advice.vendor.label, found.advice.fallback.label} <= set(gpu["labels"])
    fastest = found.advice.ranked[2].label
    assert found.choice == fastest == gpu["labels"][2]
    first = found.table.iloc[0]
    assert (first["format"], first["status"]) == (fastest, "ok")
    assert first["measured_total"] == pytest.approx(1e-3 + 1)
    op = found.operator("emulated")
    assert op.choice.label == fastest and "measured" in op.choice.reason


@pytest.mark.parametrize(
    ("given", "options", "error", "words"),
    [
        (sparse.csr_array((3, 3)), {}, SpmvbenchError, "without entries"),
        (np.eye(3), {}, TypeError, "expected a sparse matrix"),
        (sparse.eye_array(3, dtype=complex), {}, TypeError, "complex128"),
        (sparse.eye_array(3), {"spmvs": -1}, UsageError, "at least 1"),
        (sparse.eye_array(3), {"device_like": "gtx"}, UsageError, "no model of 'gtx'"),
        (sparse.eye_array(3), {"measure": True}, UsageError, "needs a GPU: no NVIDIA GPU was found"),
    ],
)
def test_bad_questions(monkeypatch, given, options, error, words):
    monkeypatch.setattr("spmvbench.devices.cuda.why_unavailable", lambda: "no NVIDIA GPU was found")
    with pytest.raises(error, match=words):
        spmvbench.advise(given, **options)


@pytest.mark.parametrize("words", [(), ("--dtype", "f32"), ("--seed", "3")])
def test_the_command_ends_with_lines_that_run(command, words):
    found = command("advise", "rmat:9:4", "--spmvs", "1e6", *words)
    assert found.code == 0, found.err
    lines = found.out.splitlines()[-3:]
    names = {"x": np.ones(512)}
    code = "\n".join(lines)
    assert "format=" in code
    label = code.partition('format="')[2].partition('"')[0]
    if "emulated" in formats.parse(label)[0][0].devices:
        names["x"] = names["x"].astype(np.float32 if "f32" in words else np.float64)
        exec(code.replace('format="', 'device="emulated", format="'), names)
        a = spmvbench.load("rmat:9:4", seed=3 if "--seed" in words else 0)
        np.testing.assert_allclose(names["y"], a @ names["x"], rtol=1e-4, atol=1e-4)
        assert names["op"].choice.label == label
        assert names["op"].dtype == (np.float32 if "f32" in words else np.float64)


def test_json_has_the_parameters(command):
    found = json.loads(command("advise", "pde:15", "--json").out)
    assert (found["dtype"], found["spmvs"], found["device"]) == ("f64", 10_000, "NVIDIA H200")
    for entry in (found["choice"], *found["ranked"], found["vendor"], found["fallback"]):
        ((cls, params),) = formats.parse(entry["label"])
        assert (entry["format"], entry["params"]) == (cls.key, params)
