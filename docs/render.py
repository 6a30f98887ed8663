"""Write the generated parts of README.md and docs/columns.md from the code and the results.

    python docs/render.py            rewrite them
    python docs/render.py --check    exit 1 if one is stale

A generated part stands between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``. No figure
in either page is typed by hand: they come from the CSV under results/ that is named there.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from mmbench import baselines, best, check_view, csvfile, kernels, rungs, table
from mmbench.check import check_kernel
from mmbench.device import CUDA_LIMITS, Device
from mmbench.results import COLUMNS, Row

ROOT = Path(__file__).parent.parent
H200 = ROOT / "results" / "h200.csv"
SWEPT = (
    "uncoalesced", "naive", "tiled", "tutorial", "register_tiled_2d", "vectorized", "warp_tiled",
    "double_buffered", "pipelined",
)  # fmt: skip
LADDER = ROOT / "results" / "h200-ladder.csv"
COUNTERS = ROOT / "results" / "h200-counters.json"
WIDTH = 120
PAGES = ("README.md", "docs/columns.md", "docs/counters.md", "docs/peers.md", "docs/ladder.md")


def h200_rows() -> list[Row]:
    return csvfile.read_rows(H200)


def h200_device() -> Device:
    """The device as the JSON beside the CSV keeps it, as far as a table needs it."""
    kept = json.loads(H200.with_suffix(".json").read_text())["runs"][0]["device"]
    return Device(
        runner="cuda",
        index=0,
        name=kept["name"],
        uuid=kept["uuid"],
        limits=CUDA_LIMITS,
        memory_bytes=kept["memory_bytes"],
        host_memory_bytes=0,
        fp32_roof_gflops=kept["fp32_roof_gflops"],
        dram_peak_gbs=kept["dram_peak_gbs"],
    )


def as_text(renderable: RenderableType, width: int) -> str:
    """What a terminal of this width shows, as a fenced block."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```"


def h200_run() -> str:
    """The rows of ``mmbench run --n 4096 --tile 32`` as that command shows them."""
    rows = [r for r in h200_rows() if r.n == 4096 and r.tile_size in (32, None)]
    shown = {spec.name for spec in kernels.select([])} | {"cublas"}
    rows = [r for r in rows if r.kernel in shown]
    return as_text(table.results(rows, h200_device(), "GPU", WIDTH), WIDTH)


def h200_sweep() -> str:
    """GFLOP/s of each kernel at its best tile, a column for each N."""
    rows = h200_rows()
    found = best.best_tiles(rows)
    sizes = sorted({each.row.n for each in found})
    lines = ["| kernel | " + " | ".join(f"N={n}" for n in sizes) + " |"]
    lines.append("|---|" + "---:|" * len(sizes))
    for name in [*(spec.name for spec in kernels.ladder()), "cublas"]:
        cells = []
        for n in sizes:
            mine = [b for b in found if (b.row.kernel, b.row.n) == (name, n)]
            plain = [r for r in rows if (r.kernel, r.n, r.tile_size) == (name, n, None)]
            if mine:
                tiles = "=".join(map(str, mine[0].tiles))
                cells.append(f"{table.number(mine[0].row.gflops, 4)} (T={tiles})")
            else:
                cells.append(table.number(plain[0].gflops, 4) if plain else "")
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    row = rows[0]
    lines.append("")
    lines.append(
        f"GFLOP/s at the best TILE_SIZE (T), {row.cache} L2, float32. {row.device}, driver "
        f"{row.driver}, {row.compiler}, {row.timestamp[:10]}; "
        f"made by `mmbench sweep {' '.join(SWEPT)} --n 256:8192:*2 --baseline cublas "
        "--out results/h200.csv`."
    )
    return "\n".join(lines)


def kernel_table() -> str:
    """A line a kernel from the headers."""
    lines = ["| kernel | improves on | takes | idea |", "|---|---|---|---|"]
    for spec in kernels.ladder():
        takes = "any M, N, K" if spec.rectangular else "square"
        lines.append(f"| `{spec.name}` | {spec.after or ''} | {takes} | {spec.summary} |")
    return "\n".join(lines)


def column_table() -> str:
    """A line a column of the CSV."""
    lines = ["| column | unit | meaning |", "|---|---|---|"]
    for column in COLUMNS:
        meaning = column.meaning.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {column.unit} | {meaning} |")
    return "\n".join(lines)


def check_example() -> str:
    """What ``mmbench check`` says of a tiled kernel whose second barrier is missing."""
    os.chdir(ROOT)
    spec = kernels.get("tests/check/bad/no_barrier_before_reload.cu")
    return as_text(check_view.report(check_kernel(spec), "cpu"), 100)


