"""Preparation of rows for analysis: matrix and setting of each row, the latest row of each case, which rows count."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from spmvbench.rows.newest import newest
from spmvbench.rows.schema import IMPORTED

_TYPES = ("f64", "f32/f64", "f16/f64", "bf16/f64", "f32", "f16/f32", "bf16/f32")
_MODES = ("hot", "cold")
CASE = ["setting", "matrix", "label"]  # identifies what a time was measured of


def latest_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """The latest row of each case of one or several runs, sorted by case, without samples and with three more columns.

    matrix: ``group/name``, because a name alone is ambiguous. If a file changed between runs, each content is a matrix
    of its own, marked with the first digits of its hash. setting: an ordered category of what must be equal for times
    to be comparable, such as ``f64 hot``; it names the operation unless that is plain SpMV, the order of rows and
    columns unless that is the natural one, the device if there are several, whether rows are imported. cases: number of
    cases that the row represents; BFS from several sources is one row (`_over_sources`).

    If a case has several rows (of several runs, of other seeds), `rows.newest` says which one counts.
    """
    rows = keyed(rows.drop(columns="samples", errors="ignore"))
    if not rows.index.is_unique:  # as of runs that were put one below the other
        rows = rows.reset_index(drop=True)
    order = rows.loc[newest(rows, CASE), CASE].sort_values(CASE).index
    return _over_sources(rows.loc[order].reset_index(drop=True))


def _over_sources(rows: pd.DataFrame) -> pd.DataFrame:
    """Replaces the rows of a BFS from several sources by one row, with the mean time and the resulting rate.

    All sources are in one component, so the rate is the harmonic mean, as in Graph500. If one source failed, its row
    replaces all.
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
    """All rows, with the columns matrix and setting of `latest_cases`."""
    device = rows["device_name"].where(~emulated(rows), "emulated")
    return rows.assign(matrix=matrix_names(rows, "file_sha256"), setting=settings(rows, device))


def settings(rows: pd.DataFrame, device: pd.Series | None = None) -> pd.Categorical:
    """The column `setting`. device: name of each row's device, part of the setting if there are several."""
    parts = rows[["dtype", "mode"]].assign(
        op=rows["op"].where(rows["op"] != "spmv", ""),
        order=named_order(rows),
        device=device if device is not None and device.nunique() > 1 else "",
        imported=rows["device"].where(imported(rows), ""),
    )
    # Half a million rows have a few settings: each is put into words once.
    place = parts.groupby(list(parts), sort=False).ngroup()
    found = parts[~place.duplicated()]
    names = ("dtype", "mode", "op", "order", "device", "imported")
    texts = [" ".join(filter(None, words)) for words in zip(*(found[name] for name in names), strict=True)]
    order = sorted(
        set(zip(*(found[name] for name in ("imported", "device", "op", "order", "dtype", "mode")), texts, strict=True)),
        key=lambda s: (*s[:2], s[2].partition("@")[0], len(s[2]), *s[2:4], _rank(s[4], _TYPES), _rank(s[5], _MODES)),
    )
    known = pd.Categorical(texts, [s[-1] for s in order], ordered=True)
    return pd.Categorical.from_codes(known.codes[place], dtype=known.dtype)


def named_order(rows: pd.DataFrame) -> pd.Series | str:
    """The order that the matrix of each row was measured in, ``""`` for the natural one."""
    return rows["order"].replace("none", "") if "order" in rows else ""


def matrix_names(rows: pd.DataFrame, content: str) -> pd.Series:
    """The column `matrix`. content: the column of hashes that distinguishes matrices of one name."""
    names = rows["group"] + "/" + rows["name"]
    contents = rows[content].where(rows[content] != "").groupby(names).transform("nunique")
    return names.where(contents < 2, names + "@" + rows[content].str[:8])


def families(rows: pd.DataFrame) -> pd.Series:
    """The family of each row's matrix: the generator, or the group of the collection."""
    return rows["kind"].where(rows["group"] == "synthetic", rows["group"])


def _rank(word: str, known: Sequence[str]) -> tuple[int, str]:
    return (known.index(word) if word in known else len(known), word)


def emulated(rows: pd.DataFrame) -> pd.Series:
    """Which rows come from the emulated device, whose times say nothing about a GPU."""
    return rows["device"].str.startswith("emulated")


def gpus(rows: pd.DataFrame) -> list[str]:
    """The models of GPU of these rows."""
    return sorted(set(rows.loc[~emulated(rows), "device_name"]) - {""})


