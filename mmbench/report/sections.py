"""The sections of the report, each from rows or from the environment to HTML."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mmbench import best as ties
from mmbench import plotting
from mmbench.plotting import saving
from mmbench.plotting.study import (
    Study,
    edge,
    is_baseline,
    is_right,
    rate,
    shape,
    variant,
)
from mmbench.report import tables
from mmbench.results import Row
from mmbench.table import duration, number

_HOST = "Times are host times, not a GPU's."
_CAPTIONS = {
    "speed": "Higher is better. Each kernel has its best tile at each N.",
    "tiles": "Darker is faster, on one scale for all kernels.",
    "roofline": "How much arithmetic a kernel does for each byte, and how fast.",
}
_ROOFS = (
    " Nothing can be above the level line, the chip's most arithmetic. Above the slope the DRAM "
    "alone could not have served the requests: caches did."
)
_LABELS = {
    "speed": "Line chart: GFLOP/s over N for each kernel",
    "tiles": "Map: GFLOP/s for each tile and N, a part for each kernel",
    "roofline": "Roofline: GFLOP/s over arithmetic intensity",
}


def header(rows: Sequence[Row]) -> str:
    """Device, driver, date and mode: what all figures of the page depend on."""
    devices = _distinct(row.device for row in rows)
    lines = [f"<h1>{escape(title(rows))}</h1>"]
    caches = [f"{cache} L2" for cache in _distinct(row.cache for row in rows if row.cache)]
    days = sorted({row.timestamp[:10] for row in rows})
    host = all(row.runner != "cuda" for row in rows)
    facts = [
        *(devices if len(devices) > 1 else []),
        *_distinct(row.dtype for row in rows),
        *([] if host else [" and ".join(caches)] if caches else []),
        *([days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"] if days else []),
        *(f"driver {driver}" for driver in _distinct(row.driver for row in rows) if driver),
        *_distinct(row.compiler for row in rows if row.compiler),
        *_distinct(_told(row.baseline) for row in rows if row.baseline),
        *(f"mmbench {version}" for version in _distinct(row.mmbench_version for row in rows)),
    ]
    lines.append(f'<p class="soft">{escape(" · ".join(facts))}</p>')
    if any(row.runner != "cuda" for row in rows):
        lines.append(f'<p class="bad">{escape(_HOST)}</p>')
    counts = Counter(row.status for row in rows)
    points = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"
    lines.append(f"<p>Rows: {escape(points)}.</p>")
    return "\n".join(lines)


def _told(baseline: str) -> str:
    """What the library says of itself, without the name it has here."""
    _, bracket, inside = baseline.partition(" (")
    return inside.removesuffix(")") if bracket else baseline


def title(rows: Sequence[Row]) -> str:
    devices = _distinct(row.device for row in rows)
    if len(devices) == 1:
        return f"Matrix multiplication on {devices[0]}"
    return f"Matrix multiplication on {len(devices)} devices" if devices else "No results"


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value is not None))


def _section(name: str, heading: str, body: str, kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return (
        f'<section id="{name}" aria-labelledby="{name}-h"{kind}>\n'
        f'<h2 id="{name}-h">{escape(heading)}</h2>\n{body}\n</section>'
    )


def summary(studies: Sequence[Study]) -> str:
    """The fastest kernel and tile at each N, and each kernel's best; ties are shown as ties."""
    if not studies:
        return _section("fastest", "Fastest", "<p>No row has a rate: see the reasons below.</p>")
    parts = []
    for i, study in enumerate(studies):
        where = f": {study.title}" if len(studies) > 1 else ""
        parts += [_fastest(study, f"fastest-{i}", where), _each_kernel(study, f"each-{i}", where)]
    return _section("fastest", "Fastest", "\n".join(parts))


def _groups(study: Study) -> list[list[Row]]:
    """The kernels' right rows of each problem, fastest first; small problems first."""
    groups: dict[tuple[int, int, int], list[Row]] = {}
    for row in study.right:
        if not is_baseline(row):
            groups.setdefault((row.m, row.n, row.k), []).append(row)
    ordered = sorted(groups.values(), key=lambda rows: edge(rows[0]))
    return [sorted(rows, key=rate, reverse=True) for rows in ordered]


