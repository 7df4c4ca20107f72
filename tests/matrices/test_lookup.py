import re
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

import spmvbench
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import Matrix, load, lookup, resolve, sets, suitesparse, synthetic
from spmvbench.matrices.conditions import Conditions
from spmvbench.matrices.download import Unreachable
from tests.archives import packed

MARKET = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 {}\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPMVBENCH_MIRROR", raising=False)
    return tmp_path / "home"


@pytest.fixture
def offline(home, monkeypatch):
    """No index here and nobody to ask."""

    def search(*_, **__):
        raise Unreachable("no network")

    monkeypatch.setattr(suitesparse, "search", search)
    monkeypatch.setattr(suitesparse, "index", lambda network: [])


@pytest.fixture
def collection(home, mirror, monkeypatch):
    """The mirror's index, and three of its matrices fetched."""
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(mirror))
    for group, name in [("HB", "1138_bus"), ("HB", "west0479"), ("Pajek", "GD96_c")]:
        target = suitesparse.location(group, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(mirror / "MM" / group / f"{name}.tar.gz", target)


def ids(found):
    return [matrix.id for matrix in found]


def test_generated_and_files_need_no_index(offline, tmp_path):
    path = tmp_path / "own.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n1 2 1\n1 2 2.5\n")
    found, missing = resolve(["pde:3", str(path), "pde:3"], sets=["demo"])
    assert ids(found)[:2] == ["synthetic/pde:3", "file/own.mtx"]
    assert len(found) == len(set(ids(found)))
    assert "synthetic/pde:12" in ids(found)
    assert not missing
    assert found[0].kind == "pde"
    np.testing.assert_array_equal(found[1].read().toarray(), [[0, 2.5]])
    assert load("pde:3").shape == (27, 27)
    for given in (str(path), path):
        assert spmvbench.load(given).nnz == spmvbench.operator(given).shape[0] == 1
        assert spmvbench.advise(given).choice


def test_files_of_one_name_are_matrices_of_their_own(offline, tmp_path):
    paths = [tmp_path / folder / "m.mtx" for folder in ("a", "b", "x/c", "y/c")]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_text(f"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 {number // 2}\n")
    found, _ = resolve([*map(str, paths), str(paths[0].parent / ".." / "a" / "m.mtx")])
    assert ids(found) == ["file/a/m.mtx", "file/b/m.mtx", "file/x/c/m.mtx", "file/y/c/m.mtx"]
    assert [matrix.read().data.tolist() for matrix in found] == [[0], [0], [1], [1]]
    assert len({matrix.file_sha256 for matrix in found}) == 2
    assert resolve([str(paths[0])])[0][0].id == "file/m.mtx"


