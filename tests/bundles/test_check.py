"""Findings of checks: tampered rows fail, and what was not verified is open."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy

from spmvbench.bundles import check, derived, limited, matrices, pack, sources
from spmvbench.bundles.findings import check_rows
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import imports
from spmvbench.matrices import Matrix, synthetic
from spmvbench.measure.cases import Case
from spmvbench.paths import configs
from spmvbench.rows import store
from spmvbench.rows.metadata import ENVIRONMENT
from tests.bundles.conftest import SEARCHED
from tests.kept import contents, keep

PUBLISHED = configs().parent / "results/published"
RUNS = sorted(path.parent.name for path in PUBLISHED.glob("*/run.json"))
ALL = {"schema", "metadata", "names", "cases", "verdicts", "samples", "rates", "bytes", "matrices", "formats"}
ALL |= {"launch overhead"}


def opened(findings):
    """The texts of open findings."""
    return [f.text for held in findings.values() for f in held if f.verdict == check.OPEN]


def loaded(folder):
    return check.Bundle(folder, None, store.load(folder), store.environment(folder)["sessions"])


def setting(name, value):
    def change(rows):
        rows[name] = value

    return change


# --- genuine runs


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_published_runs_pass(name, verdicts):
    found = verdicts(PUBLISHED / name)
    assert [f.text for held in found.values() for f in held if f.verdict == check.FAILED] == []
    with_bounds = "spmv" in set(loaded(PUBLISHED / name).rows["op"])
    with_energy = bool((loaded(PUBLISHED / name).verified["energy"] > 0).any())
    assert found.keys() == ALL | ({"bounds"} if with_bounds else set()) | ({"energy"} if with_energy else set())


@pytest.mark.slow
def test_one_content_has_one_size_and_any_names():
    run = loaded(PUBLISHED / "h100-ehyb")

    def violated(rows):
        found = derived.identities(check.Bundle(PUBLISHED, None, rows, run.sessions))
        return [f.text for f in found if f.verdict == check.FAILED and f.text.startswith("rows of one matrix agree")]

    both = ["like:Bourchtein/atmosmodl", "like:Bourchtein/atmosmodm"]
    rows = run.rows[run.rows["name"].isin(both)]
    assert rows["name"].nunique() == 2 and rows["matrix_sha256"].nunique() == 1 and violated(rows) == []
    assert violated(rows.assign(group="file", name=rows["name"].str.replace("like:", "copies of/"))) == []
    (text,) = violated(rows.assign(nnz=rows["nnz"] + (rows["name"] == both[1])))
    assert f"violated in {len(rows)} of {len(rows)} rows" in text


@pytest.mark.slow
def test_matrices_of_published_runs_are_made_again():
    """The smallest of every generator, and all small ones; larger ones take minutes with the same code.

    Once for the same generators, checks and runs.
    """
    runs = [loaded(PUBLISHED / name) for name in RUNS]
    rows = pd.concat([run.rows for run in runs])
    # Orders by reverse Cuthill-McKee were SciPy's when these rows were measured: ties depend on the processor.
    rows = rows[(rows["group"] == "synthetic") & (rows["order"] != "rcm")].drop_duplicates("matrix_sha256")
    rows = rows.sort_values("nnz", kind="stable")
    generator = rows["name"].str.partition(":")[0]
    chosen = rows[(rows["nnz"] <= 2_500_000) | ~generator.duplicated()]
    sessions = [session for run in runs for session in run.sessions]
    bundle = check.Bundle(PUBLISHED, None, chosen, sessions)
    texts = [synthetic.generator_hash(kind) for kind in sorted(synthetic.KINDS)]
    texts.append(contents(imports.imported([Path(matrices.__file__)])))
    texts += [contents([PUBLISHED / name / file]) for name in RUNS for file in (store.ROWS, ENVIRONMENT)]
    texts += [np.__version__, scipy.__version__]

    def make():
        return [[f.verdict, f.text] for f in check.matrices(bundle, math.inf, lambda text: None)]

    total = len(chosen)
    assert total > generator.nunique() > 20
    (_, passed), *others = keep("published-matrices", texts, make)
    (changed,) = (text for _, text in others if "generators" in text)
    unknown = sum(int(text.split()[0]) for _, text in others if "not verified, no facts are known of " in text)
    count, of, older = (int(text.split()[0]) for text in (passed, passed.split(" of ")[1], changed))
    # Stand-ins on meshes are made in another way since.
    stand_ins = chosen["name"].str.startswith("like:").sum()
    assert count + older + unknown == of == total and older + unknown <= stand_ins < total
    assert len(others) == 2


def test_a_run_of_this_version_is_verified_completely(measured, verdicts, invoke):
    found = verdicts(measured, math.inf)
    assert found.keys() == ALL
    assert {f.verdict for held in found.values() for f in held} == {check.PASSED}
    assert "passes" in invoke("check", measured)


@pytest.mark.parametrize("op", ["spmv", "spmspv", "bfs"])
def test_rows_of_one_operation_alone_are_checked(op, searched, altered, failed):
    altered(searched, lambda rows: rows[rows["op"].str.partition("@")[0] == op])
    assert failed(searched) == set()


@pytest.mark.slow
def test_fetches_of_a_transposed_product_are_those_of_its_copy(command, tmp_path, altered, failed):
    """``spmv-t@1`` counts the sectors and lines of A, ``spmv-t@2`` those of A^T."""
    words = "run rect:90:14:3 --formats csr-scalar --dtype f64 --op spmv,spmv-t --device emulated --run mine --results"
    assert command(*words.split(), tmp_path).code == 0
    rows = store.load(tmp_path / "mine")
    assert rows["status"].eq("ok").all()
    lines = rows.set_index("op")["x_lines"]
    assert lines["spmv"] == lines["spmv-t@1"] != lines["spmv-t@2"]
    assert failed(tmp_path / "mine", math.inf) == set()

    def exchanged(rows):
        rows.loc[rows["op"] == "spmv-t@2", "x_lines"] = lines["spmv"]

    assert "matrices" in failed(altered(tmp_path / "mine", exchanged), math.inf)


@pytest.mark.parametrize("name", ["measured", "searched"])
def test_a_run_without_a_verified_row_is_checked(name, request, altered, failed):
    folder = altered(request.getfixturevalue(name), setting(["status", "reason"], ("skipped", "too large")))
    assert failed(folder) == set()


def test_a_run_without_rows_fails(measured, altered, invoke):
    altered(measured, lambda rows: rows.head(0))
    assert "there are no rows" in invoke("check", measured, code=1)


def test_missing_columns_of_an_old_version_are_open(run, verdicts, failed):
    assert failed(run) == set()
    text = "\n".join(opened(verdicts(run)))
    statuses = store.load(run)["status"]
    ok, every = (statuses == "ok").sum(), len(statuses)
    assert every > ok > 100
    for words in (
        "run.json held nothing of bounds, cusparse, ecc, gpu",
        f"the bounds follow from the device's measurements: cannot be verified of {ok} of {ok} rows",
        f"each row has a unique sequence number: cannot be verified of {every} of {every} rows, which lack the columns",
        f"those of the format's source: cannot be verified of {every} of {every} rows, measured with other",
    ):
        assert words in text


# --- what was not verified


class Clock:
    """A clock that advances with each call."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 100
        return self.now


