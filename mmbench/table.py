"""Rows to what a terminal shows. All formatting of numbers is here; nothing is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from mmbench.best import Best
from mmbench.device import Device
from mmbench.results import Row

if TYPE_CHECKING:  # it loads pandas, which most tables need not wait for
    from mmbench.compare import Comparison, FileComparison
    from mmbench.product import Problem
    from mmbench.rungs import Rung
    from mmbench.spec import KernelSpec
    from mmbench.tuning import Winner

_STATUS_STYLE = {
    "ok": "green", "wrong": "bold red", "failed": "red", "timeout": "red", "skipped": "yellow",
}  # fmt: skip
_NAMED = 3  # rows that a remark names
_GAP = 2  # between two columns


@dataclass(frozen=True)
class _Cell:
    """A column of the table: its title, its unit below it, and how a row's cell reads."""

    title: str
    unit: str
    text: Callable[[Row], str | Text]
    left: bool = False


def number(value: float | None, digits: int = 3) -> str:
    """``digits`` significant digits with thousands commas; empty for None."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{rounded:.{digits}g}" if abs(rounded) < 1e-4 else _plain(rounded, digits)


def _plain(value: float, digits: int) -> str:
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    leading = 0
    while 0 < abs(value) < 10 ** -(leading + 1):
        leading += 1
    return f"{value:.{max(0, digits - whole + leading)}f}"


def duration(milliseconds: float | None) -> str:
    """A time with the unit that suits its size."""
    if milliseconds is None:
        return ""
    for limit, factor, unit in ((1.0, 1e3, "us"), (1e3, 1.0, "ms")):
        if milliseconds < limit:
            return f"{number(milliseconds * factor)} {unit}"
    return f"{number(milliseconds / 1e3)} s"


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _shape(row: Row) -> str:
    return str(row.n) if row.square else f"{row.m}x{row.n}x{row.k}"


def _other_params(row: Row) -> str:
    """The parameters besides TILE_SIZE, which has a column of its own."""
    return " ".join(part for part in row.params.split() if not part.startswith("TILE_SIZE="))


def _status(row: Row) -> Text:
    return Text(row.status, _STATUS_STYLE[row.status])


_IDENTITY = (
    _Cell("kernel", "", lambda row: row.kernel, left=True),
    _Cell("N", "", _shape),
    _Cell("tile", "", lambda row: "" if row.tile_size is None else str(row.tile_size)),
    _Cell("parameters", "", _other_params, left=True),
)
_SPEED = (
    _Cell("status", "", _status, left=True),
    _Cell("time", "median", lambda row: duration(row.time_ms_median)),
    _Cell("spread", "%", lambda row: _percent(row.spread_percent)),
    _Cell("speed", "GFLOP/s", lambda row: number(row.gflops, 4)),
    _Cell("of roof", "%", lambda row: _percent(row.roof_percent)),
    _Cell("of base", "%", lambda row: _percent(row.baseline_percent)),
)
_TRAFFIC = (
    _Cell("requested", "GB", lambda row: number(_giga(row.requested_bytes))),
    _Cell("requested", "GB/s", lambda row: number(row.requested_gbs, 4)),
    _Cell("compulsory", "GB/s", lambda row: number(row.compulsory_gbs, 4)),
    _Cell("intensity", "FLOP/B", lambda row: number(row.arithmetic_intensity)),
    _Cell("error", "max", lambda row: "" if row.max_error is None else f"{row.max_error:.1e}"),
)


def _giga(value: int | None) -> float | None:
    return None if value is None else value / 1e9


def results(rows: Sequence[Row], device: Device, times: str, width: int) -> RenderableType:
    """The table of a run or sweep: one where the terminal is wide enough, else two."""
    dtypes = sorted({row.dtype for row in rows})
    title = f"{device.name}, {', '.join(dtypes)}, {_times(rows, times)}"
    parts: list[RenderableType] = [Text(title, "bold")]
    whole, needed = _table(rows, (*_IDENTITY, *_SPEED, *_TRAFFIC))
    if needed <= width:
        parts.append(whole)
    else:
        parts.append(_fitting(rows, (*_IDENTITY, *_SPEED), width))
        if right := [row for row in rows if row.status == "ok"]:
            parts.append(Text("\nmemory traffic and error", "bold"))
            parts.append(_fitting(right, (*_IDENTITY, *_TRAFFIC), width))
    parts += notes(rows, device)
    return Group(*parts)


def _times(rows: Sequence[Row], times: str) -> str:
    caches = sorted({row.cache for row in rows if row.cache and row.status == "ok"})
    kind = f"{times} times"
    if times == "host":
        return f"{kind}, not a GPU's"
    return f"{kind}, {' and '.join(caches)} L2" if caches else kind


def _fitting(rows: Sequence[Row], cells: Sequence[_Cell], width: int) -> Table:
    """The table, its columns closer together where it would not fit otherwise."""
    table, needed = _table(rows, cells)
    if needed > width:
        table.padding = (0, 1, 0, 0)
    return table


def _table(rows: Sequence[Row], cells: Sequence[_Cell]) -> tuple[Table, int]:
    """The table of what is known of these rows, and the columns that it needs on a terminal."""
    table = Table(box=None, pad_edge=False)
    square = all(row.square for row in rows)
    columns, needed = [], 0
    for cell in cells:
        texts = [cell.text(row) for row in rows]
        if not any(map(str, texts)):
            continue
        name = "MxNxK" if cell.title == "N" and not square else cell.title
        name = f"of {_baseline(rows)}" if cell.title == "of base" else name
        unit = _unit(rows) if cell.unit == "GFLOP/s" else cell.unit
        justify: JustifyMethod = "left" if cell.left else "right"
        # Where space is short a kernel's name is folded; a number is never cut.
        fold = cell.title in ("kernel", "parameters")
        table.add_column(_header(name, unit), justify=justify, no_wrap=not fold, overflow="fold")
        columns.append(texts)
        needed += max(cell_len(str(text)) for text in (name, unit, *texts)) + _GAP
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table, needed - _GAP


def _header(name: str, unit: str) -> Text:
    header = Text(f"{name}\n{unit}", "bold")
    header.stylize("not bold dim", len(name))
    return header


def _is_whole(row: Row) -> bool:
    """Whether C holds whole numbers: the rate then counts operations, none in floating point."""
    return row.dtype.rpartition("/")[2].startswith("int")


def _baseline(rows: Sequence[Row]) -> str:
    """Name of the library beside which the rows were measured."""
    names = {(row.baseline or "").partition(" ")[0] for row in rows} - {""}
    return names.pop() if len(names) == 1 else "library"


def notes(rows: Sequence[Row], device: Device) -> list[Text]:
    """What a reader must know about these rows, a line each: reasons and readings."""
    lines = []
    for row in rows:
        if row.status != "ok":
            line = Text(f"{row.kernel} {_where(row)}: ")
            line.append(row.status, _STATUS_STYLE[row.status])
            lines.append(line.append(f": {row.reason}"))
    if any(row.status == "wrong" for row in rows):
        lines.append(
            Text("mmbench check KERNEL tells why a kernel is wrong, with the line.", "dim")
        )
    lines += _remarks(rows)
    peak = device.dram_peak_gbs
    if peak and any((row.requested_gbs or 0) > peak for row in rows):
        lines.append(
            Text(
                f"Requested GB/s above the DRAM peak of {peak:,.0f} GB/s is served by caches.",
                "dim",
            )
        )
    lines += _of_processes(rows)
    if any((row.samples or 6) < 6 and row.time_ms_low is None for row in rows):
        lines.append(Text("Fewer than 6 samples: no confidence interval.", "dim"))
    return lines


def _of_processes(rows: Sequence[Row]) -> list[Text]:
    apart = [row for row in rows if row.process_spread_percent is not None]
    if not apart:
        return []
    counts = "/".join(map(str, sorted({row.processes for row in apart if row.processes})))
    most = max(row.process_spread_percent or 0.0 for row in apart)
    return [
        Text(
            f"Times are means of the medians of {counts} processes, which lie up to {most:.2f} % "
            "apart.",
            "dim",
        )
    ]


def _remarks(rows: Sequence[Row]) -> list[Text]:
    """Each remark once, with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        for remark in (row.remarks or "").split("; "):
            if remark:
                kind, _, _ = remark.partition(":")
                about.setdefault(remark if kind == "implausible" else kind, []).append(
                    f"{row.kernel} {_where(row)}"
                )
    return [
        Text(f"{remark}: {', '.join(named[:_NAMED])}{_more(named)}", "yellow")
        for remark, named in about.items()
    ]


