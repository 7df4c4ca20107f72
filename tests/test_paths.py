"""Atomic writes, locks and folders: leftovers of killed processes are removed, those of running ones are kept."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spmvbench import paths
from spmvbench.paths import is_at, locked, opened, output, scratch, trusted_folder, written_whole

WRITE = """
import sys
from pathlib import Path
from spmvbench.paths import *
with written_whole(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print(1, flush=True)
    input()
"""


def writer(target):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "1\n"
    return process


def test_leftovers_of_killed_writers_are_removed_and_those_of_running_ones_stay(tmp_path):
    target, other = tmp_path / "in" / "a[1].csr", tmp_path / "in" / ".a[1].csr.txt"
    killed, living = [writer(target) for _ in range(3)], writer(target)
    for process in killed:
        process.kill()
        process.communicate()
    other.write_text("a user's own")
    (tmp_path / "in" / f".{target.name}.0123abcd").write_bytes(b"of a version that locked nothing")
    assert len(list(target.parent.iterdir())) == 6
    with written_whole(target) as file:
        file.write(b"whole")
    assert target.read_bytes() == b"whole"
    assert len(list(target.parent.iterdir())) == 3
    living.communicate("\n")
    assert target.read_bytes() == b"half"  # it was the last to finish
    assert sorted(target.parent.iterdir()) == sorted([target, other])


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


def test_a_scratch_folder_that_another_process_takes_for_abandoned_before_it_is_opened_is_made_again(
    tmp_path, monkeypatch
):
    make, made = Path.mkdir, []

    def mkdir_and_lose_the_first(path, *args, **kwargs):
        make(path, *args, **kwargs)
        made.append(path)
        if len(made) == 1:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", mkdir_and_lose_the_first)
    with scratch(tmp_path) as folder:
        assert folder.is_dir()
    assert len(made) == 2
    with pytest.raises(FileNotFoundError), scratch(tmp_path / "missing"):
        pass


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


def test_what_was_renamed_removed_or_replaced_is_not_there(tmp_path):
    for make in (Path.touch, Path.mkdir):
        path = tmp_path / make.__name__
        make(path)
        descriptor = os.open(path, os.O_RDONLY)
        assert is_at(descriptor, path)
        path.rename(tmp_path / "elsewhere")
        assert not is_at(descriptor, path) and is_at(descriptor, tmp_path / "elsewhere")
        make(path)
        assert not is_at(descriptor, path)
        os.close(descriptor)
        (tmp_path / "elsewhere").rename(tmp_path / f"old-{make.__name__}")


def test_a_folder_made_anew_is_not_removed_for_the_one_that_was_abandoned(tmp_path, monkeypatch):
    folder = tmp_path / ".scratch.0123abcd"
    folder.mkdir()
    flock = fcntl.flock

    def replaced_meanwhile(descriptor, operation):
        if folder.exists() and not (folder / "used").exists():
            folder.rename(tmp_path / "gone")
            folder.mkdir()
            (folder / "used").touch()
        return flock(descriptor, operation)

    monkeypatch.setattr(paths.fcntl, "flock", replaced_meanwhile)
    with scratch(tmp_path):
        assert (folder / "used").exists()


def test_foreign_temporaries_are_left_alone(tmp_path):
    """By name, by kind, and by owner; an attacker's link is neither followed nor opened."""
    names = ["tmp_of_others", ".scratch.0123abcg", ".scratch.0123abcde", "tmp0123abcd"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "precious").write_text("a user's")
    (tmp_path / ".a.0123abcd").symlink_to("precious")
    (tmp_path / ".scratch.0123abcd").symlink_to("tmp_of_others")
    os.mkfifo(tmp_path / ".a.aaaaaaaa")
    before = sorted(tmp_path.iterdir())
    with scratch(tmp_path) as folder:
        assert folder.parent == tmp_path
    with written_whole(tmp_path / "a") as file:
        file.write(b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "a"])
    assert (tmp_path / "precious").read_text() == "a user's"


def given_away(path):
    """Give a file to another user."""
    try:
        os.chown(path, 12345, 12345)
    except PermissionError:
        pytest.skip("needs root, who may give files away")


def test_another_user_s_temporaries_and_folders_are_not_this_user_s(tmp_path):
    (tmp_path / ".scratch.0123abcd").mkdir()
    given_away(tmp_path / ".scratch.0123abcd")
    with scratch(tmp_path):
        pass
    assert (tmp_path / ".scratch.0123abcd").is_dir()
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


def test_locks_follow_no_link_and_are_regular_files(tmp_path):
    (tmp_path / "precious").write_text("a user's")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "dangling").symlink_to("new")
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("link", "symbolic link"), ("dangling", "symbolic link"), ("fifo", "no regular file")):
        with pytest.raises(OSError, match=said) as raised, locked(tmp_path / name):
            pass
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


def test_several_processes_share_a_lock_that_none_holds_alone(tmp_path):
    path = tmp_path / "lock"
    with paths.locked(path, shared=True), paths.locked(path, shared=True) as also:
        assert also
        with paths.locked(path, lambda: True) as alone:
            assert not alone
    with paths.locked(path), paths.locked(path, lambda: True, shared=True) as had:
        assert not had
