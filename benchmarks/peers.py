"""One kernel, measured by mmbench and by its peers, side by side on one GPU in one run.

    python benchmarks/peers.py [--quick] [--n 512,1024,4096] [--repeats 5] [--out FILE.json]
    python benchmarks/peers.py --render FILE.json

Peers are cuda-bench (the Python package of nvbench), triton's do_bench and kernel_tuner; one that
is missing or fails is named and left out. Each measurement has a process of its own, and the
tools take turns, every repeat in another order. mmbench, cuda-bench and do_bench launch the very
same cubin on the same matrices: the peers by cuLaunchKernel through ctypes, on the stream that
they hand out. kernel_tuner compiles the same source with the same options itself.
Markdown goes to stdout, progress to stderr, and every figure into the JSON file.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmbench import axes, kernels
from mmbench.errors import MmbenchError
from mmbench.inputs import guard_elements
from mmbench.spec import Point
from mmbench.verify import Checker

KERNEL, TILE = "tiled", 32
PACKAGES = ("cuda-bench", "triton", "torch", "kernel_tuner", "pycuda", "numpy")
PROCESSES = 5  # of mmbench's --processes
COLD_BASE, HOT_BASE = "cuda-bench cold", "cuda-bench batch"
_WITHIN = 0.01  # of cuda-bench's figure
_SPREAD = 0.005  # over the repeats
_CHILD_SECONDS = 150  # after which a tool is given up
_LINES_SHOWN = 30  # of what a failed tool printed
_UNAVAILABLE = 3  # exit code of a tool that cannot be imported


@dataclass(frozen=True)
class Job:
    """What every tool is to measure: one compiled kernel at several N.

    ``seconds`` is how long a tool may sample a point, as far as it can be told.
    """

    cubin: str
    symbol: str
    options: list[str]
    ns: list[int]
    seconds: float

    def point(self, n: int) -> Point:
        """The shipped kernel at N = M = K = n."""
        (point,) = axes.points([kernels.get(KERNEL)], axes.problems([n]), [TILE])
        return point


@dataclass(frozen=True)
class Figure:
    """One tool's answer at one N in one repeat: seconds a launch, of ``samples`` launches."""

    tool: str
    n: int
    seconds: float
    samples: int | None = None
    sm_clock_mhz: float | None = None


# ------------------------------------------------------------------ launching, for the peers


class Driver:
    """The few calls of the CUDA driver API that a launch needs, in the primary context."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raise RuntimeError where it reports an error."""
        self.check(name, getattr(self._library, name)(*arguments))

    def check(self, name: str, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or str(code).encode()).decode()}")

    def launcher(self) -> Any:
        """cuLaunchKernel with its types declared, which keeps a call's host time low."""
        function = self._library.cuLaunchKernel
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        function.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
        return function

    def upload(self, array: Any) -> ctypes.c_void_p:
        """A copy of a host array in memory of the GPU."""
        address = ctypes.c_void_p()
        size = ctypes.c_size_t(array.nbytes)
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), size)
        return address

    def download(self, address: ctypes.c_void_p, array: Any) -> None:
        size = ctypes.c_size_t(array.nbytes)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), address, size)

    def free(self, address: ctypes.c_void_p) -> None:
        self.call("cuMemFree_v2", address)


