"""What maintainers run, as ``python -m spmvbench.publishing NAME``: measuring for publication, and writing pages."""
