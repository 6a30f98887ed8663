"""Axis texts and the order of a sweep's points."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench.axes import parse_axis, points, problems
from mmbench.errors import UsageError
from mmbench.expressions import Expression
from mmbench.product import Problem
from mmbench.spec import KernelSpec

ONE = Expression("1")


def kernel(name: str, **params: tuple[int, ...]) -> KernelSpec:
    return KernelSpec(
        name=name, path=Path(f"{name}.cu"), source="", entry=name, summary="", params=params,
        block=(ONE,), grid=(ONE,), reads=ONE, writes=ONE, arguments=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4096", (4096,)),
        ("256,512", (256, 512)),
        ("512, 256", (512, 256)),
        ("+7", (7,)),
        ("256:4096:*2", (256, 512, 1024, 2048, 4096)),
        ("256:4000:*2", (256, 512, 1024, 2048)),
        ("1000:3000:500", (1000, 1500, 2000, 2500, 3000)),
        ("1000:2999:500", (1000, 1500, 2000, 2500)),
        ("3:6", (3, 4, 5, 6)),
        ("5:5", (5,)),
        ("8,16,8:32:*2,1000", (8, 16, 32, 1000)),
    ],
)
def test_parse_axis(text: str, values: tuple[int, ...]) -> None:
    assert parse_axis(text) == values


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a whole number or a range"),
        ("256,", "is not a whole number or a range"),
        ("abc", '"abc" is not a whole number'),
        ("1.5", "is not a whole number"),
        ("1e3", "is not a whole number"),
        ("256:", "is not a whole number"),
        ("1:2:3:4", "is not a whole number"),
        ("1:8:**2", "is not a whole number"),
        ("-1:8", "is not a whole number"),
        ("0", "0 is not a positive whole number"),
        ("-5", "-5 is not a positive whole number"),
        ("4,0", "0 is not a positive whole number"),
        ("0:8", "0 is not a positive whole number"),
        ("0:8:*2", "0 is not a positive whole number"),
        ("8:4", '"8:4" is empty: 4 is below 8'),
        ("1:8:0", "never ends"),
        ("1:8:*1", "never ends"),
        ("1:8:*0", "never ends"),
        ("1:10001", "over 10000 values"),
    ],
)
def test_bad_axis_says_why(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_axis(text)
    assert reason in caught.value.message


def test_longest_range() -> None:
    assert len(parse_axis("1:10000")) == 10_000


@given(st.lists(st.integers(1, 10**9), min_size=1, unique=True))
def test_a_list_comes_back(values: list[int]) -> None:
    assert parse_axis(",".join(map(str, values))) == tuple(values)


@given(st.lists(st.integers(1, 9), min_size=1))
def test_a_value_is_kept_once_where_it_stood_first(values: list[int]) -> None:
    parsed = parse_axis(",".join(map(str, values)))
    assert sorted(parsed) == sorted(set(values))
    assert [values.index(value) for value in parsed] == sorted(map(values.index, parsed))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 10**6), st.integers(0, 9999), st.integers(1, 10**4))
def test_a_step_range_is_pythons(first: int, extra: int, step: int) -> None:
    last = first + extra
    assert parse_axis(f"{first}:{last}:{step}") == tuple(range(first, last + 1, step))


@given(st.integers(1, 100), st.integers(2, 10), st.integers(0, 12), st.data())
def test_a_factor_range_ends_below_the_next_power(
    first: int, factor: int, steps: int, data: st.DataObject
) -> None:
    top = first * factor**steps
    last = data.draw(st.integers(top, top * factor - 1))
    expected = tuple(first * factor**i for i in range(steps + 1))
    assert parse_axis(f"{first}:{last}:*{factor}") == expected


def test_problems_are_square_unless_told() -> None:
    assert problems([3, 5]) == (Problem(3, 3, 3), Problem(5, 5, 5))
    assert problems([3, 5], m=7) == (Problem(7, 3, 3), Problem(7, 5, 5))
    assert problems([3], k=9) == (Problem(3, 3, 9),)
    assert problems([3], m=7, k=9) == (Problem(7, 3, 9),)


def test_points_stand_in_the_stated_order() -> None:
    specs = [kernel("a", TILE_SIZE=(8, 16), DEPTH=(1, 2)), kernel("b")]
    found = [
        (p.problem.n, p.spec.name, *p.params.values())
        for p in points(specs, problems([4, 2]), None)
    ]
    of_a = [("a", 8, 1), ("a", 16, 1)]
    assert found == [(n, *rest) for n in (4, 2) for rest in (*of_a, ("b",))]


def test_tiles_replace_those_of_the_header() -> None:
    specs = [kernel("a", TILE_SIZE=(8, 16), DEPTH=(1, 2)), kernel("b"), kernel("c", DEPTH=(3,))]
    found = [(p.spec.name, dict(p.params)) for p in points(specs, problems([4]), [32])]
    assert found == [
        ("a", {"TILE_SIZE": 32, "DEPTH": 1}),
        ("b", {}),
        ("c", {"DEPTH": 3}),
    ]


def test_other_parameters_have_their_first_value_unless_told() -> None:
    specs = [kernel("a", TILE_SIZE=(8, 16), DEPTH=(1, 2))]
    found = points(specs, problems([4]), params={"DEPTH": (2, 5)})
    assert [tuple(p.params.values()) for p in found] == [(8, 2), (8, 5), (16, 2), (16, 5)]
    with pytest.raises(UsageError, match="parameter WIDTH; known: DEPTH, TILE_SIZE"):
        points(specs, problems([4]), params={"WIDTH": (2,)})


def test_no_tiles_leave_those_of_the_header() -> None:
    specs = [kernel("a", TILE_SIZE=(8, 16))]
    assert [p.tile for p in points(specs, problems([4]), None)] == [8, 16]
    assert [p.tile for p in points(specs, problems([4]), [])] == [8, 16]
    assert specs[0].params == {"TILE_SIZE": (8, 16)}


def test_kernels_may_come_from_a_generator() -> None:
    found = points((kernel(name) for name in "ab"), problems([1, 2]), None)
    assert [p.spec.name for p in found] == ["a", "b", "a", "b"]


tile_lists = st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(tile_lists, min_size=1, max_size=4),
    st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True),
)
def test_every_point_once_problems_outermost(tiles: list[list[int]], ns: list[int]) -> None:
    specs = [kernel(f"k{i:02}", TILE_SIZE=tuple(values)) for i, values in enumerate(tiles)]
    found = [
        (ns.index(p.problem.n), specs.index(p.spec), p.spec.params["TILE_SIZE"].index(p.tile or 0))
        for p in points(specs, problems(ns), None)
    ]
    assert found == sorted(set(found))
    assert len(found) == len(ns) * sum(map(len, tiles))
