"""The SuiteSparse collection in Python, with the keywords of ssgetpy and, if that is installed, its objects."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import ssgetpy_home, suitesparse
from spmvbench.matrices.conditions import Conditions
from spmvbench.matrices.lookup import name_of
from spmvbench.matrices.suitesparse import Entry

Bounds = tuple[int | None, int | None]


def search(
    name_or_id: Any = None,
    *,
    matid: int | None = None,
    group: str | None = None,
    name: str | None = None,
    rowbounds: Bounds | None = None,
    colbounds: Bounds | None = None,
    nzbounds: Bounds | None = None,
    dtype: str | None = None,
    is2d3d: bool | None = None,
    isspd: bool | None = None,
    kind: str | None = None,
    limit: int | None = None,
) -> list[Any]:
    """Matrices of the SuiteSparse collection, as `ssgetpy.search` finds them, without its default limit of 10.

    name_or_id: a number in the index, ``"group/name"``, a glob such as ``"HB/bcs*"``, or a part of names. matid, group,
    name: the same by keyword; name is a part of names. rowbounds, colbounds, nzbounds: least and most, None for no
    bound. dtype: real, complex or binary. kind: a part of the kind. limit: at most this many.

    Returns a list of ``ssgetpy.Matrix`` if ssgetpy is installed (``pip install 'spmvbench[ssgetpy]'``), else of index
    entries with the same group, name, rows, cols, nnz, dtype and kind. `run`, `load`, `operator` and `fetch` take
    either. Uses the index in the cache, which is renewed from the mirror or the site. Raises UsageError for wrong
    arguments and unknown groups, SpmvbenchError without an index.
    """
    patterns: list[str] = []
    if isinstance(name_or_id, int):
        matid = name_or_id
    elif isinstance(name_or_id, str) and any(sign in name_or_id for sign in "*?["):
        patterns = [name_or_id]
    elif isinstance(name_or_id, str):
        given, _, name = name_or_id.rpartition("/")
        group = given or group
    elif name_or_id is not None:
        raise UsageError(f"a matrix is searched by its number or name, not by {type(name_or_id).__name__}")
    (min_rows, max_rows), (min_cols, max_cols), (min_nnz, max_nnz) = (
        bounds or (None, None) for bounds in (rowbounds, colbounds, nzbounds)
    )
    conditions = Conditions(
        kind=kind, name=name, id=matid, min_nnz=min_nnz, max_nnz=max_nnz, min_rows=min_rows, max_rows=max_rows,
        min_cols=min_cols, max_cols=max_cols, field=dtype, is2d3d=is2d3d, spd=isspd,
    )  # fmt: skip
    groups = [group] if group else []
    return _objects(suitesparse.search(patterns, groups=groups, conditions=conditions, limit=limit))


def fetch(
    name_or_id: Any = None,
    format: str = "MM",
    location: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    mirror: str | None = None,
    jobs: int = 4,
    verify: bool = True,
    progress: bool = True,
    missing_ok: bool = False,
    **conditions: Any,
) -> list[Any]:
    """Fetch the matrices that `search` finds, or those given, and return them.

    name_or_id: as for `search`, or what it has returned: one matrix or several. conditions: keywords of `search`.
    format: MM (Matrix Market), MAT (MATLAB) or RB (Rutherford-Boeing). location: a folder for the files, by group; the
    cache if None, where `run`, `load` and `operator` find matrices in format MM. dry_run: fetch nothing. mirror, jobs,
    verify, progress: as the options of ``spmvbench fetch``. missing_ok: leave out what the source does not have.

    Every file is checked, and what ssgetpy has downloaded before is taken from its folder. Raises UsageError for wrong
    arguments, SpmvbenchError at the end if some could not be fetched; the others are kept.
    """
    given = name_or_id
    if given is None or isinstance(given, int | str):
        found = search(given, **conditions)
    elif conditions:
        raise UsageError(f"matrices are given, so no {', '.join(conditions)} can choose them")
    else:
        found = list(given) if isinstance(given, Iterable) else [given]
    names = [name_of(matrix) for matrix in found]
    if None in names:
        raise UsageError("fetch takes names, numbers, and what search returns")
    if not dry_run and names:
        known = {entry.id: entry for entry in suitesparse.index(mirror)}
        entries = [known.get(str(name)) or Entry(*str(name).partition("/")[::2]) for name in names]
        place = None if location is None else Path(location)
        outcome = suitesparse.fetch(
            entries, mirror=mirror, jobs=jobs, verify=verify, progress=progress, format=format, folder=place
        )
        failed = outcome.failed + [(entry, "the source does not have it") for entry in outcome.missing]
        if outcome.failed or (outcome.missing and not missing_ok):
            reasons = "; ".join(f"{entry.id}: {reason}" for entry, reason in failed[:3])
            raise SpmvbenchError(f"{len(failed)} of {len(entries)} matrices were not fetched: {reasons}")
        kept = {entry.id for entry in outcome.fetched + outcome.present}
        found = [matrix for matrix, name in zip(found, names, strict=True) if name in kept]
    return found


def _objects(entries: list[Entry]) -> list[Any]:
    """Objects of ssgetpy for entries of the index; the entries themselves if they cannot be had."""
    facts = ("number", "group", "name", "rows", "cols", "nnz", "dtype", "is2d3d", "spd")
    arguments = attrgetter(*facts, "pattern_symmetry", "numeric_symmetry", "kind")
    try:
        whole = (arguments(entry) for entry in suitesparse.index(network=False) if entry.number)
        return ssgetpy_home.matrices(map(arguments, entries), whole)
    except (ImportError, OSError, sqlite3.Error):
        return list(entries)
