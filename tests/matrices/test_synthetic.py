from inspect import signature

import numpy as np
import pytest
import scipy.sparse as sp

from spmvbench.errors import UsageError
from spmvbench.formats.kernels import read
from spmvbench.matrices import resolve, synthetic
from spmvbench.matrices.applications import fem
from spmvbench.matrices.synthetic import generate

# Specs and how the SHA-256 of their patterns begin: the same on every machine.
PATTERNS = {
    "pde:5": "b91a004e5047be9d",
    "stray:6:20": "2641ab2bdc8b7252",
    "poisson2d:7": "83a6576acdf93854",
    "fem:4:2": "71e48ca74151460c",
    "spd_pde:5": "b91a004e5047be9d",  # that of pde:5
    "spd_fem:4:2": "71e48ca74151460c",
    "band:300:6:9": "e3e7cd54606b2470",
    "uniform:100:7": "53ed179fc1e4e426",
    "rmat:9:6": "4ceb183ae6fc6b67",
    "denserow:51": "65afafea37ac2996",
    "blocks:60:5": "fdca66394e912cd0",
    "diag:9": "f5c7b266c40116ca",
    "tridiag:9": "4cf5da1a9dac47fa",
    "powerlaw:400:6": "5a1a76dbad36a66e",
    "powerlaw_t:400:6": "ec5aaa9fb0cdc7d7",
    "rect:20:300:11": "72d46ee5d88cda74",
    "dense:7:5": "7d049b310b37fe0b",
    "empty:4:6": "913817a6d32a1032",
    "xxz:8": "d7affccc4429a5f8",
    "hubbard:6": "c143ad22dd4deb33",
    "ct:12:7": "0f3ba8da2aeab5b8",
    "fms:3": "a13ab9456fcb5d73",
    "queues:4:5": "52ec25fd896f246d",
    "elasticity:0": "bdda7a0fc7baed33",
    "stokes:0": "f4747c5b6b54cb50",
    "maxwell:0": "146596621f04be57",
    "coarse:9:1": "db484f2cbffc54bc",
    "prolong:9:1": "1ff24378ac3149d0",
    "kkt:118:2": "534f5467a8e582e8",
    "qap:5": "11ad00bc2a8f6fc0",
    "gridflow:6:4": "22bfbb3ff2eb6bf2",
    "webflow:60:2:3": "91303c7df3cd64ce",
    "transport:9:14": "06edaa68dc80f663",
    "setcover:20:60:3": "79bdd6c23feb8cb4",
    "pairings:40:90": "6adbed0213a44ef4",
    "stochastic:5:3:8": "2966bcd50f6151c1",
    "staircase:5:6:3": "1808050bb4414090",
    "chebyshev:40:9:3": "0d281901cd6de81d",
    "dispatch:118:2": "824ae686e3d955bc",
}
SPECS = list(PATTERNS)
ZEROS = ("elasticity:0", "stokes:0", "maxwell:0", "kkt:118:2")  # whose patterns are meshes' and networks'


@pytest.mark.parametrize(("spec", "pattern"), PATTERNS.items())
def test_canonical_seeded_and_the_same_everywhere(spec, pattern):
    a = generate(spec)
    assert synthetic.hashes(a)[0].startswith(pattern)
    a.check_format(full_check=True)
    assert (a.indptr.dtype, a.indices.dtype, a.data.dtype) == (np.int32, np.int32, np.float64)
    unmarked = sp.csr_array((a.data, a.indices, a.indptr), shape=a.shape)
    assert unmarked.has_canonical_format
    assert np.count_nonzero(a.data) == a.nnz or spec in ZEROS
    assert synthetic.hashes(a) == synthetic.hashes(generate(spec))


def test_every_kind_is_tested():
    assert {spec.split(":")[0] for spec in SPECS} == set(synthetic.KINDS) - {"like"}
    assert all(generator.__doc__ for generator in synthetic.KINDS.values())


@pytest.mark.parametrize("spec", SPECS)
def test_blocks_of_rows_do_not_show(spec, monkeypatch):
    whole = generate(spec)
    monkeypatch.setattr(synthetic, "BLOCK", 37)
    parts = generate(spec)
    assert parts.shape == whole.shape
    assert sp.csr_array((parts.data, parts.indices, parts.indptr), shape=parts.shape).has_canonical_format
    if "seed" not in signature(synthetic.KINDS[spec.split(":")[0]]).parameters:
        assert (parts != whole).nnz == 0