def test_matrices_beyond_the_time_limit_are_open(measured):
    found = list(check.matrices(loaded(measured), 200, lambda text: None, Clock()))
    assert [(f.verdict, f.text) for f in found] == [
        (check.PASSED, "1 of 2 matrices made again: their rows match"),
        (check.OPEN, "1 of 2 matrices not made again in 200 s (--seconds): poisson2d:8"),
    ]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("poisson2d:20000", "2.0 GiB of memory"),
        ("pde:900", "2.0 GiB of memory"),
        ("dense:40000:40000", "matrix_sha256"),
        ("qap:30", "their generators make others today"),
    ],
)
def test_rows_of_a_small_matrix_with_a_huge_name_take_little_memory(measured, altered, spec, said):
    """The name is a stranger's: its size is found to be another one, or the memory of the rows' own size ends."""

    def rename(rows):
        rows.loc[rows["name"] == "poisson2d:8", "name"] = spec

    bundle = loaded(altered(measured, rename))
    found = [f for f in check.matrices(bundle, math.inf, lambda text: None) if spec in f.text]
    assert [f.verdict for f in found] == [check.FAILED if said == "matrix_sha256" else check.OPEN]
    assert said in found[0].text


def _unloaded(words):
    raise ImportError(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("libx.so: failed to map segment from shared object", "GiB of memory"),
        ("No module named 'x'", "No module named"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_not_always_too_little_memory(words, said):
    with pytest.raises(SpmvbenchError, match=said):
        limited.call(_unloaded, words, seconds=math.inf, memory=2**30)


def test_a_matrix_that_takes_longer_than_the_limit_is_open(measured, altered):
    rmat = setting(["name", "rows", "cols", "nnz"], ("rmat:26:8", 2**26, 2**26, 2**29))
    bundle = loaded(altered(measured, rmat))
    (finding,) = check.matrices(bundle, 0.1, lambda text: None)
    assert (finding.verdict, finding.text) == (
        check.OPEN,
        "2 of 2 matrices not made again in 0.1 s (--seconds): rmat:26:8; rmat:26:8",
    )


def test_without_time_no_matrix_passes(measured, invoke):
    shown = invoke("check", measured, "--seconds", "0", code=4)
    assert "2 of 2 matrices not made again" in shown
    assert "not verified" in shown


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"group": "nowhere"}, "they are not here"),
        ({"group": "../..", "name": "../etc/passwd"}, "they are not here"),
        ({"group": "file", "file_sha256": "0" * 64}, "they were given as files"),
        ({"name": "/etc/passwd"}, "no generator has their names"),
        ({"name": "unheard:8"}, "there is no generator 'unheard'"),
    ],
)
def test_unavailable_matrices_are_open(columns, words, measured, altered, invoke):
    def rename(rows):
        for name, value in columns.items():
            rows[name] = value
        rows["case_id"] = [identity(row) for row in rows.itertuples(index=False)]
        return rows[(rows["format"] == "csr-scalar")].head(1)

    altered(measured, rename)
    for table in measured.glob(store.MATRICES):
        table.unlink()
    assert words in invoke("check", measured, code=4)


