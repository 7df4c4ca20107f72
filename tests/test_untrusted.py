"""Names, rows and records of strangers: what of them reaches a terminal, a table or a figure. No kernel runs."""

import csv
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spmvbench import untrusted
from spmvbench.bundles.pack import packed
from spmvbench.cli import terminal
from spmvbench.errors import SpmvbenchError
from spmvbench.rows import files, store
from spmvbench.rows.checks import invalid_rows
from spmvbench.rows.schema import (
    MATRIX_COLUMNS,
    STATUSES,
    arrow_schema,
    blank_row,
)
from tests.made import row as made

PUBLISHED = Path(__file__).parents[1] / "results/published"
STEERING = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u200b\x9b31m\r\x00"


def row(case, **columns):
    known = {
        "case_id": case,
        "matrix_sha256": case,
        "rows": 9,
        "cols": 9,
        "nnz": 9,
        "work": 18,
        "samples": [1e-5],
        "repeats": 1,
    }
    return made(case, "ell", 1e-5) | known | {"started_at": "2026-01-01T10:00:00"} | columns


def write_run(folder, *rows, **session):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"sessions": [{"started": "2026-01-01T10:00:00"} | session]}))
    (folder / "rows.parquet").write_bytes(packed(pd.DataFrame(rows), files.CASES))
    return folder


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("pde:8 ünï 矩阵", "pde:8 ünï 矩阵"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("\x9b1m\u202eabc\u2066", r"\x9b1m\u202eabc\u2066"),
        ("two\nlines\rback\t", r"two\nlines\rback\t"),
        ("\ud800\u200b\U000e0041", r"\ud800\u200b\U000e0041"),
    ],
)
def test_what_steers_a_terminal_is_written_as_its_escape(given, shown):
    assert untrusted.text(given) == shown


def test_texts_of_a_record_are_printable_and_short():
    cleaned = untrusted.tree({"a\x1b": ["\x07", {"b": "x" * 200_000}, 1.5, None]})
    assert cleaned == {r"a\x1b": [r"\x07", {"b": "x" * untrusted.MAX_CHARACTERS + "..."}, 1.5, None]}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("=1+1", "'=1+1"), ("+1+1", "'+1+1"), ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"), ("\uff1d1+1", "'\uff1d1+1"), ("\t=1", "'\t=1"),
        ("-1.5e-3", "-1.5e-3"), ("-", "-"), ("a=b", "a=b"), (-1.5, -1.5),
    ],
)  # fmt: skip
def test_a_cell_that_a_spreadsheet_would_compute_is_a_text(given, written):
    assert untrusted.cell(given) == written


class Captured(io.StringIO):
    def __init__(self, encoding):
        super().__init__()
        self.encoded = encoding

    @property
    def encoding(self):
        return self.encoded


def test_the_terminal_gets_colours_and_progress_and_nothing_else_that_steers():
    out, err = Captured("utf-8"), Captured("utf-8")
    terminal.Shown(out, terminal._STYLE).write(f"\x1b[1mbold\x1b[0m \x1b[31mred\x1b[0m\n{STEERING}\tünï\n")
    shown = r"\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u200b\x9b31m\r\x00"
    assert out.getvalue() == f"\x1b[1mbold\x1b[0m \x1b[31mred\x1b[0m\n{shown}\tünï\n"
    terminal.Shown(err, f"{terminal._STYLE}|{terminal._PROGRESS}").write("\rhalf\x1b[A\x1b[2J")
    assert err.getvalue() == "\rhalf\x1b[A\\x1b[2J"


def test_what_an_encoding_lacks_is_written_as_its_escape():
    out = Captured("ascii")
    terminal.Shown(out, terminal._STYLE).write("ünï\n")
    assert out.getvalue() == "\\xfcn\\xef\n"


@pytest.mark.parametrize("words", [["runs"], ["runs", "show", "r"], ["export", "r", "--to", "markdown"],
                                   ["export", "r", "--to", "csv"], ["compare", "r", "s"]])  # fmt: skip
def test_no_command_lets_a_stranger_steer_the_terminal(command, tmp_path, words):
    texts = dict.fromkeys(("group", "label", "device_name", "reason", "kind", "family", "run_id"), STEERING)
    for name in "rs":
        write_run(tmp_path / name, row("a", **texts), row("b", status="error", t_median=math.nan, **texts),
                  host=STEERING, spmvbench=STEERING, command=["x", STEERING], git=STEERING)  # fmt: skip
    said = command(*words, "--results", tmp_path)
    assert not set("\x1b\x07\x9b\u202e\u200b\r\x00") & set(said.out + said.err)
    assert "owned" in said.out


def test_an_error_does_not_steer_the_terminal_either(command, tmp_path):
    said = command("runs", "show", f"no{STEERING}", "--results", tmp_path)
    assert said.code == 2 and "\x1b" not in said.err and r"\x1b" in said.err


