import contextlib
import gc
import hashlib
import itertools
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
from base64 import b64encode
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from tqdm import tqdm
from urllib3.util import connection

from spmvbench.errors import UsageError
from spmvbench.matrices import download, suitesparse
from spmvbench.matrices.conditions import Conditions
from spmvbench.matrices.download import Limits, Unreachable
from spmvbench.matrices.lookup import resolve
from spmvbench.matrices.suitesparse import Entry, fetch
from tests.archives import packed

QUICK = Limits(tries=4, backoff=0.01, connect=600, read=600)  # a busy machine answers late

INDEX = """7
08-Oct-2020 17:09:58
HB,ant,10,10,30,1,0,0,1,1,1,power network problem,30
HB,bee,20,20,60,1,0,1,0,1,0.5,structural problem,64
HB,bear,30,40,90,0,0,0,0,0,0,least squares problem,90
Bai,ant,10,10,31,1,0,0,0,1,1,power network problem,31
Bai,cat,50,50,500,1,1,0,0,1,1,undirected graph,500
Zoo,dog,60,60,600,1,0,0,1,1,1,thermal problem,600
Zoo,eel_1,70,70,700,1,0,0,0,1,1,thermal problem,700
"""


def pack(name, body=b"", extra=None, size=b"10 10 30", kind=b"coordinate real general"):
    """An archive of a matrix that ends after its sizes, as bytes; `extra` is one more member."""
    text = b"%%MatrixMarket matrix " + kind + b"\n%" + body + b"\n" + size + b"\n"
    return packed((f"{name}/{name}.mtx", text), *([(extra, b"")] if extra else []))


def url_path(entry):
    return f"/MM/{entry.group}/{entry.name}.tar.gz"


