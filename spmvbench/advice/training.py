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

from spmvbench import store
from spmvbench.advice import traits
from spmvbench.advice.model import ENTRY, LAUNCHES, SPMVS, Forest, Model
from spmvbench.analysis.cases import prepared, right
from spmvbench.errors import SpmvbenchError

PORTFOLIO = 24
TREES = 160
REACH = (
    10.0  # what a chooser loses whose format cannot hold the matrix; a loss that is more counts as that in portfolios
)
LARGE = 1_000_000  # entries: below, most SpMVs measure the latency of a launch
VENDORS = ("cusparse-csr-alg1", "cusparse-csr-alg2")
COSTLY = ("bccoo-plus", "bcoo-bcsr", "cocktail", "ehyb", "ehyb-rcm")  # whose estimate is as dear as a conversion
LEAST = 1e-7  # seconds that a conversion takes which only takes over arrays


@dataclass(frozen=True, eq=False)
class Table:
    """Right rows as (matrices, labels), NaN where there is none, and the columns that each matrix has in its rows.

    spmv, conversion, bound: seconds. vendor: the label of VENDORS that is there.
    """

    columns: pd.DataFrame
    family: pd.Series
    spmv: pd.DataFrame
    conversion: pd.DataFrame
    bound: pd.DataFrame

    @property
    def vendor(self) -> str:
        return next(label for label in VENDORS if label in self.spmv)

    def total(self, spmvs: float) -> pd.DataFrame:
        return self.conversion + spmvs * self.spmv

    def of(self, matrices: Sequence[str]) -> Table:
        return Table(*(part.loc[matrices] for part in vars(self).values()))


def table(rows: pd.DataFrame, dtype: str = "f64") -> Table:
    """The hot rows of one type and one GPU. Raises SpmvbenchError where they do not hold what a model needs."""
    rows = rows[(rows["dtype"] == dtype) & (rows["mode"] == "hot") & (rows["op"] == "spmv")]
    rows = right(prepared(rows[~rows["device"].str.startswith("emulated")]))
    if not {"x_lines", "full_diagonal_share", "bound_gflops"} <= set(rows):
        raise SpmvbenchError("the rows are from before matrices had the traits that the model looks at: measure again")
    if rows["device_name"].nunique() > 1:
        raise SpmvbenchError(f"rows of several GPUs make no model: {', '.join(sorted(set(rows['device_name'])))}")
    made = rows["t_convert_device"].fillna(rows["t_convert_host"] + rows["t_transfer"]) + rows["t_setup"].fillna(0)
    rows = rows.assign(conversion=made.clip(lower=LEAST), bound=2e-9 * rows["nnz"] / rows["bound_gflops"])
    rows = rows.dropna(subset=["conversion", "bound", "t_median", "x_lines", "full_diagonal_share"])
    if rows["matrix"].nunique() < 3 or not set(VENDORS) & set(rows["label"]):
        raise SpmvbenchError("a model needs rows of several matrices, cuSPARSE's among them")
    columns = rows.drop_duplicates("matrix").set_index("matrix").sort_index()
    family = columns["kind"].where(columns["group"] == "synthetic", columns["group"])
    wide = [rows.pivot(index="matrix", columns="label", values=name) for name in ("t_median", "conversion", "bound")]
    return Table(columns, family, *wide)


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


def _grown(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Forest:
    from sklearn.ensemble import ExtraTreesRegressor

    y = np.where(np.isnan(y), np.nanmedian(y, axis=0), y)
    forest = ExtraTreesRegressor(TREES, min_samples_leaf=2, max_features=0.5, random_state=seed).fit(x, y)
    trees = [tree.tree_ for tree in forest.estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])

    def joined(of: Callable[[Any], np.ndarray]) -> np.ndarray:
        return np.concatenate([of(tree) for tree in trees])

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
        value=joined(lambda t: t.value[:, :, 0]).astype(np.float32),
        roots=roots.astype(np.int32),
    )


