"""`spmvbench.run`: the command `spmvbench run` for scripts and notebooks."""

from __future__ import annotations

import inspect
import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench.devices import chosen
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats.arrays import is_sparse, regular
from spmvbench.matrices.conditions import CONDITIONS, Conditions
from spmvbench.matrices.lookup import name_of
from spmvbench.matrices.selection import Selection
from spmvbench.measure.cases import Case, Settings
from spmvbench.rows import folders, store
from spmvbench.runner import arguments, plan, session
from spmvbench.runner.request import RunRequest, rows_of

if TYPE_CHECKING:
    import pandas as pd

LONGEST_LABEL = 200

log = logging.getLogger(__name__)


def run(
    matrices: Any = None,
    formats: str | Sequence[str] | None = None,
    *,
    programs: str | Sequence[str] | None = None,
    group: str | Sequence[str] = (),
    set: str | Sequence[str] = (),
    limit: int | None = None,
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
    update: bool = False,
    timeout: float | None = None,
    max_bytes: int | str | None = None,
    seed: int = 0,
    convert: str = "both",
    real_part: bool = False,
    deterministic: bool = False,
    retry: bool = False,
    fresh: bool = False,
    progress: bool | Callable[[dict[str, Any]], bool] = True,
    **conditions: Any,
) -> pd.DataFrame:
    """Measure matrices in formats on a device. Returns the rows of these cases, in the form of `spmvbench.load_run`.

    matrices: one or several names as for `spmvbench run` (``"HB/1138_bus"``, downloaded if missing; a glob;
    ``"pde:16"``; a file), sparse matrices of SciPy, CuPy or pydata/sparse, or a mapping from labels to these; a label
    is any printable text.
    group, set: groups of the collection, named sets. conditions: those of `spmvbench.matrices.conditions.Conditions`,
    such as ``min_nnz=10_000, spd=True``, on all of them or, without names, on the whole collection. limit: at most so
    many. Without any of these: the matrices in the cache.
    formats: for example ``"csr-*,ell[threads=2]"`` or a list; None: all that the device can run, on the emulated device
    one per storage idea. programs: shared libraries and Python files, measured beside the formats, such as
    ``"./libmine.so[tile=8]"`` (docs/programs.md). op: operations, ``"spmspv,bfs@0"`` or a list; empty: those that the
    formats run. order: orders of rows and columns, ``"none,rcm"`` or a list (`spmvbench.orders`). dtype: f64, f32;
    None: f64, or what `values` (f64, f32, f16, bf16) and `vectors` (f64, f32) give, each stored type with each type of
    x and y that is as wide. mode: hot, cold; None: all of the device. device: ``auto``, ``cuda:0``, ``emulated``.

    run: the name of the run's folder under `results`; cases with a row there are not measured again. budget: sampling
    time of a case, seconds. energy: time over which the energy of a hot case is measured, seconds; None: not. update:
    time new values in the same pattern too, in hot cases (`t_update`). timeout: seconds after which a case is aborted.
    max_bytes: limit on a format's footprint, a number or for example ``"2GB"``.
    seed: of x and of generated values. convert: ``both``, or ``device`` to leave out conversion on the host. real_part:
    take the real part of complex matrices. deterministic: leave out formats that are known to give other bits in
    products with the same x. retry: measure failed cases again. fresh: start a new run; the old folder is renamed.
    progress: show a bar on stderr; a function is called with each row in its place, and ends the run by returning
    False: the rows are those until then.

    A worker process measures, as for the command. A format outside of this package must therefore be in a file that
    SPMVBENCH_FORMATS names. Raises UsageError for unknown names, TypeError for what is neither a name nor a sparse
    matrix, SpmvbenchError if nothing can be measured.
    """
    given = {**locals(), "device": chosen(device)}
    for unknown in conditions.keys() - CONDITIONS.keys():
        raise TypeError(f"run() has no argument {unknown!r}{did_you_mean(unknown, [*CONDITIONS, *ARGUMENTS])}")
    groups, sets = (tuple(arguments.words(given)) if given else () for given in (group, set))
    with tempfile.TemporaryDirectory() as kept:
        names, labels = _written(matrices, Path(kept))
        asked = Selection(names, groups, sets, Conditions(**conditions), limit)
        request = RunRequest.of(
            **{_FIELDS.get(name, name): value for name, value in given.items() if name not in _OF_THE_SELECTION},
            selection=asked.or_cached(log.warning) if matrices is None else asked,
        )
        found = request.find(log.warning)
        cases = request.cases([replace(matrix, name=labels.get(matrix.path, matrix.name)) for matrix in found])
        with store.lock(request.folder):
            if fresh:
                folders.set_aside(request.folder)
            if not _measured(request.folder, request.pending(request.folder, cases), request.settings(), progress):
                there = frozenset(store.load_run(request.folder)["case_id"])
                cases = [case for case in cases if case.case_id in there]
            rows, mixture = rows_of(request.folder, cases)
    if mixture:
        warnings.warn(mixture, stacklevel=2)
    return rows


ARGUMENTS = tuple(inspect.signature(run).parameters)
# Arguments that are no field of RunRequest, and those that are fields of other names.
_OF_THE_SELECTION = ("matrices", "group", "set", "limit", "conditions", "progress")
_FIELDS = {"op": "ops", "order": "orders", "dtype": "dtypes", "mode": "modes"}


def _measured(
    folder: Path, todo: list[Case], settings: Settings, progress: bool | Callable[[dict[str, Any]], bool]
) -> bool:
    """Measure cases. Returns whether `progress` let it come to its end."""
    from tqdm import tqdm

    follow = progress if callable(progress) else None
    stopped = False
    with tqdm(total=len(todo), unit="case", disable=not progress or bool(follow) or not todo, file=sys.stderr) as bar:

        def count(row: dict[str, Any]) -> None:
            nonlocal stopped
            bar.update()
            stopped |= follow is not None and not follow(row)

        return session.measure(
            folder, plan.grouped(todo), settings, session.Watcher(on_row=count, stopping=lambda: stopped)
        )


def _written(given: Any, folder: Path) -> tuple[tuple[str, ...], dict[Path | None, str]]:
    """The names of the matrices, and the labels of those in memory, by the files in `folder` they are written to.

    The worker process reads these files.
    """
    from scipy import sparse

    if name_of(given) is not None or is_sparse(given) or not isinstance(given, Iterable | None):
        given = [given]
    if not isinstance(given, Mapping):
        given = {f"matrix-{place}": a for place, a in enumerate(() if given is None else given, start=1)}
    names, labels = list[str](), dict[Path | None, str]()
    for label, a in given.items():
        name = name_of(a)
        if name is None:
            a = regular(a)  # raises TypeError
            a = a if sparse.issparse(a) else a.get()
            text = _label(label, labels.values())
            # The reader's messages contain the file's name.
            path = folder.resolve() / str(len(names)) / (re.sub(r"[^\w.+-]+", "_", text)[:60] + ".npz")
            path.parent.mkdir()
            labels[path] = text
            sparse.save_npz(path, sparse.csr_array(a))
            name = str(path)
        names.append(name)
    return tuple(names), labels


def _label(given: Any, taken: Container[str]) -> str:
    """A matrix's label as rows contain it. Raises UsageError if it is empty, too long, not printable or used twice."""
    label = str(given)
    if not label.isprintable() or not 0 < len(label) <= LONGEST_LABEL:
        raise UsageError(f"{label[:40]!r} is no label of a matrix: give 1 to {LONGEST_LABEL} printable characters")
    if label in taken:
        raise UsageError(f"two matrices have the label {label!r}")
    return label
