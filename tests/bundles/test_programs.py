"""Programs of rows made again: what agrees, what is another program, and what could not be made."""

import hashlib
import os
import pickle
import signal
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmvbench.bundles import programs
from spmvbench.bundles.findings import FAILED, NOTE, OPEN, PASSED, Bundle
from spmvbench.devices import cuda, open_device
from spmvbench.devices.base import CODE_HASH
from spmvbench.formats import Csr, Launch
from spmvbench.matrices.synthetic import generate
from spmvbench.rows import store
from spmvbench.rows.stored import parsed

RUN = Path(__file__).parents[2] / "results" / "published" / "h100-applications"
LABELS = (
    "csr-scalar",
    "merge-csr",
    "csr-adaptive-l",
    "sell",
    "sell-window",
    "hyb",
    "csr-gg",
    "cusparse-csr-alg1",
    "csr-lanes",
)
REAL = "maxwell:1"


@pytest.fixture(scope="module")
def published():
    rows = store.load(RUN)
    return rows[(rows["name"] == REAL) & rows["label"].isin(LABELS)], store.environment(RUN)["sessions"]


@pytest.fixture
def bundle(published, monkeypatch):
    """Rows of a run, whose machine code is made by a compiler that is not there: it hashes what it is asked for."""
    rows, sessions = published
    monkeypatch.setattr(programs, "_binary_hash", lambda *asked: hashlib.sha256(repr(asked).encode()).digest())
    monkeypatch.setattr(programs, "_nvrtc", lambda newest: "13.0")
    rows = rows[rows["label"].isin(["csr-scalar", "merge-csr", "sell-window"])].reset_index(drop=True)
    made = Bundle(RUN, None, rows, sessions)
    rows["target"] = [programs.Target.of(made.sessions_of(row)[0]) for row in rows.itertuples()]
    a = Csr.of(generate(REAL)).astype(np.float64)
    rows["code_hash"] = CODE_HASH
    for column in ("code_hash", "program"):  # the program counts the row's machine code
        hashes = [programs._made(a, row, parsed(row["params"]), {}) for _, row in rows.iterrows()]
        rows[column] = [made[column == "program"] for made in hashes]
    made.rows = rows.drop(columns="target")
    return made


def found(bundle, seconds=1e9):
    return [(finding.verdict, finding.text) for finding in programs.programs(bundle, seconds, lambda text: None)]


def changed(bundle, label, **values):
    rows = bundle.rows.copy()
    for name, value in values.items():
        rows.loc[rows["label"] == label, name] = value
    return Bundle(bundle.folder, None, rows, bundle.sessions)


def other_sessions(bundle, **properties):
    sessions = [session | {"properties": session["properties"] | properties} for session in bundle.sessions]
    return Bundle(bundle.folder, None, bundle.rows, sessions)


def test_published_rows_are_made_again(published):
    """Their hashes of machine code are of the first version."""
    verdicts = found(Bundle(RUN, None, *published))
    assert {verdict for verdict, _ in verdicts} <= {PASSED, NOTE, OPEN}, verdicts
    (passed,) = [text for verdict, text in verdicts if verdict == PASSED]
    total = len(LABELS)
    assert passed.startswith(f"launches and arrays made again from these sources: {total - 2} of {total}")
    (library,) = [text for verdict, text in verdicts if verdict == NOTE]
    code, tuned = [text for verdict, text in verdicts if verdict == OPEN]
    assert code.startswith(f"machine code of {total - 2} of {total} rows not made again: its hash covers folders")
    assert library == f"calls of a vendor's library, which are not made again: 1 of {total} rows"
    assert tuned == f"1 of {len(LABELS)} rows not made again, which were chosen by timing or by a model: csr-gg"


def test_processes_each_make_the_programs_of_a_matrix():
    assert list(programs._each(len, [("a", "b"), ("c", "d")], 2)) == [2, 2]


def test_a_killed_process_leaves_its_rows_open():
    named = [(("synthetic", "tridiag:9", "", ""), pd.DataFrame(index=[number])) for number in (3, 4)]
    left = [judged for found in programs._each(killed, named, 2) for judged in found]
    assert [judged.numbers for judged in left] == [[3], [4]]
    assert all("as for lack of memory" in judged.verdict for judged in left)


def killed(named):
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_processes_are_sent_and_find_can_be_sent(bundle, monkeypatch):
    def sent(made, of_matrices, workers):
        assert workers == 7
        here, there = pickle.loads(pickle.dumps((made, of_matrices)))
        return [pickle.loads(pickle.dumps(here(named))) for named in there]

    alone = found(bundle)
    monkeypatch.setattr(programs, "_each", sent)
    said = programs.programs(bundle, 1e9, lambda text: None, workers=7)
    assert [(finding.verdict, finding.text) for finding in said] == alone and alone[0][0] == PASSED


def test_rows_that_agree_pass(bundle):
    ((verdict, text),) = found(bundle)
    assert verdict == PASSED
    assert text.startswith("machine code and arrays made again from these sources: 3 of 3 rows")


