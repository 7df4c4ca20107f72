"""Linear programs: constraint matrices of published models, without bounds and objectives. Values are often 1 and -1.

A model says its entries as groups of equally long rows, columns and values, in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.matrices.applications import power
from spmvbench.matrices.structures import Structure, application, needs, of_matrix

_DOMAIN = "linear programs"


class _Entries:
    """Entries of a matrix, added group by group; rows, columns and values are broadcast together."""

    def __init__(self) -> None:
        self.groups: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, rows: Any, cols: Any, values: Any) -> None:
        every = np.broadcast_arrays(rows, cols, np.asarray(values, dtype=np.float64))
        self.groups.append((every[0].ravel(), every[1].ravel(), every[2].ravel()))

    def structure(self, rows: int, cols: int) -> Structure:
        import scipy.sparse as sp

        row, col, value = (np.concatenate(part) for part in zip(*self.groups, strict=True))
        places = row.astype(np.int32), col.astype(np.int32)
        return of_matrix(sp.coo_array((value, places), shape=(rows, cols)).tocsr())


def _places(rows: np.ndarray, cols: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of drawn places, each of them once."""
    found = np.sort(rows * width + cols)
    return np.divmod(found[np.diff(found, prepend=-1) > 0], width)


@application(
    _DOMAIN, "W. P. Adams, T. A. Johnson, DIMACS Series 16, 1994; qap:15 is qap15 of H. Mittelmann's benchmarks"
)
@needs("N of 3 to 100", lambda N: 3 <= N <= 100)
def qap(N: int) -> Structure:
    """Quadratic assignment of N facilities, linearised: N entries a row, all of them 1 or -1.

    Columns are x[i, j], facility i at place j, and y[i, j, k, l] = x[i, j] x[k, l] of i < k and j != l. Rows are the
    assignment, then for each x[k, l] and each other facility, and place, the sum of its products.
    """
    found, some = _Entries(), np.arange(N)
    x = some[:, None] * N + some
    found.add(x // N, x, 1)
    found.add(N + x % N, x, 1)
    i, k = (part[:, None] for part in np.triu_indices(N, 1))
    at_i, at_k = (part[~np.eye(N, dtype=bool)] for part in np.indices((N, N)))
    y = N * N + np.arange(len(i))[:, None] * len(at_i) + np.arange(len(at_i))
    first = 2 * N
    for here, there, at, other in ((i, k, at_i, at_k), (k, i, at_k, at_i)):  # a product belongs to both its factors
        factor = here * N + at
        found.add(first + factor * (N - 1) + there - (there > here), y, 1)
        found.add(first + N * N * (N - 1) + factor * (N - 1) + other - (other > at), y, 1)
    every = np.arange(N * N * (N - 1))
    found.add(first + every, every // (N - 1), -1)
    found.add(first + len(every) + every, every // (N - 1), -1)
    return found.structure(first + 2 * len(every), N * N + y.size)


def _flow(start: np.ndarray, end: np.ndarray, nodes: int, goods: int) -> Structure:
    """Multicommodity flow: the balance of each node and good, then the capacity that goods share on each arc."""
    found, arcs = _Entries(), len(start)
    arc, good = np.arange(arcs), np.arange(goods)[:, None]
    cols = good * arcs + arc
    found.add(good * nodes + start, cols, 1)
    found.add(good * nodes + end, cols, -1)
    found.add(goods * nodes + arc, cols, 1)
    return found.structure(goods * nodes + arcs, goods * arcs)


@application(_DOMAIN, "J. A. Tomlin, Operations Research 14(1), 1966: arcs and nodes; the grids of A. Ali et al., 1984")
@needs("N of 2 to 2000 and GOODS of at least 1", lambda N, GOODS: 2 <= N <= 2000 and GOODS >= 1)
def gridflow(N: int, GOODS: int) -> Structure:
    """Multicommodity flow of GOODS on a grid of N x N nodes with arcs both ways between neighbours."""
    node = np.arange(N * N).reshape(N, N)
    one, other = (
        np.concatenate((a.ravel(), b.ravel())) for a, b in ((node[:, :-1], node[:-1]), (node[:, 1:], node[1:]))
    )
    return _flow(np.concatenate((one, other)), np.concatenate((other, one)), N * N, GOODS)


@application(
    _DOMAIN, "J. A. Tomlin, Operations Research 14(1), 1966; network: A.-L. Barabasi, R. Albert, Science 286, 1999"
)
@needs("N above D, D and GOODS of at least 1", lambda N, D, GOODS: N > D >= 1 and GOODS >= 1)
def webflow(N: int, D: int, GOODS: int, seed: int = 0) -> Structure:
    """Multicommodity flow of GOODS on a power-law network of N nodes, each joined to D earlier ones, arcs both ways.

    Hubs make rows with thousands of entries beside rows of GOODS and of 2 D. The network grows as V. Batagelj and
    U. Brandes draw it (Physical Review E 71, 2005): an arc's end is one of the ends before it, at random.
    """
    edges = N * D
    node = np.arange(edges) // D
    drawn = np.random.default_rng(seed).integers(0, 2 * np.arange(edges) + 1)
    while (later := drawn % 2 == 1).any():  # an odd place is the end of an edge, which is drawn itself
        drawn[later] = drawn[drawn[later] // 2]
    end = node[drawn // 2]
    different = end != node
    one, other = _places(node[different], end[different], N)
    return _flow(np.concatenate((one, other)), np.concatenate((other, one)), N, GOODS)


@application(_DOMAIN, "F. L. Hitchcock, Journal of Mathematics and Physics 20, 1941; N = M is the assignment problem")
@needs("M and N of at least 1", lambda M, N: M >= 1 and N >= 1)
def transport(M: int, N: int) -> Structure:
    """Transport from M sources to N sinks: two entries in each of M N columns, rows of N and of M, all 1."""
    found, col = _Entries(), np.arange(M * N)
    found.add(col // N, col, 1)
    found.add(M + col % N, col, 1)
    return found.structure(M + N, M * N)


@application(_DOMAIN, "E. Balas, A. Ho, Mathematical Programming Study 12, 1980: random columns, a row in at least two")
@needs(
    "ROWS of at least 2, COLS of at least 2 and D from 1 to ROWS",
    lambda ROWS, COLS, D: ROWS >= 2 and COLS >= 2 and 1 <= D <= ROWS,
)
def setcover(ROWS: int, COLS: int, D: int, seed: int = 0) -> Structure:
    """Set cover: D rows at random in each column, and each row in at least two columns; all entries 1."""
    rng, found = np.random.default_rng(seed), _Entries()
    rows = np.concatenate((rng.integers(0, ROWS, COLS * D), np.repeat(np.arange(ROWS), 2)))
    first = rng.integers(0, COLS, ROWS)
    second = (first + rng.integers(1, COLS, ROWS)) % COLS
    cols = np.concatenate((np.repeat(np.arange(COLS), D), np.stack((first, second), axis=1).ravel()))
    row, col = _places(rows, cols, COLS)
    found.add(row, col, 1)
    return found.structure(ROWS, COLS)


@application(_DOMAIN, "R. E. Marsten, F. Shepardson, Networks 11, 1981: airline crews, a column a pairing of flights")
@needs("FLIGHTS of at least 10 and PAIRINGS of at least 1", lambda FLIGHTS, PAIRINGS: FLIGHTS >= 10 and PAIRINGS >= 1)
def pairings(FLIGHTS: int, PAIRINGS: int, seed: int = 0) -> Structure:
    """Set partition of FLIGHTS by crews: each of PAIRINGS columns has 2 to 10 flights in the order of time, all 1.

    The next flight of a crew is one of the 30 after its last: our reading of a day's connections.
    """
    rng, found = np.random.default_rng(seed), _Entries()
    most = 10
    steps = rng.integers(1, 31, (PAIRINGS, most))
    steps[:, 0] = rng.integers(0, FLIGHTS, PAIRINGS)
    flight = np.cumsum(steps, axis=1)
    there = (np.arange(most) < rng.integers(2, most + 1, (PAIRINGS, 1))) & (flight < FLIGHTS)
    found.add(flight[there], np.nonzero(there)[0], 1)
    return found.structure(FLIGHTS, PAIRINGS)


@application(_DOMAIN, "F. V. Louveaux, D. Peeters, Operations Research 40(3), 1992: location with uncertain demand")
@needs(
    "SCENARIOS, PLANTS and CUSTOMERS of at least 1",
    lambda SCENARIOS, PLANTS, CUSTOMERS: min(SCENARIOS, PLANTS, CUSTOMERS) >= 1,
)
def stochastic(SCENARIOS: int, PLANTS: int, CUSTOMERS: int) -> Structure:
    """Two-stage stochastic program, block angular: capacities of PLANTS first, then transport in each scenario.

    The columns of the first stage are in a row of every scenario.
    """
    found = _Entries()
    scenario, plant, customer = np.ogrid[:SCENARIOS, :PLANTS, :CUSTOMERS]
    sent = PLANTS + (scenario * PLANTS + plant) * CUSTOMERS + customer
    first = scenario * (PLANTS + CUSTOMERS)
    found.add(first + plant, sent, 1)
    found.add(first + PLANTS + customer, sent, 1)
    found.add(first[:, :, 0] + plant[:, :, 0], plant[:, :, 0], -1)
    return found.structure(SCENARIOS * (PLANTS + CUSTOMERS), PLANTS + SCENARIOS * PLANTS * CUSTOMERS)


@application(_DOMAIN, "A. S. Manne, Management Science 4(2), 1958: lots of production over periods, a staircase")
@needs(
    "PERIODS, GOODS and MACHINES of at least 1",
    lambda PERIODS, GOODS, MACHINES: min(PERIODS, GOODS, MACHINES) >= 1,
)
def staircase(PERIODS: int, GOODS: int, MACHINES: int, seed: int = 0) -> Structure:
    """Production and storage over PERIODS: stocks join a period to the next, GOODS share MACHINES in dense rows."""
    found = _Entries()
    period, good = np.ogrid[:PERIODS, :GOODS]
    made, stock = period * 2 * GOODS + good, period * 2 * GOODS + GOODS + good
    balance = period * (GOODS + MACHINES) + good
    found.add(balance, made, 1)
    found.add(balance, stock, -1)
    found.add(balance[1:], stock[:-1], 1)
    hours = np.random.default_rng(seed).integers(1, 10, (MACHINES, GOODS))
    machine = np.arange(MACHINES)[None, :, None]
    found.add(period[:, :, None] * (GOODS + MACHINES) + GOODS + machine, made[:, None, :], hours)
    return found.structure(PERIODS * (GOODS + MACHINES), PERIODS * 2 * GOODS)


@application(_DOMAIN, "A. Charnes, W. W. Cooper, R. O. Ferguson, Management Science 1(2), 1955: the largest residual")
@needs("ROWS and COLS of at least 1, D from 1 to COLS", lambda ROWS, COLS, D: ROWS >= 1 and 1 <= D <= COLS)
def chebyshev(ROWS: int, COLS: int, D: int, seed: int = 0) -> Structure:
    """Fit with the least largest residual: a row and its negative of up to D numbers, and a dense column of -1."""
    rng, found = np.random.default_rng(seed), _Entries()
    row, col = _places(np.repeat(np.arange(ROWS), D), rng.integers(0, COLS, ROWS * D), COLS)
    values = rng.integers(1, 1000, len(row)) / 1000
    found.add(row, col, values)
    found.add(ROWS + row, col, -values)
    found.add(np.arange(2 * ROWS), COLS, -1)
    return found.structure(2 * ROWS, COLS + 1)


@application(
    _DOMAIN,
    "O. Alsac, B. Stott, IEEE Trans. Power Apparatus and Systems 93(3), 1974; networks: MATPOWER's case files",
    licence=power.LICENCE,
)
@needs(
    f"BUSES one of {', '.join(map(str, power.CASES))} (a case of MATPOWER), and 1 to 1000 OUTAGES",
    lambda BUSES, OUTAGES: BUSES in power.CASES and 1 <= OUTAGES <= 1000,
)
def dispatch(BUSES: int, OUTAGES: int) -> Structure:
    """Dispatch of direct current that stands OUTAGES: powers of generators, and the angles of each case's buses.

    In each case one branch is out; rows are the balances of the buses and the flows on the branches that are left. The
    powers are the same in all cases, so their columns have an entry in each.
    """
    case = power.case(power.CASES[BUSES])
    gen, branch = case["gen"][case["gen"][:, 7] > 0], case["branch"][case["branch"][:, 10] > 0]
    number = {bus: k for k, bus in enumerate(case["bus"][:, 0])}
    n, units = len(number), len(gen)
    start, end = (np.array([number[bus] for bus in branch[:, k]]) for k in (0, 1))
    reactance = np.where(branch[:, 3] == 0, 1e-4, branch[:, 3])
    found = _Entries()
    at = np.array([number[bus] for bus in gen[:, 0]])
    rows = n + len(branch) - 1
    for outage in range(OUTAGES):
        left = np.arange(len(branch)) != outage * len(branch) // OUTAGES
        one, other, susceptance = start[left], end[left], 1 / reactance[left]
        top, angle = outage * rows, units + outage * n
        found.add(top + at, np.arange(units), 1)
        for here, there in ((one, other), (other, one)):
            found.add(top + here, angle + here, -susceptance)  # of several branches at a bus, the sum
            found.add(top + here, angle + there, susceptance)
        flow = top + n + np.arange(rows - n)
        found.add(flow, angle + one, susceptance)
        found.add(flow, angle + other, -susceptance)
    return found.structure(OUTAGES * rows, units + OUTAGES * n)
