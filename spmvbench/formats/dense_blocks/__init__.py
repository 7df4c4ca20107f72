"""Dense blocks: one index per block of neighbouring entries; blocks are filled up with zeros.

Block CSR: `bsr`, `bcsr-*` (Im, Yelick & Vuduc 2004; Buatois et al. 2009; Choi et al., PPoPP 2010; others).
Block coordinates: `bcoo*`, `bccoo*` (Yan et al., yaSpMV, PPoPP 2014; Monakov & Avetisyan, SAMOS 2009).
Block ELLPACK in slices: `bellpack` (Choi et al.), `bsellpack` and `block-sell` (Su & Keutzer, ICS 2012), `bin-bcsr`
(Weber et al. 2013).
Blocks on a grid, of recent papers: `mbsr` (4 x 4 with bitmaps: AmgT, SC 2024), `bit8x4` and `bit8x4-dict` (8 x 4 as
words of bits: COVE, ICCD 2026), `cb` (16 x 16, a format each: CB-SpMV, ICS 2025).
"""