@pytest.mark.parametrize(
    "spec", ["band:300:6:9", "uniform:100:7", "rmat:9:6", "powerlaw:400:6", "blocks:60:5", "stray:6:20"]
)
def test_another_seed_gives_another_matrix(spec):
    a, b = generate(spec, seed=0), generate(spec, seed=1)
    assert a.shape == b.shape
    assert not (np.array_equal(a.indices, b.indices) or np.array_equal(a.data[:20], b.data[:20]))


def test_pde_couples_the_seven_points():
    n = 4
    a = generate(f"pde:{n}")
    line = sp.diags_array([1.0, 1, 1], offsets=[-1, 0, 1], shape=(n, n))
    eye = sp.eye_array(n)
    expected = sum(
        sp.kron(sp.kron(x, y), z) for x, y, z in [(line, eye, eye), (eye, line, eye), (eye, eye, line)]
    ).tocsr()
    np.testing.assert_array_equal(a.toarray() != 0, expected.toarray() != 0)
    assert abs(a - a.T).max() > 0.1
    assert (a.diagonal() == 6).all()


@pytest.mark.parametrize("spec", ["spd_pde:1", "spd_pde:6", "spd_fem:1:2", "spd_fem:4:2"])
def test_positive_definite_matrices_are_dominant_without_rounding(spec):
    a = generate(spec, seed=3)
    exact = (a * 1024).astype(np.int64)
    assert (exact.astype(float) / 1024 != a).nnz == 0
    assert (a.astype(np.float32).astype(float) != a).nnz == 0
    assert (exact != exact.T).nnz == 0
    off = exact - sp.diags_array(exact.diagonal(), dtype=np.int64)
    assert off.max() <= 0 and (abs(off.data) < 1024).all()
    excess = exact.sum(axis=1)  # what the diagonal has more than the rest of its row
    assert excess.min() >= 0 and excess.max() > 0
    assert sp.csgraph.connected_components(exact)[0] == 1
    assert np.linalg.eigvalsh(a.toarray()).min() > 0
    if a.shape[0] > 2:
        assert (generate(spec, seed=4) != a).nnz > a.nnz / 2


@pytest.mark.parametrize(("n", "percent"), [(3, 100), (9, 1), (20, 7)])
def test_stray_entries_lie_off_the_stencil(n, percent):
    stencil, a = (generate(spec).tocoo() for spec in (f"pde:{n}", f"stray:{n}:{percent}"))
    assert a.nnz == stencil.nnz + stencil.nnz * percent // 100
    places, theirs = ({*zip(m.row.tolist(), m.col.tolist(), strict=True)} for m in (a, stencil))
    assert theirs < places
    assert not {abs(row - col) for row, col in places - theirs} & {0, 1, n, n * n}


def test_stray_entries_are_everywhere():
    strays = generate("stray:20:10").tocoo()
    far = np.abs(strays.row - strays.col) > 400
    assert far.sum() == pytest.approx(0.9 * 0.1 * 53_600, rel=0.03)  # but for the band of 800 around the diagonal
    counts = np.bincount(strays.row[far], minlength=8000)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.1)  # as where each falls for itself


def test_poisson2d_is_the_laplacian():
    n = 5
    line = sp.diags_array([-1.0, 2, -1], offsets=[-1, 0, 1], shape=(n, n))
    expected = sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line)
    np.testing.assert_array_equal(generate(f"poisson2d:{n}").toarray(), expected.toarray())


def test_fem_blocks():
    a = generate("fem:40:3")
    assert (a.shape, a.nnz) == ((192_000, 192_000), 14_787_288)
    small = generate("fem:3:2").toarray()
    line = np.tri(3, 3, 1) * np.tri(3, 3, 1).T
    np.testing.assert_array_equal(small != 0, np.kron(np.kron(line, line), np.kron(line, np.ones((2, 2)))) != 0)
    np.testing.assert_array_equal(small, small.T)


