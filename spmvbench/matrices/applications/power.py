"""Power grids: the linear systems of optimal power flow over several hours, on real and realistic networks."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices.structures import Structure, application, needs, of_matrix, required

# Case files of MATPOWER by their number of buses: a spec has numbers only.
CASES = {
    118: "case118",
    1354: "case1354pegase",
    2000: "case_ACTIVSg2000",
    2869: "case2869pegase",
    9241: "case9241pegase",
    10000: "case_ACTIVSg10k",
    13659: "case13659pegase",
    25000: "case_ACTIVSg25k",
    70000: "case_ACTIVSg70k",
    82000: "case_SyntheticUSA",
}
LICENCE = "case files CC BY 4.0, from the package matpower (BSD-3-Clause)"
_PRICES = 1.0, 0.1  # multipliers of the balances of active and of reactive power
_SLACK = 1e-3  # what the barrier leaves of a ramp's own block


def case(name: str) -> dict[str, np.ndarray]:
    """The tables bus, gen and branch of a case file, (rows, columns): MATPOWER's manual, appendix B."""
    path = Path(required("matpower").__file__).parent / "data" / f"{name}.m"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpmvbenchError(f"matpower is here without its case file {path.name}: {error.strerror}") from None
    found = {}
    for table in ("bus", "gen", "branch"):
        rows = re.search(rf"^mpc\.{table} = \[\n(.*?)^\];", text, re.DOTALL | re.MULTILINE)
        if rows is None:
            raise SpmvbenchError(f"the case file {path.name} of matpower has no table {table}")
        found[table] = np.loadtxt(io.StringIO(rows[1].replace(";", "")), comments="%", ndmin=2)
    return found


def _admittances(bus: np.ndarray, branch: np.ndarray, number: dict[float, int]) -> Any:
    """The bus admittance matrix, canonical CSR, complex, in units of the base of 100 MVA; its pattern is symmetric."""
    import scipy.sparse as sp

    branch = branch[branch[:, 10] > 0]
    start, end = (np.array([number[b] for b in branch[:, k]], dtype=np.int64) for k in (0, 1))
    series, charging = 1 / (branch[:, 2] + 1j * branch[:, 3]), 0.5j * branch[:, 4]
    tap = np.where(branch[:, 8] == 0, 1, branch[:, 8]) * np.exp(1j * np.deg2rad(branch[:, 9]))
    shunt = (bus[:, 4] + 1j * bus[:, 5]) / 100
    here = np.arange(len(bus))
    values = (
        shunt,
        (series + charging) / abs(tap) ** 2,
        -series / tap.conj(),
        -series / tap,
        series + charging,
    )
    rows, cols = np.concatenate((here, start, start, end, end)), np.concatenate((here, start, end, start, end))
    found = sp.coo_array((np.concatenate(values), (rows, cols)), shape=(len(bus), len(bus))).tocsr()
    found.sum_duplicates()
    return found


