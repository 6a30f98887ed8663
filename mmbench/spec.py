"""What a kernel is, what a point of a sweep is, and how one launch of it looks.

Frozen values only: no files, no devices, no TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmbench.expressions import Expression

Dim3 = tuple[int, int, int]

ELEMENT_BYTES = {"float32": 4, "float64": 8}

SCALAR_BYTES = {
    "int": 4,
    "unsigned": 4,
    "unsigned int": 4,
    "size_t": 8,
    "long long": 8,
    "float": 4,
    "double": 8,
}


@dataclass(frozen=True)
class Problem:
    """The product C (M x N) = A (M x K) * B (K x N), all row-major."""

    m: int
    n: int
    k: int

    @property
    def square(self) -> bool:
        return self.m == self.n == self.k

    def __str__(self) -> str:
        return f"N={self.n}" if self.square else f"M={self.m} N={self.n} K={self.k}"


@dataclass(frozen=True)
class Argument:
    """One parameter of the entry point: ``A``, ``B``, ``C`` or a scalar such as ``int N``."""

    name: str
    ctype: str = "int"

    @property
    def is_matrix(self) -> bool:
        return self.name in ("A", "B", "C")


@dataclass(frozen=True)
class Launch:
    """Grid and block of one launch, (x, y, z) as CUDA orders them."""

    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z


@dataclass(frozen=True)
class Traffic:
    """Elements that a kernel requests from global memory, caches ignored."""

    reads: int
    writes: int


@dataclass(frozen=True)
class KernelSpec:
    """All that a .cu file states about its kernel."""

    name: str
    path: Path
    source: str
    entry: str
    summary: str
    block: tuple[Expression, ...]
    grid: tuple[Expression, ...]
    reads: Expression
    writes: Expression
    arguments: tuple[Argument, ...]
    params: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    requires: tuple[tuple[Expression, str], ...] = ()
    static_shared: Expression | None = None
    dynamic_shared: Expression | None = None
    compute_capability: tuple[int, int] = (0, 0)
    runners: tuple[str, ...] = ("cuda", "cpu")
    dtype: str = "float32"
    after: str | None = None
    default: bool = False
    declares_traffic: bool = True
    notes: tuple[str, ...] = ()  # what was inferred of a file without a header

    @property
    def rectangular(self) -> bool:
        """Whether M, N and K may differ: the entry point takes more than one of them."""
        return len({argument.name for argument in self.arguments if not argument.is_matrix}) > 1

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Point:
    """One cell of a sweep: a kernel, a problem and a value for each parameter."""

    spec: KernelSpec
    problem: Problem
    params: Mapping[str, int]

    @property
    def tile(self) -> int | None:
        return self.params.get("TILE_SIZE")

    @property
    def names(self) -> dict[str, int]:
        """The names that a header's expressions may use, with their values here."""
        return {"M": self.problem.m, "N": self.problem.n, "K": self.problem.k, **self.params}

    @property
    def defines(self) -> tuple[str, ...]:
        """Compiler options that set the parameters."""
        return tuple(f"-D{name}={value}" for name, value in sorted(self.params.items()))

    def launch(self) -> Launch:
        """Evaluate block, grid and dynamic shared memory at this point."""
        names = self.names
        dynamic = self.spec.dynamic_shared
        return Launch(
            grid=_dim3([axis.value(names) for axis in self.spec.grid]),
            block=_dim3([axis.value(names) for axis in self.spec.block]),
            dynamic_shared_bytes=dynamic.value(names) if dynamic else 0,
        )

    def traffic(self) -> Traffic:
        names = self.names
        return Traffic(self.spec.reads.value(names), self.spec.writes.value(names))

    def __str__(self) -> str:
        tile = "" if self.tile is None else f" tile={self.tile}"
        return f"{self.spec.name} {self.problem}{tile}"


def _dim3(axes: list[int]) -> Dim3:
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z
