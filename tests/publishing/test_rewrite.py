"""Runs of versions before 1.0 come back: samples within a unit in the last place of float32, all else as it was."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spmvbench.errors import SpmvbenchError
from spmvbench.publishing import rewrite
from spmvbench.rows import store
from spmvbench.rows.schema import MATRIX_COLUMNS, arrow_schema, blank_row

OLD = {today: before for before, today in rewrite.OLD_COLUMNS.items()}


def row(case, clock, repeats, **columns):
    """A timed row of the older form; clock: milliseconds."""
    samples = np.float32(clock.astype(float) / (1e3 * repeats))
    q1, median, q3 = np.quantile(clock.astype(float) / (1e3 * repeats), [0.25, 0.5, 0.75])
    times = {"t_q1": q1, "t_median": median, "t_q3": q3, "n_samples": len(clock), "gflops": 40e-9 / median}
    sizes = {
        "rows": 8,
        "nnz": 20,
        "row_len_mean": 2.5,
        "row_len_std": 1.0,
        "row_len_cv": 0.4,
        "repeated_row_share": 0.75,
    }
    known = {"case_id": case, "status": "ok", "op": "spmv", "dtype": "f64", "mode": "hot", "device": "cuda:0"}
    known |= {"work": 40, "samples": samples.tolist(), "repeats": repeats, "matrix_sha256": "m", "ell_fill": 0.5}
    return blank_row() | known | times | sizes | {"schema_version": 2} | columns


@pytest.fixture
def published(tmp_path):
    """A folder with two runs of version 1, and the rows that they hold."""
    rng = np.random.default_rng(0)
    rows = []
    for name, tick in (("one", 3.2e-5), ("two", 1e-7)):  # a clock of 32 ns, and one that is finer
        run = tmp_path / name
        run.mkdir()
        mine = [
            row(f"{name}{n}", np.float32(np.round(rng.uniform(0.02, 900) / tick + rng.integers(0, 90, n)) * tick), n)
            for n in range(1, 40)
        ]
        mine.append(blank_row() | {"case_id": name, "status": "skipped", "reason": "because", "schema_version": 2})
        table = pa.Table.from_pylist(mine, arrow_schema())
        counts = pa.array([round(8 * one["repeated_row_share"]) if one["rows"] else 0 for one in mine], pa.int64())
        table = table.rename_columns([OLD.get(column, column) for column in table.column_names])
        table = table.set_column(table.column_names.index("alike_rows"), "alike_rows", counts)
        pq.write_table(table.drop_columns(["x_seed"]), run / "rows.parquet")
        about = blank_row(MATRIX_COLUMNS) | {"matrix_sha256": "m", "name": name}
        pq.write_table(pa.Table.from_pylist([about], arrow_schema(MATRIX_COLUMNS)), run / "matrices.parquet")
        session = {"started": "2026", "roofs": {"read": [[1, 2.0]]}, "launch_floor": {"hot": 1e-6}}
        (run / "run.json").write_text(json.dumps({"schema_version": 1, "sessions": [session]}))
        rows += mine
    return tmp_path, rows


def test_rows_come_back(published, monkeypatch):
    folder, rows = published
    monkeypatch.setattr("sys.argv", ["rewrite", str(folder)])
    rewrite.main()
    for name in ("one", "two"):
        found = store.load(folder / name)
        before = [one for one in rows if one["case_id"].startswith(name)]
        assert found["case_id"].tolist() == [one["case_id"] for one in before]
        for one, other in zip(found.to_dict("records"), before, strict=True):
            samples = np.float32(one["samples"]), np.float32(other["samples"])
            assert np.abs(samples[0].view(np.int32) - samples[1].view(np.int32)).max(initial=0) <= 1
            for column in other.keys() - {"samples", "schema_version", "repeated_row_share"}:
                same = one[column] == other[column] or (math.isnan(other[column]) and math.isnan(one[column]))
                assert same or one[column] == pytest.approx(other[column], rel=2e-7), column
            assert one["repeated_row_share"] == (0.75 if one["rows"] else 0)
        assert store.matrices(folder / name)["matrix_sha256"].tolist() == ["m"]
        (session,) = store.environment(folder / name)["sessions"]
        assert session == {"started": "2026", "bounds": {"read": [[1, 2.0]]}, "launch_overhead": {"hot": 1e-6}}
    assert sorted(path.name for path in folder.rglob("*.parquet")) == ["matrices.parquet"] + 2 * ["rows.parquet"]


def test_rows_that_would_not_come_back_stop_it(published, monkeypatch):
    folder, _ = published
    table = pq.read_table(folder / "two" / "rows.parquet")
    longer = pa.array([1.5 * seconds for seconds in table["t_median"].to_pylist()])
    pq.write_table(
        table.set_column(table.column_names.index("t_median"), "t_median", longer), folder / "two/rows.parquet"
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr("sys.argv", ["rewrite", str(folder)])
    with pytest.raises(SpmvbenchError, match="t_median does not follow from the other columns: nothing is rewritten"):
        rewrite.main()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
