"""Which other storage order or operand order explains a wrong C, as a hint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmbench.inputs import Inputs, from_memory, guard_elements
from mmbench.product import Problem
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


def hint(problem: Problem, inputs: Inputs, c: Array) -> str:
    """The hint for C as it lies in memory, flat and without guard zones; "" where none fits."""
    product, guard = inputs.product, guard_elements(problem, inputs.product)
    for column_major, text in _READINGS:
        if column_major == product.column_major:
            continue
        other = replace(product, column_major=column_major)
        a, b, before = (
            from_memory(padded[guard:-guard], problem, other, name).astype(np.float64)
            for name, padded in inputs.storage.items()
        )
        result = product.alpha * (a @ b) + product.beta * before
        if np.array_equal(from_memory(c, problem, other, "C"), result):
            return text
    return ""
