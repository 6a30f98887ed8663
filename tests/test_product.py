"""What a product is: shapes, element types, and where a matrix's rows and columns lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.product import ELEMENT_BYTES, MANTISSA_BITS, MATRICES, Problem, Product

sizes = st.integers(1, 10**6)


def test_shapes() -> None:
    problem = Problem(2, 3, 5)
    assert [problem.shape(name) for name in MATRICES] == [(2, 5), (5, 3), (2, 3)]


@given(sizes, sizes, sizes)
def test_square_means_all_three(m: int, n: int, k: int) -> None:
    assert Problem(m, n, k).square is (len({m, n, k}) == 1)
    assert Problem(m, m, m).square


def test_a_square_problem_is_named_by_n_alone() -> None:
    assert str(Problem(7, 7, 7)) == "N=7"
    assert str(Problem(7, 7, 8)) == "M=7 N=7 K=8"


def test_the_usual_product() -> None:
    product = Product()
    assert product.types == product.dtype == product.c_dtype == "float32"
    assert (product.alpha, product.beta, product.column_major) == (1, 0, frozenset())
    assert not product.whole_numbers


def test_types_of_the_matrices() -> None:
    product = Product("int8", "int32")
    assert [product.dtype_of(name) for name in MATRICES] == ["int8", "int8", "int32"]
    assert [product.bytes_of(name) for name in MATRICES] == [1, 1, 4]
    assert product.types == "int8/int32"
    assert product.whole_numbers


@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
def test_facts_of_a_type_are_numpys(dtype: str) -> None:
    assert ELEMENT_BYTES[dtype] == np.dtype(dtype).itemsize
    if dtype.startswith("float"):
        assert MANTISSA_BITS[dtype] == np.finfo(dtype).nmant + 1  # the leading bit is not stored
    else:
        assert MANTISSA_BITS[dtype] == np.iinfo(dtype).bits - 1
    assert Product("float32", dtype).whole_numbers is dtype.startswith("int")


def test_leading_dimensions() -> None:
    problem = Problem(2, 3, 5)
    rows, columns = Product(), Product(column_major=frozenset("ABC"))
    assert [rows.leading_dimension(name, problem) for name in MATRICES] == [5, 3, 3]
    assert [columns.leading_dimension(name, problem) for name in MATRICES] == [2, 5, 2]
    mixed = Product(column_major=frozenset("B"))
    assert [mixed.leading_dimension(name, problem) for name in MATRICES] == [5, 5, 3]
