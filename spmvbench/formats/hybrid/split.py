"""Hybrids: a matrix split into parts, each stored in a format of its own. A subclass gives the rule that splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from spmvbench.formats.arrays import Array, Csr, nonzero_mask
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Step, in_part


class Made(NamedTuple):
    """A part that the rule has made itself, and how many entries it holds."""

    part: Format
    nnz: int


class Piece(NamedTuple):
    """Some of a matrix's entries, the format that stores them, and its parameters that are not defaults."""

    name: str
    format: type[Format]
    entries: Csr | Made  # of the whole matrix's shape
    params: Mapping[str, Any] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that will hold it."""
        if isinstance(self.entries, Made):
            return self.entries.part.nbytes
        return self.format.estimate(self.entries, **self.format.resolve(self.params))

    @property
    def part(self) -> Format:
        """It in its format."""
        if isinstance(self.entries, Made):
            return self.entries.part
        return self.format.converted(self.entries, **self.params)


class Split(Format):
    """Parts that are formats, each of the whole matrix's shape and holding some of its entries; no other arrays.

    The first part gives all of y, the others add to it. A piece without entries is left out, unless no piece has any.
    Subclasses give the rule, `split`, and list in `formats` what it may assign to.
    """

    family = "Hybrid"
    formats: ClassVar[tuple[type[Format], ...]] = ()  # that parts may have

    parts: Mapping[str, Format]  # the parts by name, in the order of their launches
    entries: Mapping[str, int]  # how many each piece of the rule has, those left out too

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.keeps_zeros = all(part.keeps_zeros for part in cls.formats)
        names = ", ".join(part.key or part.__name__ for part in cls.formats)
        cls.shared_implementation = f"parts in other formats: {names}"

    @classmethod
    def split(cls, a: Csr, *_: Any, **params: Any) -> Iterator[Piece]:
        """Every entry of the matrix in one of some pieces. Raises Skip if the hybrid cannot hold it."""
        raise NotImplementedError

    @classmethod
    def pieces(cls, a: Csr, **params: Any) -> tuple[list[Piece], dict[str, int]]:
        """The pieces that become parts, and the entries of all by name."""
        pieces = list(cls.split(a, **params))
        held = [piece for piece in pieces if piece.entries.nnz] or pieces[:1]
        return held, {piece.name: piece.entries.nnz for piece in pieces}

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return sum(piece.nbytes for piece in cls.pieces(a, **params)[0])

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        held, entries = cls.pieces(a, **params)
        return {"parts": {piece.name: piece.part for piece in held}, "entries": entries}

    def to_coo(self) -> tuple[Array, Array, Array]:
        decoded = zip(*(part.to_coo() for part in self.parts.values()), strict=True)
        rows, cols, values = (self.xp.concatenate(arrays) for arrays in decoded)
        if not self.keeps_zeros:  # some part drops them, so the others' go as well
            stored = self.xp.flatnonzero(nonzero_mask(values))
            rows, cols, values = rows[stored], cols[stored], values[stored]
        return rows, cols, values

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        (name, first), *others = self.parts.items()
        added = [step for name, part in others for step in in_part(name, part.accumulate(x, y))]
        return [*in_part(name, first.launches(x, y)), *added]

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        return [step for name, part in self.parts.items() for step in in_part(name, part.accumulate(x, y))]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [step for name, part in self.parts.items() for step in in_part(name, part.add_transposed(x, y))]

    @classmethod
    def transposes(cls) -> bool:
        return super().transposes() and all(part.transposes() for part in cls.formats)

    @property
    def detail(self) -> dict[str, Any]:
        """The share of the entries in each piece, and the `detail` of the parts."""
        nnz = max(sum(self.entries.values()), 1)
        shares = {f"{name}_share": entries / nnz for name, entries in self.entries.items()}
        told = {f"{name}_{what}": value for name, part in self.parts.items() for what, value in part.detail.items()}
        return shares | told
