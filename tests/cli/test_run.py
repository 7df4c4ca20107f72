import os
import re

import click
import pandas as pd
import pytest

import spmvbench
from spmvbench.cli.results import echo_results
from spmvbench.cli.run import default_name
from spmvbench.errors import UsageError
from spmvbench.matrices import download, suitesparse
from spmvbench.matrices.conditions import Conditions
from spmvbench.matrices.selection import Selection
from spmvbench.rows import store
from tests.made import row


@pytest.fixture
def run(command, tmp_path, monkeypatch):
    """`spmvbench run` on the emulated device in an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def on_emulated(*args):
        return command("run", "--device", "emulated", *args)

    return on_emulated


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--set demo"),
        (["--limit", "3"], "--set demo"),
        (["--min-rows", "-1"], "--min-rows"),
        (["pde:4", "--min-nnz", "many"], "--min-nnz"),
        (["pde:4", "--seed", "-1"], "--seed"),
        (["pde:4", "--limit", "9" * 5000], "--limit"),
        (["pde:4", "--limit", "0"], "--limit"),
        (["pde:4", "--config", "dem"], "did you mean demo"),
        (["pde:4", "--nonsense"], "nonsense"),
        (["pde:4", "--shard", "3/2"], "write 1/8 to 8/8"),
        (["pde:4", "--shard", "0/2"], "write 1/8 to 8/8"),
        (["pde:4", "--shard", "9/9", "--formats", "csr-scalar"], "too few cases"),
        (["pde:4", "--workers", "2"], "--workers needs --scheduler local"),
        (["pde:4", "--scheduler", "local", "--device", "cuda:1"], "leave out --device cuda:1"),
        (["pde:4", "--scheduler", "local", "--against", "HEAD"], "leave out --scheduler"),
        (["pde:4", "--formats", "ell", "csr-vector"], "write its list with commas, --formats A,csr-vector"),
        (["pde:4", "--dtype", "f64", "f32"], "write its list with commas, --dtype A,f32"),
        (["pde:4", "--estimate"], "--estimate needs --dry-run"),
        (["pde:4", "--dry-run", "--estimate"], "measure a sample"),
        (["pde:4", "--like", "before"], "--like needs --estimate or --shard"),
    ],
)
def test_a_wrong_command_is_refused_with_the_way_out(run, tmp_path, monkeypatch, args, words):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))  # whose cache is empty
    result = run(*args)
    assert result.code == 2, result.err
    assert words in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "results").exists()


NO_NAMES = ["", ".", "..", "../up", "a/b", "/tmp/a", ".hidden", "rows.jsonl", "Rows.jsonl", "index.html", "report",
            "shared", ".trash", "run.json", "a\0b", "a\nb", "a\n", "\x1b[31m", "-rf", " a", "n" * 201]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("set", "dmo", "did you mean demo"),
        ("formats", "csr-scaler", "did you mean csr-scalar"),
        ("formats", "ell[thread=2]", "did you mean threads"),
        ("formats", "ell[threads=3]", "threads takes 1, 2, 4"),
        ("formats", "ell[threads", "cannot read"),
        ("formats", f"sell[height={'9' * 400}]", "height takes"),
        ("formats", f"csr-elzein[switch={'9' * 400}]", "switch takes"),
        ("formats", ",", "names no format"),
        ("op", "bsf", "there is no operation 'bsf'"),
        ("order", "rmc", "there is no order 'rmc'"),
        ("dtype", "f16", "'f16' is none of f64, f32"),
        ("dtype", "", "give one or more of f64, f32"),
        ("mode", "warm", "'warm' is none of hot, cold"),
        ("device", "emulatd", "did you mean emulated"),
        ("device", "cuda", "there is no device 'cuda'"),
        ("device", "cuda:x", "there is no device 'cuda:x'; did you mean cuda:0"),
        *(("run", name, "is no name for a run") for name in NO_NAMES),
        *(
            (name, value, "is no number of seconds above 0")
            for name in ("budget", "energy", "timeout")
            for value in ("0", "-1", "soon", "nan", "9" * 400)
        ),
        *(("max_bytes", value, "write 500MB or 2GB") for value in ("2 fish", "0", "9" * 400)),
        ("convert", "device", "--convert device needs a GPU"),
        ("convert", "both,device", "'both,device'"),
        ("field", "f64", "field"),
        *(("limit", value, "limit") for value in ("0", "-1", "few")),
        ("matrices", "nowhere.mtx", "there is no file nowhere.mtx"),
        ("matrices", "tridiagonal:5", "did you mean tridiag"),
        ("matrices", "pde60", "a generated one is written pde:60"),
        ("matrices", "csr-vector", "no matrix but a word of --formats"),
    ],
)
def test_the_command_and_python_refuse_the_same_values(run, tmp_path, option, value, words):
    typed = [value] if option == "matrices" else ["pde:4", f"--{option.replace('_', '-')}={value}"]
    result = run(*typed)
    assert result.code == 2 and words in result.err and "Traceback" not in result.err
    given = {"matrices": "pde:4", "device": "emulated", "progress": False} | {option: value}
    with pytest.raises(UsageError, match=re.escape(words)):
        spmvbench.run(**given)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set = [", "cannot read"),
        ("seed = " + "9" * 5000, "cannot read"),
        ("seed = " + "9" * 400, "--seed"),
        ("set = " + "[" * 5000 + "]" * 5000, "cannot read"),
        ("a = " + "{a = " * 5000 + "1" + "}" * 5000, "cannot read"),
        ("sets = ['demo']", "did you mean set"),
        ("fresh = true", "unknown key fresh"),
        ("config = 'other'", "unknown key config"),
        ("seed = [1, 2]", "seed takes one text or number"),
        ("seed = true", "seed takes one text or number"),
        ("real-part = 'yes'", "real-part takes true or false"),
        ("set = { name = 'demo' }", "set takes a list of texts"),
        ("seed = -4", "--seed"),
        ("dtype = ['f64', 'f16']", "'f16' is none of"),
        ("formats = 'csr-scaler'", "did you mean csr-scalar"),
    ],
)
def test_a_wrong_configuration_is_refused(run, tmp_path, text, words):
    (tmp_path / "c.toml").write_text(text)
    result = run("pde:4", "--config", "c.toml")
    assert result.code == 2
    assert words in result.err


def test_a_configuration_fills_only_what_the_command_line_left(run, tmp_path):
    (tmp_path / "c.toml").write_text(
        'matrices = ["pde:4", "tridiag:9"]\nformats = ["csr-scalar", "ell[threads=2]"]\ndtype = "f64,f32"\n'
        'run = "configured"\nmax-bytes = "1GB"\nbudget = 0.01\nseed = 7\n'
    )
    plain = run("--config", "c.toml", "--dry-run")
    assert plain.code == 0, plain.err
    assert "results/configured: 2 matrices x 2 formats x 2 types x 1 mode = 8 cases, 8 to measure" in plain.out
    changed = run("diag:5", "--config", "c.toml", "--dry-run", "--dtype", "f32", "--run", "mine")
    assert "results/mine: 1 matrix x 2 formats x 1 type x 1 mode = 2 cases" in changed.out


def test_a_configuration_that_converts_on_a_gpu_can_be_tried_without_one(run, tmp_path):
    (tmp_path / "c.toml").write_text('matrices = ["pde:4"]\nformats = ["ell"]\nmode = ["hot"]\nconvert = "device"\n')
    result = run("--config", "c.toml", "--device", "emulated", "--run", "tried")
    assert result.code == 0, result.err
    assert list(store.load(tmp_path / "results" / "tried")["status"]) == ["ok"]


def test_a_flag_of_a_configuration_is_set(run, tmp_path):
    (tmp_path / "c.toml").write_text('matrices = ["pde:4"]\nformats = ["csr-scalar"]\nreal_part = true\nspd = true\n')
    asked = run("--config", "c.toml", "--dry-run", "--set", "demo")
    assert asked.code == 0 and "no matrix" not in asked.err, asked.err
    words = "pde:4", "--formats", "csr-scalar", "--dry-run", "--set", "demo"
    assert asked.out == run(*words, "--spd", "--real-part").out != run(*words).out


@pytest.mark.parametrize("name", ["demo", "h200", "survey"])
def test_the_ready_made_configurations_can_be_run_without_a_network(command, tmp_path, monkeypatch, name):
    def unreachable(*args, **conditions):
        raise download.Unreachable("no network in this test")

    monkeypatch.setattr(suitesparse, "search", unreachable)
    monkeypatch.chdir(tmp_path)
    result = command("run", "--config", name, "--dry-run")
    assert result.code == 0, result.err
    assert "to measure" in result.out


def test_a_family_among_the_formats_is_told_in_one_line(run):
    result = run("pde:4", "--dry-run", "--formats", "jad,DIA,ell", "--mode", "hot")
    assert (result.code, len(result.err.splitlines())) == (0, 1)
    assert result.err.startswith("DIA means the family DIA, ") and result.err.endswith("; plain DIA is dia\n")
    assert run("pde:4", "--dry-run", "-f", "csr-scalar,dia").err == ""


def test_a_dry_run_counts_and_writes_nothing(run, tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path_factory.mktemp("home")))  # nothing that others have fetched
    result = run("--set", "demo", "--dry-run", "--formats", "csr-sc*,csr-v*,coo-flat", "--mode", "hot,cold")
    assert result.code == 0
    assert "results/demo-emulated: 14 matrices x 3 formats x 1 type x 2 modes = 84 cases, 84 to measure" in result.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("selection", "device", "name"),
    [
        ({"sets": ["demo"]}, "emulated", "demo-emulated"),
        ({"groups": ["HB"]}, "cuda:1", "HB-cuda"),
        ({"matrices": ["HB/1138_bus", "a", "b"]}, "emulated-check", "HB_1138_bus+2-emulated-check"),
        ({"matrices": ["pde:16"]}, "cuda:0", "pde_16-cuda"),
        ({"matrices": ["../x/some file.mtx"]}, "emulated", "x_some_file.mtx-emulated"),
        ({"matrices": ["HB/bcs*"]}, "emulated", "HB_bcs-emulated"),
        ({"conditions": Conditions(spd=True)}, "emulated", "selection-emulated"),
        ({}, "emulated", "cache-emulated"),
    ],
)
def test_the_run_is_named_after_the_selection_and_device(selection, device, name):
    assert default_name(Selection(**selection), device) == name


def test_a_run_ends_with_a_table_and_continues_for_nothing(run, tmp_path):
    args = ["tridiag:64", "empty:4:5", "--formats", "csr-scalar,ell", "--budget", "0.001", "--results", "out"]
    first = run(*args)
    assert first.code == 0, first.err
    assert "EMULATED, f64 hot: results are verified, times are no measure of performance" in first.out
    assert "GFLOPS" not in first.out
    table = [line.split() for line in first.out.splitlines() if line.startswith(("csr-scalar", "ell"))]
    assert [(line[0], line[-1]) for line in table] == [("csr-scalar", "2/2"), ("ell", "2/2")]
    folder = tmp_path / "out" / "tridiag_64+1-emulated"
    assert first.out.endswith(f"Next: spmvbench report {folder.relative_to(tmp_path)} --emulated\n")
    assert len(store.load(folder)) == 4

    second = run(*args)
    assert "4 cases, 4 measured already, 0 to measure" in second.out
    assert [line for line in second.out.splitlines() if line.startswith(("csr-scalar", "ell"))]
    assert "4 cases, 4 to measure" in run(*args, "--fresh", "--dry-run").out


@pytest.mark.slow
def test_rows_that_went_away_while_the_run_went_on_are_missed(run, tmp_path, monkeypatch):
    compact = store.compact

    def lose_one(folder):
        lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
        (folder / "rows.jsonl").write_text("".join(lines[1:]))
        compact(folder)

    monkeypatch.setattr(store, "compact", lose_one)
    args = ["tridiag:9", "--formats", "csr-scalar,ell", "--run", "r", "--budget", "0.001"]
    lost = run(*args)
    assert lost.code == 1 and "1 of 2 rows are missing in results/r" in lost.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert "1 measured already, 1 to measure" in run(*args).out


def test_without_a_gpu_auto_says_so_in_one_line(command, tmp_path, monkeypatch):
    from spmvbench.devices import cuda

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "no GPU in this test")
    result = command("run", "tridiag:9", "--dry-run")
    assert result.code == 0
    assert result.err.count("\n") == 1
    assert "no GPU in this test" in result.err
    assert "tridiag_9-emulated" in result.out
    monkeypatch.setattr(cuda, "why_unavailable", lambda: None)
    assert "tridiag_9-cuda" in command("run", "tridiag:9", "--dry-run").out


def test_without_a_compiler_the_reason_is_one_line(run, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    result = run("tridiag:9")
    assert result.code in (1, 2)
    assert result.err.count("\n") == 1
    assert "/nowhere/c++" in result.err


def test_what_is_selected_is_fetched_and_what_is_too_much_has_a_command(run, mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    dry = run("HB/bcsstk01", "--dry-run")
    assert (dry.code, dry.err) == (0, "To be fetched first: HB/bcsstk01\n")
    assert "1 matrix x" in dry.out
    assert not (tmp_path / "home" / "MM").exists()
    group = run("--group", "HB", "--max-nnz", "50", "pde:3", "--formats", "ell", "--run", "r")
    assert group.code == 0, group.err
    assert "Fetching: HB/" in group.err
    monkeypatch.setattr("spmvbench.matrices.selection.UNASKED_ENTRIES", 1000)
    left = run("--group", "HB", "--min-nnz", "40", "pde:3", "HB/bcsstm*", "--limit", "200", "--dry-run")
    assert left.code == 0
    fetch = "spmvbench fetch 'HB/bcsstm*' --group HB --min-nnz 40 --limit 200"
    assert left.err.endswith(f"matrices; to fetch them: {fetch}\n")
    assert "did you mean HB" in run("--group", "hb", "--dry-run").err
    none = run("--group", "Bai", "--dry-run")
    assert none.code == 1
    assert "spmvbench fetch --group Bai" in none.err


def test_without_a_selection_the_cache_is_run(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    for name in ("a", "b"):
        path = suitesparse.location("HB", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    dry = run("--formats", "tile,csr5,hyb", "--dry-run")
    assert (dry.code, dry.err) == (0, "No matrix is named: the 2 in the cache are selected\n")
    assert "results/cache-emulated: 2 matrices x 3 formats" in dry.out
    assert "1 matrix x 3 formats" in run("--formats", "tile,csr5,hyb", "--dry-run", "--limit", "1").out


def test_a_run_in_which_every_case_is_skipped_has_not_succeeded(run):
    result = run("pde:4", "--formats", "cusparse-coo", "--run", "r")
    assert result.code == 1 and "Nothing was measured: every case was skipped." in result.out
    assert run("pde:4", "--formats", "cusparse-coo,ell", "--run", "r").code == 0


def test_many_matrices_that_are_not_to_be_had_are_one_line_with_their_number(run, tmp_path, monkeypatch, caplog):
    """Of a folder that lacks them, and of an address that does not answer, with an index at hand that is old."""
    names = [f"HB/m{i}" for i in range(6)]
    lines = "".join(f"{name.replace('/', ',')},1,1,1,1,0,0,0,1,1,x,1\n" for name in names)
    for folder in ("mirror/MM", "mirror/files", "home/files"):
        (tmp_path / folder).mkdir(parents=True)
    for place in ("mirror", "home"):
        (tmp_path / place / "files/ssstats.csv").write_text("6\ndate\n" + lines)
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(tmp_path / "mirror"))
    asked = run(*names, "--formats", "ell")
    assert asked.code == 1
    assert asked.err == (
        "Fetching: HB/m0, HB/m1, HB/m2 and 3 more\nError: HB/m0, HB/m1, HB/m2 and 3 more: not found at the source\n"
    )
    monkeypatch.setenv("SPMVBENCH_MIRROR", "http://127.0.0.1:9")

    def no_answer(entries):
        raise download.Unreachable("cannot reach it")  # the retries of the real one take seconds

    monkeypatch.setattr(suitesparse, "fetch", no_answer)
    os.utime(tmp_path / "home/files/ssstats.csv", (0, 0))
    suitesparse._say_old.cache_clear()
    asked = run(*names, "--formats", "ell")
    assert asked.err == "Fetching: HB/m0, HB/m1, HB/m2 and 3 more\nError: cannot reach it\n"
    assert ["Cannot renew" in record.getMessage() for record in caplog.records] == [True]


def test_filters_hold_for_what_is_generated(run):
    few = ("--max-nnz", "500", "--dry-run")
    assert "1 matrix x" in run("pde:3", "synthetic/pde:9", *few).out
    assert run("pde:9", *few).err == "Error: no matrix meets the conditions: relax --max-nnz\n"


@pytest.mark.slow
def test_an_estimate_goes_by_the_rows_that_there_are_and_a_sample_is_of_all_sizes(run):
    few = [f"tridiag:{n}" for n in (9, 10, 11, 50, 51, 52, 500, 501, 502)]
    args = (*few, "--formats", "csr-scalar", "--run", "r")
    assert run(*args, "--sample", "3").code == 0
    names = [int(name.partition(":")[2]) for name in store.load("results/r")["name"]]
    assert [name // 10 > 1 for name in sorted(names)] == [False, True, True] and max(names) >= 500
    told = run(*args, "--dry-run", "--estimate", "--workers", "2").out
    assert "9 cases, 3 measured already, 6 to measure" in told
    assert "By 3 cases on 3 matrices:" in told
    assert "on one GPU about" in told and "on 2 GPUs about" in told


def test_a_gpu_that_is_not_there_leaves_nothing_behind(command, tmp_path, monkeypatch):
    from spmvbench.devices import cuda

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cuda, "why_unavailable", lambda ordinal=0: "CuPy is not installed")
    result = command("run", "pde:3", "--device", "cuda:0")
    assert (result.code, result.out, result.err) == (1, "", "Error: CuPy is not installed\n")
    assert not (tmp_path / "results").exists()
    typo = command("run", "pde:3", "--formats", "csr-vectr")
    assert len(typo.err.splitlines()) == 1  # no word of emulation before what is wrong


def test_the_table_of_a_gpu_shows_speed_wins_and_the_worst_case(capsys):
    rows = store_rows(
        ("a", "csr-vector", "ok", 2e-6),
        ("b", "csr-vector", "ok", 2e-6),
        ("a", "ell", "ok", 1e-6),
        ("b", "ell", "ok", 8e-6),
        ("a", "dia", "wrong", 1e-9),
    )
    echo_results(rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "cuda:0, f64 hot"
    head = ["format", "mean", "slowdown", "wins", "GFLOPS", "worst", "case", "verified", "skipped", "wrong", "failed"]
    assert lines[2].split() == head
    assert lines[3].split() == ["csr-vector", "1.41x", "1", "1000", "2x", "on", "G/a", "2/2"]
    assert lines[4].split() == ["ell", "2.00x", "1", "707.1", "4x", "on", "G/b", "2/2"]
    assert lines[5].split() == ["dia", "0", "0/1", "1"]
    assert lines[-1] == "wrong: G/a dia f64 hot: because"


def test_formats_that_are_known_not_to_repeat_their_bits_are_left_out(run):
    """csr-ans adds by atomics and was seen to differ, as was csr5 without sum=fixed, and csr-lanes with A^T alone."""
    words = ("pde:4", "--formats", "csr-ans,csr5,csr5[sum=fixed],csr-lanes", "--dry-run", "--deterministic")
    found = run(*words).out
    assert "1 matrix x 2 formats" in found
    assert "Left out, for other bits in products with the same x: csr-ans, csr5\n" in found
    assert "csr-ans, csr-lanes spmv-t@1, csr5\n" in run(*words, "--op", "spmv,spmv-t@1").out
    failed = run("pde:4", "--formats", "csr5", "--deterministic")
    assert failed.code == 2 and "leaves no format" in failed.err


def test_new_values_are_timed_if_asked_for(run):
    """csr-ans compresses values, and takes none in place."""
    words = ("rmat:6:6", "--formats", "csr5,sell-c-sigma,csr-ans", "--run")
    assert run(*words, "a", "--update").code == run(*words, "b").code == 0
    assert (store.load("a").set_index("label")["t_update"] > 0).to_dict() == {
        "csr5": True, "sell-c-sigma": True, "csr-ans": False,
    }  # fmt: skip
    assert store.load("b")["t_update"].isna().all()
    assert "this run has none" in run("rmat:6:6", "--formats", "csr5", "--op", "spmm@2", "--update").err


def test_the_table_tells_whose_kernel_ran_and_what_is_another_name(capsys):
    rows = store_rows(("a", "csr5", "ok", 1e-6), ("a", "csr5[kernel=paper]", "ok", 2e-6), ("a", "bell", "ok", 2e-6))
    flags = {"project_kernel": [True, False, False], "compresses_values": [False, False, True]}
    echo_results(rows.assign(**flags, alias_of=["", "", "csr5[kernel=paper]"]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["format", "kernel"]
    assert lines[3].split()[:4] == ["csr5", "project", "1.00x", "1"]
    assert lines[4].split()[:3] == ["csr5[kernel=paper]", "2.00x", "0"]
    assert lines[5].split()[:7] == ["bell", "=", "csr5[kernel=paper],", "values", "compressed", "0", "1/1"]
    assert "project marks this project's" in lines[-4] and "values compressed" in lines[-1]


def test_ties_are_shown_and_reasons_of_skipped_cases_counted(capsys):
    rows = store_rows(
        ("a", "ell", "ok", 1e-6),
        ("a", "sell", "ok", 1.004e-6),
        ("a", "dia", "skipped", float("nan")),
        ("b", "dia", "skipped", float("nan")),
        ("b", "hdi", "skipped", float("nan")),
    )
    sizes = ["", "", "3 GB, over the limit of 2 GB", "12 TB, over the limit of 2 GB", "4 GB, over the limit of 2 GB"]
    echo_results(rows.assign(reason=sizes))
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:5] == ["ell", "1.00x", "0", "+1", "tied"]
    assert lines[4].split()[:5] == ["sell", "1.00x", "0", "+1", "tied"]
    assert lines[-1] == "skipped 3: ..., over the limit of 2 GB (dia 2, hdi 1)"


def test_other_bits_are_those_of_an_operation(capsys):
    rows = store_rows(("a", "ell", "ok", 1e-6), ("b", "ell", "ok", 1e-6), ("a", "csr5", "ok", 1e-6))
    echo_results(rows.assign(op=["spmv", "spmm-t@2", "spmv"], same_bits=["yes", "no", "no"], float_atomics="yes"))
    out = capsys.readouterr().out
    assert "\nOther bits in products with the same x, they add by atomics: csr5, ell spmm-t@2\n" in out
    assert "\nThe same bits although they add by atomics, here: ell\n" in out


def test_a_table_is_no_wider_than_the_terminal(capsys, monkeypatch):
    long = "tile-deferred-coo[coo=12,preset=paper,te=0.2]"
    rows = store_rows(("a-matrix-with-a-long-name", long, "ok", 2e-6), ("a-matrix-with-a-long-name", "ell", "ok", 1e-6))
    echo_results(rows)
    assert long in capsys.readouterr().out  # a file is as wide as it has to be
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    echo_results(rows)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    table = lines[2 : lines.index("", 2)]
    assert max(map(len, table)) <= 110
    assert any(line.startswith("tile-defer") and "..." in line for line in table)


def store_rows(*cases):
    return pd.DataFrame(
        row(name, label, seconds, status=status, reason="" if status == "ok" else "because\nof this")
        for name, label, status, seconds in cases
    )


BAD = "%%MatrixMarket matrix coordinate real general\n3 3 9\n1 1 1.0\n"
COMPLEX = "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.0 2.0\n"


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("bad.mtx", BAD, 2, "bad.mtx cannot be read as Matrix Market"),
        ("bad.mtx", "nothing", 2, "bad.mtx cannot be read as Matrix Market"),
        ("complex.mtx", COMPLEX, 1, "complex.mtx is complex"),
        ("nix.mtx", None, 2, "there is no file"),
        ("pde:x", None, 2, "cannot read 'pde:x'"),
    ],
)
def test_what_cannot_be_read_ends_run_and_advise_alike(command, tmp_path, monkeypatch, name, text, code, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    for words in (["run", name, "--device", "emulated"], ["advise", name], ["info", name]):
        result = command(*words)
        assert (result.code, result.out) == (code, ""), result.err
        assert said in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_without_a_gpu_the_default_is_one_format_per_storage_idea_and_says_how_to_have_all(run, command):
    result = run("tridiag:9", "--dry-run")
    assert result.code == 0
    assert result.out.endswith("one format per storage idea; --formats all takes minutes\n")
    assert "1 matrix x 17 formats x 1 type x 1 mode = 17 cases" in result.out
    everything = run("tridiag:9", "--dry-run", "--formats", "all")
    assert "one format per storage idea" not in everything.out
    assert int(re.search(r"(\d+) formats", everything.out)[1]) > 100
    several = run("tridiag:9", "--dry-run", "--op", "spmm@2,cg@3,pair")  # by the same formats
    assert "x 17 formats x" in several.out and "one format per storage idea" in several.out
    searches = run("tridiag:9", "--dry-run", "--op", "bfs")  # by formats of their own
    assert "one format per storage idea" not in searches.out and searches.code == 0
