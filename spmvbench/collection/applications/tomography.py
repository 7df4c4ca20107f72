"""X-ray tomography: how far each ray runs in each pixel."""

from __future__ import annotations

import numpy as np

from spmvbench.collection.structures import Structure, application, needs
from spmvbench.formats.arrays import offsets

# Where the first ray points, as a share of the angle between two directions: never along or across the pixels.
_TURN = (5**0.5 - 1) / 2
_GRAIN = 2.0**-20  # pixels: what is shorter is left out, and lengths are multiples, so that rounding shows nowhere
RAYS = 1 << 11  # traced at a time


@application("computed tomography", "R. L. Siddon, Medical Physics 12(2), 1985")
@needs("N and ANGLES of 1 to 32768", lambda N, ANGLES: 1 <= N <= 1 << 15 and 1 <= ANGLES <= 1 << 15)
def ct(N: int, ANGLES: int) -> Structure:
    """Parallel beams through N x N pixels, N rays at each of ANGLES angles of a half turn: lengths in pixels.

    Rows are rays, angle by angle; columns are pixels, row by row of the image. Rays are a pixel apart, and the beam's
    middle goes through the image's.
    """
    parts = [_traced(N, ANGLES, first, min(first + RAYS, N * ANGLES)) for first in range(0, N * ANGLES, RAYS)]
    lengths, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    row_ptr = offsets(lengths)

    def columns_of(first: int, last: int) -> np.ndarray:
        return columns[row_ptr[first] : row_ptr[last]]

    def values_of(first: int, last: int) -> np.ndarray:
        return values[row_ptr[first] : row_ptr[last]]

    return Structure((N * ANGLES, N * N), lengths, columns_of, values_of)


def _traced(N: int, angles: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of each of the rays first..last-1, and their columns and values, ray after ray."""
    angle, ray = np.divmod(np.arange(first, last), N)
    turn = np.pi * (angle + _TURN) / angles
    along = np.stack((np.cos(turn), np.sin(turn)))  # (2, rays): the direction, of length 1
    middle = (ray - (N - 1) / 2) * np.stack((-np.sin(turn), np.cos(turn)))  # the point next to the image's middle
    # How far from that point the ray meets the lines between pixels, x = -N/2 .. N/2 and the same for y.
    lines = np.arange(N + 1) - N / 2
    met = [(lines - middle[d][:, None]) / along[d][:, None] for d in range(2)]
    enter = np.maximum(*(np.minimum(m[:, 0], m[:, -1]) for m in met))[:, None]
    leave = np.minimum(*(np.maximum(m[:, 0], m[:, -1]) for m in met))[:, None]
    stops = np.sort(np.clip(np.concatenate(met, axis=1), enter, np.maximum(enter, leave)), axis=1)
    lengths = np.rint(np.diff(stops, axis=1) / _GRAIN) * _GRAIN
    halfway = (stops[:, 1:] + stops[:, :-1]) / 2
    x, y = (np.floor(middle[d][:, None] + halfway * along[d][:, None] + N / 2).astype(np.int32) for d in range(2))
    there = lengths > 0
    pixel = np.where(there, y * N + x, N * N)
    order = np.argsort(pixel, axis=1, kind="stable")
    pixel, lengths, there = (np.take_along_axis(part, order, axis=1) for part in (pixel, lengths, there))
    return there.sum(axis=1), pixel[there].astype(np.int32), lengths[there]