def _fastest(study: Study, name: str, where: str) -> str:
    groups = _groups(study)
    libraries = {at: (each.name, y) for each in study.baselines for at, y in each.points}
    lines = []
    for first, *others in groups:
        share = first.baseline_percent
        if share is None and edge(first) in libraries:
            share = rate(first) / libraries[edge(first)][1] * 100
        lines.append([
            shape(first), first.kernel, variant(first), duration(first.time_ms_median),
            number(first.gflops, 4),
            "" if first.roof_percent is None else f"{first.roof_percent:.1f}",
            "" if share is None else f"{share:.1f}",
            ", ".join(_named(row) for row in others if ties.is_tie(first, row)),
        ])  # fmt: skip
    library = next((each.name.split()[0] for each in study.baselines), "baseline")
    heads = ["N" if study.square else "MxNxK", "kernel", "tile", "time", study.unit, "% of roof",
             f"% of {library}", "as fast, within the intervals"]  # fmt: skip
    return tables.plain(
        f"Fastest kernel and tile at each N{where}",
        name,
        *_without_empty(heads, lines),
        texts=("kernel", heads[-1]),
    )


def _named(row: Row) -> str:
    return f"{row.kernel} ({variant(row)})" if variant(row) else row.kernel


def _without_empty(
    heads: Sequence[str], lines: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    kept = [i for i in range(len(heads)) if i == 0 or any(line[i] for line in lines)]
    return [heads[i] for i in kept], [[line[i] for i in kept] for line in lines]


def _each_kernel(study: Study, name: str, where: str) -> str:
    groups = _groups(study)
    names = [shape(rows[0]) for rows in groups]
    lines = []
    for kernel in study.kernels:
        line = [kernel]
        for rows in groups:
            mine = [row for row in rows if row.kernel == kernel]
            tied = [row for row in mine[1:] if ties.is_tie(mine[0], row)]
            swept = len(mine) > 1 or any(row.tile_size is not None for row in mine)
            best = (*mine[:1], *tied) if swept else ()
            tiles = " = ".join(variant(row) for row in best if variant(row))
            line.append(f"{number(mine[0].gflops, 4)}{f' ({tiles})' if tiles else ''}"
                        if mine else "")  # fmt: skip
        lines.append(line)
    for library in study.baselines:
        rates = dict(library.points)
        cells = [rates.get(edge(rows[0])) for rows in groups]
        lines.append([library.name, *(number(rate, 4) for rate in cells)])
    prefix = "N=" if study.square else ""
    return tables.plain(
        f"{study.unit} of each kernel with its best tile (in brackets; = is a tie){where}", name,
        ["kernel", *(f"{prefix}{text}" for text in names)], lines,
    )  # fmt: skip


def reading(rows: Sequence[Row]) -> str:
    """How to read it, in plain words; what columns mean is COLUMNS' to say."""
    host = " The times here are a processor's; a GPU may rank the kernels otherwise." if any(
        row.runner != "cuda" for row in rows
    ) else ""  # fmt: skip
    return _section(
        "reading",
        "How to read it",
        "<p>A row is one point: a kernel at one N with one tile, the edge of the square of C "
        "that a block of threads works on. Its product is checked first. Only a row that is "
        "<code>ok</code> has a time; a wrong one has none, however fast it was.</p>\n"
        "<p>GFLOP/s is the arithmetic done in a second: more is better. The share of the roof says "
        f"how far that is from the most that the chip can do.{escape(host)}</p>\n"
        "<p>Requested traffic is what the kernel's loads and stores ask for; compulsory traffic is "
        "what no kernel can do without. What lies between them is the caches' work, or waste.</p>\n"
        "<p>Where the intervals of two medians overlap, this measurement cannot tell them apart: "
        "they are shown as a tie.</p>\n"
        "<details><summary>What each column means</summary>\n"
        f"{tables.meanings(rows)}\n</details>",
    )


def pictures(studies: Sequence[Study]) -> str:
    """The pictures inline, or a sentence that says how to have them."""
    if not studies:
        return ""
    if not plotting.available():
        return _section(
            "pictures", "Pictures",
            "<p>The pictures are left out, since matplotlib is not installed: "
            "<code>pip install &quot;mmbench[plot]&quot;</code>.</p>",
        )  # fmt: skip
    parts = []
    for i, study in enumerate(studies):
        for kind in plotting.KINDS:
            name = f"{kind}-{i}"
            label = f"{_LABELS[kind]}; {study.title}. The numbers are in the tables."
            roofs = kind == "roofline" and study.roof_gflops and study.dram_peak_gbs
            caption = _CAPTIONS[kind] + (_ROOFS if roofs else "")
            drawn = saving.inline(plotting.figure(study, kind), name, label)
            parts.append(
                f"<figure>{tables.scrolled(drawn, f'{name}-caption')}"
                f'<figcaption id="{name}-caption">{escape(caption)}</figcaption></figure>'
            )
    return _section("pictures", "Pictures", f'<div class="pictures">{"".join(parts)}</div>')


def all_rows(rows: Sequence[Row]) -> str:
    """Every row, in a table that can be sorted."""
    return _section(
        "rows",
        "All rows",
        '<p class="soft">A click on a column\'s name sorts; another click turns the order. '
        "The CSV has more columns.</p>\n"
        f'<p id="sorted" role="status"></p>\n{tables.all_rows(rows)}',
        "rows",
    )


def failures(rows: Sequence[Row]) -> str:
    """Rows without a rate, each with its reason; nothing where there are none."""
    bad = [row for row in rows if not is_right(row)]
    if not bad:
        return ""
    lines = "\n".join(
        f'<tr><th scope="row">{escape(row.kernel)}</th><td>{escape(shape(row))}</td>'
        f"<td>{escape(variant(row))}</td>"
        f'<td class="left{"" if row.status == "skipped" else " bad"}">{escape(_state(row))}</td>'
        f'<td class="left why">{escape(_reason(row))}</td></tr>'
        for row in bad
    )
    table = (
        '<table><caption id="no-rate"><span>Rows without a rate</span></caption>\n<thead><tr>'
        '<th scope="col" class="left">kernel</th><th scope="col">N</th><th scope="col">tile</th>'
        '<th scope="col" class="left">status</th><th scope="col" class="left">reason</th>'
        f"</tr></thead>\n<tbody>\n{lines}\n</tbody></table>"
    )
    return _section("failures", "What did not work", tables.scrolled(table, "no-rate"))


def _reason(row: Row) -> str:
    return (row.remarks if row.status == "ok" else row.reason) or ""


def _state(row: Row) -> str:
    if row.status == "ok":
        return "implausible"
    return f"{row.status} ({row.kind})" if row.kind and row.kind != row.status else row.status


def surroundings(environment: Mapping[str, Any]) -> str:
    """The environment of each run, folded away."""
    runs = environment.get("runs") or []
    if not runs:
        return _section(
            "environment", "Environment",
            "<p>No JSON file lies beside the CSV, so nothing more is known.</p>",
        )  # fmt: skip
    parts = []
    for run in runs:
        command = shlex.join(["mmbench", *map(str, run.get("command") or [])])
        rest = {key: value for key, value in run.items() if key != "command"}
        parts.append(
            f"<details><summary><code>{escape(command)}</code></summary>\n{_listed(rest)}</details>"
        )
    return _section("environment", "Environment", "\n".join(parts))


def _listed(values: Mapping[str, Any]) -> str:
    lines = (
        f"<dt>{escape(str(key).replace('_', ' '))}</dt><dd>{_value(value)}</dd>"
        for key, value in values.items()
        if value not in ({}, [], "", None)
    )
    return f"<dl>{''.join(lines)}</dl>"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return _listed(value)
    if isinstance(value, list):
        return escape(", ".join(map(str, value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return escape(f"{value:,}")
    return escape(str(value))