class Handler(BaseHTTPRequestHandler):
    """Serves `server.files`; for a path in `server.plan`, its next step decides what goes wrong."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server, path = self.server, self.path
        steps = server.plan.get(path, [])
        step = steps.pop(0) if steps else None
        wanted = self.headers.get("Range")
        if callable(step):
            self.close_connection = True
            return step(self)
        if isinstance(step, bytes):
            server.files[path] = step  # the file changes before this answer
        data = server.files.get(path)
        status = step if isinstance(step, int) else 404 if data is None else 200
        start = 0
        if status == 200 and wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(data) else 416
        server.log.append((path, wanted, status))
        if status not in (200, 206):
            self.send_response(status)
            if status == 416:
                self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = data[start:]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if step == "cut":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif step == "stall" and not start:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            server.released.wait()
            self.close_connection = True
        elif step == "slow":
            for i in range(0, len(body), len(body) // 8):
                self.wfile.write(body[i : i + len(body) // 8])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(body)


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.plan, server.log, server.ranges = {"/files/ssstats.csv": INDEX.encode()}, {}, [], True
        server.released = threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPMVBENCH_MIRROR", raising=False)
    monkeypatch.setattr(suitesparse, "_sha256", lambda: {})
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path):
    """A mirror that is a folder."""
    mirror = tmp_path / "mirror"
    (mirror / "files").mkdir(parents=True)
    (mirror / "files/ssstats.csv").write_text(INDEX)
    return mirror


@pytest.fixture
def nowhere():
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


ANT = Entry("HB", "ant")


def get(server, entry=ANT, **options):
    return fetch([entry], mirror=server.url, limits=QUICK, progress=False, **options)


def kept(entry=ANT):
    return suitesparse.location(entry.group, entry.name).read_bytes()


def litter(home):
    return [path for path in home.rglob("*") if ".part" in path.name]


# --- search


def ids(*args, groups=(), limit=None, network=True, **conditions):
    found = suitesparse.search(*args, groups=groups, limit=limit, network=network, conditions=Conditions(**conditions))
    return [entry.id for entry in found]


@pytest.fixture
def mirrored(folder, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(folder))
    return folder


def test_an_entry_holds_what_the_index_says(mirrored):
    assert suitesparse.search(["HB/bee"]) == [
        Entry("HB", "bee", 20, 20, 60, "real", True, False, 1.0, 0.5, "structural problem", stored=64)
    ]
    assert [entry.dtype for entry in suitesparse.search(["HB/bear", "Bai/cat"])] == ["complex", "binary"]


def test_a_column_more_in_the_index_is_no_fault(mirrored):
    index = mirrored / "files/ssstats.csv"
    known = suitesparse.search()
    index.write_text(INDEX.replace(",30\n", ",30,new\n"))
    assert suitesparse.search() == known


def test_patterns_and_groups(mirrored):
    assert ids() == ["HB/ant", "HB/bee", "HB/bear", "Bai/ant", "Bai/cat", "Zoo/dog", "Zoo/eel_1"]
    assert ids(["HB/be*"]) == ["HB/bee", "HB/bear"]
    assert ids(["*/ant"]) == ids(["an?"]) == ["HB/ant", "Bai/ant"]
    assert ids(["cat"]) == ["Bai/cat"]
    assert ids(["HB/bee", "HB/b*"], groups=["Zoo"]) == ["HB/bee", "HB/bear", "Zoo/dog", "Zoo/eel_1"]


def test_conditions(mirrored):
    assert ids(kind="thermal") == ["Zoo/dog", "Zoo/eel_1"]
    assert ids(kind="Thermal P") == ["Zoo/dog", "Zoo/eel_1"]
    assert ids(kind="it's") == ids(kind="th%l") == []
    assert ids(min_nnz=60, max_nnz=500) == ["HB/bee", "HB/bear", "Bai/cat"]
    assert ids(spd=True) == ["HB/ant", "Zoo/dog"]
    assert ids(groups=["HB"], spd=False, limit=1) == ["HB/bee"]
    assert ids(max_nnz=0) == []
    assert ids(name="AN") == ["HB/ant", "Bai/ant"]
    assert ids(id=2) == ids(is2d3d=True) == ["HB/bee"]
    assert ids(min_rows=30, max_cols=50) == ["HB/bear", "Bai/cat"]
    assert ids(field="complex") == ["HB/bear"] and ids(field="binary") == ["Bai/cat"]


@pytest.mark.parametrize(
    "wrong", [{"min_nnz": -1}, {"max_rows": 1.5}, {"id": True}, {"kind": 3}, {"spd": 1}, {"field": "f64"}]
)
def test_a_wrong_value_of_a_condition_is_refused(wrong):
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} takes"):
        Conditions(**wrong)


@pytest.mark.parametrize(
    ("patterns", "groups", "message"),
    [
        ([], ["Zooo"], "no group Zooo; did you mean Zoo"),
        (["Zooo/dog"], [], "no group Zooo; did you mean Zoo"),
        (["HB/bea"], [], "no matrix bea; did you mean HB/bear"),
        (["dogg"], [], "no matrix dogg; did you mean dog"),
        (["ant"], [], "HB/ant or Bai/ant"),
        (["HB"], [], "--group HB"),
        (["HB/x*"], [], "matches HB/x"),
        (["HB/eel%1"], [], "no matrix eel%1"),
    ],
)
def test_unknown_names_get_a_hint(mirrored, patterns, groups, message):
    with pytest.raises(UsageError, match=message):
        suitesparse.search(patterns, groups=groups)


def test_matrices_that_only_the_folder_or_the_cache_holds(mirrored, monkeypatch):
    for path in ("Own/mine.tar.gz", "a b/c.tar.gz", "Own/-x.tar.gz", "Own/.tar.gz", "file/a.tar.gz"):
        (mirrored / "MM" / path).parent.mkdir(parents=True, exist_ok=True)
        (mirrored / "MM" / path).write_bytes(pack("mine"))
    assert ids()[7:] == ["Own/mine"]  # the others' names are none of the collection
    (mine,) = suitesparse.search(["Own/mine"])
    assert mine == Entry("Own", "mine")
    assert ids(min_nnz=0, groups=["Own"]) == []
    assert fetch([mine]).fetched == [mine]
    monkeypatch.delenv("SPMVBENCH_MIRROR")
    assert ids(groups=["Own"], network=False) == ["Own/mine"]
    assert suitesparse.cached_names() == [("Own", "mine")]


# --- the index


def test_index_is_fetched_once_and_renewed_when_old(server, home, monkeypatch):
    monkeypatch.setattr(suitesparse, "SITE", server.url)
    assert len(suitesparse.index()) == len(suitesparse.index()) == 7
    assert len(server.log) == 1
    copy = home / "files/ssstats.csv"
    os.utime(copy, (0, 0))
    server.files["/files/ssstats.csv"] += b"Zoo,fox,1,1,1,1,0,0,0,1,1,x,1\n"
    assert len(suitesparse.index()) == 8
    assert len(server.log) == 2


def test_an_old_index_does_without_network(server, home, monkeypatch, caplog, nowhere):
    monkeypatch.setattr(suitesparse, "SITE", server.url)
    assert suitesparse.index(nowhere, network=False) == []
    suitesparse.index()
    os.utime(home / "files/ssstats.csv", (time.time() - 40 * 86400,) * 2)
    server.plan["/files/ssstats.csv"] = [503]
    assert len(suitesparse.index()) == 7
    assert [record.getMessage() for record in caplog.records] == [
        f"Cannot renew the collection's index from {server.url}, so a copy of 40 days ago is used"
    ]
    assert len(suitesparse.index(mirror=nowhere)) == 7


@pytest.mark.parametrize(
    "row",
    [
        None,
        b"<html>sign in</html>\n" * 9,
        b"\xff\xfe" * 500,
        INDEX.encode()[:-20],
        "HB,fox,1,1,1,1,0,0,0,1,1,\0,1",
        "HB,fox,1,1,1,1,0,0,0,1,1," + "x" * 200_000 + ",1",
        "HB,fox,1,1,1,1,0,0,0,1,1," + "x" * 201 + ",1",
        "HB,fox,1,1,1,1,0,0,0,1,1,\x1b[2J,1",
        f"HB,fox,{1 << 63},1,1,1,0,0,0,1,1,x,1",
        f"HB,fox,1,1,{1 << 70},1,0,0,0,1,1,x,1",
        f"HB,fox,1,1,1,1,0,0,0,1,1,x,{'9' * 5000}",
        "HB,fox,-1,1,1,1,0,0,0,1,1,x,1",
        "HB,fox,1,1,1,1,0,0,0,1,1,x",
        '"HB,fox',
    ],
)
def test_an_answer_that_is_no_index_is_refused_and_the_old_one_stays(server, home, row):
    good = server.files["/files/ssstats.csv"]
    bad = b"" if row is None else row if isinstance(row, bytes) else (INDEX + row + "\n").encode()
    server.files["/files/ssstats.csv"] = bad
    with pytest.raises(suitesparse.Failed, match="not the collection's index") as caught:
        suitesparse.index(server.url, limits=QUICK)
    assert len(str(caught.value)) < 400
    assert litter(home) == []
    server.files["/files/ssstats.csv"] = good
    assert len(suitesparse.index(server.url)) == 7


def test_searching_touches_neither_the_network_nor_the_users_home(folder, tmp_path):
    code = f"""