@pytest.fixture
def files_of_two(tmp_path, monkeypatch):
    """Files of 1 x 1 matrices, whose values are numbers of their own."""
    one, two = sp.csc_array([[1.0]]), sp.csc_array([[2.0]])
    savemat(tmp_path / "pair.mat", {"A": one, "B": two})
    savemat(tmp_path / "odd:A.mat", {"A": one, "B": two})
    savemat(tmp_path / "problem.mat", {"Problem": {"A": one}, "B": two})
    (tmp_path / "pair.mat:C").touch()
    texts = [MARKET.format(value).encode() for value in (1, 2)]
    (tmp_path / "set.tar.gz").write_bytes(packed(*zip(("s/a.mtx", "s/b.mtx"), texts, strict=True)))
    (tmp_path / "m.tar.gz").write_bytes(packed(*zip(("m/m.mtx", "m/m_b.mtx"), texts, strict=True)))
    (tmp_path / "one.mtx").write_text(MARKET.format(1))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pair.mat:A", 1),
        ("pair.mat:B", 2),
        ("./pair.mat:B", 2),
        ("odd:A.mat:B", 2),
        ("problem.mat", 1),
        ("problem.mat:B", 2),
        ("problem.mat:Problem.A", 1),
        ("set.tar.gz:s/b", 2),
        ("m.tar.gz", 1),
        ("m.tar.gz:m/m_b", 2),
        ("pair.mat", "pair.mat holds 2 matrices: add :A or :B to its name, as in pair.mat:A"),
        ("odd:A.mat", "odd:A.mat holds 2 matrices: add :A or :B to its name, as in odd:A.mat:A"),
        ("pair.mat:b", "pair.mat holds no matrix b: add :A or :B to its name, as in pair.mat:A"),
        ("pair.mat:C", "cannot tell what pair.mat:C is"),
        ("set.tar.gz", "set.tar.gz holds 2 matrices: add :s/a or :s/b to its name, as in set.tar.gz:s/a"),
        ("set.tar.gz:s/b.mtx", "set.tar.gz holds no matrix s/b.mtx: add :s/a or :s/b to its name"),
        ("one.mtx:A", "one.mtx holds one matrix, which has no name: leave out :A"),
        ("away.mat:A", "there is no file away.mat"),
    ],
)
def test_one_of_several_matrices_in_a_file_is_named(offline, files_of_two, name, expected):
    for _ in range(2):  # from the file, then from the cache
        if isinstance(expected, str):
            with pytest.raises(UsageError, match=re.escape(expected)):
                load(name)
        else:
            assert load(name).toarray().tolist() == [[expected]]
            ((matrix,), _) = resolve([name])
            assert matrix.id == f"file/{name.removeprefix('./')}"
            assert load(matrix.typed).toarray().tolist() == [[expected]]


def test_matrices_of_one_file_have_rows_of_their_own(offline, files_of_two, tmp_path):
    rows = spmvbench.run(
        ["pair.mat:A", "pair.mat:B"], "csr-scalar", device="emulated", mode="hot", dtype="f64", results=tmp_path / "r"
    )
    assert set(rows["name"]) == {"pair.mat:A", "pair.mat:B"} and set(rows["status"]) == {"ok"}
    assert rows["case_id"].nunique() == rows["matrix_sha256"].nunique() == len(rows) == 2


def test_a_file_edited_after_it_was_named_is_not_read_as_what_it_was(offline, tmp_path):
    path = tmp_path / "m.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n")
    ((matrix,), _) = resolve([str(path)])
    assert matrix.read().data.tolist() == [1]
    path.write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 12\n")
    with pytest.raises(SpmvbenchError, match=r"m\.mtx was edited after the run began"):
        matrix.read()
    assert resolve([str(path)])[0][0].read().data.tolist() == [12]


def test_conditions_hold_for_generated_matrices_and_files(offline, tmp_path):
    path, bad = tmp_path / "own.mtx", tmp_path / "bad.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 2\n2 1 -1\n2 2 1\n")
    bad.write_text("nothing of the kind")
    named = ["synthetic/pde:3", str(path), "poisson2d:4", "denserow:90"]

    def chosen(*more, **conditions):
        return [matrix.name for matrix in resolve([*named, *more], conditions=Conditions(**conditions))[0]]

    assert chosen() == ["pde:3", "own.mtx", "poisson2d:4", "denserow:90"]
    assert chosen(max_nnz=64) == ["own.mtx", "poisson2d:4"]
    assert chosen(min_nnz=64, max_nnz=135) == ["pde:3", "poisson2d:4"]
    assert chosen(kind="DE") == ["pde:3", "denserow:90"]
    assert chosen(spd=True) == ["own.mtx", "poisson2d:4"]
    assert chosen(spd=False) == ["pde:3", "denserow:90"]
    assert chosen(str(bad), spd=False) == ["pde:3", "denserow:90", "bad.mtx"]  # whoever reads it says what is wrong
    assert chosen(max_nnz=1) == []
    assert chosen(max_rows=16) == ["own.mtx", "poisson2d:4"]
    assert chosen(min_cols=16, name="d") == ["pde:3", "poisson2d:4", "denserow:90"]
    assert chosen(field="real") == chosen() and chosen(field="complex") == chosen(id=1) == chosen(is2d3d=False) == []


