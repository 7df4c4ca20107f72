import os
import re
import subprocess
import sys
from dataclasses import astuple

import pytest

from spmvbench.matrices import suitesparse
from tests.archives import packed
from tests.cli.test_runs import complete

INDEX = """4
08-Oct-2020 17:09:58
HB,ant,10,10,30,1,0,0,1,1,1,power network problem,30
HB,bee,20,20,60,1,0,1,0,1,0.5,structural problem,64
Bai,ant,10,10,31,1,0,0,0,1,1,power network problem,31
Zoo,dog,60,60,600,1,0,0,1,1,1,thermal problem,600
"""


def pack(path, name, comment="", size=(10, 10, 30)):
    text = f"%%MatrixMarket matrix coordinate real general\n%{comment}\n{' '.join(map(str, size))}\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed((f"{name}/{name}.mtx", text)))


@pytest.fixture(autouse=True)
def mirror(tmp_path, monkeypatch):
    """A mirror with HB/ant and Zoo/dog of the four matrices of its index."""
    folder = tmp_path / "mirror"
    (folder / "files").mkdir(parents=True)
    (folder / "files/ssstats.csv").write_text(INDEX)
    pack(folder / "MM/HB/ant.tar.gz", "ant")
    pack(folder / "MM/Zoo/dog.tar.gz", "dog", size=(60, 60, 600))
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(folder))
    return folder


@pytest.fixture
def fetch(command):
    """Run the command; its exit code, output and errors."""
    return lambda *args: astuple(command("fetch", *args))


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_group_brings_what_is_there_and_counts_what_is_missing(fetch):
    code, out, err = fetch("--group", "HB")
    assert code == 1
    size = suitesparse.cached("HB", "ant").stat().st_size
    assert lines(out) == [f"fetched 1 {size} B", "cached 0", "missing 1 HB/bee"]
    assert err == ""
    code, out, _ = fetch("--group", "HB", "--missing-ok")
    assert code == 0
    assert lines(out) == ["fetched 0", "cached 1", "missing 1 HB/bee"]


