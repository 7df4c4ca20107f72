"""TileSpMV: tiles of 16 x 16, each stored in the format that suits its entries (Niu et al., IPDPS 2021).

`tile`: by the paper's rules. `tile-csr`: all tiles in CSR. `tile-deferred-coo`: the sparsest entries in a CSR5 matrix.
"""
