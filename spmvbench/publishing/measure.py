"""Measures the runs that are published of a card, in pieces that can be stopped: `make measure CARD=h200`.

``python -m spmvbench.publishing measure h200`` measures the steps of configs/measure.toml one after the other, each by
`spmvbench run`, into runs named after the card and the configuration, such as results/h200-headline. It asks the run in
progress to stop when the time is over; the same command continues with the next case. Every row is written whole.

Exit codes: 0, everything is measured; 1, everything that can be measured is, and a case or a step failed; 3, the time
is over and the same command continues; 2, the command is wrong.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from spmvbench import paths
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.programs import making
from spmvbench.publishing import in_page
from spmvbench.runner.supervisor import reap

MEASURED, FAILED, WRONG, UNFINISHED = 0, 1, 2, 3  # exit codes
GRACE = 30.0  # seconds in which the case in progress may end, within the time of the piece
STOPPED = 130  # exit code of `spmvbench run`
NARROWING = ("dtype", "mode", "op", "max-nnz")


@dataclass(frozen=True)
class Step:
    """A configuration of `spmvbench run`, its run's name without the card, and options that narrow it.

    programs: languages whose `spmvbench program new` is measured beside the formats.
    """

    config: str
    name: str
    options: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *self.options[1::2]))


def steps(file: Path) -> list[Step]:
    """The steps of a list such as configs/measure.toml, in its order.

    A configuration is a name of configs/runs, or a file beside the list. Raises UsageError for a list that names no
    step, an unknown key or a configuration that does not exist.
    """
    try:
        listed = tomllib.loads(file.read_text(encoding="utf-8")).get("step", [])
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
    found = []
    for step in listed:
        if unknown := set(step) - {"config", "programs", *NARROWING}:
            taken = ", ".join(("programs", *NARROWING))
            raise UsageError(f"{file} has an unknown key {sorted(unknown)[0]}; a step takes config, {taken}")
        name = str(step.get("config", ""))
        beside, shipped = file.parent / f"{name}.toml", paths.configs() / "runs" / f"{name}.toml"
        if not (beside.is_file() or shipped.is_file()):
            raise UsageError(f"{file} names the configuration {name!r}, which does not exist")
        options = [word for key in NARROWING if key in step for word in (f"--{key}", str(step[key]))]
        programs = tuple(step.get("programs", ()))
        if unknown := set(programs) - set(making.TEMPLATES):
            raise UsageError(
                f"{file} names the language {sorted(unknown)[0]!r}; there are {', '.join(making.TEMPLATES)}"
            )
        found.append(Step(str(beside if beside.is_file() else shipped), name, tuple(options), programs))
    if not found:
        raise UsageError(f"{file} names no step")
    return found


def require_card(card: str, device: str) -> None:
    """Raises UsageError if the name of the device does not contain that of the card: rows would have a wrong name."""
    asked = [sys.executable, "-m", "spmvbench", "env", "--json"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    known: dict[str, Any] = json.loads(told)["devices"] if told else {}
    about = known.get(device, known.get("cuda:0", {}) if device.startswith("cuda:") else {})
    if not about.get("available"):
        raise UsageError(f"{device} cannot be used: {about.get('reason', 'unknown device')}")
    name = str(about["device_name"])
    if _letters(card) not in _letters(name):
        raise UsageError(f"the device is {name}, not {card}: name it as CARD")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def measure(
    card: str, todo: Sequence[Step], results: Path, options: Sequence[str], seconds: float, grace: float = GRACE
) -> int:
    """Measure the steps for at most `seconds` and print a line for each. Returns an exit code of this module.

    options: added to every `spmvbench run`, such as ``--device cuda:0``. grace: seconds before the end in which the
    case in progress may end.
    """
    until = time.monotonic() + seconds
    failed: list[str] = []
    results.mkdir(parents=True, exist_ok=True)
    with open(results / f"{card}-measure.log", "ab") as log:
        for at, step in enumerate(todo):
            command = ["--config", step.config, *step.options, *options, *_with_programs(step, results)]
            command += ["--run", f"{card}-{step.name}", "--results", str(results)]
            began = time.monotonic()
            code = run_until(command, until - grace, until, log)
            took = f"{time.monotonic() - began:.0f} s"
            if code == STOPPED or (code and time.monotonic() >= until):
                print(f"{step}: stopped after {took}; {len(todo) - at} of {len(todo)} steps are left", flush=True)
                return UNFINISHED
            # Exit code 1 has two meanings: cases failed, or the run could not be made.
            told = "measured" if not code else "measured, cases failed" if _complete(command) else "not measured"
            failed += [f"{step} ({told})"] if code else []
            print(f"{step}: {told}, {took}", flush=True)
    if failed:
        print(f"{len(failed)} of {len(todo)} steps failed, for reasons in {results / f'{card}-measure.log'}:")
        print("\n".join(f"  {line}" for line in failed))
    return FAILED if failed else MEASURED


def _with_programs(step: Step, results: Path) -> list[str]:
    """Options for the programs of a step, which are built once: one built again would be measured again.

    Raises SpmvbenchError if one does not compile.
    """
    words = []
    for language in step.programs:
        name, folder = f"example-{language}", results / "programs"
        program = folder / f"{name}.py"
        if Path(making.TEMPLATES[language]).suffix != ".py":
            program = folder / f"lib{name}.so"
        if not program.is_file():
            for old in folder.glob(f"{name}.*"):  # of a build that failed
                old.unlink()
            source = making.new(name, language, folder)[0]
            if source != program:
                making.build(source, program)
        words += ["--program", str(program)]
    return words


def run_until(words: Sequence[str], ask_at: float, kill_at: float, log: IO[bytes]) -> int:
    """Exit code of `spmvbench run`. It is asked to stop at `ask_at`, and again, at once, at `kill_at`."""
    if time.monotonic() >= ask_at:
        return STOPPED
    process = subprocess.Popen([sys.executable, "-m", "spmvbench", "run", *words], stdout=log, stderr=subprocess.STDOUT)
    try:
        for at in (ask_at, kill_at):
            try:
                code = process.wait(max(at - time.monotonic(), 0))
                # One that is asked while it starts ends with another code.
                return STOPPED if code and at == kill_at else code
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    except KeyboardInterrupt:  # a second signal, of another number, stops it at once
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        raise
    finally:
        if process.poll() is None:
            process.kill()
        reap(process)
    return STOPPED


def _complete(words: Sequence[str]) -> bool:
    """Whether a run has a row of every case, right or failed."""
    asked = [sys.executable, "-m", "spmvbench", "run", *words, "--dry-run"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return told.returncode == 0 and bool(re.search(r" 0 to measure$", told.stdout, re.MULTILINE))


def main(words: Sequence[str] | None = None) -> int:
    """The command; see the module. words: the arguments, by default those of the process."""
    parser = in_page.parser(__name__)
    parser.epilog = "After --: options for every `spmvbench run`."
    parser.add_argument("card", help="name of the card, which its device's name contains, such as h200")
    parser.add_argument("--steps", type=Path, default=paths.configs() / "measure.toml", help="list of the runs")
    parser.add_argument("--seconds", type=float, default=540.0, help="time of a piece (default: 540)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the runs (default: results)")
    parser.add_argument("--device", default="cuda:0", help="default: cuda:0")
    asked = list(sys.argv[1:] if words is None else words)
    at = asked.index("--") if "--" in asked else len(asked)  # argparse gives what follows to no argument since 3.12
    given = parser.parse_args(asked[:at])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise the run would go on measuring by itself
    try:
        if given.seconds <= 0:
            raise UsageError("--seconds must be above 0")
        if not re.fullmatch(r"[\w.-]+", given.card):
            raise UsageError("CARD is a word of letters, digits, dots and hyphens")
        todo = steps(given.steps)
        require_card(given.card, given.device)
        options = ["--device", given.device, *asked[at + 1 :]]
        return measure(given.card, todo, given.results, options, given.seconds, min(GRACE, given.seconds / 4))
    except SpmvbenchError as error:
        print(f"Error: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("stopped; the same command continues", flush=True)
        return UNFINISHED
