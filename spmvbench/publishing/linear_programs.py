"""The tables of docs/results/linear-programs.md: A x and A^T y on linear programs, and primal-dual hybrid gradient."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pandas as pd

from spmvbench import paths
from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import fewer_values, hot, latest_cases, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.formats.two_copies import PLUS
from spmvbench.operators.transposing import TRIED
from spmvbench.publishing import in_page
from spmvbench.rows import store

VENDOR = "cusparse"  # begins the keys of the library
CHOICES = {"auto", *TRIED}  # `operator(A, pair=True)` takes the fastest of these for A and for A^T
WAYS = {"spmv": "A", "spmv-t": "A^T"}  # parts of a row, by their heads


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """The verified hot rows of pairs, and of solvers that multiply by them, with the seconds of each part as columns.

    Further columns: seconds: of a pair or of one iteration; ready: of the conversion; fewer: whether values are
    compressed; vendor: whether all of it is the library's; advised: whether both copies are of CHOICES.
    """
    rows = verified(hot(rows))
    rows = rows[rows["op"].str.match("pair|pdhg@")]
    iterations = rows["op"].str.partition("@")[2].replace("", "1").astype(int)
    parts = pd.DataFrame([json.loads(text) for text in rows["t_kernels"]], index=rows.index)
    parts = parts.reindex(columns=[*WAYS, "vectors"]).div(iterations, axis=0)
    keys = rows["format"].str.split(PLUS, regex=False)
    ours = keys.map(lambda pair: all(key.startswith(VENDOR) for key in pair))
    advised = keys.map(lambda pair: len(pair) > 1 and CHOICES.issuperset(pair))
    return rows.assign(
        **parts,
        seconds=rows["t_median"] / iterations,
        ready=ready(rows),
        fewer=fewer_values(rows),
        vendor=ours,
        advised=advised,
    )


def pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of pairs with `over_spmv`, `over_spmv-t`: times faster than the library's fastest pair in that part on
    the matrix; and `over`: the geometric mean of both.
    """
    found = rows[rows["op"] == "pair"]
    for way in WAYS:
        best = found[found["vendor"]].groupby("matrix", observed=True)[way].min()
        found = found.assign(**{f"over_{way}": found["matrix"].map(best).astype(float) / found[way]})
    return found.assign(over=(found["over_spmv"] * found["over_spmv-t"]) ** 0.5)


def by_format(rows: pd.DataFrame) -> str:
    """One line for each label: geometric means over the matrices, the fastest first."""
    found = pairs(rows)
    found = found.assign(size=found["bytes_format"] / found["nnz"])
    by_label = found.groupby("label")
    means = by_label[["over_spmv", "over_spmv-t", "over", "ready", "size"]].agg(geometric_mean)
    means = means.assign(
        matrices=by_label["matrix"].nunique(),
        compressed=by_label["fewer"].any().map({True: "yes", False: ""}),
        longest=1e3 * by_label["ready"].max(),
        ready=1e3 * means["ready"],
    )
    means = means.assign(part=means["matrices"] < found["matrix"].nunique()).reset_index()
    cells = {
        "Pair": "`{label}`",
        "A": "{over_spmv:.2f}",
        "A^T": "{over_spmv-t:.2f}",
        "Both": "{over:.2f}",
        "Conversion, ms": "{ready:.2f}",
        "Longest, ms": "{longest:.1f}",
        "Bytes per nonzero": "{size:.1f}",
        "Values compressed": "{compressed}",
        "Matrices": "{matrices}",
    }
    return in_page.listed(means.sort_values(["part", "over"], ascending=[True, False]), cells, [*cells][1:7])


def by_matrix(rows: pd.DataFrame) -> str:
    """One line for each matrix: microseconds of the library's best, of the advised pair and of the fastest in each
    part; and how many times faster than the library the advised pair is, as the geometric mean of both parts, which the
    last line has of all matrices. A matrix without an advised pair has no line.
    """
    lines, means = [], []
    found = pairs(rows)
    for matrix, own in _by_entries(found[found.groupby("matrix")["advised"].transform("any")]):
        advised = own[own["advised"]].nsmallest(1, "seconds").iloc[0]
        means.append(advised["over"])
        cells = [f"{advised['nnz'] / 1e6:.3g} M"]
        for way in WAYS:
            least = (own[own["vendor"]][way].min(), advised[way], own[~own["vendor"]][way].min())
            cells += [f"{1e6 * seconds:.1f}" for seconds in least]
        cells += [f"{1e3 * advised['ready']:.2f}", f"{advised['over']:.2f}", f"`{advised['format']}`"]
        lines.append([matrix, *cells])
    lines.append(["geometric mean", *[""] * 8, f"{geometric_mean(pd.Series(means)):.2f}", ""])
    numbers = [f"{way}, {of}" for way in WAYS.values() for of in ("cuSPARSE", "advised", "fastest")]
    head = "us", "Entries", *numbers, "Conversion, ms", "Advised over cuSPARSE", "Advised"
    return in_page.markdown(head, lines, head[1:-1])


