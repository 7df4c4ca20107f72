"""Files that lie: read right, or refused in one sentence, in bounded memory, and never computed with unchecked."""

import gzip
import io
import resource
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive, files, readers
from spmvbench.matrices.readers import harwell_boeing, matrix_market
from tests.archives import packed

REAL = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))


def refused(path, match=None):
    with pytest.raises(SpmvbenchError, match=match) as caught:
        files.read(path)
    assert path.name in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_reader_is_one_function_for_its_suffixes(write, monkeypatch):
    for suffix in (".own", ".own.gz"):
        monkeypatch.setitem(readers.READERS, suffix, lambda path: readers.Stored(sp.eye_array(2)))
        assert files.is_matrix_file(f"A{suffix}".upper())
        assert files.read(write(f"a{suffix}", b"")).toarray().tolist() == [[1, 0], [0, 1]]


# --- Matrix Market


@pytest.mark.parametrize(
    ("field", "entry"),
    [
        *(("real", f"1 1 {half}") for half in ("2,5", "0x10", "1.2.3", "1e5e6", "1e", "1-3", "nana", "7 8", "2 % two")),
        ("integer", "1 1 1.5"),
        ("pattern", "1 1.5"),
        ("pattern", "1 1 3"),
    ],
)
def test_half_a_number_and_one_of_another_kind_are_not_cut(write, field, entry):
    refused(write("a.mtx", REAL.replace("real", field) + f"2 2 1\n{entry}\n"), entry)


def test_what_numbers_may_look_like(write, monkeypatch):
    """The cheap rules and the exact ones agree, wherever the text is cut into chunks."""
    numbers = ["1", "-1", "1.", ".5", "-.5e-3", "1E5", "1.25e+07", "007", "nan", "-inf", "Infinity"]
    numbers += ["1.5D+3", "1.5d3", "-.25D-1  \r"]
    text = REAL + f"1 {len(numbers)} {len(numbers)}\n" + "".join(f"1 {k + 1}  {x}\t\n" for k, x in enumerate(numbers))
    expected = [float(x.lower().replace("d", "e")) for x in numbers]
    for chunk in (1, 2, 3, 7, 1 << 17):
        monkeypatch.setattr(matrix_market, "CHUNK", chunk)
        name = f"{chunk}.mtx"
        np.testing.assert_array_equal(files.read(write(name, text[:-1])).toarray()[0], expected)


def test_both_triangles_are_not_added(write):
    symmetric = REAL.replace("general", "symmetric")
    refused(write("a.mtx", symmetric + "3 3 3\n1 1 1\n1 2 5\n2 1 5\n"), "both triangles")
    mixed = files.read(write("b.mtx", symmetric + "3 3 3\n1 1 1\n1 2 5\n3 2 6\n")).toarray()
    np.testing.assert_array_equal(mixed, [[1, 5, 0], [5, 0, 6], [0, 6, 0]])


@pytest.mark.parametrize("sizes", ["2 3", "3 2"])
@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric", "hermitian"])
def test_only_a_square_array_is_symmetric(write, symmetry, sizes):
    field = "complex" if symmetry == "hermitian" else "real"
    text = f"%%MatrixMarket matrix array {field} {symmetry}\n{sizes}\n" + "1 0\n" * 6
    refused(write("a.mtx", text), f"is {symmetry} but")


@pytest.mark.parametrize(
    "text",
    [
        *(f"{REAL}{nul}\n" for nul in ("2 2 2\n1 1 1\0\n2 2 2", "2 2 1\n\x001 1 1", "2 2 1\n1 1 1\n\0", "2 2 1\0")),
        REAL + "9 9 81000000\n1 1 1\n",
        "%%MatrixMarket matrix array real general\n30000 30000\n1\n",
        REAL + "2000000000 2 1\n1 1 1\n",
        REAL + "2 2 99999999999999999\n1 1 1\n",
    ],
)
def test_a_nul_and_sizes_that_the_bytes_cannot_hold(write, text):
    refused(write("a.mtx", text))
    refused(write("a.mtx.gz", gzip.compress(text.encode())))


