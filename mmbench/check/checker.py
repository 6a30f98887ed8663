"""Checks points and kernels: build, run, explain. Knows no output and no command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mmbench import cache
from mmbench.check.build import build_kernel, build_runtime
from mmbench.check.comparison import Comparison
from mmbench.check.consequences import in_light_of, over_points, settle
from mmbench.check.debuginfo import read_debug_info
from mmbench.check.findings import FindingMaker, make_counts
from mmbench.check.launch import Libraries, RawRun, buffer_names, run_checked
from mmbench.check.places import SHARED_BUFFER, Places
from mmbench.check.points import choose_points, refuse_unfit
from mmbench.check.report import KernelReport, PointReport, Trace
from mmbench.check.unsupported import refuse_unsupported
from mmbench.inputs import Inputs, exact, make_inputs
from mmbench.runners import host_compiler
from mmbench.runners.host_compiler import HostCompiler
from mmbench.spec import Dim3, KernelSpec, Point


def check_point(
    point: Point,
    *,
    seed: int = 0,
    timeout: float = 60.0,
    trace_block: Dim3 | None = None,
    compiler: HostCompiler | None = None,
) -> PointReport:
    """Run one point under all checks.

    ``trace_block`` asks for all accesses of that block as well. Raise UnsupportedError,
    UnfitError, CompileError, KernelTimeoutError, CrashError or LaunchError where there is no
    report.
    """
    return _check_points([point], seed, timeout, trace_block, compiler)[0]


def check_kernel(
    spec: KernelSpec,
    points: Sequence[Point] | None = None,
    *,
    seed: int = 0,
    timeout: float = 60.0,
    compiler: HostCompiler | None = None,
) -> KernelReport:
    """Check a kernel at several points, by default those of ``choose_points``."""
    chosen = list(points) if points is not None else choose_points(spec)
    alike: dict[tuple[str, ...], list[Point]] = {}
    for point in chosen:
        alike.setdefault(point.defines, []).append(point)
    workers = len(os.sched_getaffinity(0))
    parts = [group[i::workers] for group in alike.values() for i in range(workers) if group[i:]]
    for group in alike.values():
        _build(group[0], compiler)  # once, before its parts share it
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(_check_points, part, seed, timeout, None, compiler) for part in parts
        ]
        try:
            made = {str(report.point): report for each in futures for report in each.result()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # an endless kernel costs one time-out
            raise
    reports = tuple(made[str(point)] for point in chosen)
    return KernelReport(spec, reports, over_points(reports))


def _check_points(
    points: Sequence[Point],
    seed: int,
    timeout: float,
    trace_block: Dim3 | None,
    compiler: HostCompiler | None,
) -> list[PointReport]:
    """Check points that have all parameters in common, and so one library."""
    for point in points:
        refuse_unfit(point)
    libraries, seconds = _build(points[0], compiler)
    refuse_unfit(points[0], libraries.info.static_shared_bytes)
    inputs = [make_inputs(p.problem, exact(p.spec.product), seed, "whole") for p in points]
    raws = run_checked(points, libraries, inputs, timeout, trace_block)
    return [
        _report(Places(point, raw.launch, libraries.info), raw, data, seconds, trace_block)
        for point, raw, data in zip(points, raws, inputs, strict=True)
    ]


def _report(
    places: Places, raw: RawRun, inputs: Inputs, seconds: float, trace_block: Dim3 | None
) -> PointReport:
    maker = FindingMaker(raw, places)
    comparison = Comparison(raw, inputs, maker)
    wrong = bool(comparison.message)
    # A kernel that takes beta reads C as it should; 0 of it is then what C is to count for.
    takes_beta = "beta" in places.point.spec.factors
    reads_count = wrong and (not takes_beta or comparison.adds_what_c_held)
    rows = in_light_of(raw.findings, reads_count, inputs.product.beta != 0)
    found = list(maker.from_runtime(rows))
    found += comparison.findings(found)
    return PointReport(
        point=places.point,
        findings=settle(found, wrong),
        counts=make_counts(raw, places),
        verdict_message=comparison.message,
        seconds_compile=seconds,
        seconds_run=raw.seconds,
        trace=None if trace_block is None else _trace(raw, places, trace_block),
    )


def _build(point: Point, chosen: HostCompiler | None) -> tuple[Libraries, float]:
    spec = point.spec
    headers = cache.local_headers(spec.source, spec.folders)
    refuse_unsupported(spec.path, spec.source, spec.entry, headers)
    compiler = chosen or host_compiler.find()
    kernel, seconds = build_kernel(point, compiler)
    return Libraries(kernel, build_runtime(compiler), read_debug_info(kernel)), seconds


def _trace(raw: RawRun, places: Places, block: Dim3) -> Trace:
    assert raw.traced is not None
    sites = {int(site) for site in set(raw.traced["site"].tolist())}
    names = dict(enumerate(buffer_names(places.point)))
    arrays = places.info.arrays
    names |= {SHARED_BUFFER + i: array.name for i, array in enumerate(arrays)}
    shapes: dict[str, tuple[int, ...]] = {array.name: array.shape for array in arrays}
    shapes |= {name: places.shape(name) for name in ("A", "B", "C")}
    return Trace(
        block=block,
        total=raw.traced_total,
        rows=raw.traced,
        lines={site: places.site(site).line for site in sites},
        names=names,
        shapes=shapes,
        extent=raw.launch.block,
    )