def by_copy(rows: pd.DataFrame) -> str:
    """One line for each matrix: the fastest format of which one copy serves both products, in multiples of the time of
    the bytes that both products read, and of the advised pair.
    """
    lines, means = [], []
    found = rows[rows["op"] == "pair"]
    found = found.assign(whole=~found["format"].str.contains(PLUS, regex=False) & ~found["vendor"])
    for matrix, own in _by_entries(found[found.groupby("matrix")["whole"].transform("any")]):
        one = own[own["whole"]].nsmallest(1, "seconds").iloc[0]
        # The bound counts the arrays once.
        least = one["work"] / one["bound_gflops"] * 1e-9 * (1 + one["bytes_format"] / one["model_bytes"])
        over = one["seconds"] / least, one["seconds"] / own[own["advised"]]["seconds"].min()
        means.append(over)
        times = [f"{1e6 * one[way]:.1f}" for way in WAYS]
        size = f"{one['bytes_format'] / one['nnz']:.1f}"
        lines.append(
            [matrix, f"{one['nnz'] / 1e6:.3g} M", *times, size, *(f"{x:.2f}" for x in over), f"`{one['label']}`"]
        )
    mean = [f"{geometric_mean(pd.Series(column)):.2f}" for column in zip(*means, strict=True)]
    lines.append(["geometric mean", *[""] * 4, *mean, ""])
    head = (
        "Matrix", "Entries", "A, us", "A^T, us", "Bytes per nonzero", "Over the time of its bytes",
        "Over the advised pair", "One copy",
    )  # fmt: skip
    return in_page.markdown(head, lines, head[1:-1])


def by_iteration(rows: pd.DataFrame, cupy: pd.DataFrame) -> str:
    """One line for each matrix: an iteration of ``pdhg`` in the fastest pair, beside the library's and one written with
    CuPy, and its two products alone: by the parts of its row, or if these take vectors along by the row of the pair.

    cupy: seconds and fused by matrix, as tests/measure/pdhg_cupy.py writes them.
    """
    lines, means = [], []
    pair = rows[rows["op"] == "pair"].set_index(["matrix", "label"])["seconds"]
    found = rows[rows["op"].str.startswith("pdhg")]
    for matrix, own in _by_entries(found[~found.groupby("matrix")["vendor"].transform("all")]):
        library = own[own["vendor"]]["seconds"].min()
        best = own[~own["vendor"]].nsmallest(1, "seconds").iloc[0]
        products = best["spmv"] + best["spmv-t"]
        if math.isnan(products):
            products = pair.get((best["matrix"], best["label"]), math.nan)
        others = [library, *cupy.reindex([matrix])[["seconds", "fused"]].iloc[0]]
        over = [best["seconds"] / products, *(other / best["seconds"] for other in others)]
        means.append(over)
        times = [in_page.number(1e6 * each, 1) for each in (best["seconds"], products, *others)]
        size = f"{best['nnz'] / 1e6:.3g} M"
        lines.append([matrix, size, *times, *map(in_page.number, over), f"`{best['label']}`"])
    mean = [f"{geometric_mean(pd.Series(column).dropna()):.2f}" for column in zip(*means, strict=True)]
    lines.append(["geometric mean", *[""] * 6, *mean, ""])
    head = (
        "Matrix", "Entries", "Fastest, us", "Its two products, us", "cuSPARSE's best, us", "CuPy, us",
        "CuPy, two kernels, us", "Over its two products", "Over cuSPARSE's", "Over CuPy", "Over CuPy, two kernels",
        "Fastest pair",
    )  # fmt: skip
    return in_page.markdown(head, lines, head[1:-1])


def _by_entries(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each matrix, by its short name, the largest first."""
    for _, own in sorted(rows.groupby("matrix", observed=True), key=lambda group: -group[1]["nnz"].iloc[0]):
        yield str(own["name"].iloc[0]), own


def _tables(runs: list[str]) -> dict[str, str]:
    rows = measured(latest_cases(store.load_all(runs)))
    cupy = pd.read_csv(paths.configs() / "published/linear-programs/cupy.csv", index_col="matrix")
    return {
        "formats": by_format(rows),
        "matrices": by_matrix(rows),
        "one copy": by_copy(rows),
        "pdhg": by_iteration(rows, cupy),
    }


main = in_page.command(lambda given: _tables(given.runs), in_page.RUNS)
