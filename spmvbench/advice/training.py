"""From rows to a model and what it is worth: scikit-learn grows the trees, families of matrices are left out by turns.

A family is a generator, or a group of the collection: a matrix is judged by what was learned from all others' families.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.advice import traits
from spmvbench.advice.model import ABOVE, ENTRY, LARGE, LAUNCHES, MEASURED, SPMVS, UP_TO, Forest, Model
from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import latest_cases, verified
from spmvbench.errors import SpmvbenchError
from spmvbench.rows import store

PORTFOLIO = 24
TREES = 160
SWEEPS = 30  # over matrices and formats, until their effects stand
REACH = (
    10.0  # what a chooser loses whose format cannot hold the matrix; a loss that is more counts as that in portfolios
)
VENDORS = ("cusparse-csr-alg1", "cusparse-csr-alg2")
COSTLY = ("bccoo-plus", "bcoo-bcsr", "cocktail", "ehyb", "ehyb-rcm")  # whose estimate is as dear as a conversion
LEAST = 1e-7  # seconds that a conversion takes which only takes over arrays


TRIED = "model, the best few measured"  # as `advise --measure` does
HALVED = "model of half the families"
RELATED = "model that knows the family"
WITHIN = "the best of the model's formats"  # a chooser that knows their times: what the others lose is no portfolio's


@dataclass(frozen=True, eq=False)
class Table:
    """Right rows as (matrices, labels), NaN where there is none, and the columns that each matrix has in its rows.

    spmv, conversion, bound: seconds. beyond: where a format was left out as out of reach. vendor: the label of VENDORS
    that is there.
    """

    columns: pd.DataFrame
    family: pd.Series
    spmv: pd.DataFrame
    conversion: pd.DataFrame
    bound: pd.DataFrame
    beyond: pd.DataFrame

    @property
    def vendor(self) -> str:
        """The label of the vendor library's format that the table has."""
        return next(label for label in VENDORS if label in self.spmv)

    def total(self, spmvs: float) -> pd.DataFrame:
        """Seconds of conversion and so many SpMVs, by matrix and format."""
        return self.conversion + spmvs * self.spmv

    def of(self, matrices: Sequence[str]) -> Table:
        """The table of these matrices alone, in this order."""
        return Table(*(part.loc[matrices] for part in vars(self).values()))


def table(rows: pd.DataFrame, dtype: str = "f64", beyond: Sequence[str] = ()) -> Table:
    """The hot rows of one type and one GPU. Raises SpmvbenchError where they do not hold what a model needs.

    beyond: matrices of which formats that have no row at all were left out as out of reach.
    """
    rows = rows[(rows["dtype"] == dtype) & (rows["mode"] == "hot") & (rows["op"] == "spmv")]
    every = latest_cases(rows[~rows["device"].str.startswith("emulated")])
    rows = verified(every)
    if not {"x_lines", "full_diagonal_share", "bound_gflops"} <= set(rows):
        raise SpmvbenchError("the rows are from before matrices had the traits that the model looks at: measure again")
    if rows["device_name"].nunique() > 1:
        raise SpmvbenchError(f"rows of several GPUs make no model: {', '.join(sorted(set(rows['device_name'])))}")
    rows = rows.assign(conversion=ready(rows).clip(lower=LEAST), bound=2e-9 * rows["nnz"] / rows["bound_gflops"])
    rows = rows.dropna(subset=["conversion", "bound", "t_median", "x_lines", "full_diagonal_share"])
    if rows["matrix"].nunique() < 3 or not set(VENDORS) & set(rows["label"]):
        raise SpmvbenchError("a model needs rows of several matrices, cuSPARSE's among them")
    columns = rows.drop_duplicates("matrix").set_index("matrix").sort_index()
    family = columns["kind"].where(columns["group"] == "synthetic", columns["group"])
    wide = [rows.pivot(index="matrix", columns="label", values=name) for name in ("t_median", "conversion", "bound")]
    missing = every.pivot(index="matrix", columns="label", values="status").reindex_like(wide[0]).isna()
    return Table(columns, family, *wide, missing.mul(missing.index.isin(beyond), axis=0))