def peak_of(path, limit=1 << 31):
    """What a fresh process says that reads the file with 2 GB of address space."""
    code = f"""
from spmvbench.matrices import files
from spmvbench.errors import SpmvbenchError
try:
    print(files.read({str(path)!r}).shape)
except SpmvbenchError as error:
    print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        env={"OPENBLAS_NUM_THREADS": "1", "SPMVBENCH_HOME": str(path.parent / "home")},
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
def test_a_long_comment_takes_no_memory(write):
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    spaces = bytes(b" " * (1 << 20))
    data = packed.compress(REAL.encode() + b"%")
    data += b"".join(packed.compress(spaces) for _ in range(60))
    data += packed.compress(b"\n2 3 1\n1 1 1\n") + packed.flush()
    path = write("a.mtx.gz", data)
    assert peak_of(path) == "(2, 3)\n"
    more = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(more.compress(REAL.encode() + b"%") + b"".join(more.compress(spaces) for _ in range(80)))
    assert "over 300 times its size" in peak_of(path)


@pytest.mark.parametrize("field", ["real", "integer", "complex"])
def test_a_plus_before_a_number(write, field):
    values = ("+1", "-.5" if field != "integer" else "-5", "+2e+1" if field != "integer" else "+20")
    text = "".join(f"+{k} {k} {x} {x if field == 'complex' else ''}\n" for k, x in enumerate(values, 1))
    a = files.read(write("a.mtx", REAL.replace("real", field) + f"3 3 3\n{text}"), complex_values="real")
    np.testing.assert_array_equal(a.data, [float(x) for x in values])


@pytest.mark.parametrize(
    ("body", "line", "quoted"),
    [
        ("3 3 3\n1 1 1\n2 2 2\n9 9 3\n", 5, "9 9 3"),
        ("\n3 3 2\n\n1 1 1\n1 9 3\n", 6, "1 9 3"),
        ("3 3 2\n1 1 1\n2 2 2d0\nadded\n", 5, "added"),
        ("3 3 3\n1 1 1D0\n2 2 1D0 D\n", 4, "2 2 1D0 D"),
        ("3 3 1\n1 1 1\n2 2 2\n", 4, "2 2 2"),
        ("3 3 2\n0 1 1\n2 2 2", 3, "0 1 1"),
        ("3 three 2\n", 2, "3 three 2"),
        ("3 3 2\n1 1 1\n2 2 " + "7" * 5000, 4, "2 2 777"),
    ],
)
@pytest.mark.parametrize("comments", [0, 1, 10])
@pytest.mark.parametrize("chunk", [3, 1 << 17])
def test_errors_name_and_quote_the_line_of_the_file(write, monkeypatch, body, line, quoted, comments, chunk):
    monkeypatch.setattr(matrix_market, "CHUNK", chunk)
    text = REAL + "% added\n" * comments + body
    refused(write("a.mtx", text), f"line {line + comments}, '{quoted}")
    refused(write("a.mtx.gz", gzip.compress(text.encode())), f"line {line + comments}, '{quoted}")


@pytest.mark.parametrize("times", [2, 3, 1024, 2048])  # sums of int64 overflow, to a negative number and to 0
def test_duplicates_that_sum_beyond_what_is_exact(write, tmp_path, times):
    entries = f"1 1 {2**53}\n" * times
    refused(write("a.mtx", REAL.replace("real", "integer") + f"1 1 {times}\n{entries}"), "beyond 2")
    places = np.zeros(times, int)
    sp.save_npz(tmp_path / "a.npz", sp.coo_array((np.full(times, 2**53), (places, places)), shape=(1, 1)))
    refused(tmp_path / "a.npz", "beyond 2")
    sp.save_npz(tmp_path / "b.npz", sp.coo_array((np.full(times, 100, np.int8), (places, places)), shape=(1, 1)))
    assert files.read(tmp_path / "b.npz").data.tolist() == [100 * times]


# --- Harwell-Boeing


def one_entry(kind, form, value_form, value):
    """A Harwell-Boeing file of a 1 x 1 matrix."""
    sizes = ["".join(f"{n:14d}" for n in numbers) for numbers in ((3, 1, 1, 1), (1, 1, 1, 0))]
    lines = ["title".ljust(80), sizes[0], kind.ljust(14) + sizes[1], form.ljust(16) * 2 + value_form.ljust(20)]
    return "\n".join([*lines, f"{1:8d}{2:8d}", f"{1:8d}", value]) + "\n"


def test_a_format_of_many_fields_takes_no_memory(write):
    path = write("a.rua", one_entry("RUA", "(999999999I8)", "(4E20.12)", f"{'2.5D+0':>20}"))
    assert peak_of(path) == "(1, 1)\n"
    assert files.read(path).data[0] == 2.5
    wide = path.read_text().replace("(999999999I8)   ", "(9I99999999)    ")
    refused(write("b.rua", wide), "format")


@pytest.mark.parametrize("bad", ["0x1", "1_0", "1,5", "nan"])
def test_a_field_that_python_would_read_and_fortran_not(write, bad):
    refused(write("a.rua", one_entry("IUA", "(2I8)", "(4I8)", f"{bad:>8}")))


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("(1X,8I9)", "         1       -2        3        4"),
        ("(1X,2I4)", "    1  -2\n    3   4"),
        ("(1X,2(2X,I3))", "     1   -2\n    3    4"),  # what follows begins at the group
        ("(I4,2X,I3,I2,I1)", "   1   -2 34"),
        ("(2(1P,E10.2))", "  1.00E+00 -2.00E+00\n  3.00E+00  4.00E+00"),
        ("(1P,3E9.1)", "  1.0D+00 -2.0D+00  3.0D+00\n  4.0D+00"),
        ("(-1P2ES10.2E3)", "  1.0E+000 -2.0E+000\n  3.0E+000  4.0E+000"),
        ("(4EN9.1)", "  1.0E+00 -2.0E+00  3.0E+00  4.0E+00"),
        ("(0P,(4F5.1))", "  1.0 -2.0  3.0  4.0"),
        ("(1PG9.1,3G9.1)", "  1.0E+00 -2.0E+00  3.0E+00  4.0E+00"),
        ("(SP,4F5.1)", " +1.0 -2.0 +3.0 +4.0"),
        ("(999999999(1X,I3))", "   1  -2   3   4"),
    ],
)
def test_fortran_formats_of_a_number_a_field(form, body):
    lines = [line.encode() + b"\n" for line in body.splitlines()]
    found = harwell_boeing._numbers(lines, 4, form.ljust(20), "a.rua", "values")
    np.testing.assert_array_equal(found, [1, -2, 3, 4])


@pytest.mark.parametrize(
    ("form", "body", "message"),
    [
        ("(2I4", "   1   2", "format"),
        ("2I4", "   1   2", "format"),
        ("(2I4))", "   1   2", "format"),
        ("(I4,F4.1)", "   1 2.0", "format"),
        ("(I4/I4)", "   1\n   2", "format"),
        ("(99X)", "   1   2", "format"),
        ("(9999999X,2I4)", "   1   2", "format"),
        ("()", "   1   2", "format"),
        ("(1P,2F6.1)", "  10.0  20.0", "scales"),
        ("(2I4)", "   1", "ends before"),
        ("(I4)", "   1   2", "ends before"),
    ],
)
def test_other_fortran_formats_are_refused(form, body, message):
    lines = [line.encode() + b"\n" for line in body.splitlines()]
    with pytest.raises(SpmvbenchError, match=f"a.rua .*{message}"):
        harwell_boeing._numbers(lines, 2, form.ljust(20), "a.rua", "values")


# --- SciPy's .npz


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def saved(layout):
    file = io.BytesIO()
    sp.save_npz(file, sp.csr_array(np.arange(24.0).reshape(4, 6) % 5).asformat(layout))
    return dict(np.load(io.BytesIO(file.getvalue())))


def put(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


HOSTILE = [
    ("csr", {"indices": lambda a: put(a, 3, 6)}),
    ("csr", {"indices": lambda a: put(a, 3, -1)}),
    ("csr", {"indices": lambda a: put(a, 3, 1 << 30)}),
    ("csr", {"indptr": lambda a: put(a, 2, a[3] + 1)}),
    ("csr", {"indptr": lambda a: put(a, 2, -5)}),
    ("csr", {"indptr": lambda a: put(a, 0, 1)}),
    ("csr", {"indptr": lambda a: put(a, -1, 1 << 30)}),
    ("csr", {"indptr": lambda a: a[:-1]}),
    ("csr", {"data": lambda a: a[:-1]}),
    ("csr", {"data": lambda a: a[None]}),
    ("csr", {"data": lambda a: a.astype("S8")}),
    ("csr", {"shape": lambda a: put(a, 1, 3)}),
    ("csr", {"shape": lambda a: put(a, 1, -6)}),
    ("csr", {"shape": lambda a: np.array([4, 6, 1])}),
    ("csr", {"shape": lambda a: a.astype(float)}),
    ("csr", {"format": lambda a: np.array("lil")}),
    ("csr", {"format": lambda a: np.array(["csr", "csr"])}),
    ("csc", {"indices": lambda a: put(a, 3, 4)}),
    ("csc", {"indptr": lambda a: put(a, 2, 99)}),
    ("coo", {"row": lambda a: put(a, 3, 4)}),
    ("coo", {"col": lambda a: put(a, 3, -1)}),
    ("coo", {"col": lambda a: a[:-1]}),
    ("coo", {"shape": lambda a: np.array([1 << 40, 6])}),
    ("bsr", {"indices": lambda a: put(a, 0, 1 << 30)}),
    ("bsr", {"indptr": lambda a: put(a, 1, 99)}),
    ("bsr", {"data": lambda a: a[:, :0]}),
    ("dia", {"offsets": lambda a: put(a, 0, 1 << 30)}),
    ("dia", {"offsets": lambda a: put(a, 0, a[1])}),
    ("dia", {"offsets": lambda a: a[:-1]}),
]


@pytest.mark.parametrize(("layout", "change"), HOSTILE)
def test_npz_is_checked_before_scipy_computes_with_it(write, layout, change):
    arrays = saved(layout)
    files.read(write("good.npz", npz(**arrays)))
    arrays |= {key: turn(arrays[key]) for key, turn in change.items()}
    refused(write("a.npz", npz(**arrays)))


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<u2", "|i1", "|b1", "<c16"])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
def test_every_layout_of_npz_is_read(write, layout, dtype):
    arrays = saved(layout)
    arrays["data"] = arrays["data"].astype(dtype)
    found = files.read(write("a.npz", npz(**arrays)), complex_values="real").toarray()
    expected = np.arange(24.0).reshape(4, 6) % 5
    np.testing.assert_array_equal(*((found != 0, expected != 0) if dtype == "|b1" else (found, expected)))


def test_npz_with_objects_or_without_arrays(write):
    refused(write("a.npz", npz(**saved("csr") | {"data": np.array([{}] * 19, dtype=object)})))
    arrays = saved("csr")
    del arrays["indptr"]
    refused(write("b.npz", npz(**arrays)), "indptr")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("format.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((\n")
    refused(write("c.npz", file.getvalue()))


# --- MATLAB


def matlab(**variables):
    file = io.BytesIO()
    scipy.io.savemat(file, variables)
    return file.getvalue()


A = sp.csc_array(np.arange(24.0).reshape(4, 6) % 5)


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        ("indices", 3, 4),
        ("indices", 3, -1),
        ("indices", 3, 1 << 30),
        ("indptr", 2, 1 << 30),
        ("indptr", 2, -5),
        ("indptr", 6, 1 << 20),
        ("indptr", 0, 1),
    ],
)
def test_mat_is_checked_before_scipy_computes_with_it(write, part, place, value):
    data = matlab(Problem={"A": A}) if place % 2 else matlab(A=A)
    array = getattr(A, part).astype("<i4")
    assert data.count(array.tobytes()) == 1
    refused(write("a.mat", data.replace(array.tobytes(), put(array, place, value).tobytes())))


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        (265, struct.pack("<I", 17)), (349, struct.pack("<I", 1 << 31)), (352, b"\xff"), (353, b"\xff"),
        (597, struct.pack("<I", 1 << 31)), (689, b"\xff"),
    ],
)  # fmt: skip
def test_a_mat_file_that_ends_the_process_of_scipy_is_one_sentence(write, place, damage):
    """Each ends a process that calls loadmat."""
    data = matlab(Problem={"A": A, "Zeros": A})
    refused(write("a.mat", data[:place] + damage + data[place + len(damage) :]))


def mat(*variables):
    """A .mat file of version 5 by the specification: SciPy writes few of the kinds that others write."""

    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def variable(name=b"A", flags=5, dims=(2, 3), dims_kind=5, parts=((5, "<i4", [0, 1, 0]), (5, "<i4", [0, 2, 2, 3]))):
        shape = np.array(dims, "<i4").tobytes()
        content = element(6, struct.pack("<II", flags, 3)) + element(dims_kind, shape) + element(1, name)
        return element(14, content + b"".join(element(kind, np.array(x, dtype).tobytes()) for kind, dtype, x in parts))

    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(variable(**given) for given in variables)


PLACES = ((5, "<i4", [0, 1, 0]), (5, "<i4", [0, 2, 2, 3]))
VALUES = (*PLACES, (9, "<f8", [1, 2, 3]))
OPAQUE = {"name": b"f", "flags": 17, "parts": ((1, "<i1", [1, 2, 3]),)}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ([{"parts": VALUES}], [1, 3, 2]),
        ([{"parts": VALUES, "dims_kind": 6}], [1, 3, 2]),  # unsigned dimensions
        ([{"parts": VALUES, "name": "größe".encode()}], [1, 3, 2]),
        ([{"flags": 5 | 2 << 8, "parts": (*PLACES, (9, "|u1", [1, 1, 1]))}], None),  # logical, as MATLAB writes it
        ([{"flags": 5 | 2 << 8, "parts": (*PLACES, (2, "|u1", [1, 1, 1]))}], None),
        ([{"flags": 5 | 2 << 8, "parts": (*PLACES, (9, "<f8", [1, 1, 1]))}], None),
        ([{"parts": (*PLACES, (12, "<i8", [2**53, 2, 3]))}], [2**53, 3, 2]),
        ([OPAQUE, {"parts": VALUES}], [1, 3, 2]),
        ([{"name": b"\xff\xfe", "flags": 77}, {"parts": VALUES}], [1, 3, 2]),
        ([{"parts": VALUES}, OPAQUE], [1, 3, 2]),
        ([{"name": b"c", "flags": 1, "parts": ()}, {"parts": VALUES}], [1, 3, 2]),  # a cell array that is cut
    ],
)
def test_mat_files_that_others_write(write, variables, expected):
    a = files.read(write("a.mat", mat(*variables)))
    assert (a.shape, a.indices.tolist()) == ((2, 3), [0, 2, 0])
    if expected is None:
        assert (np.abs(a.data) >= 0.5).all() and (np.abs(a.data) < 1).all(), "a pattern has values of the seed"
    else:
        np.testing.assert_array_equal(a.data, expected)


@pytest.mark.parametrize("options", [{"do_compression": True}, {"format": "4"}, {"long_field_names": True}])
def test_mat_of_every_version(tmp_path, options):
    scipy.io.savemat(tmp_path / "a.mat", {"text": "words", "A": A, "dense": np.ones((2, 2))}, **options)
    np.testing.assert_array_equal(files.read(tmp_path / "a.mat").toarray(), A.toarray())


def test_mat_of_complex_and_of_truth_values(tmp_path):
    scipy.io.savemat(tmp_path / "c.mat", {"A": A * (1 + 2j)})
    np.testing.assert_array_equal(files.read(tmp_path / "c.mat", complex_values="real").toarray(), A.toarray())
    scipy.io.savemat(tmp_path / "l.mat", {"A": A.astype(bool)})
    assert (np.abs(files.read(tmp_path / "l.mat").data) >= 0.5).all()
    scipy.io.savemat(tmp_path / "d.mat", {"Problem": {"A": A.toarray()}})
    np.testing.assert_array_equal(files.read(tmp_path / "d.mat").toarray(), A.toarray())


# --- MPS

LP = """NAME          TEST
ROWS
 N  COST
 L  LIM 1
 G  LIM2
 E  MYEQN
