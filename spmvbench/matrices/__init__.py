"""Matrices: sources, readers, generators and features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spmvbench.matrices.lookup import Matrix, load, resolve

__all__ = ["Matrix", "load", "resolve"]


def __getattr__(name: str) -> Any:
    """Import on first use: the command line's help needs the conditions alone, and these import no package."""
    if name not in __all__:
        raise AttributeError(f"module 'spmvbench.matrices' has no attribute {name!r}")
    from spmvbench.matrices import lookup

    return getattr(lookup, name)