def identity(row):
    """The hash of a row's case, as this version computes it."""
    hashes = {"file_sha256": row.file_sha256, "generator_hash": row.generator_hash}
    matrix = Matrix(row.group, row.name, row.kind, "", **hashes)
    told = row.format, json.loads(row.params), row.dtype, row.mode, row.device.partition(":")[0]
    return Case(matrix, 0, *told, op=row.op).case_id


def test_a_verified_row_has_the_hash_of_a_matrix(measured, altered, failed):
    assert "verdicts" in failed(altered(measured, setting("matrix_sha256", "")), math.inf)


def test_sources_of_no_release_are_open(run, tmp_path, altered, verdicts):
    def own(rows):
        rows.loc[rows["format"] == "csr5", "source_hash"] = "f" * 16

    found = verdicts(altered(run, own))
    assert [f.text for f in found["formats"] if f.verdict == check.OPEN] == ["sources of no known release: csr5"]
    with pytest.raises(UsageError, match="csr5"):
        pack.pack(run, tmp_path / "b.zip")


@pytest.mark.parametrize("known", [True, False])
def test_what_an_older_solver_read_is_open_if_it_is_known(known, measured, altered, verdicts):
    """Solvers come to read fewer vectors than their rows of before."""
    older = next(digest for name, digest in sources.released() if name == "cg")
    assert older != sources.installed("cg")

    def change(rows):
        of = rows["op"].str.startswith("cg") & (rows["status"] == "ok")
        own = rows["source_hash"].str.partition("+")[0] + "+" + (older if known else "f" * 16)
        return rows.assign(
            source_hash=rows["source_hash"].where(~of, own),
            model_bytes=rows["model_bytes"].where(~of, 100 * rows["model_bytes"]),
        )

    told = {f.verdict for f in verdicts(altered(measured, change))["bytes"]}
    assert told == ({check.PASSED, check.OPEN} if known else {check.FAILED})