class Launch:
    """The kernel at one N, with the matrices that mmbench itself would give it.

    Called with the handle of a stream it queues one launch and returns at once.
    """

    def __init__(self, driver: Driver, job: Job, n: int) -> None:
        point = job.point(n)
        shape = point.launch()
        self.driver = driver
        self.checker = Checker(point.problem, point.spec.product, seed=0)
        real = self.checker.real
        self.blank = real.c_padded
        self.buffers = [driver.upload(x) for x in (real.a_padded, real.b_padded, self.blank)]
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        image = Path(job.cubin).read_bytes()
        driver.call("cuModuleLoadData", ctypes.byref(module), image)
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, job.symbol.encode())
        offset = guard_elements(point.problem, point.spec.product) * self.blank.itemsize
        matrices = [ctypes.c_uint64((each.value or 0) + offset) for each in self.buffers]
        values = dict(zip("ABC", matrices, strict=True)) | {x: ctypes.c_int(n) for x in "MNK"}
        self.values = [values[argument.name] for argument in point.spec.arguments]
        self.pointers = (ctypes.c_void_p * len(self.values))(
            *(ctypes.addressof(value) for value in self.values)
        )
        self.shape = (*_three(shape.grid), *_three(shape.block), shape.dynamic_shared_bytes)
        self.function = function
        self.queue = driver.launcher()

    def __call__(self, stream: int) -> None:
        code = self.queue(self.function, *self.shape, stream, self.pointers, None)
        if code:
            self.driver.check("cuLaunchKernel", code)

    def wrong(self) -> str:
        """What is wrong with C after the launches, or ""; frees the matrices."""
        self.driver.call("cuCtxSynchronize")
        c = np.empty_like(self.blank)
        self.driver.download(self.buffers[2], c)
        for buffer in self.buffers:
            self.driver.free(buffer)
        return self.checker.check_real(c)[0]


def _three(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape, 1, 1)[:3]


# ------------------------------------------------------------- the tools, each in its process


def mmbench_command(job: Job, mode: str, processes: int = 1) -> list[str]:
    """The command that a user would type; all processes together sample as long as one."""
    return [
        *("-m", "mmbench", "run", "--kernel", KERNEL, "--baseline", "none"),
        *("--n", ",".join(map(str, job.ns))),
        *("--tile", str(TILE), "--runner", "cuda", "--cache", mode, "--format", "json"),
        *("--min-time", f"{job.seconds / processes:g}", "--max-time", f"{10 * job.seconds:g}"),
        *("--processes", str(processes)),
    ]


