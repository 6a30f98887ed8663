"""Comparisons as a text for a pull request, and as data for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mmbench.table import duration, number

if TYPE_CHECKING:  # it loads pandas
    from mmbench.compare import Comparison, FileComparison
    from mmbench.results import Row

_MARKS = {"faster": "🟢 faster", "slower": "🔴 slower", "same": "same", "unclear": "unclear"}


def to_markdown(
    found: Sequence[Comparison], mean: float | None, files: FileComparison | None = None
) -> str:
    """A table in GitHub's Markdown, a line for each comparison; of ``files`` what only one has."""
    margin = next((each.ratio.margin for each in found if each.ratio), 0.0)
    lines = [
        "| kernel | against | M x N x K | parameters | time | was | speed-up (95 % interval) "
        "| verdict |",
        "|---|---|---|---|---:|---:|---|---|",
        *map(_line, found),
        "",
    ]
    if mean is not None:
        lines.append(f"Geometric mean of the speed-ups: **{mean:.3f}**. ")
    lines.append(f"Same means within {margin * 100:g} %. {_surroundings(found)}")
    if files is not None:
        lines += _missing("old", files.only_old) + _missing("new", files.only_new)
    return "\n".join(lines)


def _missing(which: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    names = (f"`{row.kernel}` {row.m} x {row.n} x {row.k} {row.params}".strip() for row in rows)
    return ["", f"Only in the {which} file: {', '.join(names)}."]


def _line(each: Comparison) -> str:
    base, other, ratio = each.baseline, each.other, each.ratio
    cells = [
        f"`{other.kernel}`",
        f"`{base.kernel}`" if base.kernel != other.kernel else "before",
        f"{other.m} x {other.n} x {other.k}",
        other.params or "",
        duration(other.time_ms_median),
        duration(base.time_ms_median),
    ]
    if ratio is None:
        cells += ["", f"{base.status} → {other.status}"]
    else:
        interval = "" if ratio.low is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
        cells += [f"{ratio.value:.3f}{interval}", _MARKS[ratio.verdict]]
    return "| " + " | ".join(cells) + " |"


def _surroundings(found: Sequence[Comparison]) -> str:
    """Where, when and how it was measured."""
    rows = [each.other for each in found if each.other.status == "ok"]
    if not rows:
        return ""
    row = rows[0]
    kind = f"{row.cache} L2" if row.runner == "cuda" else "host times, not a GPU's"
    driver = f", driver {row.driver}" if row.driver else ""
    clock = f", SM clock {number(row.sm_clock_mhz, 4)} MHz" if row.sm_clock_mhz else ""
    several = f", {row.processes} processes" if (row.processes or 1) > 1 else ""
    return (
        f"{row.device}{driver}, {row.compiler}, {kind}{clock}{several}; "
        f"mmbench {row.mmbench_version}, {row.timestamp}."
    )


def to_json(
    found: Sequence[Comparison], mean: float | None, files: FileComparison | None = None
) -> dict[str, Any]:
    """All of each comparison: both rows, the ratio of their times and the verdict.

    Of two ``files`` also the rows that only one of them has.
    """
    alone = {} if files is None else {"only_old": files.only_old, "only_new": files.only_new}
    return {
        "geometric_mean": mean,
        **{name: [asdict(row) for row in rows] for name, rows in alone.items()},
        "comparisons": [
            {
                "baseline": asdict(each.baseline),
                "other": asdict(each.other),
                "speedup": None if each.ratio is None else each.ratio.value,
                "low": None if each.ratio is None else each.ratio.low,
                "high": None if each.ratio is None else each.ratio.high,
                "margin": None if each.ratio is None else each.ratio.margin,
                "verdict": None if each.ratio is None else each.ratio.verdict,
                "reason": each.reason,
            }
            for each in found
        ],
    }
