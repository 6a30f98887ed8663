"""The ladder from the first kernel to the last: what each rung gains over the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmbench.compare import reason
from mmbench.results import Row
from mmbench.spec import KernelSpec


@dataclass(frozen=True)
class Rung:
    """A kernel at its best parameters. ``gain`` is its speed over that of the rung it is after."""

    spec: KernelSpec
    row: Row
    gain: float | None
    reason: str


def climb(specs: Sequence[KernelSpec], rows: Sequence[Row]) -> list[Rung]:
    """The rungs in the order of ``specs``, each kernel by its fastest right row.

    A kernel without a right row stands there with what became of it, and gains nothing.
    """
    best = {spec.name: _best([row for row in rows if row.kernel == spec.name]) for spec in specs}
    found = []
    for spec in specs:
        row, before = best[spec.name], best.get(spec.after or "")
        if row is None:
            continue
        gain, why = None, ""
        if before is not None and before.gflops and row.gflops:
            gain, why = row.gflops / before.gflops, _one(reason(before, row), spec)
        found.append(Rung(spec, row, gain, why))
    return found


def _one(reasons: str, spec: KernelSpec) -> str:
    """That fewer bytes are requested, where it is so; else the kernel's idea in its own words."""
    parts = [part for part in reasons.split("; ") if " requests " in part]
    return parts[0].partition(" ")[2] if parts else spec.summary


def _best(rows: Sequence[Row]) -> Row | None:
    right = [row for row in rows if row.status == "ok" and row.plausible]
    if right:
        return max(right, key=lambda row: row.gflops or 0.0)
    return rows[0] if rows else None
