"""Sparse matrix times sparse vector (SpMSpV): only columns of A that meet an entry of x are read.

Columns scaled and added to y by atomics: `spmspv-csc-*` (Ji et al., ICPP 2022, Algorithm 2). Products sorted by row:
`spmspv-sort` (Yang, Wang & Owens, IPDPSW 2015). Products in buckets of rows: `spmspv-bucket` (Azad & Buluc 2017).
Tiles of A and x: `tile-spmspv` (Ji et al., ICPP 2022).
"""
