"""Guard words: arrays keep what they hold and where they are, and writes out of bounds are named."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.devices import open_device
from spmvbench.devices.guards import ALIGNMENT, GUARD, Guards
from spmvbench.formats import Launch

DEVICE = open_device("emulated")


@pytest.mark.parametrize("array", [np.arange(7.0), np.arange(12, dtype=np.int32).reshape(3, 4), np.ones(3, np.int8)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_held_array_is_the_same_apart_and_aligned(array, order):
    array = np.asarray(array, order=order)
    guards = Guards(DEVICE)
    with guards.leaving_room():  # the host's memory is not short: a copy all the same
        held = guards.hold("a", array)
    np.testing.assert_array_equal(held, array)
    assert (held.dtype, held.strides) == (array.dtype, array.strides)
    assert held.ctypes.data % ALIGNMENT == 0
    assert not np.shares_memory(held, array)


def beside(array, offset):
    """The byte so far from the array's begin (below 0) or its end."""
    from ctypes import c_ubyte

    address = array.ctypes.data + (offset if offset < 0 else array.nbytes + offset)
    return c_ubyte.from_address(address)


@pytest.mark.parametrize("offset", [-1, 0, -GUARD, GUARD - 1])
def test_a_write_out_of_bounds_is_named_once(offset):
    guards = Guards(DEVICE)
    held = {name: guards.hold(name, np.zeros(5)) for name in "xyz"}
    guards.watch()
    assert guards.overwritten() == []
    beside(held["y"], offset).value = 1
    held["x"][:] = 3
    assert guards.overwritten() == ["y"]
    assert guards.overwritten() == []


def test_a_format_is_held_between_guards_with_its_parts_and_still_decodes():
    a = sparse.random_array((50, 40), density=0.2, rng=np.random.default_rng(0)).tocsr()
    fmt = testing.convert("hyb", a)
    guards = Guards(DEVICE)
    held = guards.hold_format(fmt)
    assert held.arrays().keys() == fmt.arrays().keys()
    names = [name for name, array in held.arrays().items() if array.nbytes]
    assert any("." in name for name in names)  # of a part that is a format
    for name in names:
        beside(held.arrays()[name], 3).value = 0
    assert sorted(guards.overwritten()) == sorted(names)
    decoded = sparse.coo_array((held.to_coo()[2], held.to_coo()[:2]), shape=a.shape)
    np.testing.assert_array_equal(decoded.toarray(), a.toarray())


def test_nothing_and_what_has_gaps_stay_as_they_are():
    guards = Guards(DEVICE)
    for array in (np.zeros(0), np.zeros((6, 6))[::2, ::2]):
        assert guards.hold("a", array) is array
    guards.watch()
    assert guards.overwritten() == []


def test_before_anything_is_watched_nothing_is_overwritten():
    guards = Guards(open_device("emulated"))
    assert guards.overwritten() == []  # memory ran out before the first array was taken over, say
    guards.hold("y", np.zeros(3))
    assert guards.overwritten() == []


def test_checksums_tell_every_array_that_changes_and_the_order_of_its_words():
    arrays = [np.arange(1000.0), np.arange(999, dtype=np.int32), np.arange(7, dtype=np.int8)[1:], np.zeros(0)]
    sums = DEVICE.checksums(arrays)
    before = sums()
    assert sums() == before
    arrays[1][[5, 6]] = arrays[1][[6, 5]]
    arrays[2][-1] += 1
    assert [now == was for now, was in zip(sums(), before, strict=True)] == [True, False, False, True]


def mixed_sum(words):
    """What kernels/checksum.cu gives, of the words as unsigned integers."""
    word = words.astype(np.uint64) + np.arange(1, len(words) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return int((word ^ (word >> np.uint64(31))).sum())


def test_the_kernel_of_checksums_distinguishes_similar_arrays():
    row = np.arange(64, dtype=np.int32)
    other = row.copy()
    other[:2] += [3, -1]  # words times 1, 3, 5 would add up to the same
    arrays = [row, other, np.arange(7, dtype=np.int8)[1:], np.zeros(0)]
    addresses = np.array([array.ctypes.data for array in arrays], np.uint64)
    sizes, sums = np.array([array.nbytes for array in arrays], np.uint64), np.zeros(len(arrays), np.uint64)
    DEVICE.compile([Launch("checksum.cu", "checksum<0>", (2, len(arrays)), 32, (addresses, sizes, sums))]).run()
    assert sums.tolist() == [mixed_sum(row), mixed_sum(other), mixed_sum(arrays[2].view(np.uint8)), 0]
    assert sums[0] != sums[1]


@pytest.mark.gpu
def test_checksums_on_a_gpu():
    device = open_device("cuda:0")
    xp = device.xp
    arrays = [xp.arange(1 << 22), xp.arange(999, dtype=np.int32), xp.arange(7, dtype=np.int8)[1:], xp.zeros(0)]
    sums = device.checksums(arrays)
    before = sums()
    words = [arrays[0].get().view(np.uint32), arrays[1].get().view(np.uint32), arrays[2].get().view(np.uint8)]
    assert before == [*map(mixed_sum, words), 0]
    assert sums() == before
    arrays[1][5:7] = xp.asarray([6, 5], np.int32)
    arrays[2][-1] += 1
    assert [now == was for now, was in zip(sums(), before, strict=True)] == [True, False, False, True]


@pytest.mark.gpu
def test_what_is_allocated_with_room_for_guards_is_not_copied():
    device = open_device("cuda:0")
    xp, guards = device.xp, Guards(device)
    outside = xp.arange(5.0)
    with guards.leaving_room():
        whole, other = xp.arange(1000.0), xp.ones((30, 4), np.float32)
    assert guards.hold("whole", whole) is whole
    assert guards.hold("other", other.T).data.ptr == other.data.ptr
    for name, array in (("part", whole[:10]), ("outside", outside)):
        held = guards.hold(name, array)
        assert held.data.ptr != array.data.ptr
        assert (held == array).all()
    guards.watch()
    assert guards.overwritten() == []
    xp.ndarray(1, np.uint8, whole.data + (whole.nbytes + 7))[...] = 0
    xp.ndarray(1, np.uint8, other.data + -1)[...] = 0
    assert guards.overwritten() == ["whole", "other"]
    assert (whole == xp.arange(1000.0)).all()
