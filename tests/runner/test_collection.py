"""The whole collection as one run: its plan, the simulation of it, and stages that fetch, measure and remove."""

import json
import sys
from dataclasses import replace

import numpy as np
import psutil
import pyarrow as pa
import pytest

from spmvbench import formats
from spmvbench.matrices import lookup, suitesparse
from spmvbench.matrices.suitesparse import Entry
from spmvbench.measure.cases import Settings
from spmvbench.rows import files, store
from spmvbench.runner import collection, plan, session
from tests.archives import packed

FORMATS = "csr-scalar,ell"


def index(count=2893, seed=0):
    """Entries with sizes as spread as those of the collection: half below 60,000, some of a billion."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(np.exp(rng.normal(11, 3.2, count)), 1.9e9).astype(int) + 1
    kinds = ("undirected graph", "structural problem", "circuit simulation problem")
    found = []
    for n, size in enumerate(sizes.tolist()):
        shape = size // 5 + 1, size // 5 + 1
        found.append(Entry("G", f"m{n}", *shape, size, "real", n % 2 == 0, False, 1.0, 1.0, kinds[n % 3], size))
    return found


@pytest.fixture
def of_the_site(request):
    """The collection's own index."""
    return suitesparse.index(str(request.getfixturevalue("mirror")))


@pytest.mark.parametrize("disk", [1e9, 30e9, 100e9])
@pytest.mark.parametrize("which", ["generated", "the site's"])
def test_the_disk_is_kept_and_the_device_busy(request, which, disk):
    every = index() if which == "generated" else request.getfixturevalue("of_the_site")
    kept, out = collection.left_out(every, real_part=False, disk=disk, memory=512e9, device=140e9)
    assert len(kept) + sum(map(len, out.values())) == len(every) and len(kept) > (2700 if disk > 1e9 else 2000)
    items = [collection.Item.of(entry) for entry in kept]
    few = {entry.id for entry in collection.sample(kept, collection.SAMPLE, 0)}
    assert len(few) == collection.SAMPLE

    def costing(items, cases):  # as published rows of an H200 have it
        return [replace(item, seconds=cases * (0.1 + 2e-9 * item.entry.stored)) for item in items]

    stages = [costing([i for i in items if i.entry.id in few], 32), costing(items, 24), costing(items, 150)]
    for rate, most in ((100e6, 0.1), (1e6, 1.0)):
        found = collection.simulate(stages, disk, rate)
        assert max(seen.peak for seen in found) <= disk
        assert sum(seen.waiting for seen in found) <= most * sum(seen.seconds for seen in found)
        assert all(seen.fetched <= sum(item.fetched for item in items) for seen in found)
    assert sum(seen.waiting for seen in found) > 0  # by a slow network