# --- invalid rows


def only(rows, words):
    """Which rows are of an operation."""
    return (rows["op"].str.partition("@")[0] == words) & (rows["status"] == "ok")


def consistently_faster(share):
    def change(rows):
        rows["samples"] = [[s * share for s in taken] for taken in rows["samples"]]

    return change


def constant(rows):
    rows["samples"] = [[median] * 10 for median in rows["t_median"]]


def no_samples(rows):
    rows["samples"] = [[]] * len(rows)


def ten_times_the_work(op):
    def change(rows):
        rows.loc[only(rows, op), "work"] *= 10

    return change


def more_entries(rows):
    """Change the entries and all columns that follow from them."""
    rows[["nnz", "work"]] *= 2


def in_detail(name, value):
    def change(rows):
        rows["detail"] = [json.dumps(json.loads(text or "{}") | {name: value}) for text in rows["detail"]]

    return change


def times(name, factor):
    def change(rows):
        rows.loc[rows["status"] == "ok", name] *= factor

    return change


def unmarked(rows):
    rows["near_launch_overhead"] = ~rows["near_launch_overhead"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (constant, {"samples"}),
        (no_samples, {"samples"}),
        (setting("t_case", 1e-9), {"samples"}),
        (setting("repeats", 0), {"samples"}),
        (ten_times_the_work("spmspv"), {"rates"}),
        (ten_times_the_work("bfs"), {"rates"}),
        (more_entries, {"matrices", "rates"}),
        (setting("rows", 12), {"matrices", "bytes"}),
        (setting("row_len_max", 12), {"matrices"}),
        (setting("x_lines", 0.25), {"matrices"}),
        (in_detail("products", 3), {"matrices"}),
        (in_detail("source", 3), {"matrices"}),
        (in_detail("arcs", 3), {"matrices", "rates"}),
        (setting("error_ratio", 1e9), {"verdicts"}),
        (setting("error_ratio", math.nan), {"verdicts"}),
        (setting("error_ratio", -1.0), {"verdicts"}),
        (setting("launches", 0), {"verdicts"}),
        (setting("bytes_arrays", '{"values": 7}'), {"bytes"}),
        (setting("bytes_arrays", "none"), {"bytes"}),
        (times("model_bytes", 9), {"bytes"}),
        (setting("label", "csr"), {"names"}),
        (setting("family", "COO"), {"names"}),
        (setting("project_kernel", True), {"names"}),
        (setting("params", '{"lanes":0}'), {"names", "cases"}),
        (setting("op", "spmm"), {"names", "cases", "rates"}),
        (setting("dtype", "f16"), {"names", "cases"}),
        (setting("mode", "lukewarm"), {"names", "cases"}),
        (setting("case_id", "0" * 16), {"cases"}),
        (setting("sequence", 7), {"cases"}),
        (setting("status", "splendid"), {"schema"}),
        (setting("reason", ""), {"schema"}),
        (unmarked, {"launch overhead"}),
        (setting("device_name", "another"), {"metadata"}),
        (setting("gpu", "another"), {"metadata"}),
    ],
)
def test_invalid_rows_are_detected(measured, altered, failed, change, found):
    def square(rows):
        change(rows)
        return rows[(rows["name"] == "poisson2d:8")]

    seen = failed(altered(measured, square), math.inf)
    assert seen >= found or seen == {"schema"}  # invalid rows are left out, which is a failure


@pytest.mark.parametrize(("program", "fine"), [("p", True), ("", False)])
def test_a_program_with_two_names_is_timed_once(measured, altered, failed, program, fine):
    def named_twice(rows):
        rows["program"] = program
        one = rows[rows["format"] == "csr-scalar"].head(1)
        return pd.concat([one, one.assign(label="twin", t_case=1e-12, case_id="f" * 16)])

    assert ("samples" not in failed(altered(measured, named_twice))) == fine


