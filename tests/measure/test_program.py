"""Program hash: equal for formats that run the same steps on the same data under any names."""

from dataclasses import replace

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.devices import open_device
from spmvbench.formats import Call, Format, Launch, Loop, Struct, flat, in_part, single_steps
from spmvbench.measure.program import program_hash, read_only

DEVICE = open_device("emulated")
X, Y = np.ones(6), np.zeros(6)
POINTERS, VALUES = np.array([0, 2, 5], np.int32), np.array([1.0, 2.0, 3.0])


class Stored(Format):
    """Two arrays."""

    one: object
    two: object


class Renamed(Format):
    """The same two under other names, and an unused one."""

    b: object
    a: object
    unused: object


class Ordered(Stored):
    """The same with x in another order."""

    order: object

    @property
    def x_order(self):
        return self.order


def stored(**fields):
    return Stored(shape=(2, 6), params={}, **{"one": POINTERS, "two": VALUES} | fields)


def launch(fmt=None, **changes):
    fmt = fmt or stored()
    args = (np.int32(2), fmt.one, fmt.two, np.zeros(4), X, Y)
    return replace(Launch("csr/csr.cu", "csr_scalar<double, int>", 4, 128, args), **changes)


def found(fmt, launches, code="a", x=X, y=Y):
    return program_hash(fmt, launches, DEVICE.checksums, x, y, code)


PLAIN = found(stored(), [launch()])


def test_names_parts_addresses_and_empty_launches_do_not_count():
    other = Renamed(shape=(2, 6), params={"p": 3}, b=POINTERS.copy(), a=VALUES.copy(), unused=np.ones(3))
    same = launch(args=(np.int32(2), other.b, other.a, np.full(4, 7.0), X, Y), grid=(4, 1), block=(128, 1, 1))
    nothing = launch(grid=(0, 5))
    assert found(other, in_part("rows", [nothing, same])) == PLAIN
    assert len(PLAIN) == 16
    assert found(stored(), [launch()]) == PLAIN


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "csr_scalar<double, int, 2>"},
        {"grid": 5},
        {"block": 64},
        {"block": (64, 2)},
        {"shared_bytes": 8},
        {"args": (np.int32(3), POINTERS, VALUES, np.zeros(4), X, Y)},
        {"args": (np.int64(2), POINTERS, VALUES, np.zeros(4), X, Y)},
        {"args": (np.int32(2), POINTERS, VALUES, np.zeros(5), X, Y)},  # more scratch space
        {"args": (np.int32(2), POINTERS, VALUES, np.zeros(4, np.float32), X, Y)},
        {"args": (np.int32(2), POINTERS, VALUES, np.zeros(4), Y, X)},
        {"args": (np.int32(2), POINTERS, VALUES[:2], np.zeros(4), X, Y)},
        {"args": (np.int32(2), POINTERS, VALUES, np.zeros(4), X, Y, VALUES)},
    ],
)
def test_every_property_of_a_launch_counts(changes):
    assert found(stored(), [launch(**changes)]) != PLAIN


def test_content_counts_for_stored_arrays_and_not_for_scratch_x_and_y():
    for field, array in (("one", POINTERS + 1), ("two", VALUES[::-1].copy()), ("two", VALUES.reshape(1, 3))):
        fmt = stored(**{field: array})
        assert found(fmt, [launch(fmt)]) != PLAIN
    orders = [np.arange(6), np.arange(6)[::-1].copy(), np.arange(6, dtype=np.int32)]
    kept = [Ordered(shape=(2, 6), params={}, one=POINTERS, two=VALUES, order=order) for order in orders]
    assert len({PLAIN, *(found(fmt, [launch(fmt)]) for fmt in kept)}) == 4, "the order of x counts"
    args = (np.int32(2), POINTERS, VALUES, np.full(4, np.nan), X + 1, Y + 1)
    assert found(stored(), [launch(args=args)], x=args[4], y=args[5]) == PLAIN


TABLE_KERNEL = """
// __global__ void reads(float* not, float* this, float* one);
template <typename V, typename I = Pair<int, int>>
__global__ void __launch_bounds__(128)
reads(const V* __restrict__ table, /* of, b */ V const* carries, V* __restrict__ y) {}
template <typename V>
__global__ void writes(Pair<const int*, V> pair, V* carries) {}
"""


