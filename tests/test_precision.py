"""A float32 kernel that rounds its inputs is found at any K, and what it rounds to is named."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench.inputs import Inputs
from mmbench.precision import nominal, probe, reached
from mmbench.product import Problem, Product
from mmbench.runners import Array
from mmbench.verify import Checker

ROWS = np.arange(16)
Floats = npt.NDArray[np.float32]


def rounded(matrix: Array, bits: int, truncate: bool = False) -> Floats:
    """float32 numbers with so many bits in their significand, nearest or cut off."""
    drop = 24 - bits
    words = matrix.astype(np.float32).view(np.uint32)
    if not truncate:
        words = words + np.uint32(1 << (drop - 1))
    return (words & ~np.uint32((1 << drop) - 1)).view(np.float32)


def computed(inputs: Inputs, bits: int, truncate: bool = False) -> Array:
    """C of a kernel whose multiplier takes so many bits, accumulated in double."""
    a = rounded(inputs.a, bits, truncate) if bits < 24 else inputs.a
    b = rounded(inputs.b, bits, truncate) if bits < 24 else inputs.b
    found: Array = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return found


def made(problem: Problem, product: Product | None = None) -> Inputs:
    inputs = probe(problem, product or Product(), 1)
    assert inputs is not None
    return inputs


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 300))
def test_float32_adds_a_probe_up_without_an_error(m: int, n: int, k: int) -> None:
    inputs = made(Problem(m, n, k))
    forwards, backwards = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    for i in range(k):
        forwards += np.outer(inputs.a[:, i], inputs.b[i])
        backwards += np.outer(inputs.a[:, k - 1 - i], inputs.b[k - 1 - i])
    assert np.array_equal(forwards, backwards)
    assert reached(forwards, inputs, np.arange(m)) == "FP32"


@pytest.mark.parametrize("k", [16, 1024, 8192, 65536])
@pytest.mark.parametrize(
    ("bits", "truncate", "name"),
    [(11, False, "TF32"), (11, True, "TF32"), (8, False, "BF16"), (8, True, "BF16")],
)
def test_rounded_inputs_are_named_at_any_k(k: int, bits: int, truncate: bool, name: str) -> None:
    inputs = made(Problem(16, 16, k))
    assert name in reached(computed(inputs, bits, truncate), inputs, ROWS)


@pytest.mark.parametrize("matrix", ["a", "b"])
def test_one_rounded_input_is_wrong_without_a_name(matrix: str) -> None:
    inputs = made(Problem(16, 16, 256))
    sides = {"a": inputs.a, "b": inputs.b}
    sides[matrix] = rounded(sides[matrix], 11)
    found = (sides["a"].astype(np.float64) @ sides["b"]).astype(np.float32)
    assert "TF32" not in reached(found, inputs, ROWS)  # a kernel rounds both or none
    check = Checker(Problem(16, 16, 256), Product(), 1)
    storage = inputs.c_padded.copy()
    check._matrix(storage)[...] = found
    assert "differ with 12-bit numbers" in check.check_precision(storage, inputs)


def test_tf32_hides_behind_the_bound_for_real_inputs() -> None:
    """Why the probe exists: at this K the error of 11-bit inputs is within FP32's bound."""
    problem = Problem(32, 32, 65536)
    check = Checker(problem, Product(), 1)
    storage = check.real.c_padded.copy()
    check._matrix(storage)[...] = computed(check.real, 11)
    assert check.check_real(storage)[0] == ""
    inputs = made(problem)
    storage = inputs.c_padded.copy()
    check._matrix(storage)[...] = computed(inputs, 11)
    assert "computed in TF32" in check.check_precision(storage, inputs)


def test_a_wrong_product_is_no_precision() -> None:
    inputs = made(Problem(16, 16, 64))
    assert reached(np.zeros((16, 16), np.float32), inputs, ROWS) == ""
    assert reached(np.full((16, 16), np.nan, np.float32), inputs, ROWS) == ""
    one = inputs.result().astype(np.float32)
    one[3, 4] += 1
    assert reached(one, inputs, ROWS) == ""


@pytest.mark.parametrize(
    ("problem", "product"),
    [
        (Problem(8, 8, 2**18 + 1), Product()),
        (Problem(8, 8, 8), Product("float64", "float64")),
        (Problem(8, 8, 8), Product("float16", "float32")),
        (Problem(8, 8, 8), Product(alpha=100)),
    ],
)
def test_there_is_no_probe_where_sums_would_not_be_exact(
    problem: Problem, product: Product
) -> None:
    assert probe(problem, product, 0) is None


def test_factors_and_storage_order_count() -> None:
    product = Product(column_major=frozenset("B"), alpha=2, beta=3)
    inputs = made(Problem(9, 7, 33), product)
    found = 2 * (inputs.a.astype(np.float64) @ inputs.b) + 3 * inputs.c
    assert reached(found.astype(np.float32), inputs, np.arange(9)) == "FP32"
    assert inputs.c.any()


@pytest.mark.parametrize(
    ("dtype", "c_dtype", "name"),
    [("float64", "float64", "FP64"), ("float16", "float32", "FP16 in, FP32 out"),
     ("int8", "int32", "int8 in, int32 out")],
)  # fmt: skip
def test_what_the_types_promise(dtype: str, c_dtype: str, name: str) -> None:
    assert nominal(Product(dtype, c_dtype)) == name
