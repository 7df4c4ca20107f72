import gzip
import os
import tarfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import cache, files
from tests.archives import packed

REAL = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("SPMVBENCH_HOME", str(folder))
    return folder


def dense(path, **options):
    return files.read(path, **options).toarray()


def header(field, symmetry):
    return f"%%MatrixMarket matrix coordinate {field} {symmetry}\n% a comment\n"


def boeing(kind, shape, ptr, idx, values="", form="(4F8.2)", cards="", rhs_line=""):
    """A file with one line for each of its parts."""
    n_values = len(values.splitlines())
    cards = cards or f"{2 + n_values:14d}{1:14d}{1:14d}{n_values:14d}{1 if rhs_line else 0:14d}"
    lines = [f"{'title':72}{'key':8}", cards, f"{kind:14}" + "".join(f"{n:14d}" for n in (*shape, len(idx), 0))]
    lines += [f"{'(16I4)':16}{'(16I4)':16}{form:20}{'(4F8.2)' if rhs_line else '':20}"]
    lines += [rhs_line] if rhs_line else []
    lines += ["".join(f"{n:4d}" for n in numbers) for numbers in (ptr, idx)]
    return "\n".join([*lines, *values.splitlines()]) + "\n"


PLAIN = (REAL + "2 2 2\n1 1 1.5\n2 1 2\n").encode()
ARRAY = "%%MatrixMarket matrix array real symmetric\n2 2\n1\n5\n0\n"
THREE = ((3, 3), [1, 3, 4, 5], [1, 2, 2, 3])
FORMS = [
    ("    1.50   -2.00    3.00     .25", "(4F8.2)"),
    (" 1.5E+00-2.0E+00 3.0E+00 2.5E-01", "(1P,4E8.1)"),
    (" 1.5D+00-2.0D+00 3.0D+00\n 2.5D-01", "(3D8.1)"),
    ("1.5+000 -2.0+0003.0+000  2.5-001", "(4E8.1)"),
]
SIDES = boeing("RUA", (2, 2), [1, 2, 3], [1, 2], "    1.00    2.00", rhs_line="F 1 0") + "    9.00    9.00\n"
INTEGERS = boeing("iua", (2, 3), [1, 2, 2, 3], [2, 1], "   7  -3", "(16I4)", f"{3:14d} {1:13d} {1:13d} {1:13d}")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.mtx", header("real", "general") + "2 2 2\n1 1 7\n2 1 2\n", [[7, 0], [2, 0]]),
        ("a.mtx", header("real", "symmetric") + "2 2 2\n1 1 7\n2 1 2\n", [[7, 2], [2, 0]]),
        ("a.mtx", header("real", "skew-symmetric") + "2 2 1\n2 1 2\n", [[0, -2], [2, 0]]),
        ("a.mtx", header("complex", "hermitian") + "2 2 2\n1 1 1 0\n2 1 3 4\n", [[1, 3], [3, 0]]),
        ("a.mtx", header("integer", "general") + "2 2 3\n1 1 3\n1 1 4\n2 2 0\n", [[7, 0], [0, 0]]),
        ("a.MTX", REAL.replace("matrix", "MATRIX").replace("real", "Real").replace("\n", "\r\n") + "1 1 0\r\n", [[0]]),
        ("a.mtx", ARRAY, [[1, 5], [5, 0]]),
        ("a.mtx.gz", gzip.compress(PLAIN, mtime=0), [[1.5, 0], [2, 0]]),
        ("a.tar.gz", packed(("a/a.mtx", PLAIN)), [[1.5, 0], [2, 0]]),
        *(("a.rua", boeing("RUA", *THREE, *form), [[1.5, 0, 0], [-2, 3, 0], [0, 0, 0.25]]) for form in FORMS),
        *(("a.rsa", boeing("rsa", *THREE, *form), [[1.5, -2, 0], [-2, 3, 0], [0, 0, 0.25]]) for form in FORMS),
        ("a.hb", SIDES, [[1, 0], [0, 2]]),
        ("a.cua", boeing("CUA", (2, 2), [1, 2, 2], [2], "    1.00    2.00"), [[0, 0], [1, 0]]),
        ("a.rza", boeing("RZA", (2, 2), [1, 2, 2], [2], "   -2.00"), [[0, 2], [-2, 0]]),
        ("a.rb", INTEGERS, [[0, 0, -3], [7, 0, 0]]),
    ],
)
def test_what_files_hold(write, name, content, expected):
    a = files.read(write(name, content), complex_values="real")
    assert a.data.dtype == np.float64 and a.has_canonical_format
    np.testing.assert_array_equal(a.toarray(), expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mtx", header("pattern", "symmetric") + "3 3 4\n1 1\n2 1\n2 1\n3 3\n"),
        ("a.psa", boeing("PSA", (3, 3), [1, 3, 3, 4], [1, 2, 3])),
    ],
)
def test_a_symmetric_pattern_gets_symmetric_values(write, name, text):
    a = dense(write(name, text))
    assert np.flatnonzero(a).tolist() == [0, 1, 3, 8]
    np.testing.assert_array_equal(a, a.T)


