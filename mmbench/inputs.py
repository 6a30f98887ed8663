"""The matrices of a check: what A, B and C hold before a launch, between zones that guard them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mmbench.product import MANTISSA_BITS, MATRICES, Problem, Product
from mmbench.runners import Array

_LARGEST_HALF = 2**15
_FACTORS = {"alpha": 2, "beta": 3}  # with which a kernel that takes them is checked as well


def marker(dtype: str, matrix: str = "C") -> float:
    """What fills C before each check and the guard zones: finite, since 0 * NaN spoils beta = 0.

    Those of A and B have another: a sum that has taken one in must not look like C untouched.
    """
    if dtype == "int8":
        return -123.0
    return float(np.dtype(dtype).type(-12345 if matrix == "C" else -23456))


def guard_elements(problem: Problem, product: Product) -> int:
    """Length of the zone before and behind each matrix, where a stray write is noticed.

    It holds 128 rows of the widest matrix (columns, where they are stored by columns), so that a
    whole tile past an edge falls into it.
    """
    widest = max(product.leading_dimension(name, problem) for name in MATRICES)
    return -(-(128 * widest + 4096) // 64) * 64


def padded(problem: Problem, product: Product, matrix: str) -> tuple[Array, Array]:
    """Storage of A, B or C between guard zones, all marker, and the matrix in it."""
    dtype, guard = product.dtype_of(matrix), guard_elements(problem, product)
    rows, columns = problem.shape(matrix)
    whole = np.full(guard + rows * columns + guard, marker(dtype, matrix), dtype)
    return whole, as_matrix(whole, problem, product, matrix)


def as_matrix(whole: Array, problem: Problem, product: Product, matrix: str) -> Array:
    """The matrix (rows, columns) between the guard zones of its storage, as a view."""
    guard = guard_elements(problem, product)
    rows, columns = problem.shape(matrix)
    return from_memory(whole[guard : guard + rows * columns], problem, product, matrix)


def from_memory(storage: Array, problem: Problem, product: Product, matrix: str) -> Array:
    """The matrix (rows, columns) that a flat array holds in its storage order, as a view."""
    rows, columns = problem.shape(matrix)
    if matrix in product.column_major:
        return storage.reshape(columns, rows).T
    return storage.reshape(rows, columns)


def in_memory(matrix: Array, product: Product, name: str) -> Array:
    """The elements of a matrix (rows, columns) in its storage order, flat."""
    return np.ravel(matrix, order="F" if name in product.column_major else "C")


@dataclass(frozen=True)
class Inputs:
    """A, B and the C before a launch, each between guard zones, and the factors in force.

    ``kind`` is ``whole``, ``real``, ``factors`` (whole numbers with other alpha and beta),
    ``ones`` or ``precision``.
    """

    kind: str
    product: Product
    a_padded: Array
    b_padded: Array
    c_padded: Array
    a: Array
    b: Array
    c: Array

    @property
    def storage(self) -> dict[str, Array]:
        """A, B and C with their guard zones, by name."""
        return {"A": self.a_padded, "B": self.b_padded, "C": self.c_padded}

    def result(self) -> npt.NDArray[np.float64]:
        """alpha * A * B + beta * C in float64."""
        product: npt.NDArray[np.float64] = self.a.astype(np.float64) @ self.b.astype(np.float64)
        if self.product.beta == 0:
            return self.product.alpha * product
        return self.product.alpha * product + self.product.beta * self.c.astype(np.float64)


def make_inputs(problem: Problem, product: Product, seed: int, kind: str) -> Inputs:
    """Random signed inputs: small whole numbers, or reals of -1 to 1.

    The whole numbers are so small that the sums stay exact. C holds the marker, or random
    numbers of the same kind where beta makes it an input.
    """
    rng = np.random.default_rng([seed, problem.m, problem.n, problem.k, len(kind)])
    parts = {name: padded(problem, product, name) for name in ("A", "B", "C")}
    for name, (_, matrix) in parts.items():
        if name != "C" or product.beta != 0:
            _fill(rng, matrix, kind, _largest(problem, product, kind))
    (a_padded, a), (b_padded, b), (c_padded, c) = parts.values()
    return Inputs(kind, product, a_padded, b_padded, c_padded, a, b, c)


def _fill(rng: np.random.Generator, matrix: Array, kind: str, largest: int) -> None:
    if kind == "real" and matrix.dtype.kind == "f":
        wide = np.float64 if matrix.dtype == np.float64 else np.float32
        matrix[...] = rng.random(matrix.shape, wide) * 2 - 1
    else:
        small = np.int8 if largest < 128 else np.int64
        matrix[...] = rng.integers(-largest, largest, matrix.shape, small, endpoint=True)


def _largest(problem: Problem, product: Product, kind: str) -> int:
    """Largest whole number whose products sum up exactly in C's type."""
    limit = 2 ** MANTISSA_BITS[product.c_dtype]
    if product.whole_numbers and kind == "real":  # there are no reals: a wider range instead
        factors = max(1.0, abs(product.alpha)) + abs(product.beta)
        most = 2 ** (MANTISSA_BITS[product.dtype]) - 1
        exact_reference = min(limit, 2 ** MANTISSA_BITS["float64"])
        return int(max(1, min(most, np.sqrt(exact_reference / (2 * problem.k * factors)))))
    return 4 if 16 * problem.k * max(1, abs(product.alpha)) < limit else 1


def other_factors(inputs: Inputs, problem: Problem, factors: frozenset[str], seed: int) -> Inputs:
    """The same A and B with other alpha and beta, and so with a C that counts."""
    product = inputs.product
    product = replace(
        product,
        alpha=_FACTORS["alpha"] if "alpha" in factors else product.alpha,
        beta=_FACTORS["beta"] if "beta" in factors else product.beta,
    )
    fresh = make_inputs(problem, product, seed, "factors")
    return replace(
        fresh, a_padded=inputs.a_padded, b_padded=inputs.b_padded, a=inputs.a, b=inputs.b
    )


def exact(product: Product) -> Product:
    """The product with whole factors, in place of fractions that no type holds exactly."""
    alpha, beta = product.alpha, product.beta
    return replace(
        product,
        alpha=alpha if float(alpha).is_integer() else _FACTORS["alpha"],
        beta=beta if float(beta).is_integer() else _FACTORS["beta"],
    )


def all_ones(problem: Problem, product: Product) -> Inputs:
    """All ones for half precision, where a sum in the element type stops growing at 2048.

    A is a smaller power of two where K ones are more than half precision can hold.
    """
    made = make_inputs(problem, exact(product), 0, "ones")
    room = _LARGEST_HALF / max(1.0, abs(made.product.alpha))
    made.a[...] = min(1.0, room / 2.0 ** int(np.ceil(np.log2(problem.k))))
    made.b[...] = 1
    if made.product.beta:
        made.c[...] = 0
    return made
