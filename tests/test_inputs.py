"""The matrices of a check: their storage, their zones, and numbers whose sums stay exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench.inputs import (
    all_ones,
    as_matrix,
    exact,
    from_memory,
    guard_elements,
    in_memory,
    make_inputs,
    marker,
    other_factors,
    padded,
)
from mmbench.product import ELEMENT_BYTES, MANTISSA_BITS, MATRICES, Problem, Product
from mmbench.runners import Array

sizes = st.integers(1, 12)
problems = st.builds(Problem, sizes, sizes, sizes)
orders = st.sets(st.sampled_from(MATRICES)).map(frozenset)
names = st.sampled_from(MATRICES)


def numbered(problem: Problem, name: str) -> Array:
    rows, columns = problem.shape(name)
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


@settings(deadline=None)
@given(problems, orders, names)
def test_into_memory_and_back(problem: Problem, down: frozenset[str], name: str) -> None:
    product, matrix = Product(column_major=down), numbered(problem, name)
    flat = in_memory(matrix, product, name)
    assert flat.ndim == 1
    assert np.array_equal(from_memory(flat, problem, product, name), matrix)
    again = np.random.default_rng(0).random(matrix.size)
    assert np.array_equal(
        in_memory(from_memory(again, problem, product, name), product, name), again
    )


@settings(deadline=None)
@given(problems, orders, names, st.data())
def test_an_element_lies_where_the_leading_dimension_says(
    problem: Problem, down: frozenset[str], name: str, data: st.DataObject
) -> None:
    product, matrix = Product(column_major=down), numbered(problem, name)
    row = data.draw(st.integers(0, matrix.shape[0] - 1))
    column = data.draw(st.integers(0, matrix.shape[1] - 1))
    leading = product.leading_dimension(name, problem)
    at = row + column * leading if name in down else row * leading + column
    assert in_memory(matrix, product, name)[at] == matrix[row, column]


@settings(deadline=None)
@given(problems, orders, names)
def test_a_padded_matrix_is_a_view_between_its_zones(
    problem: Problem, down: frozenset[str], name: str
) -> None:
    product = Product("int8", "int32", column_major=down)
    whole, matrix = padded(problem, product, name)
    assert whole.dtype == matrix.dtype == product.dtype_of(name)
    assert matrix.shape == problem.shape(name)
    matrix[...] = numbered(problem, name) % 100
    guard = guard_elements(problem, product)
    assert (whole[:guard] == marker(product.dtype_of(name), name)).all()
    assert (whole[-guard:] == marker(product.dtype_of(name), name)).all()
    assert np.array_equal(whole[guard:-guard], in_memory(matrix, product, name))
    assert np.shares_memory(as_matrix(whole, problem, product, name), whole)


@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
def test_the_marker_fits_its_type(dtype: str) -> None:
    """Finite: 0 * NaN would spoil a right kernel that reads C where beta is 0."""
    value = marker(dtype)
    assert np.isfinite(value)
    assert np.array([value], dtype)[0] == value
    assert value < -100, "a value that no small product has"


@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
@pytest.mark.parametrize("alpha", [1, -3])
def test_whole_numbers_sum_up_exactly(dtype: str, alpha: float) -> None:
    problem, product = Problem(6, 7, 60), Product(dtype, dtype, alpha=alpha)
    made = make_inputs(problem, product, 3, "whole")
    largest = np.abs(made.a.astype(float)).max() * np.abs(made.b.astype(float)).max()
    most = problem.k * largest * abs(alpha)
    assert most < 2 ** MANTISSA_BITS[dtype] or largest == 1
    assert made.a.min() < 0 < made.a.max()


def test_c_is_the_marker_unless_beta_reads_it() -> None:
    problem = Problem(30, 31, 32)
    untouched = make_inputs(problem, Product(), 1, "whole")
    assert (untouched.c == marker("float32")).all()
    read = make_inputs(problem, Product(beta=1), 1, "whole")
    assert set(np.unique(read.c)) == set(range(-4, 5))
    real = make_inputs(problem, Product(beta=1), 1, "real")
    assert np.abs(real.c).max() <= 1
    assert not (real.c == np.round(real.c)).all()


def test_the_three_matrices_are_not_alike() -> None:
    """Symmetric or equal matrices would hide a swapped index."""
    made = make_inputs(Problem(20, 20, 20), Product(beta=1), 1, "whole")
    for one in (made.a, made.b, made.c):
        assert not np.array_equal(one, one.T)
    assert not np.array_equal(made.a, made.b)
    assert not np.array_equal(made.b, made.c)


@settings(deadline=None, max_examples=30)
@given(problems, orders, st.integers(-3, 3), st.integers(-3, 3))
def test_the_result_is_that_of_each_element(
    problem: Problem, down: frozenset[str], alpha: int, beta: int
) -> None:
    product = Product(column_major=down, alpha=alpha, beta=beta)
    made = make_inputs(problem, product, 0, "whole")
    expected = [
        [
            alpha * sum(int(made.a[i, k]) * int(made.b[k, j]) for k in range(problem.k))
            + (beta * int(made.c[i, j]) if beta else 0)
            for j in range(problem.n)
        ]
        for i in range(problem.m)
    ]
    assert made.result().tolist() == expected


def test_other_factors_keep_a_and_b() -> None:
    problem = Problem(8, 9, 10)
    made = make_inputs(problem, Product(), 1, "whole")
    for factors, alpha, beta in (({"alpha"}, 2, 0), ({"beta"}, 1, 3), ({"alpha", "beta"}, 2, 3)):
        other = other_factors(made, problem, frozenset(factors), 2)
        assert (other.product.alpha, other.product.beta) == (alpha, beta)
        assert other.a_padded is made.a_padded
        assert other.b_padded is made.b_padded
        assert bool((other.c == marker("float32")).all()) is (beta == 0)
        assert other.kind == "factors"
    scaled = make_inputs(problem, Product(alpha=-1, beta=5), 1, "whole")
    product = other_factors(scaled, problem, frozenset({"alpha"}), 2).product
    assert (product.alpha, product.beta) == (2, 5), "what a kernel does not take stays"


@given(st.floats(-4, 4), st.floats(-4, 4))
def test_exact_factors_are_whole(alpha: float, beta: float) -> None:
    found = exact(Product(alpha=alpha, beta=beta))
    for given_, used in ((alpha, found.alpha), (beta, found.beta)):
        assert float(used).is_integer()
        assert used == given_ or not given_.is_integer()
        assert used != 0 or given_ == 0


@pytest.mark.parametrize("k", [1, 7, 2048, 4096, 65536, 100_000])
def test_equal_products_are_within_half_precision(k: int) -> None:
    product = Product("float16", "float16", alpha=3, beta=1)
    made = all_ones(Problem(2, 3, k), product)
    assert (made.product.alpha, made.product.beta) == (3, 1)
    assert not made.c.any()
    assert len(np.unique(made.a)) == len(np.unique(made.b)) == 1
    total = 3 * float(made.a[0, 0]) * k
    assert np.isfinite(np.float16(total))
    assert total > 2048 * float(made.a[0, 0]) or k <= 2048, "a half sum would stop growing"
    assert made.kind == "ones"


def test_inputs_follow_the_kind_and_the_seed() -> None:
    problem, product = Problem(9, 9, 9), Product(beta=1)
    one = make_inputs(problem, product, 1, "whole")
    for other in (
        make_inputs(problem, product, 2, "whole"),
        make_inputs(problem, product, 1, "factors"),
        make_inputs(replace(problem, k=8), product, 1, "whole"),
    ):
        assert not np.array_equal(one.c, other.c)
