"""Kernels of our own that measure the device and the timer, not a product.

    python -m mmbench.probes roofs 0 roofs.json
    python -m mmbench.probes timer 0 timer.json

They run in a process of their own, through the same compile, launch and timer as any kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmbench import cache
from mmbench.device import Device
from mmbench.errors import MmbenchError

_SECONDS = 120.0


@dataclass(frozen=True)
class Roofs:
    """What this device was measured to reach."""

    fp32_gflops: float
    fp32_clock_mhz: float | None  # the SM clock meanwhile
    copy_gbs: float  # bytes read and written
    date: str


@dataclass(frozen=True)
class Spin:
    """A kernel that waited for a known number of cycles, as three clocks saw it."""

    cycles: int
    timer_us: float  # our timer, the median
    inside_us: float  # the card's own timer, read inside of the kernel


@dataclass(frozen=True)
class TimerReport:
    """What the timer adds to a launch.

    ``floors_us`` are the durations of an empty kernel by way of timing; ``clock_mhz`` is the SM
    clock that the spins imply: cycles over seconds beyond the floor.
    """

    floors_us: dict[str, float]
    spins: tuple[Spin, ...]
    clock_mhz: float
    nvml_clock_mhz: float | None

    @property
    def bias_us(self) -> float:
        """Largest difference between our timer, less its floor, and the card's own."""
        floor = self.floors_us["cold"]
        return max(abs(spin.timer_us - floor - spin.inside_us) for spin in self.spins)


def measured_roofs(device: Device, again: bool = False) -> Roofs:
    """The roofs of a CUDA device; measured once for each driver, then kept in the cache."""
    kept = cache.folder() / f"roofs-{cache.key(device.uuid, device.driver, device.compiler)}.json"
    if kept.is_file() and not again:
        try:
            return Roofs(**json.loads(kept.read_text()))
        except (ValueError, TypeError):
            pass  # written by another version: measure again
    roofs = Roofs(**_ask("roofs", device.index))
    kept.write_text(json.dumps(asdict(roofs)))
    return roofs


def timer_report(index: int) -> TimerReport:
    """Time an empty kernel and kernels of known length on a CUDA device."""
    found = _ask("timer", index)
    spins = tuple(Spin(**spin) for spin in found.pop("spins"))
    return TimerReport(**found, spins=spins)


def _ask(what: str, index: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mmbench-") as scratch:
        result = Path(scratch, "result.json")
        command = [sys.executable, "-m", "mmbench.probes", what, str(index), str(result)]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise MmbenchError(f"the {what} of the GPU took over {_SECONDS:g} s") from None
        if answer.returncode != 0:
            said = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
            message = f"the {what} of the GPU could not be measured: {said}"
            raise MmbenchError(message, answer.stderr)
        found: dict[str, Any] = json.loads(result.read_text())
        return found


FOLDER = Path(__file__).parent