@pytest.mark.parametrize(
    ("program", "again", "verdict"), [("p", True, check.OPEN), ("p", False, check.FAILED), ("", True, check.FAILED)]
)
@pytest.mark.parametrize("killed", [False, True])
def test_the_case_that_timed_a_program_may_be_measured_again(
    measured, altered, verdicts, program, again, verdict, killed
):
    """A later invocation replaces a row: what it had timed for other names of its program stays in their rows.

    killed: another one of the time has no end.
    """
    about = store.environment(measured)
    ended = max(session["ended"] for session in about["sessions"])
    if killed:
        about["sessions"].append(about["sessions"][0] | {"ended": None})
        (measured / store.ENVIRONMENT).write_text(json.dumps(about), encoding="utf-8")

    def replaced(rows):
        one = rows[rows["format"] == "csr-scalar"].head(1)
        twin = one.assign(label="twin", t_case=1e-12, case_id="f" * 16, program=program)
        later = one.assign(started_at=f"{int(ended[:4]) + again}{ended[4:]}")
        return pd.concat([rows.drop(one.index), later, twin])

    found = [finding.verdict for finding in verdicts(altered(measured, replaced))["samples"]]
    assert verdict in found and (verdict == check.FAILED or check.FAILED not in found)


@pytest.mark.parametrize("seconds", [0, 1e6])
def test_twice_the_entries_and_the_rate_never_pass(measured, altered, command, seconds):
    def double(rows):
        rows["nnz"] *= 2

    altered(measured, double)
    (measured / store.MATRICES).unlink()
    assert command("check", measured, "--seconds", seconds).code in (1, 4)


@pytest.mark.parametrize("renamed", [False, True])
def test_doubled_rows_are_detected(measured, renamed, failed):
    table = pq.read_table(measured / store.ROWS)
    again = table
    if renamed:
        ids = [f"{place:016x}" for place in range(len(table))]
        again = table.set_column(table.column_names.index("case_id"), "case_id", pa.array(ids))
    pq.write_table(pa.concat_tables([table, again]), measured / store.ROWS)
    assert failed(measured) == ({"cases"} if renamed else {"schema"})


@pytest.mark.parametrize("share", [0.3, 1e-3])
def test_times_shorter_than_reading_are_implausible(searched, altered, failed, share):
    assert "bounds" in failed(altered(searched, consistently_faster(share)))


def test_times_without_measured_bounds_are_detected(searched, altered, failed):
    def forget(session):
        for name in ("bounds", "launch_overhead", "read_bandwidth_gbps"):
            session.pop(name)
        session["workers"] = []

    altered(searched, consistently_faster(1e-3), forget)
    assert failed(searched) >= {"metadata", "bounds"}


def test_old_times_without_any_bandwidth_are_open(run, altered, verdicts, failed):
    altered(run, consistently_faster(1e-3), lambda session: session.pop("read_bandwidth_gbps"))
    assert failed(run) >= {"metadata", "launch overhead"}
    assert any("no time is below that of reading" in text for text in opened(verdicts(run)))


def test_a_bound_that_does_not_follow_is_detected(tmp_path, altered, failed):
    folder = tmp_path / "run"
    shutil.copytree(PUBLISHED / "h200-irregular", folder, ignore=shutil.ignore_patterns("report"))
    altered(folder, lambda rows: rows.head(3))
    assert failed(folder) == set()
    assert failed(altered(folder, times("bound_gflops", 1.5))) == {"bounds"}


@pytest.mark.parametrize(("watts", "verdict"), [(690.0, check.PASSED), (1019.0, check.FAILED), (math.nan, check.OPEN)])
def test_a_power_above_the_limit_of_the_card_is_detected(watts, verdict):
    run = loaded(PUBLISHED / "h200-energy")  # of cards of 700 W
    altered = check.Bundle(PUBLISHED, None, run.rows.assign(watts=watts), run.sessions)
    assert [found.verdict for found in derived.energies(altered)] == [verdict]


