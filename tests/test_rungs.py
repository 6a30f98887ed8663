"""What each rung of the ladder gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mmbench import kernels
from mmbench.results import Row
from mmbench.rungs import climb

NAIVE = kernels.get("naive")
TILED = kernels.get("tiled")


def row(kernel: str, gflops: float | None, tile: int = 8, **cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "", "mmbench_version": "", "runner": "cuda", "device": "", "device_uuid": "",
        "kernel": kernel, "source_sha256": "", "dtype": "float32", "m": 8, "n": 8, "k": 8,
        "tile_size": tile, "params": f"TILE_SIZE={tile}", "gflops": gflops,
        "status": "ok" if gflops else "wrong",
    }  # fmt: skip
    return Row(**(known | cells))


def test_each_rung_counts_by_its_fastest_row() -> None:
    rows = [row("naive", 10.0), row("naive", 20.0, 16), row("tiled", 30.0), row("tiled", 50.0, 16)]
    first, second = climb([NAIVE, TILED], rows)
    assert (first.row.tile_size, first.gain, first.reason) == (16, None, "")
    assert second.gain == pytest.approx(2.5)


def test_an_implausible_row_does_not_count() -> None:
    rows = [row("naive", 20.0), row("tiled", 30.0), row("tiled", 9e9, 16, remarks="implausible: x")]
    assert climb([NAIVE, TILED], rows)[1].gain == pytest.approx(1.5)


def test_a_wrong_rung_stands_there_without_a_gain() -> None:
    found = climb([NAIVE, TILED], [row("naive", 20.0), row("tiled", None)])
    assert [(rung.row.status, rung.gain) for rung in found] == [("ok", None), ("wrong", None)]


def test_a_rung_after_a_wrong_one_gains_nothing() -> None:
    third = replace(TILED, name="third", after="tiled")
    rows = [row("naive", 20.0), row("tiled", None), row("third", 60.0)]
    assert [rung.gain for rung in climb([NAIVE, TILED, third], rows)] == [None, None, None]


def test_the_reason_is_what_changed() -> None:
    rows = [
        row("naive", 20.0, requested_bytes=3_200_000_000, registers=32),
        row("tiled", 40.0, requested_bytes=100_000_000, registers=40),
    ]
    assert "requests 1/32 of the bytes" in climb([NAIVE, TILED], rows)[1].reason
