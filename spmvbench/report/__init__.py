"""From rows to figures and one HTML page.

The package can be called: ``spmvbench.report(rows)`` is `spmvbench.report.direct.report`, and a function of that name
would be hidden as soon as anybody imports the package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Path:
        from spmvbench.report.direct import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _Callable
