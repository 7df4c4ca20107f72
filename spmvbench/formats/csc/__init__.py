"""Compressed sparse columns: x is read once and in order; the kernels differ in how they sum the products of a row.

`csc-*`: products in a temporary array (Hugues & Petiton, HPCC 2010), or atomics on y, with a thread or a warp per
column (Hu et al., FastLoad, TPDS 2024).
"""