import socket, sys
socket.getaddrinfo = socket.socket.connect = None
from spmvbench.matrices import suitesparse
assert not any(name in sys.modules for name in ("requests", "urllib3")), "imported before it is needed"
assert len(suitesparse.search(conditions=suitesparse.Conditions(kind="problem"), mirror={str(folder)!r})) == 6
"""
    user = tmp_path / "user"
    user.mkdir()
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"HOME": str(user)}, check=True)
    assert list(user.iterdir()) == []


def test_the_shipped_hashes_cover_the_collection(monkeypatch):
    monkeypatch.undo()
    table = suitesparse._sha256()
    assert len(table) == 2893
    assert table["ACUSIM/Pres_Poisson"] == "2d97853e5a7de6376a4fde49a44256c747c694833b897cee25ae46b12c5411e6"
    assert {len(digest) for digest in table.values()} == {64}
    assert [Entry(*name.split("/")).id for name in table] == list(table)


# --- the mirror


@pytest.mark.parametrize("form", [str, lambda path: path.as_uri(), lambda path: f"{path}/"])
def test_folders_and_file_addresses(folder, form, home):
    (folder / "MM/HB").mkdir(parents=True)
    (folder / "MM/HB/ant.tar.gz").write_bytes(pack("ant"))
    entries = suitesparse.search(groups=["HB"], mirror=form(folder))
    outcome = fetch(entries, mirror=form(folder))
    assert [entry.id for entry in outcome.fetched] == ["HB/ant"]
    assert [entry.id for entry in outcome.missing] == ["HB/bee", "HB/bear"]
    assert fetch(entries, mirror=form(folder)).present == outcome.fetched
    assert suitesparse.cached("HB", "ant").read_bytes() == pack("ant")
    assert suitesparse.cached("HB", "bee") is None
    assert litter(home) == []


# --- downloads and what can go wrong


def test_parallel_download_of_many(server):
    entries = [Entry("G", f"m{i}") for i in range(30)]
    server.files |= {url_path(entry): pack(entry.name) for entry in entries}
    outcome = fetch([*entries, *entries], mirror=server.url, jobs=8, progress=False)
    assert outcome.fetched == entries
    assert all(kept(entry) == pack(entry.name) for entry in entries)
    assert len(server.log) == 30


@pytest.mark.parametrize(
    ("steps", "statuses", "reason"),
    [
        ([], [200], None),
        (["no ranges", "cut"], [200, 200], None),
        (["slow"], [200], None),
        ([500, 503, 429], [500, 503, 429, 200], None),
        (["cut"] * 7, [200] + [206] * 7, None),  # more than `tries`, but each gets further
        (["cut", pack("ant", os.urandom(6000).hex().encode())], [200, 206, 200], None),  # not spliced with the old one
        ([404], [404], ""),
        ([500] * 9, [500] * 4, "HTTP 500 .* 4 tries"),
        ([403], [403], "HTTP 403"),
    ],
)
def test_answers_of_a_server(server, home, steps, statuses, reason):
    server.files[url_path(ANT)] = pack("ant", os.urandom(5000).hex().encode())
    server.ranges = "no ranges" not in steps
    server.plan[url_path(ANT)] = [step for step in steps if step != "no ranges"]
    outcome = get(server)
    assert [status for *_, status in server.log] == statuses
    assert litter(home) == []
    if reason is None:
        assert outcome.fetched == [ANT] and kept() == server.files[url_path(ANT)]
    elif reason:
        ((entry, said),) = outcome.failed
        assert entry == ANT and re.search(reason, said)
    else:
        assert outcome.missing == [ANT]


def test_an_answer_that_stalls_is_continued(server):
    """As often as this process, on a busy machine, is late itself."""
    server.files[url_path(ANT)] = data = pack("ant", os.urandom(5000).hex().encode())
    server.plan[url_path(ANT)] = ["stall"] * 1000
    patient = replace(QUICK, tries=1000, read=0.3)
    assert fetch([ANT], mirror=server.url, limits=patient, progress=False).fetched == [ANT]
    assert [status for status, _ in itertools.groupby(status for *_, status in server.log)] == [200, 206]
    assert kept() == data


@pytest.mark.parametrize("asked", ["3", "1000000", "Thu, 01 Jan 1970 00:00:00 GMT", "soon"])
def test_a_server_may_ask_for_a_pause(server, monkeypatch, asked):
    waits = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds=None: waits.append(seconds))

    def busy(handler):
        handler.send_response(429)
        handler.send_header("Retry-After", asked)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.files[url_path(ANT)] = pack("ant")
    server.plan[url_path(ANT)] = [busy]
    source = suitesparse._Source.of(server.url)
    downloads = suitesparse.Archives(source, source.downloads(QUICK), False, tqdm(disable=True), "MM", None)
    assert downloads.bring(ANT)
    assert max(wait for wait in waits if wait) == {"3": 3.0, "1000000": QUICK.pause}.get(asked, QUICK.backoff)


def test_a_part_left_behind_is_continued_by_the_next_fetch(server, home):
    server.files[url_path(ANT)] = data = pack("ant", os.urandom(5000).hex().encode())
    server.plan[url_path(ANT)] = ["cut", 500, 500, 500, 500]
    assert "HTTP 500" in get(server).failed[0][1]
    assert len(litter(home)) == 1
    server.plan.clear()
    server.log.clear()
    assert get(server).fetched == [ANT]
    assert server.log == [(url_path(ANT), f"bytes={len(data) // 2}-", 206)]
    assert kept() == data
    assert litter(home) == []


def test_no_network_ends_the_whole_fetch(nowhere, home, monkeypatch):
    tried, connect = [], connection.create_connection
    monkeypatch.setattr(connection, "create_connection", lambda *a, **more: (tried.append(a), connect(*a, **more))[1])
    entries = [Entry("G", f"m{i}") for i in range(200)]
    with pytest.raises(Unreachable, match=f"cannot reach {nowhere}/MM/G/m"):
        fetch(entries, mirror=nowhere, limits=QUICK, progress=False)
    assert 0 < len(tried) < len(entries)  # of each that was under way, not of those that waited
    assert litter(home) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<html><body>Please sign in</body></html>", "HTML page"),
        (b"", "empty"),
        (b"%%MatrixMarket", "no gzip file"),
        (pack("ant")[:-5], "cut short"),
        (pack("bee"), None),  # another folder, but one matrix only: taken for it
        (pack("ant", extra=tarfile.TarInfo("../../evil.mtx")), "leads out of its folder"),
    ],
)
def test_what_is_no_sound_archive_is_refused_with_its_reason(server, home, data, reason):
    server.files[url_path(ANT)] = data
    outcome = get(server)
    if reason is None:
        assert outcome.fetched == [ANT]
    else:
        assert reason in outcome.failed[0][1]
        assert suitesparse.cached_names() == []
    assert litter(home) == []
    assert len(server.log) == 1


def test_whatever_one_archive_raises_the_others_are_fetched(server, home, monkeypatch):
    entries = [ANT, *(Entry("G", f"m{i}") for i in range(3))]
    server.files |= {url_path(entry): pack(entry.name) for entry in entries}

    def check(path, name, suffix):
        if name == "ant":
            raise RuntimeError

    monkeypatch.setattr(suitesparse.archive, "check", check)
    outcome = fetch(entries, mirror=server.url, limits=QUICK, progress=False)
    assert (outcome.fetched, outcome.failed) == (entries[1:], [(ANT, "RuntimeError")])
    assert litter(home) == []


@pytest.mark.parametrize(
    ("of_site", "right", "verify", "outcome"),
    [
        (True, True, True, "fetched"),
        (True, False, True, "quarantined"),
        (True, False, False, "fetched"),
        (False, True, True, "fetched"),
        (False, False, True, "differing"),
        (False, False, False, "fetched"),
    ],
)
def test_archives_are_compared_with_the_hash_of_the_site(server, home, monkeypatch, of_site, right, verify, outcome):
    server.files[url_path(ANT)] = data = pack("ant")
    known = hashlib.sha256(data).hexdigest() if right else "0" * 64
    monkeypatch.setattr(suitesparse, "_sha256", lambda: {"HB/ant": known})
    if of_site:
        monkeypatch.setattr(suitesparse, "SITE", server.url)
    found = get(server, verify=verify)
    assert found.differing == ([ANT] if outcome == "differing" else [])
    if outcome == "quarantined":
        ((_, reason),) = found.failed
        assert "SHA-256" in reason and "--no-verify" in reason
        assert (home / "quarantine/HB/ant.tar.gz").read_bytes() == data
        assert suitesparse.cached_names() == litter(home) == []
    else:
        assert found.fetched == [ANT]


# --- answers that lie


def answer(*headers, status=200, body=b""):
    """A step of the server's plan: these headers, then this body."""

    def give(handler):
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return give


