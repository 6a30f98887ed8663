"""What compute-sanitizer prints becomes the findings that the checked build would give."""

from __future__ import annotations

import pytest

from mmbench import axes, kernels
from mmbench.check.report import Finding
from mmbench.check.sanitizer import read_findings
from mmbench.spec import Point

READ = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at matmul(const float *, float *, int)+0x2f0 in mine.cu:25
=========     by thread (0,1,0) in block (2,3,0)
=========     Access to 0x7f59a1a01104 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f59a1a00000 of size 4,356 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch in cuda.py:352
========= 
"""  # noqa: W291
WRITE = READ.replace("read", "write").replace("mine.cu:25", "mine.cu:33")
SHARED = """\
========= Invalid __shared__ read of size 4 bytes
=========     at matmul(float *)+0x20 in mine.cu:30
=========     by thread (1,2,0) in block (0,0,0)
=========     Access to 0x804 is out of bounds
========= 
"""  # noqa: W291
MISALIGNED = """\
========= Invalid __global__ read of size 16 bytes
=========     at matmul(float *)+0x20 in mine.cu:31
=========     by thread (1,2,0) in block (0,0,0)
=========     Access to 0x7f59a1a01104 is misaligned
========= 
"""  # noqa: W291
HAZARD = """\
========= Error: Potential RAW hazard detected at __shared__ 0x800 in block (1,1,0) :
=========     Write Thread (0,0,0) at matmul(float *, float *, float *, int)+0x390 in mine.cu:26
=========     Read Thread (0,13,0) at matmul(float *, float *, float *, int)+0x3a0 in mine.cu:30
=========     Current Value : 0
========= 
"""  # noqa: W291
WARP = HAZARD.replace("Error: ", "Warning: (Warp Level Programming) ")
UNREAD = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at matmul(float *)+0x20 in mine.cu:12
=========     by thread (4,0,0) in block (0,0,0)
========= 
"""  # noqa: W291
BARRIER = """\
========= Barrier error detected. Divergent thread(s) in warp.
=========     at matmul(float *)+0x390 in mine.cu:27
=========     by thread (0,4,0) in block (2,1,0)
========= 
"""  # noqa: W291


@pytest.fixture
def point() -> Point:
    return axes.points([kernels.get("tiled")], axes.problems([32]), [16])[0]


def only(text: str, point: Point) -> Finding:
    (finding,) = read_findings(text, point)
    return finding


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (READ, "out-of-bounds-read", 25),
        (WRITE, "out-of-bounds-write", 33),
        (SHARED, "shared-out-of-bounds", 30),
        (MISALIGNED, "misaligned-access", 31),
        (HAZARD, "shared-race", 26),
        (WARP, "warp-race", 26),
        (UNREAD, "c-read-before-written", 12),
        (BARRIER, "barrier-divergence", 27),
    ],
)
def test_kind_and_line(text: str, kind: str, line: int, point: Point) -> None:
    finding = only(text, point)
    assert (finding.kind, finding.line) == (kind, line)
    assert finding.message


def test_an_access_names_its_thread_and_block_and_how_far_it_is_off(point: Point) -> None:
    finding = only(READ, point)
    assert (finding.thread, finding.block) == ((0, 1, 0), (2, 3, 0))
    assert "1 bytes after the nearest matrix, which has 4,356 bytes" in finding.message


def test_a_race_names_both_lines_and_threads_and_the_barrier(point: Point) -> None:
    finding = only(HAZARD, point)
    assert (finding.line, finding.other_line) == (26, 30)
    assert (finding.thread, finding.other_thread) == ((0, 0, 0), (0, 13, 0))
    assert "__syncthreads()" in finding.message
    assert "__syncwarp()" in only(WARP, point).message


def test_the_source_line_comes_from_the_users_file(point: Point) -> None:
    line = 1 + next(
        i
        for i, text in enumerate(point.spec.source.splitlines())
        if text.strip().startswith("sA[ty][tx] =")
    )
    finding = only(READ.replace("mine.cu:25", f"mine.cu:{line}"), point)
    assert finding.source_line.startswith("sA[ty][tx] =")


def test_every_record_is_read_and_other_lines_are_not(point: Point) -> None:
    text = f"a kernel's own output\n{READ}{WRITE}{HAZARD}real 0m2.8s\n{BARRIER}"
    text += "========= ERROR SUMMARY: 4 errors\n"
    assert len(list(read_findings(text, point))) == 4


def test_nothing_to_report(point: Point) -> None:
    text = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    assert list(read_findings(text, point)) == []
