"""The model as it ships: two forests of regression trees and what is known of their errors, as plain numbers.

One forest tells, for each format of a portfolio, the logarithm of an SpMV's time over the bound of its bytes (gathers
of x included: bench.roofs), which `estimate` knows beforehand; the other that of the conversion's time over a time for
launches and for the entries. Both look at the matrix's traits alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.advice import traits
from spmvbench.advice.traits import LARGE as LARGE
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean
from spmvbench.rows.schema import current_metadata

VERSION = 2
LAUNCHES, ENTRY = 3e-4, 5e-11  # seconds: what conversions are told in multiples of, whole and for each entry
MEASURED = 5  # formats that --measure runs, beside cuSPARSE's and the safe one
ABOVE, UP_TO = "above 1 M entries", "up to 1 M entries"  # what is judged apart, beside all matrices
SPMVS = (1, 10, 100, 1_000, 10_000, 1_000_000)  # for which choices are judged


@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees one after the other. feature: of each node, -1 in a leaf; value: (nodes, outputs).

    left, right: where a feature is at most the threshold, and where it is more. roots: the first node of each tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(matrices, outputs) of (matrices, features): the mean of the trees."""
        x = x.astype(np.float32)  # as the trees were grown
        node = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        matrix = np.arange(len(x))[:, None]
        while (inner := self.feature[node] >= 0).any():
            goes = np.where(x[matrix, self.feature[node]] <= self.threshold[node], self.left[node], self.right[node])
            node = np.where(inner, goes, node)
        return self.value[node].mean(axis=1, dtype=float)


@dataclass(frozen=True, eq=False)
class Model:
    """labels: the formats of the portfolio, K of them. about: device, bounds, runs, judgement, ranges; plain JSON.

    errors: (2, K, 2), of the logarithms of measured over predicted times and conversions where their family was left
    out: the 10th and the 90th percentile.
    """

    labels: tuple[str, ...]
    about: dict[str, Any]
    times: Forest
    conversions: Forest
    errors: np.ndarray

    def predicted(self, columns: traits.Columns) -> tuple[np.ndarray, np.ndarray]:
        """Time of an SpMV over its bound, and seconds of the conversion, each (matrices, K).

        columns: as of a row, arrays of (matrices,).
        """
        x = traits.of(columns)
        unit = LAUNCHES + ENTRY * np.asarray(columns["nnz"], dtype=float)
        return np.exp(self.times(x)), np.exp(self.conversions(x)) * unit[:, None]

    def strange(self, columns: traits.Columns) -> list[str]:
        """The traits of one matrix that are beyond all matrices of the rows, by more than a tenth of their range."""
        low, high = (np.array(self.about["ranges"][end]) for end in ("low", "high"))
        slack = 0.1 * (high - low) + 1e-9
        values = traits.of(columns)
        beyond = (values < low - slack) | (values > high + slack)
        return [name for name, out in zip(traits.NAMES, beyond, strict=True) if out]

    def save(self, path: Path) -> None:
        """Write the model to a NumPy archive that `load` reads."""
        arrays = {
            f"{of}_{name}": array
            for of, forest in (("times", self.times), ("conversions", self.conversions))
            for name, array in vars(forest).items()
        }
        about = json.dumps({"version": VERSION, "labels": self.labels, **self.about})
        np.savez_compressed(path, about=np.array(about), errors=self.errors, **arrays)


def folder() -> Path:
    """Where the models that ship lie."""
    return paths.configs() / "advice"


def names() -> list[str]:
    """The devices of which there is a model."""
    return sorted(path.stem for path in folder().glob("*.npz"))


def load(name: str) -> Model:
    """The model of a device, as `h200`. Raises UsageError with the names that there are, SpmvbenchError."""
    known = names()
    if name not in known:
        raise UsageError(f"there is no model of {name!r}{did_you_mean(name, known) or f'; there are {known}'}")
    try:
        with np.load(folder() / f"{name}.npz", allow_pickle=False) as found:
            arrays = {key: found[key] for key in found}
        about = current_metadata(json.loads(str(arrays.pop("about"))))
        if about.pop("version") != VERSION:
            raise SpmvbenchError(f"the model of {name} is of another version of spmvbench: train it again")
        fields = ("feature", "threshold", "left", "right", "value", "roots")
        forests = [Forest(**{f: arrays[f"{of}_{f}"] for f in fields}) for of in ("times", "conversions")]
        return Model(tuple(about.pop("labels")), about, *forests, arrays["errors"])
    except (OSError, ValueError, KeyError) as error:
        raise SpmvbenchError(f"{folder() / name}.npz is no model: {error}") from None
