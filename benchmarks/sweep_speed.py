"""How long a sweep takes: mmbench against kernel_tuner, the same points on one GPU in one run.

    python benchmarks/sweep_speed.py [--quick] [--repeats 1] [--samples 20] [--out FILE.json]
    python benchmarks/sweep_speed.py --render FILE.json

3 kernels x 5 values of TILE_SIZE x 4 values of N. Both check each point's C and take the same
number of samples of it, both begin with empty compile caches, and each runs in a process of its
own. kernel_tuner is called once for each kernel and N, as its interface wants it, with each of
its two ways to compile: nvrtc (the default of its lang="CUDA") and nvcc (lang="PYCUDA").

"process" is the whole process, imports and references included. "calls" is the time inside
tune_kernel alone: that kernel_tuner also imports PyTorch where it finds it is not held against
it. The goal compares mmbench's whole process with the faster of kernel_tuner's "calls".
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
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

from mmbench import axes, csvfile, kernels
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
    """What one sweep did; ``calls`` is None where all of the process counts."""

    points: int
    samples: int
    calls: float | None = None
    compile: float | None = None


def mmbench_same(job: Job) -> Sweep:
    """mmbench's Bench, as its sweep command uses it, with exactly that many samples a point."""
    from mmbench.bench import Bench, Settings
    from mmbench.measure import StopRule
    from mmbench.runners.cuda import CudaRunner

    rule = StopRule(samples=job.samples, min_time=0.0, precision=math.inf)
    points = axes.points([kernels.get(x) for x in KERNELS], axes.problems(job.ns), job.tiles)
    rows = []
    for each in Bench(CudaRunner(0), Settings(rule, cache="cold")).run(points, lambda *_: None):
        rows.append(each.row)
        if each.row.status != "ok":
            raise RuntimeError(f"{each.point}: {each.row.status}, {each.row.reason}")
    counts = {row.samples for row in rows}
    if counts != {job.samples}:
        raise RuntimeError(f"samples a point: {counts}")
    return Sweep(len(rows), job.samples)


def mmbench_command(job: Job, out: str) -> list[str]:
    """The sweep that a user would type; it goes on past the samples where they scatter."""
    return [
        *("-m", "mmbench", "sweep", *KERNELS, "--n", ",".join(map(str, job.ns))),
        *("--tile", ",".join(map(str, job.tiles)), "--runner", "cuda", "--out", out),
        *("--samples", str(job.samples), "--min-time", "0", "--max-time", "0.5"),
    ]


