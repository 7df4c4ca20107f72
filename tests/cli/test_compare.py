"""`spmvbench compare` on run folders written by the store; no kernel runs."""

import pytest

from tests.made import write_run


@pytest.fixture
def write(tmp_path):
    """Writes a run under results: seconds by (matrix, label); a text in their place is a status."""

    def written(run, times, driver="580", **columns):
        cases = [(*case, t) for case, t in times.items()]
        about = {"started": run, "properties": {"driver": driver}}
        write_run(tmp_path / run, cases, about, work=2_000_000, device_name="a device", **columns)

    return written


OLD = {("a", "ell"): 1e-5, ("b", "ell"): 1e-5, ("a", "sell[C=32,sigma=1]"): 1e-5}


@pytest.fixture
def compare(command, tmp_path):
    return lambda *args: command("compare", "--results", tmp_path, *args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "args", "code"),
    [
        (OLD, [], 0),
        (OLD | {("a", "ell"): 0.5e-5}, [], 0),
        (OLD | {("a", "ell"): 1.2e-5}, [], 3),
        (OLD | {("a", "ell"): 1.2e-5}, ["--threshold", "25%"], 0),
        (OLD | {("a", "ell"): 1.01e-5}, ["--threshold", "0.5"], 3),
        (OLD | {("a", "ell"): 1.2e-5}, ["--format", "sell*"], 0),
        (OLD | {("a", "ell"): 1.2e-5}, ["--format", "sell[C=32,sigma=1]"], 0),
        (OLD | {("a", "ell"): 1.2e-5}, ["--format", "sell,ell"], 3),
        (OLD | {("a", "ell"): "wrong"}, [], 4),
        (OLD | {("a", "ell"): "wrong", ("b", "ell"): 9e-5}, [], 4),
        ({("a", "ell"): 1e-5}, [], 4),
        ({("a", "ell"): 1e-5, ("b", "ell"): 1e-5}, ["--format", "ell"], 0),
        (OLD | {("c", "ell"): 1e-5}, [], 0),
    ],
)
def test_exit_code_says_what_was_found(compare, write, new, args, code):
    write("old", OLD)
    write("new", new)
    result = compare("old", "new", *args)
    assert result.code == code, result.out + result.err


def test_what_is_said(compare, write):
    write("old", OLD | {("c", "ell"): 1e-5, ("d", "ell"): 1e-5})
    new = {("a", "ell"): 2e-5, ("b", "ell"): 1e-5, ("c", "ell"): "crashed: it broke", ("a", "sell[C=32,sigma=1]"): 1e-5}
    write("new", new | {("e", "ell"): 1e-5}, driver="590", source_hash="ee")
    out = compare("old", "new").out
    lines = [line.split() for line in out.splitlines()]
    order = ["Driver differs: 580 before, 590 after", "The sources of 2 formats differ", "Slower: 1", "Missing: 1"]
    places = [out.index(text) for text in (*order, "Failed: 1", "New: 1", "By format", "By matrix")]
    assert places == sorted(places)
    assert ["G/a", "ell", "f64", "hot", "10", "us", "20", "us", "2.000", "1.873-2.136"] in lines
    assert "  ell f64 hot: G/d\n" in out and "  ell f64 hot: G/c: crashed: it broke\n" in out
    assert "6 cases: 1 slower, 2 same, 1 missing, 1 failed, 1 new. Threshold: 6.8 %" in out
    assert "Same: 2" not in out and "Same: 2" in compare("old", "new", "--all").out
    write("copy", OLD | {("c", "ell"): 1e-5, ("d", "ell"): 1e-5})
    copied = compare("old", "copy").out
    assert "Nothing differs: every case" in copied and "5 cases: 5 same" in copied and "G/a" not in copied


def test_another_program_and_other_bits_of_the_same_one_are_said(compare, write):
    for name, program, bits in (("old", "a", "1f"), ("again", "a", "2f"), ("tuned", "b", "2f")):
        write(name, OLD | ({("a", "ell"): 2e-5} if name == "tuned" else {}), program=program, result_bits=8 * bits)
    again, tuned = (compare("old", name).out for name in ("again", "tuned"))
    assert "3 cases gave other bits with the same x, by the same program: ell, sell" in again
    assert "other bits" not in tuned and "another program" not in again
    assert "3 cases ran another program of the same sources" in tuned and ": ell, sell[C=32,sigma=1]\n" in tuned
    assert next(line for line in tuned.splitlines() if "1.873-2.136" in line).rstrip().endswith("another")


def test_emulated_runs_are_compared_by_their_answers(compare, write):
    write("old", OLD, device="emulated")
    write("new", OLD | {("a", "ell"): 9e-5}, device="emulated")
    result = compare("old", "new")
    assert result.code == 0 and "3 untimed" in result.out and "Slower" not in result.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["odl", "new"], 2, "there is no run 'odl'"),
        (["old", "none"], 2, "there is no run 'none'"),
        (["old", "empty"], 1, "holds no rows yet"),
        (["old", "other"], 2, "have no case in common"),
        (["old", "old"], 2, "are the same run"),
        (["old", "new", "--format", "el"], 2, "holds a format 'el'; did you mean ell"),
        (["old", "new", "--format", ","], 2, "name something with --format"),
        (["old", "new", "--threshold", "much"], 2, "is not a percentage"),
        (["old", "new", "--threshold", "-1"], 2, "is not a percentage"),
        (["old"], 2, "name a second run, or two formats of this one"),
        (["old", "--format", "ell"], 2, "takes two formats"),
        (["old", "--format", "ell,ell*"], 2, "both words mean ell"),
        (["old", "--format", "ell,csr5"], 2, "holds no format 'csr5'"),
        (["old", "new", "--beside", "other"], 2, "--beside adds rows to one run"),
        (["old", "--format", "ell,sell*", "--beside", "other"], 2, "other has no row of these matrices"),
    ],
)
def test_wrong_input_is_said(compare, write, tmp_path, args, code, said):
    write("old", OLD)
    write("new", OLD)
    write("other", OLD, dtype="f32")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "rows.jsonl").touch()
    result = compare(*args)
    assert result.code == code and said in result.err and result.out == ""


def test_a_report_of_both_names_compare(command, write, tmp_path):
    write("old", OLD)
    write("new", OLD)
    write("other", OLD, dtype="f32")
    args = ("--results", tmp_path, "--figures", "bytes", "--out", tmp_path / "out")
    result = command("report", "old", "new", *args)
    assert result.code == 2 and "and 2 cases more" in result.err
    assert f"spmvbench compare {tmp_path / 'old'} {tmp_path / 'new'}" in result.err
    assert command("report", "old", "other", *args).code == 0
