"""Types of values and vectors: values may be stored with fewer digits than x, y and the sums have.

A format needs nothing for it but kernels that take both types. Its arrays are made from a matrix of narrower values.
Of each launch the types of the template are then deduced from the arrays that it takes, as C++ deduces those of a
function: `template <typename V, ..., typename S = V>` with ``const S* values`` and ``const V* x``. A kernel with one
type for both refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, array_module
from spmvbench.formats.kernels import Declaration, declaration, split
from spmvbench.formats.launches import Call, Launch, Loop, Step, ctype, flat, single_steps

VALUE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}
# NumPy has no bfloat16: its 16 bits are kept in float16 arrays, which are moved and never computed with.
_ARRAYS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float16}
_LARGEST = {"f16": 65504.0, "bf16": float(np.float32(2.0**128 - 2.0**120)), "f32": float(np.finfo(np.float32).max)}


@dataclass(frozen=True)
class Precision:
    """values: the type that values are stored in, f64, f32, f16 or bf16. vectors: that of x, y and sums, f64 or f32."""

    values: str
    vectors: str

    @property
    def name(self) -> str:
        """As rows have it: one type, ``f64``, or ``f32/f64`` for values in f32 and vectors in f64."""
        return self.values if self.values == self.vectors else f"{self.values}/{self.vectors}"

    @property
    def is_mixed(self) -> bool:
        """Whether values are stored in another type than the vectors."""
        return self.values != self.vectors

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32: the type of the vectors."""
        return np.dtype(_ARRAYS[self.vectors])

    def rounded(self, a: Csr) -> Csr:
        """A matrix on the host with values that the stored type holds, in the vectors' type.

        Rounded once, to nearest, ties to even; below the smallest normal number to subnormals. Raises Skip if an entry
        exceeds the largest number of a stored type that is not the vectors'.
        """
        if not self.is_mixed:
            return a.astype(self.dtype)
        values = _nearest(a.values.astype(np.float64, copy=False), self.values)
        if beyond := int(np.count_nonzero(~np.isfinite(values) & np.isfinite(a.values))):
            raise Skip(f"{beyond:,} entries exceed {_LARGEST[self.values]:.6g}, the largest number of {self.values}")
        return Csr(a.shape, a.row_ptr, a.col_idx, values.astype(self.dtype))

    def stored(self, rounded: Csr) -> Csr:
        """The matrix that formats convert, from the result of `rounded`, on the host."""
        if not self.is_mixed:
            return rounded
        values = rounded.values
        if self.values == "bf16":
            values = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.float16)
        return self._with(rounded, values.astype(_ARRAYS[self.values], copy=False))

    def _with(self, a: Csr, values: Array) -> Csr:
        return Csr(a.shape, a.row_ptr, a.col_idx, values, self.dtype)

    def integers(self, a: Csr) -> Csr:
        """A matrix of the integers 1 to 4 in the stored type, from one in the vectors', on its array module."""
        if not self.is_mixed:
            return a
        if self.values == "bf16":  # 1, 2, 3 and 4 as the upper halves of floats
            numbers = a.xp.asarray(np.array([0, 0x3F80, 0x4000, 0x4040, 0x4080], np.uint16))
            return self._with(a, numbers[a.values.astype(np.int32)].view(np.float16))
        return self._with(a, a.values.astype(_ARRAYS[self.values]))

    def launches(self, steps: Iterable[Step]) -> list[Step]:
        """The steps of a format of such values, each kernel in the types of the arrays that it takes.

        Raises Skip if a kernel takes one type for values and vectors.
        """
        steps = list(steps)
        if not self.is_mixed:
            return steps
        held = [arg for step in single_steps(steps) for arg in flat(step.args) if _floats(arg)]
        if held and all(arg.dtype == self.dtype for arg in held):
            raise Skip("values are packed with other data: values and vectors have to be of one type")
        return [self._typed(step) for step in steps]

    def _typed(self, step: Step) -> Step:
        if isinstance(step, Loop):
            return replace(step, steps=tuple(self._typed_step(inside) for inside in step.steps))
        return self._typed_step(step)

    def _typed_step(self, step: Launch | Call) -> Launch | Call:
        return replace(step, kernel=self._kernel(step)) if isinstance(step, Launch) else step

    def _kernel(self, launch: Launch) -> str:
        """The name expression with deduced types."""
        name, _, given = launch.kernel.partition("<")
        known = declaration(launch.source, name)
        deduced, found, stated = self._deduced(launch, known), dict[str, str](), split(given.removesuffix(">"))
        for i, (parameter, default) in enumerate(known.template):
            stands = stated[i] if i < len(stated) else found.get(default, default)
            several = stands.startswith("Multi<")  # vectors: see `multivector`
            found[parameter] = stands if several else deduced.get(parameter, stands)
        return f"{name}<{', '.join(found.values())}>" if found else launch.kernel

    def _deduced(self, launch: Launch, known: Declaration) -> dict[str, str]:
        """The types of template parameters that follow from arrays and numbers of floating point."""
        name = launch.kernel.partition("<")[0]
        if len(known.parameters) != len(launch.args) or any(parameter == "..." for parameter, _ in known.template):
            raise Skip(f"the types that {name} takes are not known: values and vectors have to be of one type")
        found: dict[str, str] = {}
        for kind, arg in zip(known.types, launch.args, strict=True):
            for held in flat([arg]):
                if not _floats(held):
                    continue
                if not kind:
                    raise Skip(f"{name} takes values in a struct: values and vectors have to be of one type")
                is_parameter = any(kind == parameter for parameter, _ in known.template)
                wanted = self._ctype(held)
                if (found.setdefault(kind, wanted) if is_parameter else kind) != wanted:
                    raise Skip(f"{name} takes values and vectors of one type")
        return found

    def _ctype(self, held: Any) -> str:
        return self.values if held.dtype == np.float16 else ctype(held)


