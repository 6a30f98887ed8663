"""Is C really A * B? Inputs, float64 references, and the verdict. Knows no device, no timing.

Whole-number inputs keep every partial sum exact in float32, whatever the order of the sum
and fused or not, so there "right" needs no tolerance. Real-valued inputs then give the size
of the rounding error. All tests are written so that a NaN fails them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmbench.runners import Array
from mmbench.spec import Problem

MARKER = -12345.0  # fills C before each check; finite, since 0 * NaN would spoil beta = 0
_MANTISSA_BITS = {"float32": 24, "float64": 53}
_FULL_CHECK_PRODUCTS = 2**30  # up to this M*N*K all of C is compared, about 0.1 s a core
_SAMPLED_ROWS = 16
_FREIVALDS_VECTORS = 3
_CHUNK_ROWS = 1024
_DIFFERS_SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """Outcome of the checks of one kernel at one point.

    ``max_error`` is the largest |c - reference| / sum |a||b| over the elements compared, and
    ``error_bound`` what it must not exceed: 4 sqrt(K) u, with u = 2^-24 for float32.
    """

    ok: bool
    message: str
    method: str
    max_error: float | None = None
    error_bound: float | None = None


def guard_elements(problem: Problem) -> int:
    """Length of the zone before and behind each matrix, where a stray write is noticed.

    It holds 128 rows of the widest matrix, so that a whole tile past an edge falls into it.
    """
    return -(-(128 * max(problem.n, problem.k) + 4096) // 64) * 64


def padded(problem: Problem, rows: int, columns: int, dtype: str) -> tuple[Array, Array]:
    """A matrix between two guard zones, all MARKER: the whole array and the matrix in it."""
    guard = guard_elements(problem)
    whole = np.full(guard + rows * columns + guard, MARKER, dtype)
    return whole, whole[guard : guard + rows * columns].reshape(rows, columns)


def error_bound(k: int, dtype: str) -> float:
    """Bound on |c - reference| / sum |a||b|: 4 sqrt(K) u.

    Rounding errors of a sum of K terms behave like a random walk, so they grow with sqrt(K)
    (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019); 4 is a margin over what was measured.
    """
    return float(4 * np.sqrt(k) * 2.0 ** -_MANTISSA_BITS[dtype])


@dataclass(frozen=True)
class Inputs:
    """A and B of one kind, ``whole`` or ``real``, each between guard zones."""

    kind: str
    a_padded: Array
    b_padded: Array
    a: Array
    b: Array


def make_inputs(problem: Problem, dtype: str, seed: int, kind: str) -> Inputs:
    """Random signed inputs: whole numbers of -4 to 4, or reals of -1 to 1.

    For a K so large that sums of 4 * 4 would leave the exact range the numbers are -1 to 1.
    """
    rng = np.random.default_rng([seed, problem.m, problem.n, problem.k, len(kind)])
    exact = 16 * problem.k < 2 ** _MANTISSA_BITS[dtype]
    largest = 4 if exact else 1
    matrices = []
    for rows, columns in ((problem.m, problem.k), (problem.k, problem.n)):
        whole, matrix = padded(problem, rows, columns, dtype)
        if kind == "whole":
            matrix[...] = rng.integers(-largest, largest, (rows, columns), np.int8, endpoint=True)
        else:
            matrix[...] = rng.random((rows, columns), np.dtype(dtype).type) * 2 - 1
        matrices.append((whole, matrix))
    (a_padded, a), (b_padded, b) = matrices
    return Inputs(kind, a_padded, b_padded, a, b)


class Checker:
    """The references of one problem, computed once and used for every kernel at it."""

    def __init__(self, problem: Problem, dtype: str, seed: int) -> None:
        self.problem = problem
        self.dtype = dtype
        self.bound = error_bound(problem.k, dtype)
        self.whole = make_inputs(problem, dtype, seed, "whole")
        self.real = make_inputs(problem, dtype, seed, "real")
        self.full = problem.m * problem.n * problem.k <= _FULL_CHECK_PRODUCTS
        self.rows = self._choose_rows(seed)
        self.whole_reference = self._product(self.whole)
        self.real_reference = self._product(self.real)
        self.real_scale = self._product(self.real, absolute=True)
        rng = np.random.default_rng([seed, 1])
        self.vectors = rng.integers(-512, 512, (problem.n, _FREIVALDS_VECTORS)).astype(np.float64)
        self.expected = None if self.full else _times(self.whole.a, self._b_vectors())

    @property
    def method(self) -> str:
        if self.full:
            return "every element compared"
        return f"{len(self.rows)} rows compared, all of C by {_FREIVALDS_VECTORS} Freivalds vectors"

    def check_whole(self, c_padded: Array) -> str:
        """Compare a product of the whole-number inputs exactly; return what is wrong, or ""."""
        outside = self._outside(c_padded)
        c = self._matrix(c_padded)
        wrong = self._wrong_elements(c) or self._wrong_rows(c)
        if outside and wrong:
            return f"{wrong}; the kernel also wrote {outside} elements outside C"
        if outside:
            return f"the kernel wrote {outside} elements outside C"
        return wrong

    def check_real(self, c_padded: Array) -> tuple[str, float]:
        """Compare a product of the real inputs with the bound: what is wrong, and max error."""
        c = self._matrix(c_padded)[self.rows].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(c - self.real_reference) / np.maximum(self.real_scale, 1e-300)
        bad = ~(error <= self.bound)
        largest = float(np.max(error)) if not np.isnan(error).any() else float("nan")
        if not bad.any():
            return "", largest
        return (
            f"max error {largest:.1e} of sum |a||b| with real inputs, the bound for {self.dtype} "
            f"at K={self.problem.k} is {self.bound:.1e}",
            largest,
        )

    def changed_input(self, inputs: Inputs, a_padded: Array, b_padded: Array) -> str:
        """Which of A and B no longer holds what was put into it, as a sentence, or ""."""
        for name, before, after in (
            ("A", inputs.a_padded, a_padded),
            ("B", inputs.b_padded, b_padded),
        ):
            if not np.array_equal(before, after):
                return f"the kernel wrote into {name}, which it must only read"
        return ""

    def _choose_rows(self, seed: int) -> npt.NDArray[np.int64]:
        m = self.problem.m
        if self.full:
            return np.arange(m)
        rng = np.random.default_rng([seed, 2])
        return np.unique(np.concatenate([[0, m // 2, m - 1], rng.integers(0, m, _SAMPLED_ROWS)]))

    def _product(self, inputs: Inputs, absolute: bool = False) -> npt.NDArray[np.float64]:
        a, b = inputs.a[self.rows].astype(np.float64), inputs.b.astype(np.float64)
        if absolute:
            np.abs(a, out=a)
            np.abs(b, out=b)
        return a @ b

    def _b_vectors(self) -> npt.NDArray[np.float64]:
        return _times(self.whole.b, self.vectors)

    def _matrix(self, c_padded: Array) -> Array:
        m, n = self.problem.m, self.problem.n
        guard = guard_elements(self.problem)
        return c_padded[guard : guard + m * n].reshape(m, n)

    def _outside(self, c_padded: Array) -> int:
        guard = guard_elements(self.problem)
        before, behind = c_padded[:guard], c_padded[-guard:]
        return int(np.count_nonzero(before != MARKER) + np.count_nonzero(behind != MARKER))

    def _wrong_elements(self, c: Array) -> str:
        """Differences among the compared rows, as a sentence, or ""."""
        compared = c[self.rows]
        differs = compared != self.whole_reference
        count = int(np.count_nonzero(differs))
        if not count:
            return ""
        row, column = (int(i) for i in np.argwhere(differs)[0])
        parts = [f"{count} of {compared.size} elements differ"]
        parts.append(
            f"first C[{self.rows[row]}][{column}] = {compared[row, column]:g}, "
            f"should be {self.whole_reference[row, column]:g}"
        )
        if nans := int(np.count_nonzero(np.isnan(compared))):
            parts.append(f"{nans} {'is' if nans == 1 else 'are'} NaN")
        if never := int(np.count_nonzero(differs & (compared == MARKER))):
            parts.append(f"{never} never written")
        if np.array_equal(compared, self.whole_reference + MARKER):
            parts.append("the result is A*B plus the old C: the kernel adds to C")
        return "; ".join(parts)

    def _wrong_rows(self, c: Array) -> str:
        """Freivalds' test of all of C: C x must be A (B x) for random x; a sentence, or ""."""
        if self.expected is None:
            return ""
        with np.errstate(invalid="ignore", over="ignore"):
            bad = ~np.all(_times(c, self.vectors) == self.expected, axis=1)
        rows = np.flatnonzero(bad)
        if not len(rows):
            return ""
        shown = ", ".join(str(row) for row in rows[:_DIFFERS_SHOWN])
        more = ", ..." if len(rows) > _DIFFERS_SHOWN else ""
        return f"{len(rows)} of {len(bad)} rows are wrong (rows {shown}{more}; Freivalds' test)"


def _times(matrix: Array, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """matrix @ vectors in float64, a piece at a time: the matrix may fill half the memory."""
    pieces = [
        matrix[start : start + _CHUNK_ROWS].astype(np.float64) @ vectors
        for start in range(0, len(matrix), _CHUNK_ROWS)
    ]
    return np.concatenate(pieces)
