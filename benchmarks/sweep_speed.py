"""How long a sweep takes: mmbench against kernel_tuner, the same points on one GPU in one run.

    python benchmarks/sweep_speed.py [--quick] [--repeats 3] [--samples 20] [--out FILE.json]
    python benchmarks/sweep_speed.py --render FILE.json

3 kernels x 5 values of TILE_SIZE x 4 values of N. Both check each point's C and take the same
number of samples of it, both begin with empty compile caches, and each runs in a process of its
own. mmbench is the command that a user types; kernel_tuner is called once for each kernel and N,
as its interface wants it, with each of its two ways to compile: nvrtc (the default of its
lang="CUDA") and nvcc (lang="PYCUDA").

"process" is the wall time of the whole process, which the goal compares. What of it kernel_tuner
takes for its imports (of PyTorch and CuPy too, where they are installed) and inside of
tune_kernel, its calls, is told beside it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import (
    ToolError,
    child_main,
    environment,
    run_child,
    say,
    table,
    tuner_arguments,
    tuner_options,
    tuner_problem,
)

from mmbench import axes, kernels
from mmbench.errors import MmbenchError

KERNELS = ("naive", "uncoalesced", "tiled")
_GOAL = 0.5  # of kernel_tuner's time
_OPTIONS = ["-std=c++17", "-w", "-lineinfo"]  # those of mmbench's cuda runner
_CHILD_SECONDS = 400
_CACHES = ("MMBENCH_CACHE", "XDG_CACHE_HOME", "PYCUDA_CACHE_DIR", "CUDA_CACHE_PATH")


@dataclass(frozen=True)
class Job:
    """The points and how often each is sampled."""

    ns: list[int]
    tiles: list[int]
    samples: int

    @property
    def points(self) -> int:
        return len(KERNELS) * len(self.tiles) * len(self.ns)


@dataclass(frozen=True)
class Sweep:
    """What one sweep did, and of kernel_tuner the seconds of its imports and calls."""

    points: int
    samples: int
    imports: float | None = None
    calls: float | None = None
    compile: float | None = None


def mmbench_command(job: Job, out: str) -> list[str]:
    """The sweep that a user would type, with exactly that many samples of each point."""
    return [
        *("-m", "mmbench", "sweep", *KERNELS, "--n", ",".join(map(str, job.ns))),
        *("--tile", ",".join(map(str, job.tiles)), "--runner", "cuda", "--out", out),
        *("--samples", str(job.samples), "--min-time", "0", "--interval", "99%"),
    ]


def _swept(rows: Sequence[dict[str, Any]], samples: int) -> Sweep:
    """What the rows of mmbench's JSON say; raise ToolError where one is not as it should be."""
    for row in rows:
        if row["status"] != "ok":
            raise ToolError(f"mmbench: {row['kernel']} N={row['n']}: {row['reason']}")
        if row["samples"] != samples:
            raise ToolError(f"mmbench: {row['kernel']} N={row['n']}: {row['samples']} samples")
    return Sweep(len(rows), samples)


def tuner_nvrtc(job: Job) -> Sweep:
    return _tuner(job, "NVCUDA")


def tuner_nvcc(job: Job) -> Sweep:
    return _tuner(job, "PYCUDA")


def _tuner(job: Job, language: str) -> Sweep:
    """One tune_kernel call for each kernel and N; its inputs and answers are made beforehand."""
    begin = time.perf_counter()
    kernel_tuner = importlib.import_module("kernel_tuner")
    imports = time.perf_counter() - begin
    calls, compiling, done = 0.0, 0.0, 0
    for n in job.ns:
        points = axes.points([kernels.get(x) for x in KERNELS], axes.problems([n]), job.tiles[:1])
        answer, arguments = tuner_arguments(points[0])  # the arguments of the three are the same
        for point in points:
            begin = time.perf_counter()
            results, _ = kernel_tuner.tune_kernel(
                *tuner_problem(point), arguments, {"TILE_SIZE": job.tiles},
                **tuner_options(language, list(_OPTIONS)), answer=answer, iterations=job.samples,
            )  # fmt: skip
            calls += time.perf_counter() - begin
            for result in results:
                if "__error__" in result or len(result["times"]) != job.samples:
                    raise RuntimeError(f"{point.spec.name} N={n}: {result}")
                compiling += result["compile_time"] / 1e3
                done += 1
            print(f"{point.spec.name} N={n}: {calls:.1f} s so far", flush=True)
    return Sweep(done, job.samples, imports, calls, compiling)


