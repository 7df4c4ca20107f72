"""The model that ships: three forests of regression trees and the quantiles of their errors.

The logarithm of an SpMV's time divided by its lower bound (`measure.bounds`) is the sum of two predictions. One is the
mean over all formats of a portfolio, from the features of the matrix. The other is a format's difference from it, from
the features of the matrix, the bytes that the format reads (its `estimate`) and numbers that describe the format. One
forest for all formats learns from matrices of one format what holds for a similar one. No format goes through the
longest row faster than it ever did in the training: if one thread or warp computes a row, this is a bound that the
bytes do not show. The third forest predicts for each format the logarithm of the conversion's time divided by
LAUNCHES + ENTRY * nnz, from the features of the matrix.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.advice import features
from spmvbench.advice.features import LARGE as LARGE
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean

VERSION = 6
LAUNCHES, ENTRY = 3e-4, 5e-11  # seconds, of a conversion and of each of its entries: the unit of conversion times
CAUTION = 0.5  # standard deviations of the trees that a prediction exceeds their mean by: of equals, the surer wins
# Share of a feature's range in the training that a matrix may leave it by. Of ten matrices that left it by more than a
# tenth when their families were left out, the model failed on one, which left it by four times the range.
BEYOND = 0.5
MEASURED = 5  # formats that --measure runs, in addition to cuSPARSE's and the fallback
ABOVE, UP_TO = "above 1 M entries", "up to 1 M entries"  # subsets with a regret of their own, in double precision
SINGLE = "single precision"  # another one, of all sizes
SPMVS = (1, 10, 100, 1_000, 10_000, 1_000_000)  # numbers of SpMVs for which the regret is computed


SEVERAL = "-spmm"  # between the name of a device and the number of vectors, in the name of a model's file


def operation(vectors: int) -> str:
    """The operation that multiplies so many vectors, X and Y by rows."""
    return "spmv" if vectors == 1 else f"spmm@{vectors}"


@dataclass(frozen=True)
class Scaled:
    """A GPU without rows, like one that has some: only its memory is slower.

    like: the model's name. device: the GPU's. memory: time to read from memory, divided by that on the other GPU. l2:
    bytes that either reads at the same rate, from a cache of the same size. memory_bytes: how much it has.
    """

    like: str
    device: str
    memory: float
    l2: int
    memory_bytes: int


# Bandwidths of NVIDIA's data sheets, 4.8 and 3.35 TB/s; multiprocessors, clocks and L2 (50 MB) are the same.
SCALED = {"h100": Scaled("h200", "NVIDIA H100 SXM", 4.8 / 3.35, 50_000_000, 80_000_000_000)}


@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees, their nodes in one array each.

    feature: (nodes,), index of the feature that a node compares, -1 in a leaf. threshold: (nodes,). left, right:
    (nodes,), the next node if the feature is at most the threshold, and if it is above. value: (nodes, outputs).
    roots: (trees,), the first node of each tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(matrices, outputs) of (matrices, features): the mean of the trees."""
        mean: np.ndarray = self.each(x).mean(axis=1, dtype=float)
        return mean

    def each(self, x: np.ndarray) -> np.ndarray:
        """(matrices, trees, outputs) of (matrices, features)."""
        features, thresholds, following = self._nodes
        x = x.astype(np.float32)  # the type that scikit-learn compares
        matrix = np.arange(len(x))[:, None] * x.shape[1]
        node = np.broadcast_to(self.roots, (len(x), len(self.roots)))
        while True:
            is_left = x.take(matrix + features.take(node)) <= thresholds.take(node)
            after = following.take(2 * node + is_left)
            if np.array_equal(after, node):
                found: np.ndarray = self.value[node]
                return found
            node = after

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The feature and the threshold of each node, and after each other the nodes on its right and on its left.

        A leaf compares the first feature, and is followed by itself.
        """
        is_leaf, itself = self.feature < 0, np.arange(len(self.feature))
        following = np.where(is_leaf[:, None], itself[:, None], np.stack([self.right, self.left], axis=1))
        return np.where(is_leaf, 0, self.feature).astype(np.intp), self.threshold, following.ravel()


DAMAGED = (zipfile.BadZipFile, ValueError, KeyError, *paths.UNPACKING)  # what a file that is no model raises
FORESTS, ARRAYS = ("shared", "own", "conversions"), tuple(field.name for field in fields(Forest))


@dataclass(frozen=True, eq=False)
class Model:
    """The three forests, the formats that they predict, and the errors of the predictions.

    labels: the K formats of the portfolio. about: device, bounds, runs, regret, ranges of features; JSON values.
    formats: (K, numbers), the mean and the principal components of each format's differences in the training.
    rates: (K,), the largest number of entries of the longest row per second of an SpMV in the training.
    errors: (2, K, 2), for SpMV and conversion the 10th and 90th percentile of log(measured / predicted) on families
    that were left out of training.
    """

    labels: tuple[str, ...]
    about: dict[str, Any]
    shared: Forest
    own: Forest
    conversions: Forest
    formats: np.ndarray
    rates: np.ndarray
    errors: np.ndarray

    @property
    def interval(self) -> np.ndarray:
        """(K, 2), the errors of an SpMV between which 80 % are. Fewer than ten matrices do not show the tenths of a
        format, which gets the widest interval of the others.
        """
        ends, rows = self.errors[0], np.array(self.about["rows"])
        is_rare = rows < min(10, rows.max())
        widest = ends[~is_rare, 0].min(), ends[~is_rare, 1].max()
        return np.where(is_rare[:, None], widest, ends)

    def predicted(
        self, columns: features.Columns, sizes: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of an SpMV and of the conversion, each (matrices, K).

        columns: columns of a row, arrays of shape (matrices,). sizes, bounds: (matrices, K), bytes that an SpMV reads
        and writes, and its lower bound in seconds. A time is NaN where these are.
        """
        return self.predicted_of(features.of(columns), columns["nnz"], columns["row_len_max"], sizes, bounds)

    def predicted_of(
        self, x: np.ndarray, nnz: Any, longest: Any, sizes: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same from the features that the model was trained on, (matrices, features), and the longest rows."""
        unit = LAUNCHES + ENTRY * np.asarray(nnz, dtype=float)
        return self.slower(x, nnz, longest, sizes, bounds) * bounds, np.exp(self.conversions(x)) * unit[:, None]

    def slower(self, x: np.ndarray, nnz: Any, longest: Any, sizes: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Time of an SpMV divided by its bound, (matrices, K). Arguments as for `predicted_of`."""
        vendor = self.labels.index(self.about["vendor"])
        of_row = np.asarray(longest, dtype=float)[:, None] / self.rates / bounds
        pairs = features.of_formats(x, nnz, sizes, bounds, sizes[:, vendor], of_row, self.formats)
        known = ~np.isnan(pairs).any(axis=-1)
        found = np.full(sizes.shape, np.nan)
        trees = self.own.each(pairs[known])[..., 0].astype(float)
        found[known] = trees.mean(axis=1) + CAUTION * trees.std(axis=1)
        slower: np.ndarray = np.maximum(np.exp(self.shared(x) + self.formats[:, 0] + found), of_row)
        return slower

    def out_of_range(self, columns: features.Columns) -> list[str]:
        """The features of one matrix that leave the range of the training matrices by more than BEYOND times it.

        A matrix may be smaller than all of them: docs/advice.md has the regret on smaller ones.
        """
        low, high = (np.array(self.about["ranges"][end]) for end in ("low", "high"))
        slack = BEYOND * (high - low) + 1e-9
        values = features.of(columns)
        below = (values < low - slack) & ~np.isin(features.NAMES, features.SIZES)
        outside = below | (values > high + slack)
        return [name for name, out in zip(features.NAMES, outside, strict=True) if out]

    def save(self, path: Path) -> None:
        """Write the model to a NumPy archive that `load` reads."""
        arrays = {f"{of}_{name}": getattr(getattr(self, of), name) for of in FORESTS for name in ARRAYS}
        arrays |= {"formats": self.formats, "rates": self.rates}
        about = json.dumps({"version": VERSION, "labels": self.labels, **self.about})
        np.savez_compressed(path, about=np.array(about), errors=self.errors, **arrays)


def folder() -> Path:
    """The folder of the models that ship."""
    return paths.configs() / "advice"


def stored(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """`about` and the arrays of a model's file. Raises OSError if there is none, SpmvbenchError for a damaged file."""
    try:
        # np.load leaves a damaged file open that it has opened itself.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = {key: found[key] for key in found}
        return json.loads(str(arrays.pop("about"))), arrays
    except DAMAGED as error:
        raise SpmvbenchError(f"{path} is no model: {error}") from None


def trained() -> list[str]:
    """The names of the devices whose model was trained on rows."""
    return sorted(path.stem for path in folder().glob("*.npz") if SEVERAL not in path.stem)


def _file(name: str, vectors: int) -> Path:
    """The file of a device's model for so many vectors, or for the number nearest to it that has one."""
    if vectors == 1:
        return folder() / f"{name}.npz"
    several = {int(path.stem.rpartition(SEVERAL)[2]): path for path in folder().glob(f"{name}{SEVERAL}*.npz")}
    if not several:
        raise UsageError(f"there is no model of {name} for several vectors: train one on rows of {operation(vectors)}")
    return several[min(sorted(several), key=lambda k: abs(np.log(k / vectors)))]


def names() -> list[str]:
    """The names of the devices that have a model: trained on their rows, or scaled from another one's."""
    known = trained()
    return sorted({*known, *(name for name, scaled in SCALED.items() if scaled.like in known)})


@cache
def of_gpu(gpu: str) -> str | None:
    """The model of a GPU by the name that its driver gives, None without one. A variant on PCIe has a slower memory."""
    words = gpu.lower().split()
    return None if "pcie" in words or "nvl" in words else next((name for name in names() if name in words), None)


def _scaled(model: Model, scaled: Scaled) -> Model:
    """The model with the bounds and the memory of another GPU; what it has learned stays."""
    bounds = {
        of: [[size, seconds * (scaled.memory if size > scaled.l2 else 1)] for size, seconds in pairs]
        for of, pairs in model.about["bounds"].items()
        if of in ("read", "sectors", "lines")
    }
    device = f"{scaled.device} (times of {model.about['device']}, scaled by bandwidth)"
    about = model.about | {"device": device, "scaled_bounds": bounds, "memory_bytes": scaled.memory_bytes}
    return replace(model, about=about)


def load(name: str, vectors: int = 1) -> Model:
    """The model of a device, such as `h200`, for products of so many vectors.

    Raises UsageError with the known names for an unknown one, SpmvbenchError for a damaged file.
    """
    known = names()
    if name not in known:
        raise UsageError(f"there is no model of {name!r}{did_you_mean(name, known) or f'; there are {known}'}")
    if name in SCALED:
        return _scaled(load(SCALED[name].like, vectors), SCALED[name])
    path = _file(name, vectors)
    try:
        about, arrays = stored(path)
        if about.pop("version") != VERSION:
            raise SpmvbenchError(f"the model of {name} is of another version of spmvbench: train it again")
        forests = {of: Forest(**{name: arrays[f"{of}_{name}"] for name in ARRAYS}) for of in FORESTS}
        formats, rates, errors = arrays["formats"], arrays["rates"], arrays["errors"]
        return Model(tuple(about.pop("labels")), about, **forests, formats=formats, rates=rates, errors=errors)
    except (OSError, *DAMAGED) as error:
        raise SpmvbenchError(f"{path} is no model: {error}") from None


@cache
def loaded(name: str, vectors: int = 1) -> Model:
    """As `load`, which takes 30 ms, once a process."""
    return load(name, vectors)
