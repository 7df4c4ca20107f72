"""Every registered format, over hard matrices: converted, decoded, multiplied on the emulated device and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.devices import multiply, open_device
from spmvbench.formats import Csr, Format, Launch, Skip, byte_text, single_steps
from spmvbench.formats.arrays import on_host
from spmvbench.formats.conversion import Tuning, converting_for, device_limits
from spmvbench.formats.refilling import places
from spmvbench.publishing import flags, in_page
from tests.formats.representatives import EMULATED, FEW, HARD, KEYS, REPRESENTATIVES, TALL, TELLING, launched
from tests.formats.rows import with_long_pointers
from tests.formats.together import together

SINGLE = [key for key in EMULATED if formats.get(key).keeps_values]  # where precision is of no matter, once is enough
SEARCHES = [key for key in EMULATED if formats.get(key).op == "bfs"]
PRODUCTS = [key for key in EMULATED if formats.get(key).op == "spmv"]
ADDING = [key for key in EMULATED if formats.get(key).accumulate is not Format.accumulate]
GRAPHS = testing.hard_graphs()


def variants(key: str) -> list[str]:
    """The key alone, then with every other choice of each parameter."""
    found = [key]
    for name, parameter in formats.get(key).parameters().items():
        ends = [value for value in (parameter.low, parameter.high) if value is not None]
        others = parameter.choices or ((False, True) if isinstance(parameter.default, bool) else ends)
        found += [f"{key}[{name}={value}]" for value in others if value != parameter.default]
    return found


VARIANTS = [
    spec if spec == key else pytest.param(spec, marks=pytest.mark.slow) for key in EMULATED for spec in variants(key)
]


def representatives_first(keys: list) -> list:
    """These keys, all but representatives marked slow. Keys that are marked already stay as they are."""
    more = [isinstance(key, str) and key not in REPRESENTATIVES for key in keys]
    return [pytest.param(key, marks=pytest.mark.slow) if slow else key for key, slow in zip(keys, more, strict=True)]


def few_for_others(key: str, most: tuple[str, ...] = TELLING) -> dict[str, sparse.csr_array]:
    """What a representative meets; formats that share its kernels meet few, once products have met all that tell."""
    return telling(most if key in REPRESENTATIVES else FEW)


def names(spec: str) -> tuple[str, ...]:
    """The hard matrices that the kernels of a format with these parameters meet."""
    if spec in REPRESENTATIVES:
        return tuple(HARD)
    return TELLING if spec in KEYS or spec.partition("[")[0] in REPRESENTATIVES else FEW


def over_taken(matrices: dict[str, sparse.csr_array], check) -> None:
    """Call a check on every matrix that fits the parameters: unknowns a node, say, have to divide its sides.

    If none does, on every hard matrix that fits: some formats take stencils alone.
    """
    checked = 0
    for found in (matrices, HARD):
        for a in found.values() if not checked else ():
            with suppress(Skip):
                check(a)
                checked += 1
    assert checked, "every matrix is refused"


def over(spec: str, matrices: dict[str, sparse.csr_array], check) -> None:
    """Call a check on every matrix: a key alone has to take all, with parameters of its own it may refuse some."""
    (testing.over if spec in KEYS else over_taken)(matrices, check)


def telling(chosen=TELLING) -> dict[str, sparse.csr_array]:
    return {name: HARD[name] for name in chosen}


def check_one_product(key: str, a: sparse.csr_array, device, share: float = 1.0) -> None:
    """One run for one x, of which so large a share is not zero: where another x or a second run would add nothing."""
    csr = testing.suited(formats.get(key), a)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, csr.cols) * (rng.random(csr.cols) < share)
    products = csr.values * x[csr.col_idx]
    expected, bound = (np.bincount(csr.row_idx, part, csr.rows) for part in (products, 1e-13 * abs(products)))
    found = multiply(testing.convert(key, csr), x, device)
    assert (abs(found - expected) <= bound).all()


def instantiated(key: str, slow: bool) -> Iterator[tuple[str, str]]:
    """Source and expression of every kernel that the products of a format below launch, with or without slow tests."""

    def conversions() -> Iterator[tuple[str, Csr | sparse.csr_array]]:
        for spec in variants(key) if slow else [key]:
            yield from ((spec, HARD[name]) for name in names(spec))
        if slow:
            yield from ((key, a.astype(np.float32)) for a in few_for_others(key, tuple(HARD)).values())
        yield key, with_long_pointers(HARD["power law"])

    for spec, a in conversions():
        for launch in launches_of(spec, a, add=spec == key and key in ADDING):
            yield launch.source, launch.kernel


def launches_of(spec: str, a: Csr | sparse.csr_array, *, add: bool = False) -> list[Launch]:
    """What a product of a matrix in a format launches, converted on the host; with `add`, also to add to y."""
    ((cls, _),) = formats.parse(spec)
    csr = testing.suited(cls, a)
    try:
        fmt = testing.convert(spec, csr)
    except Skip:
        return []
    x, y = testing.vectors(cls, csr)
    return list(single_steps(fmt.launches(x, y) + (fmt.accumulate(x, y) if add else [])))


@pytest.fixture(scope="session")
def emulated(request):
    return together(request, __file__, instantiated, REPRESENTATIVES, EMULATED)


@pytest.mark.parametrize("spec", VARIANTS)
def test_decoding_gives_the_matrix_back(spec):
    over(spec, HARD | {"tall": TALL} if spec in KEYS else telling(), lambda a: testing.check_conversion(spec, a))


@pytest.mark.slow
@pytest.mark.parametrize("key", SINGLE)
def test_decoding_gives_single_precision_back(key):
    testing.over(HARD, lambda a: testing.check_conversion(key, a.astype(np.float32)))


@pytest.mark.parametrize("spec", representatives_first(VARIANTS))
def test_products_are_right_in_double_precision(spec, emulated):
    over(spec, telling(names(spec)), lambda a: testing.check_product(spec, a, emulated))


def spoils(fmt: Format, a: Csr, device) -> bool:
    """Whether an infinite element of x makes an element of y infinite or NaN whose row has no entry there."""
    rng = np.random.default_rng(0)
    pattern = sparse.csr_array((np.ones(a.nnz), a.col_idx, a.row_ptr), shape=a.shape)
    for infinite in ([0], [a.cols - 1], slice(0, None, 2), slice(1, None, 2), rng.random(a.cols) < 0.2):
        x, marked = np.ones(a.cols), np.zeros(a.cols)
        x[infinite], marked[infinite] = np.inf, 1
        y = np.asarray(multiply(fmt, x, device))
        if (~np.isfinite(y) & (pattern @ marked == 0)).any():
            return True
    return False


def nearly_full_blocks() -> sparse.csr_array:
    """Blocks of 4 x 4 on two diagonals without a tenth of their entries: what is made for blocks or diagonals pads."""
    rng = np.random.default_rng(3)
    blocks = sparse.diags_array([1.0, 1.0], offsets=[0, 5], shape=(60, 60))
    a = sparse.kron(blocks, rng.uniform(1, 2, (4, 4)), format="coo")
    kept = rng.random(a.nnz) > 0.1
    return sparse.csr_array((a.data[kept], (a.row[kept], a.col[kept])), shape=a.shape)


def check_padding(key: str, device) -> None:
    """The flag is what products show, of `auto` that of its candidates."""
    cls, found = formats.get(key), False
    for matrix in (nearly_full_blocks(), HARD["power law"]):
        with suppress(Skip):
            a = testing.suited(cls, matrix)
            found |= spoils(cls.from_csr(a.on(device.xp)), a, device)
    assert cls.multiplies_padding == (found or key == "auto")


@pytest.mark.parametrize("key", representatives_first(PRODUCTS))
def test_infinite_values_spread_where_a_format_says_so(key, emulated):
    check_padding(key, emulated)


@pytest.mark.gpu
@pytest.mark.parametrize("key", [key for key in KEYS if formats.get(key).op == "spmv"])
def test_infinite_values_spread_on_a_gpu_where_a_format_says_so(key):
    check_padding(key, open_device("cuda:0"))


def check_new_values(key: str, device, matrices: dict[str, sparse.csr_array]) -> None:
    """Put in place they are what a new conversion stores, to the bit; or the format says that values decide on that."""
    cls, found, tuning, xp = formats.get(key), [], Tuning(), device.xp

    def convert(a):
        tuning.begin()  # the first conversion of a matrix may time its choices, all later ones take what it found
        return cls.from_csr(a)

    with converting_for(device_limits(formats.Csr.of(next(iter(matrices.values()))).on(xp)), tuning=tuning):
        for dtype, met in ((np.float64, matrices), (np.float32, telling())):
            for matrix in met.values():
                with suppress(Skip):
                    a = testing.suited(cls, matrix).astype(dtype).on(xp)
                    fmt = convert(a)
                    where = places(fmt, a)
                    found.append(where is not None)
                    drawn = xp.asarray(np.random.default_rng(5).standard_normal(a.nnz).astype(dtype))
                    spoiled = xp.where(xp.arange(a.nnz) % 5 == 2, xp.nan, drawn)
                    for values in (drawn, xp.ones_like(drawn), -0.0 * drawn, spoiled) if where else ():
                        given = where.refilled(fmt, xp.zeros_like(values))
                        device.compile(where.launches(given, values)).run()
                        device.synchronize()
                        made = convert(replace(a.fresh(), values=values))
                        for name, array in made.arrays().items():
                            assert on_host(array).tobytes() == on_host(given.arrays()[name]).tobytes(), name
                        assert on_host(where.values(given)).tobytes() == on_host(values).tobytes()
    assert found and set(found) == {not cls.values_decide}


@pytest.mark.parametrize("key", representatives_first(PRODUCTS))
def test_new_values_in_place_are_a_new_conversion(key, emulated):
    check_new_values(key, emulated, HARD if key in REPRESENTATIVES else telling())


@pytest.mark.gpu
@pytest.mark.parametrize("key", [key for key in KEYS if formats.get(key).op == "spmv"])
def test_new_values_in_place_are_a_new_conversion_on_a_gpu(key):
    check_new_values(key, open_device("cuda:0"), telling())


@pytest.mark.parametrize("flag", flags.FLAGS)
def test_the_page_lists_the_formats_with_a_flag(flag):
    page = Path(formats.__file__).parents[2] / "docs" / "operator.md"
    if not page.is_file():
        pytest.skip("needs a checkout (git clone)")
    text = page.read_text(encoding="utf-8")
    assert in_page.updated(text, flags.markdown(flag), f"spmvbench.publishing.flags {flag}") == text


@pytest.mark.slow
@pytest.mark.parametrize("key", EMULATED)
def test_more_rows_than_16_bits_count(key, emulated):
    with testing.skipping():
        if key in SEARCHES:
            testing.check_product(key, TALL, emulated)
        else:
            check_one_product(key, TALL, emulated, 0.4 if formats.get(key).op == "spmspv" else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("key", SINGLE)
def test_products_are_right_in_single_precision(key, emulated):
    met = few_for_others(key, tuple(HARD))
    over_taken(met, lambda a: testing.check_product(key, a.astype(np.float32), emulated))


@pytest.mark.parametrize("key", representatives_first(ADDING))
def test_accumulate_adds_to_what_y_holds(key, emulated):
    def check(a):
        fmt = testing.convert(key, testing.suited(formats.get(key), a))
        x, y = np.ones(fmt.shape[1]), np.arange(1.0, fmt.shape[0] + 1)
        emulated.compile(fmt.accumulate(x, y)).run()
        row, _, value = fmt.to_coo()
        expected = np.arange(1.0, fmt.shape[0] + 1) + np.bincount(row, value, fmt.shape[0])
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)

    over_taken(few_for_others(key), check)


@pytest.mark.parametrize("key", representatives_first(EMULATED))
def test_no_race_and_no_access_out_of_bounds(key, checking):
    plain = formats.get(key).op == "spmv"  # of others several runs are one check

    def check(a):
        if key in SEARCHES:
            assert testing.check_product(key, a, checking) <= 1
        else:
            for share in (1.0,) if plain else (0.4, 0.02):
                check_one_product(key, a, checking, share)

    most = 5000 if plain else 1200  # the checking build is slow, and size adds nothing here
    every = few_for_others(key, tuple(HARD) if plain else TELLING)
    over_taken({name: a for name, a in every.items() if max(a.nnz, *a.shape) < most}, check)


IN_BOUNDS = {  # kernels that only other parameters or matrices reach, and what they meet
    ("power law", "wide"): (
        *("bro-ell[height=32]", "bro-coo[steps=16]", "bro-csr[lanes=4]", "blsi", "bro-hybr-s", "scoo[copies=2]"),
        *("tjad", "btjad[rows=40]", "pcsr[width=1024]", "tile-composite[width=32]"),
    ),
    ("power law", "wide", "long rows among empty"): ("coadell", "acsr[kernel=paper,bin_max=6]"),
    ("stencil", "3x3 blocks", "uniform 8"): ("cds", "ddd-naive[fill=0.01]", "ddd-split[fill=0.05]", "crsd[live=1]"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "met"), [(spec, met) for met, specs in IN_BOUNDS.items() for spec in specs])
def test_kernels_stay_in_bounds(spec, met, checking):
    for a in telling(met).values():
        testing.check_product(spec, a, checking)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", [spec for spec in VARIANTS if getattr(spec, "values", (spec,))[0].partition("[")[0] in SEARCHES]
)
def test_graphs_are_searched_right(spec, emulated):
    def check(a):
        testing.check_conversion(spec, a)
        testing.check_product(spec, a, emulated)

    # 2500 levels, of which other parameters meet 300 in the chain
    testing.over({name: a for name, a in GRAPHS.items() if spec in KEYS or name != "shuffled ring"}, check)


@pytest.mark.slow
@pytest.mark.parametrize("key", SEARCHES)
def test_no_race_in_searches(key, checking):
    def check(a):
        assert testing.check_product(key, a, checking) == 0

    testing.over({name: a for name, a in GRAPHS.items() if max(a.nnz, *a.shape) < 700}, check)


@pytest.mark.parametrize("key", representatives_first(EMULATED))
@settings(max_examples=6)
@given(data=st.data())
def test_any_small_matrix(key, emulated, data):
    rows, cols = data.draw(st.integers(0, 70)), data.draw(st.integers(1, 70))
    entries = data.draw(st.integers(0, 3 * rows))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    a = sparse.coo_array(
        (rng.standard_normal(entries), (rng.integers(0, max(rows, 1), entries), rng.integers(0, cols, entries))),
        shape=(rows, cols),
    ).tocsr()
    with suppress(Skip):  # whose reasons other tests check
        testing.check_conversion(key, a)
        testing.check_product(key, a, emulated)


@pytest.mark.parametrize("key", representatives_first(EMULATED))
def test_64_bit_row_pointers(key, emulated):
    wide = with_long_pointers(HARD["power law"])
    with testing.skipping():
        testing.check_conversion(key, wide)
        testing.check_product(key, wide, emulated)


@pytest.mark.parametrize("key", KEYS)
def test_too_large_is_refused_before_it_is_made(key):
    cls = formats.get(key)
    a = testing.suited(cls, HARD["one full row"])
    try:
        testing.convert(key, a)
    except Skip:
        pytest.skip(f"{key} refuses it whatever its size")
    with pytest.raises(Skip, match="over the limit of 1 kB") as refusal:
        cls.from_csr(a, max_bytes=1000)
    assert refusal.value.needed_bytes > 1000


def test_what_memory_there_is_limits_a_conversion_that_names_no_limit(monkeypatch):
    a = Csr.of(HARD["one full row"])
    cls, needed = formats.get("ell"), testing.convert("ell", a).nbytes
    monkeypatch.setattr(Csr, "free_bytes", 4 * needed)
    assert cls.from_csr(a).nbytes == needed
    monkeypatch.setattr(Csr, "free_bytes", 4 * needed - 1)
    with pytest.raises(Skip, match=f"{byte_text(needed)} for {a.nnz:,} nonzeros, over the limit of") as refusal:
        cls.from_csr(a)
    assert (refusal.value.needed_bytes, refusal.value.limit_bytes) == (needed, needed - 1)
    assert cls.from_csr(a, max_bytes=needed).nbytes == needed
    assert cls.converted(a).nbytes == needed


@pytest.mark.parametrize("key", ["hyb", "tile", "csr5-hub", "irregular"])
def test_parts_are_counted_with_the_whole_alone(key, monkeypatch):
    monkeypatch.setattr(Csr, "free_bytes", 0)
    assert formats.get(key).from_csr(HARD["power law"], max_bytes=10**6).nbytes > 0


def test_free_memory_is_the_hosts_where_numpy_holds_the_matrix():
    assert 2**20 < Csr.of(HARD["1xN"]).free_bytes <= psutil.virtual_memory().total


@pytest.mark.gpu
def test_free_memory_is_the_gpus_where_cupy_holds_the_matrix():
    import cupy

    free, total = cupy.cuda.Device().mem_info
    found = Csr.of(HARD["1xN"]).on(cupy).free_bytes
    assert free // 2 < found <= total


def widest(rows: int, entries: int) -> Csr:
    """As many columns as int32 counts, entries in all corners: rows + cols and rows * cols are beyond int32."""
    last = 2**31 - 2
    rng = np.random.default_rng(0)
    row = np.concatenate([[0, 0, rows - 1, rows - 1], rng.integers(0, rows, entries)])
    col = np.concatenate([[0, last, 0, last], rng.integers(0, last + 1, entries)])
    row, col = np.divmod(np.unique(row * (last + 1) + col), last + 1)
    row_ptr = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
    return Csr((rows, last + 1), row_ptr, col.astype(np.int32), np.arange(1.0, len(col) + 1))


WIDEST = [widest(3, 4), widest(70_000, 100)]


@pytest.mark.parametrize("key", KEYS)
def test_indices_do_not_overflow_where_there_are_2_to_the_31_columns(key):
    refused = []
    for a in WIDEST:
        try:
            fmt = formats.get(key).from_csr(a, max_bytes=64_000_000)
        except Skip as skip:
            refused.append(skip.reason)
            continue
        row, col, value = fmt.to_coo()
        order = np.lexsort((col, row))
        np.testing.assert_array_equal(row[order], a.row_idx)
        np.testing.assert_array_equal(col[order], a.col_idx)
        np.testing.assert_array_equal(value[order], a.values)
    other = [r for r in refused if "over the limit of 64 MB" not in r and not formats.get(key).square_only]
    if other:
        pytest.skip(f"{key} refuses it: {other[0]}")


@pytest.mark.parametrize("key", KEYS)
def test_every_format_says_what_it_is(key):
    cls = formats.get(key)
    assert cls.key == key
    assert cls.__doc__
    assert cls.reference
    assert cls.project_kernel == cls.reference.startswith("this project")
    assert cls.family
    assert formats.sources(cls)
    assert all(parameter.doc for parameter in cls.parameters().values())
    assert cls.resolve({}) == {name: parameter.default for name, parameter in cls.parameters().items()}


def test_launches_name_only_known_sources():
    for key in EMULATED:
        cls = formats.get(key)
        parts = [cls, *(cls.candidates() if hasattr(cls, "candidates") else ())]  # of which its row names the choice
        assert launched(key) <= {source for part in parts for source in formats.sources(part)}, key


@pytest.mark.gpu
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_on_the_gpu(key, dtype):
    device = open_device("cuda:0")
    # The key meets everything, its kernels with other parameters what tells them apart, once in single precision.
    met = {
        spec: HARD | {"tall": TALL} if spec == key else telling(names(spec) if dtype == np.float64 else FEW)
        for spec in variants(key)
    }
    met = {spec: {name: a.astype(dtype) for name, a in found.items()} for spec, found in met.items()}
    if key in EMULATED:  # else the vendor's library has the kernels
        with converting_for(device.limits):
            launches = [
                launch for spec, found in met.items() for a in found.values() for launch in launches_of(spec, a)
            ]
        device.functions(launches)  # on all cores at once; below they would be compiled one by one
    if key.startswith("cusparse"):  # the installed library may lack it
        with testing.skipping():
            testing.check_product(key, HARD["full"].astype(dtype), device)

    for spec in reversed(met):  # the key last: what it refuses makes a skipped test

        def check(a, spec=spec):
            testing.check_conversion(spec, a, device.xp)
            testing.check_product(spec, a, device)

        over(spec, met[spec], check)
