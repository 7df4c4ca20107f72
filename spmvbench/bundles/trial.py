"""Trial of a submitted format: a confined process multiplies, this process verifies the results.

The parent draws random matrices and x, writes them into a folder, and starts a child there (`confined.run`). The child
converts, runs the format's launches on the emulated device and writes one file of plain numbers for each matrix. The
parent trusts nothing of it: it compares every y with its own product and hashes the sources itself. The child must end
with exit code 0, print nothing and compute all products. A format may refuse a matrix; refusals are counted.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import formats, paths, testing, untrusted
from spmvbench.bundles import confined
from spmvbench.bundles.findings import FAILED, OPEN, PASSED, Finding
from spmvbench.devices import Device, open_device
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip, dependencies, imports
from spmvbench.formats.vectors import orders, restored
from spmvbench.measure import operations, verify

MAX_ENTRIES = 9000  # of a matrix in a trial; also the maximum number of rows
SECONDS = 600.0
TASKS, SOURCES = "asked", "sources"  # files in the folder
MAX_TEXT = 1 << 16  # bytes of a text from the child
# Parameters of the operations in a trial, by kind.
SEARCHES = {"bfs": ("bfs@0", "bfs@1"), "bfs-directed": ("bfs-directed@1",)}
# A solver is this project's, and only its products are the format's.
OPERATIONS = testing.CHECKED | SEARCHES | dict.fromkeys(("cg", "pagerank"), testing.CHECKED["spmv"])


@dataclass(frozen=True)
class Product:
    """One matrix in one operation. references: every x with the reference for y, on the host."""

    name: str
    op: str
    a: Csr
    references: list[verify.Reference]

    def without_results(self) -> Product:
        """The task for the child: without the reference results."""
        nothing = np.zeros(0)
        bare = [replace(r, x=r.whole_x(self.a.cols), y=nothing, bound=nothing) for r in self.references]
        return replace(self, references=[replace(r, columns=None, rows=None) for r in bare])

    @property
    def y_dtype(self) -> np.dtype[Any]:
        """The type of y."""
        y = operations.get(self.op).vectors(self.a)[1]
        found: np.dtype[Any] = np.dtype(y.dtype)
        return found


def products(kinds: Iterable[str], matrices: Mapping[str, Any], device: Device, seed: int) -> list[Product]:
    """The products that a format of these operations has to compute, with every x drawn from the seed.

    For each matrix this includes the integer matrix, whose products are exact.
    """
    found = []
    for name, matrix in matrices.items():
        for op in dict.fromkeys(op for kind in kinds for op in OPERATIONS.get(kind, ())):
            operation = operations.get(op)
            for dtype in (np.float32,) if operation.pattern else (np.float64, np.float32):
                try:
                    a = operation.matrix(Csr.of(matrix).astype(dtype))
                    checks = operation.checks(a, a, device, seed, seed + 1)
                except Skip:
                    continue
                found.append(Product(f"{name}, {np.dtype(dtype)}", op, a, [*checks.dense, *checks.sparse]))
                integers = verify.integer_matrix(a) if checks.integer else None
                if integers is not None:
                    found.append(
                        Product(f"{name}, {np.dtype(dtype)}, exact integer test", op, integers, checks.integer)
                    )
    return found


def run(
    key: str,
    measured: str,
    settings: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    modules: Sequence[Path],
    matrices: Mapping[str, Any] | None = None,
) -> Finding:
    """Try a format with each of its settings; returns the finding.

    measured: the source hash of its rows. kinds: of its operations. modules: the bundle's Python files. matrices:
    csr_arrays by name; None: the hard ones that every format is tested with.
    """
    if matrices is None:
        matrices = trial_matrices()
    place = paths.home() / "bundles"
    place.mkdir(parents=True, exist_ok=True)
    with paths.scratch(place) as folder:
        wanted = products(kinds, matrices, open_device("emulated"), secrets.randbits(62))
        tasks = key, [dict(setting) for setting in settings], [product.without_results() for product in wanted]
        (folder / TASKS).write_bytes(pickle.dumps(tasks))
        named = os.pathsep.join(str(module.resolve()) for module in modules)
        folders = {str(module.resolve().parent) for module in modules}
        searched = os.pathsep.join([*sorted(folders), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {"SPMVBENCH_FORMATS": named, "PYTHONPATH": searched}
        ended = confined.run([sys.executable, "-P", "-m", __name__], folder, SECONDS, environment)
        last_words = _last_words(ended.err)
        if ended.limit or ended.code:
            reason = ended.limit or f"its process ended with {ended.code}{last_words}"
            return Finding("formats", FAILED, reason)
        if ended.out:
            return Finding("formats", FAILED, "it prints, which a format must not do")
        if wrong := _source_mismatch(folder, key, measured, modules, last_words):
            return Finding("formats", FAILED, wrong)
        return _verified(folder, wanted, len(settings), last_words)


def trial_matrices() -> dict[str, Any]:
    """The matrices of a trial: the small ones of the hard matrices."""
    found = testing.hard_matrices() | testing.hard_graphs()
    return {name: a for name, a in found.items() if max(a.nnz, *a.shape) <= MAX_ENTRIES}


def _content(path: Path, most: int) -> bytes | None:
    """The content of a file from the child; None if it is missing, too long or not a plain file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None


