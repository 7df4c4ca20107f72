import json
import os

import pytest

from spmvbench.rows.schema import COLUMNS


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))


def test_shows_features_histogram_and_picture(command):
    result = command("info", "tridiag:200")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "synthetic/tridiag:200 (tridiag)"
    values = {line.split()[0]: line.split()[1] for line in lines if line.split() and line.split()[0] in COLUMNS}
    assert (values["nnz"], values["bandwidth"], values["stored_zeros"]) == ("598", "1", "0")
    bars = {line.split()[0]: line for line in lines if "█" in line and "|" not in line and "%" not in line}
    assert set(bars) == {"2-3"}
    picture = [line[1:-1] for line in lines if line.startswith("|")]
    assert {len(line) for line in picture} == {64}
    assert len(picture) == 32
    for number, line in enumerate(picture):
        marked = [place for place, shade in enumerate(line) if shade != " "]
        assert min(marked) >= 2 * number - 1
        assert max(marked) <= 2 * number + 2
    assert lines[-1].endswith("%")


@pytest.mark.parametrize("spec", ["empty:0:0", "empty:3:0", "empty:0:3", "diag:1", "dense:1:500", "dense:500:1"])
def test_odd_shapes(command, spec):
    assert command("info", spec).code == 0


def test_an_application_names_its_source(command):
    lines = command("info", "fms:2").out.splitlines()
    assert lines[0] == "synthetic/fms:2 (fms)"
    assert lines[1].startswith("description: Flexible manufacturing system")
    assert [line.split(": ")[0] for line in lines[2:6]] == ["domain", "model", "licence", "pattern SHA-256"]
    assert "Ciardo" in lines[3]
    table = json.loads(command("info", "fms:2", "--json").out)
    assert (table["domain"], len(table["pattern_sha256"])) == ("manufacturing", 64)


def test_json(command):
    result = command("info", "rect:4:9:2", "--json")
    table = json.loads(result.out)
    assert (table["name"], table["source"], table["nnz"], table["pattern_symmetry"]) == (
        "rect:4:9:2",
        "synthetic",
        8,
        None,
    )
    assert {"shortest": 2, "longest": 3, "rows": 4} in table["row_lengths"]


@pytest.mark.parametrize("spec", ["rmat:8:4", "dense:3:3", "rect:2:5000:20", "diag:1200"])
def test_image(command, tmp_path, spec):
    path = tmp_path / "a.png"
    result = command("info", spec, "--image", path)
    assert (result.code, result.err) == (0, f"Wrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_image_that_cannot_be(command, tmp_path):
    result = command("info", "diag:5", "--image", tmp_path / "a.xyz")
    assert result.code == 2 and result.out == ""
    assert "xyz should end in .png, .svg or .pdf" in result.err
    assert command("info", "empty:2:2", "--image", tmp_path / "a.png").code == 1
    assert not list(tmp_path.iterdir())


def test_real_part(command, tmp_path):
    path = tmp_path / "c.mtx"
    path.write_text("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 2 3\n")
    assert command("info", path).code == 1
    assert command("info", path, "--real-part").code == 0


@pytest.mark.parametrize("name", [b"$a_{$.mtx", b"\xff\xfe.mtx", b"a\nb\x1b[2J.mtx", "Überraschung $ 1.mtx".encode()])
def test_a_file_may_have_any_name(command, tmp_path, name):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    with open(path, "w") as file:
        file.write("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 2\n")
    result = command("info", path, "--image", tmp_path / "a.png")
    assert (result.code, result.err) == (0, f"Wrote {tmp_path / 'a.png'}\n")
    assert result.out.splitlines()[0].isprintable()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["diag:5", "--seed", "-1"], 2),
        (["diag:5", "--seed", "x"], 2),
        (["dense:100000:100000"], 1),
        (["pde:" + "9" * 400], 2),
        (["rmat:30:2000000000"], 1),
        (["../../x/y"], 2),
        (["HB/../../y"], 2),
        (["/etc"], 2),
        (["a" * 5000], 2),
        ([""], 2),
    ],
)
def test_a_wrong_command_is_no_defect(command, monkeypatch, tmp_path, arguments, code):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/ssstats.csv").write_text("1\nnow\nHB,ant,1,1,1,1,0,0,0,1,1,x,1\n")
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(tmp_path))
    result = command("info", *arguments)
    assert (result.code, result.out) == (code, "")
    assert "defect" not in result.err
    assert len(result.err.strip().splitlines()) <= 4  # what click says of an option takes some
