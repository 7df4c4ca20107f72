"""`python -m spmvbench`."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from spmvbench.cli import main


def let_children_import() -> None:
    """Put the folder of this package into PYTHONPATH if only the working directory has it.

    `python -m spmvbench` finds the package there, in a checkout that is not installed. The processes that it starts do
    not search the working directory (`python -P`).
    """
    package = Path(__file__).resolve().parent
    searched = sys.path if sys.flags.safe_path else sys.path[1:]
    if PathFinder.find_spec(package.name, searched) is None:
        named = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package.parent), *([named] if named else [])])


if __name__ == "__main__":
    let_children_import()
    main()
