"""Measurement by one process on one device: read the matrix, convert, verify, time, bound.

`worker` is the process. `group` measures all formats of one matrix, each through the functions of `stages`; `row` makes
one row of their results. `verify` has the checks of y, `timing` the samples, `bounds` and `device_limits` the limits of
the device, `operations` what besides y = A x is measured.
"""