def _more(named: Sequence[str]) -> str:
    return f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""


def _where(row: Row) -> str:
    shape = f"N={row.n}" if row.square else f"M={row.m} N={row.n} K={row.k}"
    tile = "" if row.tile_size is None else f"tile={row.tile_size}"
    return " ".join(part for part in (shape, tile, _other_params(row)) if part)


def ladder(
    found: Sequence[Rung], libraries: Sequence[Row], device: Device, times: str, width: int
) -> RenderableType:
    """The rungs, each with its gain over the one it is after, and the reason below."""
    rows = [rung.row for rung in found]
    shape = _shape(rows[0]) if rows else ""
    size = shape if "x" in shape else f"N={shape}"
    title = f"{device.name}, {size}, {_times(rows, times)}"
    table = Table(box=None, pad_edge=False)
    for name, unit in (
        ("kernel", ""), ("parameters", ""), ("speed", _unit(rows)), ("gain", ""),
        (f"of {_baseline(rows)}", "%"), ("of roof", "%"),
    ):  # fmt: skip
        header = _header(name, unit)
        left = name in ("kernel", "parameters")
        table.add_column(header, justify="left" if left else "right", no_wrap=name != "parameters")
    for rung in found:
        row = rung.row
        speed: str | Text = number(row.gflops, 4) if row.status == "ok" else _status(row)
        gain = "" if rung.gain is None else f"{rung.gain:.2f}x"
        shares = _percent(row.baseline_percent), _percent(row.roof_percent)
        table.add_row(row.kernel, row.params, speed, gain, *shares)
    for row in libraries:
        table.add_row(row.kernel, "", number(row.gflops, 4), "", "", _percent(row.roof_percent))
    reasons = [Text(f"{rung.row.kernel}: {rung.reason}", "dim") for rung in found if rung.reason]
    parts: list[RenderableType] = [Text(title, "bold"), table, *notes(rows, device)]
    return Group(*parts, Text(), *reasons) if reasons else Group(*parts)


