"""brcsd: which storage, and which lists of diagonals have kernels of their own."""

import numpy as np

from spmvbench import formats
from spmvbench.devices import multiply
from spmvbench.formats import Csr
from spmvbench.matrices.synthetic import generate


def part(spec, **params):
    return next(iter(formats.get("brcsd").from_csr(generate(spec, 1), **params).parts.values()))


def test_a_full_diagonal_is_dia_and_broken_ones_are_row_blocks():
    assert part("tridiag:4096").key == "dia"
    assert part("poisson2d:256").key == "dia"  # row blocks would be a little smaller
    a = generate("tridiag:4096", 1).tolil()
    a[0, 4000] = 1.0  # DIA would store a diagonal for it
    names = formats.get("brcsd").from_csr(a.tocsr()).parts
    assert list(names) == ["brcsd-2"]


def test_the_commonest_lists_have_kernels_with_their_offsets(emulated):
    a = Csr.of(generate("poisson2d:256", 1))
    fmt = formats.get("brcsd").from_csr(a, storage="brcsd-2", least=8)
    blocks = fmt.parts["brcsd-2"]
    assert [each.offsets for each in blocks.generated] == [(-256, -1, 0, 1, 256)]
    assert blocks.generated[0].blocks == 508 and sorted(blocks.members.tolist()) == list(range(512))
    x, y = np.ones(a.cols), np.zeros(a.rows)
    names = [launch.kernel for launch in fmt.launches(x, y)]
    assert names[0] == "brcsd_list<double, int, false, -256, -1, 0, 1, 256>" and names[1].startswith("brcsd_table")
    x = np.random.default_rng(0).uniform(1, 2, a.cols)
    expected = np.bincount(a.row_idx, a.values * x[a.col_idx], a.rows)
    np.testing.assert_allclose(multiply(fmt, x, emulated), expected, rtol=1e-13, atol=1e-13)
    assert not part("poisson2d:256", storage="brcsd-2", least=0).generated


def test_own_lists_repeat_shared_ones():
    own, shared = (part("poisson2d:256", storage=name) for name in ("brcsd-1", "brcsd-2"))
    assert len(own.pattern_ptr) == 513 and len(shared.pattern_ptr) == 4
    assert own.nbytes > shared.nbytes
