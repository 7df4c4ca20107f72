import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats.admission import MissingLibrary, Skip
from spmvbench.measure.failures import Failure, failure_of
from spmvbench.paths import locked
from spmvbench.rows import files, folders, store, stored
from spmvbench.rows.schema import COLUMNS, MATRIX_COLUMNS, SCHEMA_VERSION, arrow_schema, blank_row


def row(case_id, **columns):
    return blank_row() | {"case_id": case_id, "status": "skipped"} | columns


def about(sha, **columns):
    return blank_row(MATRIX_COLUMNS) | {"matrix_sha256": sha} | columns


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results" / "a-run"


def test_every_column_survives_the_round_trip(folder):
    values = {"str": "text ∞", "int": 2**40 + 1, "int or null": 2**40, "float": 1.25e-6, "bool": True}
    clock = np.float32([0.01424, 0.014272, 0.01616, 0.014336])  # milliseconds of 7 SpMVs
    words = {"status": "ok", "dtype": "f64", "mode": "hot", "op": "spmv", "order": "rcm", "layout": "row"}
    words |= {"device": "cuda:0", "same_bits": "yes", "float_atomics": "no", "result_bits": "00c0ffee00c0ffee"}
    words |= {"started_at": "2026-01-01T10:00:00", "t_kernels": '{"text": 1.5}', "bytes_arrays": '{"a": 24, "b": 8}'}
    words |= dict.fromkeys(["params", "detail"], "{}") | {"schema_version": SCHEMA_VERSION}
    words |= {"repeats": 7, "samples": clock.astype(float) / 7e3, "rows": 4, "nnz": 16, "work": 32, "model_bytes": 64}
    written = {name: values.get(kind) for name, (kind, _) in COLUMNS.items()} | words
    store.append(folder, written)
    q1, median, q3 = np.quantile(words["samples"], [0.25, 0.5, 0.75])
    follow = {"n_samples": 4, "t_q1": q1, "t_median": median, "t_q3": q3, "bytes_format": 32, "bytes_per_nnz": 2.0}
    follow |= {"gflops": 32e-9 / median, "gbps": 64e-9 / median, "row_len_mean": 4.0, "row_len_cv": 1.25e-6 / 4}
    assert follow.keys() == set(stored.DERIVED)
    for _ in range(3):  # as lines, then merged, then merged again
        loaded = store.load(folder)
        assert list(loaded.columns) == list(COLUMNS)
        got = loaded.iloc[0].to_dict()
        assert got.pop("samples").tolist() == words["samples"].tolist()
        assert got == {name: value for name, value in written.items() if name != "samples"} | {
            name: pytest.approx(value, rel=1e-14) for name, value in follow.items()
        }
        store.compact(folder)
    kept = pq.read_table(folder / "rows.parquet")
    assert kept["samples_ticks"].to_pylist() == [[445, 446, 505, 448]] and kept["samples_ms"].to_pylist() == [[]]
    assert not set(stored.DERIVED) & set(kept.column_names)
    assert kept.schema.metadata == {b"schema_version": str(SCHEMA_VERSION).encode()}
    assert {field.name: field.metadata[b"meaning"].decode() for field in kept.schema} == {
        name: meaning for name, (_, meaning) in stored.STORED.items()
    }


def test_samples_that_are_no_ticks_stay_as_they_are(folder):
    """Of a host's clock, none, no numbers; a stranger's row of both kinds."""
    samples = [[3.2e-5, 6.4e-5], [3.2e-5, 1.23e-5], [9000.125], []]
    for place, each in enumerate(samples):
        store.append(folder, row(str(place), repeats=1, samples=each))
    clock = [np.float32(np.multiply(each, 1e3)).tolist() for each in samples]
    for _ in range(2):
        store.compact(folder)
        for found, each in zip(store.load(folder)["samples"], clock, strict=True):
            np.testing.assert_array_equal(found, np.array(each) / 1e3)
    kept = pq.read_table(folder / "rows.parquet")
    assert [len(ticks) for ticks in kept["samples_ticks"].to_pylist()] == [2, 0, 1, 0]
    odd = pa.table({"samples_ms": pa.array([[np.nan, 0.032], [np.inf, -1e30], None], pa.list_(pa.float32()))})
    assert stored.packed(odd)["samples_ticks"].to_pylist() == [[], [], []]
    assert (
        str(stored.unpacked(stored.packed(odd))["samples_ms"].to_pylist())
        == "[[nan, 0.03200000151991844], [inf, -1.0000000150474662e+30], []]"
    )
    both = kept.set_column(kept.column_names.index("samples_ms"), "samples_ms", pa.array([[1.0]] * 4))
    pq.write_table(both, folder / "rows.parquet")
    assert store.load(folder)["samples"][0].tolist() == pytest.approx([1e-3, 3.2e-5, 6.4e-5])


