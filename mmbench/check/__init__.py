"""The checked build: why a kernel is wrong, and what every line of it moves, with no GPU.

``check_point`` and ``check_kernel`` are all that others need; ``report`` is what they return.
"""

from __future__ import annotations

from mmbench.check.checker import check_kernel, check_point
from mmbench.check.points import choose_points
from mmbench.check.report import (
    AccessCount,
    Finding,
    KernelFinding,
    KernelReport,
    PointReport,
    Trace,
    TracedAccess,
)
from mmbench.check.unsupported import UnsupportedError

__all__ = [
    "AccessCount",
    "Finding",
    "KernelFinding",
    "KernelReport",
    "PointReport",
    "Trace",
    "TracedAccess",
    "UnsupportedError",
    "check_kernel",
    "check_point",
    "choose_points",
]
