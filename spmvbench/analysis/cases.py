"""Rows made ready for analysis: which matrix and which setting each belongs to, and which of them count."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

_TYPES, _MODES = ("f64", "f32"), ("hot", "cold")
CASE = ["setting", "matrix", "label"]  # what two rows have in common whose times are of the same


def prepared(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of one or several runs with three columns more, in an order that does not depend on when they were measured.

    matrix: ``group/name``; a name alone identifies nothing. Where a file was edited between runs, each content is a
    matrix of its own, told apart by the first digits of its hash. setting: what must be equal for times to be compared,
    such as ``f64 hot``; the operation is named where it is not plain SpMV, the device where there are several. It is an
    ordered category. Searches from several sources are one row, as `_of_all_sources` says. cases: how many a row stands
    for. Samples are left out. Where a case was measured several times (in several runs, with other seeds), the last
    time counts: of two rows of one run the one written later, whatever the clock said.
    """
    rows = keyed(rows.drop(columns="samples", errors="ignore"))
    rows = rows.loc[written(rows)].drop_duplicates(CASE, keep="last")
    return _of_all_sources(rows.sort_values(CASE, ignore_index=True))


def _of_all_sources(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with one for all sources of a search: the first of them, with the mean time and the rate that it gives.

    All sources lie in one component, so that the rate is the harmonic mean, as Graph500 has it. Where one source was
    not right, its row stands for all.
    """
    rows = rows.assign(cases=1)
    searches = rows["op"].str.fullmatch(r"bfs.*@\d+")
    if not searches.any():
        return rows
    rows = rows.assign(op=rows["op"].mask(searches, rows["op"].str.partition("@")[0]))
    rows = keyed(rows)
    rows["cases"] = rows.groupby(CASE, observed=True)["cases"].transform("sum")
    found = rows[searches]
    ok = found["status"] == "ok"
    failed = found[~ok].drop_duplicates(CASE)
    found = found[ok].set_index(CASE)
    found = found[~found.index.isin(failed.set_index(CASE).index)].reset_index()
    groups = found.groupby(CASE, observed=True)
    times = ["t_median", "t_q1", "t_q3"]
    found = found.assign(**groups[times].transform("mean"))
    found = found.assign(gflops=1e-9 * groups["work"].transform("mean") / found["t_median"])
    pooled = pd.concat([rows[~searches], failed, found.drop_duplicates(CASE)])
    return pooled[rows.columns].sort_values(CASE, ignore_index=True)


def keyed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns matrix and setting of `prepared`, none left out."""
    device = rows["device_name"].where(~emulated(rows), "emulated")
    return rows.assign(matrix=matrix_names(rows, "file_sha256"), setting=settings(rows, device))


def settings(rows: pd.DataFrame, device: pd.Series) -> pd.Categorical:
    """The column `setting`; device: what each row calls its device, named where there are several."""
    parts = rows[["dtype", "mode"]].assign(
        op=rows["op"].where(rows["op"] != "spmv", ""), device=device if device.nunique() > 1 else ""
    )
    text = parts["dtype"].str.cat([parts["mode"], parts["op"], parts["device"]], sep=" ").str.split().str.join(" ")
    order = sorted(
        set(zip(parts["device"], parts["op"], parts["dtype"], parts["mode"], text, strict=True)),
        key=lambda s: (s[0], s[1], _rank(s[2], _TYPES), _rank(s[3], _MODES)),
    )
    return pd.Categorical(text, [s[-1] for s in order], ordered=True)


def written(rows: pd.DataFrame) -> pd.Index:
    """The rows in the order in which they were written: a clock that was set back counts as one that stood still."""
    runs = rows.sort_values(["sequence", "started_at"]).groupby("run_id", sort=False)["started_at"]
    return runs.transform(lambda starts: list(itertools.accumulate(starts, max))).sort_values(kind="stable").index


def matrix_names(rows: pd.DataFrame, content: str) -> pd.Series:
    """The column `matrix`; content: the column whose hash tells matrices of one name apart."""
    names = rows["group"] + "/" + rows["name"]
    contents = rows[content].where(rows[content] != "").groupby(names).transform("nunique")
    return names.where(contents < 2, names + "@" + rows[content].str[:8])


def _rank(word: str, known: Sequence[str]) -> tuple[int, str]:
    return (known.index(word) if word in known else len(known), word)


def emulated(rows: pd.DataFrame) -> pd.Series:
    """Which rows come from the emulated device: their times say nothing about a GPU."""
    return rows["device"].str.startswith("emulated")


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without experiments, and without other names of a format that the table holds too.

    A table without the columns experiment or alias_of has had them left out before.
    """
    if "experiment" in rows:
        rows = rows[~rows["experiment"]]
    return rows[~rows["alias_of"].isin(rows["label"])] if "alias_of" in rows else rows


def of_one_operation(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of y = A x where there are any, else all: what pictures of every format show."""
    plain = rows[rows["op"] == "spmv"]
    return plain.assign(setting=plain["setting"].cat.remove_unused_categories()) if len(plain) else rows


def right(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that were measured and right, as far as they are counted. Nothing else enters a ranking or a mean."""
    rows = counted(rows)
    return rows[rows["status"] == "ok"]


def hot(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of settings that repeat SpMVs as solvers do, with a warm L2; all where none was measured so."""
    repeated = rows[rows["mode"] == "hot"]
    return rows if repeated.empty else repeated


def labels_of(rows: pd.DataFrame, formats: Sequence[str]) -> list[str]:
    """One label for each of these formats (keys) with a right row: its defaults' where measured, else the first."""
    held = right(rows).groupby("format")["label"].unique()
    return [min(held[key], key=lambda label: (label != key, label)) for key in formats if key in held]


def both_kernels(rows: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """These labels; behind that of a format's defaults the one of its authors' kernel, where that has a right row."""
    measured = set(right(rows)["label"])
    theirs = [f"{label}[kernel=paper]" for label in labels]
    return [name for pair in zip(labels, theirs, strict=True) for name in pair if name == pair[0] or name in measured]


def alike(ours: Sequence[str], rivals: Sequence[str]) -> list[tuple[str, str]]:
    """Each of ours with each rival, both as `both_kernels` gives them: the authors' kernels meet the authors'."""
    of_key: dict[str, list[str]] = {}
    for label in rivals:
        of_key.setdefault(label.partition("[")[0], []).append(label)
    return [(label, of[-1 if "kernel=paper" in label else 0]) for label in ours for of in of_key.values()]


def once_a_matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """One right row for each matrix, format and type: storage and conversion do not depend on hot or cold."""
    return right(rows).drop_duplicates(["matrix", "label", "dtype", "op", "device_name"])