def test_exported_tables_escape_their_own_markup(command, tmp_path):
    evil = "=cmd|' /C calc'!A0 [x](http://e) `a` <img> _b_ www.e.com &lt;"
    write_run(tmp_path / "r", row("a", label=evil, family="+x"), row("b", label="[2pt]", started_at="2026-01-02"))
    told = {to: command("export", "r", "--to", to, "--results", tmp_path) for to in ("csv", "markdown", "latex")}
    first, second = csv.DictReader(io.StringIO(told["csv"].out))
    assert (first["label"], first["family"]) == (f"'{evil}", "'+x") and float(first["t_median"]) == pytest.approx(1e-5)
    assert second["label"] == "[2pt]"
    assert (
        r"=cmd\|' /C calc'!A0 [x\](http\://e) \`a\` \<img\> \_b\_ www\.e.com \&lt;" in told["markdown"].out
    )  # no link, no HTML
    assert "\n{}[2pt] & " in told["latex"].out


MISFITS = [
    ({"status": "splendid"}, "status is 'splendid'"),
    ({"samples": []}, "t_median is nan seconds"),
    ({"samples": [math.inf]}, "samples holds a value that is NaN, negative or infinite"),
    ({"samples": [-1e-5]}, "t_median is negative"),
    ({"samples": [1e-20]}, "t_median is out of range"),
    ({"samples": [1e-300]}, "gflops is infinite"),
    ({"samples": [1e-5, math.nan, 1e-5]}, "samples holds a value that is NaN"),
    ({"repeats": 0}, "samples holds a value that is NaN"),
    ({"t_setup": math.inf}, "t_setup is infinite"),
    ({"nnz": -1}, "nnz is negative"),
    ({"mode": "tepid"}, "mode is 'tepid'"),
    ({"device": "tpu"}, "device is 'tpu'"),
    ({"name": "n" * 200_000}, "name has more than 1,000 characters"),
    ({"t_kernels": "no JSON"}, "t_kernels is not JSON"),
    ({"t_kernels": "[" * 100_000}, "t_kernels is not JSON"),
    ({"t_kernels": "[1]"}, "t_kernels is JSON of another shape"),
    ({"t_kernels": '{"a": "b"}'}, "t_kernels is JSON of another shape"),
    ({"t_kernels": '{"a": Infinity}'}, "t_kernels is JSON of another shape"),
    ({"t_kernels": '{"a": 0}'}, "t_kernels is JSON of another shape"),
    ({"params": '{"a": [1]}'}, "params is JSON of another shape"),
    ({"detail": '{"tile_share": 1, "nnz_share": {}}'}, "detail is JSON of another shape"),
    ({"detail": '{"level_seconds": [1]}'}, "detail is JSON of another shape"),
    ({"samples": [1.0, math.nan]}, "samples holds a value that is NaN, negative or infinite"),
    ({"started_at": "yesterday"}, "started_at is 'yesterday'"),
]


@pytest.mark.parametrize(("columns", "why"), MISFITS, ids=[f"{place}" for place in range(len(MISFITS))])
def test_a_row_that_cannot_be_is_left_out_counted_and_named(tmp_path, capsys, columns, why):
    write_run(tmp_path / "r", row("a"), row("b", **columns), row("c", reason="x" * 100_000))
    rows = store.load(tmp_path / "r")
    assert rows["case_id"].tolist() == ["a", "c"] and rows["reason"].str.len().max() == 20_000
    assert f"left out 1 of 3 rows of {tmp_path / 'r'}, which cannot be: G/" in rows.attrs["left_out"]
    assert why in capsys.readouterr().err
    assert list(store.measured(tmp_path / "r")) == ["a", "c"]  # it is due again
    store.compact(tmp_path / "r")
    assert pq.read_table(tmp_path / "r/rows.parquet").num_rows == 3  # nothing is removed


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_fits(status):
    table = pa.Table.from_pylist([row("a", status=status, error_ratio=math.inf)], schema=arrow_schema())
    assert invalid_rows(table) == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"down": 2, "across": 3, "density": [0.5] * 5},
        {"down": 2**40, "across": 2**40},
        {"down": 1, "across": 1, "density": [2.0]},
        {"zoom_down": 1, "zoom_across": 2, "zoom_density": [0.1]},
        {"row_lengths": [3, 2], "row_counts": [1, 1]},
        {"row_lengths": [1, 2], "row_counts": [1]},
        {"row_lengths": [-1], "row_counts": [1]},
    ],
)
def test_a_description_whose_grid_does_not_fit_is_left_out(tmp_path, columns):
    folder = write_run(tmp_path / "r", row("a"))
    for name, more in (("m", columns), ("n", {"down": 1, "across": 2, "density": [0.5, 1.0]})):
        store.describe(folder, blank_row(MATRIX_COLUMNS) | {"matrix_sha256": name} | more)
    assert store.matrices(folder)["matrix_sha256"].tolist() == ["n"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.parent.name for path in PUBLISHED.glob("*/run.json")))
