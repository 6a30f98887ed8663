"""What a kernel is, what a point of a sweep is, and how one launch of it looks.

Frozen values only: no files, no devices, no TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmbench.expressions import Expression
from mmbench.product import MATRICES, Problem, Product

Dim3 = tuple[int, int, int]

SCALAR_BYTES = {
    "int": 4,
    "unsigned": 4,
    "unsigned int": 4,
    "size_t": 8,
    "long long": 8,
    "float": 4,
    "double": 8,
    "half": 2,
    "bool": 1,
}
FRACTIONAL = ("float", "double", "half")  # C types of factors; the others are those of sizes
FACTORS = ("alpha", "beta")
LEADING_DIMENSIONS = {"lda": "A", "ldb": "B", "ldc": "C"}
NULL = "null"


@dataclass(frozen=True)
class Argument:
    """One parameter of the entry point, by what is passed for it.

    ``name`` is A, B or C; ``null``, a null pointer; alpha or beta; a number; or an expression
    over M, N, K, the leading dimensions lda, ldb, ldc, and the kernel's parameters.
    """

    name: str
    ctype: str = "int"

    @property
    def is_matrix(self) -> bool:
        return self.name in MATRICES

    @property
    def is_pointer(self) -> bool:
        return self.is_matrix or self.name == NULL

    @property
    def expression(self) -> Expression | None:
        """The whole number to be passed; None for pointers, factors and fractions."""
        if self.is_pointer or self.name in FACTORS or self.ctype in FRACTIONAL:
            return None
        return Expression(self.name)

    def __str__(self) -> str:
        return self.name if self.is_pointer else f"{self.ctype} {self.name}"


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
    product: Product = field(default_factory=Product)
    defines: Mapping[str, Expression | str] = field(default_factory=dict)
    includes: tuple[Path, ...] = ()  # folders, besides that of the file
    tile_name: str = "TILE_SIZE"  # the name in the file that TILE_SIZE sets
    fixed: Problem | None = None  # the one shape of a kernel that takes no sizes
    fixed_by: tuple[str, ...] = ()  # the constants that fix it, each with its size: SIDE=N
    library: str = ""  # the library that a baseline is, which has no source
    alternatives: tuple[KernelSpec, ...] = ()  # other readings of a file without a header
    after: str | None = None
    default: bool = False
    declares_traffic: bool = True
    notes: tuple[str, ...] = ()  # what was inferred of a file without a header

    @property
    def rectangular(self) -> bool:
        """Whether M, N and K may differ: the kernel is told more than one of them."""
        if self.library or self.fixed is not None:
            return True
        told = [argument.expression for argument in self.arguments]
        told += [value for value in self.defines.values() if isinstance(value, Expression)]
        names = {name for expression in told if expression for name in expression.names}
        return len(names & {"M", "N", "K"}) > 1

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where headers are looked for: beside the file, then in the folders named."""
        return (self.path.parent, *self.includes)

    @property
    def factors(self) -> frozenset[str]:
        """Which of alpha and beta the kernel takes."""
        return frozenset(argument.name for argument in self.arguments) & frozenset(FACTORS)


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
        """Compiler options that set the parameters and what depends on the sizes."""
        values = dict(self.params)
        given = {
            name: str(text.value(self.names)) if isinstance(text, Expression) else text
            for name, text in self.spec.defines.items()
        }
        options = {name: str(value) for name, value in values.items()} | given
        return tuple(f"-D{name}={text}" for name, text in sorted(options.items()))

    def arguments(self, addresses: Mapping[str, int], product: Product) -> list[int | float]:
        """Values for the entry point's parameters in its order; ``addresses`` of A, B and C."""
        leading = {
            name: product.leading_dimension(matrix, self.problem)
            for name, matrix in LEADING_DIMENSIONS.items()
        }
        known = {"alpha": product.alpha, "beta": product.beta, NULL: 0, **addresses}
        values: list[int | float] = []
        for argument in self.spec.arguments:
            expression = argument.expression
            if expression is not None:
                values.append(expression.value(self.names | leading))
            else:
                value = known.get(argument.name)
                values.append(float(argument.name) if value is None else value)
        return values

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
