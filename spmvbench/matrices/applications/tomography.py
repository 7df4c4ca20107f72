"""X-ray tomography: the length of each ray in each pixel."""

from __future__ import annotations

import numpy as np

from spmvbench.matrices.structures import Structure, application, by_blocks, needs

# Where the first ray points, as a share of the angle between two directions: never along or across the pixels.
_TURN = (5**0.5 - 1) / 2
_GRAIN = 2.0**-20  # pixels: what is shorter is left out, and lengths are multiples, so that rounding shows nowhere
STOPS = 1 << 20  # looked at together


@application("computed tomography", "R. L. Siddon, Medical Physics 12(2), 1985")
@needs("N and ANGLES of 1 to 32768", lambda N, ANGLES: 1 <= N <= 1 << 15 and 1 <= ANGLES <= 1 << 15)
def ct(N: int, ANGLES: int) -> Structure:
    """Parallel beams through N x N pixels, N rays at each of ANGLES angles of a half turn: lengths in pixels.

    Rows are rays, angle by angle; columns are pixels, row by row of the image. Rays are a pixel apart, and the beam's
    middle goes through the image's.
    """
    rays, some = N * ANGLES, max(1, STOPS // N)
    lengths = np.concatenate(
        [np.count_nonzero(_runs(N, ANGLES, k, min(k + some, rays))[0], axis=1) for k in range(0, rays, some)]
    )

    def block(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        runs, x, y = _runs(N, ANGLES, first, last)
        pixel = np.where(runs > 0, y * N + x, N * N)  # what is no run comes behind the others
        order = np.argsort(pixel, axis=1)
        pixel, runs = (np.take_along_axis(part, order, axis=1) for part in (pixel, runs))
        there = runs > 0
        return pixel[there], runs[there]

    return by_blocks((rays, N * N), lengths, block)


def _runs(N: int, angles: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the rays first..last-1, (rays, 2 N + 1): lengths of their runs between two lines, and the pixels' x and y."""
    angle, ray = np.divmod(np.arange(first, last), N)
    turn = np.pi * (angle + _TURN) / angles
    along = np.stack((np.cos(turn), np.sin(turn)))  # (2, rays): the direction, of length 1
    middle = (ray - (N - 1) / 2) * np.stack((-np.sin(turn), np.cos(turn)))  # the point next to the image's middle
    # How far from that point the ray meets the lines between pixels, x = -N/2 .. N/2 and the same for y.
    lines = np.arange(N + 1) - N / 2
    met = [(lines - middle[d][:, None]) / along[d][:, None] for d in range(2)]
    enter = np.maximum(*(np.minimum(m[:, 0], m[:, -1]) for m in met))[:, None]
    leave = np.minimum(*(np.maximum(m[:, 0], m[:, -1]) for m in met))[:, None]
    stops = np.sort(np.clip(np.concatenate(met, axis=1), enter, leave), axis=1)
    halfway = (stops[:, 1:] + stops[:, :-1]) / 2
    x, y = (np.floor(middle[d][:, None] + halfway * along[d][:, None] + N / 2).astype(np.int32) for d in range(2))
    return np.rint(np.diff(stops, axis=1) / _GRAIN) * _GRAIN, x, y
