"""Compressed sparse rows: plain CSR with a choice of threads per row, and CSR with added or reordered arrays.

Threads per row, fixed, by rule, by timing or by the row's length: `csr-*` (Bell & Garland, NVR-2008-004, and later
papers), `acsr` (Ashari et al., SC 2014). Rows assigned at run time: `lightspmv-*` (Liu & Schmidt, ASAP 2015).
Padded rows: `icsr`. Rows in groups: `sic` (Feng et al. 2011), `cmrs` (Koza 2014).
Two kernels with the products between them: `perfect-csr` (He & Gao 2016).
Equal shares of work: `csr5*` (Liu & Vinter, ICS'15), `merge-csr` (Merrill & Garland, SC'16).
"""
