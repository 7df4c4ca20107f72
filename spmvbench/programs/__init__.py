"""Other people's programs under the same judge: shared libraries (spmv_program.h) and Python functions as formats.

`shared_library.load` makes a format of a library, `program` one of a Python function. `new` writes a project that
builds, `building` compiles one file, `trial` tries a program on the hard matrices.
"""

from __future__ import annotations

from spmvbench.programs.python_object import program

__all__ = ["program"]
