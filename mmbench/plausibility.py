"""Whether a measured rate can be: no kernel beats the FMA units, or reads DRAM above its peak."""

from __future__ import annotations

from mmbench import metrics
from mmbench.device import Device
from mmbench.product import Problem, Product

_TOLERANCE = 1.02  # clocks are read at moments, not over the whole of a sample


def implausible(
    problem: Problem,
    product: Product,
    seconds: float,
    cold: bool,
    device: Device,
    clock_mhz: float | None,
) -> str:
    """Why this duration cannot be that of this product on this device; "" where it can.

    The FP32 roof is that at the clock that was measured, or the highest where it is not known.
    Behind a cold L2, A and B must come from DRAM; C may stay in the cache, so it does not count.
    """
    roof = fp32_roof_at(device, clock_mhz)
    rate = metrics.giga_per_second(metrics.flop(problem), seconds)
    if product.types == "float32" and roof and rate > roof * _TOLERANCE:
        return (
            f"implausible: {rate:,.0f} GFLOP/s is above the FP32 roof of {roof:,.0f} at this "
            "clock; it skips work or uses tensor cores"
        )
    read = (problem.m * problem.k + problem.k * problem.n) * product.bytes_of("A")
    bandwidth = metrics.giga_per_second(read, seconds)
    if cold and device.dram_peak_gbs and bandwidth > device.dram_peak_gbs * _TOLERANCE:
        return (
            f"implausible: A and B alone would have come from DRAM at {bandwidth:,.0f} GB/s, the "
            f"peak is {device.dram_peak_gbs:,.0f}; it skips work"
        )
    return ""


def fp32_roof_at(device: Device, clock_mhz: float | None) -> float | None:
    """The FP32 roof in GFLOP/s at an SM clock; at the highest clock where none is given."""
    if device.fp32_roof_gflops is None or not device.clock_mhz or not clock_mhz:
        return device.fp32_roof_gflops
    return device.fp32_roof_gflops * min(1.0, clock_mhz / device.clock_mhz)
