"""`spmvbench.run`: the command `spmvbench run` for scripts and notebooks."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench import orders
from spmvbench.devices import chosen
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import resolve
from spmvbench.matrices.sources import Matrix, obtain, require_readable
from spmvbench.measure import operations
from spmvbench.measure.cases import DEFAULT_MODES, Case, Settings, device_kind
from spmvbench.rows import store
from spmvbench.runner import options, plan, session

if TYPE_CHECKING:
    import pandas as pd

LONGEST_LABEL = 200


def run(
    matrices: Any,
    formats: str | Sequence[str] | None = None,
    *,
    op: str | Sequence[str] = (),
    order: str | Sequence[str] = "none",
    dtype: str | Sequence[str] | None = None,
    values: str | Sequence[str] | None = None,
    vectors: str | Sequence[str] | None = None,
    mode: str | Sequence[str] | None = None,
    device: str = "auto",
    run: str = "python",
    results: Path | str = "results",
    budget: float | None = None,
    energy: float | None = None,
    timeout: float | None = None,
    max_bytes: int | str | None = None,
    seed: int = 0,
    convert: str = "both",
    real_part: bool = False,
    retry: bool = False,
    fresh: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Measure matrices in formats on a device. Returns the rows of these cases, in the form of `spmvbench.load_run`.

    matrices: one or several names as for `spmvbench run` (``"HB/1138_bus"``, downloaded if missing; a glob;
    ``"pde:16"``; a file), SciPy sparse matrices, or a mapping from labels to these; a label is any printable text.
    formats: for example ``"csr-*,ell[threads=2]"`` or a list; None: all that the device can run. op: operations,
    ``"spmspv,bfs@0"`` or a list; empty: those that the formats run. order: orders of rows and columns,
    ``"none,rcm"`` or a list (`spmvbench.orders`). dtype: f64, f32; None: f64, or what `values` (f64, f32, f16, bf16)
    and `vectors` (f64, f32) give, each stored type with each type of x and y that is as wide. mode: hot, cold; None:
    all of the device. device: ``auto``, ``cuda:0``, ``emulated``.

    run: the name of the run's folder under `results`; cases with a row there are not measured again. budget: sampling
    time of a case, seconds. energy: time over which the energy of a hot case is measured, seconds; None: not. timeout:
    seconds after which a case is aborted. max_bytes: limit on a format's footprint, a number or for example ``"2GB"``.
    seed: of x and of generated values. convert: ``both``, or ``device`` to leave out conversion on the host. real_part:
    take the real part of complex matrices. retry: measure failed cases again. fresh: start a new run; the old folder is
    renamed. progress: show a bar on stderr.

    A worker process measures, as for the command. A format outside of this package must therefore be in a file that
    SPMVBENCH_FORMATS names. Raises UsageError for unknown names, SpmvbenchError if nothing can be measured.
    """
    device = chosen(device)
    names = operations.parse(op.split(",") if isinstance(op, str) else op)
    classes = plan.choose_formats(formats if isinstance(formats, str | None) else ",".join(formats), device, names)
    dtypes = options.precisions(
        *(
            None if given is None else options.words(given, known)
            for given, known in ((dtype, options.DTYPES), (values, options.VALUES), (vectors, options.DTYPES))
        )
    )
    modes = options.words(DEFAULT_MODES[device_kind(device)] if mode is None else mode, options.MODES)
    folder = Path(results) / store.name_of(run)
    budget, energy, timeout = (None if time is None else options.seconds(time) for time in (budget, energy, timeout))
    max_bytes, seed = None if max_bytes is None else options.size(max_bytes), options.seed(seed)
    options.word(convert, options.CONVERT)
    if convert == "device" and device_kind(device) != "cuda":
        raise UsageError(f"convert='device' needs a GPU: {device} takes what the host converts")
    if not classes:
        raise UsageError("formats names no format: spmvbench.formats.keys() lists them")
    with tempfile.TemporaryDirectory() as kept:
        found = _resolved(matrices, Path(kept))
        require_readable(found, seed, "real" if real_part else "refuse")
        cases = plan.cross(found, classes, dtypes, modes, device, seed, names, options.words(order, orders.names()))
        settings = Settings(device, max_bytes, budget, timeout, real_part, convert, energy=energy or 0.0)
        with store.lock(folder):
            if fresh:
                store.set_aside(folder)
            todo = session.pending(folder, cases, settings, settled=retry)
            _measured(folder, todo, settings, progress)
    rows = store.load_run(folder)
    if mixture := store.mixed(rows):
        warnings.warn(mixture, stacklevel=2)
    return rows[rows["case_id"].isin({case.case_id for case in cases})]


def _measured(folder: Path, todo: list[Case], settings: Settings, progress: bool) -> None:
    from tqdm import tqdm

    with tqdm(total=len(todo), unit="case", disable=not progress or not todo, file=sys.stderr) as bar:

        def count(row: dict[str, Any]) -> None:
            bar.update()

        session.measure(folder, plan.grouped(todo), settings, session.Watcher(on_row=count))


def _resolved(given: Any, folder: Path) -> list[Matrix]:
    """The matrices; those in memory are written to `folder`, for the worker process.

    The name of a matrix in memory is its label.
    """
    from scipy import sparse

    if isinstance(given, str | Path) or sparse.issparse(given):
        given = [given]
    named = given if isinstance(given, Mapping) else {f"matrix-{place}": a for place, a in enumerate(given, start=1)}
    names, labels = list[str](), dict[Path, str]()
    for label, a in named.items():
        if sparse.issparse(a):
            text = _label(label, labels.values())
            # The reader's messages contain the file's name.
            path = folder.resolve() / str(len(names)) / (re.sub(r"[^\w.+-]+", "_", text)[:60] + ".npz")
            path.parent.mkdir()
            labels[path] = text
            sparse.save_npz(path, sparse.csr_array(a))
            a = path
        names.append(str(a))
    if not names:
        raise UsageError("nothing to run: name matrices (HB/1138_bus, pde:16, a file), or give SciPy's")
    _, missing = resolve(names)
    for name in missing:
        obtain(name)
    found, missing = resolve(names)
    if missing or not found:
        raise SpmvbenchError(f"not here: {', '.join(missing or names)}")
    return [replace(matrix, name=labels.get(matrix.path, matrix.name)) if matrix.path else matrix for matrix in found]


def _label(given: Any, taken: Container[str]) -> str:
    """A matrix's label as rows contain it. Raises UsageError if it is empty, too long, not printable or used twice."""
    label = str(given)
    if not label.isprintable() or not 0 < len(label) <= LONGEST_LABEL:
        raise UsageError(f"{label[:40]!r} is no label of a matrix: give 1 to {LONGEST_LABEL} printable characters")
    if label in taken:
        raise UsageError(f"two matrices have the label {label!r}")
    return label
