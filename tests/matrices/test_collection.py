"""The collection by the keywords and objects of ssgetpy, its folder, and the site's other formats."""

import importlib.util
import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import collection, load, ssgetpy_home, suitesparse
from tests.archives import packed

INDEX = """4
08-Oct-2020 17:09:58
HB,ant,3,3,4,1,0,0,1,1,1,power network problem,4
HB,bee,3,3,4,1,0,1,0,1,0.5,structural problem,4
Bai,ant,3,3,4,0,0,0,0,1,1,power network problem,4
Zoo,dog,60,60,600,1,1,0,1,1,1,thermal problem,600
"""
A = sp.csc_array(np.array([[1.0, 0, 2], [0, 3, 0], [0, 0, 4]]))


def market(a=A):
    file = io.BytesIO()
    scipy.io.mmwrite(file, a)
    return file.getvalue()


def matlab(a=A):
    file = io.BytesIO()
    scipy.io.savemat(file, {"Problem": {"A": a}})
    return file.getvalue()


def boeing(a=A):
    file = io.StringIO()
    scipy.io.hb_write(file, sp.csc_matrix(a))
    return file.getvalue().encode()


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(autouse=True)
def mirror(tmp_path, monkeypatch):
    """A mirror with HB/ant and HB/bee in all formats; the user's and the program's folders are empty."""
    folder = tmp_path / "mirror"
    put(folder / "files/ssstats.csv", INDEX.encode())
    for name in ("ant", "bee"):
        put(folder / f"MM/HB/{name}.tar.gz", packed((f"{name}/{name}.mtx", market())))
        put(folder / f"RB/HB/{name}.tar.gz", packed((f"{name}/{name}.rb", boeing())))
        put(folder / f"mat/HB/{name}.mat", matlab())
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return folder


WITH_THE_PACKAGE = """
import socket
socket.getaddrinfo = socket.socket.connect = None
import spmvbench
from spmvbench.matrices import suitesparse
keywords = [
    {}, {"group": "HB"}, {"name": "an"}, {"matid": 4}, {"rowbounds": (4, None)}, {"colbounds": (None, 3)},
    {"nzbounds": (4, 4)}, {"isspd": True}, {"isspd": False}, {"is2d3d": True}, {"dtype": "complex"},
    {"kind": "power"}, {"limit": 2}, {"group": "HB", "isspd": True, "kind": "network", "rowbounds": (1, 3)},
]
found = [spmvbench.search(**some) for some in keywords] + [spmvbench.search(x) for x in ("HB/ant", "ant", 2)]
import ssgetpy
theirs = [ssgetpy.search(**some) for some in keywords] + [ssgetpy.search(x) for x in ("HB/ant", "ant", 2)]
assert [[m.to_tuple() for m in some] for some in found] == [[m.to_tuple() for m in some] for some in theirs]
assert {type(m) for some in found for m in some} == {ssgetpy.matrix.Matrix} and "<table>" in found[0]._repr_html_()
ant, bee = spmvbench.search("HB/*")
assert suitesparse.cached_names() == [] and spmvbench.fetch([ant], dry_run=True) == [ant]
assert spmvbench.load(ant).nnz == spmvbench.operator(bee).shape[0] + 1 == 4
assert spmvbench.fetch(bee) == [bee] and suitesparse.cached_names() == [("HB", "ant"), ("HB", "bee")]
rows = spmvbench.run(spmvbench.search("HB/*"), "csr-scalar", device="emulated", mode="hot", progress=False)
assert rows["name"].tolist() == ["ant", "bee"] and set(rows["status"]) == {"ok"}
"""


def test_with_ssgetpy_itself(tmp_path):
    """In a process of its own: importing it binds the folder of the user for good."""
    if importlib.util.find_spec("ssgetpy") is None:
        pytest.skip("needs the extra ssgetpy")
    command = [sys.executable, "-P", "-c", WITH_THE_PACKAGE]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "user/.ssgetpy/index.db").is_file()


@pytest.fixture
def without(monkeypatch):
    """As if ssgetpy was not installed."""
    monkeypatch.setattr(ssgetpy_home.importlib.util, "find_spec", lambda name: None)


