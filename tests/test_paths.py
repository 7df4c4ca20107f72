"""Atomic writes, locks and folders: leftovers of killed processes are removed, those of running ones are kept."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from spmvbench import paths
from spmvbench.paths import locked, opened, output, scratch, trusted_folder, written_whole


def given_away(path):
    """Give a file to another user."""
    try:
        os.chown(path, 12345, 12345)
    except PermissionError:
        pytest.skip("needs root, who may give files away")


@pytest.mark.parametrize("make", [lambda path: written_whole(path / "a[1]"), scratch], ids=["file", "folder"])
def test_what_killed_processes_left_long_ago_is_removed_and_nothing_else(tmp_path, make):
    """By name, by age, by kind, and by owner; an attacker's link is neither followed nor opened."""
    prefix = ".scratch." if make is scratch else ".a[1]."
    old, young, link, other = (tmp_path / f"{prefix}{n}{paths.SUFFIX}" for n in range(4))
    names = [tmp_path / "mine", tmp_path / ".a1.0.spmvbench-tmp", tmp_path / f"{prefix}0123abcd"]
    for path in (old, young, other, *names):
        path.mkdir() if make is scratch else path.touch()
    link.symlink_to("mine")
    for path in (old, other, *names):
        os.utime(path, (1e9, 1e9))
    given_away(other)
    before = set(tmp_path.iterdir())
    with make(tmp_path):
        assert before - set(tmp_path.iterdir()) == {old}
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "a[1]"}


def fail(file):
    file.write(b"after")
    raise KeyboardInterrupt


def test_a_failed_write_keeps_the_old_file(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), written_whole(target) as file:
        fail(file)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_named(tmp_path):
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(OSError, match="No space left") as raised,
        written_whole(tmp_path / "a"),
    ):
        full.write(b"x")
    assert raised.value.filename == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


HOLD_LOCK = """
import sys
from pathlib import Path
from spmvbench.paths import locked
with locked(Path(sys.argv[1])) as had:
    print(had, flush=True)
    input()
"""


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path):
    lock = tmp_path / "new" / "lock"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD_LOCK, lock], **pipes) as other:
        assert other.stdout.readline() == "True\n"
        with locked(lock, lambda: True) as had:
            assert not had
        other.kill()
    with locked(lock) as had:
        assert had


def test_another_user_s_folders_are_not_this_user_s(tmp_path):
    folder = trusted_folder(tmp_path / "new" / "cache")
    given_away(folder)
    with pytest.raises(PermissionError, match="belongs to another user"):
        trusted_folder(folder)


def test_a_folder_that_everybody_may_write_to_is_not_trusted(tmp_path):
    folder = trusted_folder(tmp_path / "new" / "cache")
    assert folder.is_dir() and trusted_folder(folder) == folder
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="everybody may write"):
        trusted_folder(folder)


def test_locks_and_caches_follow_no_link(tmp_path):
    (tmp_path / "precious").write_text("a user's")
    for name, leads in (("link", "precious"), ("dangling", "new")):
        (tmp_path / name).symlink_to(leads)
        with pytest.raises(OSError, match="symbolic link"), locked(tmp_path / name):
            pass
        with pytest.raises(OSError, match="symbolic link") as raised:
            opened(tmp_path / name, os.O_RDWR | os.O_CREAT)
        assert raised.value.filename == str(tmp_path / name)
    assert (tmp_path / "precious").read_text() == "a user's" and not (tmp_path / "new").exists()
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none")


def test_no_file_takes_the_place_of_a_device_or_fifo(tmp_path):
    target = tmp_path / "fifo"
    os.mkfifo(target)
    with pytest.raises(OSError, match="no regular file"), written_whole(target) as file:
        file.write(b"x")
    assert list(tmp_path.iterdir()) == [target] and stat.S_ISFIFO(target.lstat().st_mode)


def test_a_link_is_replaced_by_what_is_written_whole_and_followed_by_an_output(tmp_path):
    for write in (written_whole, output):
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_text("before")
        link.unlink(missing_ok=True)
        link.symlink_to("target")
        with write(link) as file:
            file.write(b"after")
        assert link.read_text() == "after" and link.is_symlink() == (write is output)
        assert target.read_text() == ("after" if write is output else "before")


def test_an_output_that_fails_leaves_what_was_there_and_writes_nothing_through(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"before")
    for place in (target, "/dev/full"):
        with pytest.raises(KeyboardInterrupt), output(place) as file:
            fail(file)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links") as raised, output(tmp_path / "loop"):
        pass
    assert raised.value.errno == errno.ELOOP


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user other than root, who may write to every file")
def test_an_output_without_write_permission_is_left_alone(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"before")
    target.chmod(0o444)
    with pytest.raises(PermissionError), output(target):
        pass
    assert target.read_bytes() == b"before"