@pytest.mark.parametrize("merged", [False, True])
def test_what_follows_from_other_columns_cannot_be_forged(folder, merged):
    """A stranger's rows hold none of it, or it is computed again."""
    forged = row("a", samples=[2e-6] * 3, repeats=1, work=4, t_median=1e-9, gflops=1e6, bytes_arrays='{"a": 8}', nnz=2)
    store.append(folder, forged | {"bytes_format": 1, "bytes_per_nnz": 0.5, "n_samples": 100})
    if merged:
        store.compact(folder)
        table = pq.read_table(folder / "rows.parquet")
        for name in ("t_median", "gflops"):
            table = table.append_column(name, pa.array([1e-9]))
        pq.write_table(table, folder / "rows.parquet")
    found = store.load(folder).iloc[0]
    assert [found[name] for name in ("n_samples", "bytes_format", "bytes_per_nnz")] == [3, 8, 4.0]
    assert found["t_median"] == pytest.approx(2e-6) and found["gflops"] == pytest.approx(2e-3)


def test_descriptions_that_runs_share_are_beside_them(folder):
    for name, sha in (("a", "m"), ("b", "n"), ("c", "m")):
        store.append(folder, row(name, matrix_sha256=sha, group="G", name="here" if sha == "m" else "own"))
    store.describe(folder, about("n", group="G", name="own"))
    store.describe(folder.parent, about("m", group="G", name="elsewhere", across=2))
    store.describe(folder.parent, about("other"))
    store.compact(folder.parent)
    found = store.matrices(folder)
    assert found[["matrix_sha256", "name", "across"]].to_numpy().tolist() == [["n", "own", 0], ["m", "here", 2]]


def test_a_column_that_came_later_is_empty_in_older_files(folder):
    store.append(folder, row("a", t_spmv_host=1.0, detail="{}"))
    old = dict.fromkeys(("t_spmv_host", "detail"))
    (folder / "rows.jsonl").write_text(json.dumps({k: v for k, v in row("b").items() if k not in old}) + "\n")
    store.append(folder, row("c", t_spmv_host=2.0, detail="{}"))
    for _ in range(2):  # as lines, then merged
        loaded = store.load(folder)
        assert list(loaded.columns) == list(COLUMNS)
        assert loaded["t_spmv_host"].fillna(-1).tolist() == [-1, 2.0]
        assert loaded["detail"].tolist() == ["", "{}"]
        store.compact(folder)


def test_missing_times_stay_nan_and_empty_samples_stay_lists(folder):
    store.append(folder, row("a"))
    loaded = store.load(folder)
    assert np.isnan(loaded["t_median"][0])
    assert loaded["samples"][0].tolist() == []


@pytest.mark.parametrize("clock", ["2030-01-01", "1999-12-31"])
def test_the_row_written_last_counts_whatever_the_clock_says(folder, clock):
    today = {"started_at": "2024-01-01T00:00:00.000000+00:00"}
    store.append(folder, row("b", sequence=1, reason="old", **today))
    store.append(folder, row("a", sequence=2, **today))
    store.compact(folder)
    assert store.next_sequence(folder) == 3
    store.append(folder, row("b", sequence=3, reason="new", started_at=f"{clock}T00:00:00.000000+00:00"))
    for _ in range(2):  # as lines, then merged
        assert store.load(folder)[["case_id", "reason"]].to_numpy().tolist() == [["a", ""], ["b", "new"]]
        store.compact(folder)
    store.describe(folder, about("m", sequence=7))
    assert store.next_sequence(folder) == 8


