"""Training of the model on rows with scikit-learn, and its regret by leave-one-family-out cross-validation.

A family is a generator or a group of the collection. The choice for a matrix comes from a model of all other families.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.advice import features
from spmvbench.advice.model import (
    ABOVE,
    ENTRY,
    LARGE,
    LAUNCHES,
    MEASURED,
    SINGLE,
    SPMVS,
    UP_TO,
    Forest,
    Model,
    operation,
)
from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import authors, families, fewer_values, in_natural_order, latest_cases, verified
from spmvbench.analysis.ranking import VENDORS
from spmvbench.analysis.several_vectors import LIBRARIES
from spmvbench.errors import SpmvbenchError
from spmvbench.rows import store

PORTFOLIO = 32
TREES = 160  # of the forests that see only the matrix
PAIR_TREES = 100  # of the forest that sees a matrix in a format
COMPONENTS = 10  # numbers that describe a format, besides its mean
FEWEST = 10  # matrices that a model is trained on, if smaller ones are evaluated
SWEEPS = 30  # iterations over matrices and formats, after which their effects have converged
WORST = 10.0  # slowdown of a format that cannot hold the matrix, and the largest slowdown that counts in a portfolio
# Their estimate takes as long as a conversion.
COSTLY = ("bccoo-plus", "bcoo-bcsr", "bcsr-choi", "bcsr-kblas", "bellpack", "cocktail", "ehyb", "ehyb-rcm")
SHORTEST = 1e-7  # seconds, of conversions that only take over arrays

TRIED = "model, the best few measured"  # `advise --measure`
HALVED = "model of half the families"
RANDOM = "model, random split"
FALLBACK = "the fallback"
VENDOR = "always cuSPARSE"
ADVISED = "the fallback outside of the range, else the model"  # `advise`
PARTS = 10  # of a random split
WITHIN = "the best of the model's formats"  # knows all times: its regret is that of the portfolio alone


@dataclass(frozen=True, eq=False)
class Table:
    """Verified rows as tables of (matrices, labels), and the columns of each matrix.

    spmv, conversion, bound: seconds, NaN without a verified row. size: bytes that an SpMV reads and writes. excluded:
    whether a format was excluded as too slow. family: of each matrix.
    """

    columns: pd.DataFrame
    family: pd.Series
    spmv: pd.DataFrame
    conversion: pd.DataFrame
    bound: pd.DataFrame
    size: pd.DataFrame
    excluded: pd.DataFrame

    @property
    def vendor(self) -> str:
        """The label of the vendor library's format: the first of VENDORS in the table."""
        return next(label for label in VENDORS if label in self.spmv)

    def total(self, spmvs: float) -> pd.DataFrame:
        """Seconds of the conversion and `spmvs` SpMVs, (matrices, labels)."""
        return self.conversion + spmvs * self.spmv

    def of(self, matrices: Sequence[str]) -> Table:
        """The table of these matrices, in this order."""
        return Table(**{name: part.loc[list(matrices)] for name, part in vars(self).items()})


def stacked(tables: Sequence[Table]) -> Table:
    """The matrices of several GPUs one below the other."""
    return Table(**{name: pd.concat([vars(each)[name] for each in tables]) for name in vars(tables[0])})


