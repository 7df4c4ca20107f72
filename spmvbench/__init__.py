"""spmvbench: benchmark of sparse matrix-vector multiplication (SpMV) formats on GPUs.

>>> import spmvbench
>>> a = spmvbench.load("poisson2d:32")              # a scipy.sparse.csr_array
>>> ell = spmvbench.formats.get("ell").from_csr(a)  # the matrix in another format
>>> y = ell @ x                                     # on the device that holds it
>>> op = spmvbench.operator(a, spmvs=10_000)        # for solvers: in the format that is advised for it
>>> x, info, residuals = spmvbench.solve.cg(op, y)
>>> rows = spmvbench.run(["pde:16", a], "csr-*,ell")  # a pandas.DataFrame, one row per case
>>> spmvbench.plot(rows, "profile")                 # a figure, shown inline in a notebook
>>> spmvbench.report(rows, "out")                   # every figure and table on one HTML page
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "__version__",
    "advise",
    "fetch",
    "formats",
    "load",
    "load_run",
    "multiply",
    "operator",
    "plot",
    "program",
    "report",
    "run",
    "search",
    "solve",
]

__version__: str

# Modules outside of the room `formats` that register formats: these import rooms that `formats` must not import.
FORMAT_MODULES = ("spmvbench.advice.auto", "spmvbench.programs.libraries")
# Files of SPMVBENCH_FORMATS that are no Python: a module by suffix, whose `load(path)` registers a format.
FORMAT_FILES = dict.fromkeys((".so", ".dylib", ".dll"), "spmvbench.programs.shared_library")
FORMAT_FILES |= dict.fromkeys(("", ".out", ".sh"), "spmvbench.programs.self_timed")

if TYPE_CHECKING:
    from spmvbench import formats, solve
    from spmvbench.devices import multiply
    from spmvbench.matrices import load
    from spmvbench.matrices.collection import fetch, search
    from spmvbench.operators import advise, operator
    from spmvbench.programs import program
    from spmvbench.reports.api import plot, report
    from spmvbench.rows.store import load_run
    from spmvbench.runner.api import run

_LAZY = {
    "advise": "spmvbench.operators",
    "fetch": "spmvbench.matrices.collection",
    "load": "spmvbench.matrices",
    "load_run": "spmvbench.rows.store",
    "multiply": "spmvbench.devices",
    "operator": "spmvbench.operators",
    "plot": "spmvbench.reports.api",
    "program": "spmvbench.programs",
    "report": "spmvbench.reports.api",
    "run": "spmvbench.runner.api",
    "search": "spmvbench.matrices.collection",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``import spmvbench`` and ``--help`` stay fast."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in ("formats", "solve"):
        return importlib.import_module(f"spmvbench.{name}")
    if name == "__version__":
        return _installed_version()
    raise AttributeError(f"module 'spmvbench' has no attribute {name!r}")


def _installed_version() -> str:
    """The version as it was installed, which comes from the repository's tags."""
    from importlib import metadata

    try:
        return metadata.version("spmvbench")
    except metadata.PackageNotFoundError:
        return "0+uninstalled"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"annotations", "TYPE_CHECKING", "Any", "importlib"})
