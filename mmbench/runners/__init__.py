"""What a runner is: it turns a point into a launch and a duration, and decides nothing.

A runner has two halves. The first, ``Runner``, lives in the process of the command line: it
knows the device and compiles. The second, ``Session``, lives in a worker process, since a
kernel can end the process it runs in: it owns memory, launches and times.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mmbench.device import Device
from mmbench.errors import RunnerUnavailableError
from mmbench.spec import Launch, Point

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Program:
    """A compiled point: a file that a session can load."""

    path: str
    symbol: str
    compile_seconds: float | None
    static_shared_bytes: int | None = None  # where the runner itself must know it
    block_form: bool = False


@dataclass(frozen=True)
class Resources:
    """What the compiled kernel uses. Registers are known on a GPU alone."""

    static_shared_bytes: int
    registers: int | None = None
    local_bytes: int | None = None
    max_threads: int | None = None


@dataclass(frozen=True)
class Telemetry:
    """The state of the card at one moment, as NVML reads it."""

    sm_clock_mhz: int
    power_w: float
    temperature_c: int
    throttle: str
    other_processes: int = 0  # that have a context on the card, besides this one


def summary(readings: Sequence[Telemetry]) -> Telemetry | None:
    """Median clock and power, highest temperature, and all reasons for a lower clock."""
    if not readings:
        return None
    reasons = (reason for each in readings for reason in each.throttle.split(", ") if reason)
    return Telemetry(
        sm_clock_mhz=round(statistics.median(each.sm_clock_mhz for each in readings)),
        power_w=statistics.median(each.power_w for each in readings),
        temperature_c=max(each.temperature_c for each in readings),
        throttle=", ".join(dict.fromkeys(reasons)),
        other_processes=max(each.other_processes for each in readings),
    )


class Buffer(Protocol):
    """Memory of the device."""

    address: int
    bytes: int


class Kernel(Protocol):
    """A loaded program with its launch shape."""

    resources: Resources

    def launch(self, arguments: Sequence[Any]) -> float:
        """Launch once, wait, and return the seconds; raise LaunchError where it failed."""

    def sample(self, arguments: Sequence[Any], launches: int, cold: bool) -> float:
        """Return the seconds of one launch, the mean of ``launches`` in a row.

        ``cold``: the last-level cache is overwritten first, and ``launches`` is 1.
        """


class Session(Protocol):
    """A runner's half inside a worker process."""

    own_memory: bool  # whether the device's memory is apart from the host's

    def free_bytes(self) -> int: ...
    def allocate(self, size: int) -> Buffer: ...
    def write(self, buffer: Any, data: Array) -> None: ...  # buffer: one of its own
    def read(self, buffer: Any, data: Array) -> None: ...
    def copy(self, target: Any, source: Any) -> None: ...  # two of its buffers, of one size
    def same(self, pairs: Sequence[tuple[Any, Any]]) -> bool: ...  # whether all hold the same bits
    def load(self, program: Program, point: Point, launch: Launch) -> Kernel: ...
    def telemetry(self) -> Telemetry | None: ...
    def timer_floor(self, cold: bool) -> float | None:
        """Seconds that an empty kernel reads, None where there is no such floor."""


class Runner(Protocol):
    """A runner's half inside the process of the command line."""

    device: Device
    times: str  # what its times are: "GPU" or "host"
    modes: tuple[str, ...]  # cache modes it can measure, the default first
    compiles_while_measuring: bool  # whether a compile beside a measurement disturbs it

    def baseline(self) -> str:
        """Name of the library that kernels are measured against; "" where it is missing."""

    def prepare(self) -> None:
        """Build what each session needs, so that the first one finds it; from any thread."""

    def flags(self, point: Point) -> str:
        """The compiler options that make a difference to the result, for the row."""

    def compile(self, point: Point) -> Program:
        """Compile; callable from several threads; raise CompileError at the user's line."""


def open_runner(name: str, device: int = 0) -> tuple[Runner, str]:
    """Open a runner by name, or with ``auto`` cuda where a device answers, else cpu.

    Returns the runner and, where auto had to fall back, the reason as a sentence.
    """
    if name in ("auto", "cuda"):
        from mmbench.runners import cuda

        try:
            return cuda.CudaRunner(device), ""
        except RunnerUnavailableError as error:
            if name == "cuda":
                raise
            reason = error.message
    else:
        reason = ""
    from mmbench.runners import cpu

    return cpu.CpuRunner(), reason


def preload(name: str) -> None:
    """Import what a session of this runner needs, which takes longer than opening it."""
    if name == "cuda":
        from mmbench.runners import cuda

        cuda.preload()
    else:
        from mmbench.runners import cpu  # noqa: F401


def open_session(name: str, device: int, status: Any) -> Session:
    """Open a runner's session; called in the worker process only.

    ``status`` is memory shared with the watching process, see ``status.Status``.
    """
    if name == "cuda":
        from mmbench.runners import cuda

        return cuda.CudaSession(device)
    from mmbench.runners import cpu

    return cpu.CpuSession(status)


def find_tool(tool: str, *folders: str) -> str | None:
    """Path of a program on PATH or in one of these folders."""
    return shutil.which(tool) or shutil.which(tool, path=":".join(folders) or "/nonexistent")


def as_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """The memory of a contiguous array as bytes, without a copy."""
    return array.view(np.uint8).reshape(-1)
