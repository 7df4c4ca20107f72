"""Tables of a run as files: Parquet, merged, and lines of JSON, appended. Both may come from a stranger."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from spmvbench import untrusted
from spmvbench.errors import SpmvbenchError
from spmvbench.paths import naming, opened
from spmvbench.rows import stored
from spmvbench.rows.schema import MATRIX_COLUMNS, SCHEMA_VERSION, arrow_schema, blank_row

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS, MOST_BYTES = 10_000_000, 2**32  # limits of an unpacked table: a small file can unpack to very many
CHUNK = 1000  # lines converted at once
_LISTS = {"ints": np.int64, "floats": np.float32}


@dataclass(frozen=True)
class Layout:
    """Files of a table of a run: the merged file, the file of lines, the key column, and columns.

    columns: of the table that is read; stored: those of them that the merged file has.
    """

    merged: str
    lines: str
    key: str
    columns: Mapping[str, tuple[str, str]]
    stored: Mapping[str, tuple[str, str]]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the table that is read."""
        return arrow_schema(self.columns)

    def completed(self, table: pa.Table, only: Sequence[str] = ()) -> pa.Table:
        """The table with these columns, or `only` some of them, in their types. Missing columns and nulls become empty
        values, which are null in those of int or null.
        """
        import pyarrow as pa

        blank, names = blank_row(self.columns), list(only or self.columns)
        schema = pa.schema([self.schema.field(name) for name in names]) if only else self.schema
        for name in set(names) - set(table.column_names):
            field = self.schema.field(name)
            table = table.append_column(field, pa.array([blank[name]] * len(table), field.type))
        table = table.select(names).cast(schema)
        for index, field in enumerate(schema):
            if blank[field.name] is not None and table.column(index).null_count:
                values = [blank[field.name] if value is None else value for value in table.column(index).to_pylist()]
                table = table.set_column(index, field, pa.array(values, field.type))
        return table


CASES = Layout("rows.parquet", "rows.jsonl", "case_id", stored.READ, stored.STORED)
DESCRIPTIONS = Layout("matrices.parquet", "matrices.jsonl", "matrix_sha256", MATRIX_COLUMNS, MATRIX_COLUMNS)


