"""NVIDIA cuSPARSE's formats and algorithms, called through the library.

`cusparse-*`: the generic SpMV API, and the experimental SpMVOp.
"""
