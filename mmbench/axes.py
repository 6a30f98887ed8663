"""Axis texts to values, and axes times kernels to the points of a sweep, in a stated order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

from mmbench.errors import UsageError
from mmbench.spec import KernelSpec, Point, Problem

_RANGE = re.compile(r"(\d+):(\d+)(?::(\*?)(\d+))?")
_MOST_VALUES = 10_000


def parse_axis(text: str) -> tuple[int, ...]:
    """Parse ``256,512``, ``256:4096:*2`` (factor) or ``1000:3000:500`` (step).

    Both ends of a range belong to it. Values are positive and each is kept once, in order.
    """
    values: list[int] = []
    for part in text.split(","):
        part = part.strip()
        if re.fullmatch(r"[+-]?\d+", part):
            values.append(_positive(int(part)))
        elif match := _RANGE.fullmatch(part):
            values += _range(part, match)
        else:
            raise UsageError(
                f'"{part}" is not a whole number or a range; '
                "write 256,512 or 256:4096:*2 or 1000:3000:500"
            )
    return tuple(dict.fromkeys(values))


def _positive(value: int) -> int:
    if value <= 0:
        raise UsageError(f"{value} is not a positive whole number")
    return value


def _range(text: str, match: re.Match[str]) -> list[int]:
    first, last, step = _positive(int(match[1])), int(match[2]), int(match[4] or 1)
    factor = match[3] == "*"
    if step < (2 if factor else 1):
        raise UsageError(f'"{text}" never ends: the step must grow the value')
    if last < first:
        raise UsageError(f'"{text}" is empty: {last} is below {first}')
    values = [first]
    while (following := values[-1] * step if factor else values[-1] + step) <= last:
        values.append(following)
        if len(values) > _MOST_VALUES:
            raise UsageError(f'"{text}" has over {_MOST_VALUES} values; use a larger step')
    return values


def problems(
    n_values: Sequence[int], m: int | None = None, k: int | None = None
) -> tuple[Problem, ...]:
    """One problem for each N; M and K equal N where they are not given."""
    return tuple(Problem(m or n, n, k or n) for n in n_values)


def points(
    specs: Iterable[KernelSpec],
    problem_axis: Sequence[Problem],
    tiles: Sequence[int] | None,
) -> list[Point]:
    """All points, problems outermost so that inputs are made once, then kernels, then params.

    ``tiles`` replaces the values of TILE_SIZE that a kernel's header states; a kernel without
    that parameter yields one point.
    """
    specs = list(specs)
    return [
        Point(spec, problem, dict(zip(axes, values, strict=True)))
        for problem in problem_axis
        for spec in specs
        for axes in [_param_axes(spec, tiles)]
        for values in product(*axes.values())
    ]


def _param_axes(spec: KernelSpec, tiles: Sequence[int] | None) -> dict[str, Sequence[int]]:
    axes: dict[str, Sequence[int]] = dict(spec.params)
    if tiles and "TILE_SIZE" in axes:
        axes["TILE_SIZE"] = tiles
    return axes
