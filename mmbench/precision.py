"""Which precision a float32 kernel computes in, told by numbers that only FP32 holds.

Rounding errors of FP32 grow with K, and from K = 8192 on they hide those of 11-bit inputs. So the
probe is exact instead: odd numbers of 12 bits times -1, 0 or 1. FP32 adds them up without an
error, TF32 and FP16 inputs (11 bits) and BF16 inputs (8 bits) round every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from mmbench.inputs import Inputs, exact, make_inputs
from mmbench.product import Problem, Product
from mmbench.runners import Array

_SMALLEST, _LARGEST = 2049, 4095  # 12 bits, odd
_MOST_K = 2**18  # up to here sums stay below 2^24, six standard deviations from it
_MOST_FACTOR = 3
_KINDS = ((11, "TF32 or FP16 (11-bit inputs)"), (8, "BF16 (8-bit inputs)"))


def probe(problem: Problem, product: Product, seed: int) -> Inputs | None:
    """Inputs that tell the precision; None for other types, and where sums would not be exact."""
    made = exact(product)
    large = max(abs(made.alpha), abs(made.beta)) > _MOST_FACTOR
    if product.types != "float32" or problem.k > _MOST_K or large:
        return None
    inputs = make_inputs(problem, made, seed, "precision")
    rng = np.random.default_rng([seed, 3])
    for matrix, along, wide in ((inputs.a, 1, 0), (inputs.b, 0, 1)):
        matrix[...] = np.clip(matrix, -1, 1)
        # Of the wide numbers A has those of even k, B those of odd k.
        chosen = matrix[:, wide::2] if along else matrix[wide::2]
        odd = rng.integers(_SMALLEST // 2, _LARGEST // 2, chosen.shape, endpoint=True) * 2 + 1
        chosen[...] = np.where(rng.integers(0, 2, chosen.shape) == 0, odd, -odd)
    return inputs


def reached(compared: Array, inputs: Inputs, rows: npt.NDArray[np.int64]) -> str:
    """Name of the precision in which these rows of C were computed from a probe.

    It is "FP32" where they are exact, else the precision whose rounding of the inputs gives the
    very same sums, in one of the ways in which hardware rounds; "" where none does.
    """
    if np.array_equal(compared, _product(inputs, rows, np.asarray)):
        return "FP32"
    for bits, name in _KINDS:
        for rounding in (_to_even, _away, _toward_zero):
            if np.array_equal(compared, _product(inputs, rows, partial(rounding, bits=bits))):
                return name
    return ""


def _product(
    inputs: Inputs, rows: npt.NDArray[np.int64], rounded: Callable[[Array], Array]
) -> npt.NDArray[np.float64]:
    a, b = (rounded(matrix.astype(np.float64)) for matrix in (inputs.a[rows], inputs.b))
    return replace(inputs, a=a, b=b, c=inputs.c[rows]).result()


def _unit(matrix: Array, bits: int) -> Array:
    """Of each number, the value of the last of so many bits; 1 at least, for whole numbers."""
    exponent = np.frexp(matrix)[1]
    unit: Array = np.maximum(np.ldexp(1.0, exponent - bits), 1.0)
    return unit


def _to_even(matrix: Array, bits: int) -> Array:
    unit = _unit(matrix, bits)
    return np.rint(matrix / unit) * unit


def _away(matrix: Array, bits: int) -> Array:
    unit = _unit(matrix, bits)
    return np.sign(matrix) * np.floor(np.abs(matrix) / unit + 0.5) * unit


def _toward_zero(matrix: Array, bits: int) -> Array:
    unit = _unit(matrix, bits)
    return np.trunc(matrix / unit) * unit


def nominal(product: Product) -> str:
    """The precision that the element types promise."""
    names = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}
    a, c = (names.get(dtype, dtype) for dtype in (product.dtype, product.c_dtype))
    return a if a == c else f"{a} in, {c} out"
