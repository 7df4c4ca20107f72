"""The RO-Crate of the published runs is that of their files."""

import hashlib
import json
from pathlib import Path

import pytest

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.publishing import crate
from spmvbench.rows import files, store
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row
from tests.made import row

PUBLISHED = Path(spmvbench.__file__).parents[1] / "results" / "published"


@pytest.fixture(scope="module")
def entities():
    return {one["@id"]: one for one in json.loads((PUBLISHED / crate.NAME).read_text(encoding="utf-8"))["@graph"]}


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="needs a checkout (git clone)")
class TestPublished:
    def test_it_is_what_the_command_writes(self):
        written = (PUBLISHED / crate.NAME).read_text(encoding="utf-8")
        assert written == crate.text(PUBLISHED), "python -m spmvbench.publishing crate results/published"

    def test_every_run_and_every_file_is_described(self, entities):
        runs = {f"{path.parent.name}/" for path in PUBLISHED.glob("*/rows.parquet")}
        assert {part["@id"] for part in entities["./"]["hasPart"]} == runs | {"matrices.parquet"} and len(runs) > 5
        for run in runs:
            listed = {part["@id"] for part in entities[run]["hasPart"]}
            assert listed == {f"{run}{path.name}" for path in (PUBLISHED / run).iterdir() if path.is_file()}
            card = "#nvidia-h200" if run.startswith("h200") else "#nvidia-h100-80gb-hbm3"
            assert entities[run]["instrument"] == [{"@id": card}] and entities[run]["description"], run

    def test_files_have_their_hashes(self, entities):
        about = entities["h200-headline/rows.parquet"]
        content = (PUBLISHED / "h200-headline" / "rows.parquet").read_bytes()
        assert about["sha256"] == hashlib.sha256(content).hexdigest()
        assert about["contentSize"] == str(len(content))

    def test_references_lead_to_entities(self, entities):
        def references(value):
            if isinstance(value, dict):
                if set(value) == {"@id"}:
                    yield value["@id"]
                for inner in value.values():
                    yield from references(inner)
            elif isinstance(value, list):
                for inner in value:
                    yield from references(inner)

        named = {name for one in entities.values() for name in references(one)}
        assert named - entities.keys() == {crate.SPECIFICATION}
        root, descriptor = entities["./"], entities[crate.NAME]
        assert descriptor["about"] == {"@id": "./"} and descriptor["conformsTo"]["@id"] == crate.SPECIFICATION
        assert all(root[name] for name in ("name", "description", "datePublished", "license"))


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        crate.text(tmp_path)


def test_descriptions_are_shared_and_what_the_crate_has_is_not_packed_again(tmp_path, monkeypatch):
    for run, matrices in (("a", ("1" * 9, "2" * 9)), ("b", ("2" * 9,))):
        (tmp_path / run).mkdir()
        store.append_session(tmp_path / run, {"started": "2026-01-01"})
        for name in matrices:
            store.append(tmp_path / run, row(name, "ell", 1e-5, case_id=name, matrix_sha256=name))
            store.describe(tmp_path / run, blank_row(MATRIX_COLUMNS) | {"matrix_sha256": name})
        store.compact(tmp_path / run)
    monkeypatch.setattr("sys.argv", ["crate", str(tmp_path)])
    crate.main()
    assert [path.name for path in sorted(tmp_path.glob("**/*.parquet"))] == ["rows.parquet"] * 2 + ["matrices.parquet"]
    assert [len(store.matrices(tmp_path / run)) for run in "ab"] == [2, 1]
    monkeypatch.setattr(files, "write", None)
    crate.main()