LIES = [
    answer(("Content-Length", "abc")),
    answer(("Content-Length", "-5")),
    answer(("Content-Length", "9" * 400)),
    answer(("Content-Length", "1_0"), body=bytes(10)),
    answer(("Content-Length", "5, 6"), body=bytes(10)),
    answer(("Location", "http://[::1"), status=302),
    answer(("Location", "http://" + "a" * 300 + ".example"), status=302),
    answer(("Location", "http://host:999999/"), status=301),
    answer(("Location", "file:///etc/passwd"), status=302),
    answer(("Location", "http://127.0.0.1:9/ant.tar.gz"), status=302),
    answer(("Location", "http://..."), status=307),
    answer(("Location", "\xff\xfe"), status=302),
    answer(("Transfer-Encoding", "chunked"), body=b"zz\r\nno chunk\r\n"),
    answer(("Content-Range", "bytes x-y/z"), status=206),
]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # urllib3 leaves the socket of a bad header to be collected
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_answer_fails_one_file_and_the_rest_is_fetched(server, home, lie):
    others = [Entry("G", f"m{i}") for i in range(3)]
    server.files |= {url_path(entry): pack(entry.name) for entry in others}
    server.plan[url_path(ANT)] = [lie] * 9
    outcome = fetch([ANT, *others], mirror=server.url, limits=QUICK, progress=False)
    assert outcome.fetched == others
    assert [entry for entry, _ in outcome.failed] == [ANT]
    assert litter(home) == []
    del outcome
    gc.collect()