def test_canonical_csr(write):
    a = files.read(write("a.mtx", REAL + "3 4 6\n3 4 1\n1 3 2\n1 1 3\n3 4 5\n2 2 0\n3 1 -1\n"))
    assert isinstance(a, sp.csr_array)
    assert (a.indptr.dtype, a.indices.dtype, a.data.dtype) == (np.int32, np.int32, np.float64)
    np.testing.assert_array_equal(a.indptr, [0, 2, 3, 5])
    np.testing.assert_array_equal(a.indices, [0, 2, 1, 0, 3])
    np.testing.assert_array_equal(a.data, [3, 2, 0, -1, 6])  # 1 + 5 summed, the zero kept
    assert a.has_canonical_format


def test_complex_is_refused_or_its_real_part(write):
    path = write("a.mtx", header("complex", "hermitian") + "2 2 2\n1 1 1 0\n2 1 3 4\n")
    for _ in range(2):  # parsed, then from the cache
        with pytest.raises(SpmvbenchError, match=r"a\.mtx is complex"):
            files.read(path)
        np.testing.assert_array_equal(dense(path, complex_values="real"), [[1, 3], [3, 0]])


def test_pattern_values_depend_on_seed_and_position_alone(write):
    entries = [(1, 1), (2, 1), (3, 1), (1, 3), (3, 3), (2, 2)]

    def text(order):
        return header("pattern", "general") + f"3 3 {len(order)}\n" + "".join(f"{i} {j}\n" for i, j in order)

    a = dense(write("a.mtx", text(entries)))
    np.testing.assert_array_equal(a, dense(write("b.mtx", text(entries[::-1]))))
    subset = dense(write("c.mtx", text(entries[:3])))
    np.testing.assert_array_equal(subset[:, 0], a[:, 0])
    other = dense(write("a.mtx", text(entries)), seed=1)
    assert (other[a != 0] != a[a != 0]).all()
    assert a[0, 2] != a[2, 0]


def test_pattern_values_are_of_both_signs_and_away_from_zero(write):
    pairs = "".join(f"{i + 1} {j + 1}\n" for i in range(100) for j in range(100))
    values = files.read(write("a.mtx", header("pattern", "general") + "100 100 10000\n" + pairs)).data
    assert 0.5 <= np.abs(values).min() <= np.abs(values).max() < 1
    assert abs(np.mean(values > 0) - 0.5) < 0.03
    assert abs(np.abs(values).mean() - 0.75) < 0.01
    assert len(np.unique(values)) > 9990


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (3, 3)])
def test_empty_matrices(write, shape):
    path = write("a.mtx", REAL + f"{shape[0]} {shape[1]} 0\n")
    for a in (files.read(path), files.read(path)):  # parsed, then from the cache
        assert (a.shape, a.nnz, a.indices.dtype) == (shape, 0, np.int32)


def test_harwell_boeing_agrees_with_scipy(tmp_path):
    a = sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csc")
    scipy.io.hb_write(tmp_path / "a.rua", a)
    assert abs(files.read(tmp_path / "a.rua") - a).max() < 1e-12


# --- MATLAB and SciPy


def test_matlab_problem_with_stored_zeros(tmp_path):
    a = sp.csc_array([[1.0, 0, 2], [0, 0, 3]])
    zeros = sp.csc_array([[0, 1.0, 0], [1, 0, 0]])
    scipy.io.savemat(tmp_path / "p.mat", {"Problem": {"A": a, "Zeros": zeros, "name": "G/p"}})
    read = files.read(tmp_path / "p.mat")
    np.testing.assert_array_equal(read.toarray(), a.toarray())
    assert read.nnz == 5
    assert np.count_nonzero(read.data == 0) == 2


def test_matlab_variables(tmp_path):
    a = sp.csc_array([[0, 1.0], [2, 0]])
    scipy.io.savemat(tmp_path / "one.mat", {"A": a, "b": np.ones(2)})
    np.testing.assert_array_equal(dense(tmp_path / "one.mat"), a.toarray())
    scipy.io.savemat(tmp_path / "none.mat", {"b": np.ones(2)})
    with pytest.raises(SpmvbenchError, match=r"none\.mat holds no sparse matrix"):
        files.read(tmp_path / "none.mat")


