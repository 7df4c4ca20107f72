"""`python -m spmvbench`."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from spmvbench.cli import main


def let_children_import() -> None:
    """Put the folder of this package into PYTHONPATH if, without the working directory, another one or none is found.

    `python -m spmvbench` finds the package there, in a checkout that is not installed. The processes that it starts do
    not search the working directory (`python -P`).
    """
    package = Path(__file__).resolve().parent
    searched = sys.path if sys.flags.safe_path else sys.path[1:]
    found = PathFinder.find_spec(package.name, searched)
    # A folder of this name without modules has no origin: an editable installation leaves one beside its kernels.
    if found is None or not found.origin or Path(found.origin).resolve().parent != package:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))


if __name__ == "__main__":
    let_children_import()
    main()
