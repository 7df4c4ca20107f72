"""Compressed indices: row or column indices in as few bits as their values or differences need.

Bit-packed differences (BRO: Tang et al., SC'13 and TPDS 2015): `bro-*`, for COO, ELLPACK, CSR and hybrids.
Row and column in one key (Neelima, Prakash & Reddy 2012): `blsi`.
Column differences and values in an entropy code (dtANS: Schätzle, Pegolotti & Püschel 2026): `csr-ans`.
"""