def test_a_mirror_given_wins_over_the_environment(fetch, mirror, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", "/no/such/folder")
    assert fetch("HB/ant")[0] == 2
    assert fetch("HB/ant", "--mirror", str(mirror))[0] == 0
    assert suitesparse.cached_names() == [("HB", "ant")]


def test_dry_run_lists_and_fetches_nothing(fetch):
    fetch("Zoo/dog")
    code, out, _ = fetch("--min-nnz", "31", "--dry-run")
    assert code == 0
    assert lines(out) == [
        "matrix rows cols entries",
        "HB/bee 20 20 64",
        "Bai/ant 10 10 31",
        "Zoo/dog 60 60 600 cached",
        "3 matrices, 695 entries by the index, 1 cached",
    ]
    assert suitesparse.cached_names() == [("Zoo", "dog")]


def test_generated_matrices_need_no_fetching(fetch, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", "/no/such/folder")
    code, out, err = fetch("pde:60", "rmat:10:8")
    assert (code, err) == (0, "")
    assert out == "Nothing to fetch for pde:60, rmat:10:8: generated when needed.\n"


def test_a_set_is_its_real_matrices(fetch, monkeypatch):
    from spmvbench.matrices import sets

    monkeypatch.setattr(sets, "members", lambda name: {"zoo": ["Zoo/dog", "pde:12", "HB/ant"]}[name])
    code, out, _ = fetch("--set", "zoo")
    assert code == 0
    assert "Nothing to fetch for pde:12" in out
    assert suitesparse.cached_names() == [("HB", "ant"), ("Zoo", "dog")]


def test_unsound_archives_fail_with_reasons_and_the_rest_is_fetched(fetch, mirror):
    (mirror / "MM/HB/ant.tar.gz").write_bytes(b"<html>moved</html>")
    code, out, _ = fetch("*/ant", "Zoo/dog", "--missing-ok")
    assert code == 1
    assert lines(out)[-2:] == ["failed 1", "HB/ant: ant.tar.gz is not an archive: it is an HTML page"]
    assert suitesparse.cached_names() == [("Zoo", "dog")]


def test_another_hash_on_a_mirror_is_one_line_for_all(fetch, monkeypatch):
    monkeypatch.setattr(suitesparse, "_sha256", lambda: {"HB/ant": "0" * 64, "Zoo/dog": "0" * 64})
    code, _, err = fetch("HB/ant", "Zoo/dog")
    assert code == 0
    assert len(err.splitlines()) == 1
    assert "Warning: 2 of the mirror's archives" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "nothing to fetch: name group/name"),
        (["--limit", "3"], "nothing to fetch: name group/name"),
        (["--group", "Zooo"], "no group Zooo; did you mean Zoo?"),
        (["HB/bea"], "did you mean HB/bee"),
        (["ant"], "say HB/ant or Bai/ant"),
        (["--set", "no-such-set"], "no-such-set"),
        (["--kind", "astrology"], "no matrix of the collection meets these conditions"),
        (["HB/ant", "--mirror", "ftp://host"], "neither an http(s) address nor a folder"),
        (["HB/ant", "--jobs", "0"], "--jobs"),
        (["--min-nnz", "many"], "--min-nnz"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_wrong_command_is_one_clear_sentence_and_code_2(fetch, args, message):
    code, out, err = fetch(*args)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_no_network_names_the_address_and_the_ways_on(fetch, monkeypatch):
    monkeypatch.delenv("SPMVBENCH_MIRROR")
    monkeypatch.setattr(suitesparse, "SITE", "http://127.0.0.1:9")
    monkeypatch.setitem(suitesparse.index.__kwdefaults__, "limits", suitesparse.Limits(tries=2, backoff=0.01))
    code, out, err = fetch("HB/ant")
    assert (code, out) == (1, "")
    assert err.startswith("Error: cannot reach http://127.0.0.1:9/files/ssstats.csv (")
    assert len(err.splitlines()) == 1 and "Connection refused" in err
    assert re.search(r"--mirror.*cached.*generated", err)


def test_disk_full_is_one_line_and_leaves_no_partial(tmp_path, mirror):
    pack(mirror / "MM/HB/ant.tar.gz", "ant", os.urandom(200_000).hex())
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    code = f"{limit}; from spmvbench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "fetch", "Zoo/dog", "HB/ant"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no space left for ")
    assert len(done.stderr.splitlines()) == 1
    assert not [path for path in (tmp_path / "home").rglob("*") if ".part" in path.name]
    assert ("HB", "ant") not in suitesparse.cached_names()


def test_two_commands_at_once_fetch_each_matrix_once(mirror):
    for i in range(40):
        pack(mirror / f"MM/Own/m{i}.tar.gz", f"m{i}", os.urandom(10_000).hex())
    command = [sys.executable, "-m", "spmvbench", "fetch", "--group", "Own"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outs = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    fetched = [int(re.search(r"fetched +(\d+)", out)[1]) for out in outs]
    present = [int(re.search(r"cached +(\d+)", out)[1]) for out in outs]
    assert sum(fetched) == fetched[0] + present[0] == fetched[1] + present[1] == 40
    assert len(suitesparse.cached_names()) == 40


def test_completion_comes_from_the_index_and_never_from_the_network(monkeypatch, fetch):
    assert complete("fetch", "HB/") == ["HB/ant", "HB/bee"]
    fetch("HB/ant")
    monkeypatch.delenv("SPMVBENCH_MIRROR")
    monkeypatch.setattr("socket.getaddrinfo", None)
    assert complete("fetch", "--group", "") == ["Bai", "HB", "Zoo"]
    assert complete("fetch", "Zoo/d") == ["Zoo/dog"]
    assert "survey34" in complete("fetch", "--set", "surv")
