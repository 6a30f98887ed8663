"""What a kernel computes, C = alpha * A * B + beta * C, and how its matrices lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MATRICES = ("A", "B", "C")
ELEMENT_BYTES: Mapping[str, int] = {
    "float16": 2, "float32": 4, "float64": 8, "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip
MANTISSA_BITS: Mapping[str, int] = {
    "float16": 11, "float32": 24, "float64": 53, "int8": 7, "int32": 31, "int64": 63,
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """The shape of a product: C is M x N, A is M x K, B is K x N."""

    m: int
    n: int
    k: int

    @property
    def square(self) -> bool:
        return self.m == self.n == self.k

    def shape(self, matrix: str) -> tuple[int, int]:
        """Rows and columns of A, B or C."""
        return {"A": (self.m, self.k), "B": (self.k, self.n), "C": (self.m, self.n)}[matrix]

    def __str__(self) -> str:
        return f"N={self.n}" if self.square else f"M={self.m} N={self.n} K={self.k}"


@dataclass(frozen=True)
class Product:
    """C = alpha * A * B + beta * C: element types, factors, and each matrix's storage order.

    ``column_major`` names the matrices stored column by column; the others are row-major. B
    stored column by column is what BLAS calls a transposed B of a row-major product.
    """

    dtype: str = "float32"  # of A and B
    c_dtype: str = "float32"
    column_major: frozenset[str] = frozenset()
    alpha: float = 1
    beta: float = 0

    def dtype_of(self, matrix: str) -> str:
        return self.c_dtype if matrix == "C" else self.dtype

    def bytes_of(self, matrix: str) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype_of(matrix)]

    @property
    def whole_numbers(self) -> bool:
        """Whether C holds whole numbers, whose products are exact: operations, not FLOP."""
        return self.c_dtype.startswith("int")

    @property
    def types(self) -> str:
        """The element types for a reader: one where all are alike, else those of A, B / C."""
        return self.dtype if self.dtype == self.c_dtype else f"{self.dtype}/{self.c_dtype}"

    def leading_dimension(self, matrix: str, problem: Problem) -> int:
        """Elements from one row to the next, or one column to the next where column-major."""
        rows, columns = problem.shape(matrix)
        return rows if matrix in self.column_major else columns
