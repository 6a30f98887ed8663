"""What a check and a profile found, to what a terminal shows and to JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mmbench.check.kinds import KINDS
from mmbench.check.report import AccessCount, Finding, KernelFinding, KernelReport, PointReport
from mmbench.profiling import ProfileRow
from mmbench.spec import Point

_STYLES = {"error": "bold red", "note": "yellow"}
_RESULT = "C against A * B exactly, for small whole numbers (run tries real ones too)"
_CPU_CHECKED = (
    "races in shared and global memory, accesses outside matrices and shared arrays, "
    "uninitialised reads, barriers that not all threads reach, misaligned vectors, C never "
    f"written, A and B changed, and {_RESULT}"
)
_GPU_CHECKED = f"compute-sanitizer's memcheck, racecheck, initcheck and synccheck, and {_RESULT}"


def report(found: KernelReport, runner: str) -> RenderableType:
    """The findings of a kernel, or a clean bill that says what was checked; then the counts."""
    how = "on the GPU under compute-sanitizer" if runner == "cuda" else "by the checked CPU build"
    title = Text(found.spec.name, "bold").append(f", checked {how}", "not bold")
    parts: list[RenderableType] = [title]
    parts += [_indented(Text(line)) for line in _sizes(found.reports)]
    for merged in found.findings:
        parts += [Text(), *_finding(merged, len(found.reports))]
    wrong = [each for each in found.reports if each.verdict_message]
    for each in wrong[:1]:
        at = f"{_shape(each.point)} ({len(wrong)} of {len(found.reports)} points)"
        parts += [Text(), Text("wrong result", "bold red").append(f" at {at}", "not bold default")]
        parts.append(_indented(Text(each.verdict_message)))
    if found.ok:
        checked = _GPU_CHECKED if runner == "cuda" else _CPU_CHECKED
        clean = Text("no fault found", "bold green")
        parts += [Text(), clean.append(f". Checked: {checked}.", "not bold default")]
    if runner != "cuda":
        parts += [Text(), counts(max(found.reports, key=_accesses))]
    return Group(*parts)


def _sizes(reports: Sequence[PointReport]) -> list[str]:
    """The sizes that were checked, a line for each tile."""
    lines = []
    for tile in dict.fromkeys(each.point.tile for each in reports):
        problems = [each.point.problem for each in reports if each.point.tile == tile]
        sizes = [str(p.n) if p.square else f"{p.m}x{p.n}x{p.k}" for p in problems]
        lines.append(f"{'' if tile is None else f'tile {tile}, '}N or MxNxK: {', '.join(sizes)}")
    return lines


def _shape(point: Point) -> str:
    problem = point.problem
    shape = f"N={problem.n}" if problem.square else f"{problem.m}x{problem.n}x{problem.k}"
    return shape if point.tile is None else f"{shape} tile={point.tile}"


def _accesses(each: PointReport) -> int:
    return sum(count.accesses for count in each.counts)


def _finding(merged: KernelFinding, points: int) -> list[RenderableType]:
    """Kind and place, the source line, the sentence, and how to mend it."""
    finding = merged.finding
    head = Text(finding.kind, _STYLES[finding.severity])
    head.append(f"  {finding.path}:{finding.line}", "not bold default")
    if finding.column:
        head.append(f":{finding.column}", "not bold default")
    seen = _shape(merged.point)
    if points > 1:
        seen += f"; {merged.points} of {points} points"
    head.append(f"  ({seen})", "not bold dim default")
    lines: list[RenderableType] = [head]
    if finding.source_line:
        lines.append(Text(f"  {finding.line:>4} | {finding.source_line}", "cyan"))
    lines.append(_indented(Text(finding.message)))
    if finding.hint:
        lines.append(_indented(Text(f"mend: {finding.hint}", "dim")))
    return lines


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))


def counts(each: PointReport) -> RenderableType:
    """A line for each line of the source that accesses memory."""
    table = Table(box=None, pad_edge=False)
    for name, left in (
        ("line", False), ("variable", True), ("", True), ("accesses", False), ("requests", False),
        ("sectors/request", False), ("wavefronts/request", False),
    ):  # fmt: skip
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for count in each.counts:
        table.add_row(
            str(count.line),
            count.variable,
            count.op,
            f"{count.accesses:,}",
            f"{count.requests:,}",
            _ratio(count.sectors, count.ideal_sectors, count.requests),
            _ratio(count.wavefronts, count.ideal_wavefronts, count.requests),
        )
    title = Text(f"memory accesses at {_shape(each.point)}, as written in the source", "bold")
    note = Text("(ideal) in brackets where a line needs more; nvcc may merge loads.", "dim")
    return Group(title, table, note)


def _ratio(taken: int, ideal: int, requests: int) -> Text:
    """Taken a request, with the ideal behind it where that is less."""
    if not taken or not requests:
        return Text()
    text = Text(f"{taken / requests:.2f}")
    if taken > ideal:
        text.stylize("yellow")
        text.append(f" ({ideal / requests:.2f})")
    return text


def as_json(found: KernelReport) -> dict[str, Any]:
    """A report as one value for json.dumps."""
    return {
        "kernel": found.spec.name,
        "file": str(found.spec.path),
        "ok": found.ok,
        "findings": [_finding_json(merged) for merged in found.findings],
        "points": [
            {
                "m": each.point.problem.m,
                "n": each.point.problem.n,
                "k": each.point.problem.k,
                "params": dict(each.point.params),
                "wrong": each.verdict_message,
                "counts": [_count_json(count) for count in each.counts],
            }
            for each in found.reports
        ],
    }


def _finding_json(merged: KernelFinding) -> dict[str, Any]:
    finding: Finding = merged.finding
    cells = dataclasses.asdict(finding)
    return {
        **cells,
        "severity": finding.severity,
        "explanation": KINDS[finding.kind].explanation,
        "points": merged.points,
    }


def _count_json(count: AccessCount) -> dict[str, Any]:
    return {**dataclasses.asdict(count), "bytes": count.bytes}


def profile(point: Point, rows: Sequence[ProfileRow]) -> RenderableType:
    """Model, counted and measured beside each other."""
    table = Table(box=None, pad_edge=False)
    for name in ("", "unit", "model", "counted", "measured"):
        left = name in ("", "unit")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        cells = (row.model, row.counted, row.measured)
        table.add_row(
            row.name, row.unit, *("" if cell is None else f"{cell:,.0f}" for cell in cells)
        )
    return Group(
        Text(f"{point.spec.name} at {_shape(point)}", "bold"),
        table,
        Text(
            "model: the header's traffic, or each element once (DRAM). counted: the checked "
            "build, as written in the source. measured: the GPU's counters (ncu).",
            "dim",
        ),
    )