TITLES = {
    "mmbench": "mmbench sweep",
    "nvrtc": "kernel_tuner, nvrtc",
    "nvcc": "kernel_tuner, nvcc",
}
TUNERS: dict[str, Callable[[Job], Sweep]] = {"nvrtc": tuner_nvrtc, "nvcc": tuner_nvcc}


def child(name: str, job_file: str, result: str) -> None:
    """Run one sweep in this process."""
    job = Job(**json.loads(Path(job_file).read_text()))
    child_main(lambda: asdict(TUNERS[name](job)), result)


def measure(
    job: Job, tools: list[str], repeats: int, save: Callable[[dict[str, Any]], None]
) -> None:
    """All repeats, the tools in turns, each sweep with caches of its own that begin empty."""
    times: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for repeat in range(repeats):
        for name in tools[repeat % len(tools) :] + tools[: repeat % len(tools)]:
            if name in missing:
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = _one(job, name, Path(folder))
                except ToolError as error:
                    missing[name] = str(error)
                    say(f"  skipped from now on: {error}")
                    continue
            times.append({"repeat": repeat, "tool": name, **found})
            calls = "" if found["calls"] is None else f", {found['calls']:.1f} s in its calls"
            say(f"  {repeat + 1}/{repeats} {name}: {found['process']:.1f} s{calls}")
            save({"repeats": repeat + 1, "times": times, "missing": missing})
    save({"times": times, "missing": missing})


def _one(job: Job, name: str, folder: Path) -> dict[str, Any]:
    for variable in _CACHES:
        cache = folder / variable.lower()
        cache.mkdir()
        os.environ[variable] = str(cache)
    job_file, result = folder / "job.json", folder / "result.json"
    job_file.write_text(json.dumps(asdict(job)))
    command = [__file__, "--child", name, str(job_file), str(result)]
    if name == "mmbench":  # its JSON lies beside its CSV
        command = mmbench_command(job, str(result.with_suffix(".csv")))
    begin = time.perf_counter()
    found = run_child(command, result, name, _CHILD_SECONDS)
    seconds = time.perf_counter() - begin
    if name == "mmbench":
        found = asdict(_swept(found["runs"][-1]["results"], job.samples))
    if found["points"] != job.points:
        raise ToolError(f"{name} measured {found['points']} of {job.points} points")
    return {"process": seconds, **found}


def report(run: dict[str, Any]) -> str:
    """The run as Markdown: seconds of each tool, the goal, what is missing, circumstances."""
    job, rows = Job(**run["job"]), []
    process, imports, calls = (_medians(run["times"], x) for x in ("process", "imports", "calls"))
    for name, title in TITLES.items():
        if name in process:
            seconds = [process.get(name), imports.get(name), calls.get(name)]
            ratios = [_ratio(process, process, name), _ratio(process, calls, name)]
            cells = ["" if x is None else f"{x:.1f}" for x in seconds]
            rows.append([title, *cells, *("" if x is None else f"{x:.2f}" for x in ratios)])
    heads = ["sweep", "process, s", "imports, s", "calls, s", "mmbench / process",
             "mmbench / calls"]  # fmt: skip
    parts = [table(heads, rows), _goal(run["times"])]
    parts += [f"Left out: {why}." for why in run["missing"].values()]
    packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    parts.append(
        f"{', '.join(KERNELS)}; TILE_SIZE {', '.join(map(str, job.tiles))}; N = "
        f"{', '.join(map(str, job.ns))}: {job.points} points, each checked and sampled "
        f"{job.samples} times. Median of {run['repeats']} runs from empty compile caches. process: "
        "all of it; imports and calls: what of it kernel_tuner spends on its imports, and inside "
        f"tune_kernel. {run['cores']} CPU cores. {run['device']}, driver {run['driver']}, "
        f"{run['compiler']}, {packages}, {run['date']}: `{run['command']}`"
    )
    return "\n\n".join(parts) + "\n"