COLUMNS
    X         COST               1.0   LIM 1              1.5
    X         LIM2              -1.0
    Y         COST               2.0   LIM 1             1e-3
    M         'MARKER'                 'INTORG'
    Z         MYEQN              4.0
RHS
    RHS       LIM 1              4.0   MYEQN              7.0
ENDATA
"""
FREE = LP.replace("LIM 1", "LIM1 ")


@pytest.mark.parametrize(
    "text", [LP, FREE, " ".join(FREE.split(" ")), FREE.replace("ENDATA", "BOUNDS\n UP B X 4\nENDATA")]
)
@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
def test_the_constraints_of_an_mps_file(write, text, pack):
    pytest.importorskip("highspy", reason="needs highspy (pip install highspy)")
    data = pack(text)
    a = files.read(write("A.MPS.gz" if data[:1] == b"\x1f" else "a.mps", data))
    assert a.toarray().tolist() == [[1.5, 1e-3, 0], [-1, 0, 0], [0, 0, 4]]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("LIM2              -1.0", "LIM1              -1.0", "duplicate"),
        ("LIM2              -1.0", "NOPE              -1.0", "NOPE"),
        ("-1.0", "-1.x", "number"),
        ("-1.0", "1.5D3", "number"),
        ("-1.0", "1e-13", "ignored"),
        ("    X         LIM2              -1.0", "* a comment\n X LIM2 -1.x", "number"),
        ("    X         LIM2              -1.0\n", " X NOPE 1\n", "number"),  # a name with blanks, and so fixed
        ("-1.0", "inf", "inf"),
        ("-1.0", "1e999", "inf"),
        ("-1.0", "", "coefficient"),
        ("ENDATA\n", "", "Parser"),
        (FREE[200:], "", "coefficient"),
        (FREE[3:], "", "Parser"),
        ("ROWS", "RWS", "COST"),
        ("COLUMNS\n", "", "unidentified"),
        (" G  LIM2\n", " G  LIM1\n", "LIM"),
        (" G  LIM2\n", " Q  LIM2\n", "Q"),
        (" G  LIM2\n", "", "LIM2"),
        ("    Z  ", "    X  ", "same name"),
        (FREE, "min x\nst\n x >= 1", "Parser"),
        (FREE, "\0\1\2", "Parser"),
        (FREE, "", "Parser"),
        (" N  COST\n L  LIM1 \n G  LIM2\n E  MYEQN\n", "", "COST"),
    ],
)
def test_mps_files_that_are_something_else(write, old, new, sentence):
    pytest.importorskip("highspy", reason="needs highspy (pip install highspy)")
    text = FREE.replace(old, new, 1)
    assert text != FREE
    refused(write("a.mps", text), sentence)
    refused(write("a.mps.gz", gzip.compress(FREE.encode())[:-20]), "Parser")


# --- archives


def test_a_matrix_in_an_archive_is_checked_too(write):
    path = write("a.tar.gz", packed(("a/a.mtx", (REAL + "2 2 1\n1 1 2,5\n").encode())))
    archive.check(path, "a")
    refused(path, "2,5")
