"""The process that measures: it writes JSON, and ends without PyCUDA's clean-up."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmbench.header import read_kernel
from mmbench.probes import FOLDER
from mmbench.product import Problem
from mmbench.runners import Array, Kernel
from mmbench.runners.cuda import CudaRunner, CudaSession, EmptyKernel
from mmbench.spec import Point

_FMA_FLOP = 16 * 8 * 512 * 2  # of one thread of fma.cu
_FMA_BLOCK = 256
_WAVES = 64  # blocks of fma.cu for each multiprocessor
_COPY_FLOATS = 1 << 28  # 1 GiB each way: far beyond any L2
_CYCLES = (20_000, 200_000, 2_000_000)
_SAMPLES = 30


class _Probes:
    def __init__(self, index: int) -> None:
        self.runner = CudaRunner(index)
        self.session = CudaSession(index)

    def load(self, name: str, n: int) -> Kernel:
        point = Point(read_kernel(FOLDER / f"{name}.cu"), Problem(n, n, n), {})
        return self.session.load(self.runner.compile(point), point, point.launch())

    def memory(self, floats: int) -> Any:
        return self.session.allocate(4 * floats)

    def fma(self) -> tuple[float, float | None]:
        """GFLOP/s, and the SM clock meanwhile."""
        blocks = (self.runner.device.multiprocessors or 1) * _WAVES
        kernel, memory = self.load("fma", blocks), self.memory(blocks)
        self.session.write(memory, np.full(blocks, 0.5, np.float32))
        arguments = [memory.address, memory.address, memory.address, blocks]
        seconds, clocks = [], []
        for _ in range(_SAMPLES):
            seconds.append(kernel.sample(arguments, 4, cold=False))
            if (reading := self.session.telemetry()) is not None:
                clocks.append(reading.sm_clock_mhz)
        flop = blocks * _FMA_BLOCK * _FMA_FLOP
        return flop / min(seconds) / 1e9, statistics.median(clocks) if clocks else None

    def copy(self) -> float:
        """GB/s, the bytes read and written."""
        kernel = self.load("copy", _COPY_FLOATS)
        source, target = self.memory(_COPY_FLOATS), self.memory(_COPY_FLOATS)
        arguments = [source.address, target.address, source.address, _COPY_FLOATS]
        seconds = [kernel.sample(arguments, 1, cold=True) for _ in range(_SAMPLES)]
        return 2 * 4 * _COPY_FLOATS / min(seconds) / 1e9

    def roofs(self) -> dict[str, object]:
        gflops, clock = self.fma()
        return {
            "fp32_gflops": gflops,
            "fp32_clock_mhz": clock,
            "copy_gbs": self.copy(),
            "date": datetime.date.today().isoformat(),
        }

    def timer(self) -> dict[str, object]:
        empty = EmptyKernel(self.session)
        ways: dict[str, Callable[[], float]] = {
            "plain events": lambda: empty.launch(()),
            "cold": lambda: empty.sample((), 1, True),
            "hot, 1 launch": lambda: empty.sample((), 1, False),
            "hot, 100 launches": lambda: empty.sample((), 100, False),
        }
        floors = {
            name: statistics.median(way() for _ in range(10 * _SAMPLES)) * 1e6
            for name, way in ways.items()
        }
        memory = self.memory(64)
        clock = self.session.telemetry()
        spins = [self._spin(cycles, memory) for cycles in _CYCLES]
        first, last = spins[0], spins[-1]
        apart = last["timer_us"] - first["timer_us"]
        return {
            "floors_us": floors,
            "spins": spins,
            "clock_mhz": (last["cycles"] - first["cycles"]) / apart,
            "nvml_clock_mhz": clock.sm_clock_mhz if clock else None,
        }

    def _spin(self, cycles: int, memory: Any) -> dict[str, Any]:
        kernel = self.load("spin", cycles)
        arguments = [memory.address, memory.address, memory.address, cycles]
        samples, inside = [], []
        counted: Array = np.zeros(64, np.float32)
        for _ in range(_SAMPLES):
            samples.append(kernel.sample(arguments, 1, cold=True))
            self.session.read(memory, counted)
            inside.append(float(counted[1]) / 1e3)
        return {
            "cycles": int(counted[0]),
            "timer_us": statistics.median(samples) * 1e6,
            "inside_us": statistics.median(inside),
        }


def main() -> None:
    what, index, result = sys.argv[1:]
    probes = _Probes(int(index))
    found = {"roofs": probes.roofs, "timer": probes.timer}[what]()
    Path(result).write_text(json.dumps(found))
    os._exit(0)


if __name__ == "__main__":
    main()
