"""What a wrong kernel may need, found by trying it at another size."""

from __future__ import annotations

from mmbench import metrics
from mmbench.expressions import Expression
from mmbench.product import Problem
from mmbench.spec import Point

_MOST_FLOP = 2e9  # of a trial: a second on the slowest host


def at_multiples_of_tile(point: Point) -> Point | None:
    """A small point of the same program whose sizes are multiples of the tile.

    None where that is so already, where the program is for this size alone, and where the tile
    is so large that the product would not be small.
    """
    spec, problem = point.spec, point.problem
    compiled_in = any(isinstance(value, Expression) for value in spec.defines.values())
    if spec.fixed is not None or compiled_in:
        return None
    side = max([*point.params.values(), *point.launch().block[:2]])
    if all(size % side == 0 for size in (problem.m, problem.n, problem.k)):
        return None
    m, n, k = (2 * side, 3 * side, 4 * side) if spec.rectangular else (2 * side,) * 3
    tried = Problem(m, n, k)
    return Point(spec, tried, point.params) if metrics.flop(tried) <= _MOST_FLOP else None


def beside_multiples(tried: Point) -> Point:
    """The same with each size one larger: a kernel that is right there needs no multiples."""
    problem = tried.problem
    larger = Problem(problem.m + 1, problem.n + 1, problem.k + 1)
    return Point(tried.spec, larger, tried.params)


def needs_multiples(point: Point, tried: Point) -> str:
    """The hint where ``tried`` came out right and ``point`` did not."""
    return (
        f"hint: right at {tried.problem}, wrong at {point.problem}: this kernel seems to need "
        "sizes that are multiples of the tile"
    )
