"""Runs that older versions wrote, under older names of columns and metadata."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spmvbench.analysis import compare
from spmvbench.errors import SpmvbenchError
from spmvbench.measure.timing import median_interval
from spmvbench.rows import schema, store

PUBLISHED = Path(__file__).parents[2] / "results/published"


def written(**columns):
    row = schema.blank_row() | {"case_id": "a", "status": "skipped", "rows": 8, "repeated_row_share": 0.75}
    return row | {"ell_fill": 0.5, "project_kernel": True, "t_kernels": '{"ell": 1.5}'} | columns


@pytest.fixture
def older(tmp_path):
    """A run's folder with the one row that `written` gives, in the layout of version 1."""

    def make(*, keep=(), **columns):
        part = tmp_path / "rows.parquet"
        table = pa.Table.from_pylist([written(**columns)], schema.arrow_schema())
        old = {name: before for before, name in schema.OLD_COLUMNS.items()}
        table = table.rename_columns([old.get(name, name) for name in table.column_names])
        counts = pa.array([round(columns.get("repeated_row_share", 0.75) * columns.get("rows", 8))], pa.int64())
        table = table.set_column(table.column_names.index("alike_rows"), "alike_rows", counts)
        for name in keep:
            table = table.append_column(name, table[next(b for b, n in schema.OLD_COLUMNS.items() if n == name)])
        pq.write_table(table.replace_schema_metadata({"schema_version": "1"}), part)
        return tmp_path

    return make


def test_old_names_are_none_of_todays():
    assert not set(schema.OLD_COLUMNS) & set(schema.COLUMNS)
    assert set(schema.OLD_COLUMNS.values()) <= set(schema.COLUMNS)


def test_columns_of_older_rows_are_renamed(older):
    folder = older()
    for _ in range(2):  # as it was written, then compacted into today's layout with a row of today
        loaded = store.load(folder)
        assert list(loaded.columns) == list(schema.COLUMNS)
        found = loaded.iloc[0].to_dict()
        assert [found[name] for name in ("repeated_row_share", "ell_fill", "project_kernel")] == [0.75, 0.5, True]
        assert found["t_kernels"] == '{"ell": 1.5}' and math.isnan(found["column_step_log2"])
        store.append(folder, written(case_id="b", sequence=1))
        store.compact(folder)
    assert pq.read_schema(folder / "rows.parquet").names == list(schema.COLUMNS)
    assert len(loaded) == 2


def test_a_share_of_no_rows_is_zero(older):
    assert store.load(older(rows=0))["repeated_row_share"].tolist() == [0.0]


def test_rows_before_a_column_have_none_of_it(older):
    folder = older()
    part = folder / "rows.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["alike_rows", "slice_fill", "own_kernel"]), part)
    (found,) = store.load(folder).to_dict("records")
    assert math.isnan(found["repeated_row_share"]) and math.isnan(found["ell_fill"]) and not found["project_kernel"]


@pytest.mark.parametrize("damage", ["both names", "no rows"])
def test_rows_of_two_layouts_at_once_are_damaged(older, damage):
    folder = older(keep=["ell_fill"] if damage == "both names" else [])
    if damage == "no rows":
        pq.write_table(pq.read_table(folder / "rows.parquet").drop_columns(["rows"]), folder / "rows.parquet")
    with pytest.raises(SpmvbenchError, match="damaged"):
        store.load(folder)


def test_metadata_of_older_runs_is_renamed(older):
    folder = older()
    session = {"started": "2026", "roofs": {"read": [[1, 2.0]]}, "launch_floor": {"hot": 1e-6}}
    (folder / "run.json").write_text(json.dumps({"schema_version": 1, "sessions": [session]}))
    environment = store.environment(folder)
    expected = {"started": "2026", "bounds": {"read": [[1, 2.0]]}, "launch_overhead": {"hot": 1e-6}}
    assert environment.pop("sessions") == [expected] and environment == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h200-first", "h200-scaling"])
def test_a_published_run_equals_itself(name, tmp_path):
    """Comparing a run with its copy in today's layout shows no difference."""
    before = store.load(PUBLISHED / name)
    table = pq.read_table(PUBLISHED / name / "rows.parquet")
    assert set(schema.OLD_COLUMNS) & set(table.column_names)
    for old, new in schema.OLD_COLUMNS.items():
        if old in table.column_names and old != "alike_rows":
            assert table[old].to_pylist() == before[new].tolist()
    if "alike_rows" in table.column_names:
        repeated = before["repeated_row_share"] * before["rows"]
        assert repeated.round().tolist() == pytest.approx(table["alike_rows"].to_pylist())
    store.merge([PUBLISHED / name], tmp_path / name)
    found = compare.compared(before, store.load(tmp_path / name), median_interval)
    timed = found[found["status_before"] == "ok"]
    assert len(found) == len(before) and len(timed) and (timed["ratio"] == 1).all()
    assert not set(found["verdict"]) & ({"slower", "faster"} | set(compare.INCOMPLETE))
    assert (found["status_before"] == found["status_after"]).all()
