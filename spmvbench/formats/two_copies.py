"""Two copies of a matrix as one format: A in one format and A^T in another, such as ``irregular+csr-lanes``.

A key with a plus is such a format; it is in no list. Its parameters are those of both: ``a.`` before the first one's,
``t.`` before the second one's, as in ``sell+csr-vector[a.height=32]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, ClassVar

from spmvbench.errors import UsageError
from spmvbench.formats.arrays import Array, Csr
from spmvbench.formats.csc.csc import by_columns
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Step
from spmvbench.formats.ordered import Ordered
from spmvbench.formats.parameters import Parameter, cached

PLUS = "+"


def transposed(a: Csr) -> Csr:
    """A^T in canonical CSR, on the array module of `a`."""
    col_ptr, order = by_columns(a)
    return Csr((a.cols, a.rows), col_ptr, a.row_idx[order], a.values[order], a.vectors)


class TwoCopies(Format):
    """A in one format for y = A x, and A^T in another for y = A^T x. The conversion transposes A itself.

    What a half takes or gives in an order of its own is brought into the matrix's order by launches.
    """

    family = "Two copies"
    reference = "this project: two formats under one key"
    formats: ClassVar[tuple[type[Format], ...]] = ()  # of A, and of A^T

    a: Format
    t: Format

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.key, *self.formats, self.shape, self.a, self.t, dict(self.params))

    @classmethod
    def halves(cls, params: dict[str, Any]) -> Iterable[tuple[str, type[Format], dict[str, Any]]]:
        """Name, class and parameters of each half."""
        for name, half in zip("at", cls.formats, strict=True):
            own = {key[2:]: value for key, value in params.items() if key.startswith(f"{name}.")}
            yield name, half, own

    @classmethod
    def _made(cls, a: Csr, params: dict[str, Any], make: Callable[..., Any]) -> dict[str, Any]:
        """By the name of each half what `make` gives for its class, matrix and parameters."""
        # One after the other: A^T is not held in memory while A is converted.
        return {name: make(half, a if name == "a" else transposed(a), own) for name, half, own in cls.halves(params)}

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        """Bytes of both."""
        return sum(cls._made(a, params, lambda half, a, own: half.estimate(a, **own)).values())

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        """Both copies."""
        return cls._made(a, params, lambda half, a, own: half.converted(a, **own))

    def to_coo(self) -> tuple[Array, Array, Array]:
        """The entries of the first copy."""
        return self.a.to_coo()

    def launches(self, x: Array, y: Array) -> list[Step]:
        """As of the first copy."""
        return list(Ordered(self.a).launches(x, y))

    def transposed(self, x: Array, y: Array) -> list[Step]:
        """As of the second copy."""
        return list(Ordered(self.t).launches(x, y))

    @classmethod
    def runs_project_kernel(cls, params: Any) -> bool:
        """Whether one of both does."""
        return any(half.runs_project_kernel(own) for _, half, own in cls.halves(params))

    @property
    def hidden_bytes(self) -> int:
        """Of both."""
        return self.a.hidden_bytes + self.t.hidden_bytes

    @property
    def bytes_read(self) -> int:
        """Of both."""
        return self.a.bytes_read + self.t.bytes_read

    @property
    def setup_seconds(self) -> float:
        """Of both."""
        return self.a.setup_seconds + self.t.setup_seconds

    @property
    def in_use(self) -> dict[str, Any]:
        """Of both, by the names that parameters have here."""
        return {f"{name}.{key}": value for name, half in self._copies for key, value in half.in_use.items()}

    @property
    def detail(self) -> dict[str, Any]:
        """Of both, likewise."""
        return {f"{name}.{key}": value for name, half in self._copies for key, value in half.detail.items()}

    @property
    def _copies(self) -> tuple[tuple[str, Format], tuple[str, Format]]:
        return ("a", self.a), ("t", self.t)


@cached
def of(key: str, first: type[Format], second: type[Format]) -> type[TwoCopies]:
    """The class of a key with a plus, from the classes of both halves. Raises UsageError unless both run y = A x."""
    both = first, second
    if any(issubclass(half, TwoCopies) for half in both):
        raise UsageError(f"{key} has more than two formats: a pair is of A and of its transpose")
    for half in both:
        if half.op != Format.op:
            raise UsageError(f"{half.key} computes {half.op}, and a copy of a pair y = A x")
    parameters: dict[str, Parameter[Any]] = {
        f"{name}.{key}": parameter.defaulting(parameter.default)
        for name, half in zip("at", both, strict=True)
        for key, parameter in half.parameters().items()
    }
    flags = {name: any(getattr(half, name) for half in both) for name in _ANY}
    flags |= {name: all(getattr(half, name) for half in both) for name in _ALL}
    devices = tuple(device for device in first.devices if device in second.devices)
    known = {"__module__": __name__, "key": key, "formats": both, "devices": devices, "vectors_together": 1}
    return type(key, (TwoCopies,), known | flags | parameters)


# What a half may say of itself that holds for the whole: if one of them says so, and if both do.
_ANY = ("multiplies_padding", "values_decide", "square_only", "experiment", "project_kernel")
_ALL = ("keeps_zeros", "keeps_values", "wide_offsets", "converts_on_host")


def _restored(key: str, first: type[Format], second: type[Format], shape: tuple[int, int], *held: Any) -> TwoCopies:
    """The format that was pickled or copied."""
    a, t, params = held
    return of(key, first, second)(shape=shape, a=a, t=t, params=MappingProxyType(params))
