"""ELLPACK, sliced ELLPACK and jagged diagonals: rows padded to a common length and stored position by position.

All rows in one slice: `ell`, `ell-*`, `ellr-t` (Kincaid et al. 1989; Bell & Garland 2008; Vázquez et al. 2011, 2012).
Slices: `sell`, `sell-*`, `hll`, `sliced-ellr-t`, `warped-ell` (Monakov et al. 2010; Kreutzer et al. 2014; Barbieri
et al. 2015; Dziekonski et al. 2011; Maggioni et al. 2013; PETSc; coded columns after Murakami et al., Suzuki 2026).
Slices in segments of columns: `amb` (Nagasaka et al. 2016).
Jagged diagonals, rows sorted by length: `jad`, `jds-enh`, `pjds` (Li & Saad 2013; Cevahir et al. 2009; Kreutzer 2012).
"""
