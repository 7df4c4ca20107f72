"""`python -m spmvbench`."""

from spmvbench.cli import main
from spmvbench.paths import let_children_import

let_children_import()
main()