@pytest.mark.parametrize("column", ["program", "code_hash"])
def test_another_program_of_these_sources_is_wrong(bundle, column, monkeypatch):
    monkeypatch.setattr(programs.sources, "installed", lambda key: "today")
    verdicts = found(changed(bundle, "csr-scalar", **{column: CODE_HASH + "0" * 16}, source_hash="today"))
    text = f"these sources make another program: 1 of 3 rows: {REAL} csr-scalar f64 spmv hot"
    assert [verdict for verdict, _ in verdicts] == [FAILED, PASSED] and (FAILED, text) in verdicts


def test_every_row_of_a_program_is_compared(bundle, monkeypatch):
    monkeypatch.setattr(programs.sources, "installed", lambda key: "today")
    bundle.rows["source_hash"] = "today"
    forged = bundle.rows.assign(mode="cold", code_hash=CODE_HASH + "0" * 16)
    bundle.rows = pd.concat([bundle.rows, forged], ignore_index=True)
    assert [(verdict, text.partition(": ")[2][:9]) for verdict, text in found(bundle)] == [
        (FAILED, "3 of 6 ro"),
        (PASSED, "3 of 6 ro"),
    ]


def test_another_program_of_other_sources_is_open(bundle):
    verdicts = found(changed(bundle, "merge-csr", program="0" * 16, source_hash="before"))
    text = "1 of 3 rows not made again, of other revisions of their formats, with other programs: merge-csr"
    assert (OPEN, text) in verdicts


def test_another_program_that_was_chosen_is_open(bundle):
    chosen = changed(bundle, "merge-csr", program="0" * 16, detail='{"chosen": "csr-lanes"}')
    assert (OPEN, "1 of 3 rows not made again, which were chosen by timing or by a model: merge-csr") in found(chosen)


@pytest.mark.parametrize("some", [False, True])
def test_other_machine_code_is_wrong_if_some_is_made_again(bundle, some, monkeypatch):
    before = programs._binary_hash

    def other(source, *asked):
        return before(source, *asked) if some and source == "csr/csr.cu" else b"of another compiler"

    monkeypatch.setattr(programs.sources, "installed", lambda key: "today")
    monkeypatch.setattr(programs, "_binary_hash", other)
    bundle.rows["source_hash"] = "today"
    verdicts = dict(found(bundle))
    if some:
        assert "2 of 3 rows" in verdicts[FAILED] and "1 of 3 rows" in verdicts[PASSED]
    else:
        assert list(verdicts) == [OPEN] and "it may be of another build of NVRTC" in verdicts[OPEN]


def test_machine_code_of_the_first_version_is_not_made(published, monkeypatch):
    rows, sessions = published
    rows = rows[rows["label"].isin(["csr-scalar", "merge-csr", "sell-window"])]
    bundle = Bundle(RUN, None, rows, sessions)
    monkeypatch.setattr(programs, "_nvrtc", lambda newest: "")
    monkeypatch.setattr(programs, "_binary_hash", lambda *asked: pytest.fail("compiled"))
    (passed, arrays), (unverified, code) = found(bundle)
    assert (passed, unverified) == (PASSED, OPEN)
    assert arrays.startswith("launches and arrays made again from these sources: 3 of 3 rows")
    assert code.startswith("machine code of 3 of 3 rows not made again: its hash covers folders and times")
    monkeypatch.setattr(programs.sources, "installed", lambda key: "today")
    forged = changed(bundle, "merge-csr", program="0" * 16, source_hash="today")
    assert (FAILED, f"these sources make another program: 1 of 3 rows: {REAL} merge-csr f64 spmv hot") in found(forged)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"nvrtc": "12.1"},
            "compiled by NVRTC 12.1, where 13.0 is here "
            "(pip install 'cuda-bindings==12.*' 'nvidia-cuda-nvrtc-cu12==12.1.*')",
        ),
        ({"nvrtc": "13.0; rm"}, "do not say for which architecture and by which NVRTC they compiled"),
        ({"architecture": "sm_90 -I/"}, "do not say for which architecture"),
        ({"architecture": None}, "do not say for which architecture"),
        ({"multiprocessors": "many"}, "do not say how many multiprocessors"),
        ({"architecture": "sm_80"}, "or how much shared memory, their GPU has"),
        ({"multiprocessors": 17}, "of other revisions of their formats, with other programs: sell-window"),
    ],
)
def test_what_runs_say_of_their_gpu_is_data(bundle, properties, text):
    bundle.rows["source_hash"] = "before"
    assert any(verdict == OPEN and text in said for verdict, said in found(other_sessions(bundle, **properties)))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"format": "no-such-format"}, "of formats that are not of this installation"),
        ({"bytes_format": 1 << 40}, "larger than 2 GiB"),
        ({"detail": '{"partition_s": 60}'}, "whose graphs take long to partition"),
        ({"op": "spmspv@0.1"}, "of other operations than y = A x and y = A^T x"),
        ({"op": "nonsense@"}, "of other operations than y = A x and y = A^T x"),
        ({"op": "spmv@9"}, "UsageError: "),
        ({"dtype": "f99"}, "KeyError: 'f99'"),
        ({"params": '{"no": 1}'}, "UsageError: merge-csr has no parameter no"),
        ({"params": "[[["}, "machine code and arrays made again"),  # none: the defaults
    ],
)
def test_what_is_not_made_again(bundle, values, text):
    assert any(text in said for _, said in found(changed(bundle, "merge-csr", **values)))