@pytest.mark.parametrize(
    ("statuses", "kept"),
    [
        ("ok missing", 0),
        ("wrong missing", 0),
        ("ok crashed", 1),
        ("error missing", 1),
        ("ok missing implausible", 2),
        ("ok refused", 1),  # by a format that has changed
    ],
)
def test_a_row_without_its_library_supersedes_no_measured_one(folder, statuses, kept):
    skips = {"missing": MissingLibrary("no such package"), "refused": Skip("not this matrix")}
    rows = [failure_of(skips[word], "") if word in skips else Failure(word, "why") for word in statuses.split()]
    for place, one in enumerate(rows):
        columns = {"status": one.status, "reason": one.reason, "samples": [1e-5], "repeats": 1}
        store.append(folder, row("a", sequence=place, **columns))
    for _ in range(2):  # as lines, then merged
        assert store.load(folder)["status"].tolist() == [rows[kept].status]
        assert store.read_matrices(folder).keys() == store.measured(folder).keys()
        store.compact(folder)


@pytest.mark.parametrize("after", range(2))
def test_a_reader_misses_no_row_while_another_process_compacts(folder, monkeypatch, after):
    """The compaction comes before the merged file is read, or after it."""
    store.append(folder, row("a"))
    store.compact(folder)
    for case in "bc":
        store.append(folder, row(case))
    read, seen = files.read, []

    def table(path, kept, only):
        seen.append(path)
        found = read(path, kept, only) if len(seen) != 1 or after else None
        if len(seen) == 1:
            store.compact(folder)
        return read(path, kept, only) if found is None else found

    monkeypatch.setattr(files, "read", table)
    assert store.load(folder)["case_id"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("cut", [1, 40])
def test_a_line_without_its_end_is_no_row_and_the_next_one_takes_its_place(folder, capsys, cut):
    for case in "ab":
        store.append(folder, row(case))
    lines = folder / "rows.jsonl"
    lines.write_bytes(lines.read_bytes()[:-cut])
    assert store.load(folder)["case_id"].tolist() == ["a"] and not capsys.readouterr().err
    store.append(folder, row("c"))
    assert store.load(folder)["case_id"].tolist() == ["a", "c"]


def test_writing_a_row_reads_and_rewrites_none(folder, monkeypatch):
    """So that the last row of a run costs what the first did."""
    for case in range(files.CHUNK + 1):
        store.append(folder, row(str(case)))
    before = (folder / "rows.jsonl").stat()
    for name in ("read", "read_lines", "write"):
        monkeypatch.delattr(files, name)
    store.append(folder, row("last"))
    store.describe(folder, about("m"))
    after = (folder / "rows.jsonl").stat()
    assert after.st_ino == before.st_ino
    assert sorted(path.name for path in folder.iterdir()) == ["matrices.jsonl", "rows.jsonl"]


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_rows_without_a_key_are_refused(folder, capsys, merged, damage):
    """Else all of them would count as one, and the others be lost."""
    for case in "abc":
        store.append(folder, row(case if damage == "missing" else "", reason=case))
    if merged:
        table = pa.Table.from_pylist([row("", reason=case) for case in "abc"], arrow_schema())
        pq.write_table(table.drop_columns(["case_id"]) if damage == "missing" else table, folder / "rows.parquet")
        for look in (store.load, store.compact, store.measured):
            with pytest.raises(SpmvbenchError, match=r"damaged.*without case_id"):
                look(folder)
        return
    if damage == "missing":
        lines = [json.dumps({k: v for k, v in row("", reason=case).items() if k != "case_id"}) for case in "abc"]
        (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    store.compact(folder)
    assert len(store.load(folder)) == 0 and "without case_id" in capsys.readouterr().err
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 3


def test_a_kill_between_merging_and_removing_lines_doubles_nothing(folder, monkeypatch):
    for case in "abc":
        store.append(folder, row(case))
        store.describe(folder, about(case))
    with monkeypatch.context() as patch:
        patch.setattr(store.Path, "unlink", lambda self, **_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.compact(folder)
    assert (folder / "matrices.jsonl").exists() and (folder / "matrices.parquet").exists()
    for _ in range(2):
        assert store.load(folder)["case_id"].tolist() == ["a", "b", "c"]
        assert store.matrices(folder)["matrix_sha256"].tolist() == ["a", "b", "c"]
        store.compact(folder)
    assert not list(folder.glob("*.jsonl"))


@pytest.mark.parametrize(
    "damaged",
    ["{", "[]", "null", "7", '{"schema_version": null}', "[" * 10_000, "\xff", '{"case_id": 1}', "nnz", "list"],
)
def test_a_damaged_line_is_named_and_its_case_measured_again(folder, capsys, damaged):
    for case in "ab":
        store.append(folder, row(case, source_hash="s", matrix_sha256="m"))
    other = {"nnz": {"nnz": "many"}, "list": {"samples": 1}}.get(damaged)
    line = json.dumps(row("c") | other) if other else damaged
    with open(folder / "rows.jsonl", "a", encoding="latin-1") as file:
        file.write(f"{line}\n")
    store.append(folder, row("d", source_hash="s", matrix_sha256="m"))
    assert store.measured(folder) == dict.fromkeys("abd", "s")
    assert f"line 3 of {folder / 'rows.jsonl'}" in capsys.readouterr().err
    store.compact(folder)
    assert store.measured(folder) == dict.fromkeys("abd", "s") and (folder / "rows.jsonl").exists()


def test_cases_whose_matrix_could_not_be_read_are_not_measured(folder):
    store.append(folder, row("a", source_hash="s", status="skipped"))
    store.append(folder, row("b", source_hash="s", status="skipped", matrix_sha256="m"))
    assert store.measured(folder) == {"b": "s"}


def test_what_failed_is_not_settled(folder):
    for case, status in zip("abcdefg", ("ok", "skipped", "wrong", "oom", "timeout", "crashed", "error"), strict=True):
        store.append(folder, row(case, source_hash="s", status=status, matrix_sha256="m", t_median=1e-5))
    lacking = failure_of(MissingLibrary("no such package"), "")
    store.append(folder, row("h", source_hash="s", status="skipped", reason=lacking.reason, matrix_sha256="m"))
    assert list(store.measured(folder)) == list("abcdefgh")
    assert list(store.measured(folder, settled=True)) == ["a", "b"]


def test_what_was_too_large_is_due_once_it_has_room(folder):
    skipped = {"source_hash": "s", "status": "skipped", "matrix_sha256": "m"}
    store.append(folder, row("a", **skipped, bytes_needed=1000, bytes_limit=500))
    store.append(folder, row("b", **skipped, bytes_needed=10**6, bytes_limit=500))
    store.append(folder, row("c", **skipped, bytes_needed=800))  # the format itself refused it
    assert list(store.measured(folder, max_bytes=999)) == ["a", "b", "c"]
    assert list(store.measured(folder, max_bytes=1000)) == ["b", "c"]
    assert list(store.measured(folder)) == ["c"]  # the device's own limit is not known
    store.append_session(folder, {"started": "1", "default_max_bytes": 2000})
    store.append_session(folder, {"started": "2", "default_max_bytes": None})
    assert list(store.measured(folder)) == ["b", "c"]


def test_damaged_merged_rows_stop_everything(folder):
    store.append(folder, row("a"))
    store.compact(folder)
    (folder / "rows.parquet").write_bytes(b"no parquet")
    with pytest.raises(SpmvbenchError, match=r"rows\.parquet is damaged"):
        store.load(folder)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("version", "said"), [(SCHEMA_VERSION + 1, "newer spmvbench"), (2, "before 1.0"), (0, "damaged")]
)
def test_rows_of_another_version_are_refused(folder, capsys, merged, version, said):
    store.append(folder, row("a", schema_version=version))
    if merged:
        table = pa.Table.from_pylist([row("a", schema_version=version)], arrow_schema())
        pq.write_table(table, folder / "rows.parquet")
        (folder / "rows.jsonl").unlink()
    elif not version:
        assert store.load(folder).empty and said in capsys.readouterr().err
        return
    with pytest.raises(SpmvbenchError, match=said):
        store.load(folder)


def test_a_run_is_found_by_name_and_by_path_and_missed_with_a_hint(folder):
    store.append(folder, row("a"))
    store.append_session(folder, {"started": "1"})
    results = folder.parent
    assert store.folder("a-run", results) == folder
    assert store.folder(folder) == folder
    with pytest.raises(UsageError, match="did you mean a-run"):
        store.load("a-rum", results)
    with pytest.raises(UsageError, match="spmvbench run --set demo"):
        store.load("anything", results / "nowhere")


def test_runs_are_listed_newest_first(tmp_path):
    import os

    for age, name in enumerate(["new", "old", "older"]):
        store.append(tmp_path / name, row("a"))
        store.append_session(tmp_path / name, {"started": "1"})
        os.utime(tmp_path / name / "run.json", (1e9 - age, 1e9 - age))
    (tmp_path / "no-run").mkdir()
    assert [path.name for path in store.runs(tmp_path)] == ["new", "old", "older"]
    assert store.runs(tmp_path / "nowhere") == []


def test_sessions_add_up_and_the_last_one_is_the_environment(folder):
    store.append(folder, row("a"))
    assert store.environment(folder) == {"sessions": []}
    store.append_session(folder, {"started": "1", "device": "emulated"})
    store.append_session(folder, {"started": "2", "device": "cuda:0", "ended": None})
    store.append_session(folder, {"started": "2", "device": "cuda:0", "ended": "3"})
    environment = store.environment(folder)
    assert environment["device"] == "cuda:0"
    assert [session.get("ended") for session in environment["sessions"]] == [None, "3"]
    assert json.loads((folder / "run.json").read_text())["schema_version"] == SCHEMA_VERSION
    (folder / "run.json").write_text("{")
    with pytest.raises(SpmvbenchError, match=r"run\.json is damaged"):
        store.environment(folder)


def test_what_a_record_holds_as_null_is_missing(folder):
    store.append(folder, row("a"))
    nothing = dict.fromkeys(("properties", "read_bandwidth_gbps", "default_max_bytes", "device"))
    store.append_session(folder, {"started": "1", **nothing})
    assert set(store.environment(folder)) == {"started", "sessions"}
    assert store.measured(folder) == {}


def test_who_writes_is_told_that_the_folder_is_gone(folder):
    folder.mkdir(parents=True)
    store.require_folder(folder)
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(SpmvbenchError, match="a-run was removed or moved"):
        store.require_folder(folder)


def test_descriptions_of_matrices_are_kept_beside_the_rows(folder):
    store.append(folder, row("a"))
    assert store.matrices(folder).empty and store.described(folder) == set()
    picture = {"row_lengths": np.array([2, 7]), "row_counts": [5, 1], "density": np.array([0.25, 1.0])}
    store.describe(folder, about("m", group="G", name="n", down=1, across=2, **picture))
    for _ in range(2):  # as lines, then merged
        found = store.matrices(folder)
        assert list(found.columns) == list(MATRIX_COLUMNS)
        assert found.loc[0, ["matrix_sha256", "name", "across"]].tolist() == ["m", "n", 2]
        assert [found.loc[0, name].tolist() for name in picture] == [[2, 7], [5, 1], [0.25, 1.0]]
        assert found.loc[0, "zoom_density"].tolist() == []
        assert store.described(folder) == {"m"}
        store.compact(folder)
    assert store.load(folder)["case_id"].tolist() == ["a"]
    schema = pq.read_schema(folder / "matrices.parquet")
    assert schema.field("density").metadata[b"meaning"].decode() == MATRIX_COLUMNS["density"][1]
    aside = folders.set_aside(folder)
    assert store.described(aside) == {"m"} and store.described(folder) == set()


def test_two_processes_cannot_work_on_one_folder(folder):
    hold = "import sys; from spmvbench.rows.store import *\nwith lock(Path(sys.argv[1])): print(1, flush=True), input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "1\n"
        with pytest.raises(SpmvbenchError, match=rf"process {other.pid}\).*another --run"), store.lock(folder):
            pass
        other.kill()
    with store.lock(folder):
        pass


def test_what_is_set_aside_is_still_a_run(folder):
    assert folders.set_aside(folder) is None
    store.append(folder, row("a"))
    store.append_session(folder, {"started": "1"})
    aside = folders.set_aside(folder)
    assert store.load(aside)["case_id"].tolist() == ["a"]
    assert store.measured(folder) == {}
    with pytest.raises(UsageError):
        store.load(folder)


@pytest.mark.parametrize("name", [".lock", "worker.log", "rows.jsonl", "matrices.jsonl"])
@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to", "fifo"])
def test_a_session_writes_to_no_link(folder, name, how):
    """A run's folder may come from somebody else, as may an archive with a second name of a file."""
    store.append(folder, row("a"))
    store.compact(folder)
    precious = folder.parent / "precious"
    precious.write_text("a user's")
    if how == "fifo":
        os.mkfifo(folder / name)
    else:
        getattr(folder / name, how)(precious)
    with pytest.raises(SpmvbenchError, match=f"{name} is a link or no regular file"), store.lock(folder):
        pass
    assert precious.read_text() == "a user's"


def test_links_under_the_names_of_metadata_and_logs_are_not_written_to(folder):
    store.append(folder, row("a"))
    precious = folder.parent / "precious"
    precious.write_text("a user's")
    for name in ("rows.parquet", "run.json", "worker.log"):
        (folder / name).symlink_to(folder.parent / "none")
    store.compact(folder)
    store.append_session(folder, {"started": "1"})
    assert not (folder.parent / "none").exists() and store.load(folder)["case_id"].tolist() == ["a"]
    with pytest.raises(OSError, match="symbolic link is not followed"):
        store.opened_log(folder)
    (folder / "worker.log").unlink()
    for text in (b"one", b"two"):
        with store.opened_log(folder) as log:
            log.write(text)
    assert (folder / "worker.log").read_bytes() == b"onetwo"


@pytest.mark.parametrize("number", ["ENOSYS", "EOPNOTSUPP", "ENOLCK", "EIO"])
def test_a_file_system_without_locks_is_told_of_and_written_to(folder, monkeypatch, capsys, number):
    def flock(descriptor, operation):
        raise OSError(getattr(errno, number), "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with store.lock(folder):
        store.append(folder, row("a"))
    assert f"the file system of {folder} has no locks (no locks)" in capsys.readouterr().err
    assert store.load(folder)["case_id"].tolist() == ["a"]
    with locked(folder / "of-a-cache") as had:
        assert had


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_at_the_lock_is_named(folder, monkeypatch, number):
    def write_text(path, text):
        raise OSError(number, "nothing fits")

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match="nothing fits") as raised, store.lock(folder):
        pass
    assert raised.value.filename == str(folder / ".lock")


def test_a_clock_that_stands_still_loses_no_invocation(folder):
    store.append(folder, row("a"))
    for invocation, ended in (("a", None), ("b", None), ("b", "1")):
        store.append_session(folder, {"started": "1", "invocation": invocation, "ended": ended})
    assert [one["invocation"] for one in store.environment(folder)["sessions"]] == ["a", "b"]


def test_what_is_no_process_number_is_not_said_of_a_lock(folder):
    with store.lock(folder):
        (folder / ".lock").write_text("\x1b[31mred")
        with pytest.raises(SpmvbenchError, match=r"^another spmvbench is working on"), store.lock(folder):
            pass


def test_a_name_is_looked_for_under_results_and_anything_else_is_a_path(folder, monkeypatch):
    store.append(folder, row("a"))
    results = folder.parent
    (results / "inside").mkdir()
    monkeypatch.chdir(folder)
    assert store.folder(".") == Path(".")
    for run in ("..", "../inside", "", "parts", f"../{folder.name}x"):
        with pytest.raises(UsageError):
            store.folder(run, results / "inside")
    assert store.folder(f"../{folder.name}", results / "inside").samefile(folder)
    assert store.name_of("ünï-2.a+b_c") == "ünï-2.a+b_c"
    (results / ".hidden").mkdir()
    (results / ".hidden" / "run.json").touch()
    assert store.runs(results) == []