def _floats(arg: Any) -> bool:
    """Whether an argument of a launch is an array of floating point numbers, or such a number."""
    return isinstance(arg, np.generic | array_module(arg).ndarray) and arg.dtype.kind == "f"


def _nearest(values: Array, kind: str) -> Array:
    """The nearest numbers of a type, in float64, ties to even; infinite beyond its largest."""
    with np.errstate(over="ignore"):
        if kind != "bf16":
            return values.astype(_ARRAYS[kind]).astype(np.float64)
        # 8 significant bits: the last of them is bit 45 of a double.
        bits = values.view(np.uint64)
        nearest = ((bits + ((bits >> np.uint64(45)) & np.uint64(1)) + np.uint64(2**44 - 1)) >> np.uint64(45)) << (
            np.uint64(45)
        )
        small = np.rint(values * 2.0**133) * 2.0**-133  # subnormal: multiples of the smallest number
        found = np.where(np.abs(values) < 2.0**-126, small, nearest.view(np.float64))
        return np.where(np.isfinite(values), found.astype(np.float32).astype(np.float64), values)


def rounding_error(a: Csr, rounded: Csr) -> float:
    """The largest relative error of a row, in the 1-norm, that rounding its values has made; both on the host.

    With it, an element of y differs from that of the exact matrix by at most as much of (|A| |x|), for x of magnitudes
    that are alike. 0 for a matrix without entries.
    """
    if a is rounded or not a.nnz:
        return 0.0
    exact = a.values.astype(np.float64, copy=False)
    begins = a.row_ptr[:-1][a.row_lengths > 0]
    error, size = (np.add.reduceat(np.abs(part), begins) for part in (rounded.values - exact, exact))
    return float(np.divide(error, size, out=np.zeros_like(error), where=error > 0).max())


def stored_in(a: Csr) -> Precision:
    """The types of a matrix as formats convert it. bf16 counts as f16: they are alike but for the numbers."""
    return Precision(f"f{8 * a.dtype.itemsize}", f"f{8 * a.vector_dtype.itemsize}")


PRECISIONS = {
    found.name: found
    for found in (
        Precision(values, vectors)
        for vectors in ("f64", "f32")
        for values, size in VALUE_BYTES.items()
        if values == vectors or size < VALUE_BYTES[vectors]
    )
}
