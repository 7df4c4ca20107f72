"""Continuous-time Markov chains: generator matrices, a row a state, its rates to other states, and minus their sum.

A state is a number of digits, those of the model's counts; states are numbered as their codes rise. A model says for
each of its transitions how fast it is in each state, 0 where it cannot be, and what it adds to the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from spmvbench.matrices.structures import Structure, application, by_blocks, needs

STATES = 1 << 17  # whose transitions are counted at a time


class _Transition(NamedTuple):
    """rate, change: one for each state, or one for all; change of the code. Rates of 0 are no transition."""

    rate: np.ndarray
    change: np.ndarray | int


def _chain(codes: np.ndarray, transitions: Callable[[np.ndarray], list[_Transition]]) -> Structure:
    """The generator of a chain with these states (codes, ascending), whose transitions lead from one to another."""

    def outgoing(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """(states, transitions): rates and the codes that they lead to."""
        here = codes[first:last]
        found = transitions(here)
        rates = np.stack([np.broadcast_to(t.rate, here.shape) for t in found], axis=1)
        return rates, np.stack([here + t.change for t in found], axis=1)

    lengths = np.concatenate(
        [
            1 + np.count_nonzero(outgoing(k, min(k + STATES, len(codes)))[0], axis=1)
            for k in range(0, len(codes), STATES)
        ]
    )

    def block(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        rates, targets = outgoing(first, last)
        rates = np.concatenate((rates, -rates.sum(axis=1, keepdims=True)), axis=1)
        targets = np.concatenate((targets, codes[first:last, None]), axis=1)
        targets[rates == 0] = np.iinfo(np.int64).max  # behind the others
        order = np.argsort(targets, axis=1)
        rates, targets = (np.take_along_axis(part, order, axis=1) for part in (rates, targets))
        there = rates != 0
        return np.searchsorted(codes, targets[there]), rates[there]

    return by_blocks((len(codes), len(codes)), lengths, block)


def _shares(total: int, weights: Iterable[int], whole: bool = False) -> np.ndarray:
    """Codes of all ways to put up to `total` tokens (with `whole`, exactly so many) on digits of these weights."""
    codes, used = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for weight in weights:
        more = np.arange(total + 1)
        fits = used[:, None] + more <= total
        codes, used = (codes[:, None] + more * weight)[fits], (used[:, None] + more)[fits]
    return codes[used == total] if whole else codes


@application("manufacturing", "G. Ciardo, K. S. Trivedi, Performance Evaluation 18(1), 1993; the PRISM benchmark suite")
@needs("N of 1 to 40", lambda N: 1 <= N <= 40)
def fms(N: int) -> Structure:
    """Flexible manufacturing system, N parts of each of three kinds on three machines: a chain's generator matrix.

    Parts of kinds 1 and 2 are also joined to a fourth. Counts: where parts wait to be brought, are at a machine, are
    done, and wait for a partner; machines serve 3, 1 and 2 at a time, the second serves kind 3 when it is idle.
    """
    base = N + 1
    weight = [base**k for k in range(11)]
    at_1, done_1, join_1, at_2, done_2, join_2, joined, at_12, done_12, at_3, done_3 = weight

    def count(codes: np.ndarray, place: int) -> np.ndarray:
        return codes // place % base

    kind_3 = _shares(N, (at_3, done_3))
    parts = []
    for k in range(N + 1):  # so many joined ones
        kind_1, kind_2 = _shares(N - k, (at_1, done_1, join_1)), _shares(N - k, (at_2, done_2, join_2))
        pairs = kind_1[:, None] + kind_2
        pairs = pairs[(count(kind_1, join_1) == 0)[:, None] | (count(kind_2, join_2) == 0)]  # else they would be joined
        both = pairs[:, None] + _shares(k, (joined, at_12, done_12), whole=True)
        parts.append((both[:, :, None] + kind_3).ravel())
    codes = np.sort(np.concatenate(parts))

    def transitions(codes: np.ndarray) -> list[_Transition]:
        m1, s1, j1, m2, s2, j2, p12, m12, s12, m3, s3 = (count(codes, place) for place in weight)
        k = p12 + m12 + s12
        p1, p2, p3 = N - k - m1 - s1 - j1, N - k - m2 - s2 - j2, N - m3 - s3
        share = np.minimum(1, (3 * N // 2) / np.maximum(1, p1 + p2 + p3 + p12))  # of vehicles, by those who wait
        machine_1, machine_2, machine_12 = np.minimum(m1, 3), np.minimum(m2, 1), np.minimum(m12, 2)
        return [
            _Transition(p1 * share, at_1),
            _Transition(p2 * share, at_2),
            _Transition(p3 * share, at_3),
            _Transition(p12 * share, at_12 - joined),
            _Transition(0.2 * machine_1, done_1 - at_1),
            _Transition(0.05 * machine_1, np.where(j2 > 0, joined - join_2, join_1) - at_1),
            _Transition(0.1 * machine_2, done_2 - at_2),
            _Transition(machine_2 / 15, np.where(j1 > 0, joined - join_1, join_2) - at_2),
            _Transition(0.5 * ((m3 > 0) & (m2 == 0)), done_3 - at_3),
            _Transition(1.0 * machine_12, done_12 - at_12),
            _Transition((s1 > 0) / 60, -s1 * done_1),  # what is done leaves all at once, and as much comes back
            _Transition((s2 > 0) / 60, -s2 * done_2),
            _Transition((s3 > 0) / 60, -s3 * done_3),
            _Transition((s12 > 0) / 60, -s12 * done_12),
        ]

    return _chain(codes, transitions)


@application("queueing networks", "J. P. Buzen, Communications of the ACM 16(9), 1973: the central server model")
@needs(
    "2 to 16 STATIONS and JOBS of at least 1, (JOBS + 1)^(STATIONS - 1) below 2^62",
    lambda STATIONS, JOBS: 2 <= STATIONS <= 16 and JOBS >= 1 and (JOBS + 1) ** (STATIONS - 1) < 1 << 62,
)
def queues(STATIONS: int, JOBS: int) -> Structure:
    """Closed network of queues: JOBS go between a processor and STATIONS - 1 disks; a chain's generator matrix.

    A state is how many jobs queue at each disk, the others at the processor, which sends one to each disk at rate 1;
    disk k of M stations serves at rate 1 + k / M: C(JOBS + STATIONS - 1, JOBS) states.
    """
    weight = [(JOBS + 1) ** k for k in range(STATIONS - 1)]
    codes = np.sort(_shares(JOBS, weight))

    def transitions(codes: np.ndarray) -> list[_Transition]:
        queued = [codes // place % (JOBS + 1) for place in weight]
        busy = 1.0 * (sum(queued) < JOBS)
        sent = [_Transition(busy, place) for place in weight]
        served = [
            _Transition((1 + k / STATIONS) * (jobs > 0), -place)
            for k, (jobs, place) in enumerate(zip(queued, weight, strict=True), start=1)
        ]
        return sent + served

    return _chain(codes, transitions)
