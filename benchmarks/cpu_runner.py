"""The cpu runner's fast build against a plain C triple loop built by the same compiler.

    python benchmarks/cpu_runner.py [--n 1024] [--tile 16] [--repeat 5]

Both run the same product on all cores of this machine, in turns. The triple loop is the
textbook's, rows of C spread over as many processes as mmbench has workers. Prints each
GFLOP/s (the median of the repeats) and their ratio: host figures, of this machine only.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from mmbench import axes, kernels
from mmbench.bench import Bench, Settings
from mmbench.measure import StopRule
from mmbench.runners import host_compiler
from mmbench.runners.cpu import CpuRunner, worker_count

TRIPLE_LOOP = """
void triple_loop(const float *A, const float *B, float *C, int N, int first, int last)
{
    for (int row = first; row < last; ++row)
        for (int col = 0; col < N; ++col) {
            float acc = 0.0f;
            for (int k = 0; k < N; ++k) acc += A[row * N + k] * B[k * N + col];
            C[row * N + col] = acc;
        }
}
"""


def triple_loop_gflops(n: int, repeat: int) -> float:
    """Median GFLOP/s of the triple loop, its rows shared out over the cores."""
    flags = ("-x", "c", "-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast")
    path, _ = host_compiler.build(TRIPLE_LOOP, flags, identity="", suffix=".c")
    function = ctypes.CDLL(str(path)).triple_loop
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), np.float32) for _ in range(2))
    c = np.empty((n, n), np.float32)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    workers = worker_count()
    edges = [n * i // workers for i in range(workers + 1)]
    seconds = []
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(repeat):
            begin = time.perf_counter()
            list(pool.map(lambda span: function(*pointers, n, *span), pairwise(edges)))
            seconds.append(time.perf_counter() - begin)
    assert np.allclose(c, a @ b, rtol=1e-4)
    return 2 * n**3 / statistics.median(seconds) / 1e9


def kernel_gflops(name: str, n: int, tile: int, repeat: int) -> float:
    """GFLOP/s that mmbench itself reports for a kernel."""
    rule = StopRule(samples=repeat, min_time=0.0, budget=60.0, slow=60.0)
    points = axes.points([kernels.get(name)], axes.problems([n]), [tile])
    (measured,) = Bench(CpuRunner(), Settings(rule)).run(points, lambda text, share: None)
    assert measured.row.status == "ok", measured.row.reason
    assert measured.row.gflops is not None
    return measured.row.gflops


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--tile", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    device = CpuRunner().device
    print(f"{datetime.date.today()}  {device.name}  {device.compiler}")
    print(f"N={options.n} tile={options.tile}, {os.cpu_count()} cores, median of {options.repeat}")
    plain = triple_loop_gflops(options.n, options.repeat)
    print(f"{'triple loop in C':20} {plain:8.2f} GFLOP/s")
    for spec in (each for each in kernels.ladder() if "cpu" in each.runners):
        rate = kernel_gflops(spec.name, options.n, options.tile, options.repeat)
        print(f"{spec.name:20} {rate:8.2f} GFLOP/s  {rate / plain:6.2f} x the triple loop")


if __name__ == "__main__":
    main()
