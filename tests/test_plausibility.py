"""A rate that no device can reach is marked, and never the best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mmbench.best import best_tiles
from mmbench.device import CUDA_LIMITS, Device
from mmbench.figures import cells
from mmbench.kernels import get
from mmbench.measure import Timing
from mmbench.plausibility import fp32_roof_at, implausible
from mmbench.product import Problem, Product
from mmbench.results import Row
from mmbench.runners import Telemetry
from mmbench.spec import Point
from mmbench.worker import Outcome

CARD = Device(
    runner="cuda", index=0, name="Card", uuid="GPU-1", limits=CUDA_LIMITS,
    memory_bytes=10**11, host_memory_bytes=10**11, clock_mhz=2000.0,
    fp32_roof_gflops=60_000.0, dram_peak_gbs=4000.0,
)  # fmt: skip
N = Problem(1000, 1000, 1000)
FLOAT = Product()


def seconds_at(gflops: float) -> float:
    return 2 * 1000**3 / gflops / 1e9


@pytest.mark.parametrize(
    ("gflops", "clock", "word"),
    [
        (59_000, None, ""),
        (61_000, None, ""),  # within the tolerance
        (62_000, None, "FP32 roof of 60,000"),
        (45_000, 1500.0, ""),
        (47_000, 1500.0, "FP32 roof of 45,000"),
        (62_000, 2500.0, "FP32 roof of 60,000"),  # a clock beyond the highest is a wrong reading
    ],
)
def test_the_roof_is_that_of_the_clock(gflops: float, clock: float | None, word: str) -> None:
    found = implausible(N, FLOAT, seconds_at(gflops), False, CARD, clock)
    assert word in found
    assert bool(found) == bool(word)


def test_the_fp32_roof_is_no_limit_of_other_types() -> None:
    half = Product("float16", "float16")
    assert implausible(N, half, seconds_at(500_000), False, CARD, None) == ""


def test_cold_inputs_come_from_dram() -> None:
    thin = Problem(8000, 1, 8000)  # A alone is 256 MB
    just = (8000 * 8000 + 8000) * 4 / 4000e9
    assert implausible(thin, FLOAT, just, True, CARD, None) == ""
    assert "DRAM at 4," in implausible(thin, FLOAT, just / 1.1, True, CARD, None)
    assert implausible(thin, FLOAT, just / 1.1, False, CARD, None) == ""


def test_nothing_is_claimed_of_a_device_whose_roofs_are_unknown() -> None:
    unknown = replace(CARD, fp32_roof_gflops=None, dram_peak_gbs=None)
    assert implausible(N, FLOAT, 1e-9, True, unknown, 1500.0) == ""
    assert fp32_roof_at(unknown, 1500.0) is None


def figures(samples: list[float], floor: float | None = None, **reading: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "sm_clock_mhz": 2000, "power_w": 500.0, "temperature_c": 40, "throttle": "",
    }  # fmt: skip
    telemetry = Telemetry(**(known | reading))
    outcome = Outcome(timing=Timing.of(samples), telemetry=telemetry, floor=floor)
    return cells(Point(get("naive"), N, {"TILE_SIZE": 16}), outcome, CARD, False)


def test_power_gives_efficiency_and_energy() -> None:
    found = figures([1e-3] * 8, power_w=400.0)
    assert found["gflops"] == pytest.approx(2000.0)
    assert found["gflops_per_watt"] == pytest.approx(5.0)
    assert found["joules"] == pytest.approx(0.4)
    assert found["remarks"] is None


@pytest.mark.parametrize(
    ("samples", "options", "word"),
    [
        ([5e-6] * 8, {"floor": 3e-6}, "timer's floor"),
        ([7e-6] * 8, {"floor": 3e-6}, "implausible"),  # 286 TFLOP/s, and beyond the floor
        ([1e-3, 1.5e-3, 2e-3, 1e-3, 1.5e-3, 2e-3], {}, "noisy: spread"),
        ([1e-3] * 8, {"other_processes": 2}, "shared: 2 other processes"),
    ],
)
def test_remarks(samples: list[float], options: dict[str, Any], word: str) -> None:
    assert word in figures(samples, **options)["remarks"]


def test_outliers_are_counted_and_kept() -> None:
    found = figures([1.00e-3, 1.01e-3, 1.02e-3, 1.03e-3, 1.04e-3, 1.05e-3, 9e-3])
    assert found["outliers"] == 1
    assert found["samples"] == 7
    assert figures([1e-3, 1.1e-3, 1.2e-3, 1.3e-3])["outliers"] == 0


def test_an_implausible_row_is_never_the_best() -> None:
    known: dict[str, Any] = {
        "timestamp": "", "mmbench_version": "", "runner": "cuda", "device": "", "device_uuid": "",
        "kernel": "k", "source_sha256": "", "dtype": "float32", "m": 8, "n": 8, "k": 8,
        "status": "ok",
    }  # fmt: skip
    slow = Row(**known, tile_size=8, params="TILE_SIZE=8", time_ms_median=2.0)
    fast = Row(**known, tile_size=16, params="TILE_SIZE=16", time_ms_median=1.0)
    assert best_tiles([slow, fast])[0].tiles == (16,)
    lying = replace(fast, remarks="implausible: 1e9 GFLOP/s")
    assert best_tiles([slow, lying])[0].tiles == (8,)
