"""Export of a run as CSV, JSON, Markdown, LaTeX, or the JSON of Ginkgo's benchmarks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from spmvbench.analysis import programs
from spmvbench.analysis.cases import counted, emulated, hot, latest_cases, natural_products, of_one_operation, verified
from spmvbench.analysis.products import products
from spmvbench.analysis.ranking import TIE, VENDORS, by_mean_slowdown
from spmvbench.analysis.reasons import first_line
from spmvbench.analysis.rivals import beside
from spmvbench.reports import advised, published, tables
from spmvbench.reports.tables import Column, Table
from spmvbench.rows.schema import rate_unit

_CASES = [
    Column("matrix", "Matrix"),
    Column("label", "Format"),
    Column("setting", "Setting"),
    Column("status", "Status"),
    Column("t_median", "Time", lambda t: tables.NONE if math.isnan(t) else tables.seconds(t)),
    Column("gflops", "GFLOPS", tables.number),
    Column("bytes_per_nnz", "Bytes/nnz", tables.number),
    Column("reason", "Reason"),
]


def text(rows: pd.DataFrame, to: str, table: str = "", samples: bool = False) -> str:
    """The rows of a run as csv, json, markdown, latex or ginkgo, ending in a newline.

    rows: as `store.load`. table: a key of _TABLES; by default cases for csv and json, formats for markdown and latex;
    ignored for ginkgo. samples: whether csv and json of cases include the samples. Raises KeyError for unknown names,
    ValueError for ginkgo if nothing was measured on a GPU, for products without cuSPARSE's CSR, for rivals without
    a matrix on which programs were measured.
    """
    if to == "ginkgo":
        return _json(ginkgo(rows))
    table = table or ("cases" if to in ("csv", "json") else "formats")
    if table == "cases" and to in ("csv", "json"):
        return _every_column(rows, to, samples)
    return _WRITERS[to](_TABLES[table](rows))


def _every_column(rows: pd.DataFrame, to: str, samples: bool) -> str:
    rows = rows if samples else rows.drop(columns="samples", errors="ignore")
    records = [{name: _plain(value) for name, value in row.items()} for row in rows.to_dict("records")]
    if to == "json":
        return _json(records)
    cells = [{k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in records]
    return tables.csv(pd.DataFrame(cells, columns=list(rows.columns)))


def _plain(value: Any) -> Any:
    """A value as JSON has it: null for NaN, lists for arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _timed(rows: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """The rows of GPUs and True; if none is verified, all rows and False, as emulated times say nothing."""
    rows = latest_cases(rows)
    measured = rows[~emulated(rows)]
    return (measured, True) if len(verified(measured)) else (rows, False)


def _matrices(rows: pd.DataFrame) -> list[Table]:
    rows, speed = _timed(rows)
    read = programs.without_aliases(counted(rows[rows["matrix_sha256"] != ""]))
    labels = by_mean_slowdown(read) if speed else []
    labels += sorted(set(read["label"].unique()) - set(labels))
    value, best = ("gflops", "max") if speed else ("bytes_per_nnz", "min")
    read = read.assign(same_as=programs.same_as(read) if speed else "")
    return [
        tables.by_matrix(
            f"{rate_unit(str(setting)) if speed else 'Bytes per nonzero'}, {setting}",
            part,
            value,
            labels,
            best=best,
            winner="Best",
            tie=TIE,
        )
        for setting, part in read.groupby("setting", observed=True)
    ]


def _products(rows: pd.DataFrame) -> list[Table]:
    """Raises ValueError if there is nothing to compare with."""
    rows = hot(of_one_operation(_timed(rows)[0]))
    found = products(rows, advised.choices(rows))
    if found.empty:
        raise ValueError(f"it has no verified row of {' or '.join(VENDORS)} with the time of its conversion")
    return [tables.products(found)]


def paired(cases: pd.DataFrame) -> pd.DataFrame:
    """Formats beside public programs, as `analysis.rivals.beside`. cases: as `latest_cases`, of the programs' GPU.

    Raises ValueError if there is nothing to compare with.
    """
    public = published.public_programs()
    found = beside(cases, public.programs, public.rows)
    if found.empty:
        raise ValueError(f"it has no verified row of a matrix on which programs were measured on an {public.gpu}")
    return found


def rivals(pairs: pd.DataFrame) -> list[Table]:
    """The table `rivals`, one for each setting. pairs: as `paired`."""
    return [tables.rivals(str(setting), part) for setting, part in pairs.groupby("setting", observed=True)]


_TABLES: Mapping[str, Callable[[pd.DataFrame], list[Table]]] = {
    "cases": lambda rows: [
        tables.table("Cases", (found := latest_cases(rows)).assign(reason=found["reason"].map(first_line)), _CASES)
    ],
    "formats": lambda rows: tables.formats((timed := _timed(rows))[0], speed=timed[1]),
    "matrices": _matrices,
    "products": _products,
    "rivals": lambda rows: rivals(paired(latest_cases(rows[rows["device_name"] == published.public_programs().gpu]))),
    "programs": lambda rows: [
        tables.shared_programs(programs.shared(found := latest_cases(rows))),
        tables.programs_on_a_matrix(programs.counts(found)),
    ],
    "reasons": lambda rows: [tables.reasons(latest_cases(rows))],
}


def _records(found: Sequence[Table]) -> list[dict[str, Any]]:
    """One record per row, with the caption of its table. Cells with numbers are numbers or null."""
    records = []
    for table in found:
        names = [column.heading for column in table.columns]
        for row in table.rows:
            keys = [None if c.key in ("", "Infinity") else c.key for c in row]
            values = [k if of.show else c.text for k, c, of in zip(keys, row, table.columns, strict=True)]
            records.append({"Table": table.caption} | dict(zip(names, values, strict=True)))
    return records


def _csv(found: Sequence[Table]) -> str:
    names = dict.fromkeys(["Table", *(column.heading for table in found for column in table.columns)])
    return tables.csv(pd.DataFrame(_records(found), columns=list(names)))


def _markdown(found: Sequence[Table]) -> str:
    """Tables in GitHub's Markdown: the best of a row in bold, numbers aligned to the right."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(cell: tables.Cell) -> str:
        written = f"**{plain_markdown(cell.text)}**" if cell.best else plain_markdown(cell.text)
        return f"{written} [{cell.note}]" if cell.note else written

    parts = []
    for table in found:
        lines = [f"**{plain_markdown(table.caption)}**", ""]
        lines.append(line([plain_markdown(column.heading) for column in table.columns]))
        lines.append(line(["---:" if column.show else "---" for column in table.columns]))
        lines += [line([cell(c) for c in row]) for row in table.rows]
        lines += [f"\n[{mark}] {plain_markdown(note)}" for mark, note in table.notes]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


# What Markdown reads as markup: signs, an underscore at a word's edge, an entity, and what becomes a link by itself.
_MARKUP = re.compile(
    r"[\\`*|<>~]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|(?<=\w)(?=://)|(?<=www)\.", re.IGNORECASE
)


def plain_markdown(words: str) -> str:
    """Words in one line, with Markdown's markup escaped."""
    return _MARKUP.sub(lambda sign: f"\\{sign[0]}", words.replace("\n", " "))


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "\n": " ",
}  # fmt: skip


