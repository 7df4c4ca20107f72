"""Every option that names an output file: regular files, links, FIFOs, devices and standard output."""

import errno
import io
import os
import stat
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spmvbench.cli import terminal

RUN = Path(__file__).parents[2] / "results/published/h200-survey"


def is_bundle(content):
    return "bundle.json" in zipfile.ZipFile(io.BytesIO(content)).namelist()


# The command before the file, and what the file holds.
COMMANDS = {
    "export": (["export", RUN, "--to", "csv", "--table", "formats", "--out"], lambda c: c.startswith(b"Table,Format,")),
    "bundle": (["bundle", RUN, "--out"], is_bundle),
    "info": (["info", "diag:5", "--image"], lambda c: c.startswith(b"\x89PNG")),
}


@pytest.fixture(params=COMMANDS)
def write(command, request):
    """Runs a command with a file's name, and says whether bytes are what it writes."""
    args, right = COMMANDS[request.param]
    return (lambda target: command(*args, target)), right


def test_a_fifo_gets_the_bytes_and_stays(write, tmp_path):
    call, right = write
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(fifo.read_bytes)
        assert call(fifo).code == 0
        assert right(read.result())
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert list(tmp_path.iterdir()) == [fifo]


def test_a_character_device_stays_and_a_block_device_is_refused(write, tmp_path):
    call, _ = write
    null, disk = tmp_path / "null", tmp_path / "disk"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        null.write_bytes(b"")
        os.mknod(disk, 0o600 | stat.S_IFBLK, os.makedev(240, 77))
    except PermissionError:
        pytest.skip("needs a user who may make and open devices")
    assert call(null).code == 0 and stat.S_ISCHR(null.lstat().st_mode)
    result = call(disk)
    assert result.code == 1 and "block device" in result.err and len(result.err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == [disk, null]


def test_the_target_of_a_link_is_replaced_whole_and_the_link_stays(write, tmp_path):
    call, right = write
    target, link, dangling = tmp_path / "there" / "a", tmp_path / "link", tmp_path / "dangling"
    target.parent.mkdir()
    target.write_bytes(b"before")
    target.chmod(0o640)
    link.symlink_to("there/a")
    dangling.symlink_to("there/b")
    before = target.stat().st_ino
    for name in (link, dangling):
        assert call(name).code == 0
        assert name.is_symlink() and right(name.read_bytes())
    assert target.stat().st_ino != before  # renamed, so nobody saw half of it
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in target.parent.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_dash_is_standard_output_and_only_what_was_asked_for_goes_there(write, tmp_path, monkeypatch, encoding):
    call, right = write
    monkeypatch.chdir(tmp_path)
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        with terminal.guarded():
            assert call("-").code == 0
    assert right(stream.buffer.getvalue())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_standard_output_keeps_what_was_written_before(write, tmp_path):
    call, right = write
    out = tmp_path / "out"
    with open(out, "wb", buffering=0) as file:
        file.write(b"before\n")
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            code = call("/dev/stdout").code
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        file.write(b"")
    assert code == 0
    head, _, rest = out.read_bytes().partition(b"\n")
    assert head == b"before" and right(rest)


def test_a_folder_a_full_device_and_no_folder_are_one_line(write, tmp_path):
    call, _ = write
    missing = tmp_path / "none" / "file"
    for target, said in ((tmp_path, "is a directory"), ("/dev/full", "No space left"), (missing, "no such folder")):
        result = call(target)
        assert result.code in (1, 2) and said in result.err, target
        assert len(result.err.splitlines()) <= 4 and "defect" not in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_made_has_the_name_that_was_asked_for(write, tmp_path, monkeypatch):
    def refuse(temporary, target):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(temporary))

    monkeypatch.setattr(Path, "replace", refuse)
    result = write[0](tmp_path / "a.png")
    assert result.code == 1 and result.err == f"Error: Read-only file system ({tmp_path / 'a.png'})\n"


def test_a_report_is_a_folder(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for option in ("--out", "--site"):
        result = command("report", RUN, option, "-")
        assert result.code == 2 and "cannot go to standard output" in result.err
    assert list(tmp_path.iterdir()) == []
