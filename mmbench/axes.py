"""Axis texts to values, and axes times kernels to the points of a sweep, in a stated order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from mmbench.errors import UsageError
from mmbench.product import Problem
from mmbench.spec import KernelSpec, Point

_RANGE = re.compile(r"(\d+):(\d+)(?::(\*?)(\d+))?")
_MOST_VALUES = 10_000
Tuned = Callable[[KernelSpec, Problem], Mapping[str, int] | None]


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
    tiles: Sequence[int] | None = None,
    params: Mapping[str, Sequence[int]] | None = None,
    tuned: Tuned | None = None,
) -> list[Point]:
    """All points, problems outermost so that inputs are made once, then kernels, then params.

    ``tiles`` are values for TILE_SIZE and ``params`` for other parameters; a kernel without such
    a parameter is not touched by them. Where neither says anything, ``tuned`` does, and else the
    header: all its values of TILE_SIZE, the first of any other parameter.
    """
    specs = list(specs)
    for spec in specs:
        _refuse_other_sizes(spec, problem_axis)
    given = given_params(specs, tiles, params)
    return [
        Point(spec, problem, dict(zip(axes, values, strict=True)))
        for problem in problem_axis
        for spec in specs
        for axes in [_param_axes(spec, problem, given, tuned)]
        for values in product(*axes.values())
    ]


def given_params(
    specs: Sequence[KernelSpec],
    tiles: Sequence[int] | None,
    params: Mapping[str, Sequence[int]] | None,
) -> dict[str, Sequence[int]]:
    """The values asked for by name, those of TILE_SIZE too; UsageError for an unknown name."""
    given = dict(params or {})
    if tiles:
        given["TILE_SIZE"] = tiles
    _refuse_unknown(given.keys() - {"TILE_SIZE"}, specs)
    return given


def _refuse_unknown(names: Iterable[str], specs: Sequence[KernelSpec]) -> None:
    known = sorted({name for spec in specs for name in spec.params})
    for name in sorted(names):
        if name not in known:
            raise UsageError(
                f"none of the kernels has a parameter {name}; known: {', '.join(known) or 'none'}"
            )


def _refuse_other_sizes(spec: KernelSpec, problem_axis: Sequence[Problem]) -> None:
    """A kernel that takes no size must not be launched at another one."""
    other = next((p for p in problem_axis if spec.fixed not in (None, p)), None)
    if other is not None and spec.fixed is not None:
        fixed = spec.fixed
        options = f"--n {fixed.n}" if fixed.square else f"--m {fixed.m} --n {fixed.n} --k {fixed.k}"
        names = ", ".join(each.partition("=")[0] for each in spec.fixed_by)
        freed = " ".join(f"--define {each}" for each in spec.fixed_by)
        free = f", or let {names} follow with {freed}" if names else ""
        raise UsageError(
            f"{spec.path}: {spec.entry} has no size parameter and is right for {fixed} alone, not "
            f"for {other}; run it with {options}{free}"
        )


def default_problems(specs: Sequence[KernelSpec], n_values: Sequence[int]) -> tuple[Problem, ...]:
    """The problems of a command that names no size: the one that a kernel is fixed to, if any."""
    fixed = {spec.fixed for spec in specs if spec.fixed is not None}
    return tuple(fixed) if len(fixed) == 1 else problems(n_values)


def _param_axes(
    spec: KernelSpec, problem: Problem, given: Mapping[str, Sequence[int]], tuned: Tuned | None
) -> dict[str, Sequence[int]]:
    open_to_tuning = bool(spec.params.keys() - given.keys())
    best = (tuned(spec, problem) if tuned and open_to_tuning else None) or {}
    axes: dict[str, Sequence[int]] = {}
    for name, values in spec.params.items():
        if name in given:
            axes[name] = given[name]
        elif name in best:
            axes[name] = (best[name],)
        else:
            axes[name] = values if name == "TILE_SIZE" else values[:1]
    return axes