def test_entries_that_a_set_lists_are_not_counted(monkeypatch):
    """The largest take a minute, as long as generating them."""
    monkeypatch.setattr(synthetic, "entries", None)
    listed, small = sets.listed_entries(), Conditions(max_nnz=100_000)
    found = resolve([], sets=["applications"], conditions=small)[0]
    assert found and all(listed[matrix.name] <= 100_000 for matrix in found)


def test_names_without_index_are_missing_unless_they_are_here(offline):
    here = suitesparse.location("G", "here")
    here.parent.mkdir(parents=True)
    here.write_bytes(b"")
    found, missing = resolve(["G/away", "G/here"], sets=["survey34"])
    assert found[0] == Matrix("G", "here", "", "suitesparse", here, None)
    assert ids(found)[1:] == ["synthetic/pde:60", "synthetic/pde:80", "synthetic/pde:100"]
    assert missing[0] == "G/away"
    assert len(missing) == 32
    with pytest.raises(Unreachable):
        resolve(["away"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pde:0", "pde:0 has no rows"),
        ("rect:5:0:0", "empty:R:C"),
        ("no/such.mtx", r"no file no/such\.mtx"),
        ("pde", "a generated one is written pde:N"),
        ("poisson2d60", "a generated one is written poisson2d:60"),
        ("fem40", "a generated one is written fem:N:D"),
        ("mine", r"the file mine\.mtx is here"),
    ],
)
def test_mistyped_specs_and_files(offline, tmp_path, monkeypatch, text, message):
    (tmp_path / "mine.mtx").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        resolve([text])


def test_nothing_named(offline):
    for names in ([], [""]):
        with pytest.raises(UsageError, match="no matrix is named"):
            resolve(names)
    with pytest.raises(UsageError, match="there is no set 'dmo'; did you mean demo"):
        resolve(sets=["dmo"])


def test_names_keep_their_order(collection):
    found, missing = resolve(["HB/west0479", "pde:2", "HB/bcsstk01", "HB/1138_bus", "HB/west0479"])
    assert ids(found) == ["HB/west0479", "synthetic/pde:2", "HB/1138_bus"]
    assert missing == ["HB/bcsstk01"]
    assert (found[0].nnz, found[0].kind) == (1910, "chemical process simulation problem")


def test_globs_groups_and_conditions(collection):
    found, missing = resolve(["HB/w*"])
    assert ids(found) == ["HB/west0479"]
    assert "HB/west0067" in missing
    found, missing = resolve(groups=["HB"])
    assert ids(found) == ["HB/1138_bus", "HB/west0479"]
    assert len(found) + len(missing) == 292
    found, missing = resolve(["HB/1138_bus", "pde:2"], groups=["HB"], conditions=Conditions(max_nnz=100))
    assert ids(found) == ["synthetic/pde:2"]  # 32 entries
    assert "HB/bcsstm01" in missing
    found, _ = resolve(conditions=Conditions(kind="power network"))
    assert ids(found) == ["HB/1138_bus"]
    found, missing = resolve(groups=["HB"], limit=3)
    assert len(found) + len(missing) == 3
    assert ids(resolve(["west0479"])[0]) == ["HB/west0479"]


def test_load_fetches_what_is_not_here(collection):
    assert suitesparse.cached("HB", "nos4") is None
    assert load("HB/nos4").shape == (100, 100)
    assert suitesparse.cached("HB", "nos4")
    with pytest.raises(SpmvbenchError, match="cannot fetch Boeing/pwtk"):
        load("Boeing/pwtk")
    with pytest.raises(UsageError, match="is a glob"):
        lookup.obtain("HB/*")


def test_seed_and_real_part_reach_the_reader(collection):
    assert (load("Pajek/GD96_c", seed=1).data != load("Pajek/GD96_c").data).all()
    with pytest.raises(SpmvbenchError, match="is complex"):
        load("Bai/dwg961b")
    assert load("Bai/dwg961b", complex_values="real").nnz == 10591