# --- bad input


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.mtx", ""),
        ("banner.mtx", "1 1 1\n1 1 1\n"),
        ("short.mtx", REAL + "2 2 3\n1 1 1.0\n"),
        ("long.mtx", REAL + "2 2 1\n1 1 1\n2 2 2\n"),
        ("outside.mtx", REAL + "2 2 1\n3 1 1.0\n"),
        ("zero-based.mtx", REAL + "2 2 1\n0 1 1.0\n"),
        ("letters.mtx", REAL + "2 2 1\na b c\n"),
        ("negative.mtx", REAL + "-2 2 1\n1 1 1\n"),
        ("field.mtx", "%%MatrixMarket matrix coordinate weird general\n2 2 0\n"),
        ("huge.mtx", REAL + "2 2 99999999999999\n1 1 1\n"),
        ("wide.mtx", REAL + "2 9999999999 1\n1 1 1\n"),
        ("oblong.mtx", header("real", "symmetric") + "2 3 1\n1 1 1\n"),
        ("cut.mtx.gz", gzip.compress((REAL + "3 3 9000\n" + "1 1 1.0\n" * 9000).encode(), mtime=0)[:60]),
        ("plain.mtx.gz", REAL),
        ("plain.tar.gz", REAL),
        ("junk.mat", "x"),
        ("junk.npz", "x"),
        ("empty.npz", ""),
        ("junk.rb", "x\ny\n"),
        ("elemental.rse", boeing("RSE", (2, 2), [1, 2, 3], [1, 2], "    1.00    2.00")),
        ("format.rua", boeing("RUA", (2, 2), [1, 2, 3], [1, 2], "    1.00    2.00", form="(4A8)")),
        ("number.rua", boeing("RUA", (2, 2), [1, 2, 3], [1, 2], "    1.00    2.x0")),
        ("point.rua", boeing("RUA", (2, 2), [1, 2, 3], [1, 2], "    1.00     200")),
        ("index.rua", boeing("RUA", (2, 2), [1, 2, 3], [1, 3], "    1.00    2.00")),
        ("pointer.rua", boeing("RUA", (2, 2), [1, 3, 2], [1, 2], "    1.00    2.00")),
        ("cut.rua", boeing("RUA", (2, 2), [1, 2, 3], [1, 2], "    1.00")),
        ("oblong.rsa", boeing("RSA", (3, 2), [1, 2, 3], [1, 2], "    1.00    2.00")),
    ],
)
def test_malformed_files_get_one_sentence_with_their_name(write, name, text):
    with pytest.raises(SpmvbenchError, match=name) as caught:
        files.read(write(name, text))
    assert "\n" not in str(caught.value)


def test_unknown_endings_and_absent_files(write, tmp_path):
    with pytest.raises(UsageError, match=r"a\.csv .*\.mtx"):
        files.read(write("a.csv", "1,2"))
    with pytest.raises(SpmvbenchError, match=r"no file .*b\.mtx"):
        files.read(tmp_path / "b.mtx")


# --- the cache


def parsed(monkeypatch):
    """Counts how often a file is really read."""
    calls = []
    original = files._parse
    monkeypatch.setattr(files, "_parse", lambda *given: calls.append(given) or original(*given))
    return calls


def test_second_read_comes_from_the_cache(write, monkeypatch, home, tmp_path):
    calls = parsed(monkeypatch)
    path = write("a.mtx", REAL + "2 2 2\n1 2 0.1\n2 1 0\n")
    before = set(tmp_path.iterdir())
    first, second = files.read(path), files.read(path)
    assert len(calls) == 1
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert set(tmp_path.iterdir()) - before == {home}, "nothing beside a user's own file"
    second.data[:] = 9  # the caller's copy, not the cache
    np.testing.assert_array_equal(files.read(path).data, first.data)


def test_another_user_s_cache_and_a_link_are_no_cache(write, monkeypatch, home, tmp_path):
    """Compiled code indexes with what it holds."""
    path = write("a.mtx", REAL + "2 2 2\n1 2 0.1\n2 1 0\n")
    first = files.read(path)
    (kept,) = (home / "cache").iterdir()
    moved = kept.rename(tmp_path / "moved")
    kept.symlink_to(moved)
    calls = parsed(monkeypatch)
    assert (files.read(path) != first).nnz == 0 and len(calls) == 1
    assert not kept.is_symlink()  # replaced by a cache of this user's
    try:
        os.chown(kept, 12345, 12345)
    except PermissionError:
        pytest.skip("needs root, who may give files away")
    assert (files.read(path) != first).nnz == 0 and len(calls) == 2
    assert kept.stat().st_uid == os.geteuid()


def test_cache_stands_beside_an_archive_of_home_and_a_changed_file_is_read_again(home):
    home.mkdir()
    path = home / "a.mtx"
    path.write_text(REAL + "1 1 1\n1 1 2\n")
    files.read(path)
    assert cache.location(path) == home.resolve() / "a.mtx.csr"
    assert {entry.name for entry in home.iterdir()} == {"a.mtx", "a.mtx.csr"}
    path.write_text(REAL + "1 1 1\n1 1 3\n")
    os.utime(path, ns=(1, 1))
    assert files.read(path).data[0] == 3


