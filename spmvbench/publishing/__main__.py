"""``python -m spmvbench.publishing NAME ...``: the function `main` of the module NAME."""

import importlib
import sys
from pathlib import Path

from spmvbench.errors import SpmvbenchError

if __name__ == "__main__":
    known = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "in_page")
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(f"Error: name one of {', '.join(known)}")
    module = importlib.import_module(f"spmvbench.publishing.{sys.argv.pop(1)}")
    try:
        sys.exit(module.main())
    except SpmvbenchError as error:
        sys.exit(f"Error: {error}")
