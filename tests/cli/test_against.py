"""`spmvbench run --against`: what is said and the exit code, on pairs that are given; nothing is measured."""

import json

import pandas as pd
import pytest

from spmvbench.devices import cuda
from spmvbench.runner import ab


@pytest.fixture
def against(command, tmp_path, monkeypatch):
    """Runs the command on a machine that seems to have a GPU; factors by label: new over old, or a status."""

    def run(factors, *args):
        def measured(self, groups, repeats=1):
            self.facts = {"device": "cuda:0", "properties": {"device_name": "a GPU"}}
            for case in (case for group in groups for case in group.cases):
                row = self._row(case)
                factor = factors[case.label]
                if isinstance(factor, str):
                    yield row | {"status": factor, "reason": "old: it broke"}
                    continue
                for pair in range(self.pairs):
                    new = 1e-5 * factor * (1 + 1e-4 * pair)
                    yield row | {"pair": pair, "old": 1e-5, "new": new, "status": "ok", "reason": ""}

        monkeypatch.setattr(cuda, "why_unavailable", lambda ordinal=0: None)
        monkeypatch.setattr(ab.ABComparison, "measure", measured)
        options = ("--mode", "hot", "--results", tmp_path, "--run", "r", "--against", ab.HERE)
        return command("run", "pde:4", "--formats", ",".join(factors), *options, *args)

    return run


@pytest.mark.parametrize(
    ("factors", "code"),
    [
        ({"ell": 1.0, "dia": 0.9}, 0),
        ({"ell": 1.0, "dia": 1.03}, 3),
        ({"ell": 1.03, "dia": "crashed"}, 4),
        ({"ell": 1.0, "dia": "skipped"}, 0),
        ({"ell": "skipped"}, 4),
    ],
)
def test_exit_code_says_what_was_found(against, factors, code):
    result = against(factors)
    assert result.code == code, result.out + result.err


def test_what_is_said_and_kept(against, tmp_path):
    out = against({"ell": 1.03, "dia": 1.0, "hyb": 0.9, "coo-flat": "wrong"}, "--pairs", "9").out
    places = [
        out.index(text) for text in ("4 cases, 9 pairs each", "Slower: 1", "Faster: 1", "Same: 1", "Not measured")
    ]
    assert places == sorted(places)
    lines = [line.split() for line in out.splitlines()]
    assert ["synthetic/pde:4", "ell", "f64", "hot", "10", "us", "10.3", "us", "1.030", "1.030-1.031"] in lines
    assert "coo-flat f64 hot: synthetic/pde:4: wrong: old: it broke" in out
    assert "4 cases: 1 slower, 1 faster, 1 same, 1 failed. Threshold: 0.5 %, confidence: 99 %." in out
    kept = pd.read_csv(tmp_path / "r" / "pairs.csv")
    assert list(kept["label"].value_counts()[["ell", "coo-flat"]]) == [9, 1]
    record = json.loads((tmp_path / "r" / "pairs.json").read_text())
    assert record["pairs"] == 9 and record["properties"]["device_name"] == "a GPU" and record["python"]


def test_a_dry_run_measures_nothing(against, tmp_path):
    result = against({"ell": 1.0}, "--dry-run")
    assert result.code == 0 and "1 case, 20 pairs each" in result.out and not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--device", "emulated", "--against", "HEAD"], "needs a GPU"),
        (["--device", "emulated", "--pairs", "12"], "--pairs goes with --against"),
        (["--against", "HEAD", "--pairs", "7"], "7 is not in the range"),
        (["--against", "HEAD", "--fresh", "--energy", "1"], "leave out --fresh and --energy"),
        (["--against", "HEAD", "--retry"], "leave out --retry"),
    ],
)
def test_wrong_words_are_said(command, tmp_path, args, said):
    result = command("run", "pde:4", "--formats", "ell", "--results", tmp_path, *args)
    assert result.code == 2 and said in result.err and not list(tmp_path.iterdir())


def test_an_unknown_build_is_said(against, command, tmp_path):
    against({"ell": 1.0})  # the machine seems to have a GPU from here on
    result = command("run", "pde:4", "--formats", "ell", "--results", tmp_path, "--against", "no-such-build")
    assert result.code == 2 and "no-such-build" in result.err
