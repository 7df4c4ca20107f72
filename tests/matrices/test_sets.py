import csv

import pytest

from spmvbench.errors import UsageError
from spmvbench.matrices import sets, synthetic


def test_names_and_unknown_names():
    assert set(sets.names()) >= {"demo", "h200", "survey34", "tilespmv16", "tilespmspv12", "ehyb92"}
    with pytest.raises(UsageError, match="did you mean survey34"):
        sets.members("survey43")


@pytest.mark.parametrize("name", sets.names())
def test_sets_are_sound(name):
    chosen = sets.get(name)
    assert chosen.title
    assert chosen.source
    members = sets.members(name)
    assert len(members) == len(set(members))
    for member in members:
        if synthetic.is_spec(member):
            synthetic.parse(member)
        else:
            assert member.count("/") == 1


@pytest.mark.parametrize(
    ("name", "count"), [("survey34", 34), ("tilespmv16", 16), ("tilespmspv12", 12), ("ehyb92", 92)]
)
def test_sets_of_papers_are_complete(name, count):
    assert len(sets.members(name)) == count


def test_demo_is_small_and_needs_no_network():
    demo = sets.get("demo")
    kinds = {synthetic.parse(spec)[0] for spec in demo.matrices}
    assert len(kinds) >= 12
    assert all(synthetic.generate(spec).nnz <= 20_000 for spec in demo.matrices)


def test_names_are_the_collections(mirror):
    with open(mirror / "files/ssstats.csv", newline="") as file:
        known = {"/".join(row[:2]) for row in csv.reader(file) if len(row) > 2}
    for name in sets.names():
        unknown = {m for m in sets.members(name) if not synthetic.is_spec(m)} - known
        assert not unknown
