"""The same findings from a GPU: NVIDIA's compute-sanitizer around one launch.

Its four tools are run one after the other, and each of their records becomes a Finding with
the kind that the checked build would give it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from mmbench.check.consequences import over_points
from mmbench.check.kinds import KINDS
from mmbench.check.report import Finding, KernelReport, PointReport
from mmbench.errors import KernelTimeoutError, RunnerUnavailableError
from mmbench.once import command_words
from mmbench.runners import find_tool
from mmbench.runners.nvcc import folders
from mmbench.spec import Dim3, KernelSpec, Point

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

_PREFIX = re.compile(r"^=========( |$)")
_PLACE = re.compile(r" in (?P<file>[^\s:]+):(?P<line>\d+)")
_THREAD = re.compile(r"by thread \((?P<thread>[\d,]+)\) in block \((?P<block>[\d,]+)\)")
_INVALID = re.compile(r"Invalid __(?P<space>\w+)__ (?P<op>\w+) of size (?P<size>\d+) bytes")
_BEYOND = re.compile(r"is ([\d,]+) bytes (before|after) the nearest allocation .* of size ([\d,]+)")
_HAZARD = re.compile(
    r"(?P<warp>\(Warp Level Programming\) )?Potential (?P<order>RAW|WAR|WAW) hazard detected at "
    r"__shared__ 0x(?P<address>[0-9a-f]+) in block \((?P<block>[\d,]+)\)"
)
_RACER = re.compile(
    r"(?P<op>Write|Read) Thread \((?P<thread>[\d,]+)\) at .* in [^\s:]+:(?P<line>\d+)"
)
_UNREAD = re.compile(r"Uninitialized __(?P<space>\w+)__ memory read of size (?P<size>\d+)")
_BARRIER = re.compile(r"Barrier error detected\. (?P<what>.*)")


def check_kernel_on_gpu(spec: KernelSpec, points: Sequence[Point], timeout: float) -> KernelReport:
    """Check a kernel at each of these points on the GPU."""
    reports = tuple(check_point_on_gpu(point, timeout=timeout) for point in points)
    return KernelReport(spec, reports, over_points(reports))


def check_point_on_gpu(
    point: Point, tools: Sequence[str] = TOOLS, timeout: float = 120.0
) -> PointReport:
    """Launch the point under each tool, and merge what they report."""
    merged: dict[tuple[object, ...], Finding] = {}
    wrong = ""
    for tool in tools:
        text, right = _run(tool, point, timeout)
        wrong = "" if right else "C is not A * B on the GPU"
        for finding in read_findings(text, point):
            key = (finding.kind, finding.line, finding.other_line)
            merged.setdefault(key, finding)
    return PointReport(point, tuple(merged.values()), (), wrong, 0.0, 0.0)


def _run(tool: str, point: Point, timeout: float) -> tuple[str, bool]:
    """What the tool prints, and whether C came out right under it."""
    path = find_tool("compute-sanitizer", *folders())
    if path is None:
        raise RunnerUnavailableError(
            "compute-sanitizer not found; it comes with the CUDA toolkit: add its folder to PATH"
        )
    options = ["--tool", tool, "--print-limit", "1000"]
    if tool == "racecheck":
        options += ["--racecheck-report", "hazard"]
    command = [path, *options, sys.executable, *command_words(point)]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise KernelTimeoutError(
            f"no result after {timeout:g} s under compute-sanitizer {tool}; use a smaller --n"
        ) from None
    if "Device not supported" in answer.stdout:
        raise RunnerUnavailableError("compute-sanitizer does not support this device")
    return answer.stdout, answer.returncode == 0


def read_findings(text: str, point: Point) -> Iterator[Finding]:
    """The findings in the text of any of the tools."""
    for record in _records(text):
        finding = (
            _invalid_access(record, point)
            or _hazard(record, point)
            or _uninitialised(record, point)
            or _barrier(record, point)
        )
        if finding is not None:
            yield finding


def _records(text: str) -> Iterator[str]:
    """Each record: the lines between two that hold the prefix alone, prefixes removed."""
    record: list[str] = []
    for line in text.splitlines():
        if not _PREFIX.match(line):
            continue
        words = line[len("=========") :].strip()
        if words == "COMPUTE-SANITIZER":  # the banner, with no line between it and the first
            continue
        if words:
            record.append(words)
        elif record:
            yield "\n".join(record)
            record = []
    if record:
        yield "\n".join(record)


def _dim3(text: str) -> Dim3:
    x, y, z = (int(part) for part in text.split(","))
    return x, y, z


def _finding(kind: str, message: str, point: Point, line: int, **more: object) -> Finding:
    lines = point.spec.source.splitlines()
    source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    hint = "" if "{" in KINDS[kind].hint else KINDS[kind].hint
    return Finding(
        kind=kind, message=message, line=line, source_line=source, path=str(point.spec.path),
        hint=hint, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _where(record: str) -> tuple[int, Dim3 | None, Dim3 | None]:
    place, thread = _PLACE.search(record), _THREAD.search(record)
    line = int(place["line"]) if place else 0
    if thread is None:
        return line, None, None
    return line, _dim3(thread["thread"]), _dim3(thread["block"])


def _invalid_access(record: str, point: Point) -> Finding | None:
    match = _INVALID.match(record)
    if match is None:
        return None
    line, thread, block = _where(record)
    verb = "reads" if match["op"] == "read" else "writes"
    what = (
        f"thread {thread} of block {block} {verb} {match['size']} bytes of {match['space']} memory"
    )
    if "misaligned" in record:
        kind, rest = "misaligned-access", f"at an address that is no multiple of {match['size']}"
    elif match["space"] == "shared":
        kind, rest = "shared-out-of-bounds", "outside the block's arrays"
    else:
        kind = "out-of-bounds-read" if verb == "reads" else "out-of-bounds-write"
        beyond = _BEYOND.search(record)
        rest = "outside every matrix"
        if beyond:
            rest = f"{beyond[1]} bytes {beyond[2]} the nearest matrix, which has {beyond[3]} bytes"
    return _finding(kind, f"{what}, {rest}", point, line, thread=thread, block=block)


def _hazard(record: str, point: Point) -> Finding | None:
    match = _HAZARD.search(record.split("\n")[0])
    racers = [r for line in record.split("\n") if (r := _RACER.match(line))]
    if match is None or len(racers) < 2:
        return None
    first, second = racers[:2]
    kind, barrier = (
        ("warp-race", "__syncwarp()") if match["warp"] else ("shared-race", "__syncthreads()")
    )
    verbs = {"Write": "writes", "Read": "reads"}
    message = (
        f"thread ({first['thread']}) {verbs[first['op']]} shared address 0x{match['address']} here "
        f"and thread ({second['thread']}) {verbs[second['op']]} it in line {second['line']}: "
        f"a {barrier} is missing between them"
    )
    block = _dim3(match["block"])
    return _finding(
        kind, message, point, int(first["line"]), thread=_dim3(first["thread"]), block=block,
        other_line=int(second["line"]), other_thread=_dim3(second["thread"]), other_block=block,
    )  # fmt: skip


def _uninitialised(record: str, point: Point) -> Finding | None:
    match = _UNREAD.match(record)
    if match is None:
        return None
    line, thread, block = _where(record)
    shared = match["space"] == "shared"
    kind = "uninitialised-shared" if shared else "c-read-before-written"
    message = (
        f"thread {thread} of block {block} reads {match['size']} bytes of {match['space']} memory "
        "that nothing has written"
    )
    return _finding(kind, message, point, line, thread=thread, block=block)


def _barrier(record: str, point: Point) -> Finding | None:
    match = _BARRIER.match(record)
    if match is None:
        return None
    line, thread, block = _where(record)
    what = match["what"].strip().rstrip(".").lower()
    message = f"not all threads of block {block} reach this barrier ({what}); thread {thread} waits"
    return _finding("barrier-divergence", message, point, line, thread=thread, block=block)
