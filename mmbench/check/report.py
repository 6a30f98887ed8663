"""What a check found: frozen values for whoever shows, stores or compares them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from mmbench.check.kinds import KINDS, Severity
from mmbench.spec import Dim3, KernelSpec, Point

Space = Literal["global", "shared"]
Op = Literal["load", "store", "atomic"]
OPS: tuple[Op, ...] = ("load", "store", "atomic")  # as simt/checked.h numbers them


@dataclass(frozen=True)
class Finding:
    """One fault, or one note, at one place of the source; ``count`` is how often it was met.

    Of two accesses that race, ``line`` is that of the earlier one in the program's order.
    """

    kind: str
    message: str
    line: int = 0
    column: int = 0
    source_line: str = ""
    path: str = ""
    thread: Dim3 | None = None
    block: Dim3 | None = None
    other_line: int = 0
    other_thread: Dim3 | None = None
    other_block: Dim3 | None = None
    variable: str = ""
    count: int = 1
    hint: str = ""

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity

    @property
    def explanation(self) -> str:
        return KINDS[self.kind].explanation

    @property
    def array(self) -> str:
        """The variable without its index."""
        return self.variable.partition("[")[0]


@dataclass(frozen=True)
class AccessCount:
    """Accesses of one line to one variable, as written in the source, and what warps make of them.

    ``requests`` are the accesses of warps. ``sectors`` (global memory) are the 32-byte pieces
    that these requests touch, ``ideal_sectors`` the fewest that could hold the same bytes.
    ``wavefronts`` (shared memory) exceed ``ideal_wavefronts`` where banks conflict.
    """

    space: Space
    variable: str
    op: Op
    line: int
    column: int
    bytes_each: int
    accesses: int
    requests: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int
    worst_conflict: int

    @property
    def bytes(self) -> int:
        return self.accesses * self.bytes_each


@dataclass(frozen=True, slots=True)
class TracedAccess:
    """One access to one element: ``epoch`` counts the barriers that the block has passed."""

    thread: Dim3
    epoch: int
    line: int
    space: Space
    op: Op
    variable: str
    index: int
    before: float
    after: float


@dataclass(frozen=True)
class Trace:
    """All accesses of one block in the order in which they ran: thread by thread up to each
    barrier. ``total`` exceeds the number held where there were too many.
    """

    block: Dim3
    total: int
    rows: npt.NDArray[np.void] = field(repr=False)
    lines: dict[int, int] = field(repr=False)
    names: dict[int, str] = field(repr=False)
    shapes: dict[str, tuple[int, ...]] = field(repr=False)
    extent: Dim3 = (1, 1, 1)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TracedAccess]:
        for row in self.rows.tolist():
            thread, epoch, site, buffer, op, _, element, before, after = row
            space: Space = "shared" if buffer >= 16 else "global"
            yield TracedAccess(
                unflatten(thread, self.extent), epoch, self.lines[site], space, OPS[op],
                self.names[buffer], element, before, after,
            )  # fmt: skip


@dataclass(frozen=True)
class PointReport:
    """All that one run of one point showed."""

    point: Point
    findings: tuple[Finding, ...]
    counts: tuple[AccessCount, ...]
    verdict_message: str
    seconds_compile: float
    seconds_run: float
    trace: Trace | None = None

    @property
    def ok(self) -> bool:
        """No fault, notes aside, and C is right."""
        errors = any(finding.severity == "error" for finding in self.findings)
        return not errors and not self.verdict_message

    def elements(self, variable: str, op: str) -> int:
        """Elements of a matrix that were loaded or stored, a vector counting as its parts."""
        size = self.point.spec.product.bytes_of(variable)
        return sum(
            count.bytes // size
            for count in self.counts
            if count.space == "global" and count.variable == variable and count.op == op
        )


@dataclass(frozen=True)
class KernelFinding:
    """A finding, the smallest point that shows it, and at how many points it was met."""

    finding: Finding
    point: Point
    points: int


@dataclass(frozen=True)
class KernelReport:
    """A kernel checked at several points."""

    spec: KernelSpec
    reports: tuple[PointReport, ...]
    findings: tuple[KernelFinding, ...]

    @property
    def ok(self) -> bool:
        return all(report.ok for report in self.reports)


def unflatten(number: int, extent: Dim3) -> Dim3:
    """The (x, y, z) index with this number, x running fastest."""
    x, y, _ = extent
    return number % x, number // x % y, number // (x * y)
