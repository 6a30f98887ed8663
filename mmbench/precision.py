"""Which precision a float32 kernel computes in, told by numbers that only FP32 holds.

Rounding errors of FP32 grow with K, and from K = 8192 on they hide those of 11-bit inputs. So the
probe is exact instead: odd numbers of 12 bits times -1, 0 or 1. FP32 adds them up without an
error, TF32 and FP16 inputs (11 bits) and BF16 inputs (8 bits) round every one of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmbench.inputs import Inputs, exact, make_inputs
from mmbench.product import Problem, Product
from mmbench.runners import Array

_SMALLEST, _LARGEST = 2049, 4095  # 12 bits, odd
_MOST_K = 2**18  # up to here sums stay below 2^24, six standard deviations from it
_MOST_FACTOR = 3
_FEWEST = 0.25
# Relative error (root mean square) that inputs of so many bits leave, and what they are called.
_KINDS = ((2.0**-11, "TF32 or FP16 (11-bit inputs)"), (2.0**-7, "BF16 (8-bit inputs)"))


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


def reached(compared: Array, reference: npt.NDArray[np.float64]) -> str:
    """Name of the precision in which C was computed from a probe; "" where it is none of these."""
    error = compared.astype(np.float64) - reference
    wrong = np.count_nonzero(error)
    if wrong == 0:
        return "FP32"
    if wrong < _FEWEST * error.size:
        return ""  # rounded inputs leave few elements right
    scale = float(np.sqrt(np.mean(reference**2)))
    share = float(np.sqrt(np.mean(error**2))) / scale if scale else np.inf
    return next((name for largest, name in _KINDS if share <= largest), "")


def nominal(product: Product) -> str:
    """The precision that the element types promise."""
    names = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}
    a, c = (names.get(dtype, dtype) for dtype in (product.dtype, product.c_dtype))
    return a if a == c else f"{a} in, {c} out"
