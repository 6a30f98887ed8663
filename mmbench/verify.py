"""Is C really alpha * A * B + beta * C? Inputs, float64 references, and the verdict.

Knows no device, no timing. Whole-number inputs keep every partial sum exact in the element
type, whatever the order of the sum and fused or not, so there "right" needs no tolerance.
Real-valued inputs then give the size of the rounding error. All tests are written so that a
NaN fails them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mmbench import precision, readings
from mmbench.inputs import (
    Inputs,
    all_ones,
    as_matrix,
    exact,
    guard_elements,
    make_inputs,
    marker,
    other_factors,
)
from mmbench.product import MANTISSA_BITS, Problem, Product
from mmbench.runners import Array

_FULL_CHECK_PRODUCTS = 2**30  # up to this M*N*K all of C is compared, about 0.1 s a core
_SAMPLED_ROWS = 16
_FREIVALDS_VECTORS = 3
_CHUNK_ROWS = 1024
_DIFFERS_SHOWN = 3
_NAMING_ROWS = 4  # enough to name a precision: several thousand sums agree with it, or none
MEANT = "; if that is intended, use --beta 1"  # of a kernel that does not take beta itself


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
    precision: str = ""  # the one that was found, "" where it was not looked for


def error_bound(k: int, dtype: str) -> float:
    """Bound on |c - reference| / sum |a||b|: 4 sqrt(K) u, and 0 for whole-number types.

    Rounding errors of a sum of K terms behave like a random walk, so they grow with sqrt(K)
    (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019); 4 is a margin over what was measured.
    """
    if dtype.startswith("int"):
        return 0.0
    return float(4 * np.sqrt(k) * 2.0 ** -MANTISSA_BITS[dtype])


class Checker:
    """The references of one problem and product, computed once for every kernel of that kind."""

    def __init__(self, problem: Problem, product: Product, seed: int) -> None:
        self.problem = problem
        self.product = product
        self.seed = seed
        self.bound = error_bound(problem.k, product.c_dtype)
        self.real = make_inputs(problem, product, seed, "real")
        self.full = problem.m * problem.n * problem.k <= _FULL_CHECK_PRODUCTS
        self.rows = self._choose_rows(seed)
        self.real_product = self._product(self.real)
        self.real_scale = self._scale()
        rng = np.random.default_rng([seed, 1])
        self.vectors = rng.integers(-512, 512, (problem.n, _FREIVALDS_VECTORS)).astype(np.float64)
        self._expected: dict[str, npt.NDArray[np.float64]] = {}  # of Freivalds' test
        self._with_factors: dict[frozenset[str], Inputs] = {}

    @classmethod
    def ready(cls, problem: Problem, product: Product, seed: int) -> Checker:
        """A checker that has all that the checks of a right kernel ask for."""
        checker = cls(problem, product, seed)
        probe = checker.precision_probe
        _ = checker.whole_product if probe is None else checker.probe_reference
        if not checker.full:
            checker._row_sums(checker.whole if probe is None else probe)
        return checker

    @property
    def method(self) -> str:
        if self.full:
            return "every element compared"
        return f"{len(self.rows)} rows compared, all of C by {_FREIVALDS_VECTORS} Freivalds vectors"

    @cached_property
    def whole(self) -> Inputs:
        """Small whole numbers, of which any type holds the sums exactly."""
        return make_inputs(self.problem, exact(self.product), self.seed, "whole")

    @cached_property
    def whole_product(self) -> npt.NDArray[np.float64]:
        """Their product, in the rows that are compared."""
        return self._product(self.whole)

    def with_factors(self, factors: frozenset[str]) -> Inputs | None:
        """Inputs with other alpha and beta, for a kernel that takes them; None for large ones."""
        if not factors or not self.full:
            return None
        if factors not in self._with_factors:
            made = other_factors(self.whole, self.problem, factors, self.seed + 1)
            self._with_factors[factors] = made
        return self._with_factors[factors]

    @cached_property
    def ones(self) -> Inputs | None:
        """Inputs that find a half accumulator; None for other types."""
        half = self.product.c_dtype == "float16"
        return all_ones(self.problem, self.product) if half else None

    @cached_property
    def precision_probe(self) -> Inputs | None:
        """Inputs that tell FP32 from less; None where no exact ones exist."""
        return precision.probe(self.problem, self.product, self.seed)

    @cached_property
    def probe_reference(self) -> npt.NDArray[np.float64]:
        """The exact product of the probe, in the rows that are compared."""
        probe = self.precision_probe
        assert probe is not None
        return self._reference(self._product(probe), probe)

    def check(self, c_padded: Array, inputs: Inputs) -> tuple[str, float | None]:
        """Compare C with what these inputs give: what is wrong, or "", and the error of reals."""
        if inputs.kind == "real":
            return self.check_real(c_padded)
        if inputs.kind == "ones":
            return self.check_ones(c_padded, inputs), None
        if inputs.kind == "precision":
            return self.check_precision(c_padded, inputs), None
        wrong = self.check_whole(c_padded, inputs)
        if wrong and inputs.kind == "whole" and self.full:
            guard = guard_elements(self.problem, self.product)
            hint = readings.hint(self.problem, inputs, c_padded[guard:-guard])
            wrong = f"{wrong}; hint: {hint}" if hint else wrong
        return wrong, None

    def check_whole(self, c_padded: Array, inputs: Inputs | None = None) -> str:
        """Compare a product of whole-number inputs exactly; return what is wrong, or ""."""
        inputs = inputs or self.whole
        outside = self._outside(c_padded)
        c = self._matrix(c_padded)
        wrong = self._wrong_elements(c, inputs) or self._wrong_rows(c, inputs)
        if wrong and inputs.kind == "factors":
            wrong = f"with alpha={inputs.product.alpha:g} beta={inputs.product.beta:g}: {wrong}"
        if outside and wrong:
            return f"{wrong}; {_written_outside(outside, 'also wrote')}"
        return wrong or _written_outside(outside)

    def check_ones(self, c_padded: Array, inputs: Inputs) -> str:
        """Whether the sums of ones reach K; what is wrong, or ""."""
        c = self._matrix(c_padded).astype(np.float64)
        right = inputs.product.alpha * float(inputs.a[0, 0]) * self.problem.k
        bad = ~(np.abs(c - right) <= 4 * 2.0 ** -MANTISSA_BITS["float16"] * abs(right))
        if not bad.any():
            return ""
        found = c[tuple(np.argwhere(bad)[0])]
        return (
            f"the sum of {self.problem.k} equal products is {found:g}, should be {right:g}: "
            "it saturates, so the accumulator may be half"
        )

    def check_precision(self, c_padded: Array, inputs: Inputs) -> str:
        """Whether a probe came out in FP32; what is wrong, or ""."""
        c = self._matrix(c_padded)
        compared = c[self.rows]
        differs = compared != self.probe_reference
        if not differs.any():
            outside = self._outside(c_padded)
            return self._wrong_rows(c, inputs) or _written_outside(outside)
        few = np.flatnonzero(differs.any(axis=1))[:_NAMING_ROWS]
        if name := precision.reached(compared[few], inputs, self.rows[few]):
            return f"computed in {name}, not in FP32: 12-bit numbers are rounded before they count"
        return (
            f"{np.count_nonzero(differs)} of {compared.size} elements differ with 12-bit numbers: "
            "a lower precision, or a result that changes from launch to launch"
        )

    def check_real(self, c_padded: Array) -> tuple[str, float]:
        """Compare a product of the real inputs with the bound: what is wrong, and max error."""
        c = self._matrix(c_padded)[self.rows].astype(np.float64)
        reference = self._reference(self.real_product, self.real)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(c - reference) / np.maximum(self.real_scale, 1e-300)
        bad = ~(error <= self.bound)
        largest = float(np.max(error)) if not np.isnan(error).any() else float("nan")
        if not bad.any():
            return "", largest
        if self.product.whole_numbers:
            return (
                "wrong with larger whole numbers: an overflow, or a narrower accumulator",
                largest,
            )
        return (
            f"max error {largest:.1e} of sum |a||b| with real inputs, the bound for "
            f"{self.product.c_dtype} at K={self.problem.k} is {self.bound:.1e}"
            f"{self._narrower(largest)}",
            largest,
        )

    def changed_input(self, inputs: Inputs, a_padded: Array, b_padded: Array) -> str:
        """Which of A and B no longer holds what was put into it, as a sentence, or ""."""
        for name, after in (("A", a_padded), ("B", b_padded)):
            if not np.array_equal(inputs.storage[name], after):
                return f"the kernel wrote into {name}, which it must only read; check --args"
        return ""

    def _narrower(self, error: float) -> str:
        """The narrower type that explains an error, as a remark."""
        if self.product.c_dtype == "float64" and error <= error_bound(self.problem.k, "float32"):
            return "; the accumulator may be float"
        return ""

    def _choose_rows(self, seed: int) -> npt.NDArray[np.int64]:
        m = self.problem.m
        if self.full:
            return np.arange(m)
        rng = np.random.default_rng([seed, 2])
        return np.unique(np.concatenate([[0, m // 2, m - 1], rng.integers(0, m, _SAMPLED_ROWS)]))

    def _product(self, inputs: Inputs) -> npt.NDArray[np.float64]:
        return inputs.a[self.rows].astype(np.float64) @ inputs.b.astype(np.float64)

    def _scale(self) -> npt.NDArray[np.float64]:
        """|alpha| sum |a||b| + |beta||c| of the real inputs."""
        a = np.abs(self.real.a[self.rows].astype(np.float64))
        b = np.abs(self.real.b.astype(np.float64))
        scale: npt.NDArray[np.float64] = abs(self.product.alpha) * (a @ b)
        if self.product.beta:
            scale += abs(self.product.beta) * np.abs(self.real.c[self.rows].astype(np.float64))
        return scale

    def _reference(
        self, product: npt.NDArray[np.float64], inputs: Inputs
    ) -> npt.NDArray[np.float64]:
        factors = inputs.product
        if factors.alpha == 1 and factors.beta == 0:
            return product
        scaled: npt.NDArray[np.float64] = factors.alpha * product
        if factors.beta:
            scaled += factors.beta * inputs.c[self.rows].astype(np.float64)
        return scaled

    def _row_sums(self, inputs: Inputs) -> npt.NDArray[np.float64]:
        """alpha A (B x) + beta C x for the random x."""
        if inputs.kind in self._expected:
            return self._expected[inputs.kind]
        factors = inputs.product
        found = factors.alpha * _times(inputs.a, _times(inputs.b, self.vectors))
        if factors.beta:
            found += factors.beta * _times(inputs.c, self.vectors)
        self._expected[inputs.kind] = found
        return found

    def _matrix(self, c_padded: Array) -> Array:
        return as_matrix(c_padded, self.problem, self.product, "C")

    def _outside(self, c_padded: Array) -> int:
        guard, blank = guard_elements(self.problem, self.product), marker(self.product.c_dtype)
        before, behind = c_padded[:guard], c_padded[-guard:]
        return int(np.count_nonzero(before != blank) + np.count_nonzero(behind != blank))

    def _wrong_elements(self, c: Array, inputs: Inputs) -> str:
        """Differences among the compared rows, as a sentence, or ""."""
        compared = c[self.rows]
        product = self.whole_product
        reference = self._reference(product, inputs)
        differs = compared != reference
        count = int(np.count_nonzero(differs))
        if not count:
            return ""
        row, column = (int(i) for i in np.argwhere(differs)[0])
        parts = [f"{count} of {compared.size} elements differ"]
        parts.append(
            f"first C[{self.rows[row]}][{column}] = {compared[row, column]:g}, "
            f"should be {reference[row, column]:g}"
        )
        if nans := int(np.count_nonzero(np.isnan(compared))):
            parts.append(f"{nans} {'is' if nans == 1 else 'are'} NaN")
        before = inputs.c[self.rows]
        never = int(np.count_nonzero(differs & (compared == before)))
        if inputs.product.beta == 0 and np.array_equal(compared, reference + before):
            parts.append(f"the result is A*B plus the old C{MEANT}")
        elif never and inputs.product.beta == 0:  # else the old C may well be the new one
            parts.append(f"{never} never written")
        return "; ".join(parts)

    def _wrong_rows(self, c: Array, inputs: Inputs) -> str:
        """Freivalds' test of all of C: C x must be A (B x) for random x; a sentence, or ""."""
        if self.full:
            return ""
        expected = self._row_sums(inputs)
        with np.errstate(invalid="ignore", over="ignore"):
            bad = ~np.all(_times(c, self.vectors) == expected, axis=1)
        rows = np.flatnonzero(bad)
        if not len(rows):
            return ""
        shown = ", ".join(str(row) for row in rows[:_DIFFERS_SHOWN])
        more = ", ..." if len(rows) > _DIFFERS_SHOWN else ""
        return f"{len(rows)} of {len(bad)} rows are wrong (rows {shown}{more}; Freivalds' test)"


def _written_outside(count: int, wrote: str = "wrote") -> str:
    elements = "element" if count == 1 else "elements"
    return f"the kernel {wrote} {count} {elements} outside C" if count else ""


def _times(matrix: Array, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """matrix @ vectors in float64, a piece at a time: the matrix may fill half the memory."""
    pieces = [
        matrix[start : start + _CHUNK_ROWS].astype(np.float64) @ vectors
        for start in range(0, len(matrix), _CHUNK_ROWS)
    ]
    return np.concatenate(pieces)
