"""Roofs and timer reports: kept, measured again, and what is said when they cannot be had."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mmbench import cache, catalogue_view, probes
from mmbench.device import CUDA_LIMITS, Device
from mmbench.errors import MmbenchError
from mmbench.header import read_kernel

CARD = Device(
    runner="cuda", index=1, name="Card", uuid="GPU-1", limits=CUDA_LIMITS, memory_bytes=10**11,
    host_memory_bytes=10**11, fp32_roof_gflops=60_000.0, dram_peak_gbs=4000.0, driver="580",
)  # fmt: skip
ROOFS = {"fp32_gflops": 57_000.0, "fp32_clock_mhz": 1980, "copy_gbs": 3600.0, "date": "2026-01-02"}
TIMER = {
    "floors_us": {"plain events": 9.0, "cold": 3.0},
    "spins": [
        {"cycles": 20_000, "timer_us": 13.1, "inside_us": 10.0},
        {"cycles": 2_000_000, "timer_us": 1013.2, "inside_us": 1010.0},
    ],
    "clock_mhz": 1979.8,
    "nvml_clock_mhz": 1980,
}


class Answers:
    """Stands in for the process that measures."""

    def __init__(self, value: object, code: int = 0) -> None:
        self.value, self.code, self.asked = value, code, 0

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.asked += 1
        *_, index, result = command
        assert index == "1"
        if self.code == 0:
            Path(result).write_text(json.dumps(self.value))
        return subprocess.CompletedProcess(command, self.code, "", "first\nno GPU answers\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    return tmp_path


def test_roofs_are_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(ROOFS)
    monkeypatch.setattr(subprocess, "run", answers)
    first = probes.measured_roofs(CARD)
    assert first.fp32_gflops == 57_000
    assert probes.measured_roofs(CARD) == first
    assert answers.asked == 1
    probes.measured_roofs(CARD, again=True)
    assert answers.asked == 2


def test_a_file_of_another_version_is_measured_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(ROOFS)
    monkeypatch.setattr(subprocess, "run", answers)
    probes.measured_roofs(CARD)
    (kept,) = folder.glob("roofs-*.json")
    kept.write_text('{"other": 1}')
    assert probes.measured_roofs(CARD).copy_gbs == 3600
    assert answers.asked == 2


def test_a_failure_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", Answers("", code=1))
    with pytest.raises(MmbenchError, match="could not be measured: no GPU answers"):
        probes.measured_roofs(CARD)


def shown(renderable: Any, width: int = 80) -> str:
    console = Console(width=width, color_system=None, record=True, file=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_the_timers_bias_is_what_lies_beyond_its_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", Answers(TIMER))
    report = probes.timer_report(1)
    assert report.bias_us == pytest.approx(0.2)
    page = shown(catalogue_view.timer_page(CARD, report))
    for word in ("plain events", "2,000,000", "+0.20", "+0.10", "1,980 MHz", "3.00 us cold"):
        assert word in page


def test_the_page_of_a_device_shows_measured_roofs_beside_the_peaks() -> None:
    page = shown(catalogue_view.device_page(CARD, probes.Roofs(**ROOFS)))  # type: ignore[arg-type]
    assert "57,000 GFLOP/s at 1,980 MHz, 95 % of it" in page
    assert "3,600 GB/s, read and written, 90 % of it" in page
    assert "measured" not in shown(catalogue_view.device_page(CARD))


@pytest.mark.parametrize("name", ["fma", "copy", "spin"])
def test_every_probe_is_a_kernel_file_in_the_wheel(name: str) -> None:
    spec = read_kernel(probes.FOLDER / f"{name}.cu")
    assert spec.entry == f"probe_{name}"
    assert not spec.declares_traffic