def counters() -> str:
    """Counted and measured, a line for each kernel; a cell holds one figure where they agree."""
    kept = json.loads(COUNTERS.read_text())
    names = [row["name"] for row in kept["kernels"][0]["rows"] if row["counted"] is not None]
    lines = ["| kernel | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for kernel in kept["kernels"]:
        tile = kernel["params"].get("TILE_SIZE")
        cells = [f"`{kernel['kernel']}`" + (f" T={tile}" if tile else "")]
        for row in kernel["rows"]:
            if row["name"] in names:
                counted, measured = f"{row['counted']:,.0f}", f"{row['measured']:,.0f}"
                same = counted == measured
                cells.append(counted if same else f"{counted} / **{measured}**")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"N = {kept['n']}, {kept['device']}, driver {kept['driver']}, "
              f"{kept['compiler']}, {kept['date']}."]  # fmt: skip
    return "\n".join(lines)


def benchmark_report(name: str) -> str:
    """What a script under benchmarks/ says of its results under results/, if they are there."""
    kept = ROOT / "results" / f"h200-{name.replace('_', '-')}.json"
    if not kept.is_file():
        return "(not measured yet)"
    script = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(script.parent))  # one script may import another
    spec.loader.exec_module(module)
    text: str = module.report(json.loads(kept.read_text()))
    return text.strip()


def ladder_table() -> str:
    """``mmbench ladder`` on the H200, as it was shown."""
    rows = csvfile.read_rows(LADDER)
    specs = [spec for spec in kernels.ladder() if any(row.kernel == spec.name for row in rows)]
    libraries = [row for row in rows if row.kernel in baselines.NAMES]
    found = rungs.climb(specs, rows)
    return as_text(table.ladder(found, libraries, h200_device(), "GPU", WIDTH), WIDTH)


def pipelined_table() -> str:
    """``mmbench compare cublas pipelined`` on the H200, both modes side by side."""
    sides = {mode: _comparisons(mode) for mode in ("cold", "hot")}
    lines = [
        "| M x N x K | cold: TFLOP/s | cuBLAS | speed-up | hot: TFLOP/s | cuBLAS | speed-up |",
        "|---|---:|---:|---|---:|---:|---|",
    ]
    for shape, cold in sides["cold"].items():
        cells = [_shape_cells(cold), _shape_cells(sides["hot"][shape])]
        lines.append(f"| {_shape_name(*shape)} | {' | '.join(cells)} |")
    means = [
        statistics.geometric_mean(each["speedup"] for each in side.values())
        for side in sides.values()
    ]
    lines.append(f"| geometric mean | | | **{means[0]:.3f}** | | | **{means[1]:.3f}** |")
    row = next(iter(sides["cold"].values()))["other"]
    lines += ["", f"95 % intervals in brackets. {row['device']}, driver {row['driver']}, "
              f"{row['compiler']}, {row['baseline'].partition('(')[2].rstrip(')')}, "
              f"{row['sm_clock_mhz']} MHz, {row['timestamp'][:10]}; made by `mmbench tune "
              "pipelined` and then `mmbench compare cublas pipelined --n "
              "512,1000,1024,2048,4095,4096,8192` (and `--m 4096 --n 1024 --k 8192`) with `--cache "
              "cold` and `--cache hot`."]  # fmt: skip
    lines += ["", "| M x N x K | parameters |", "|---|---|"]
    lines += [
        f"| {_shape_name(*shape)} | {each['other']['params']} |"
        for shape, each in sides["cold"].items()
    ]
    return "\n".join(lines)


def _comparisons(mode: str) -> dict[tuple[int, int, int], dict[str, Any]]:
    found = {}
    for suffix in ("", "-oblong"):
        kept = json.loads((ROOT / "results" / f"h200-compare-{mode}{suffix}.json").read_text())
        for each in kept["comparisons"]:
            other = each["other"]
            found[other["m"], other["n"], other["k"]] = each
    return found


def _shape_cells(each: dict[str, Any]) -> str:
    mine, library = each["other"]["gflops"] / 1e3, each["baseline"]["gflops"] / 1e3
    interval = f"({each['low']:.3f} to {each['high']:.3f})"
    return f"{mine:.1f} | {library:.1f} | {each['speedup']:.3f} {interval}"


def _shape_name(m: int, n: int, k: int) -> str:
    return str(n) if m == n == k else f"{m} x {n} x {k}"


PARTS: dict[str, Callable[[], str]] = {
    "ladder": ladder_table,
    "pipelined": pipelined_table,
    "peers": lambda: benchmark_report("peers"),
    "scatter": lambda: benchmark_report("scatter"),
    "sweep-speed": lambda: benchmark_report("sweep_speed"),
    "h200-run": h200_run,
    "h200-sweep": h200_sweep,
    "check": check_example,
    "counters": counters,
    "kernels": kernel_table,
    "columns": column_table,
}


def rendered(page: str) -> str:
    """A page's text with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        return f"<!-- begin: {match[1]} -->\n{PARTS[match[1]]()}\n<!-- end: {match[1]} -->"

    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"<!-- begin: ([\w-]+) -->.*?<!-- end: \1 -->", part, text, flags=re.DOTALL)


def main() -> int:
    stale = 0
    for page in PAGES:
        text = rendered(page)
        if text != (ROOT / page).read_text(encoding="utf-8"):
            stale += 1
            if "--check" in sys.argv:
                print(f"{page} is stale; run python docs/render.py")
            else:
                (ROOT / page).write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
