"""Header arithmetic has the values of Python's, and is nothing but arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench.expressions import Expression, ExpressionError

NAMES = {"M": 7, "N": 100, "K": 33, "TILE_SIZE": 16}


def ceil_div(a: int, b: int) -> int:
    return math.ceil(Fraction(a, b))


def compound(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">="])
    functions = st.sampled_from(["ceil_div", "min", "max"])
    return st.one_of(
        st.builds("({} {} {})".format, part, operators, part),
        st.builds("{}({}, {})".format, functions, part, part),
        st.builds("(-{})".format, part),
        st.builds("({} ** {})".format, part, st.integers(0, 3)),
    )


texts = st.recursive(
    st.integers(0, 1000).map(str) | st.sampled_from(sorted(NAMES)), compound, max_leaves=10
)


@settings(deadline=None)
@given(texts)
def test_value_is_pythons(text: str) -> None:
    expression = Expression(text)
    try:
        expected = eval(text, {"ceil_div": ceil_div}, NAMES)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="has no value here"):
            expression.value(NAMES)
    else:
        assert expression.value(NAMES) == expected


@given(st.integers(0, 10**30), st.integers(1, 10**6))
def test_ceil_div_is_the_least_multiple_that_covers(a: int, b: int) -> None:
    quotient = Expression("ceil_div(a, b)").value({"a": a, "b": b})
    assert (quotient - 1) * b < a <= quotient * b


@given(st.integers(0, 10**30), st.integers(1, 10**6))
def test_a_quotient_is_a_whole_number_as_in_c(a: int, b: int) -> None:
    names = {"a": a, "b": b}
    assert Expression("a / b").value(names) == a // b
    assert Expression("ceil(a / b)").value(names) == Expression("ceil_div(a, b)").value(names)
    assert Expression("a / b * b + a % b").value(names) == a


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("-N // TILE_SIZE", -7),
        ("N % TILE_SIZE", 4),
        ("2 ** 3 ** 2", 512),
        ("ceil_div(N, TILE_SIZE)", 7),
        ("ceil_div(96, TILE_SIZE)", 6),
        ("min(N, K) + max(M, K)", 66),
        ("  N  ".strip(), 100),
        ("N / TILE_SIZE", 6),
        ("(N + TILE_SIZE - 1) / TILE_SIZE", 7),
        ("ceil(N / TILE_SIZE)", 7),
        ("ceil(96 / TILE_SIZE)", 6),
        ("2 * ceil((N + 1) / 2) / 3", 34),
    ],
)
def test_values(text: str, value: int) -> None:
    assert Expression(text).value(NAMES) == value


def test_comparison_yields_a_whole_number() -> None:
    value = Expression("N == 100").value(NAMES)
    assert value == 1
    assert type(value) is int


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "__import__('os').system('true')",
        "N.real",
        "N.__class__",
        "lambda: 1",
        "N and K",
        "N or 1",
        "not N",
        "foo(N, 1)",
        "ceil_div(N)",
        "min(1, 2, 3)",
        "min(*N, 1)",
        "max(a=1, b=2)",
        "min(N, key=K)",
        "min(N, K, key=M)",
        "ceil_div(N, K)(1, 2)",
        "N[0]",
        "[N]",
        "(N, K)",
        "{N}",
        "[N for N in K]",
        "ceil(N)",
        "ceil(N // 2)",
        "ceil(N / 2, 1)",
        "ceil(N * 2)",
        "N /",
        "N << 2",
        "N & K",
        "N @ K",
        "~N",
        "1.5",
        "1e3",
        "2j",
        "'text'",
        "f'{N}'",
        "True",
        "None",
        "...",
        "1 < N < 5",
        "N is K",
        "N in K",
        "N if K else M",
        "(N := 3)",
        "await N",
        "",
        "N +",
        "N K",
        "N; K",
        "N = 3",
        "import os",
    ],
)
def test_anything_else_is_refused_when_read(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)


@pytest.mark.parametrize("part", ["foo(N, 1)", "N.real", "(N and K)"])
@pytest.mark.parametrize("around", ["1 + {}", "{} + 1", "-{}", "min(1, {})", "{} == 1", "2 ** {}"])
def test_what_is_refused_is_refused_inside_too(around: str, part: str) -> None:
    with pytest.raises(ExpressionError, match="is not allowed here"):
        Expression(around.format(part))


@pytest.mark.parametrize("text", ["N\0", "-" * 20_000 + "N", "N" + " + N" * 20_000, "9" * 5000])
def test_hostile_text_is_an_error_not_a_crash(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text).value(NAMES)


def test_exponent_is_bounded() -> None:
    assert Expression("2 ** 64").value({}) == 2**64
    assert Expression("2 ** 0").value({}) == 1
    for text in ("2 ** 65", "2 ** 1000", "2 ** -1", "2 ** N", "2 ** 3 ** 4"):
        with pytest.raises(ExpressionError, match=r"outside 0\.\.64"):
            Expression(text).value(NAMES)


def test_unknown_name_is_named_with_the_known_ones() -> None:
    with pytest.raises(ExpressionError, match='"WIDTH" is not defined; known: M, N, K, TILE_SIZE'):
        Expression("N * WIDTH").value(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "N // (M - 7)",
        "N / (M - 7)",
        "N % (M - 7)",
        "ceil_div(N, M - 7)",
        "ceil(N / (M - 7))",
    ],
)
def test_division_by_zero_is_named(text: str) -> None:
    with pytest.raises(ExpressionError, match="has no value here") as caught:
        Expression(text).value(NAMES)
    assert f'"{text}"' in str(caught.value)


def test_names_are_the_variables_alone() -> None:
    expression = Expression("ceil_div(N, TILE_SIZE) + min(M, 3) * N")
    assert expression.names == {"M", "N", "TILE_SIZE"}
    assert Expression("ceil(N / K)").names == {"N", "K"}
    assert Expression("4 * 8").names == frozenset()


def test_text_is_kept_as_written() -> None:
    assert str(Expression("N  *  K")) == "N  *  K"
