"""Why do two measurements of one kernel differ? One cause changed at a time, on one GPU.

    python benchmarks/scatter.py [--n 512] [--processes 8] [--out FILE.json]
    python benchmarks/scatter.py --render FILE.json

Each figure is a median, and of each cause there are eight: the same again and again, the module
loaded anew, A, B and C in other places, other processes. What they say is how far the eight lie
apart. Cold samples in 16 places in turn, as mmbench takes them, come last. Hot ones are told in
cycles too, by the clocks of the multiprocessors before and after the launches, and an empty
kernel, launched in a row, tells how much of it is the launch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import KERNEL, TILE, child_main, environment, run_child, say, table

from mmbench import axes, kernels
from mmbench.errors import MmbenchError

_DRAWS = 8
_COLD_SAMPLES, _HOT_SAMPLES, _HOT_SECONDS = 600, 40, 3e-3
_WARM_UPS = 4
_CHILD_SECONDS = 60
COLUMNS = ("cold", "hot", "hot, cycles")
WITHIN = {
    "same": "nothing: the same again",
    "module": "the module, loaded anew",
    "place": "the place of A, B and C",
}
BETWEEN = {
    "process": "the process, one place each",
    "turns": "the process, 16 places in turn",
}
# Each multiprocessor's cycles, and the nanoseconds of the clock that all of them share.
_STAMP = """
extern "C" __global__ void stamp(long long *out)
{
    unsigned multiprocessor;
    long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    out[2 * multiprocessor] = clock64();
    out[2 * multiprocessor + 1] = now;
}
"""


@dataclass(frozen=True)
class Process:
    """What one process found: medians by cause and column, in us and cycles.

    ``empty`` is what an empty kernel takes of a row of launches, in us; ``clocks`` are the
    lowest and the highest SM clock of the hot samples, in MHz.
    """

    medians: dict[str, dict[str, list[float]]]
    empty: float
    clocks: tuple[float, float]


class Clocked:
    """Hot samples with the SM clock that they ran at."""

    def __init__(self, session: Any, multiprocessors: int) -> None:
        from pycuda.compiler import SourceModule

        self.session = session
        self.stamp = SourceModule(_STAMP, no_extern_c=True).get_function("stamp").prepare("P")
        self.count = multiprocessors
        self.before, self.after = (session.allocate(16 * multiprocessors) for _ in range(2))
        self.clocks: list[float] = []

    def sample(self, kernel: Any, arguments: Sequence[Any], batch: int) -> tuple[float, float]:
        """Microseconds and cycles of one launch, the mean of so many in a row."""
        session = self.session
        with session.held():
            self._stamp(self.before)
            session.begin.record(session.stream)
            for _ in range(batch):
                kernel.call(arguments)
            session.end.record(session.stream)
            self._stamp(self.after)
        session.stream.synchronize()
        cycles, nanoseconds = (self._read(self.after) - self._read(self.before)).T
        megahertz = 1e3 * float(np.median(cycles / nanoseconds))
        self.clocks.append(megahertz)
        microseconds = 1e3 * session.begin.time_till(session.end) / batch
        return microseconds, microseconds * megahertz

    def _stamp(self, where: Any) -> None:
        self.stamp.prepared_async_call(
            (self.count, 1), (1, 1, 1), self.session.stream, where.address
        )

    def _read(self, where: Any) -> Any:
        found = np.zeros((self.count, 2), np.int64)
        self.session.read(where, found)
        return found


def measure(n: int) -> Process:
    """In this process: eight medians of each cause."""
    from mmbench.operands import Operands
    from mmbench.runners.cuda import CudaRunner, CudaSession, EmptyKernel
    from mmbench.verify import Checker

    (point,) = axes.points([kernels.get(KERNEL)], axes.problems([n]), [TILE])
    runner = CudaRunner(0)
    program, session = runner.compile(point), CudaSession(0)
    clocked = Clocked(session, runner.device.multiprocessors or 1)
    operands = Operands(session, Checker(point.problem, point.spec.product, 0))
    operands.spread(operands.checker.real)
    places = [place.arguments(point) for place in operands.places]
    first = session.load(program, point, point.launch())
    batch = int(_HOT_SECONDS / min(first.launch(places[0]) for _ in range(5)))

    def cold(kernel: Any = first, where: Sequence[Any] = places[:1]) -> dict[str, float]:
        turns = (where[i % len(where)] for i in range(_COLD_SAMPLES))
        return {"cold": 1e6 * statistics.median(kernel.sample(x, 1, True) for x in turns)}

    def hot(kernel: Any = first, where: Sequence[Any] = places[:1]) -> dict[str, float]:
        samples = [clocked.sample(kernel, where[0], batch) for _ in range(_HOT_SAMPLES)]
        microseconds, cycles = map(statistics.median, zip(*samples, strict=True))
        return {"hot": microseconds, "hot, cycles": cycles}

    medians: dict[str, dict[str, list[float]]] = {}

    def keep(cause: str, figures: dict[str, float]) -> None:
        for column, figure in figures.items():
            medians.setdefault(cause, {}).setdefault(column, []).append(figure)

    for mode in (cold, hot):
        for _ in range(_WARM_UPS):  # the clock is another under another load
            mode()
        for _ in range(_DRAWS):
            keep("same", mode())
        for _ in range(_DRAWS):
            keep("module", mode(session.load(program, point, point.launch())))
        for place in places[-_DRAWS:]:
            keep("place", mode(first, [place]))
    keep("turns", cold(first, places))
    keep("process", {column: figures[0] for column, figures in medians["same"].items()})
    empty = EmptyKernel(session)
    return Process(
        medians,
        1e6 * statistics.median(empty.sample((), 300, False) for _ in range(_HOT_SAMPLES)),
        (min(clocked.clocks), max(clocked.clocks)),
    )


def spread(values: Sequence[float]) -> float:
    """(largest - smallest) / median, in percent."""
    return 100 * (max(values) - min(values)) / statistics.median(values)


def report(run: dict[str, Any]) -> str:
    """The run as Markdown: how far eight medians lie apart, by what changed between them."""
    found = [Process(**each) for each in run["found"]]
    rows = []
    for cause, title in WITHIN.items():
        apart = [{name: spread(x) for name, x in each.medians[cause].items()} for each in found]
        cells = [f"{statistics.median(each[name] for each in apart):.2f}" for name in COLUMNS]
        rows.append([title, *cells])
    for cause, title in BETWEEN.items():
        firsts = {
            name: [each.medians[cause][name][0] for each in found]
            for name in found[0].medians[cause]
        }
        rows.append([title, *(f"{spread(firsts[x]):.2f}" if x in firsts else "" for x in COLUMNS)])
    empty = [each.empty for each in found]
    cycles = [each.medians["process"]["hot, cycles"][0] for each in found]
    alike = statistics.correlation(empty, cycles) if len(found) > 1 else 1.0
    clocks = [clock for each in found for clock in each.clocks]
    return (
        f"{table(['what changes', *(f'{name}, %' for name in COLUMNS)], rows)}\n\n"
        f"An empty kernel, launched in a row, takes {min(empty):.2f} to {max(empty):.2f} us in "
        f"these processes, {KERNEL} {min(cycles):,.0f} to {max(cycles):,.0f} cycles; their "
        f"correlation is {alike:.2f}. The SM clock of the hot samples was {min(clocks):.1f} to "
        f"{max(clocks):.1f} MHz.\n\n(largest - smallest) / median of {_DRAWS} medians, of "
        f"{_COLD_SAMPLES} cold or {_HOT_SAMPLES} hot samples each; the first three rows are the "
        f"median of {len(found)} processes, the others lie across them. {KERNEL} with TILE_SIZE "
        f"{TILE}, N = {run['n']}, float32. {run['device']}, driver {run['driver']}, "
        f"{run['compiler']}, {run['date']}: `{run['command']}`\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--processes", type=int, default=_DRAWS)
    parser.add_argument("--out", type=Path, help="write every figure to this JSON file")
    parser.add_argument("--render", type=Path, help="print the report of such a file, measure none")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child_main(lambda: asdict(measure(options.n)), options.child)
    if options.render:
        print(report(json.loads(options.render.read_text())), end="")
        return
    try:
        run = environment() | {"n": options.n, "found": []}
    except MmbenchError as error:
        say(f"scatter.py: {error.message}")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        for i in range(options.processes):
            begin = time.monotonic()
            words = [__file__, "--n", str(options.n), "--child", str(result)]
            run["found"].append(run_child(words, result, "scatter", _CHILD_SECONDS))
            say(f"  process {i + 1}/{options.processes} {time.monotonic() - begin:5.1f} s")
            if options.out:
                options.out.write_text(json.dumps(run, indent=1) + "\n")
    print(report(run), end="")


if __name__ == "__main__":
    main()