def latex_text(words: str) -> str:
    """Words with LaTeX's markup escaped."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in words)
    return f"{{}}{escaped}" if escaped.startswith("[") else escaped  # no option of the \\\\ before it


def tabular(table: Table) -> str:
    """A table's rows with the package booktabs; the best of a row in bold."""

    def cell(cell: tables.Cell) -> str:
        written = rf"\textbf{{{latex_text(cell.text)}}}" if cell.best else latex_text(cell.text)
        return rf"{written}\textsuperscript{{{cell.note}}}" if cell.note else written

    shape = "".join("r" if column.show else "l" for column in table.columns)
    lines = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule"]
    lines += [" & ".join(latex_text(column.heading) for column in table.columns) + r" \\", r"\midrule"]
    lines += [" & ".join(cell(c) for c in row) + r" \\" for row in table.rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex(found: Sequence[Table]) -> str:
    """Tables with the package booktabs, each with a caption and a label."""
    return "\n\n".join(in_float(table, table.caption, tabular(table)) for table in found) + "\n"


def in_float(table: Table, name: str, body: str, star: str = "", begin: str = r"\centering") -> str:
    """A float with a table's caption, a label of this name, the lines `body`, and the table's notes.

    star: of a float as wide as two columns. begin: how it begins.
    """
    label = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    notes = [rf"\par\textsuperscript{{{mark}}} {latex_text(note)}" for mark, note in table.notes]
    head = [rf"\begin{{table{star}}}", begin, rf"\caption{{{latex_text(table.caption)}}}", rf"\label{{tab:{label}}}"]
    return "\n".join([*head, body, *notes, rf"\end{{table{star}}}"])


def written(found: Sequence[Table], to: str) -> str:
    """Tables as csv, json, markdown or latex."""
    return _WRITERS[to](list(found))


_WRITERS: Mapping[str, Callable[[list[Table]], str]] = {
    "csv": _csv,
    "json": lambda found: _json(_records(found)),
    "markdown": _markdown,
    "latex": _latex,
}


def ginkgo(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One record per matrix and setting, as Ginkgo's spmv benchmark writes and its performance explorer reads them.

    filename, problem (group, name, kind, size), rows, cols, nonzeros; under spmv, by format: time (seconds, as Ginkgo
    since its pull request 669 and PETSc's bench_spmv; older data are in nanoseconds), repetitions, storage (bytes) and
    completed, else error and error_type; optimal.spmv; dataset, by which the explorer distinguishes systems: each
    setting (f64 hot) of the run is a system; spmvbench, by which `rows.ginkgo` knows labels and
    settings of this project. There is no max_relative_norm2, because errors are compared with a bound for each row.
    Experiments and further names of a format are left out.

    Raises ValueError if no SpMV was run on a GPU.
    """
    rows = counted(latest_cases(rows))
    rows = natural_products(rows[~emulated(rows)])
    if rows.empty:
        raise ValueError("Ginkgo's files contain times, and no SpMV of these rows was timed on a GPU")
    several = rows["setting"].nunique() > 1
    found = []
    for (setting, _), part in rows.groupby(["setting", "matrix"], observed=True):
        first = part.iloc[0]
        size = {"rows": int(first["rows"]), "cols": int(first["cols"]), "nonzeros": int(first["nnz"])}
        of_matrix = {name: _plain(first[f"row_len_{name}"]) for name in ("min", "median", "max", "mean")}
        of_matrix["variance"] = _plain(first["row_len_std"] ** 2)
        ok = part[part["status"] == "ok"]
        record = {
            "filename": f"{first['group']}/{first['name']}/{first['name']}.mtx",
            "problem": {"group": first["group"], "name": first["name"], "kind": first["kind"]}
            | size
            | {"row_distribution": of_matrix},
            **size,
            "spmv": {row.label: _operation(row) for row in part.itertuples()},
            "spmvbench": {"setting": f"{first['dtype']} {first['mode']}"},
            "optimal": {"spmv": ok.loc[ok["t_median"].idxmin(), "label"]} if len(ok) else {},
            "dataset": {
                "system": f"{first['device_name']} {setting}" if several else first["device_name"],
                "executor": "cuda",
                "provider": {"synthetic": "Generated", "file": "Local"}.get(first["group"], "SuiteSparse"),
                "collection": first["group"],
                "problem": f"{first['name']}.json",
            },
        }
        found.append(record)
    return found


def _operation(row: Any) -> dict[str, Any]:
    if row.status != "ok":
        return {"completed": False, "error_type": row.status, "error": row.reason}
    repetitions = int(row.n_samples * row.repeats)
    storage = {"storage": int(row.bytes_format)} if row.bytes_format else {}
    return storage | {"time": row.t_median, "repetitions": repetitions, "completed": True}
