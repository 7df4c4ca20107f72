"""Confined programs: forbidden actions fail, and no process or file outlives them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from spmvbench.bundles import confined

pytestmark = pytest.mark.skipif(
    bool(confined.unconfined()), reason="needs Linux 6.2 or newer, with seccomp, which confines programs"
)


FAR = 3600.0  # seconds, beyond the limit of a test: a limit that a busy machine meets would be another verdict


def python(text, *arguments):
    return [sys.executable, "-I", "-S", "-c", text, *map(str, arguments)]


def test_it_writes_in_its_folder_and_its_output_is_returned(tmp_path):
    own = tmp_path / "own"
    text = (
        "import os,sys; open('a','w').write('x'); os.mkdir('d'); os.rename('a','d/a'); open(os.devnull,'w').write('x')"
    )
    found = confined.run(python(f"{text}; print('out'); print('err', file=sys.stderr); sys.exit(7)"), own, FAR)
    assert found == confined.Outcome(7, "out\n", "err\n", "")
    assert (own / "d/a").read_text() == "x"


ELSEWHERE = {
    "write": "open(victim, 'w')",
    "append": "open(victim, 'a')",
    "truncate": "os.truncate(victim, 0)",
    "truncate while reading": "os.open(victim, os.O_RDONLY | os.O_TRUNC)",
    "remove": "os.unlink(victim)",
    "rename": "os.rename(victim, 'mine')",
    "replace": "open('mine', 'w'); os.replace('mine', victim)",
    "link": "os.link(victim, 'mine'); open('mine', 'w')",
    "through a symlink": "os.symlink(victim, 'mine'); open('mine', 'w')",
    "make": "open(victim + '2', 'w')",
    "make a folder": "os.mkdir(victim + '2')",
    "in the temporary folder": "open('/dev/shm/spmvbench-evil', 'w')",
    "a fifo": "os.mkfifo(victim + '2')",
    "socket": "import socket; socket.socket()",
    "unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "udp": "import socket; socket.socket(type=socket.SOCK_DGRAM)",
    "signal": "os.kill(parent, 0)",
    "memory": f"bytearray({confined.MEMORY} + 1)",
    "a long file": f"open('mine', 'wb').truncate({confined.FILE} + 1)",
    "trace": "import ctypes; c = ctypes.CDLL(None, use_errno=True); assert c.ptrace(16, parent, 0, 0) == 0",
    "from a child": "assert os.system(f'echo x > {victim}') == 0",
}


@pytest.mark.slow
@pytest.mark.parametrize("action", ELSEWHERE.values(), ids=ELSEWHERE)
def test_it_changes_nothing_elsewhere(tmp_path, action):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    victim.chmod(0o600)
    before = victim.stat()
    text = f"import os, sys; victim, parent = sys.argv[1], int(sys.argv[2])\n{action}\nprint('done')"
    found = confined.run(python(text, victim, os.getpid()), tmp_path / "own", FAR)
    assert found.code != 0 and "done" not in found.out, found
    after = victim.stat()
    assert victim.read_text() == "kept" and (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "victim"]


@pytest.mark.parametrize("module", ["psutil", "resource", "spmvbench/__init__", "sitecustomize"])
def test_modules_that_its_environment_names_have_no_rights_either(tmp_path, module):
    """They would be imported by the supervisor, before anything is confined."""
    planted = tmp_path / "sources" / f"{module}.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"open({str(tmp_path / 'victim')!r}, 'w')")
    command = python("import os; print(os.environ['PYTHONPATH'])")
    found = confined.run(command, tmp_path / "own", FAR, {"PYTHONPATH": str(tmp_path / "sources")})
    assert found.out == f"{tmp_path / 'sources'}\n" and found.code == 0
    assert not (tmp_path / "victim").exists()


def test_it_changes_no_modes_and_times(tmp_path):
    """They report success, because compilers need them, and change nothing."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    before = victim.stat()
    text = "import os, sys; os.chmod(sys.argv[1], 0o777); os.utime(sys.argv[1], (1, 1)); os.chown(sys.argv[1], 1, 1)"
    assert confined.run(python(text, victim), tmp_path / "own", FAR).code == 0
    after = victim.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_uid) == (before.st_mode, before.st_mtime_ns, before.st_uid)


def test_it_sees_no_secrets_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    text = "import os; print(sorted(os.environ), os.environ['HOME'], os.environ['GIVEN'])"
    found = confined.run(python(text), tmp_path / "own", FAR, {"GIVEN": "value"})
    assert "TOKEN" not in found.out and f"{tmp_path / 'own'} value" in found.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "seconds", "limit"),
    [
        ("while True: pass", 0.5, "it exceeded its time limit"),
        ("import os, time\nwhile os.fork(): pass\ntime.sleep(1000)", FAR, "it had more than 64 processes"),
    ],
    ids=["time", "processes"],
)
def test_it_ends_at_a_limit(tmp_path, text, seconds, limit):
    assert confined.run(python(text), tmp_path / "own", seconds).limit == limit


def test_its_output_is_truncated(tmp_path):
    found = confined.run(python("print('x' * 10_000_000)"), tmp_path / "own", FAR)
    assert found.out == "x" * confined.MAX_OUTPUT


LEAVE = (
    "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', sys.argv[1]]"
)


def named(mark):
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("apart", [True, False], ids=["name spaces", "none"])
def test_nothing_that_it_has_started_outlives_it(tmp_path, apart):
    mark = str(tmp_path / "mark")
    arguments = python(f"{LEAVE}, start_new_session=True)", mark)
    if apart:
        assert confined.run(arguments, tmp_path / "own", FAR).code == 0
    else:  # as on a system without name spaces
        (tmp_path / "own").mkdir()
        text = (
            "import sys; from pathlib import Path; from spmvbench.bundles import confined\n"
            "confined._new_namespaces = lambda libc: None\n"
            f"sys.exit(confined._supervise({FAR}, Path(sys.argv[1]), {{}}, sys.argv[2:]))"
        )
        child = psutil.Popen([sys.executable, "-c", text, str(tmp_path / "own"), *arguments])
        assert child.wait() == 0
    assert named(mark) == []


def test_it_ends_with_its_parent(tmp_path):
    mark = str(tmp_path / "mark")
    (tmp_path / "own").mkdir()
    arguments = python(f"open('ready', 'w'); {LEAVE}).wait()", mark)
    command = [sys.executable, "-P", "-m", confined.__name__, "600", str(tmp_path / "own"), "{}", *arguments]
    supervisor = psutil.Popen(command, cwd=tmp_path / "own", stderr=subprocess.DEVNULL)
    while not named(mark) or not Path(tmp_path, "own/ready").exists():
        assert supervisor.poll() is None
        time.sleep(0.02)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait() == confined.LIMIT_EXCEEDED
    assert named(mark) == []


def test_missing_landlock_is_reported(monkeypatch):
    monkeypatch.setattr(confined, "_version", lambda: 2)
    assert confined.unconfined() == ["write wherever you can"]
    monkeypatch.setattr(confined.platform, "machine", lambda: "riscv64")
    assert confined.unconfined() == ["write wherever you can", "use the network"]
