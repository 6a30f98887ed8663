"""The JSON beside a CSV: where results come from, and every sample."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmbench import __version__, kernels
from mmbench.bench import Measured
from mmbench.device import CUDA_LIMITS, Device
from mmbench.errors import UsageError
from mmbench.product import Problem
from mmbench.results import Row
from mmbench.sidecar import Sidecar, as_json, environment
from mmbench.spec import Point

DEVICE = Device(
    runner="cuda", index=0, name="Card", uuid="GPU-1", limits=CUDA_LIMITS, memory_bytes=8 * 10**9,
    host_memory_bytes=8 * 10**9, driver="580.1", compiler="nvcc 13.0",
)  # fmt: skip


def measured(samples: tuple[float, ...] = (), **cells: Any) -> Measured:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "naive",
        "source_sha256": "0123456789abcdef", "dtype": "float32", "m": 64, "n": 64, "k": 64,
        "tile_size": 16, "params": "TILE_SIZE=16", "status": "ok", "cache": "cold",
    }  # fmt: skip
    point = Point(kernels.get("naive"), Problem(64, 64, 64), {"TILE_SIZE": 16})
    return Measured(point, Row(**(known | cells)), (samples,) if samples else ())


def test_the_environment_says_what_a_result_depends_on() -> None:
    specs = kernels.ladder()
    found = environment(DEVICE, specs)
    assert found["mmbench"] == __version__
    assert found["numpy"] == np.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["device"]["driver"] == "580.1"
    assert found["device"]["compiler"] == "nvcc 13.0"
    assert set(found["kernels"]) == {spec.name for spec in specs}
    hashes = {each["sha256"] for each in found["kernels"].values()}
    assert len(hashes) == len(specs)
    json.dumps(found, allow_nan=False)


def test_unknown_cells_are_null_and_samples_are_milliseconds() -> None:
    value = as_json([measured((0.002, 0.0015), gflops=1.5), measured(status="failed")], {"a": 1})
    assert value["a"] == 1
    good, bad = json.loads(json.dumps(value, allow_nan=False))["results"]
    assert good["samples_ms"] == [2.0, 1.5]
    assert good["gflops"] == 1.5
    assert good["registers"] is None
    assert bad["samples_ms"] == []
    assert bad["gflops"] is None


def test_the_file_is_whole_after_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmbench", "sweep", "--n", "64"])
    sidecar = Sidecar(tmp_path / "a.csv", {"mmbench": "0.1.0"}, append=False)
    path = tmp_path / "a.json"
    assert sidecar.path == path
    for count in (0, 1, 2):
        (session,) = json.loads(path.read_text())["runs"]
        assert session["command"] == ["sweep", "--n", "64"]
        assert session["mmbench"] == "0.1.0"
        assert len(session["results"]) == count
        sidecar.write(measured((0.001,)))
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"], "no scraps"


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar(tmp_path / "a.csv", {}, append=False)
    sidecar.write(measured((0.001,)))
    before = (tmp_path / "a.json").read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        sidecar.write(measured((0.002,)))
    assert (tmp_path / "a.json").read_text() == before


def test_each_session_is_a_run_of_its_own(tmp_path: Path) -> None:
    csv_path = tmp_path / "a.csv"
    Sidecar(csv_path, {"driver": "old"}, append=False).write(measured((0.001,)))
    Sidecar(csv_path, {"driver": "new"}, append=True).write(measured((0.002,)))
    runs = json.loads((tmp_path / "a.json").read_text())["runs"]
    assert [run["driver"] for run in runs] == ["old", "new"]
    assert [run["results"][0]["samples_ms"] for run in runs] == [[1.0], [2.0]]
    Sidecar(csv_path, {"driver": "newest"}, append=False)
    assert len(json.loads((tmp_path / "a.json").read_text())["runs"]) == 1


def test_a_missing_file_is_begun(tmp_path: Path) -> None:
    Sidecar(tmp_path / "a.csv", {}, append=True)
    assert len(json.loads((tmp_path / "a.json").read_text())["runs"]) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"runs": 5}', '{"runs": {"a": 1}}', "null"])
def test_a_foreign_file_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"a\.json is not the JSON of a\.csv"):
        Sidecar(tmp_path / "a.csv", {}, append=True)
    assert (tmp_path / "a.json").read_text() == text


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*a\.json"):
        Sidecar(tmp_path / "a.csv", {}, append=False)