def table(rows: pd.DataFrame, dtype: str = "f64", exclude_slow: Sequence[str] = (), vectors: int = 1) -> Table:
    """The hot rows of one type and one GPU, of products of so many vectors in the natural order, as a table.

    Raises SpmvbenchError if a model cannot be made of them.

    exclude_slow: matrices on which every format without a row was excluded as too slow.
    """
    rows = in_natural_order(rows, operation(vectors))
    rows = rows[(rows["dtype"] == dtype) & (rows["mode"] == "hot")]
    every = latest_cases(rows[~rows["device"].str.startswith("emulated")])
    every = every[every["label"].isin(_advisable(every))]
    rows = verified(every)
    if not {"full_diagonal_share", "bound_gflops"} <= set(rows):
        raise SpmvbenchError("the rows lack features that the model needs (an older version wrote them): measure again")
    if rows["device_name"].nunique() > 1:
        raise SpmvbenchError(f"rows of several GPUs make no model: {', '.join(sorted(set(rows['device_name'])))}")
    rows = rows.assign(
        conversion=ready(rows).clip(lower=SHORTEST), bound=2e-9 * vectors * rows["nnz"] / rows["bound_gflops"]
    )
    rows = rows.dropna(subset=["conversion", "bound", "t_median", "full_diagonal_share"])
    if rows["matrix"].nunique() < 3 or not set(VENDORS) & set(rows["label"]):
        raise SpmvbenchError(f"a model needs {operation(vectors)} rows of several matrices, cuSPARSE's among them")
    vendor = next(label for label in VENDORS if (rows["label"] == label).any())
    rows = rows[rows["matrix"].isin(rows.loc[rows["label"] == vendor, "matrix"])]  # else a run was stopped there
    columns = rows.drop_duplicates("matrix").set_index("matrix").sort_index()
    family = families(columns)
    spmv, conversion, bound, size = (
        rows.pivot(index="matrix", columns="label", values=name)
        for name in ("t_median", "conversion", "bound", "model_bytes")
    )
    missing = every.pivot(index="matrix", columns="label", values="status").reindex_like(spmv).isna()
    excluded = missing.mul(missing.index.isin(exclude_slow), axis=0)
    return Table(columns, family, spmv, conversion, bound, size.astype(float), excluded)


def _advisable(rows: pd.DataFrame) -> set[str]:
    """The labels that are no authors' kernel and always store all values: no feature tells whether values repeat.

    Without those of `auto`, which is one of the others on each matrix, and the products of libraries.
    """
    fewer = rows.loc[fewer_values(rows), "label"]
    papers = rows.loc[authors(rows["label"]), "label"]
    chosen = rows.loc[(rows["format"] == "auto") | (rows["family"] == LIBRARIES), "label"]
    return {*rows["label"]} - {*fewer} - {*papers} - {*chosen}


def portfolio(known: Table, size: int = PORTFOLIO, among: Collection[str] | None = None) -> list[str]:
    """The labels whose best format on each matrix has the least regret, chosen greedily; cuSPARSE's is one of them.

    among: the labels that may be chosen besides, by default all.
    """
    slowdowns = np.stack(
        [np.log((total := known.total(n)).div(total.min(axis=1), axis=0)).fillna(np.inf).to_numpy() for n in SPMVS]
    ).clip(max=np.log(WORST))
    labels = list(known.spmv)
    able = np.array([(among is None or label in among) and label.partition("[")[0] not in COSTLY for label in labels])
    chosen = [labels.index(known.vendor)]
    best = slowdowns[:, :, chosen[0]]
    while len(chosen) < min(size, able.sum()):
        gains = np.where(able, np.minimum(best[:, :, None], slowdowns).mean(axis=(0, 1)), np.inf)
        gains[chosen] = np.inf
        chosen.append(int(gains.argmin()))
        best = np.minimum(best, slowdowns[:, :, chosen[-1]])
    return sorted(labels[k] for k in chosen)


