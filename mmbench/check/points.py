"""Chooses the small points at which a kernel's faults show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from mmbench.device import CUDA_LIMITS, Device
from mmbench.errors import UnfitError
from mmbench.expressions import ExpressionError
from mmbench.fitness import unfit_reason
from mmbench.gpu_only import without_comments
from mmbench.product import Problem
from mmbench.spec import KernelSpec, Point

_LARGEST = 160  # edge that is looked at
_MOST_PRODUCTS = 2**22  # M*N*K of one point: about a tenth of a second for a naive kernel
_MOST_FIXED = 2**27  # of a kernel that is for one size alone: some ten seconds
_MOST_POINTS = 8
_LARGEST_EDGE = 256  # of a block or a step whose other side is looked at
_MOST_PAST = 2**25  # M*N*K just past such an edge: about a second
_MOST_EDGES = 2
_NUMBER = re.compile(r"(?<![\w.])(\d{2,3})[uUlL]*(?![\w.])")
_MOST_ELEMENTS = 2**24  # of C in any checked run: who touched each is kept, in 72 bytes
_SPARE = 1 << 40
_DEVICE = Device("cpu", 0, "checked build", "", CUDA_LIMITS, _SPARE, _SPARE)
_ANY_GPU = Device("cuda", 0, "any GPU", "", CUDA_LIMITS, _SPARE, _SPARE)


def choose_points(
    spec: KernelSpec, given: Mapping[str, Sequence[int]] | None = None
) -> list[Point]:
    """Small points that show faults: about the tile's edge, several tiles, not square.

    All values of the parameters in ``given`` are checked; those that fit nowhere have a point all
    the same. Raise UnfitError where the kernel can run at no point.
    """
    asked = {name: values for name, values in (given or {}).items() if name in spec.params}
    if not asked:
        return _points(spec)
    found: list[Point] = []
    for values in product(*asked.values()):
        one = dict(zip(asked, values, strict=True))
        chosen = replace(spec, params={**spec.params, **{n: (v,) for n, v in one.items()}})
        try:
            points = _points(chosen)
        except UnfitError:
            side = max(values)
            params = {name: choices[0] for name, choices in chosen.params.items()}
            points = [Point(spec, spec.fixed or Problem(side, side, side), params)]
        found += [replace(point, spec=spec) for point in points]
    return found


def _points(spec: KernelSpec) -> list[Point]:
    points: list[Point] = []
    past: list[Point] = []
    for params, fitting in _parameters(spec):
        sizes = _sizes(spec, params, fitting)
        past = past if points else _about_edges(spec, params, sizes)
        points += sizes if not points else sizes[-2:]
    if not points and spec.fixed is not None:
        freed = " ".join(f"--define {each}" for each in spec.fixed_by)
        raise UnfitError(
            f"{spec.path}: it is for {spec.fixed} alone, which does not fit or is large for a "
            f"checked run{f'; let the size follow with {freed}' if freed else ''}"
        )
    if not points:
        raise UnfitError(f"{spec.path}: no size up to {_LARGEST} fits the kernel's own conditions")
    points.sort(key=_volume)
    return points[:_MOST_POINTS] + past


def refuse_unfit(point: Point, static_shared: int = 0) -> None:
    """Raise UnfitError where a GPU would refuse the launch, or the problem is too large."""
    reasons = [unfit_reason(point, _DEVICE), _DEVICE.limits.static_shared_reason(static_shared)]
    if point.problem.m * point.problem.n > _MOST_ELEMENTS:
        reasons.append("a checked run is for small problems: C has more than 2**24 elements")
    for reason in reasons:
        if reason is not None:
            raise UnfitError(f"{point}: {reason}")


def _parameters(spec: KernelSpec) -> list[tuple[dict[str, int], list[Problem]]]:
    """Two sets of parameters with the squares that they fit: those of the smallest blocks that
    have two warps.
    """
    names = sorted(spec.params)
    usable = []
    enough = []
    for values in product(*(sorted(set(spec.params[name])) for name in names)):
        params = dict(zip(names, values, strict=True))
        fitting = _fitting(spec, params)
        if not fitting:
            continue
        usable.append((params, fitting))
        if Point(spec, fitting[0], params).launch().threads > 32:
            enough.append((params, fitting))
        if len(enough) == 2:
            break
    return (enough or usable)[:2]


def _fits(point: Point, most: int = _MOST_PRODUCTS) -> bool:
    try:
        device = _DEVICE if "cpu" in point.spec.runners else _ANY_GPU
        return _volume(point) <= most and unfit_reason(point, device) is None
    except ExpressionError:
        return False


def _fitting(spec: KernelSpec, params: dict[str, int]) -> list[Problem]:
    """The square problems that a kernel takes, smallest first, or the one that it is for."""
    if spec.fixed is not None:
        return [spec.fixed] if _fits(Point(spec, spec.fixed, params), _MOST_FIXED) else []
    problems = [Problem(n, n, n) for n in range(1, _LARGEST + 1)]
    return [problem for problem in problems if _fits(Point(spec, problem, params))]


def _tile(spec: KernelSpec, params: dict[str, int], fitting: list[Problem]) -> int:
    """The edge of what a block computes, as far as the parameters and the launch tell."""
    launch = Point(spec, fitting[0], params).launch()
    one_block = fitting[0].n
    for problem in fitting[1:]:
        if Point(spec, problem, params).launch().blocks > 1:
            break
        one_block = problem.n
    guesses = [*params.values(), *launch.block, one_block]
    return max([guess for guess in guesses if guess <= _LARGEST // 2], default=16)


def _sizes(spec: KernelSpec, params: dict[str, int], fitting: list[Problem]) -> list[Point]:
    if spec.fixed is not None:
        return [Point(spec, spec.fixed, params)]
    tile = max(_tile(spec, params, fitting), 4)
    half = tile // 2
    squares = (tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1, 3 * tile)
    problems = [Problem(n, n, n) for n in squares]
    if spec.rectangular:
        problems += [
            Problem(tile + 1, 2 * tile - 1, half + 3),
            Problem(half + 1, tile - 1, 2 * tile + 2),
            Problem(2 * tile, tile, 3 * tile),
        ]
    points = [Point(spec, problem, params) for problem in problems]
    points = [point for point in points if _fits(point)]
    if not points:
        points = [Point(spec, problem, params) for problem in fitting[:3]]
    return sorted(points, key=_volume)


def _about_edges(spec: KernelSpec, params: dict[str, int], sizes: Sequence[Point]) -> list[Point]:
    """Squares about the constant sides of blocks, arrays and steps that the sizes do not reach."""
    reached = max(point.problem.n for point in sizes)
    found = {int(n) for text in (without_comments(spec.source), *_launch_texts(spec))
             for n in _NUMBER.findall(text)} | {*params.values()}  # fmt: skip
    edges = sorted(edge for edge in found if reached <= edge <= _LARGEST_EDGE)[-_MOST_EDGES:]
    points = []
    for edge in edges if spec.fixed is None else ():
        for n, most in ((edge - 1, _MOST_PRODUCTS), (edge, _MOST_PRODUCTS), (edge + 1, _MOST_PAST)):
            point = Point(spec, Problem(n, n, n), params)
            if _fits(point, most) and point not in points:
                points.append(point)
    return sorted(points, key=_volume)


def _launch_texts(spec: KernelSpec) -> list[str]:
    return [axis.text for axis in (*spec.block, *spec.grid)]


def _volume(point: Point) -> int:
    problem = point.problem
    return problem.m * problem.n * problem.k
