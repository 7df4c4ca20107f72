"""Compressed sparse rows: plain CSR by its kernels and rules, and what CSR is extended by."""
