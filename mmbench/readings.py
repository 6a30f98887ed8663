"""What explains a wrong C, as a hint: another storage order, or another sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mmbench.inputs import Inputs, from_memory, guard_elements
from mmbench.product import MATRICES, Problem, Product
from mmbench.runners import Array

# The matrices that are stored by columns in each reading.
_READINGS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset("ABC"),
        "the result matches column-major storage: use --layout col",
    ),
    (frozenset("B"), "the result is A*B^T: B is read as stored transposed, use --trans-b"),
    (frozenset("A"), "the result is A^T*B: A is read as stored transposed, use --trans-a"),
    (frozenset("AB"), "the result is A^T*B^T: use --trans-a --trans-b"),
    (frozenset("C"), "C is stored transposed: use --layout C=col"),
    (frozenset("AC"), "B alone is read row-major: use --layout A=col,C=col"),
    (frozenset("BC"), "A alone is read row-major: use --layout B=col,C=col"),
    (frozenset(), "the result matches row-major storage: use --layout row"),
)
_COLUMNS = 16  # of C's first row, by which the ends of a sum are found
_MOST_ENDS = 8  # that are tried
_TELLING = 16  # elements of C; fewer may be what another sum gives, by chance


def hint(problem: Problem, inputs: Inputs, c: Array) -> str:
    """The hint for C as it lies in memory, flat and without guard zones; "" where none fits."""
    return _other_storage(problem, inputs, c) or _other_sum(problem, inputs, c)


def _matrices(
    problem: Problem, inputs: Inputs, product: Product, c: Array
) -> tuple[Array, Array, Array, Array]:
    """A, B, C before and C after, as this product has them in memory."""
    guard = guard_elements(problem, inputs.product)
    flat = [inputs.storage[name][guard:-guard] for name in MATRICES]
    a, b, before, after = (
        from_memory(memory, problem, product, name).astype(np.float64)
        for memory, name in zip([*flat, c], [*MATRICES, "C"], strict=True)
    )
    return a, b, before, after


def _other_storage(problem: Problem, inputs: Inputs, c: Array) -> str:
    for column_major, text in _READINGS:
        if column_major == inputs.product.column_major:
            continue
        product = replace(inputs.product, column_major=column_major)
        a, b, before, after = _matrices(problem, inputs, product, c)
        if np.array_equal(after, product.alpha * (a @ b) + product.beta * before):
            return text
    return ""


def _other_sum(problem: Problem, inputs: Inputs, c: Array) -> str:
    product = inputs.product
    a, b, before, after = _matrices(problem, inputs, product, c)
    if after.size < _TELLING:
        return ""
    if product.beta == 0 and not after.any():
        return "all of C is 0: nothing is summed up"
    if a.shape == b.shape == after.shape:
        for each, text in ((a * b, "multiplied"), (a + b, "added")):
            if np.array_equal(after, product.alpha * each + product.beta * before):
                return f"C is A and B {text} element by element, not their matrix product"
    for first, end in _ranges(a, b, (after - product.beta * before) / (product.alpha or 1.0)):
        some = product.alpha * (a[:, first:end] @ b[first:end]) + product.beta * before
        if np.array_equal(after, some):
            if first:
                return f"C is the sum over k >= {first} alone: the loop over k begins too late"
            return f"C is the sum over k < {end} alone, K is {problem.k}: the loop ends too early"
    return ""


def _ranges(a: Array, b: Array, c: Array) -> Iterator[tuple[int, int]]:
    """Ranges of k, from the first or to the last, that give the first elements of C."""
    sums = np.cumsum(a[0, :, None] * b[:, :_COLUMNS], axis=0)
    begun, left, wanted = sums[:-1], sums[-1] - sums[:-1], c[0, :_COLUMNS]
    for at in np.flatnonzero((begun == wanted).all(axis=1))[:_MOST_ENDS]:
        yield 0, int(at) + 1
    for at in np.flatnonzero((left == wanted).all(axis=1))[-_MOST_ENDS:]:
        yield int(at) + 1, len(sums)