def test_all_that_are_kept_fit_beside_the_conversion_of_the_largest():
    general, symmetric = (
        Entry("G", f"m{n}", n // 5, n // 5, n, "real", False, False, one, one, "graph", n)
        for n, one in ((240_000_000, 0.0), (270_000_000, 1.0))
    )

    def kept(*entries):
        found, _ = collection.left_out(entries, real_part=False, disk=1e10, memory=1e15, device=1e15)
        collection.simulate([[collection.Item.of(entry) for entry in found]], int(1e10), 1e8)
        return found

    assert kept(general) == kept(general, symmetric) == [general] and kept(symmetric) == [symmetric]


def test_a_sample_has_all_sizes_and_kinds():
    every = index()
    few = collection.sample(every, 300, 0)
    assert few == collection.sample(every, 300, 0) != collection.sample(every, 300, 1)
    for fact in (lambda e: len(str(e.nnz)), lambda e: e.is2d3d, lambda e: e.kind):
        whole, part = (
            [list(map(fact, of)).count(value) / len(of) for value in {*map(fact, every)}] for of in (every, few)
        )
        assert np.allclose(whole, part, atol=0.03)


def test_a_full_disk_lets_the_largest_go_that_were_measured():
    disk = collection.Disk(10, again=frozenset("abc"))
    assert disk.admit("a", 2) == disk.admit("b", 3) == disk.admit("c", 4) == []
    assert disk.admit("d", 5) is None  # none is measured yet
    assert not disk.done("a") and not disk.done("b") and disk.admit("d", 4) == ["b"]
    assert disk.done("d") and set(disk.held) == {"a", "c"} and disk.used == 10


def archive(name, size=6):
    text = f"%%MatrixMarket matrix coordinate real general\n{size} {size} {size}\n"
    text += "".join(f"{n} {n} 1.5\n" for n in range(1, size + 1))
    return packed((f"{name}/{name}.mtx", text.encode()))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A mirror whose index has four matrices, of which it lacks c, and a complex one; the home of this test."""
    folder = tmp_path / "site"
    (folder / "files").mkdir(parents=True)
    lines = [f"G,{name},6,6,6,1,0,0,0,0,0,graph,6" for name in "abcd"] + ["G,z,6,6,6,0,0,0,0,0,0,graph,6"]
    (folder / "files" / "ssstats.csv").write_text("\n".join(["5", "date", *lines]) + "\n")
    (folder / "MM" / "G").mkdir(parents=True)
    for name in "abd":
        (folder / "MM" / "G" / f"{name}.tar.gz").write_bytes(archive(name))
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(folder))
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    return folder


@pytest.mark.slow
def test_stages_fetch_measure_and_remove(site, tmp_path, command):
    def run(*more):
        asked = ["--device", "emulated", "--formats", FORMATS, "--results", tmp_path, "--run", "all"]
        return command("run", "--all", "--disk", "1MB", *asked, *more)

    def reasons():
        rows = store.load(tmp_path / "all").drop_duplicates("name").set_index("name")["reason"]
        return {name: reason.split(":")[0] for name, reason in rows.items()}

    plan = json.loads(run("--plan", "json").out)
    assert plan["stages"][0]["matrices"] == 4 and plan["stages"][0]["cases"] == 8
    assert plan["left_out"] == {"complex values": ["G/z"]} and not (tmp_path / "all").exists()

    mine = suitesparse.location("G", "a")
    mine.parent.mkdir(parents=True)
    mine.write_bytes(archive("a"))
    first = run()
    assert first.code == 1 and "1 matrix could not be had, such as G/c: not fetched" in first.err
    assert reasons() == {"a": "", "b": "", "c": "not fetched", "d": ""}
    assert mine.exists() and not list(collection.folder().glob("*/*"))

    # What a killed run has left is used: the site lacks c now, too. Other files in that folder leave.
    left, strange = (collection.folder() / "G" / f"{name}.tar.gz" for name in ("c", "strange"))
    for path in (left, strange):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive("c"))
    second = run()
    assert (
        second.code == 0
        and "2 cases on 1 matrix" in second.out
        and second.out.endswith("all --emulated\n")
        and reasons()["c"] == ""
    )
    assert not list(collection.folder().glob("*/*"))


def test_archives_are_of_one_run_at_a_time(site, tmp_path, command):
    with collection.alone():
        result = command("run", "--all", "--device", "emulated", "--formats", FORMATS, "--results", tmp_path)
    assert result.code == 1 and "another run of the collection" in result.err


def test_an_archive_that_another_process_fetches_to_the_cache_is_used_there(site):
    item = collection.Item.of(suitesparse.search(["G/a"])[0])
    disk, place = collection.Disk(10**6), collection.folder()
    disk.admit("G/a", item.most)  # before it was in the cache
    mine = suitesparse.location("G", "a")
    mine.parent.mkdir(parents=True)
    mine.write_bytes(archive("a"))
    stock = collection.Stock([item], disk, suitesparse.Archives.to(place, 1), place)
    stock._fetch(item)
    assert not list(stock.wait([item], lambda: False)) and not disk.held and not stock.failed


def test_what_cannot_be_removed_stays_counted_and_fails_one_archive_alone(site):
    """A folder where the archive should be: `unlink` raises OSError in the thread that fetches."""
    place = collection.folder()
    items = [collection.Item.of(entry) for entry in suitesparse.search(["G/b", "G/d"])]
    size = max(item.most for item in items)
    disk = collection.Disk(3 * size, again=frozenset({"G/a"}))
    disk.admit("G/a", 2 * size + 1)
    disk.done("G/a")
    suitesparse.location("G", "a", folder=place).mkdir(parents=True)
    with collection.Stock(items, disk, suitesparse.Archives.to(place, 1), place) as stock:
        for _ in stock.wait(items[:1], lambda: False):
            pass
        assert "a.tar.gz" in stock.failed["G/b"] and disk.held["G/a"] == 2 * size + 1
        stock.disk.bound *= 2
        for _ in stock.wait(items, lambda: False):
            pass
    assert stock.failed.keys() == {"G/b"} and items[1].place(place).exists()


@pytest.mark.slow
def test_three_stages_measure_each_case_once(site, tmp_path, command, monkeypatch):
    formats = "ell", "csr-scalar,csr-vector", "csr-scalar,csr-vector,ell,coo-flat"
    monkeypatch.setattr("spmvbench.cli.collection.formats_of_stages", lambda: formats)
    monkeypatch.setattr("spmvbench.runner.collection.SAMPLE", 2)
    (site / "MM" / "G" / "c.tar.gz").write_bytes(archive("c"))
    done = command("run", "--all", "--device", "emulated", "--results", tmp_path, "--run", "three")
    assert done.code == 0
    rows = store.load(tmp_path / "three")
    assert len(rows) == rows["case_id"].nunique() == 16 and (rows["status"] == "ok").all()
    order = rows.sort_values("sequence")["label"].tolist()
    assert order[:2] == ["ell"] * 2 and sorted(order[2:10]) == ["csr-scalar"] * 4 + ["csr-vector"] * 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--all", "pde:8"], "name no matrix and no set"),
        (["--all", "--sample", "3"], "leave out --shard, --sample"),
        (["pde:8", "--plan", "table"], "--plan goes with --all"),
        (["pde:8", "--disk", "1GB"], "--disk goes with --all"),
        (["--all", "--disk", "1kB", "--device", "emulated", "--formats", "ell"], "measured: 4 over --disk"),
        (["--all", "--disk", "1kB", "--device", "emulated", "--plan", "table"], "nothing of the collection"),
        (["--all", "--min-nnz", "99", "--device", "emulated", "--plan", "table"], "nothing meets the conditions"),
    ],
)
def test_what_does_not_go_with_it(site, tmp_path, command, words, said):
    result = command("run", *words, "--results", tmp_path)
    assert result.code in (1, 2) and said in result.err


CASES = 40  # of each of both runs


@pytest.mark.slow
def test_a_case_costs_the_same_whatever_rows_are_there(tmp_path):
    """Calls, bytes read and written, and memory of a case: in an empty folder, and beside 20,000 rows."""

    def costs(first):
        # Of about one size, which the description of a matrix depends on.
        matrices = [lookup.obtain(f"uniform:{2000 + number}:2") for number in range(first, first + CASES)]
        cases = plan.cross(matrices, formats.parse("csr-scalar"), ["f64"], ["hot"], "emulated", 0)
        return measured_costs(tmp_path / "run", plan.grouped(cases))

    alone = costs(0)
    merged = tmp_path / "run" / store.ROWS
    table = files.read(merged, files.CASES).combine_chunks()
    ids = pa.array([f"{number:016x}" for number in range(500 * CASES)])
    many = pa.concat_tables([table] * 500)
    many = many.set_column(many.column_names.index("case_id"), "case_id", ids)
    with open(merged, "wb") as file:
        files.write(many, files.CASES, file)
    beside = costs(CASES)
    assert len(store.load(tmp_path / "run")) == 501 * CASES
    assert beside == pytest.approx(alone, rel=0.1)


def measured_costs(folder, groups):
    """Medians over the cases of the calls of this process and of the bytes that it reads and writes; and the memory of
    the measuring process at the end over that after half of the cases.
    """
    here, seen, calls, measuring = psutil.Process(), [], [0], []

    def on_row(row):
        if not measuring:  # looked for once, among all processes of the machine; it is the largest
            measuring.append(max(here.children(recursive=True), key=lambda child: child.memory_info().rss))
        moved = here.io_counters()
        seen.append((calls[0], moved.read_chars + moved.write_chars, measuring[0].memory_info().rss))

    def on_event(frame, event, argument):
        calls[0] += event == "call"

    folder.mkdir(exist_ok=True)
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        assert session.measure(folder, groups, Settings("emulated", budget=1e-6), session.Watcher(on_row=on_row))
    finally:
        sys.setprofile(before)
    medians = np.median(np.diff(np.array(seen)[:, :2], axis=0), axis=0)
    return {"calls": medians[0], "bytes": medians[1], "memory": seen[-1][2] / seen[len(seen) // 2][2]}
