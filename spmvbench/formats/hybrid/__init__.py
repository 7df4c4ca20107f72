"""Hybrids: the entries of one matrix split by a rule into parts, each stored in a format of its own.

Split by the position in the row: `hyb*` (Bell & Garland 2008, 2009), `hec` (Liu et al. 2012), `rhc` (Zhao et al. 2025).
By the length of the row: `csr-ell-matam` (Matam 2011), `csr-ell-warp` (Maringanti et al. 2009), `shec` (Feng 2014),
`dasp` (Lu & Liu, SC'23), `csr-ell-optimal` (Yang et al. 2018).
By diagonals: `bin-csr` (Weber et al. 2013), `ell-dia` (Maggioni et al. 2013), `hdc` (Yang et al. 2014).
By a table of speeds: `cocktail` (Su & Keutzer, ICS 2012).
"""