def imported(rows: pd.DataFrame) -> pd.Series:
    """Which rows others measured with a program of their own; they have settings of their own."""
    return rows["device"] == IMPORTED


def verified_or_imported(rows: pd.DataFrame) -> str:
    """What rows with status ok are called: verified; imported if all of the rows are."""
    return IMPORTED if len(rows) and imported(rows).all() else "verified"


def kept(rows: pd.DataFrame, mask: pd.Series) -> pd.DataFrame:
    """The rows of a mask: the table itself if that is all, because to copy half a million rows takes a second."""
    return rows if mask.all() else rows[mask]


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that count in rankings: without experiments and without further names of a format in the table.

    A table without the columns experiment or alias_of is taken as filtered already.
    """
    return kept(rows, _counts(rows))


def _counts(rows: pd.DataFrame) -> pd.Series:
    counts = ~rows["experiment"].astype(bool) if "experiment" in rows else pd.Series(True, rows.index)
    # The values to look for are converted one by one, which takes longer than all else here: each label once.
    return counts & ~rows["alias_of"].isin(rows.loc[counts, "label"].unique()) if "alias_of" in rows else counts


def in_natural_order(rows: pd.DataFrame, op: str) -> pd.DataFrame:
    """The rows of an operation with the matrix in its natural order."""
    return kept(rows, (rows["op"] == op) & (named_order(rows) == ""))


def natural_products(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of y = A x with the matrix in its natural order."""
    return in_natural_order(rows, "spmv")


def of_one_operation(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of y = A x in the natural order if there are any, else all: what figures of all formats show."""
    plain = natural_products(rows)
    return plain.assign(setting=plain["setting"].cat.remove_unused_categories()) if len(plain) else rows


def verified(rows: pd.DataFrame) -> pd.DataFrame:
    """The `counted` rows with status ok: measured and verified. Only these enter rankings and means."""
    return kept(rows, _verified(rows))


def has_verified(rows: pd.DataFrame) -> bool:
    """Whether any row is `verified`."""
    return bool(_verified(rows).any())


def _verified(rows: pd.DataFrame) -> pd.Series:
    return _counts(rows) & (rows["status"] == "ok")


def hot(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows measured hot (SpMVs repeated with a warm L2, as in solvers); all rows if there are none."""
    repeated = rows["mode"] == "hot"
    return kept(rows, repeated) if repeated.any() else rows


def fewer_values(rows: pd.DataFrame) -> pd.Series:
    """Whether a row's format stores fewer values than the matrix has; False where no row says so."""
    return rows["compresses_values"].fillna(False).astype(bool)


NAMES = ("format", "label", "alias_of", "experiment", "status")  # columns that `labels_of` reads


def labels_of(rows: pd.DataFrame, formats: Sequence[str]) -> list[str]:
    """One label for each of these formats (keys) with a verified row: that of the default parameters if measured."""
    held = verified(rows.filter(items=NAMES)).groupby("format")["label"].unique()
    return [min(held[key], key=lambda label: (label != key, label)) for key in formats if key in held]


def both_kernels(rows: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """These labels, each followed by that of the authors' kernel (``kernel=paper``) if it has a verified row."""
    measured = {parts(label): label for label in verified(rows.filter(items=NAMES))["label"].unique()}
    theirs = [measured.get(parts(label) | {"kernel=paper"}, label) for label in labels]
    return list(dict.fromkeys(name for pair in zip(labels, theirs, strict=True) for name in pair))


def parts(label: str) -> frozenset[str]:
    """The key of a label and its settings."""
    key, _, settings = label.removesuffix("]").partition("[")
    return frozenset([key, *settings.split(",")]) - {""}


def authors(labels: pd.Series) -> pd.Series:
    """Which of these labels are of the authors' kernel of a key that has this project's too."""
    return labels.str.contains(r"\bkernel=paper\b")


def matching_kernels(ours: Sequence[str], rivals: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of one label of `ours` and one of `rivals`, both from `both_kernels`: the authors' kernels are paired."""
    of_key: dict[str, list[str]] = {}
    for label in rivals:
        of_key.setdefault(label.partition("[")[0], []).append(label)
    return [(label, of[-1 if "kernel=paper" in label else 0]) for label in ours for of in of_key.values()]


def one_per_matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """One verified row for each matrix, format and type: storage and conversion do not depend on hot or cold."""
    return verified(rows).drop_duplicates(["matrix", "label", "dtype", "op", "device_name"])
