"""What the cuda runner's timer adds to a launch: an empty kernel, timed three ways.

    python benchmarks/timer.py

"plain events" records an event, launches and records again on an idle stream, so the host's
launch latency lies inside. "cold" and "hot" are mmbench's modes, where the gate holds the
stream until all is queued.
"""

from __future__ import annotations

import datetime
import os
import statistics
import sys
import tempfile
from pathlib import Path

from mmbench import axes, header
from mmbench.runners.cuda import CudaKernel, CudaRunner, CudaSession

EMPTY = """\
// /// kernel
// summary = "Does nothing."
// [launch]
// block = [32]
// grid = [1]
// [traffic]
// reads = 0
// writes = 0
// ///
__global__ void matmul_empty(const float *, const float *, float *, int) {}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.cu"
        path.write_text(EMPTY)
        (point,) = axes.points([header.read_kernel(path)], axes.problems([32]), None)
        runner = CudaRunner(0)
        program = runner.compile(point)
    session = CudaSession(0)
    measure(session, session.load(program, point, point.launch()), runner)
    sys.stdout.flush()
    os._exit(0)  # as the worker process does: PyCUDA's own clean-up wants an empty context stack


def measure(session: CudaSession, kernel: CudaKernel, runner: CudaRunner) -> None:
    buffer = session.allocate(4096)
    arguments = [buffer.address] * 3 + [32]
    ways = {
        "plain events": lambda: kernel.launch(arguments),
        "cold": lambda: kernel.sample(arguments, 1, cold=True),
        "hot, 1 launch": lambda: kernel.sample(arguments, 1, cold=False),
        "hot, 100 launches": lambda: kernel.sample(arguments, 100, cold=False),
    }
    device = runner.device
    print(f"{datetime.date.today()}  {device.name}, driver {device.driver}")
    for name, way in ways.items():
        samples = sorted(way() * 1e6 for _ in range(200))
        print(
            f"{name:18} median {statistics.median(samples):6.2f} us, fastest {samples[0]:6.2f} us"
        )
    session.close()


if __name__ == "__main__":
    main()
