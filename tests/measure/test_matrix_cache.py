"""The per-host matrix cache."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from spmvbench import paths
from spmvbench.matrices import lookup
from spmvbench.measure import matrix_cache, reading


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "token"
    found.mkdir()
    return found


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("row_ptr", "col_idx", "values"))


def test_a_matrix_is_read_once_and_each_process_has_a_private_copy(folder, monkeypatch):
    matrix = lookup.obtain("uniform:50:3")
    read = reading.read.__wrapped__
    a, known, about = read(matrix, 1, False, str(folder))
    monkeypatch.setattr(reading, "_read", None)  # nothing may be read now
    b, *facts = read(matrix, 1, False, str(folder))
    assert same(a, b) and b.shape == a.shape == (50, 50)
    assert facts[0] == known and facts[1].keys() == about.keys()
    assert type(b.values) is np.ndarray
    b.values[:] = 0
    assert same(read(matrix, 1, False, str(folder))[0], a)
    with pytest.raises(TypeError):
        read(matrix, 2, False, str(folder))  # another seed is another matrix
    matrix_cache.remove_unneeded(folder, [])
    with pytest.raises(TypeError):
        read(matrix, 1, False, str(folder))


def test_the_second_process_waits_and_a_failed_one_releases_the_lock(folder):
    target, made = folder / "x", []
    a = reading.read(lookup.obtain("tridiag:9"), 0, False)

    def make():
        made.append(1)
        time.sleep(0.1)
        return a

    threads = [threading.Thread(target=matrix_cache.load_or_make, args=(target, make)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    with pytest.raises(ZeroDivisionError):
        matrix_cache.load_or_make(folder / "y", lambda: 1 / 0)
    assert same(matrix_cache.load_or_make(folder / "y", make)[0], a[0])


STAY = """
import sys
from pathlib import Path
from spmvbench.paths import shared_folder
with shared_folder(Path(sys.argv[1])):
    print(1, flush=True)
    input()
"""


def test_the_last_process_removes_the_shared_folder(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    one, two, three = (tmp_path / (digit * 16) for digit in "abc")
    foreign = [tmp_path / "mine", tmp_path / ("a" * 17), tmp_path / "ABCDEF0123456789"]
    for path in foreign:
        path.mkdir()
    (tmp_path / ("d" * 16)).write_text("a file of that name")
    with subprocess.Popen([sys.executable, "-c", STAY, one], **pipes) as other:
        other.stdout.readline()
        with paths.shared_folder(one), paths.shared_folder(two):
            assert one.is_dir()
        assert one.is_dir() and not two.exists()
        other.kill()
        other.wait()
        (one / "left").touch()
        with paths.shared_folder(three):
            assert not one.exists()
    assert sorted(tmp_path.iterdir()) == sorted([*foreign, tmp_path / ("d" * 16)])


def test_a_shared_folder_that_is_a_link_or_another_user_s_is_refused(tmp_path):
    """Compiled code indexes with what it holds."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ("a" * 16)).symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"), paths.shared_folder(tmp_path / ("a" * 16)):
        pass
    assert (tmp_path / "elsewhere").is_dir()
    (tmp_path / ("b" * 16)).mkdir()
    (tmp_path / ("b" * 16)).chmod(0o777)
    with pytest.raises(PermissionError, match="everybody may write"), paths.shared_folder(tmp_path / ("b" * 16)):
        pass


def test_features_are_computed_once_for_a_matrix(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    read, matrix = reading.read.__wrapped__, lookup.obtain("uniform:50:3")
    _, known, about = read(matrix, 1, False)
    monkeypatch.setattr(reading, "features", None)  # nothing may be computed now
    _, again, about_again = read(matrix, 1, False)
    assert again == known and {type(value) for value in again.values()} == {int, float, str}
    assert about_again.keys() == about.keys()
    for name in about.keys() - {"started_at"}:
        np.testing.assert_array_equal(about_again[name], about[name])
    with pytest.raises(TypeError):
        read(matrix, 2, False)  # another seed, other values
    (file,) = (tmp_path / "features").iterdir()
    file.write_bytes(b"damaged")
    with pytest.raises(TypeError):
        read(matrix, 1, False)
