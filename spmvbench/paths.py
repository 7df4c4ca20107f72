"""Where things live: kernels and configs that ship with the package, and the user's cache folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_PACKAGE = Path(__file__).resolve().parent


def _shipped(folder: str) -> Path:
    """`kernels` and `configs` stand inside the package in a wheel and beside it in a checkout."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def kernels() -> Path:
    """Folder of the CUDA sources (``*.cu``); their headers are in its ``include``."""
    return _shipped("kernels")


def include() -> Path:
    """Folder of the headers that kernels share."""
    return kernels() / "include"


def headers(source: Path) -> list[Path]:
    """Every header that a kernel's source file may include: the shared ones and those beside it, by name."""
    return sorted({*include().glob("*.cuh"), *source.parent.glob("*.cuh")}, key=lambda path: path.name)


def configs() -> Path:
    """Folder of the named sets (``sets/*.toml``) and the ready-made runs (``runs/*.toml``)."""
    return _shipped("configs")


def home() -> Path:
    """Matrices and caches: ``SPMVBENCH_HOME``, or the platform's cache folder."""
    chosen = os.environ.get("SPMVBENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("spmvbench", appauthor=False))


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the name `target` when the block ends well, and leaves nothing where it does not.

    Makes the folder. Raises OSError where that, the writing or the renaming fails.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
