"""Conversion by kernels of our own, for converters whose steps are too many to be array operations on a GPU.

A converter describes launches as it does for y = A x and takes what runs them as an argument: `run` where CuPy holds
the matrix; tests pass an emulated device.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

from spmvbench import paths
from spmvbench.formats.base import Launch


def run(launch: Launch) -> None:
    """Enqueue a launch, its grid and block in one dimension, on CuPy's current stream."""
    _kernel(launch.source, launch.kernel)((launch.grid,), (launch.block,), launch.args, shared_mem=launch.shared_bytes)


@cache
def _kernel(source: str, kernel: str) -> Any:
    import cupy

    include = paths.kernels() / "include"
    # CuPy keeps what it compiled by source and options: headers are neither, so their sum makes an option.
    headers = zlib.crc32(b"".join(header.read_bytes() for header in sorted(include.glob("*.cuh"))))
    options = ("--std=c++17", f"--include-path={include}", f"--define-macro=HEADERS={headers}")
    code = (paths.kernels() / source).read_text(encoding="utf-8")
    module = cupy.RawModule(code=code, options=options, name_expressions=(kernel,))
    return module.get_function(kernel)
