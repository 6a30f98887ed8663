"""The text of a parameter: what it says, what it may not say, and what a launch passes for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.arguments import parse_argument
from mmbench.expressions import Expression
from mmbench.product import Problem, Product
from mmbench.spec import SCALAR_BYTES, Argument, KernelSpec, Point

ONE = (Expression("1"),)
ADDRESSES = {"A": 1000, "B": 2000, "C": 3000}


def point(*texts: str, problem: Problem, **params: int) -> Point:
    spec = KernelSpec(
        name="f", path=Path("f.cu"), source="", entry="f", summary="", block=ONE, grid=ONE,
        reads=ONE[0], writes=ONE[0],
        arguments=tuple(parse_argument(text, params) for text in texts),
    )  # fmt: skip
    return Point(spec, problem, params)


@pytest.mark.parametrize(
    ("text", "name", "ctype"),
    [
        ("A", "A", "int"),
        (" C ", "C", "int"),
        ("null", "null", "int"),
        ("N", "N", "int"),
        ("int N", "N", "int"),
        ("unsigned int N", "N", "unsigned int"),
        ("unsigned N", "N", "unsigned"),
        ("size_t lda", "lda", "size_t"),
        ("long long N * K", "N * K", "long long"),
        ("int N / TILE_SIZE", "N / TILE_SIZE", "int"),
        ("float alpha", "alpha", "float"),
        ("double beta", "beta", "double"),
        ("half alpha", "alpha", "half"),
        ("float 1.5", "1.5", "float"),
        ("float -1e-3", "-1e-3", "float"),
        ("int alpha", "alpha", "int"),
        ("7", "7", "int"),
    ],
)
def test_a_text_is_read(text: str, name: str, ctype: str) -> None:
    found = parse_argument(text, ("TILE_SIZE",))
    assert (found.name, found.ctype) == (name, ctype)


def test_the_type_of_the_file_is_used_where_the_text_has_none() -> None:
    assert parse_argument("N", ctype="size_t") == Argument("N", "size_t")
    assert parse_argument("alpha", ctype="double") == Argument("alpha", "double")
    assert parse_argument("unsigned N", ctype="size_t") == Argument("N", "unsigned")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not an arithmetic expression"),
        ("int X", '"int X": X is neither A, B, C, null, alpha, beta nor a size (M, N, K, lda, ldb'),
        ("D", '"D": D is neither A, B, C, null'),
        ("N * width", "width is neither"),
        ("float N", '"float N" is neither alpha, beta nor a number'),
        ("float", "float is neither"),
        ("double x + 1", "is neither alpha, beta nor a number"),
        ("short N", '"short N" is not an arithmetic expression'),
        ("int N +", '"N +" is not an arithmetic expression'),
        ("N.real", "is not allowed here"),
        ("__import__('os')", "is not allowed here"),
        ("1.5", "is not allowed here"),
    ],
)
def test_a_text_that_says_nothing_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_argument(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("ctype", SCALAR_BYTES)
@pytest.mark.parametrize("name", ["A", "null", "alpha", "N", "ldc"])
def test_what_an_argument_is_written_as_is_read_as_it(ctype: str, name: str) -> None:
    argument = Argument(name, ctype)
    if ctype in ("float", "double", "half") and name in ("N", "ldc"):
        return  # there is no such argument
    found = parse_argument(str(argument))
    assert found.name == name
    assert found.is_pointer or found.ctype == ctype


def test_a_launch_passes_them_in_their_order() -> None:
    problem = Problem(2, 3, 5)
    at = point(
        "C", "A", "float beta", "null", "B", "K", "size_t M", "int N", "float alpha", "float 0.5",
        "N * TILE_SIZE + 1", "int 7", problem=problem, TILE_SIZE=16,
    )  # fmt: skip
    product = Product(alpha=2.5, beta=-1)
    assert at.arguments(ADDRESSES, product) == [
        3000, 1000, -1, 0, 2000, 5, 2, 3, 2.5, 0.5, 49, 7,
    ]  # fmt: skip


@given(*(st.integers(1, 99) for _ in "MNK"), st.sets(st.sampled_from("ABC")))
def test_leading_dimensions_follow_the_storage(m: int, n: int, k: int, down: set[str]) -> None:
    problem, product = Problem(m, n, k), Product(column_major=frozenset(down))
    at = point("A", "B", "C", "lda", "ldb", "size_t ldc", problem=problem)
    assert at.arguments(ADDRESSES, product)[3:] == [
        m if "A" in down else k,
        k if "B" in down else n,
        m if "C" in down else n,
    ]


def test_what_a_kernel_is_told_makes_it_rectangular() -> None:
    square = point("A", "B", "C", "N", problem=Problem(1, 1, 1)).spec
    assert not square.rectangular
    assert not replace(square, arguments=(*square.arguments, Argument("N * N"))).rectangular
    assert replace(square, arguments=(*square.arguments, Argument("K"))).rectangular
    assert replace(square, defines={"ROWS": Expression("M")}).rectangular
    assert not replace(square, defines={"ROWS": "64"}).rectangular


def test_which_factors_a_kernel_takes() -> None:
    texts = ("A", "B", "C", "N", "float alpha")
    assert point(*texts, problem=Problem(1, 1, 1)).spec.factors == {"alpha"}
    assert point(*texts, "beta", problem=Problem(1, 1, 1)).spec.factors == {"alpha", "beta"}
    assert point(*texts[:4], problem=Problem(1, 1, 1)).spec.factors == frozenset()