def _unit(rows: Sequence[Row]) -> str:
    return "GOP/s" if rows and all(_is_whole(row) for row in rows) else "GFLOP/s"


def tuning(spec: KernelSpec, problem: Problem, won: Winner | None, size: int) -> RenderableType:
    """The winner of a search, and what cannot be told from it."""
    if won is None:
        return Text(f"{spec.name} {problem}: no configuration of {size} is right", "bold red")
    row = won.measured.row
    wrong = f", {won.wrong} of them wrong" if won.wrong else ""
    lines = [
        Text(f"{spec.name} {problem}: {row.params}", "bold"),
        Text(
            f"  {number(row.gflops, 4)} GFLOP/s, {duration(row.time_ms_median)}; "
            f"{won.tried} of {size} configurations tried{wrong}"
        ),
    ]
    lines += [
        Text(f"  tie: {tie.row.params}, {number(tie.row.gflops, 4)} GFLOP/s", "dim")
        for tie in won.ties
    ]
    return Group(*lines)


def best_tiles(found: Sequence[Best]) -> RenderableType:
    """The best tile of each kernel and problem; several where they cannot be told apart."""
    table = Table(box=None, pad_edge=False)
    for name, justify in (("N", "right"), ("kernel", "left"), ("tile", "right"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("GFLOP/s", justify="right", no_wrap=True)
    for best in found:
        table.add_row(
            _shape(best.row),
            best.row.kernel,
            " = ".join(map(str, best.tiles)),
            "tie" if best.ties else "",
            number(best.row.gflops, 4),
        )
    return Group(Text("best tile", "bold"), table)


def comparisons(found: Sequence[Comparison]) -> RenderableType:
    """Speed-ups of kernels measured interleaved, each with its interval and reason."""
    return Group(*(line for each in found for line in _comparison(each)))


def _comparison(each: Comparison) -> list[Text]:
    base, other = each.baseline, each.other
    line = Text(f"{_where(other)}: ", "bold")
    if each.ratio is None:
        states = " and ".join(f"{row.kernel} is {row.status}" for row in (base, other))
        line.append(f"no comparison: {states}", "not bold yellow")
        return [line]
    line.append(f"{other.kernel} is {_times_as_fast(each.ratio.value)} {base.kernel}", "not bold")
    line.append(f" ({_interval(each)})", "not bold dim")
    return [line, Text(f"  {each.reason}", "dim")] if each.reason else [line]


def _times_as_fast(ratio: float) -> str:
    return f"{ratio:.2f} times as fast as" if ratio < 100 else f"{ratio:,.0f} times as fast as"


def _interval(each: Comparison) -> str:
    ratio = each.ratio
    assert ratio is not None
    if ratio.low is None or ratio.high is None:
        return "too few samples for an interval"
    return f"95 % interval {ratio.low:.3f} to {ratio.high:.3f}: {ratio.verdict}"


def file_comparison(found: FileComparison, names: tuple[str, str]) -> RenderableType:
    """Old against new, a line for each point, and the geometric mean."""
    table = Table(box=None, pad_edge=False)
    more = any(_other_params(each.other) for each in found.comparisons)
    for name in ("kernel", "N", "tile", "parameters", "old", "new", "new/old speed", "verdict"):
        if name == "parameters" and not more:
            continue
        left = name in ("kernel", "parameters", "verdict")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "parameters")
    for each in found.comparisons:
        old, new = each.baseline, each.other
        verdict = each.ratio.verdict if each.ratio else f"{old.status} -> {new.status}"
        table.add_row(
            new.kernel,
            _shape(new),
            "" if new.tile_size is None else str(new.tile_size),
            *([_other_params(new)] if more else []),
            duration(old.time_ms_median),
            duration(new.time_ms_median),
            f"{each.ratio.value:.3f}" if each.ratio else "",
            verdict,
        )
    parts: list[RenderableType] = [Text(f"{names[0]} -> {names[1]}", "bold"), table]
    if found.geometric_mean is not None:
        parts.append(Text(f"geometric mean of new/old speed: {found.geometric_mean:.3f}", "bold"))
    for label, rows in (
        ("only in the old file", found.only_old),
        ("only in the new file", found.only_new),
    ):
        if rows:
            points = "1 point" if len(rows) == 1 else f"{len(rows)} points"
            parts.append(Text(f"{points} {label}", "yellow"))
    if found.devices[0] != found.devices[1]:
        text = f"The devices differ: {found.devices[0]} and {found.devices[1]}."
        parts.append(Text(text, "yellow"))
    return Group(*parts)
