"""NVIDIA cuSPARSE's formats and algorithms, called through the library, and CuPy's product.

`cusparse-*`: the generic SpMV API, and the experimental SpMVOp. `cupy-csr`: the product of CuPy's users, which the host
calls.
"""
