"""What is known of one block's run: its accesses to memory, in the order in which they ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mmbench.errors import UsageError
from mmbench.spec import Dim3

if TYPE_CHECKING:
    from mmbench.check.report import Trace


@dataclass(frozen=True, slots=True)
class Event:
    """One access of one thread to one element.

    ``epoch`` counts the barriers that the block has passed. ``value`` is what was loaded or
    stored; of an atomic it is what was added.
    """

    thread: Dim3
    epoch: int
    line: int
    space: Literal["global", "shared"]
    op: Literal["load", "store", "atomic"]
    variable: str
    index: int
    value: float

    @property
    def writes(self) -> bool:
        return self.op != "load"


@dataclass(frozen=True)
class Recording:
    """All accesses of one block. ``shapes`` holds the shapes of its shared arrays, where known."""

    block: Dim3
    events: tuple[Event, ...] = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def from_trace(trace: Trace) -> Recording:
    """The recording that the checked build made of a block."""
    if trace.total > len(trace):
        raise UsageError(
            f"the block makes {trace.total:,} accesses to memory, and only {len(trace):,} of them "
            "can be recorded; choose a smaller problem"
        )
    events = tuple(
        Event(
            access.thread, access.epoch, access.line, access.space,
            "atomic" if access.op == "atomic" else "store" if access.op == "store" else "load",
            access.variable, access.index,
            access.after - access.before if access.op == "atomic" else access.after,
        )
        for access in trace
    )  # fmt: skip
    return Recording(trace.block, events, dict(trace.shapes))
