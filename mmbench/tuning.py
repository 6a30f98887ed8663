"""The search for a kernel's best parameters: which points are tried, and who has won.

Every point is verified like any other, so a wrong configuration cannot win. Times are those of
the bench: behind the gate, in a process of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mmbench.bench import Measured
from mmbench.compare import Ratio, ratio_of
from mmbench.product import Problem
from mmbench.spec import KernelSpec, Point

Measure = Callable[[Sequence[Point]], Sequence[Measured]]
Fits = Callable[[Point], bool]

_EXPLORED = 0.5  # of the budget is spent on random points, the rest around the best of them
_LEADERS = 4
_CLOSE = 1.05  # times the fastest: who is timed again


@dataclass(frozen=True)
class Winner:
    """The fastest configuration, and those that cannot be told from it."""

    measured: Measured
    ties: tuple[Measured, ...]
    tried: int
    wrong: int


def space(
    spec: KernelSpec, problem: Problem, values: Mapping[str, Sequence[int]], fits: Fits
) -> list[Point]:
    """All configurations of the header's parameters that fit; ``values`` replace its lists."""
    axes = {name: values.get(name, listed) for name, listed in spec.params.items()}
    points = (
        Point(spec, problem, dict(zip(axes, chosen, strict=True)))
        for chosen in product(*axes.values())
    )
    return [point for point in points if fits(point)]


def explore(points: Sequence[Point], most: int, seed: int, measure: Measure) -> list[Measured]:
    """Measure the points, at most ``most`` of them.

    A space that is larger is sampled at random, then searched around the fastest: their
    neighbours, which differ in one parameter by one step, are tried until nothing is faster.
    """
    if len(points) <= most:
        return list(measure(points))
    chosen = random.Random(seed).sample(list(points), max(1, int(most * _EXPLORED)))
    found = list(measure(chosen))
    while len(found) < most:
        tried = {_key(each.point) for each in found}
        leaders = fastest(found)[:_LEADERS]
        near = [
            point
            for point in points
            if _key(point) not in tried and any(_steps(point, each.point) == 1 for each in leaders)
        ]
        if not near:
            break
        found += measure(near[: most - len(found)])
    return found


def _key(point: Point) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(point.params.items()))


def _steps(one: Point, other: Point) -> int:
    """By how many steps along the lists of values two configurations differ."""
    steps = 0
    for name, values in one.spec.params.items():
        ordered = sorted({*values, one.params[name], other.params[name]})
        steps += abs(ordered.index(one.params[name]) - ordered.index(other.params[name]))
    return steps


def fastest(found: Sequence[Measured]) -> list[Measured]:
    """The right and plausible ones, the fastest first."""
    right = [each for each in found if each.row.status == "ok" and each.row.plausible]
    return sorted(right, key=lambda each: each.row.time_ms_median or 0.0)


def finalists(found: Sequence[Measured]) -> list[Point]:
    """Those close to the fastest, to be timed again in turns."""
    ordered = fastest(found)
    limit = _CLOSE * (ordered[0].row.time_ms_median or 0.0) if ordered else 0.0
    close = [each for each in ordered if (each.row.time_ms_median or 0.0) <= limit]
    return [each.point for each in close[: 2 * _LEADERS]]


def winner(again: Sequence[Measured], found: Sequence[Measured], margin: float) -> Winner | None:
    """Who has won the final, in which all were measured in turns; None where nothing is right."""
    ordered = fastest(again)
    if not ordered:
        return None
    first, *others = ordered
    ties = tuple(each for each in others if _is_tie(first, each, margin))
    wrong = sum(each.row.status == "wrong" for each in found)
    return Winner(first, ties, len(found), wrong)


def _is_tie(first: Measured, other: Measured, margin: float) -> bool:
    ratio = ratio_of(first, other, margin) or Ratio(1.0)
    return ratio.verdict in ("same", "unclear")
