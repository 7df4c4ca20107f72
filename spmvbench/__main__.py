"""`python -m spmvbench`."""

from spmvbench.cli import main

main()