def _source_mismatch(folder: Path, key: str, measured: str, modules: Sequence[Path], last_words: str) -> str:
    """What is wrong with the format's source files as the child lists them; their hash is computed here."""
    try:
        names = json.loads(_content(folder / SOURCES, MAX_TEXT) or b"")
        python, kernels = ([Path(name).resolve() for name in names[kind]] for kind in ("python", "kernels"))
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        return f"its process ended early{last_words}"
    here = [*(module.resolve().parent for module in modules), imports.PACKAGE, paths.kernels().resolve()]
    if not all(any(file.is_relative_to(place) for place in here) for file in (*python, *kernels)):
        return "its sources lie outside of the bundle"
    if not set(python) & {module.resolve() for module in modules}:
        return "none of the bundle's sources is its own"
    try:
        found = dependencies.hash_of_files(set(python), set(kernels))
    except (UsageError, OSError) as error:
        return f"{key} has a source that cannot be read: {error}"
    return "" if found == measured else f"it was measured from {measured}, the bundle holds {found}"


def _last_words(output: str) -> str:
    last = next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
    return f": {untrusted.text(last[:200])}" if last else ""


def _verified(folder: Path, wanted: Sequence[Product], settings: int, last_words: str) -> Finding:
    """Compare every y with the product that was computed here."""
    verified, refused = 0, []
    for setting in range(settings):
        for number, product in enumerate(wanted):
            name = f"{setting}-{number}"
            y_bytes = product.a.rows * product.y_dtype.itemsize
            content = _content(folder / f"{name}.y", y_bytes * len(product.references))
            if content is None and _content(folder / f"{name}.refused", MAX_TEXT) is not None:
                refused.append(product.name)
                continue
            if content is None or len(content) != y_bytes * len(product.references):
                return Finding("formats", FAILED, f"no result for {product.name}{last_words}")
            results = np.frombuffer(content, product.y_dtype).reshape(len(product.references), product.a.rows)
            for y, reference in zip(results, product.references, strict=True):
                verdict = verify.compare(y, reference)
                if not verdict.passed:
                    text = f"wrong on the emulated device: {verdict} ({product.name}, {product.op})"
                    return Finding("formats", FAILED, text)
                verified += 1
    matrices = f"{len(refused)} of {settings * len(wanted)} matrices refused" if refused else ""
    if not verified or len(refused) > settings * len(wanted) / 2:
        return Finding("formats", OPEN, f"the source of the bundle, hardly tested: {matrices or 'nothing to multiply'}")
    text = f"the source of the bundle, verified on the emulated device in {verified} products"
    return Finding("formats", PASSED, f"{text}; {matrices}" if refused else text)


# --- the child


def main() -> None:
    """`python -m spmvbench.bundles.trial`: compute the products of the tasks in the present folder."""
    with open(TASKS, "rb") as file:
        key, settings, tasks = pickle.load(file)  # written by the parent
    cls = formats.get(key)
    found = {"python": dependencies.python_files(cls), "kernels": dependencies.kernel_files(cls)}
    files = {kind: [str(path) for path in listed] for kind, listed in found.items()}
    Path(SOURCES).write_text(json.dumps(files))
    device = open_device("emulated")
    for setting, params in enumerate(settings):
        for number, product in enumerate(tasks):
            name = f"{setting}-{number}"
            try:
                Path(f"{name}.y").write_bytes(b"".join(_results(cls, params, product, device)))
            except Skip as skip:
                Path(f"{name}.refused").write_text(skip.reason)


def _results(cls: type[formats.Format], params: Mapping[str, Any], product: Product, device: Device) -> Iterable[bytes]:
    """The bytes of y for every x, each computed from a y that is no correct result."""
    operation = operations.get(product.op)
    if operation.key != cls.op:
        raise Skip(f"it runs {cls.op}, not {product.op}")
    fmt = cls.from_csr(product.a.fresh(), **params)
    x, y = operation.vectors(product.a)
    program = device.compile(fmt.launches(x, y))
    for reference in product.references:
        verify.set_x(fmt, reference, x)
        y[...] = verify.garbage(y)
        program.run()
        yield np.ascontiguousarray(restored(y, orders(fmt)[1])).tobytes()


if __name__ == "__main__":
    main()