def test_content_counts_for_tables_and_not_for_writable_arrays(tmp_path):
    source = tmp_path / "kernels.cu"
    source.write_text(TABLE_KERNEL)

    def run(table, carries, *more):
        reads = Launch(str(source), "reads<double, int>", 1, 32, (table, carries, Y))
        return found(stored(), [*more, reads], code="")

    table, other, carries, later = (np.full(4, value) for value in (1.0, 2.0, 3.0, 4.0))
    assert run(table, carries) == run(table.copy(), carries.copy())
    assert len({run(table, carries), run(other, carries), run(table, later)}) == 3

    def written(array, grid=1):
        return Launch(str(source), "writes<double>", grid, 32, (np.int32(1), array))

    assert run(table, carries, written(carries)) == run(table, later, written(later))
    assert run(table, carries, written(carries)) != run(other, carries, written(carries))
    assert run(table, carries, written(carries, 0)) != run(table, later, written(later, 0))  # a step without effect
    call = Call("make", lambda stream: None, (carries,))
    assert run(table, carries, call) == run(table, later, replace(call, args=(later,)))
    whole, another = np.zeros(8), np.ones(8)
    assert run(table, whole[4:], written(whole)) == run(table, another[4:], written(another))  # a part of it


def test_an_array_taken_twice_is_not_two_equal_ones():
    twice = stored(two=POINTERS.copy())
    assert found(twice, [launch(twice)]) != found(stored(two=POINTERS), [launch(stored(two=POINTERS))])
    scratch = np.zeros(4)

    def scratched(first, second):
        return found(stored(), [launch(args=(first, second, Y))])

    assert scratched(scratch, scratch) != scratched(scratch, np.zeros(4))


def test_order_and_repetitions_of_steps_count():
    steps = [launch(), launch(grid=2)]
    more = np.zeros(1, np.int32)
    loops = [Loop(tuple(steps), more, 10), Loop(tuple(steps), more, 11), Loop((steps[0],), more, 10)]
    every = [[*steps], steps[::-1], [*steps, steps[0]], *([loop] for loop in loops)]
    assert len({found(stored(), chosen) for chosen in every}) == len(every)


def test_the_code_hash_counts_or_else_the_text_of_its_files():
    assert found(stored(), [launch()], code="b") != PLAIN
    texts = {found(stored(), [launch(source=source)], code="") for source in ("csr/csr.cu", "vector.cu", "csr/csr.cu")}
    assert len(texts) == 2


SOURCE = """template <typename V> struct Given { const int* __restrict__ index; V* found; int n; };
template <typename V> __global__ void k(int n, const Given<V> given, const V* x, V* y) {}
__global__ void l(Given<float>* several) {}"""


def test_members_of_a_struct_that_are_pointers_to_const_are_read_only(tmp_path):
    path = tmp_path / "given.cu"
    path.write_text(SOURCE)
    assert read_only(str(path), "k") == (False, True, False, False, True, False)
    assert read_only(str(path), "l") == (False,)


@pytest.mark.parametrize("key", ["tile", "tile-deferred-coo[defer=0]", "dasp", "tile-spmspv", "tile-bfs"])
def test_structs_of_kernels_are_declared_so_that_their_members_are_known(key):
    ((cls, _),) = formats.parse(key)
    a = formats.Csr.of(testing.hard_matrices()["power law" if cls.op != "bfs" else "3x3 blocks"])
    found = False
    for step in single_steps(testing.convert(key, testing.suited(cls, a)).launches(*testing.vectors(cls, a))):
        if any(isinstance(arg, Struct) for arg in step.args):
            found = True
            flags = read_only(step.source, step.kernel.partition("<")[0])
            assert len(flags) == len(list(flat(step.args)))
            assert any(flags)
    assert found


def test_a_library_call_is_identified_by_its_name_and_the_formats_parameters():
    def called(name, **params):
        fmt = Stored(shape=(2, 6), params=params, one=POINTERS, two=VALUES)
        return found(fmt, [Call(name, lambda stream: None, (POINTERS, VALUES, X, Y))], code="")

    assert called("spmv", a=1, b=2) == called("spmv", b=2, a=1)
    assert len({called("spmv", a=1), called("spmv", a=2), called("spmm", a=1)}) == 3


def of(spec, a):
    ((cls, _),) = formats.parse(spec)
    x, y = testing.vectors(cls, formats.Csr.of(a))
    fmt = testing.convert(spec, a)
    return program_hash(fmt, fmt.launches(x, y), DEVICE.checksums, x, y)


def test_formats_with_different_rules_can_be_one_program():
    diagonal, power_law = (testing.hard_matrices()[name] for name in ("diagonal", "power law"))
    assert of("ell", diagonal) == of("hyb", diagonal) == of("hec", diagonal) != of("csr-scalar", diagonal)
    assert of("ell", power_law) != of("hyb", power_law)