def write(table: pa.Table, layout: Layout, file: BinaryIO, smallest: bool = False) -> None:
    """Write a table of `read` or `parsed` as Parquet. smallest: in 40 times the time, without meanings of columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(layout.stored)
    if stored.TICKS in layout.stored:
        table = stored.packed(table)
    encodings = {"sequence": "DELTA_BINARY_PACKED", "started_at": "DELTA_BYTE_ARRAY"}
    for name, (kind, _) in layout.stored.items():
        if kind == "float" or name in (stored.SAMPLES, stored.TICKS):  # equal exponents, and zeros, side by side
            encodings[name if kind == "float" else f"{name}.list.element"] = "BYTE_STREAM_SPLIT"
    plain = {*encodings, *(f"{field.name}.list.element" for field in schema if pa.types.is_list(field.type))}
    pq.write_table(
        table.select(schema.names).cast(schema),
        file,
        compression="zstd",
        compression_level=19 if smallest else 3,
        data_page_size=1 << 20,
        use_dictionary=[name for name in schema.names if name not in plain and f"{name}.list.element" not in plain],
        column_encoding=encodings,
        write_statistics=not smallest,
        store_schema=not smallest,
    )


def read(path: Path, layout: Layout, only: Sequence[str] = ()) -> pa.Table:
    """The rows of a Parquet file. only: columns, the key among them; none: all.

    Raises SpmvbenchError for rows of another version, ValueError, KeyError or ArrowException for other files, and if
    rows have no key: all such rows would be one.
    """
    import pyarrow.parquet as pq

    # Opened here, because Arrow takes file names in UTF-8 only.
    with open(path, "rb") as file, pq.ParquetFile(file) as parquet:
        wanted = {"schema_version", *only, *([stored.TICKS] if stored.SAMPLES in only else [])}
        held = [name for name in parquet.schema_arrow.names if not only or name in wanted]
        table = _bounded(parquet, held)
    for version in set(table["schema_version"].to_pylist()):
        _require_version(path, version)
    table = stored.unpacked(table.select([name for name in table.column_names if name in layout.stored]))
    table = layout.completed(table, only)
    _require_keys(table, layout)
    return table


def _require_version(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise SpmvbenchError(
            f"{path} was written by a newer spmvbench (schema {version}, this one knows {SCHEMA_VERSION}): "
            "update spmvbench"
        )
    if 0 < version < SCHEMA_VERSION:
        raise SpmvbenchError(
            f"{path} was written by spmvbench before 1.0 (schema {version}), which reads it; this one does not"
        )
    if version != SCHEMA_VERSION:
        raise ValueError("it has no rows of spmvbench")


def _require_keys(table: pa.Table, layout: Layout) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.equal(table[layout.key], "")).as_py():
        raise ValueError(f"it has rows without {layout.key}")


def _bounded(file: Any, columns: Sequence[str]) -> pa.Table:
    """A file's rows. Raises ValueError if they are more, or take more memory, than those of any run."""
    import pyarrow as pa

    batches, size = [], 0
    if file.metadata.num_rows > MOST_ROWS:
        raise ValueError(f"it declares {file.metadata.num_rows:,} rows")
    for batch in file.iter_batches(1024, columns=columns, use_threads=False):
        size += batch.nbytes
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES >> 30} GiB")
        batches.append(batch)
    return pa.Table.from_batches(batches, pa.schema([file.schema_arrow.field(name) for name in columns]))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a file of lines, after what a killed process or a full disk has cut off is removed."""
    line = json.dumps(row, default=lambda value: value.tolist()).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), open(opened(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end and (file.seek(end - 1), file.read(1))[1] != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
        file.write(line)


def read_lines(path: Path, layout: Layout) -> tuple[list[pa.Table], list[str]]:
    """The rows of a file of lines, and warnings of damaged lines.

    Raises FileNotFoundError, SpmvbenchError for rows of another version, and for a file that is larger than that of any
    run.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    if path.stat().st_size > MOST_BYTES:
        raise SpmvbenchError(f"{path} is damaged: it has more than {MOST_BYTES >> 30} GiB")
    tables: list[pa.Table] = []
    damaged: list[str] = []

    def convert(numbered: Sequence[tuple[int, bytes]]) -> None:
        try:
            tables.append(parsed([_row(line, path) for _, line in numbered], layout))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            if len(numbered) == 1:
                where = f"line {numbered[0][0]} of {path}"
                damaged.append(f"Warning: ignored the damaged row in {where} ({damage(error)})")
                return
            middle = len(numbered) // 2
            convert(numbered[:middle])
            convert(numbered[middle:])

    with open(path, "rb") as file:
        # A last line without an end is still being written, or was cut off.
        whole = ((number, line) for number, line in enumerate(file, start=1) if line.endswith(b"\n"))
        while some := list(islice(whole, CHUNK)):
            convert(some)
    return tables, damaged


def _row(line: bytes, path: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line)
    _require_version(path, row["schema_version"])
    return row


def parsed(rows: Sequence[Mapping[str, Any]], layout: Layout) -> pa.Table:
    """Rows as a table. Missing columns are empty. Raises ValueError, TypeError and others for wrong values."""
    import pyarrow as pa

    blank, found = blank_row(layout.columns), []
    nullable = [name for name, value in blank.items() if value is None]  # pandas has NaN for null
    converted = [(name, _LISTS[kind]) for name, (kind, _) in layout.columns.items() if kind in _LISTS]
    for row in rows:
        one = {name: row.get(name, value) for name, value in blank.items()}
        if stored.SAMPLES in one and "samples" in row:
            one[stored.SAMPLES] = stored.milliseconds(row["samples"], row["repeats"])
        one |= {name: None for name in nullable if one[name] != one[name]}
        # Arrays, which take a tenth of the memory of lists.
        found.append(one | {name: np.asarray(one[name], dtype) for name, dtype in converted})
    table = pa.Table.from_pylist(found, schema=layout.schema)
    if empty := [name for name in table.column_names if blank[name] is not None and table[name].null_count]:
        raise ValueError(f"{empty[0]} is null")
    _require_keys(table, layout)
    return table


def damage(error: Exception) -> str:
    """The message of an error about a damaged file. Errors of the system, which may pass, are raised again."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return untrusted.text(str(error).partition("\n")[0])[:300]


def version(path: Path) -> tuple[int, int] | None:
    """A value that changes when a file is replaced; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