@pytest.mark.parametrize(
    "spec", ["pde:0", "stray:0:1", "fem:0:3", "uniform:0:0", "denserow:0", "empty:0:5", "empty:5:0", "diag:0"]
)
def test_nothing_is_legal(spec):
    a = generate(spec)
    assert a.nnz == 0
    assert a.shape == tuple(map(int, spec.split(":")[1:])) if spec.startswith("empty") else (0, 0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pdee:4", "did you mean pde"),
        ("zzz:4", "band:N:K:W"),
        ("pde:x", "write pde:N with"),
        ("pde:", "write pde:N with"),
        ("pde:-3", "write pde:N with"),
        *((text, "cannot read .* with integers") for text in ("stray:80:10.5", "pde:.4", "pde:+4", "pde:4_0")),
        *((text, "cannot read .* with integers") for text in ("pde: 4", "pde:4e0")),
        ("band:10:3", "write band:N:K:W with"),
        ("band:10:5:2", "K of at most W \\+ 1"),
        ("uniform:3:4", "K of at most N"),
        ("blocks:10:3", "a multiple of B"),
        ("blocks:10:0", "a multiple of B"),
        ("fem:3:0", "D of at least 1"),
        ("stray:9:101", "PERCENT of at most 100"),
        ("stray:2:1", "N of at least 3"),
        ("rmat:31:1", "at most 30"),
        ("pde:2000", "must fit in 32 bits"),
        ("diag:9999999999", "too large"),
        *((f"xxz:{sites}", "needs") for sites in (2, 5)),
        *((f"fms:{pallets}", "needs") for pallets in (0, 41)),
        *((f"queues:{sizes}", "needs") for sizes in ("1:5", "16:40")),
        *((spec, "needs") for spec in ("hubbard:18", "ct:0:4", "elasticity:5", "kkt:119:2", "coarse:2:1")),
    ],
)
def test_bad_specs_show_the_right_form(spec, message):
    assert synthetic.is_spec(spec) or spec in ("pde:", "pde:.4")
    with pytest.raises(UsageError, match=message):
        generate(spec)


def test_what_is_a_spec():
    texts = ("pde:4", "nonsense:1:x", "like:HB/1138_bus")
    others = ("HB/1138_bus", "a.mtx", "pde", "c:/a.mtx", "c:a.mtx", "http://host/a")
    assert tuple(filter(synthetic.is_spec, (*texts, *others))) == texts


@pytest.mark.parametrize(
    ("spec", "one"),
    [
        ("pde:4", "pde:4"),
        ("pde:04", "pde:4"),
        ("pde:4.0", "pde:4"),
        ("pde:٤", "pde:4"),
        ("stray:80:10.", "stray:80:10"),
        ("band:0100:3:002", "band:100:3:2"),
        ("empty:00:0", "empty:0:0"),
    ],
)
def test_a_spec_has_one_spelling(spec, one):
    assert synthetic.canonical(spec) == one
    (matrix,), _ = resolve([spec, one, f"synthetic/{spec}"])
    assert matrix.id == f"synthetic/{one}"


def test_the_hash_of_a_generator_follows_its_program(monkeypatch):
    kinds = ("pde", "xxz", "elasticity")
    before = {kind: synthetic.generator_hash(kind) for kind in kinds}
    assert len(set(before.values())) == 3

    def changed(function, change):
        monkeypatch.setattr(synthetic, function, change(getattr(synthetic, function)))
        synthetic._hash.cache_clear()
        after = {kind: synthetic.generator_hash(kind) for kind in kinds}
        monkeypatch.undo()
        synthetic._hash.cache_clear()
        return {kind for kind in kinds if after[kind] != before[kind]}

    def edit(name, addition):
        """`digest` as it is when a file of this name has more text."""
        more = lambda path: read(path) + addition * (path.name == name)  # noqa: E731
        return lambda digest: lambda files: digest(files, more)

    assert changed("digest", edit("spins.py", "\nADDED = 1\n")) == {"xxz"}
    assert changed("digest", edit("values.py", "\nADDED = 1\n")) == set(kinds)
    assert changed("digest", edit("synthetic.py", "\nADDED = 1\n")) == set(kinds)
    assert changed("digest", edit("synthetic.py", "\n# A comment.\n'A text.'\n")) == set()
    assert changed("digest", edit("tomography.py", "\nADDED = 1\n")) == set()
    version = type("Metadata", (), {"version": staticmethod(lambda name: "0.0"), "PackageNotFoundError": KeyError})
    assert changed("importlib", lambda _: type("Import", (), {"metadata": version})) == {"elasticity"}


def test_the_hash_of_a_generator_follows_its_data(tmp_path, monkeypatch):
    (tmp_path / "mesh.json").write_text("1")
    monkeypatch.setattr(fem, "DATA", [tmp_path / "mesh.json"])
    synthetic._hash.cache_clear()
    before = synthetic.generator_hash("elasticity"), synthetic.generator_hash("pde")
    (tmp_path / "mesh.json").write_text("2")
    synthetic._hash.cache_clear()
    assert synthetic.generator_hash("elasticity") != before[0]
    assert synthetic.generator_hash("pde") == before[1]
    synthetic._hash.cache_clear()
