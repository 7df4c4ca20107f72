"""Finite elements on small meshes that ship with the project, refined uniformly so many TIMES, each cell into 4 or 8.

Every unknown has its row, those of the boundary too, as before conditions on them are set. The pattern is the mesh's:
entries are stored for all unknowns that share a cell, also where the integral is zero.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.matrices.structures import Structure, application, needs, of_matrix, required

_LICENCE = "none needed: computed from the published model on a mesh of this project"


MESHES = paths.configs() / "meshes"
DATA = sorted(MESHES.glob("*.json"))  # what matrices depend on beside the code


def _refined(name: str, times: int) -> Any:
    """A mesh of configs/meshes as scikit-fem has it, refined; its first `inside` cells become a part of that name."""
    skfem = required("skfem", "scikit-fem")
    with open(MESHES / f"{name}.json") as file:
        found = json.load(file)
    points, cells = np.array(found["points"]).T / found["unit"], np.array(found["cells"]).T
    mesh = (skfem.MeshTri if len(points) == 2 else skfem.MeshTet)(points, cells)
    return mesh.with_subdomains({"inside": np.arange(found.get("inside", 0))}).refined(times)


class _Pairs:
    """Which unknowns meet in a cell, and how their integrals over cells add up.

    rows, cols: the unknowns of each cell, (a, cells) and (b, cells).
    """

    def __init__(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]):
        import scipy.sparse as sp

        pairs = (cols.shape[1], rows.shape[0], cols.shape[0])
        row, col = (np.broadcast_to(part, pairs).ravel() for part in (rows.T[:, :, None], cols.T[:, None, :]))
        slots = sp.coo_array((np.arange(len(row)), (row, col)), shape=shape)
        slots.has_canonical_format = True  # it is not: pairs that meet again are to stay apart
        slots = slots.tocsr()
        slots.sort_indices()
        first = np.ones(len(row), dtype=bool)  # of the slots of each pair
        np.not_equal(slots.indices[1:], slots.indices[:-1], out=first[1:])
        first[slots.indptr[:-1]] = True
        self.order, self.starts = slots.data, np.flatnonzero(first)
        self.indices, self.indptr = slots.indices[self.starts], np.searchsorted(self.starts, slots.indptr)
        self.shape = shape

    @classmethod
    def between(cls, rows: Any, cols: Any) -> _Pairs:
        return cls(rows.element_dofs, cols.element_dofs, (rows.N, cols.N))

    def matrix(self, parts: list[list[np.ndarray]]) -> Any:
        """parts[i][j], (cells, a, b): of component i of the row's unknown with component j of the column's."""
        import scipy.sparse as sp

        values = np.empty((len(self.indices), len(parts), len(parts[0])))
        for i, row in enumerate(parts):
            for j, part in enumerate(row):
                values[:, i, j] = np.add.reduceat(part.ravel()[self.order], self.starts)
        shape = tuple(n * values.shape[1 + k] for k, n in enumerate(self.shape))
        return sp.bsr_array((values, self.indices, self.indptr), shape=shape).tocsr()


def _fields(basis: Any, of: str = "") -> np.ndarray:
    """(components, cells, functions, points): a basis's functions, or their "grad" or "curl"."""
    found = [np.asarray(getattr(function[0], of) if of else function[0]) for function in basis.basis]
    return np.stack([f if f.ndim == 3 else f[None] for f in found], axis=2)


def _inner(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(cells, a, b): integrals over each cell of the products of (cells, a, points) and (cells, b, points)."""
    integrals: np.ndarray = (left * weights[:, None, :]) @ right.transpose(0, 2, 1)
    return integrals


def _strains(gradients: np.ndarray, weights: np.ndarray, lame: float, shear: float) -> list[list[np.ndarray]]:
    """Parts of lame (div u)(div v) + 2 shear e(u) : e(v), e the symmetric gradient, one part at a time."""
    some = range(len(gradients))
    trace = sum(_inner(g, g, weights) for g in gradients)

    def part(i: int, j: int) -> np.ndarray:
        both = _inner(gradients[i], gradients[j], weights)
        return lame * both + shear * (both.transpose(0, 2, 1) + (trace if i == j else 0))

    return [[part(i, j) for j in some] for i in some]


@application(
    "structural mechanics",
    "linear elasticity, P2 tetrahedra; scikit-fem: Gustafsson, McBain, JOSS 5(52), 2020",
    licence=_LICENCE,
)
@needs("TIMES of at most 4", lambda TIMES: TIMES <= 4)
def elasticity(TIMES: int) -> Structure:
    """Linear elasticity of a bracket, quadratic tetrahedra refined so many TIMES, 3 unknowns a node; symmetric.

    Stiffness for Young's modulus 1 and Poisson's ratio 0.3; unknowns node by node, vertices before edges' middles.
    """
    skfem = required("skfem", "scikit-fem")
    basis = skfem.Basis(_refined("bracket", TIMES), skfem.ElementTetP2(), intorder=2)
    pairs = _Pairs.between(basis, basis)
    lame, shear = 0.3 / (1.3 * 0.4), 1 / 2.6
    return of_matrix(pairs.matrix(_strains(_fields(basis, "grad"), basis.dx, lame, shear)))


@application(
    "fluid dynamics",
    "Taylor, Hood, Computers & Fluids 1, 1973; channel of Schäfer, Turek, NNFM 52, 1996",
    licence=_LICENCE,
)
@needs("TIMES of at most 7", lambda TIMES: TIMES <= 7)
def stokes(TIMES: int) -> Structure:
    """Stokes flow in a channel past a cylinder, Taylor-Hood triangles refined so many TIMES; symmetric, indefinite.

    Viscosity 1: stresses of the velocities (quadratic, two a node), then minus their divergence against the pressures
    (linear), whose own block is empty.
    """
    import scipy.sparse as sp

    skfem = required("skfem", "scikit-fem")
    mesh = _refined("channel", TIMES)
    velocity = skfem.Basis(mesh, skfem.ElementTriP2(), intorder=2)
    pressure = skfem.Basis(mesh, skfem.ElementTriP1(), intorder=2)
    gradients, weights = _fields(velocity, "grad"), velocity.dx
    stress = _Pairs.between(velocity, velocity).matrix(_strains(gradients, weights, 0.0, 1.0))
    divergence = _Pairs.between(pressure, velocity)
    divergence = divergence.matrix([[-_inner(_fields(pressure)[0], g, weights) for g in gradients]])
    return of_matrix(sp.block_array([[stress, divergence.T], [divergence, None]], format="csr"))


@application(
    "electromagnetics", "Nedelec, Numerische Mathematik 35, 1980: edge elements; built by scikit-fem", licence=_LICENCE
)
@needs("TIMES of at most 5", lambda TIMES: TIMES <= 5)
def maxwell(TIMES: int) -> Structure:
    """Waves in a box with a dielectric ball, edge elements on tetrahedra refined so many TIMES; symmetric, indefinite.

    curl curl - k^2 epsilon for k = 8 on the unit cube, epsilon = 4 in the ball and 1 around it; an unknown an edge.
    """
    skfem = required("skfem", "scikit-fem")
    mesh = _refined("ball", TIMES)
    basis = skfem.Basis(mesh, skfem.ElementTetN0(), intorder=2)
    pairs = _Pairs.between(basis, basis)
    squared = np.full(mesh.t.shape[1], 64.0)
    squared[mesh.subdomains["inside"]] *= 4
    curls, fields = (sum(_inner(part, part, basis.dx) for part in _fields(basis, of)) for of in ("curl", ""))
    return of_matrix(pairs.matrix([[curls - squared[:, None, None] * fields]]))
