"""TileSpMV: what each threshold decides, what is deferred, and products over all of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from spmvbench import paths, testing
from spmvbench.devices import nvrtc, open_device
from spmvbench.formats import Csr
from spmvbench.formats.tile.convert import (
    COO,
    CSR,
    DNS,
    DNS_COL,
    DNS_ROW,
    ELL,
    HYB,
    Rules,
    Tiles,
    choose,
)
from tests.formats.test_conversion import assert_kernels_convert_alike

PAPER = Rules(coo=12, dns=128, te=0.2, th=1.0, hyb_min_width=0)


def rows_of(*lengths):
    """A tile whose rows hold so many entries, from staggered first columns on."""
    tile = np.zeros((16, 16))
    for row, length in enumerate(lengths):
        tile[row, (3 * row + np.arange(length)) % 16] = 1 + np.arange(length) + 16 * row
    return tile


def full(rows=(), cols=()):
    """A tile with these dense rows and columns."""
    tile = np.zeros((16, 16))
    tile[list(rows), :] = 2.0
    tile[:, list(cols)] = 3.0
    return tile


def moved(tile, source, target):
    """The tile with one entry in another place."""
    tile = tile.copy()
    tile[target], tile[source] = tile[source], 0
    assert tile[target]
    return tile


# Row lengths with a variation of exactly 0.2 (sum 100, sum of squares 650), and of a little more (652).
AT_TE = rows_of(8, *[7] * 9, 6, 6, 5, 4, 4, 4)
ABOVE_TE = rows_of(*[7] * 12, *[4] * 4)

TILES = {
    "1 entry": (rows_of(1), COO),
    "11 entries": (rows_of(*[1] * 11), COO),
    "11 entries in one row": (rows_of(11), COO),
    "12 entries": (rows_of(*[1] * 12), CSR),
    "12 entries in one row": (rows_of(12), HYB),
    "127 entries": (rows_of(*[8] * 15, 7), ELL),
    "128 entries": (rows_of(*[8] * 16), DNS),
    "256 entries": (full(rows=range(16)), DNS),
    "variation 0": (rows_of(*[3] * 16), ELL),
    "variation 0.2": (AT_TE, ELL),
    "variation just over 0.2": (ABOVE_TE, CSR),
    "variation 0.88": (rows_of(*[2] * 9), CSR),
    "variation 1": (rows_of(*[2] * 8), HYB),
    "a full row": (full(rows=[5]), DNS_ROW),
    "7 full rows": (full(rows=range(3, 10)), DNS_ROW),
    "a full row and an entry": (full(rows=[5]) + rows_of(1), HYB),
    "a full row with a hole": (moved(full(rows=[5]), (5, 0), (6, 0)), HYB),
    "a full column": (full(cols=[5]), DNS_COL),
    "7 full columns": (full(cols=range(9, 16)), DNS_COL),
    "a full column with an entry moved": (moved(full(cols=[5]), (3, 5), (3, 6)), ELL),
    "the diagonal": (np.eye(16), ELL),
}


def chosen(tile, rules=PAPER, dtype=np.float64):
    """Format and width of a matrix of one tile."""
    tiles = Tiles.of(Csr.of(sparse.csr_array(np.asarray(tile, dtype))))
    fmt, width = choose(tiles, rules)
    assert len(tiles) == 1
    return int(fmt[0]), int(width[0])


@pytest.mark.parametrize("name", TILES)
def test_paper_rules_on_each_side_of_every_threshold(name):
    tile, expected = TILES[name]
    assert chosen(tile)[0] == expected


def test_thresholds_are_parameters():
    assert chosen(TILES["1 entry"][0], PAPER._replace(coo=1))[0] == HYB
    assert chosen(TILES["12 entries"][0], PAPER._replace(coo=13))[0] == COO
    assert chosen(TILES["127 entries"][0], PAPER._replace(dns=127))[0] == DNS
    assert chosen(TILES["256 entries"][0], PAPER._replace(dns=257))[0] == DNS_ROW  # rows are tested before columns
    assert chosen(ABOVE_TE, PAPER._replace(te=0.21))[0] == ELL
    assert chosen(TILES["variation 0"][0], PAPER._replace(te=-np.inf))[0] == CSR
    assert chosen(TILES["variation 0.88"][0], PAPER._replace(th=0.88))[0] == HYB
    assert chosen(TILES["a full row with a hole"][0], PAPER._replace(th=np.inf))[0] == CSR


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("paper", [CSR, DNS, ELL, HYB]),
        ("oct2021", [COO, DNS, ELL, HYB]),
        ("jul2022", [COO, CSR, CSR, CSR]),
        ("aug2022", [COO, ELL, ELL, CSR]),
    ],
)
def test_presets_decide_as_their_code(preset, expected):
    names = ("12 entries", "128 entries", "variation 0", "variation 1")
    found = [
        testing.convert(f"tile[preset={preset}]", sparse.csr_array(TILES[name][0])).fmt.item() & 7 for name in names
    ]
    assert found == expected


@pytest.mark.parametrize(("preset", "width"), [("paper", 0), ("oct2021", 1), ("aug2022", 1)])
def test_the_paper_lets_the_ell_part_of_a_hyb_tile_go_to_nothing(preset, width):
    tile = sparse.csr_array(np.eye(1, 16).T * ([1] * 14 + [0] * 2))
    assert testing.convert(f"tile[preset={preset},coo=0,th=1]", tile).fmt.item() == HYB | width << 3


def test_a_given_threshold_goes_before_the_preset():
    tile = sparse.csr_array(TILES["12 entries"][0])
    assert testing.convert("tile[preset=aug2022,coo=12]", tile).fmt.item() & 7 == CSR


@pytest.mark.parametrize(("dtype", "value_bytes"), [(np.float64, 8), (np.float32, 4)])
@pytest.mark.parametrize("least", [0, 1])
def test_hyb_width_has_the_fewest_bytes(dtype, value_bytes, least):
    rng = np.random.default_rng(1)
    rules = Rules(coo=0, dns=257, te=-np.inf, th=0.0, hyb_min_width=least)
    widths = set()
    for _ in range(200):
        lengths = rng.integers(rng.integers(0, 8), 16, 16) + (rng.random(16) < 0.1)
        tile = rows_of(*lengths)

        def cost(width, lengths=lengths):
            tail = np.maximum(lengths - width, 0).sum()
            return 16 * width * value_bytes + 8 * width + (value_bytes + 1) * tail

        best = min(range(16, least - 1, -1), key=cost)  # the larger of equals
        fmt, width = chosen(tile, rules, dtype)
        if fmt == HYB:
            assert width == best
            widths.add(width)
    assert len(widths) > 4


def mosaic(rows=16 * 9 - 5, cols=16 * 11 - 3, seed=0):
    """Tiles of every kind side by side, cut off at sides that are no multiple of 16."""
    rng = np.random.default_rng(seed)
    tiles = [tile for tile, _ in TILES.values()] + [np.zeros((16, 16))] * 3
    grid = [[tiles[i] for i in rng.integers(0, len(tiles), 11)] for _ in range(9)]
    grid[4] = [np.zeros((16, 16))] * 11
    a = sparse.csr_array(np.block(grid)[:rows, :cols])
    a.data = rng.uniform(0.5, 1.5, a.nnz)
    return a


MOSAIC = mosaic()


def test_detail_gives_the_shares_of_tiles_and_nonzeros():
    detail = testing.convert("tile", MOSAIC).detail
    assert detail["tiles"] == len(set(zip(MOSAIC.tocoo().row // 16, MOSAIC.tocoo().col // 16, strict=True)))
    for shares in (detail["tile_share"], detail["nnz_share"]):
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 for share in shares.values()), "the mosaic has tiles of every format"
    apart = testing.convert("tile-deferred-coo[defer=0]", MOSAIC).detail
    assert apart["tile_share"] == detail["tile_share"], "counted before deferring"
    tails = testing.convert("tile", MOSAIC).tail.sum()
    assert apart["deferred_share"] == pytest.approx(detail["nnz_share"]["coo"] + tails / MOSAIC.nnz)


@pytest.mark.parametrize("rest", ["csr5", "coo-flat"])
def test_coo_tiles_and_hyb_tails_are_deferred(rest):
    f = testing.convert(f"tile-deferred-coo[defer=0,hyb_min_width=1,rest={rest}]", MOSAIC)
    assert set((f.fmt & 7).tolist()) == {CSR, ELL, HYB, DNS, DNS_ROW, DNS_COL}
    assert not f.tail.any()
    whole = testing.convert("tile[hyb_min_width=1]", MOSAIC)
    rows, cols, values = f.sparse.to_coo()
    apart = sparse.csr_array((values, (rows, cols)), shape=MOSAIC.shape)
    assert apart.nnz == len(whole.coo_val) + whole.tail.sum()
    assert ((MOSAIC - apart).multiply(apart)).nnz == 0, "what is apart is in no tile"
    assert whole.hyb_val[:16].tolist() == f.hyb_val[:16].tolist(), "the ELL part stays"


def test_deferral_starts_at_its_number_of_entries():
    assert testing.convert(f"tile-deferred-coo[defer={MOSAIC.nnz + 1}]", MOSAIC).sparse is None
    assert testing.convert(f"tile-deferred-coo[defer={MOSAIC.nnz}]", MOSAIC).sparse is not None
    assert testing.convert("tile-deferred-coo", MOSAIC).sparse is None, "below 1.8 million entries"
    assert testing.convert("tile-deferred-coo[preset=jul2022]", MOSAIC).sparse is not None
    assert testing.convert("tile-deferred-coo[preset=aug2022]", MOSAIC).sparse is None


def test_a_matrix_of_sparse_tiles_alone_is_the_rest_alone():
    wide = sparse.csr_array(np.kron(np.eye(40), np.eye(1, 24)))
    f = testing.convert("tile-deferred-coo[defer=0,rest=coo-flat]", wide)
    assert len(f.fmt) == len(f.chunk_row) == 0
    assert len(f.sparse.values) == wide.nnz
    testing.check_product("tile-deferred-coo[defer=0]", wide, open_device("emulated"))


def test_the_rest_is_computed_with_the_tiles_if_it_is_the_smaller_part(emulated):
    sparse_tiles = sparse.csr_array(np.kron(np.eye(40), np.eye(1, 24)))

    def kernels(spec, a):
        f = testing.convert(spec, a)
        launches = f.launches(np.ones(a.shape[1]), np.ones(a.shape[0]))
        return [(launch.kernel.split("<")[0], launch.kernel.endswith("true>")) for launch in launches if launch.grid]

    mostly_rest = sparse.block_diag([MOSAIC] + [sparse_tiles] * 200, format="csr")
    spec = "tile-deferred-coo[defer=0]"
    assert testing.convert(spec, MOSAIC).detail["deferred_share"] < 0.5
    assert kernels(spec, MOSAIC) == [("zero_fill", False), ("tile_csr5_spmv", False)]
    assert testing.convert(spec, mostly_rest).detail["deferred_share"] > 0.5
    assert kernels(spec, mostly_rest) == [("zero_fill", False), ("tile_csr5_spmv", True)]
    assert kernels("tile-deferred-coo[defer=0,rest=coo-flat]", MOSAIC)[-1][0] == "tile_spmv"
    testing.check_product(spec, mostly_rest, emulated)


SPECS = (
    "tile-csr",
    "tile-csr[kernel=paper]",
    "tile-csr[kernel=paper,tbalance=1]",
    "tile-csr[tbalance=3]",
    "tile",
    "tile[tbalance=1]",
    "tile[tbalance=32]",
    "tile[kernel=paper]",
    "tile[kernel=paper,tbalance=3]",
    "tile[coo=0,th=0]",
    "tile[coo=257]",
    "tile[coo=257,kernel=paper]",
    "tile[hyb_min_width=0,coo=0,te=0,th=0]",
    "tile[preset=jul2022,kernel=paper]",
    "tile-deferred-coo[defer=0]",
    "tile-deferred-coo[defer=0,tbalance=2]",
    "tile-deferred-coo[defer=0,kernel=paper,tbalance=2]",
    "tile-deferred-coo[defer=0,rest=coo-flat]",
    "tile-deferred-coo[defer=0,hyb_min_width=0]",
)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_every_tile_format_is_decoded_and_multiplied(spec, checking):
    for a in (MOSAIC, mosaic(16 * 9, 16 * 11, seed=1), mosaic(seed=2).astype(np.float32)):
        testing.check_conversion(spec, a)
        testing.check_product(spec, a, checking)


@pytest.mark.parametrize("side", [15, 16, 17, 31, 33])
@pytest.mark.parametrize("spec", ["tile-csr", "tile", "tile[kernel=paper]", "tile[te=4]", "tile-deferred-coo[defer=0]"])
def test_sides_that_are_no_multiple_of_the_tile(spec, side, checking):
    rng = np.random.default_rng(side)
    for density in (0.02, 0.3, 1.0):
        a = sparse.csr_array(rng.uniform(1, 2, (side, side + 3)) * (rng.random((side, side + 3)) < density))
        testing.check_conversion(spec, a)
        testing.check_product(spec, a, checking)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["tile-csr", "tile", "tile[kernel=paper]", "tile-deferred-coo[defer=0]"])
def test_64_bit_offsets(spec, checking):
    f = testing.convert(spec, MOSAIC)
    wide = {name: f.arrays()[name].astype(np.int64) for name in ("tile_nnz", "off1", "off2") if name in f.arrays()}
    f = dataclasses.replace(f, **wide)
    x, y = np.random.default_rng(0).uniform(-1, 1, MOSAIC.shape[1]), np.full(MOSAIC.shape[0], np.nan)
    launches = f.launches(x, y)
    checking.compile(launches).run()
    np.testing.assert_allclose(y, MOSAIC @ x, rtol=1e-12, atol=1e-12)
    kernels = [launch.kernel for launch in launches if launch.source == "tile/tile.cu" and "long long" in launch.kernel]
    assert kernels
    nvrtc.compile(paths.kernels() / "tile/tile.cu", kernels, "sm_90")


CONVERSIONS = ("tile-csr", "tile", "tile-deferred-coo[defer=0]")
ODD_RULES = (
    "tile[coo=257]",
    "tile[coo=0,dns=257]",
    "tile[preset=jul2022]",
    "tile[coo=0,te=0,th=0,hyb_min_width=0,tbalance=2]",
    "tile-deferred-coo[defer=0,coo=0,te=0,th=0,hyb_min_width=0]",
    "tile-deferred-coo[defer=0,coo=1,th=4]",
)


# Tile rows of which a warp has several, or sorts all sizes at once; parts of long ones; more tile columns than 23 bits.
CONVERTED = {
    "mosaic": MOSAIC,
    "many": sparse.kron(sparse.eye_array(600), np.eye(1, 24)).tocsr(),
    "long": sparse.random_array((40, 9000), density=0.02, format="csr", random_state=np.random.default_rng(0)),
    "full": sparse.csr_array(np.arange(1.0, 17 * 700 + 1).reshape(17, 700)),
    "wide": sparse.csr_array(
        ([1.0, 2.0, 3.0, 4.0], [2**30, 5, 2**29, 2**30 + 1], [0, 1, 1, 3, 4]), shape=(4, 2**30 + 2)
    ),
}


@pytest.mark.parametrize("spec", [*CONVERSIONS, *ODD_RULES])
def test_kernels_follow_every_rule(spec, emulated, same_arrays, monkeypatch):
    monkeypatch.setattr("spmvbench.formats.tile.kernels.GROUPS", 16)
    launched = assert_kernels_convert_alike(spec, CONVERTED, emulated, same_arrays)
    assert {launch.kernel.split(",")[0] for launch in launched} >= {
        f"count_room<{key}" for key in ("unsigned int", "unsigned long long")
    }
