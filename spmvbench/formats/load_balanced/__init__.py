"""Load balancing on plain CSR and COO: thread blocks or warps get equal numbers of entries, or rows that fill a block.

Row blocks that fill shared memory: `csr-adaptive*`, `csr-stream`, `csr-row-tiles` (Greathouse & Daga, SC'14, HiPC'15).
Equal numbers of entries: `csr-flat`, `csr-entry-tiles` (Chu et al., HPDC 2023), `hola` (Steinberger et al., ICS 2017),
`*-load-balance` (Anzt et al., TOPC 2020), `merbit` (Zhang et al. 2026), `csr-nnzsplit` (rocSPARSE).
Equal numbers of rows: `csr-line-enhance` (Chu et al.). Segmented scan: `coo-scan`,
`mgpu-csr-plus` (Baxter, ModernGPU, 2013).
"""
