"""Hamiltonians of quantum chains in a basis of occupations: exact diagonalisation's matrices.

A basis state is a word of L bits of which half are set; the states are numbered as their words rise. A particle (or a
flipped spin) hops between neighbours of the ring, which changes the word by a difference that grows with the place of
the hop: hops down in falling order of their places, the diagonal, and hops up in rising order are a row's columns in
order. The index of a word follows from its two halves (H. Q. Lin, Physical Review B 42, 6561, 1990).
"""

from __future__ import annotations

from math import comb

import numpy as np

from spmvbench.formats.arrays import offsets
from spmvbench.matrices.structures import Structure, application, by_blocks, needs


class _Ring:
    """The states of L / 2 particles on a ring of L places."""

    def __init__(self, L: int):
        self.L, self.low_bits = L, L // 2
        halves = np.arange(1 << (L - self.low_bits), dtype=np.int64)
        counts = np.bitwise_count(halves).astype(np.int64)
        wanted = L // 2 - counts  # particles in the lower half of a word whose upper half is this
        self.first = offsets(np.array([comb(self.low_bits, int(k)) if k >= 0 else 0 for k in wanted]))
        lower = np.arange(1 << self.low_bits, dtype=np.int64)
        of_count = np.bitwise_count(lower)
        self.rank_low = np.empty(len(lower), dtype=np.int64)
        groups = [np.flatnonzero(of_count == k) for k in range(self.low_bits + 1)]
        for group in groups:
            self.rank_low[group] = np.arange(len(group))
        self.words = np.concatenate(
            [
                (half << self.low_bits) | groups[k]
                for half, k in zip(halves.tolist(), wanted.tolist(), strict=True)
                if 0 <= k <= self.low_bits
            ]
        )
        places = np.arange(L - 1)
        self.steps = np.concatenate((1 << places, [(1 << (L - 1)) - 1]))  # by place; the last closes the ring
        # What a hop over a place changes, and the places' bits before it: (down..., up...) in the order of columns.
        self.low_bit = np.concatenate((places, [0]))
        self.high_bit = np.concatenate((places + 1, [L - 1]))

    def __len__(self) -> int:
        return len(self.words)

    def rank(self, words: np.ndarray) -> np.ndarray:
        rank: np.ndarray = self.first[words >> self.low_bits] + self.rank_low[words & ((1 << self.low_bits) - 1)]
        return rank

    def hops(self) -> np.ndarray:
        """How many hops each state has: its neighbours of which one is occupied and one is not."""
        turned = (self.words >> 1) | ((self.words & 1) << (self.L - 1))
        hops: np.ndarray = np.bitwise_count(self.words ^ turned).astype(np.int64)
        return hops

    def neighbours(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(states, 2 L + 1): the words that hops lead to, the word itself in the middle, and which there are."""
        low = (words[:, None] >> self.low_bit) & 1
        high = (words[:, None] >> self.high_bit) & 1
        down, up = (high > low)[:, ::-1], low > high
        there = np.concatenate((down, np.ones((len(words), 1), dtype=bool), up), axis=1)
        change = np.concatenate((-self.steps[::-1], [0], self.steps))
        return words[:, None] + change, there

    def energies(self, field: np.ndarray) -> np.ndarray:
        """For each state, the sum of the field over its occupied places."""
        total = np.zeros(len(self))
        for place in range(self.L):
            total += field[place] * ((self.words >> place) & 1)
        return total


@application("quantum spins", "D. J. Luitz, N. Laflorencie, F. Alet, Physical Review B 91, 081103, 2015")
@needs("an even L from 4 to 30", lambda L: L % 2 == 0 and 4 <= L <= 30)
def xxz(L: int, *, seed: int) -> Structure:
    """Heisenberg ring of L spins in a random field, the states without magnetisation; symmetric.

    H = sum of S_i S_i+1 + h_i S^z_i over the sites, which is XXZ with an anisotropy of 1; h_i is uniform in [-1, 1)
    from the seed. C(L, L/2) states.
    """
    ring = _Ring(L)
    hops = ring.hops()
    field = np.random.default_rng(seed).uniform(-1, 1, L)
    diagonal = (L - 2 * hops) / 4 + ring.energies(field) - field.sum() / 2

    def block(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        words, there = ring.neighbours(ring.words[first:last])
        values = np.full(there.shape, 0.5)
        values[:, L] = diagonal[first:last]
        return ring.rank(words[there]), values[there]

    return by_blocks((len(ring), len(ring)), hops + 1, block)


@application("correlated electrons", "J. Hubbard, Proceedings of the Royal Society A 276, 1963")
@needs("an even L from 4 to 16", lambda L: L % 2 == 0 and 4 <= L <= 16)
def hubbard(L: int, *, seed: int) -> Structure:
    """Hubbard ring of L sites with L / 2 electrons of each spin, U = 4 t, weakly disordered; symmetric.

    H = -t sum of hops + U n_up n_down + e_i n_i over the sites, t = 1, e_i uniform in [0, 1) from the seed:
    C(L, L/2)^2 states, those of the electrons with spin down varying fastest.
    """
    ring = _Ring(L)
    size, hops = len(ring), ring.hops()
    energy = ring.energies(np.random.default_rng(seed).random(L))
    closing = 1.0 if L // 2 % 2 else -1.0  # who goes round the ring passes L / 2 - 1 others
    words, there = ring.neighbours(ring.words)
    columns = np.where(there, ring.rank(np.where(there, words, ring.words[:, None])), -1)
    values = np.full(there.shape[1], -1.0)
    values[[0, -1]] = -closing
    # The hops of the electrons with spin down and the diagonal, as rows one after the other.
    lengths = hops + 1
    inner, inner_values = columns[there], np.broadcast_to(values, there.shape)[there]
    row = np.repeat(np.arange(size), lengths)
    middle = np.flatnonzero(inner == row)
    below, above = columns[:, :L], columns[:, L + 1 :]

    def block(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [of_up(up) for up in range(first // size, last // size)]
        found, numbers = zip(*parts, strict=True)
        return np.concatenate(found), np.concatenate(numbers)

    def of_up(up: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of one state of the electrons with spin up."""
        lower, upper = there[up, :L], there[up, L + 1 :]
        before, after = below[up][lower], above[up][upper]
        start = offsets(lengths + len(before) + len(after))
        found, numbers = np.empty(start[-1], dtype=np.int64), np.empty(start[-1])
        down = np.arange(size)
        for place, (column, value) in enumerate(zip(before, values[:L][lower], strict=True)):
            found[start[:-1] + place], numbers[start[:-1] + place] = column * size + down, value
        for place, (column, value) in enumerate(zip(after, values[L + 1 :][upper], strict=True)):
            slot = start[1:] - len(after) + place
            found[slot], numbers[slot] = column * size + down, value
        slot = np.arange(len(inner)) + len(before) + row * (len(before) + len(after))
        found[slot], numbers[slot] = up * size + inner, inner_values
        both = np.bitwise_count(ring.words & ring.words[up])
        numbers[slot[middle]] = 4.0 * both + energy + energy[up]
        return found, numbers

    return by_blocks((size * size, size * size), (hops[:, None] + hops + 1).ravel(), block, unit=size)