def additive(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over all formats on each matrix, (matrices, 1), and each format's difference from it, (matrices, K).

    y: (matrices, K), NaN without a row. Missing values are filled by a two-way additive model, an effect per matrix and
    one per format, fitted by alternating means. A format that has rows of hard matrices only thus does not look slow.
    """
    known = ~np.isnan(y)
    formats = np.nanmean(y, axis=0)
    for _ in range(SWEEPS):
        matrices = np.nanmean(y - formats, axis=1, keepdims=True)
        formats = np.nanmean(y - matrices, axis=0)
    full = np.where(known, y, matrices + formats)
    shared = full.mean(axis=1, keepdims=True)
    return shared, full - shared


def grown(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    trees: int = TREES,
    leaf: int = 2,
    share: float = 0.5,
) -> Forest:
    """Extremely randomized trees of (cases, outputs) targets.

    leaf: cases in a leaf at least. share: of the features, tried at each node.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(trees, min_samples_leaf=leaf, max_features=share, random_state=0)
    forest.fit(x, y if y.shape[1] > 1 else y[:, 0], sample_weight=weights)
    return flattened(forest.estimators_)


def flattened(trees: Sequence[Any]) -> Forest:
    """The forest of scikit-learn's trees."""
    grown = [tree.tree_ for tree in trees]
    roots = np.cumsum([0, *(tree.node_count for tree in grown[:-1])])

    def joined(of: Callable[[Any], np.ndarray]) -> np.ndarray:
        return np.concatenate([of(tree) for tree in grown])

    def leaves(tree: Any) -> np.ndarray:
        """Values of the leaves, 0 for inner nodes: these are never read, and zeros compress well."""
        return np.where(tree.children_left[:, None] < 0, tree.value[:, :, 0], 0)

    def child(name: str) -> np.ndarray:
        parts = [
            np.where(getattr(t, name) >= 0, getattr(t, name) + root, 0) for t, root in zip(grown, roots, strict=True)
        ]
        return np.concatenate(parts).astype(np.int32)

    return Forest(
        feature=np.where(joined(lambda t: t.children_left) >= 0, joined(lambda t: t.feature), -1).astype(np.int16),
        threshold=joined(lambda t: t.threshold),
        left=child("children_left"),
        right=child("children_right"),
        value=joined(leaves).astype(np.float32),
        roots=roots.astype(np.int32),
    )


def fitted(
    known: Table,
    labels: Sequence[str],
    x: np.ndarray | None = None,
    trees: int = TREES,
    pair_trees: int = PAIR_TREES,
    pair_leaf: int = 2,
) -> Model:
    """A model of these formats, with only the vendor's format and the ranges of features in `about`, all errors 0.

    x: (matrices, features), others than `features.of` gives. pair_leaf: cases in a leaf at least.
    """
    labels = list(labels)
    x = features.of(known.columns) if x is None else x
    nnz = known.columns["nnz"].to_numpy(float)
    slower = known.spmv[labels] / known.bound[labels]
    shared, own = additive(np.log(slower.mask(known.excluded[labels], WORST * slower.max(axis=1), axis=0)).to_numpy())
    means = own.mean(axis=0)
    _, scales, components = np.linalg.svd(own - means, full_matrices=False)
    described = (components[:COMPONENTS].T * scales[:COMPONENTS]) / np.sqrt(len(own))
    numbers = np.hstack([means[:, None], described]).astype(np.float32)
    excluded = known.excluded[labels].to_numpy()
    sizes, bounds = (  # a format that was excluded was not converted: plain CSR stands for it
        np.where(excluded, part[[known.vendor]].to_numpy(), part[labels].to_numpy())
        for part in (known.size, known.bound)
    )
    times = known.spmv[labels].to_numpy()
    longest = known.columns["row_len_max"].to_numpy(float)[:, None]
    rates = np.nanmax(longest / times, axis=0)
    of_row = longest / rates / bounds
    pairs = features.of_formats(x, nnz, sizes, bounds, known.size[known.vendor].to_numpy(), of_row, numbers)
    present = ~np.isnan(pairs).any(axis=-1)
    slowdowns = np.nan_to_num(times / np.nanmin(times, axis=1, keepdims=True), nan=WORST).clip(max=WORST)
    # The differences between the fastest formats decide: slow ones count less.
    weights = slowdowns[present] ** -0.5
    made = np.log(known.conversion[labels].div(LAUNCHES + ENTRY * nnz, axis=0)).to_numpy()
    return Model(
        tuple(labels),
        {
            "vendor": known.vendor,
            "ranges": {
                "low": x.min(axis=0).tolist(),
                "high": x.max(axis=0).tolist(),
                "median": np.median(x, axis=0).tolist(),
            },
        },
        grown(x, shared, trees=trees),
        grown(pairs[present], (own - means)[present][:, None], weights, pair_trees, pair_leaf, 0.8),
        grown(x, np.add(*additive(made)), trees=trees),
        numbers,
        rates,
        np.zeros((2, len(labels), 2)),
    )


def predictions(model: Model, known: Table) -> tuple[np.ndarray, np.ndarray]:
    """Predicted seconds of an SpMV and of the conversion, each (matrices, K); NaN without a row."""
    labels = list(model.labels)
    bounds = known.bound[labels].to_numpy()
    spmv, conversion = model.predicted(known.columns, known.size[labels].to_numpy(), bounds)
    return spmv, np.where(np.isnan(bounds), np.nan, conversion)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Result of the cross-validation.

    choices: one line per matrix, number of SpMVs and chooser, with the regret (0: the best format was chosen).
    errors: for each label, pairs of log(measured / predicted) of an SpMV and of the conversion.
    """

    choices: pd.DataFrame
    errors: dict[str, list[tuple[float, float]]]

    def quantiles(self, label: str, at: Sequence[float]) -> np.ndarray:
        """Quantiles of the errors of a label, (2, quantiles): SpMV and conversion; 0 if no portfolio had it."""
        return np.nanquantile(self.errors.get(label, [(0.0, 0.0)]), at, axis=0).T

    def summary(self) -> pd.DataFrame:
        """Regret in per cent: geometric mean, 95th percentile and worst by matrices, chooser and number of SpMVs."""
        single = self.choices["dtype"] == "f32"
        double = self.choices[~single]
        large = double["nnz"] > LARGE
        parts = {"all": double, ABOVE: double[large], UP_TO: double[~large], SINGLE: self.choices[single]}
        found = pd.concat(parts, names=["of"]).groupby(["of", "chooser", "spmvs"], sort=False)["regret"]
        return pd.DataFrame(
            {
                "matrices": found.size(),
                "mean": found.agg(lambda regret: 100 * np.expm1(np.log1p(regret).mean())),
                "p95": 100 * found.quantile(0.95),
                "worst": 100 * found.max(),
            }
        ).reset_index()


def evaluated(
    known: Table,
    progress: Callable[[str], None] = lambda _: None,
    share: float = 1.0,
    groups: pd.Series | None = None,
    single: Table | None = None,
    smaller: bool = False,
) -> Evaluation:
    """The regret of all choosers on each family, trained on a share of the other families.

    groups: for each matrix what is left out with it, in place of its family. single: the table of single precision, on
    which the choosers are evaluated too; none learns from it. smaller: train only on matrices above LARGE entries,
    evaluate those of less than a third of that.
    """
    lines: list[dict[str, Any]] = []
    errors: dict[str, list[tuple[float, float]]] = {}
    family_of = known.family if groups is None else groups
    families = sorted(family_of.unique())
    rng = np.random.default_rng(0)
    for family in families:
        progress(str(family))
        others = [other for other in families if other != family]
        seen = rng.choice(others, max(round(share * len(others)), 2), replace=False) if share < 1 else others
        evaluate, train = family_of == family, family_of.isin(seen)
        if smaller:
            nnz = known.columns["nnz"]
            evaluate, train = evaluate & (nnz < LARGE / 3), train & (nnz > LARGE)
            if not evaluate.any() or train.sum() < FEWEST:
                continue
        out, rest = known.of(family_of.index[evaluate]), known.of(family_of.index[train])
        labels = portfolio(rest)
        model = fitted(rest, labels)
        if single is not None and (single.family == family).any():
            lines += _regrets(rest, model, single.of(single.family.index[single.family == family]))
        lines += _regrets(rest, model, out)
        predicted = predictions(model, out)
        measured = out.spmv[labels], out.conversion[labels]
        logs = [np.log(m.to_numpy() / p) for m, p in zip(measured, predicted, strict=True)]
        for k, label in enumerate(labels):
            errors.setdefault(label, []).extend(zip(logs[0][:, k], logs[1][:, k], strict=True))
    return Evaluation(pd.DataFrame(lines), errors)


def _regrets(rest: Table, model: Model, out: Table) -> Iterator[dict[str, Any]]:
    """The choices for other matrices, by a model and by simpler choosers that saw the same rows: `Evaluation`."""
    labels = list(model.labels)
    safe = fallbacks(rest, labels)
    spmv, conversion = predictions(model, out)
    unlike = np.array([bool(model.out_of_range(columns)) for _, columns in out.columns.iterrows()])
    seen, unseen = features.of(rest.columns), features.of(out.columns)
    about = list(zip(out.spmv.index, out.columns["dtype"], out.family, out.columns["nnz"], strict=True))
    for n in SPMVS:
        total = out.total(n)
        best, fastest = total.min(axis=1), total.idxmin(axis=1)
        totals = pd.DataFrame(conversion + n * spmv, total.index, labels)
        tried = totals.rank(axis=1) <= MEASURED
        tried[safe] = True
        choosers = {
            "model": totals.idxmin(axis=1),
            TRIED: total[labels].where(tried).idxmin(axis=1),
            WITHIN: total[labels].idxmin(axis=1),
            FALLBACK: totals[safe].idxmin(axis=1),
            ADVISED: totals[safe].idxmin(axis=1).where(unlike, totals.idxmin(axis=1)),
            **_rivals(rest, out, seen, unseen, n),
        }
        for chooser, chosen in choosers.items():
            for (matrix, dtype, family, nnz), label in zip(about, chosen, strict=True):
                slowdown = total.at[matrix, label] / best[matrix]
                yield {
                    "matrix": matrix,
                    "dtype": dtype,
                    "family": family,
                    "nnz": int(nnz),
                    "spmvs": n,
                    "chooser": chooser,
                    "format": label,
                    "best": fastest[matrix],
                    "regret": (WORST if np.isnan(slowdown) else slowdown) - 1,
                }


def _rivals(rest: Table, out: Table, seen: np.ndarray, unseen: np.ndarray, spmvs: float) -> dict[str, pd.Series]:
    """The choices of simpler choosers: always the same format, or a tree of depth 4 on the same features.

    seen, unseen: (matrices, features) of `rest` and of `out`.
    """
    from sklearn.tree import DecisionTreeRegressor

    total = rest.total(spmvs)
    slowdowns = np.log(total.div(total.min(axis=1), axis=0)).fillna(np.inf).clip(upper=np.log(WORST))
    tree = DecisionTreeRegressor(max_depth=4, min_samples_leaf=2, random_state=0)
    tree.fit(seen, slowdowns)
    predicted = pd.DataFrame(tree.predict(unseen), out.spmv.index, list(slowdowns))
    always = {VENDOR: rest.vendor, "always the best single format": slowdowns.mean().idxmin()}
    return {name: pd.Series(label, out.spmv.index) for name, label in always.items()} | {
        "tree of depth 4": predicted.where(out.spmv[list(slowdowns)].notna()).idxmin(axis=1)
    }


def trained(
    rows: pd.DataFrame,
    about: dict[str, Any],
    progress: Callable[[str], None] = lambda _: None,
    more: bool = False,
    exclude_slow: Sequence[str] = (),
    vectors: int = 1,
) -> tuple[Model, Evaluation]:
    """The model of all rows of products of so many vectors, and its cross-validation.

    about: of the rows, from `rows_of`. more: evaluate also with half of the other families, and on a random split.
    exclude_slow: as for `table`.
    """
    known = table(rows, "f64", exclude_slow, vectors)
    single = None
    if (in_natural_order(rows, operation(vectors))["dtype"] == "f32").any():
        single = table(rows, "f32", exclude_slow, vectors)
        parts = {name: part for name, part in vars(single).items() if name not in ("columns", "family")}
        single = replace(single, **{name: part.reindex(columns=known.spmv.columns) for name, part in parts.items()})
    evaluation = evaluated(known, progress=progress, single=single)
    if more:
        drawn = pd.Series(np.random.default_rng(0).permutation(len(known.family)) % PARTS, known.family.index)
        others = {
            HALVED: evaluated(known, progress=lambda family: progress(f"{family} and half of the others"), share=0.5),
            RANDOM: evaluated(known, progress=progress, groups=drawn),
        }
        choices = [
            each.choices[each.choices["chooser"] == "model"].assign(chooser=name) for name, each in others.items()
        ]
        evaluation = Evaluation(pd.concat([evaluation.choices, *choices], ignore_index=True), evaluation.errors)
        extrapolated = evaluated(known, progress=lambda family: progress(f"{family}, smaller matrices"), smaller=True)
        summary = extrapolated.summary() if len(extrapolated.choices) else pd.DataFrame({"of": []})
        about = about | {"smaller": summary[summary["of"] == "all"].to_dict("records")}
    labels = portfolio(known)
    model = fitted(known, labels)
    errors = np.stack([evaluation.quantiles(label, (0.1, 0.9)) for label in labels], axis=1)
    about = (
        about
        | model.about
        | {
            "device": str(rows.loc[rows["status"] == "ok", "device_name"].iloc[0]),
            "exclude_slow": list(exclude_slow),
            "vectors": vectors,
            "matrices": len(known.columns),
            "single": 0 if single is None else len(single.columns),
            "families": int(known.family.nunique()),
            "rows": [int(known.spmv[label].notna().sum()) for label in labels],
            "fallbacks": fallbacks(known, labels),
            "regret": evaluation.summary().to_dict("records"),
        }
    )
    return replace(model, about=about, errors=errors), evaluation


def fallbacks(known: Table, labels: Sequence[str]) -> list[str]:
    """The vendor's format, and for each of SPMVS the format of the portfolio with the smallest 95th percentile of the
    slowdown over the matrices.
    """

    def safest(total: pd.DataFrame) -> str:
        slowdowns = total[list(labels)].div(total.min(axis=1), axis=0).fillna(WORST)
        return str(slowdowns.quantile(0.95).idxmin())

    return list(dict.fromkeys([known.vendor, *(safest(known.total(n)) for n in SPMVS)]))


def of_one_run(rows: pd.DataFrame, vectors: int = 1) -> pd.DataFrame:
    """The rows of products of so many vectors, of each matrix and type from the run that measured it in most formats,
    the last of several.

    Times of one matrix are compared with each other, and formats and procedures differ between runs.
    """
    rows = in_natural_order(rows, operation(vectors))
    case = ["matrix_sha256", "dtype"]
    runs = rows.groupby(["run_id", *case]).agg(formats=("label", "nunique"), last=("started_at", "max")).reset_index()
    kept = runs.sort_values(["formats", "last"]).drop_duplicates(case, keep="last")
    return rows.merge(kept[["run_id", *case]])


def rows_of(runs: Sequence[Path | str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of runs, and what a model stores about them: the runs' names, and the measured bounds of their GPU.

    Raises SpmvbenchError if no invocation measured these bounds.
    """
    folders = [store.folder(run) for run in runs]
    rows = store.load_all(folders)
    invocations = [s for folder in folders for s in store.environment(folder)["sessions"] if s.get("bounds")]
    last = invocations[-1] if invocations else {}
    measured = {"read", "sectors", "lines"} <= set(last.get("bounds") or {}) and last.get("launch_overhead")
    if not measured or "multiprocessors" not in (last.get("properties") or {}):
        raise SpmvbenchError("no invocation of these runs has measured the bounds of its GPU")
    return rows, {
        "runs": [folder.name for folder in folders],
        "bounds": last["bounds"],
        "launch_overhead": last["launch_overhead"],
        "multiprocessors": last["properties"]["multiprocessors"],
        "memory_bytes": last["properties"]["memory_bytes"],
    }