def test_published_runs_are_read_as_they_are(name, capsys):
    rows = store.load(PUBLISHED / name)
    assert len(rows) == pq.read_metadata(PUBLISHED / name / "rows.parquet").num_rows and rows.attrs == {}
    store.matrices(PUBLISHED / name)
    told = json.loads((PUBLISHED / name / "run.json").read_text(encoding="utf-8"))["sessions"]
    assert store.environment(PUBLISHED / name)["sessions"] == told
    assert capsys.readouterr().err == ""


RECORDS = [
    *("[" * 100_000, '{"sessions": ' + "[" * 100_000, "[]", "null", "9" * 10_000, "\udcff", '{"sessions": {}}'),
    *(f'{{"sessions": {value}}}' for value in ("null", "1", "[null]", "[1]")),
    *(f'{{"sessions": [{{"started": {value}}}]}}' for value in ("null", "1")),
]
PARTS = {
    "seed": ['"x"', "-1", "1e400"],
    "launch_overhead": ["[1]", '{"hot": "x"}'],
    "bounds": ['{"read": 1}', '{"read": [[1]]}', '{"read": [[2, 1], [1, 1]]}', '"x"'],
    "properties": ["[1]", '"x"', '{"multiprocessors": "many"}'],
    "command": ['"run"', "[1]"],
    "read_bandwidth_gbps": ["NaN"],
    "default_max_bytes": ['"2GB"'],
    "memory_bytes": ['"much"'],
    "seconds": ['{"reading": "long"}'],
}
RECORDS += [f'{{"sessions": [{{"started": "", "{name}": {v}}}]}}' for name, values in PARTS.items() for v in values]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: ascii(record)[:60])
def test_a_record_of_another_shape_is_damaged(tmp_path, record):
    folder = write_run(tmp_path / "r", row("a"))
    (folder / "run.json").write_bytes(record.encode("utf-8", "surrogateescape"))
    for look in (store.environment, store.measured):
        with pytest.raises(SpmvbenchError, match=r"run\.json is damaged"):
            look(folder)


def damaged(results):
    """Two runs that cannot be read, beside one that can."""
    write_run(results / "good", row("a"))
    write_run(results / "rows", row("a"))
    (results / "rows/rows.parquet").write_bytes(b"PAR1 no parquet")
    write_run(results / "record", row("a"))
    (results / "record/run.json").write_text("{")


def test_a_damaged_run_is_a_line_and_the_others_are_shown(command, tmp_path):
    damaged(tmp_path)
    said = command("runs", "--results", tmp_path)
    lines = said.out.splitlines()
    assert said.code == 1 and lines[1].split()[:3] == ["good", "1", "1"]
    assert sorted(line.partition(" was not read: ")[0] for line in lines[2:]) == ["record", "rows"]
    assert "rows.parquet is damaged" in said.out and "run.json is damaged" in said.out


@pytest.mark.slow
def test_a_report_of_all_draws_the_others(command, tmp_path):
    damaged(tmp_path)
    said = command("report", "--all", "--results", tmp_path, "--figures", "bytes")
    assert said.code == 1 and "rows was not read" in said.out and "record was not read" in said.out
    assert "good" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "good/report/index.html").is_file() and not (tmp_path / "rows/report").exists()


def test_what_cannot_be_opened_is_not_damaged(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "r", row("a"))

    def refused(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "read", refused)
    with pytest.raises(PermissionError):
        store.load(folder)


def test_a_locale_that_cannot_write_the_name_of_a_run_reads_it(tmp_path):
    write_run(tmp_path / "ünï", row("a"))
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "spmvbench", "runs", "--results", str(tmp_path)],
        env=environment, capture_output=True, text=True, encoding="ascii",
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[1].split()[1:3] == ["1", "1"]


def test_a_file_that_unpacks_to_very_many_rows_is_refused(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "r", *(row(str(place), device_name="x" * 900) for place in range(2000)))
    assert (folder / "rows.parquet").stat().st_size < 200_000
    for name, most, why in (("MOST_BYTES", 1_000_000, "unpacks to more"), ("MOST_ROWS", 1000, "declares 2,000 rows")):
        with monkeypatch.context() as patch:
            patch.setattr(files, name, most)
            with pytest.raises(SpmvbenchError, match=why):
                store.load(folder)


def test_a_file_with_columns_twice_or_of_other_types_is_damaged(tmp_path):
    folder = write_run(tmp_path / "r", row("a"))
    table = pq.read_table(folder / "rows.parquet")
    place = table.column_names.index("nnz")
    twice = table.append_column(table.field("nnz"), table["nnz"])
    words = table.set_column(place, "nnz", pa.array(["many"])).replace_schema_metadata(table.schema.metadata)
    for wrong in (twice, words):
        pq.write_table(wrong, folder / "rows.parquet")
        with pytest.raises(SpmvbenchError, match=r"rows\.parquet is damaged"):
            store.load(folder)
    assert set(files.CASES.stored) <= set(table.column_names)
