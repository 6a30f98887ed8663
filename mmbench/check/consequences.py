"""Which findings are faults, which merely follow from others, and which are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mmbench.check.report import Finding, KernelFinding, PointReport

_RACES = {"shared-race", "shared-store-race", "warp-race"}
_OUT_OF_STEP = {"barrier-divergence", "barrier-after-exit"}
# Once threads are out of step at barriers, these follow, whatever else is right.
_FOLLOW_OUT_OF_STEP = {*_RACES, "uninitialised-shared", "stale-shared", "nan-result"}
_ABOUT_THE_RESULT = {"wrong-result", "nan-result"}


def in_light_of(
    rows: Iterable[dict[str, Any]], reads_count: bool, is_input: bool
) -> list[dict[str, Any]]:
    """The runtime's findings, called what they are once C has been compared.

    A read of an unwritten C is harmless where it makes no difference to C, and what it should be
    where C is an input. Where a __syncthreads() is missing, the races within warps are of the
    same cause.
    """
    rows = [row for row in rows if not (is_input and row["kind"] == "c-read-before-written")]
    kinds = {row["kind"] for row in rows}
    names = {}
    if not reads_count:
        names["c-read-before-written"] = "c-read-unused"
    if "shared-race" in kinds:
        names["warp-race"] = "shared-race"
    return [{**row, "kind": names.get(row["kind"], row["kind"])} for row in rows]


def settle(found: Sequence[Finding], wrong: bool) -> tuple[Finding, ...]:
    """The findings that stand, the same once, in order of the source."""
    return _merged([finding for finding in found if not _follows(finding, found, wrong)])


def _follows(finding: Finding, others: Sequence[Finding], wrong: bool) -> bool:
    kinds = {other.kind for other in others}
    if kinds & _OUT_OF_STEP and finding.kind in _FOLLOW_OUT_OF_STEP:
        return True
    if finding.kind == "uninitialised-shared":
        return any(other.kind in _RACES and other.array == finding.array for other in others)
    if finding.kind == "stale-shared":
        causes = (o for o in others if o.severity == "error" and o.kind not in _ABOUT_THE_RESULT)
        return not wrong or any(causes)
    return False


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.kind, finding.path, finding.line, finding.other_line, finding.array


def _merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = _key(finding)
        if key in merged:
            merged[key] = replace(merged[key], count=merged[key].count + finding.count)
        else:
            merged[key] = finding
    order = sorted(merged.values(), key=lambda f: (f.severity, f.path, f.line, f.other_line))
    return tuple(order)


def over_points(reports: Sequence[PointReport]) -> tuple[KernelFinding, ...]:
    """Each finding once, with the smallest point that shows it."""
    found: dict[tuple[object, ...], KernelFinding] = {}
    for report in sorted(reports, key=_size):
        for finding in report.findings:
            key = _key(finding)
            if key in found:
                found[key] = replace(found[key], points=found[key].points + 1)
            else:
                found[key] = KernelFinding(finding, report.point, 1)
    block_races = {
        (key[2], key[3]) for key, each in found.items() if each.finding.kind == "shared-race"
    }
    stands = [
        each
        for each in found.values()
        if each.finding.kind != "warp-race"
        or (each.finding.line, each.finding.other_line) not in block_races
    ]
    return tuple(sorted(stands, key=lambda each: (each.finding.severity, each.finding.line)))


def _size(report: PointReport) -> int:
    problem = report.point.problem
    return problem.m * problem.n * problem.k