def test_the_command_makes_programs_if_it_is_given_time(command):
    place = RUN.with_name("h100-long-rows")
    rows = len(store.load(place))
    without, hardly = (command("check", place, "--seconds", "0", *more) for more in ((), ("--programs", "1e-9")))
    assert "programs" not in without.out
    assert (
        f"open    programs        {rows} of {rows} rows not made again, no time was left of 1e-09 s (--programs)"
        in hardly.out
    )
    assert without.code == hardly.code == 4


def test_time_ends_it(bundle):
    verdicts = found(bundle, seconds=0)
    assert verdicts == [
        (OPEN, "3 of 3 rows not made again, no time was left of 0 s (--programs): csr-scalar; merge-csr; sell-window")
    ]


@pytest.mark.parametrize(("column", "value"), [("device", "emulated"), ("program", "")])
def test_rows_without_a_program_of_a_gpu_are_named(bundle, column, value):
    text = "of 3 rows not made again, of the emulated device or without the hash of a program"
    assert (OPEN, f"1 {text}") in found(changed(bundle, "merge-csr", **{column: value}))
    bundle.rows[column] = value
    assert found(bundle) == [(OPEN, f"3 {text}")]


ARRAYS = [
    np.random.default_rng(0).integers(0, 256, n).astype(np.uint8) for n in (0, 1, 3, 4, 5, 1000, 4 * 65536 + 8, 300_001)
]


@pytest.mark.parametrize("array", ARRAYS, ids=len)
def test_checksums_are_those_of_the_kernel(array):
    device = open_device("emulated")
    sums = np.zeros(1, np.uint64)
    spans = np.array([array.ctypes.data], np.uint64), np.array([array.nbytes], np.uint64)
    device.compile([Launch("checksum.cu", "checksum<0>", (2, 1), 256, (*spans, sums))]).run()
    assert int(sums[0]) == programs.checksum(array)


@pytest.mark.gpu
def test_checksums_are_those_of_a_gpu():
    device = open_device("cuda:0")
    copies = [device.to_device(array) for array in (*ARRAYS, np.linspace(0, 1, 1001).reshape(7, 143))]
    hosts = [*ARRAYS, np.linspace(0, 1, 1001)]
    assert device.checksums(copies)() == list(map(programs.checksum, hosts))


def elf(sections):
    """A file of ELF, 64 bits, with sections by name: type and content."""
    names = b"\0.names\0" + b"\0".join(name.encode() for name in sections) + b"\0"
    made, headers = bytearray(64) + names, struct.pack("<IIQQQQ24x", 0, 0, 0, 0, 0, 0)
    headers += struct.pack("<IIQQQQ24x", 1, 3, 0, 0, 64, len(names))
    for name, (kind, content) in sections.items():
        headers += struct.pack("<IIQQQQ24x", names.index(name.encode()), kind, 0, 0, len(made), len(content))
        made += content
    made[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", made, 0x28, len(made))
    struct.pack_into("<3H", made, 0x3A, 64, 2 + len(sections), 1)
    return bytes(made + headers)


SECTIONS = {".text.k": (1, b"code"), ".nv.shared": (8, b""), ".debug_line": (1, b"/here 1"), ".note.nv": (7, b"1")}


@pytest.mark.parametrize(
    ("name", "content", "counts"),
    [
        (".text.k", (1, b"edoc"), True),
        (".nv.shared", (8, b"1"), True),
        (".debug_line", (1, b"/elsewhere 2"), False),
        (".note.nv", (7, b"2"), False),
    ],
)
def test_what_names_sources_and_compilers_does_not_count(name, content, counts):
    before, after = elf(SECTIONS), elf(SECTIONS | {name: content})
    assert (cuda.binary_hash(before) != cuda.binary_hash(after)) == counts and before != after


@pytest.mark.parametrize(
    "binary",
    [
        b"",
        b"\x7fELF",
        elf(SECTIONS)[:90],
        elf(SECTIONS)[:62] + b"\xff\xff" + elf(SECTIONS)[64:],
        b"\x7fELF\x01" + elf(SECTIONS)[5:],
    ],
)
def test_what_is_no_elf_counts_as_a_whole(binary):
    assert cuda.binary_hash(binary) == hashlib.sha256(binary).digest()


def test_hashes_of_code_depend_on_their_order():
    one, other = cuda.binary_hash(b"one"), cuda.binary_hash(b"other")
    assert cuda.code_hash([]) == "" and len(cuda.code_hash([one]).removeprefix(CODE_HASH)) == 16
    assert cuda.code_hash([one, other]) != cuda.code_hash([other, one])