def test_without_the_package_entries_of_the_index_are_found(without, tmp_path):
    (ant,) = collection.search("HB/ant")
    assert (ant.id, ant.rows, ant.spd) == ("HB/ant", 3, True)
    assert collection.fetch(ant) == collection.fetch("HB/ant") == [ant]
    assert suitesparse.cached_names() == [("HB", "ant")]
    assert not (tmp_path / "user").exists()
    with pytest.raises(SpmvbenchError, match="1 of 2 matrices were not fetched: Bai/ant: the source does not have it"):
        collection.fetch("ant")
    assert collection.fetch("ant", missing_ok=True) == [ant]
    for wrong in ({"name_or_id": 1.5}, {"group": "HBB"}, {"name_or_id": ant, "kind": "x"}, {"format": "CSV"}):
        with pytest.raises(UsageError):
            collection.fetch(**wrong)


@pytest.mark.parametrize("layout", ["packed", "unpacked", "damaged", "another"])
def test_what_ssgetpy_has_downloaded_is_not_fetched_again(tmp_path, mirror, layout):
    theirs = tmp_path / "user/.ssgetpy/MM/HB"
    text = market(sp.eye_array(4) if layout == "another" else A)
    if layout == "unpacked":
        put(theirs / "ant/ant.mtx", text)
        put(theirs / "ant/ant_b.mtx", b"a companion")
    else:
        put(theirs / "ant.tar.gz", packed(("ant/ant.mtx", text))[: 30 if layout == "damaged" else None])
    taken = layout in ("packed", "unpacked")
    if taken:
        (mirror / "MM/HB/ant.tar.gz").unlink()
    outcome = suitesparse.fetch(suitesparse.search(["HB/ant"]), progress=False)
    assert [entry.id for entry in outcome.fetched] == ["HB/ant"]
    np.testing.assert_array_equal(load("HB/ant").toarray(), A.toarray())


@pytest.mark.parametrize(("format", "file"), [("MM", "ant.tar.gz"), ("MAT", "ant.mat"), ("RB", "ant.tar.gz")])
@pytest.mark.parametrize("outdir", [False, True])
def test_formats_and_folders(without, tmp_path, mirror, format, file, outdir):
    folder = tmp_path / "out" if outdir else None
    collection.fetch("HB/*", format, folder)
    place = (folder or tmp_path / "home" / format) / "HB" / file
    source = mirror / ("mat" if format == "MAT" else format) / "HB" / file
    assert place.read_bytes() == source.read_bytes()
    again = suitesparse.fetch(suitesparse.search(["HB/ant"]), format=format, folder=folder)
    assert [entry.name for entry in again.present] == ["ant"]


@pytest.mark.parametrize(
    ("format", "data", "reason"),
    [
        ("MAT", b"no file", "MATLAB"),
        ("MAT", matlab(sp.eye_array(4, format="csc")), "another matrix came: 4 x 4"),
        ("RB", packed(("ant/ant.rb", boeing(sp.eye_array(4, format="csc")))), "another matrix came: 4 x 4"),
        ("RB", packed(("ant/ant.rb", b"no header")), "no Harwell-Boeing header"),
        ("RB", packed(("ant/ant.mtx", market())), r"holds no ant/ant\.rb"),
        ("MM", packed(("ant/ant.rb", boeing())), r"holds no ant/ant\.mtx"),
    ],
)
def test_another_file_is_refused_in_every_format(tmp_path, mirror, format, data, reason):
    put(mirror / ("mat" if format == "MAT" else format) / f"HB/ant.{'mat' if format == 'MAT' else 'tar.gz'}", data)
    outcome = suitesparse.fetch(suitesparse.search(["HB/ant", "HB/bee"]), format=format, folder=tmp_path / "out")
    assert [entry.name for entry in outcome.fetched] == ["bee"]
    ((_, said),) = outcome.failed
    assert re.search(reason, said)
    assert [path.name for path in (tmp_path / "out/HB").iterdir()] == ["bee.mat" if format == "MAT" else "bee.tar.gz"]