def mmbench_sweep(job: Job) -> Sweep:
    """``mmbench sweep`` itself: CSV, JSON and table included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.csv"
        command = [sys.executable, *mmbench_command(job, str(path))]
        subprocess.run(command, check=True)
        rows = csvfile.read_rows(path)
    return Sweep(len(rows), int(statistics.median(row.samples or 0 for row in rows)))


def tuner_nvrtc(job: Job) -> Sweep:
    return _tuner(job, "NVCUDA")


def tuner_nvcc(job: Job) -> Sweep:
    return _tuner(job, "PYCUDA")


def _tuner(job: Job, language: str) -> Sweep:
    """One tune_kernel call for each kernel and N; its inputs and answers are made beforehand."""
    kernel_tuner = importlib.import_module("kernel_tuner")
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
    return Sweep(done, job.samples, calls, compiling)


TOOLS: dict[str, tuple[str, Callable[[Job], Sweep]]] = {
    "mmbench": ("mmbench, as many samples", mmbench_same),
    "command": ("mmbench sweep, the command", mmbench_sweep),
    "nvrtc": ("kernel_tuner, nvrtc", tuner_nvrtc),
    "nvcc": ("kernel_tuner, nvcc", tuner_nvcc),
}


def child(name: str, job_file: str, result: str) -> None:
    """Run one sweep in this process."""
    job = Job(**json.loads(Path(job_file).read_text()))
    child_main(lambda: asdict(TOOLS[name][1](job)), result)


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
    job_file, result = folder / "job.json", folder / "result.json"
    job_file.write_text(json.dumps(asdict(job)))
    for variable in _CACHES:
        cache = folder / variable.lower()
        cache.mkdir()
        os.environ[variable] = str(cache)
    begin = time.perf_counter()
    found = run_child([__file__, "--child", name, str(job_file), str(result)], result, name,
                      _CHILD_SECONDS)  # fmt: skip
    seconds = time.perf_counter() - begin
    if found["points"] != job.points:
        raise ToolError(f"{name} measured {found['points']} of {job.points} points")
    return {"process": seconds, **found}


def report(run: dict[str, Any]) -> str:
    """The run as Markdown: seconds of each tool, the goal, what is missing, circumstances."""
    job, rows = Job(**run["job"]), []
    process, calls = _medians(run["times"], "process"), _medians(run["times"], "calls")
    ours = process.get("mmbench")
    for name, (title, _) in TOOLS.items():
        if name not in process:
            continue
        inside = calls.get(name)
        (samples, *_) = (x["samples"] for x in run["times"] if x["tool"] == name)
        cells = [f"{process[name]:.1f}", "" if inside is None else f"{inside:.1f}"]
        counted = process[name] if inside is None else inside
        ratio = "" if ours is None else f"{ours / counted:.2f}"
        rows.append([title, str(samples), *cells, ratio])
    heads = ["sweep", "samples a point", "process, s", "calls, s", "mmbench / this"]
    parts = [table(heads, rows), _goal(ours, calls)]
    parts += [f"Left out: {why}." for why in run["missing"].values()]
    packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    parts.append(
        f"{', '.join(KERNELS)}; TILE_SIZE {', '.join(map(str, job.tiles))}; N = "
        f"{', '.join(map(str, job.ns))}: {job.points} points, each checked and sampled "
        f"{job.samples} times (the command: at least). Median of {run['repeats']} runs from empty "
        "compile caches. process: all of it, imports and references too; calls: inside "
        f"tune_kernel alone. {run['cores']} CPU cores. {run['device']}, driver {run['driver']}, "
        f"{run['compiler']}, {packages}, {run['date']}: `{run['command']}`"
    )
    return "\n\n".join(parts) + "\n"


def _medians(times: Sequence[dict[str, Any]], key: str) -> dict[str, float]:
    series: dict[str, list[float]] = {}
    for each in times:
        if each[key] is not None:
            series.setdefault(each["tool"], []).append(each[key])
    return {tool: statistics.median(values) for tool, values in series.items()}


def _goal(ours: float | None, calls: dict[str, float]) -> str:
    """Whether mmbench takes at most half of the faster kernel_tuner's time."""
    if ours is None or not calls:
        return "Goal, mmbench in at most half of kernel_tuner's time: no figure."
    best = min(calls, key=lambda name: calls[name])
    ratio = ours / calls[best]
    return (
        f"Goal, mmbench in at most half of kernel_tuner's time: "
        f"{'met' if ratio <= _GOAL else 'missed'}, {ratio:.2f} of {TOOLS[best][0]}."
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=axes.parse_axis, help="values of N [256,512,1024,2048]")
    parser.add_argument("--tile", type=axes.parse_axis, help="TILE_SIZE [4,8,16,24,32]")
    parser.add_argument("--samples", type=int, default=20, help="samples of a point [20]")
    parser.add_argument("--repeats", type=int, default=1, help="repeats of all sweeps [1]")
    parser.add_argument("--tools", default=",".join(TOOLS), help=f"[{','.join(TOOLS)}]")
    parser.add_argument("--quick", action="store_true", help="2 tiles, 2 N")
    parser.add_argument("--out", type=Path, help="write every figure to this JSON file")
    parser.add_argument("--render", type=Path, help="print the report of such a file, measure none")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.n = options.n or ((256, 512) if options.quick else (256, 512, 1024, 2048))
    options.tile = options.tile or ((16, 32) if options.quick else (4, 8, 16, 24, 32))
    options.tools = options.tools.split(",")
    if unknown := [name for name in options.tools if name not in TOOLS]:
        known = ", ".join(TOOLS)
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