def fitted(known: Table, labels: Sequence[str]) -> Model:
    """A model of these formats, without errors or anything to tell about it."""
    labels = list(labels)
    x = traits.of(known.columns)
    unit = LAUNCHES + ENTRY * known.columns["nnz"].to_numpy(float)
    ratios = known.spmv[labels] / known.bound[labels], known.conversion[labels].div(unit, axis=0)
    return Model(tuple(labels), {}, *(_grown(x, np.log(r).to_numpy()) for r in ratios), np.zeros((2, len(labels), 3)))


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

    def summary(self) -> pd.DataFrame:
        """Losses in per cent: geometric mean, 95th percentile and worst by matrices, chooser and number of SpMVs."""
        parts = {"all": self.choices, "above 1 M entries": self.choices[self.choices["nnz"] > LARGE]}
        found = pd.concat(parts, names=["of"]).groupby(["of", "chooser", "spmvs"], sort=False)["loss"]
        return pd.DataFrame(
            {
                "matrices": found.size(),
                "mean": found.agg(lambda loss: 100 * np.expm1(np.log1p(loss).mean())),
                "p95": 100 * found.quantile(0.95),
                "worst": 100 * found.max(),
            }
        ).reset_index()


def judged(known: Table, size: int = PORTFOLIO, progress: Callable[[str], None] = lambda _: None) -> Judgement:
    """What choosers lose on each family where they have learned from the others."""
    lines: list[dict[str, Any]] = []
    errors: dict[str, list[tuple[float, float]]] = {}
    for family in sorted(known.family.unique()):
        progress(family)
        out = known.of(known.family.index[known.family == family])
        rest = known.of(known.family.index[known.family != family])
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
            totals = pd.DataFrame(model.totals(*predicted, n), total.index, labels)
            choosers = {"model": totals.idxmin(axis=1), **_rivals(rest, out, n)}
            for chooser, chosen in choosers.items():
                for matrix, label in chosen.items():
                    took = total.at[matrix, label] / best[matrix]
                    lines.append(
                        {
                            "matrix": matrix,
                            "family": family,
                            "nnz": int(out.columns.at[matrix, "nnz"]),
                            "spmvs": n,
                            "chooser": chooser,
                            "format": label,
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
    rows: pd.DataFrame, about: dict[str, Any], progress: Callable[[str], None] = lambda _: None
) -> tuple[Model, Judgement]:
    """The model of all rows, and what it was worth without each family."""
    known = table(rows)
    judgement = judged(known, progress=progress)
    labels = portfolio(known)
    model = fitted(known, labels)
    values = traits.of(known.columns)
    errors = np.array([_spread(np.array(judgement.errors.get(label, [(0.0, 0.0)]))) for label in labels])
    about = about | {
        "device": str(rows.loc[rows["status"] == "ok", "device_name"].iloc[0]),
        "dtype": "f64",
        "matrices": len(known.columns),
        "families": int(known.family.nunique()),
        "vendor": known.vendor,
        "safe": safe(known, labels),
        "ranges": {
            "low": values.min(axis=0).tolist(),
            "high": values.max(axis=0).tolist(),
            "median": np.median(values, axis=0).tolist(),
        },
        "judgement": judgement.summary().to_dict("records"),
    }
    return Model(model.labels, about, model.times, model.conversions, errors.transpose(1, 0, 2)), judgement


def _spread(errors: np.ndarray) -> np.ndarray:
    """(2, 3) of (matrices, 2): 10th and 90th percentile, standard deviation without the outermost of each side."""
    low, high = np.nanquantile(errors, (0.1, 0.9), axis=0)
    inner = np.clip(errors, *np.nanquantile(errors, (0.025, 0.975), axis=0))
    return np.stack((low, high, np.nanstd(inner, axis=0)), axis=1)


def safe(known: Table, labels: Sequence[str], spmvs: float = 1_000) -> str:
    """The format of the portfolio that loses least at the 95th percentile of the matrices."""
    total = known.total(spmvs)
    losses = total[list(labels)].div(total.min(axis=1), axis=0).fillna(REACH)
    return str(losses.quantile(0.95).idxmin())


def rows_of(runs: Sequence[Path | str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of runs, and what a model says of where it comes from: their names, and the roofs of their GPU."""
    folders = [store.folder(run) for run in runs]
    rows = pd.concat([store.load(folder) for folder in folders], ignore_index=True)
    sessions = [s for folder in folders for s in store.environment(folder)["sessions"] if s.get("roofs")]
    if not sessions or not {"sectors", "lines"} <= set(sessions[-1]["roofs"]):
        raise SpmvbenchError("no session of these runs has measured the roofs of its GPU")
    last = sessions[-1]
    kept = ("roofs", "launch_floor")
    return rows, {"runs": [folder.name for folder in folders], **{name: last[name] for name in kept}} | {
        "multiprocessors": last["properties"]["multiprocessors"]
    }
