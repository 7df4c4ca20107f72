import csv

import pytest

from spmvbench.errors import UsageError
from spmvbench.matrices import sets, synthetic
from spmvbench.matrices.selection import Selection


def test_names_and_unknown_names():
    assert set(sets.names()) >= {"demo", "h200", "survey34", "tilespmv16", "tilespmspv12", "ehyb92"}
    with pytest.raises(UsageError, match="did you mean survey34"):
        sets.members("survey43")


@pytest.mark.parametrize("name", sets.names())
def test_sets_are_sound(name):
    chosen = sets.get(name)
    assert chosen.title
    assert chosen.source
    members = list(chosen.matrices) + list(chosen.files)
    assert len(members) == len(set(members)) > 0
    for member in members:
        if synthetic.is_spec(member):
            synthetic.parse(member)
        else:
            assert member.count("/") == (member not in chosen.files)


@pytest.mark.parametrize(
    ("name", "count"), [("survey34", 34), ("tilespmv16", 16), ("tilespmspv12", 12), ("ehyb92", 92)]
)
def test_sets_of_papers_are_complete(name, count):
    assert len(sets.members(name)) == count


def test_sets_of_files_are_those_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv(sets.FILES, str(tmp_path))
    assert len(sets.get("mittelmann49").files) == 49 and len(sets.get("miplib18").files) == 18
    with pytest.raises(UsageError, match=r"SPMVBENCH_FILES names no folder with a2864-99blp\.mps"):
        sets.members("miplib18")
    text = "NAME T\nROWS\n N c\n E r\nCOLUMNS\n x r 2\n x c 1\nRHS\n RHS r 1\nENDATA\n"
    (tmp_path / "dlr1.mps").write_text(text)
    told: list[str] = []
    (found,) = Selection(sets=("miplib18",)).find(notify=told.append)
    assert found.name == "dlr1.mps" and found.read().toarray() == [[2.0]]
    assert told == ["Left out because not in the folder of SPMVBENCH_FILES: 17 of miplib18, such as a2864-99blp"]


def test_demo_is_small_and_needs_no_network():
    demo = sets.get("demo")
    kinds = {synthetic.parse(spec)[0] for spec in demo.matrices}
    assert len(kinds) >= 12
    assert all(synthetic.generate(spec).nnz <= 20_000 for spec in demo.matrices)


def test_names_are_the_collections(mirror):
    with open(mirror / "files/ssstats.csv", newline="") as file:
        known = {"/".join(row[:2]) for row in csv.reader(file) if len(row) > 2}
    for name in sets.names():
        unknown = {m for m in sets.get(name).matrices if not synthetic.is_spec(m)} - known
        assert not unknown
