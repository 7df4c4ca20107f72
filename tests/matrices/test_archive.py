import gzip
import io
import os
import tarfile

import numpy as np
import pytest

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import archive, files
from tests.archives import packed

TEXT = b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 -3\n"


def member(name, data=TEXT, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


def pack(path, *members):
    path.write_bytes(packed(*members))
    return path


def read(path, name):
    with archive.open_matrix(path, name) as file:
        return file.read()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tiny.tar.gz"


COMPANIONS = [
    member(f"tiny/{name}", b"other") for name in ("tiny_b.mtx", "tiny_x.mtx", "tiny_coord.mtx", "tiny_nodename.txt")
]
WAVES = [member(f"wave/wave_{name}.mtx", b"other") for name in "bx"]


@pytest.mark.parametrize(
    "members",
    [
        [member("tiny/tiny.mtx"), *COMPANIONS, member("tiny/a.mtx", b"other")],
        [member("tiny/a.mtx", b"other"), *COMPANIONS, member("tiny/tiny.mtx")],
        [WAVES[0], member("wave/wave.mtx"), WAVES[1]],  # renamed: by the name that its companions share
        [member("./tiny", b"", tarfile.DIRTYPE), member("./tiny/tiny.mtx")],
    ],
)
def test_the_matrix_is_found_among_companions_and_folders(path, members):
    pack(path, *members)
    archive.check(path, "tiny")
    assert read(path, "tiny") == TEXT


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (member("../tiny.mtx"), "leads out of its folder"),
        (member("tiny/../../tiny.mtx"), "leads out of its folder"),
        (member("/etc/tiny.mtx"), "leads out of its folder"),
        (member("tiny\\..\\tiny.mtx"), "leads out of its folder"),
        (member("tiny/link", b"", tarfile.SYMTYPE, "/etc/passwd"), "link or device"),
        (member("tiny/tiny.mtx", b"", tarfile.SYMTYPE, "../../etc/passwd"), "link or device"),
        (member("tiny/hard", b"", tarfile.LNKTYPE, "tiny/tiny.mtx"), "link or device"),
        (member("tiny/null", b"", tarfile.CHRTYPE), "link or device"),
        (member("tiny/pipe", b"", tarfile.FIFOTYPE), "link or device"),
    ],
)
def test_hostile_members_are_refused(path, hostile, reason):
    pack(path, hostile, member("tiny/tiny.mtx"))
    with pytest.raises(archive.BadArchive, match=reason):
        archive.check(path, "tiny")
    with pytest.raises(archive.BadArchive, match=reason):
        read(path, "tiny")


def test_a_bomb_is_refused_before_it_is_unpacked(path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_LIMIT", 1 << 20)
    pack(path, member("tiny/tiny.mtx", TEXT + bytes(64 << 20)))
    assert path.stat().st_size < 100_000
    given = []
    read_of = archive._Bounded.read
    monkeypatch.setattr(archive._Bounded, "read", lambda self, size: given.append(read_of(self, size)) or given[-1])
    with pytest.raises(archive.BadArchive, match="300 times its size"):
        archive.check(path, "tiny")
    assert sum(map(len, given)) <= 300 * path.stat().st_size
    with pytest.raises(archive.BadArchive, match="300 times its size"):
        read(path, "tiny")


def test_a_bomb_after_the_end_of_the_tar_is_refused(path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_LIMIT", 1 << 20)
    path.write_bytes(gzip.compress(gzip.decompress(packed(member("tiny/tiny.mtx"))) + bytes(64 << 20)))
    with pytest.raises(archive.BadArchive, match="300 times its size"):
        archive.check(path, "tiny")


def test_every_truncation_is_refused(path):
    pack(path, member("tiny/tiny.mtx", TEXT + os.urandom(3000)))
    whole = path.read_bytes()
    for size in (0, 1, 2, 9, 10, 11, 60, len(whole) // 2, *(len(whole) - lost for lost in (9, 8, 4, 1))):
        path.write_bytes(whole[:size])
        with pytest.raises(archive.BadArchive, match=r"tiny\.tar\.gz"):
            archive.check(path, "tiny")


def flipped(rng, data, most):
    """Bytes with one to three bits flipped among the first `most`."""
    found = bytearray(data)
    for place in rng.integers(0, min(most, len(data)), rng.integers(1, 4)):
        found[place] ^= 1 << rng.integers(8)
    return bytes(found)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_flipped_bits_are_refused_or_harmless(tmp_path, form):
    """800 damaged files: bits of the compressed bytes, and bits of the tar and the text below a sound gzip."""
    rng = np.random.default_rng(form)
    info, text = member("tiny/tiny.mtx", TEXT + b"% more\n" * 100)
    info.pax_headers = {"comment": "of a mirror"} if form == tarfile.PAX_FORMAT else {}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        tar.addfile(info, io.BytesIO(text))
    refused = []
    for name, plain in (("tiny.mtx.gz", text), ("tiny.tar.gz", file.getvalue())):
        for k in range(200):
            inner = k % 2 == 1
            data = gzip.compress(flipped(rng, plain, 1600), 1) if inner else flipped(rng, gzip.compress(plain), 1 << 20)
            path = tmp_path / name
            path.write_bytes(data)
            try:
                if name.endswith(".tar.gz"):
                    archive.check(path, "tiny")
                files._parse(path)
            except SpmvbenchError as error:
                refused.append(str(error))
    assert all(len(reason.splitlines()) == 1 and "tiny" in reason for reason in refused)
    assert len(refused) > 200


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([member("tiny/readme.txt")], r"no tiny/tiny\.mtx .*readme\.txt"),
        ([member("tiny/one.mtx"), member("tiny/two.mtx")], r"no tiny/tiny\.mtx"),
        ([member("tiny/tiny.mtx", b"1 2 3\n")], "not in Matrix Market format"),
        ([member(f"tiny/{i}") for i in range(6)], "over 5 members"),
    ],
)
def test_an_archive_without_the_matrix_is_refused(path, monkeypatch, members, reason):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)
    pack(path, *members)
    with pytest.raises(archive.BadArchive, match=reason):
        archive.check(path, "tiny")