def _medians(times: Sequence[dict[str, Any]], key: str) -> dict[str, float]:
    series: dict[str, list[float]] = {}
    for each in times:
        if each[key] is not None:
            series.setdefault(each["tool"], []).append(each[key])
    return {tool: statistics.median(values) for tool, values in series.items()}


def _ratio(process: dict[str, float], other: dict[str, float], name: str) -> float | None:
    """mmbench's whole process over these seconds of another tool."""
    if "mmbench" not in process or name not in other:
        return None
    return process["mmbench"] / other[name]


def _goal(times: Sequence[dict[str, Any]]) -> str:
    """Whether mmbench takes at most half of the wall time of the faster kernel_tuner.

    The medians decide. How far apart the repeats are is told with them.
    """
    goal = "Goal, mmbench in at most half of kernel_tuner's wall time"
    process = _medians(times, "process")
    tuners = [name for name in TUNERS if name in process]
    best = min(tuners, key=lambda name: process[name], default="")
    ratio = _ratio(process, process, best)
    if ratio is None:
        return f"{goal}: no figure."
    seconds = {(each["repeat"], each["tool"]): each["process"] for each in times}
    each_alone = [
        seconds[repeat, "mmbench"] / seconds[repeat, best]
        for repeat, tool in seconds
        if tool == "mmbench" and (repeat, best) in seconds
    ]
    verdict = "met" if ratio <= _GOAL else "missed"
    apart = f"{min(each_alone):.2f} to {max(each_alone):.2f} in single repeats"
    return f"{goal}: {verdict}, {ratio:.2f} of {TITLES[best]} ({apart})."


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=axes.parse_axis, help="values of N [256,512,1024,2048]")
    parser.add_argument("--tile", type=axes.parse_axis, help="TILE_SIZE [4,8,16,24,32]")
    parser.add_argument("--samples", type=int, default=20, help="samples of a point [20]")
    parser.add_argument("--repeats", type=int, default=3, help="repeats of all sweeps [3]")
    parser.add_argument("--tools", default=",".join(TITLES), help=f"[{','.join(TITLES)}]")
    parser.add_argument("--quick", action="store_true", help="2 tiles, 2 N")
    parser.add_argument("--out", type=Path, help="write every figure to this JSON file")
    parser.add_argument("--render", type=Path, help="print the report of such a file, measure none")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.n = options.n or ((256, 512) if options.quick else (256, 512, 1024, 2048))
    options.tile = options.tile or ((16, 32) if options.quick else (4, 8, 16, 24, 32))
    options.tools = options.tools.split(",")
    if unknown := [name for name in options.tools if name not in TITLES]:
        known = ", ".join(TITLES)
        parser.error(f'--tools: no tool is called "{unknown[0]}"; known: {known}')
    return options


def main() -> None:
    options = parse()
    if options.child:
        child(*options.child)
    if options.render:
        print(report(json.loads(options.render.read_text())), end="")
        return
    job = Job(list(options.n), list(options.tile), options.samples)
    try:
        run = environment() | {"cores": os.cpu_count(), "job": asdict(job), "repeats": 0}
    except MmbenchError as error:
        say(f"sweep_speed.py: {error.message}")
        sys.exit(2)

    def save(more: dict[str, Any]) -> None:
        run.update(more)
        if options.out:
            options.out.write_text(json.dumps(run, indent=1) + "\n")

    say(f"{run['device']}, driver {run['driver']}, {run['compiler']}; {job.points} points")
    measure(job, options.tools, options.repeats, save)
    print(report(run), end="")


if __name__ == "__main__":
    main()
