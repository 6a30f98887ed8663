"""What the card says of itself: clock, power, temperature, throttle reasons. Read, never set."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

from mmbench.runners import Telemetry

# nvml.h, nvmlClocksEventReasons: bits that hold the clock below what was asked for.
_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}


def preload() -> None:
    """Import NVML's bindings, which takes a tenth of a second, where they are installed."""
    with suppress(ImportError):
        importlib.import_module("pynvml")


class Card:
    """One GPU as NVML knows it, found by its PCI address."""

    def __init__(self, pci_bus_id: str) -> None:
        """Raise ImportError or pynvml.NVMLError where NVML cannot be had."""
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)

    def uuid(self) -> str:
        return str(self._nvml.nvmlDeviceGetUUID(self._handle))

    def driver(self) -> str:
        return str(self._nvml.nvmlSystemGetDriverVersion())

    def telemetry(self) -> Telemetry | None:
        """The card's state now, or None where the driver does not tell."""
        nvml, handle = self._nvml, self._handle
        try:
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            return Telemetry(
                sm_clock_mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                power_w=nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                temperature_c=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                throttle=", ".join(text for bit, text in _REASONS.items() if reasons & bit),
                other_processes=self._other_processes(),
            )
        except nvml.NVMLError:
            return None

    def _other_processes(self) -> int:
        """Processes with a context on the card, besides one: ours. Containers hide the numbers."""
        try:
            return max(0, len(self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) - 1)
        except self._nvml.NVMLError:
            return 0


def open_card(pci_bus_id: str) -> Card | None:
    """The card, or None where nvidia-ml-py or NVML itself is missing."""
    try:
        return Card(pci_bus_id)
    except Exception:  # NVMLError exists only where the import succeeded
        return None