def mmbench(job: Job, mode: str, processes: int = 1) -> list[Figure]:
    command = [sys.executable, *mmbench_command(job, mode, processes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{shlex.join(command)} ended with code {done.returncode}")
    return mmbench_figures(json.loads(done.stdout), mode)


def mmbench_figures(value: dict[str, Any], mode: str) -> list[Figure]:
    """The figures in what ``mmbench run --format json`` printed."""
    figures = []
    for row in value["results"]:
        if row["status"] != "ok":
            raise RuntimeError(f"mmbench at N={row['n']}: {row['status']}, {row['reason']}")
        seconds = row["time_ms_median"] / 1e3
        clock, count = row["sm_clock_mhz"], row["processes"]
        tool = f"mmbench {mode}" + (f", {count} processes" if count > 1 else "")
        figures.append(Figure(tool, row["n"], seconds, row["samples"], clock))
    return figures


def cuda_bench(job: Job) -> list[Figure]:
    """nvbench's isolated (cold) and batched (hot) measurement, with its own stop rules."""
    bench = importlib.import_module("cuda.bench")
    results = importlib.import_module("cuda.bench.results")
    driver = Driver()
    failures: list[str] = []

    def tiled(state: Any) -> None:
        try:
            launch = Launch(driver, job, state.get_int64("N"))
            state.exec(lambda on: launch(on.get_stream().addressof()), batched=True)
            if wrong := launch.wrong():
                failures.append(wrong)
        except Exception:
            failures.append(traceback.format_exc())
            raise

    benchmark = bench.register(tiled)
    benchmark.set_name(KERNEL)
    benchmark.add_int64_axis("N", job.ns)
    benchmark.set_timeout(10 * job.seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "nvbench.json")
        bench.run_all_benchmarks([sys.argv[0], "--devices", "0", "--jsonbin", path])
        if failures:
            raise RuntimeError("; ".join(failures))
        states = list(results.BenchmarkResult.from_json(path)[KERNEL])
    figures = [figure for state in states for figure in cuda_bench_figures(state)]
    if not figures:
        raise RuntimeError("cuda-bench wrote no figures")
    return figures


def cuda_bench_figures(state: Any) -> list[Figure]:
    """Cold: the median of its samples. Batch: its mean, since it keeps no samples of those."""
    n = int(state.point["N"])
    if state.is_skipped:
        raise RuntimeError(f"cuda-bench skipped N={n}: {state.skip_reason}")

    def said(tag: str) -> Any:
        found = state.summaries.get(tag)
        return None if found is None else found.value

    clock = said("nv/cold/sm_clock_rate/mean")
    clock = None if clock is None else clock / 1e6
    if state.samples:
        cold, count = statistics.median(state.samples), len(state.samples)
    else:
        cold, count = said("nv/cold/time/gpu/median"), said("nv/cold/sample_size")
    found = [
        (COLD_BASE, cold, count, clock),
        (HOT_BASE, said("nv/batch/time/gpu/mean"), said("nv/batch/sample_size"), None),
    ]
    for tool, seconds, _, _ in found:
        if seconds is None:
            raise RuntimeError(f"no figure of {tool} at N={n}; tags: {sorted(state.summaries)}")
    return [Figure(tool, n, *rest) for tool, *rest in found]


def triton(job: Job) -> list[Figure]:
    """do_bench: the L2 is cleared before each launch, between two events of the stream."""
    torch = importlib.import_module("torch")
    testing = importlib.import_module("triton.testing")
    torch.cuda.init()
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    driver = Driver()
    figures = []
    for n in job.ns:
        launch = Launch(driver, job, n)
        milliseconds = testing.do_bench(
            lambda launch=launch: launch(stream),
            warmup=200 * job.seconds, rep=1000 * job.seconds, return_mode="median",
        )  # fmt: skip
        if wrong := launch.wrong():
            raise RuntimeError(wrong)
        figures.append(Figure("triton do_bench", n, milliseconds / 1e3))
    return figures


def kernel_tuner(job: Job) -> list[Figure]:
    """tune_kernel with one configuration; events around single launches, no L2 flush."""
    tuner = importlib.import_module("kernel_tuner")
    figures = []
    for n in job.ns:
        answer, arguments = tuner_arguments(job.point(n))
        for language in ("PYCUDA", "NVCUDA"):
            try:
                results, _ = tuner.tune_kernel(
                    *tuner_problem(job.point(n)), arguments, {"TILE_SIZE": [TILE]},
                    **tuner_options(language, job.options),
                    answer=answer, iterations=100 if job.seconds >= 0.5 else 20,
                )  # fmt: skip
                break
            except Exception:
                if language == "NVCUDA":
                    raise
                traceback.print_exc()
        (result,) = results
        if "__error__" in result:
            raise RuntimeError(f"kernel_tuner at N={n}: {result['__error__']}")
        times = result["times"]
        tool = f"kernel_tuner ({language.lower()})"
        figures.append(Figure(tool, n, statistics.median(times) / 1e3, len(times)))
    return figures


def tuner_problem(point: Point) -> tuple[str, str, tuple[int, int]]:
    """tune_kernel's kernel_name, kernel_source and problem_size, for M = N."""
    return point.spec.entry, point.spec.source, (point.problem.n, point.problem.m)


def tuner_options(language: str, options: list[str]) -> dict[str, Any]:
    """tune_kernel's options for blocks of TILE_SIZE x TILE_SIZE, one thread an element of C."""
    return {
        "grid_div_x": ["TILE_SIZE"],
        "grid_div_y": ["TILE_SIZE"],
        "block_size_names": ["TILE_SIZE", "TILE_SIZE"],
        "lang": language,
        "compiler_options": options,
        "atol": 1e-2,  # float32 errors of such sums stay below 1e-4
        "quiet": True,
    }


def tuner_arguments(point: Point) -> tuple[list[Any], list[Any]]:
    """The answer and the arguments: real numbers of -1 to 1, as in mmbench."""
    problem = point.problem
    rng = np.random.default_rng(0)
    a, b = (
        rng.random(shape, np.float32) * 2 - 1
        for shape in ((problem.m, problem.k), (problem.k, problem.n))
    )
    values = {"A": a, "B": b, "C": np.zeros((problem.m, problem.n), np.float32)}
    sizes = {"M": problem.m, "N": problem.n, "K": problem.k}
    names = [argument.name for argument in point.spec.arguments]
    arguments = [values[x] if x in values else np.int32(sizes[x]) for x in names]
    return [a @ b if x == "C" else None for x in names], arguments


TOOLS: dict[str, Callable[[Job], list[Figure]]] = {
    "mmbench-cold": partial(mmbench, mode="cold"),
    "cuda-bench": cuda_bench,
    "mmbench-hot": partial(mmbench, mode="hot"),
    "triton": triton,
    "kernel_tuner": kernel_tuner,
    "mmbench-cold-processes": partial(mmbench, mode="cold", processes=PROCESSES),
    "mmbench-hot-processes": partial(mmbench, mode="hot", processes=PROCESSES),
}


# ---------------------------------------------------------------------- processes and progress


class ToolError(Exception):
    """A tool that gave no figures; the text says why, in one line."""


def say(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


def run_child(arguments: Sequence[str], result: Path, name: str, limit: float) -> Any:
    """Run this interpreter with these arguments; return the JSON that it wrote to ``result``.

    Raise ToolError where it fails, after printing the last lines of what it said.
    """
    log = result.with_suffix(".log")
    result.unlink(missing_ok=True)
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it may have left running
            process.wait()
    if code == 0 and result.exists():
        return json.loads(result.read_text())
    lines = log.read_text(errors="replace").strip().splitlines() or ["(it printed nothing)"]
    if code == _UNAVAILABLE:
        raise ToolError(f"{name} is not usable here: {lines[-1]}")
    for line in lines[-_LINES_SHOWN:]:
        say(f"    | {line}")
    how = f"gave no answer in {limit:g} s" if code is None else f"ended with code {code}"
    raise ToolError(f"{name} {how}: {lines[-1][:200]}")


def child_main(work: Callable[[], Any], result: str) -> None:
    """Do the work, leave its value as JSON, and end at once: contexts need no tidying up."""
    code, text = 0, ""
    try:
        Path(result).write_text(json.dumps(work()))
    except ImportError as error:
        code, text = _UNAVAILABLE, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except BaseException as error:
        traceback.print_exc()
        code, text = 1, f"{type(error).__name__}: {error}"
    if text:
        print(text, flush=True)  # last, whatever the destructors say before
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def versions() -> dict[str, str]:
    """Version of each package that takes part, without those that are missing."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def environment() -> dict[str, Any]:
    """Date, command, device and versions, for the head of a result file."""
    from mmbench.runners.cuda import CudaRunner

    device = CudaRunner(0).device
    return {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]),
        "device": device.name,
        "driver": device.driver,
        "compiler": device.compiler,
        "versions": versions(),
    }


def prepare(ns: Sequence[int], seconds: float, folder: Path) -> Job:
    """Compile the kernel as mmbench does and take the cubin that it would load."""
    from mmbench.runners.cuda import CudaRunner

    runner = CudaRunner(0)
    (point,) = axes.points([kernels.get(KERNEL)], axes.problems(ns[:1]), [TILE])
    program = runner.compile(point)
    made = max(Path(program.path).glob("*.cubin"), key=lambda path: path.stat().st_mtime)
    cubin = folder / "kernel.cubin"
    shutil.copyfile(made, cubin)
    options = [
        option for option in runner.flags(point).split() if not option.startswith(("-arch", "-D"))
    ]
    return Job(str(cubin), program.symbol, options, list(ns), seconds)


def measure(job: Job, repeats: int, limit: float, save: Callable[[dict[str, Any]], None]) -> None:
    """All repeats, the tools in turns; ``save`` gets all figures after every repeat.

    A tool that fails is left out from then on. No repeat is begun that would pass the limit.
    """
    begin = time.monotonic()
    names = list(TOOLS)
    figures: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        job_file, result = Path(folder) / "job.json", Path(folder) / "result.json"
        job_file.write_text(json.dumps(asdict(job)))
        for repeat in range(repeats):
            started = time.monotonic()
            for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
                if name in missing:
                    continue
                now = time.monotonic()
                arguments = [__file__, "--child", name, str(job_file), str(result)]
                try:
                    found = run_child(arguments, result, name, _CHILD_SECONDS)
                except ToolError as error:
                    missing[name] = str(error)
                    say(f"  skipped from now on: {error}")
                    continue
                figures += [{"repeat": repeat, **figure} for figure in found]
                times = ", ".join(f"{x['tool']} N={x['n']} {x['seconds'] * 1e6:.2f}" for x in found)
                say(f"  {repeat + 1}/{repeats} {time.monotonic() - now:5.1f} s  {times} us")
            save({"repeats": repeat + 1, "figures": figures, "missing": missing})
            took = time.monotonic() - started
            if repeat + 1 < repeats and time.monotonic() - begin + took > limit:
                say(f"stopped after {repeat + 1} of {repeats} repeats: --limit {limit:g} s")
                break


# -------------------------------------------------------------------------------- the report


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the columns behind the first ``left`` are aligned to the right."""
    rule = "|".join("---" if i < left else "---:" for i in range(len(heads)))
    head, *lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return "\n".join([head, f"|{rule}|", *lines])


@dataclass(frozen=True)
class Summary:
    """One tool at one N over the repeats: the median, and (largest - smallest) / median."""

    seconds: float
    spread: float | None
    repeats: int


def summaries(figures: Sequence[dict[str, Any]]) -> dict[tuple[str, int], Summary]:
    """Summaries by tool and N, in the order in which the tools were first heard of."""
    series: dict[tuple[str, int], list[float]] = {}
    for figure in figures:
        series.setdefault((figure["tool"], figure["n"]), []).append(figure["seconds"])
    found = {}
    for key, values in series.items():
        middle = statistics.median(values)
        spread = (max(values) - min(values)) / middle if len(values) > 1 else None
        found[key] = Summary(middle, spread, len(values))
    return found


_GROUPS = (
    ("Cold: the L2 is overwritten before each launch", COLD_BASE,
     ("mmbench cold", COLD_BASE, "triton")),
    ("Hot: launches in a row", HOT_BASE, ("mmbench hot", HOT_BASE, "kernel_tuner")),
)  # fmt: skip


def report(run: dict[str, Any]) -> str:
    """The run as Markdown: a table of each mode, the goals, what is missing, the circumstances."""
    found = summaries(run["figures"])
    ns = sorted({n for _, n in found})
    parts = []
    for title, base, tools in _GROUPS:
        rows = []
        for n in ns:
            named = [tool for tool, at in found if at == n and tool.startswith(tools)]
            named.sort(key=lambda tool: ([tool.startswith(x) for x in tools].index(True), tool))
            for tool in named:
                rows.append([str(n), tool, *_cells(found[tool, n], found.get((base, n)))])
        if rows:
            heads = ["N", "tool", "time, us", "spread, %", f"ratio to {base}"]
            parts += [f"### {title}", table(heads, rows, left=2)]
    parts += ["### Goals", table(["goal", *(f"N={n}" for n in ns)], _goals(found, ns))]
    parts += [f"Left out: {why}." for why in run["missing"].values()]
    packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    parts.append(
        f"Time: the median of {run['repeats']} repeats; each repeat's figure is the tool's own "
        "median of its samples, for cuda-bench's batch its mean, for mmbench's --processes the "
        "mean of their medians. Spread: (largest - smallest) / median of the repeats. "
        "kernel_tuner puts each launch between two events on an idle stream, so its times hold "
        "the launch latency of the host.\n\n"
        f"{run['kernel']}, float32, M = N = K, {run['options']}. {run['device']}, driver "
        f"{run['driver']}, {run['compiler']}, {packages}, {run['date']}: `{run['command']}`"
    )
    return "\n\n".join(parts) + "\n"


def _cells(summary: Summary, base: Summary | None) -> list[str]:
    spread = "" if summary.spread is None else f"{100 * summary.spread:.2f}"
    ratio = "" if base is None else f"{summary.seconds / base.seconds:.4f}"
    return [f"{summary.seconds * 1e6:,.2f}", spread, ratio]


def _goals(found: dict[tuple[str, int], Summary], ns: Sequence[int]) -> list[list[str]]:
    rows = []
    for mode, base in (("cold", COLD_BASE), ("hot", HOT_BASE)):
        for tool in (f"mmbench {mode}", f"mmbench {mode}, {PROCESSES} processes"):
            pairs = [(found.get((tool, n)), found.get((base, n))) for n in ns]
            rows.append([f"{tool} within 1 % of {base}", *(_near(*pair) for pair in pairs)])
            title = f"{tool} spread below 0.5 % or below that of {base}"
            rows.append([title, *(_steady(*pair) for pair in pairs)])
    return rows


def _near(ours: Summary | None, theirs: Summary | None) -> str:
    if ours is None or theirs is None:
        return "no figure"
    off = ours.seconds / theirs.seconds - 1
    percent = round(100 * off, 2) + 0.0  # no -0.00
    return f"{'met' if abs(off) <= _WITHIN else 'missed'} ({percent:+.2f} %)"


def _steady(ours: Summary | None, theirs: Summary | None) -> str:
    if ours is None or ours.spread is None:
        return "no figure"
    theirs_spread = None if theirs is None else theirs.spread
    met = ours.spread < max(_SPREAD, theirs_spread or 0.0)
    other = "" if theirs_spread is None else f", theirs {100 * theirs_spread:.2f} %"
    return f"{'met' if met else 'missed'} ({100 * ours.spread:.2f} %{other})"


# ---------------------------------------------------------------------------------- the command


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=axes.parse_axis, help="values of N [512,1024,4096]")
    parser.add_argument("--repeats", type=int, help="repeats of all tools [5]")
    parser.add_argument("--quick", action="store_true", help="N 512,1024, 2 repeats, 0.1 s a point")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds in all [480]")
    parser.add_argument("--out", type=Path, help="write every figure to this JSON file")
    parser.add_argument("--render", type=Path, help="print the report of such a file, measure none")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.n = options.n or ((512, 1024) if options.quick else (512, 1024, 4096))
    options.repeats = options.repeats or (2 if options.quick else 5)
    return options


def main() -> None:
    options = parse()
    if options.child:
        name, job_file, result = options.child
        job = Job(**json.loads(Path(job_file).read_text()))
        child_main(lambda: [asdict(figure) for figure in TOOLS[name](job)], result)
    if options.render:
        print(report(json.loads(options.render.read_text())), end="")
        return
    run: dict[str, Any] = {}

    def save(more: dict[str, Any]) -> None:
        run.update(more)
        if options.out:
            options.out.write_text(json.dumps(run, indent=1) + "\n")

    try:
        with tempfile.TemporaryDirectory() as folder:
            job = prepare(options.n, 0.1 if options.quick else 0.5, Path(folder))
            run |= environment()
            run |= {
                "kernel": f"{KERNEL} with TILE_SIZE {TILE}",
                "options": " ".join(job.options),
                "cubin_sha256": hashlib.sha256(Path(job.cubin).read_bytes()).hexdigest()[:16],
            }
            say(f"{run['device']}, driver {run['driver']}, {run['compiler']}; {run['versions']}")
            measure(job, options.repeats, options.limit, save)
    except MmbenchError as error:
        say(f"peers.py: {error.message}")
        sys.exit(2)
    print(report(run), end="")


if __name__ == "__main__":
    main()
