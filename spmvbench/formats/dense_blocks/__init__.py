"""Dense blocks: one index per block of neighbouring entries; blocks are filled up with zeros.

Block CSR: `bsr`, `bcsr-*` (Im, Yelick & Vuduc 2004; Buatois et al. 2009; Choi et al., PPoPP 2010; others).
Block coordinates: `bcoo*`, `bccoo*` (Yan et al., yaSpMV, PPoPP 2014; Monakov & Avetisyan, SAMOS 2009).
Block ELLPACK in slices: `bellpack` (Choi et al.), `bsellpack` and `block-sell` (Su & Keutzer, ICS 2012), `bin-bcsr`
(Weber et al. 2013).
"""
