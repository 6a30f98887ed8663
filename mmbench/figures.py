"""The figures of a right row: times, rates, power, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator

from mmbench import metrics
from mmbench.device import Device
from mmbench.plausibility import implausible
from mmbench.spec import Point
from mmbench.worker import Outcome

_NOISY = 0.10  # spread from which the samples are called noisy
_FLOORS = 2.0  # a duration of so many timer floors is mostly the launch's own
_LARGEST_INT = 2**31 - 1


def cells(point: Point, outcome: Outcome, device: Device, cold: bool) -> dict[str, object]:
    """The cells of a point that was verified and timed."""
    timing, telemetry, roof = outcome.timing, outcome.telemetry, device.fp32_roof_gflops
    assert timing is not None
    product, seconds = point.spec.product, timing.median
    flop = metrics.flop(point.problem)
    declared = point.spec.declares_traffic
    requested = metrics.requested_bytes(point.traffic(), product) if declared else None
    compulsory = metrics.compulsory_bytes(point.problem, product)
    gflops = metrics.giga_per_second(flop, seconds)
    found: dict[str, object] = {
        "processes": len(timing.processes),
        "samples": len(timing.samples),
        "time_ms_median": seconds * 1e3,
        "time_ms_low": _milliseconds(timing.low),
        "time_ms_high": _milliseconds(timing.high),
        "time_ms_min": timing.fastest * 1e3,
        "spread_percent": None if timing.spread is None else timing.spread * 100,
        "process_spread_percent": None if timing.between is None else timing.between * 100,
        "outliers": timing.outliers,
        "timer_floor_ms": _milliseconds(outcome.floor),
        "flop": flop,
        "gflops": gflops,
        "roof_percent": 100 * gflops / roof if roof and product.types == "float32" else None,
        "requested_bytes": requested,
        "requested_gbs": requested and metrics.giga_per_second(requested, seconds),
        "compulsory_bytes": compulsory,
        "compulsory_gbs": metrics.giga_per_second(compulsory, seconds),
        "arithmetic_intensity": (
            metrics.arithmetic_intensity(flop, requested) if requested else None
        ),
        "remarks": "; ".join(_remarks(point, outcome, device, cold)) or None,
    }
    if telemetry is not None:
        found |= {
            "sm_clock_mhz": telemetry.sm_clock_mhz,
            "power_w": telemetry.power_w,
            "gflops_per_watt": gflops / telemetry.power_w if telemetry.power_w else None,
            "joules": telemetry.power_w * seconds,
            "temperature_c": telemetry.temperature_c,
            "throttle": telemetry.throttle,
        }
    return found


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _remarks(point: Point, outcome: Outcome, device: Device, cold: bool) -> Iterator[str]:
    timing, telemetry = outcome.timing, outcome.telemetry
    assert timing is not None
    clock = telemetry.sm_clock_mhz if telemetry else None
    product, problem = point.spec.product, point.problem
    if reason := implausible(problem, product, timing.median, cold, device, clock):
        yield reason
    if outcome.floor is not None and timing.median < _FLOORS * outcome.floor:
        yield f"at the timer's floor: an empty kernel reads {outcome.floor * 1e6:.1f} us"
    if outcome.apart:
        yield "not measured in turns: one of its group failed"
    if timing.spread is not None and timing.spread > _NOISY:
        yield f"noisy: spread {timing.spread * 100:.0f} %"
    if telemetry is not None and telemetry.other_processes:
        yield f"shared: {telemetry.other_processes} other processes on the device"
    m, n, k = problem.m, problem.n, problem.k
    if max(m * k, k * n, m * n) > _LARGEST_INT:
        yield "a matrix has more elements than an int can index"
