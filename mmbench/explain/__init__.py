"""The walk of one thread through a kernel, live from its accesses: no GPU, no sweep, no output."""

from __future__ import annotations

from dataclasses import replace

from mmbench.check import check_point
from mmbench.errors import UsageError
from mmbench.explain.events import from_trace
from mmbench.explain.model import Walk
from mmbench.explain.walk import check_place, walk
from mmbench.inputs import exact, make_inputs
from mmbench.spec import Dim3, Point

__all__ = ["Walk", "check_place", "explain", "walk"]


def explain(point: Point, block: Dim3, thread: Dim3, *, seed: int = 0) -> Walk:
    """Run a kernel's checked build and walk with one thread through what it did.

    Raise UsageError where there is no such block or thread, or it owns nothing.
    """
    product = point.spec.product
    if product.column_major or product.beta:
        raise UsageError("explain walks through row-major products with beta = 0 only")
    check_place(point, block, thread)
    report = check_point(point, seed=seed, trace_block=block)
    assert report.trace is not None
    inputs = make_inputs(point.problem, exact(point.spec.product), seed, "whole")
    found = walk(point, thread, from_trace(report.trace), inputs.a, inputs.b)
    return replace(found, faults=sum(each.severity == "error" for each in report.findings))