def endless(handler):
    """A body without a length, for as long as anyone reads."""
    answer()(handler)
    with contextlib.suppress(OSError):
        while not handler.server.released.is_set():
            handler.wfile.write(bytes(1 << 16))


def trickle(handler):
    """A byte now and then, for ever."""
    answer()(handler)
    with contextlib.suppress(OSError):
        while not handler.server.released.wait(0.02):
            handler.wfile.write(b"x")
            handler.wfile.flush()


SMALL = Entry("HB", "ant", 10, 10, 30, stored=30)


def test_an_endless_body_ends_at_what_the_index_allows(server, home, monkeypatch):
    monkeypatch.setattr(Entry, "most_bytes", 1 << 20)
    server.plan[url_path(ANT)] = [endless]
    assert "over 1,048,576 bytes" in get(server, SMALL).failed[0][1]
    server.plan[url_path(ANT)] = [answer(("Content-Length", str(1 << 40)))]
    assert "over 1,048,576 bytes" in get(server, SMALL).failed[0][1]
    assert litter(home) == []
    assert len(server.log) == 0
    monkeypatch.setattr(suitesparse, "INDEX_MOST", 1 << 20)
    server.plan["/files/ssstats.csv"] = [endless]
    with pytest.raises(suitesparse.Failed, match="over 1,048,576 bytes"):
        suitesparse.index(server.url, limits=QUICK)