def portfolio(known: Table, size: int = PORTFOLIO) -> list[str]:
    """The labels of which the best of each matrix loses least, taken one by one; cuSPARSE's is always among them."""
    losses = np.stack(
        [np.log((total := known.total(n)).div(total.min(axis=1), axis=0)).fillna(np.inf).to_numpy() for n in SPMVS]
    ).clip(max=np.log(REACH))
    labels = list(known.spmv)
    able = np.array([label.partition("[")[0] not in COSTLY for label in labels])
    chosen = [labels.index(known.vendor)]
    best = losses[:, :, chosen[0]]
    while len(chosen) < min(size, able.sum()):
        gains = np.where(able, np.minimum(best[:, :, None], losses).mean(axis=(0, 1)), np.inf)
        gains[chosen] = np.inf
        chosen.append(int(gains.argmin()))
        best = np.minimum(best, losses[:, :, chosen[-1]])
    return sorted(labels[k] for k in chosen)


def additive(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What all formats share on each matrix, (matrices, 1), and by how much each differs from that, (matrices, K).

    y: (matrices, K), NaN where there is no row: there a format differs by as much as it does in the mean of the others,
    which is what is left when effects of matrices and formats are taken away by turns. So a format with rows of hard
    matrices alone does not seem a slow one.
    """
    known = ~np.isnan(y)
    formats = np.nanmean(y, axis=0)
    for _ in range(SWEEPS):
        matrices = np.nanmean(y - formats, axis=1, keepdims=True)
        formats = np.nanmean(y - matrices, axis=0)
    full = np.where(known, y, matrices + formats)
    shared = full.mean(axis=1, keepdims=True)
    return shared, full - shared


def _grown(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Forest:
    """Trees that split by what formats differ in, where what they share is one output of K + 1 and not all of each."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(TREES, min_samples_leaf=2, max_features=0.5, random_state=seed)
    forest.fit(x, np.hstack(additive(y)))
    trees = [tree.tree_ for tree in forest.estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])

    def joined(of: Callable[[Any], np.ndarray]) -> np.ndarray:
        return np.concatenate([of(tree) for tree in trees])

    def leaves(tree: Any) -> np.ndarray:
        """Values of leaves alone: those of inner nodes are never asked for, and would be half of the file."""
        return np.where(tree.children_left[:, None] < 0, tree.value[:, :1, 0] + tree.value[:, 1:, 0], 0)

    def child(side: str) -> np.ndarray:
        parts = [
            np.where(getattr(t, side) >= 0, getattr(t, side) + root, 0) for t, root in zip(trees, roots, strict=True)
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


def fitted(known: Table, labels: Sequence[str]) -> Model:
    """A model of these formats, without errors or anything to tell about it."""
    labels = list(labels)
    x = traits.of(known.columns)
    unit = LAUNCHES + ENTRY * known.columns["nnz"].to_numpy(float)
    slower = known.spmv[labels] / known.bound[labels]
    slower = slower.mask(known.beyond[labels], REACH * slower.max(axis=1), axis=0)
    ratios = slower, known.conversion[labels].div(unit, axis=0)
    return Model(tuple(labels), {}, *(_grown(x, np.log(r).to_numpy()) for r in ratios), np.zeros((2, len(labels), 2)))


def predictions(model: Model, known: Table) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of an SpMV and of the conversion as the model sees them, (matrices, K); NaN where there is no row."""
    bounds = known.bound[list(model.labels)].to_numpy()
    slower, conversion = model.predicted(known.columns)
    return slower * bounds, np.where(np.isnan(bounds), np.nan, conversion)


@dataclass(frozen=True, eq=False)
class Judgement:
    """choices: a line a matrix, number of SpMVs and chooser, with its loss (0 is the best format's time).

    errors: of each label, the logarithms of measured over predicted times and conversions, families left out.
    """

    choices: pd.DataFrame
    errors: dict[str, list[tuple[float, float]]]

    def quantiles(self, label: str, at: Sequence[float]) -> np.ndarray:
        """(2, quantiles): of the errors of a label's times and of its conversions; 0 where it was in no portfolio."""
        return np.nanquantile(self.errors.get(label, [(0.0, 0.0)]), at, axis=0).T

    def summary(self) -> pd.DataFrame:
        """Losses in per cent: geometric mean, 95th percentile and worst by matrices, chooser and number of SpMVs."""
        large = self.choices["nnz"] > LARGE
        parts = {"all": self.choices, ABOVE: self.choices[large], UP_TO: self.choices[~large]}
        found = pd.concat(parts, names=["of"]).groupby(["of", "chooser", "spmvs"], sort=False)["loss"]
        return pd.DataFrame(
            {
                "matrices": found.size(),
                "mean": found.agg(lambda loss: 100 * np.expm1(np.log1p(loss).mean())),
                "p95": 100 * found.quantile(0.95),
                "worst": 100 * found.max(),
            }
        ).reset_index()


def judged(
    known: Table,
    size: int = PORTFOLIO,
    progress: Callable[[str], None] = lambda _: None,
    share: float = 1.0,
    alone: bool = False,
) -> Judgement:
    """What choosers lose on each family where they have learned from the others, or from so large a share of them.

    alone: on each matrix, where they have learned from all others, those of its family among them.
    """
    lines: list[dict[str, Any]] = []
    errors: dict[str, list[tuple[float, float]]] = {}
    family_of = known.family.index.to_series() if alone else known.family
    families = sorted(family_of.unique())
    drawn = np.random.default_rng(0)
    for family in families:
        progress(family)
        others = [other for other in families if other != family]
        seen = drawn.choice(others, max(round(share * len(others)), 2), replace=False) if share < 1 else others
        out = known.of(family_of.index[family_of == family])
        rest = known.of(family_of.index[family_of.isin(seen)])
        labels = portfolio(rest, size)
        model = fitted(rest, labels)
        predicted = predictions(model, out)
        measured = out.spmv[labels], out.conversion[labels]
        logs = [np.log(m.to_numpy() / p) for m, p in zip(measured, predicted, strict=True)]
        for k, label in enumerate(labels):
            errors.setdefault(label, []).extend(zip(logs[0][:, k], logs[1][:, k], strict=True))
        for n in SPMVS:
            total = out.total(n)
            best = total.min(axis=1)
            totals = pd.DataFrame(predicted[1] + n * predicted[0], total.index, labels)
            tried = totals.rank(axis=1) <= MEASURED
            tried[[rest.vendor, safe(rest, labels)]] = True
            choosers = {
                "model": totals.idxmin(axis=1),
                TRIED: total[labels].where(tried).idxmin(axis=1),
                WITHIN: total[labels].idxmin(axis=1),
                **_rivals(rest, out, n),
            }
            for chooser, chosen in choosers.items():
                for matrix, label in chosen.items():
                    took = total.at[matrix, label] / best[matrix]
                    lines.append(
                        {
                            "matrix": matrix,
                            "family": known.family[matrix],
                            "nnz": int(out.columns.at[matrix, "nnz"]),
                            "spmvs": n,
                            "chooser": chooser,
                            "format": label,
                            "best": total.loc[matrix].idxmin(),
                            "loss": (REACH if np.isnan(took) else took) - 1,
                        }
                    )
    return Judgement(pd.DataFrame(lines), errors)


def _rivals(rest: Table, out: Table, spmvs: float) -> dict[str, pd.Series]:
    """The choices of who knows less: always one format, or a tree of depth 4 that looks at the traits."""
    from sklearn.tree import DecisionTreeRegressor

    total = rest.total(spmvs)
    losses = np.log(total.div(total.min(axis=1), axis=0)).fillna(np.inf).clip(upper=np.log(REACH))
    tree = DecisionTreeRegressor(max_depth=4, min_samples_leaf=2, random_state=0)
    tree.fit(traits.of(rest.columns), losses)
    said = pd.DataFrame(tree.predict(traits.of(out.columns)), out.spmv.index, list(losses))
    always = {"always cuSPARSE": rest.vendor, "always the best single format": losses.mean().idxmin()}
    return {name: pd.Series(label, out.spmv.index) for name, label in always.items()} | {
        "tree of depth 4": said.where(out.spmv[list(losses)].notna()).idxmin(axis=1)
    }


def trained(
    rows: pd.DataFrame,
    about: dict[str, Any],
    progress: Callable[[str], None] = lambda _: None,
    more: bool = False,
    beyond: Sequence[str] = (),
) -> tuple[Model, Judgement]:
    """The model of all rows, and what it was worth without each family.

    more: and without half of the others, and where the other matrices of the family are known. beyond: as `table`
    takes it.
    """
    known = table(rows, beyond=beyond)
    judgement = judged(known, progress=progress)
    if more:
        others = {
            HALVED: judged(known, progress=lambda family: progress(f"{family} and half of the others"), share=0.5),
            RELATED: judged(known, progress=progress, alone=True),
        }
        choices = [
            each.choices[each.choices["chooser"] == "model"].assign(chooser=name) for name, each in others.items()
        ]
        judgement = Judgement(pd.concat([judgement.choices, *choices], ignore_index=True), judgement.errors)
    labels = portfolio(known)
    model = fitted(known, labels)
    values = traits.of(known.columns)
    errors = np.stack([judgement.quantiles(label, (0.1, 0.9)) for label in labels], axis=1)
    about = about | {
        "device": str(rows.loc[rows["status"] == "ok", "device_name"].iloc[0]),
        "dtype": "f64",
        "beyond": list(beyond),
        "matrices": len(known.columns),
        "families": int(known.family.nunique()),
        "rows": [int(known.spmv[label].notna().sum()) for label in labels],
        "vendor": known.vendor,
        "safe": safe(known, labels),
        "ranges": {
            "low": values.min(axis=0).tolist(),
            "high": values.max(axis=0).tolist(),
            "median": np.median(values, axis=0).tolist(),
        },
        "judgement": judgement.summary().to_dict("records"),
    }
    return Model(model.labels, about, model.times, model.conversions, errors), judgement


def safe(known: Table, labels: Sequence[str], spmvs: float = 1_000) -> str:
    """The format of the portfolio that loses least at the 95th percentile of the matrices."""
    total = known.total(spmvs)
    losses = total[list(labels)].div(total.min(axis=1), axis=0).fillna(REACH)
    return str(losses.quantile(0.95).idxmin())


def of_last_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with those of each matrix and type from the run alone that measured it last: formats and the measuring
    differ between runs, and times of one matrix are set against each other.
    """
    last = rows.groupby(["run_id", "matrix_sha256", "dtype"])["started_at"].transform("max")
    return rows[last == last.groupby([rows["matrix_sha256"], rows["dtype"]]).transform("max")]


def rows_of(runs: Sequence[Path | str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of runs, and what a model says of where it comes from: their names, and the roofs of their GPU."""
    folders = [store.folder(run) for run in runs]
    rows = pd.concat([store.load(folder) for folder in folders], ignore_index=True)
    sessions = [s for folder in folders for s in store.environment(folder)["sessions"] if s.get("bounds")]
    kept = ("bounds", "launch_overhead")
    last = sessions[-1] if sessions else {}
    measured = {"read", "sectors", "lines"} <= set(last.get("bounds") or {}) and all(last.get(name) for name in kept)
    if not measured or "multiprocessors" not in (last.get("properties") or {}):
        raise SpmvbenchError("no session of these runs has measured the roofs of its GPU")
    return rows, {"runs": [folder.name for folder in folders], **{name: last[name] for name in kept}} | {
        "multiprocessors": last["properties"]["multiprocessors"]
    }
