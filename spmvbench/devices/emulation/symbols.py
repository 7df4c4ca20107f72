"""What the checking build's machine code says about the source: lines and loops, by binutils or LLVM."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from spmvbench import paths

_HERE = Path(__file__).resolve().parent
MAX_LOOPS = 64  # bits of a mask in checker.cpp; the innermost beyond that are forgotten

_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(?:bnd\s+|notrack\s+)?(\S+)(?:.*?\b(?:0x)?([0-9a-f]+) <([^>+@]*))?")
_HOOK = re.compile(r"__tsan_|__sanitizer_cov_trace_pc|^_Z\d+atomic|load_whole|store_whole")
_CALL = re.compile(r"call|blr?$")
_JUMP = re.compile(r"j|b\.|b$|cbn?z|tbn?z")
_END = re.compile(r"jmp|b$|br$|ret")


@dataclass(frozen=True)
class Place:
    """An instruction that the checker hears of.

    offset: in the library. name: ``csr.cu:25``. rank: its order in the source. loops: those around it, outermost first,
    as bits from the lowest. heads: those of them that begin an iteration in the same basic block.
    """

    offset: int
    name: str
    rank: int
    loops: int
    heads: int


@dataclass(frozen=True)
class _Instruction:
    address: int
    mnemonic: str
    target: int | None
    symbol: str

    @property
    def calls(self) -> bool:
        return bool(_CALL.match(self.mnemonic))

    @property
    def ends(self) -> bool:
        """Whether the next instruction does not follow."""
        return bool(_END.match(self.mnemonic)) or (self.calls and "emulation4fail" in self.symbol)


def places(library: Path) -> list[Place]:
    """Every instruction of the kernel that the checker hears of, by offset; none where the tools are missing."""
    objdump, addr2line = _tool("objdump"), _tool("addr2line")
    if objdump is None or addr2line is None:
        return []
    found: dict[int, tuple[int, int]] = {}
    for function in _output(objdump, "-d", "--no-show-raw-insn", library).split("\n\n"):
        if _HOOK.search(function):  # few of the functions are the kernel's
            found |= _hooks(_instructions(function))
    offsets = sorted(found)
    chains = _frames(_output(addr2line, "-a", "-i", "-e", library, *map(hex, offsets)), offsets)
    order = {chain: i for i, chain in enumerate(sorted(set(chains.values())))}
    return [
        Place(offset, _name(chains[offset]) or f"+{offset:#x}", order[chains[offset]], *found[offset])
        for offset in offsets
    ]


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(f"llvm-{name}")


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _instructions(listing: str) -> list[_Instruction]:
    found = (_INSTRUCTION.match(line) for line in listing.splitlines())
    return [_Instruction(int(m[1], 16), m[2], int(m[3], 16) if m[3] else None, m[4] or "") for m in found if m]


def _hooks(code: list[_Instruction]) -> dict[int, tuple[int, int]]:
    """Of a function: the last byte of each call of a hook, with the masks of the loops around it and begun there."""
    calls = {
        this.address: after.address - 1 for this, after in pairwise(code) if this.calls and _HOOK.search(this.symbol)
    }
    if not calls:
        return {}
    blocks = _blocks(code)
    loops = sorted(_loops(blocks).items(), key=lambda loop: -len(loop[1]))[:MAX_LOOPS]
    masks = {}
    for start, (addresses, _) in blocks.items():
        around = sum(1 << bit for bit, (_, body) in enumerate(loops) if start in body)
        heads = sum(1 << bit for bit, (head, _) in enumerate(loops) if start == head)
        for i, address in enumerate(address for address in addresses if address in calls):
            masks[calls[address]] = around, heads if i == 0 else 0
    return masks


def _blocks(code: list[_Instruction]) -> dict[int, tuple[list[int], list[int]]]:
    """Basic blocks by their start: the addresses of their instructions, and the starts of the blocks that follow."""
    inside = {instruction.address for instruction in code}
    targets = {i.target for i in code if _JUMP.match(i.mnemonic)} & inside
    blocks: dict[int, tuple[list[int], list[int]]] = {}
    fresh = True
    for this, after in zip(code, [*code[1:], None], strict=True):
        if fresh or this.address in targets:
            addresses, following = blocks[this.address] = ([], [])
        addresses.append(this.address)
        jumps = bool(_JUMP.match(this.mnemonic))
        if jumps and this.target in inside:
            following.append(this.target)
        fresh = jumps or this.ends
        if after is not None and not this.ends and (fresh or after.address in targets):
            following.append(after.address)
    return blocks


def _loops(blocks: dict[int, tuple[list[int], list[int]]]) -> dict[int, set[int]]:
    """Natural loops by their head (Aho et al., Compilers, section 9.6): the blocks of each."""
    entry = next(iter(blocks))
    before: dict[int, list[int]] = {start: [] for start in blocks}
    reached, waiting = set(), [entry]
    while waiting:
        start = waiting.pop()
        if start not in reached:
            reached.add(start)
            waiting += blocks[start][1]
            for follower in blocks[start][1]:
                before[follower].append(start)
    dominators = {start: {start} if start == entry else set(reached) for start in reached}
    changed = True
    while changed:
        changed = False
        for start in reached - {entry}:
            now = {start} | set.intersection(*(dominators[other] for other in before[start]))
            changed |= now != dominators[start]
            dominators[start] = now
    loops: dict[int, set[int]] = {}
    for start in reached:
        for head in dominators[start].intersection(blocks[start][1]):
            body = loops.setdefault(head, {head})
            waiting = [start]
            while waiting:
                inner = waiting.pop()
                if inner not in body:
                    body.add(inner)
                    waiting += before[inner]
    return loops


def _frames(answer: str, offsets: list[int]) -> dict[int, tuple[tuple[str, int], ...]]:
    """(file, line) of the calls that lead to each offset, outermost first, the emulation's own left out."""
    chains: dict[int, tuple[tuple[str, int], ...]] = {}
    last: tuple[tuple[str, int], ...] = ()
    # Each offset is repeated on a line of its own; the frames follow, innermost first.
    for offset, block in zip(offsets, re.split(r"^0x[0-9a-f]+\n", answer, flags=re.MULTILINE)[1:], strict=True):
        chain = []
        for frame in block.splitlines():
            file, _, line = frame.split(" ")[0].rpartition(":")
            if line.isdigit() and not _own(file):
                chain.append((file, int(line)))
        last = chains[offset] = tuple(reversed(chain)) or last  # without a line: where the one before is
    return chains


@cache
def _own(file: str) -> bool:
    """Whether a file is the emulation's, not a kernel's."""
    return Path(file).resolve().parent == _HERE


def _name(chain: tuple[tuple[str, int], ...]) -> str:
    """The innermost call that is no helper of kernels/include, where there is one."""
    helpers = str(paths.include())
    own = [frame for frame in chain if not frame[0].startswith(helpers)]
    return next((f"{Path(file).name}:{line}" for file, line in reversed(own or chain)), "")
