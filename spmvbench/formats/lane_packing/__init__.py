"""Lane packing: each thread of a warp gets about the same number of entries, whatever the row lengths.

Several threads for a long row: `adell`, `adell-plus`, `coadell` (Maggioni & Berger-Wolf 2013, 2016, 2014), `rgcsr`
(Oberhuber et al. 2011), `argcsr` (Heller & Oberhuber 2012), `brc` (Ashari et al., ICS 2014), `aligned-coo` (Shah &
Patel 2012).
Threads of finished rows help others: `biell`, `bijad` (Zheng et al. 2014). No slots for finished rows: `vcsr`
(Karimi et al. 2022).
"""