def test_a_format_may_skip_padding(searched, altered, verdicts, failed):
    """A time above the tolerance but within the effect of padding is open, not a failure."""
    row = next(loaded(searched).verified.loc[lambda rows: rows["op"] == "spmv"].itertuples(index=False))
    seconds = derived._fastest(store.environment(searched)["sessions"][0])
    reads = derived._read(row) + row.rows * derived.itemsize(row.dtype)
    share = seconds(reads) / row.t_median / 1.1

    def change(rows):
        few = rows[rows["case_id"] == row.case_id].copy()
        consistently_faster(share)(few)
        return few

    altered(searched, change)
    assert "bounds" not in failed(searched)
    assert [text for text in opened(verdicts(searched)) if text.startswith("implausible")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "record",
    [
        lambda session: session["properties"].pop("driver"),
        lambda session: session["properties"].pop("multiprocessors"),
        lambda session: session.pop("launch_overhead"),
        lambda session: session.pop("bounds"),
        lambda session: session["bounds"].pop("lines"),
        lambda session: session.pop("read_bandwidth_gbps"),
        lambda session: session.update(kind="abacus"),
    ],
)
def test_missing_metadata_is_detected(searched, altered, failed, record):
    assert "metadata" in failed(altered(searched, record=record))


def test_rows_outside_of_all_invocations_are_open(measured, altered, verdicts):
    altered(measured, setting("started_at", "2001-01-01T00:00:00.000000+00:00"))
    assert any("outside of all invocations" in text for text in opened(verdicts(measured)))


def test_descriptions_agree_with_rows(measured, altered, failed):
    def more(rows):
        rows["nnz"] += 1

    assert "matrices" in failed(altered(measured, more))


def test_a_different_matrix_under_a_name_is_detected(measured, altered, verdicts):
    def swap(rows):
        rows.loc[rows["name"] == "poisson2d:8", "matrix_sha256"] = "0" * 64

    found = verdicts(altered(measured, swap), math.inf)["matrices"]
    texts = [f.text for f in found if f.verdict == check.FAILED]
    assert texts == ["1 of 2 do not match their names: poisson2d:8: matrix_sha256"]


def test_a_search_in_a_matrix_that_is_no_graph_is_detected(measured, altered, verdicts):
    def searched(rows):
        at = (rows["name"] == "rect:9:14:3") & (rows["format"] == "bfs-push")
        rows.loc[at, ["status", "reason", "detail", "repeats"]] = "ok", "", '{"arcs": 3}', 1
        rows.loc[at, "samples"] = pd.Series([[1e-6]] * int(at.sum()), rows.index[at])

    found = verdicts(altered(measured, searched), math.inf)["matrices"]
    assert any("bfs@0, which is not possible" in f.text for f in found if f.verdict == check.FAILED)


def test_real_matrices_are_read_from_a_mirror(mirror, tmp_path):
    rows = store.load(SEARCHED)
    rows = rows[rows["name"] == "wiki-Vote"]
    sessions = store.environment(SEARCHED)["sessions"]
    (finding,) = matrices.matrices(check.Bundle(tmp_path, None, rows, sessions), math.inf, lambda text: None)
    assert (finding.verdict, finding.text) == (check.PASSED, "1 of 1 matrix made again: their rows match")
    rows = rows.assign(work=rows["work"] + (rows["op"] == "bfs@1") * 2)
    (finding,) = matrices.matrices(check.Bundle(tmp_path, None, rows, sessions), math.inf, lambda text: None)
    assert finding.text.endswith("SNAP/wiki-Vote: work")


def test_lists_have_the_number_of_the_others(measured):
    rows = pd.concat([store.load(measured)] * 3)
    (finding,) = check_rows("rates", rows, np.ones(len(rows), bool), "a rule")
    assert finding.text.startswith("a rule: violated in 54 of 54 rows: ")
    assert finding.text.endswith(" and 49 more")