def test_what_the_index_allows_grows_with_the_matrix():
    small, large = (Entry("A", "a", n, n, 9 * n, stored=10 * n).most_bytes for n in (10, 10**6))
    assert 1 << 24 < small < 1 << 27
    assert 500 * 10**6 < large - small < 2 * 10**9
    assert Entry("A", "a").most_bytes > large


def test_a_trickle_ends(server, home, monkeypatch):
    """A second passes from each piece to the next."""
    monkeypatch.setattr(download, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    quick = replace(QUICK, tries=2, patience=3, slowest=1e6)
    server.plan[url_path(ANT)] = [trickle] * 99
    ((_, reason),) = fetch([ANT], mirror=server.url, limits=quick, progress=False).failed
    assert "less than 1,000,000 bytes per second" in reason
    assert len(litter(home)) == 1, "what came is kept"


@pytest.mark.parametrize(
    ("held", "kind", "taken"),
    [
        (b"10 10 30", b"coordinate real general", True),
        (b"10 10 20", b"coordinate real symmetric", True),  # 10 of the 20 on the diagonal
        (b"10 10 15", b"coordinate pattern skew-symmetric", True),
        (b"10 10", b"array real general", True),
        (b"10 10 30", b"coordinate real symmetric", False),
        (b"10 10 14", b"coordinate real symmetric", False),
        (b"10 10 29", b"coordinate real general", False),
        (b"11 10 30", b"coordinate real general", False),
        (b"10 11 30", b"coordinate real general", False),
        (b"5 5", b"array real general", False),
        (b"10 10", b"coordinate real general", False),
    ],
)
def test_another_matrix_under_a_name_is_refused(server, home, held, kind, taken):
    server.files[url_path(ANT)] = pack("ant", size=held, kind=kind)
    outcome = get(server, SMALL)
    assert bool(outcome.fetched) == taken
    if not taken:
        assert "matrix" in outcome.failed[0][1]
        assert suitesparse.cached_names() == litter(home) == []


# --- names and indices that lie


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("/abs", "ant"), ("..", "ant"), ("../..", "ant"), ("HB", "../../ant"), ("HB", "a/b"), ("", "ant"), ("HB", ""),
        ("HB", "."), ("HB", ".hidden"), ("HB", "-rf"), ("HB", "a\x00b"), ("HB", "a\n"), ("HB", "a$b$"), ("HB", "ä"),
        ("HB", "a b"), ("HB", "a\\b"), ("HB", "x" * 101), ("file", "ant"), ("synthetic", "pde"), ("HB", "\udcff"),
    ],
)  # fmt: skip
def test_what_is_no_name_enters_nowhere(folder, home, group, name, monkeypatch):
    with pytest.raises(UsageError, match="no matrix of the collection"):
        Entry(group, name)
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(folder))
    if group and name and not {"\x00", "\udcff"} & {*name}:
        with pytest.raises(UsageError):
            resolve([f"{group}/{name}"])
        row = f'"{group}","{name}",10,10,30,1,0,0,1,1,1,x,30\n'
        (folder / "files/ssstats.csv").write_text(INDEX + row)
        with pytest.raises(suitesparse.Failed, match="not the collection's index"):
            suitesparse.index()
    assert {path.parent.name for path in home.rglob("*") if path.is_file()} <= {"locks"}