class _Balance:
    """Derivatives of the injected powers S_i = sum over k of V_i conj(Y_ik V_k), on the pattern of Y; V = m exp(j a).

    The same as R. D. Zimmerman's products of matrices (MATPOWER Technical Note 2, 2010), entry by entry.
    """

    def __init__(self, admittances: Any):
        self.y, self.mirrored = admittances.data, admittances.T.tocsr().data
        self.indptr, self.col = admittances.indptr, admittances.indices
        self.buses = admittances.shape[0]
        self.row = np.repeat(np.arange(self.buses), np.diff(self.indptr))
        self.diagonal = np.flatnonzero(self.row == self.col)

    def matrix(self, values: np.ndarray) -> Any:
        import scipy.sparse as sp

        return sp.csr_array((values, self.col, self.indptr), shape=(self.buses, self.buses))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.indptr[:-1])  # no row is empty: the diagonal is there

    def first(self, voltage: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dS_i / da_k and dS_i / dm_k, complex."""
        flow = voltage[self.row] * (self.y * voltage[self.col]).conj()
        by_angle, by_magnitude, injected = -1j * flow, flow.copy(), self._sums(flow)
        by_angle[self.diagonal] += 1j * injected
        by_magnitude[self.diagonal] += injected
        return by_angle, by_magnitude / abs(voltage)[self.col]

    def second(self, voltage: np.ndarray, price: complex) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the real part of price times the sum of S: d2 / da_i da_k, d2 / dm_i da_k and d2 / dm_i dm_k."""
        i, k, size = self.row, self.col, abs(voltage)
        out, back = (
            price * voltage[a] * (y * voltage[b]).conj() for a, b, y in ((i, k, self.y), (k, i, self.mirrored))
        )
        both, turned = (out + back).real, (1j * (back - out)).real
        angles, mixed = both.copy(), turned.copy()
        angles[self.diagonal] -= self._sums(both)
        mixed[self.diagonal] -= self._sums(turned)
        return angles, mixed / size[i], both / (size[i] * size[k])


@application(
    "power grids",
    "AC optimal power flow over hours: Kourounis, Fuchs, Schenk, IEEE Trans. Power Systems 33(4), 2018; networks: "
    "MATPOWER's case files (PEGASE: Fliscounakis et al. 2013, Josz et al. 2016; ACTIVSg: Birchfield et al. 2017)",
    licence=LICENCE,
)
@needs(
    f"BUSES one of {', '.join(map(str, CASES))} (a case of MATPOWER), and 1 to 168 HOURS",
    lambda BUSES, HOURS: BUSES in CASES and 1 <= HOURS <= 168,
)
def kkt(BUSES: int, HOURS: int) -> Structure:
    """KKT system of an optimal power flow over HOURS on a grid of so many BUSES; symmetric, indefinite.

    Unknowns are, hour by hour, angles and magnitudes of the voltages, active and reactive powers of the generators;
    then the multipliers of the power balances, hour by hour, and those of the generators' ramps from hour to hour.
    Bounds are a barrier's diagonal. Derivatives are at the case's own voltages, angles scaled by a day's load; lines of
    direct current and limits of branches are left out.
    """
    import scipy.sparse as sp

    tables = case(CASES[BUSES])
    bus, gen = tables["bus"], tables["gen"][tables["gen"][:, 7] > 0]
    number = {b: k for k, b in enumerate(bus[:, 0])}
    balance = _Balance(_admittances(bus, tables["branch"], number))
    n, units = len(bus), len(gen)
    x, m, ramps = 2 * (n + units), 2 * n, (HOURS - 1) * units  # unknowns and balances an hour; ramps of all hours
    place = np.array([number[b] for b in gen[:, 0]], dtype=np.int64)
    injects = sp.csr_array((np.full(units, -1.0), (place, np.arange(units))), shape=(n, units))
    active, reactive = (_barrier(gen[:, most] - gen[:, least], 100, 0.1) for most, least in ((8, 9), (3, 4)))
    start, unit = np.divmod(np.arange(ramps), max(units, 1))
    power = (start + np.array([[0], [1]])) * x + m + unit  # a unit's power in this hour and the next
    ends = (np.repeat([-1.0, 1.0], ramps), (np.tile(np.arange(ramps), 2), power.ravel()))
    ramp = sp.csr_array(ends, shape=(ramps, HOURS * x))
    to_ramps = ramp.T.tocsr()

    def gap(rows: int, cols: int) -> Any:
        return sp.csr_array((rows, cols))

    upper, lower = [], []
    for hour in range(HOURS):
        load = 0.8 + 0.2 * np.sin(2 * np.pi * (hour - 9) / 24)
        voltage = bus[:, 7] * np.exp(1j * load * np.deg2rad(bus[:, 8]))
        angles, mixed, magnitudes = balance.second(voltage, complex(_PRICES[0], -_PRICES[1]))
        magnitudes[balance.diagonal] += _barrier(bus[:, 11] - bus[:, 12], 1, 0.01)
        angles, mixed, magnitudes = map(balance.matrix, (angles, mixed, magnitudes))
        voltages = sp.block_array([[angles, mixed.T], [mixed, magnitudes]])
        powers = sp.diags_array(np.concatenate((active, reactive)))
        hessian = sp.block_diag((voltages, powers), format="csr")
        by_angle, by_magnitude = balance.first(voltage)
        p, q = ([balance.matrix(part(by)) for by in (by_angle, by_magnitude)] for part in (np.real, np.imag))
        jacobian = sp.block_array([[*p, injects, None], [*q, None, injects]], format="csr")
        before, after = hour * x, (HOURS - 1 - hour) * x
        multipliers = [gap(x, hour * m), jacobian.T.tocsr(), gap(x, (HOURS - 1 - hour) * m), to_ramps[before:][:x]]
        upper.append(sp.hstack([gap(x, before), hessian, gap(x, after), *multipliers], format="csr"))
        lower.append(sp.hstack([gap(m, before), jacobian, gap(m, after + HOURS * m + ramps)], format="csr"))
    slack = sp.diags_array(np.full(ramps, -_SLACK), format="csr")
    last = sp.hstack([ramp, gap(ramps, HOURS * m), slack], format="csr")
    return of_matrix(sp.vstack([*upper, *lower, last], format="csr"))


def _barrier(widths: np.ndarray, unit: float, least: float) -> np.ndarray:
    """A barrier's second derivatives in the middle of ranges of these widths, in multiples of the unit."""
    return np.asarray(1 / np.maximum(abs(widths) / unit, least) ** 2)
