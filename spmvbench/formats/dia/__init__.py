"""Diagonals: dense arrays along diagonals, without column indices.

`dia` (Saad 1989; Bell & Garland 2008), `hdi` (diagonals per slice of rows: Barbieri et al. 2015), `cds` (block
diagonals of grids: Godwin et al. 2012), `crsd` (diagonal patterns of row segments: Sun et al. 2011), `ddd-*` (dense
diagonals, other entries in CSR: Yuan et al. 2010), `row-patterns` (a dictionary of distinct rows),
`constant-diagonals` and `diagonal-patterns` (few diagonals whose values repeat),
`brcsd` (row blocks with diagonals of their own, generated kernels: Gao et al. 2021).
"""
