"""Other people's programs under the same judge: shared libraries (spmv_program.h) and Python functions as formats.

shared_library.load makes a format of a library, program one of a Python function. making.new writes a project that
builds, making.build compiles one file, using.use registers what a run is asked for. Keys of libraries' own products:
`torch-*`, `jax-bcsr`, `warp-bsr`, `ust`.
"""

from __future__ import annotations

from spmvbench.programs.python_object import program

__all__ = ["program"]
