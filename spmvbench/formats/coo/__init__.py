"""Coordinates: a row index, a column index and a value for each entry.

`coo-*`: by atomics, or by a segmented sum in each warp (Bell & Garland, NVR-2008-004).
Segmented scans and equal shares of entries are in the room load_balanced.
"""