def test_a_damaged_copy_of_the_index_names_itself(mirrored, home):
    suitesparse.index()
    copy = next(home.rglob("ssstats.csv"))
    for path in (copy, mirrored / "files/ssstats.csv"):
        path.write_bytes(INDEX.encode() + b"\0\n")
    with pytest.raises(suitesparse.Failed, match=f"{copy} is not the collection's index .*: remove it"):
        suitesparse.index()


# --- passwords


@pytest.mark.parametrize("login", ["me:secret", "secret", "me:s%3Aecret"])
def test_a_password_logs_in_and_is_never_shown(server, home, login, caplog):
    server.files[url_path(ANT)] = pack("ant")
    asked = []
    server.plan["/files/ssstats.csv"] = [lambda handler: asked.append(handler.headers) or answer(status=500)(handler)]
    address = server.url.replace("//", f"//{login}@")
    suitesparse.index(address, limits=QUICK)
    user, _, password = login.replace("%3A", ":").partition(":")
    assert asked[0]["Authorization"] == "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    assert fetch([ANT], mirror=address, limits=QUICK, progress=False).fetched == [ANT]
    server.plan |= {"/MM/HB/bee.tar.gz": [500] * 9, "/MM/HB/bear.tar.gz": [LIES[5]] * 9}
    outcome = fetch([Entry("HB", "bee"), Entry("HB", "bear")], mirror=address, limits=QUICK, progress=False)
    shown = caplog.text + repr(outcome) + "".join(str(path) for path in home.rglob("*"))
    assert "secret" not in shown
    assert "ecret" not in shown


@pytest.mark.parametrize(
    "mirror",
    ["http://me:secret@[::1", "ftp://me:secret@host/x", "http://me:secret@host:port/", "https://me:secret@",
     "me:secret@host/mirror", "http://me:secret@host/?a=b", "~nobody-of-this-name/x", "http://", "http:///x",
     "https://host#x", "/no/such/folder"],
)  # fmt: skip
def test_a_mirror_that_cannot_be_is_shown_without_its_password(mirror):
    for use in (suitesparse.index, lambda mirror: fetch([ANT], mirror=mirror)):
        with pytest.raises(UsageError, match="the mirror") as caught:
            use(mirror)
        assert "secret" not in str(caught.value)


def test_a_mirror_that_holds_a_device_is_not_read(folder, home):
    (folder / "MM/HB").mkdir(parents=True)
    os.mkfifo(folder / "MM/HB/ant.tar.gz")
    ((_, reason),) = fetch([ANT], mirror=str(folder)).failed
    assert "is no file" in reason


def test_original_archives_of_the_collection_have_the_shipped_hash(mirror, monkeypatch):
    monkeypatch.undo()
    for group, name in [("HB", "1138_bus"), ("AG-Monien", "bfly"), ("Bates", "Chem97Zt")]:
        with open(mirror / "MM" / group / f"{name}.tar.gz", "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == suitesparse._sha256()[f"{group}/{name}"]
