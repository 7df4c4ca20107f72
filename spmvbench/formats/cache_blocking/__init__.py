"""Cache blocking: a window of x or y is in shared memory or in a cache while its entries are processed.

x in shared memory: `pcsr` (Dehnavi et al. 2010), `ehyb*` (Chen 2022), `hub-cache` (hub sorting: Zhang et al. 2017),
`sell-window`.
x in the cache: `tile-composite` (Yang et al. 2011), `csr5-hub`. y in shared memory: `scoo` (Dang & Schmidt 2012),
`btjad` (Abu-Sufah & Abdel-Karim, ISC 2012), `column-sweep`. Column order: `tjad`, and `fastload*` with its experiment
`two-phase` (Hu et al., TPDS 2024). `irregular` chooses one by a sample of the columns.
"""