def test_pattern_values_are_not_frozen_in_the_cache(write, monkeypatch):
    calls = parsed(monkeypatch)
    path = write("a.mtx", header("pattern", "general") + "2 2 2\n1 1\n2 2\n")
    first = files.read(path, seed=1).data
    assert (files.read(path, seed=2).data != first).all()
    np.testing.assert_array_equal(files.read(path, seed=1).data, first)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: good[:-70],
        lambda good: b"",
        lambda good: b"\xff\x00" * 300,
        lambda good: good + bytes(64),
        lambda good: good.replace(b'"shape": [2', b'"shape": [3'),
        *(
            lambda good, line=line: line + b"\n" + bytes(200)
            for line in (b"null", b"[1]", b"[" * 50000, b"9" * 5000, b'"\\ud800"')
        ),
        *(
            lambda good, at=at: (
                good[: at % len(good)] + bytes([good[at % len(good)] ^ 1 << at % 8]) + good[at % len(good) + 1 :]
            )
            for at in range(0, 600, 23)
        ),
    ],
)
def test_damaged_cache_is_built_again_and_logged(write, caplog, damage):
    path = write("a.mtx", REAL + "2 2 2\n1 1 1.5\n2 2 2.5\n")
    expected = dense(path)
    kept = cache.location(path)
    good = kept.read_bytes()
    kept.write_bytes(damage(good))
    np.testing.assert_array_equal(dense(path), expected)
    assert kept.read_bytes() == good, "built again"


def test_the_longest_name_has_a_cache(write, caplog):
    path = write("a" * 251 + ".mtx", REAL + "1 1 1\n1 1 2\n")
    files.read(path)
    assert cache.location(path).exists()
    assert caplog.text == ""


def test_unwritable_cache_is_logged_and_harmless(write, home, caplog):
    home.write_text("a file where the folder should be")
    path = write("a.mtx", REAL + "1 1 1\n1 1 2\n")
    assert files.read(path).data[0] == 2
    assert "is not written" in caplog.text


# --- the collection's own


@pytest.mark.parametrize("name", ["HB/1138_bus", "HB/bcspwr02", "HB/west0479", "Pajek/GD96_c", "Bai/pde900"])
def test_archives_agree_with_mmread(mirror, name):
    group, short = name.split("/")
    path = mirror / "MM" / group / f"{short}.tar.gz"
    with tarfile.open(path) as tar:
        expected = scipy.io.mmread(tar.extractfile(f"{short}/{short}.mtx"), spmatrix=False).tocsr()
        field = tar.extractfile(f"{short}/{short}.mtx").readline().split()[3]
    a = files.read(path)
    np.testing.assert_array_equal(a.indptr, expected.indptr)
    np.testing.assert_array_equal(a.indices, expected.indices)
    if field != b"pattern":
        np.testing.assert_array_equal(a.data, expected.data)


def test_a_skew_symmetric_file_has_no_diagonal(write):
    boeing_of = boeing("RZA", (2, 2), [1, 3, 3], [1, 2], "    1.50   -2.00")
    market = "%%MatrixMarket matrix coordinate {} {}\n2 2 2\n1 1 {}\n2 1 {}\n"
    for name, text in (
        ("b.rza", boeing_of),
        ("b.mtx", market.format("real", "skew-symmetric", 1, 2)),
        ("c.mtx", market.format("complex", "hermitian", "1 3", "2 0")),
    ):
        with pytest.raises(SpmvbenchError, match="and its diagonal is not"):
            files.read(write(name, text), complex_values="real")
    zero = market.format("real", "skew-symmetric", 0, 2)
    np.testing.assert_array_equal(dense(write("zero.mtx", zero)), [[0, -2], [2, 0]])


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("layout", ["coordinate integer general\n1 1 1\n1 1 ", "array integer general\n1 1\n"])
def test_an_integer_that_double_precision_would_change_is_refused(write, layout, sign):
    text = f"%%MatrixMarket matrix {layout}{sign}{{}}\n"
    with pytest.raises(SpmvbenchError, match="integers beyond 2\\^53"):
        files.read(write("beyond.mtx", text.format(2**53 + 1)))
    beyond = write("beyond.npz", "")
    sp.save_npz(beyond, sp.csr_array(np.array([[int(f"{sign}{2**53 + 1}")]])))
    with pytest.raises(SpmvbenchError, match="integers beyond 2\\^53"):
        files.read(beyond)
    assert abs(dense(write("within.mtx", text.format(2**53)))[0, 0]) == 2**53
