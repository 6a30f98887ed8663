"""The best tile, and when two tiles cannot be told apart."""

from __future__ import annotations

from typing import Any

from mmbench.best import best_tiles
from mmbench.results import Row


def make_row(tile: int | None, median: float | None, **cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "plain",
        "source_sha256": "0123456789abcdef", "dtype": "float32", "m": 64, "n": 64, "k": 64,
        "tile_size": tile, "params": f"TILE_SIZE={tile}", "cache": "cold",
        "status": "ok" if median else "failed", "time_ms_median": median,
    }  # fmt: skip
    return Row(**(known | cells))


def interval(tile: int, low: float, median: float, high: float) -> Row:
    return make_row(tile, median, time_ms_low=low, time_ms_high=high)


def test_the_fastest_tile_is_the_best() -> None:
    rows = [interval(8, 2.9, 3.0, 3.1), interval(16, 0.9, 1.0, 1.1), interval(32, 1.9, 2.0, 2.1)]
    (best,) = best_tiles(rows)
    assert best.row.tile_size == 16
    assert best.tiles == (16,)
    assert best.ties == ()


def test_overlapping_intervals_are_a_tie() -> None:
    rows = [interval(32, 0.95, 1.0, 1.1), interval(16, 1.05, 1.2, 1.3), interval(8, 1.11, 1.3, 1.4)]
    (best,) = best_tiles(rows)
    assert best.row.tile_size == 32
    assert best.tiles == (16, 32)


def test_intervals_that_touch_are_a_tie() -> None:
    (best,) = best_tiles([interval(8, 0.9, 1.0, 1.1), interval(16, 1.1, 1.2, 1.3)])
    assert best.tiles == (8, 16)


def test_without_intervals_close_medians_are_a_tie() -> None:
    (best,) = best_tiles([make_row(8, 1.0), make_row(16, 1.04), make_row(32, 1.2)])
    assert best.tiles == (8, 16)


def test_a_row_with_an_interval_against_one_without() -> None:
    (best,) = best_tiles([interval(8, 0.99, 1.0, 1.01), make_row(16, 1.5)])
    assert best.tiles == (8,)


def test_only_rows_that_are_right_compete() -> None:
    rows = [make_row(8, None), make_row(16, 2.0), make_row(32, 1.0, status="wrong")]
    (best,) = best_tiles(rows)
    assert best.tiles == (16,)


def test_nothing_right_has_no_best() -> None:
    assert best_tiles([make_row(8, None), make_row(16, None)]) == []
    assert best_tiles([]) == []


def test_one_tile_is_no_choice() -> None:
    assert best_tiles([make_row(8, 1.0)]) == []
    assert best_tiles([make_row(None, 1.0, params="")]) == []


def test_each_kernel_problem_and_dtype_has_its_own() -> None:
    rows = [
        make_row(tile, median, **cells)
        for cells in ({}, {"kernel": "other"}, {"n": 128}, {"k": 128}, {"dtype": "float64"})
        for tile, median in ((8, 1.0), (16, 2.0))
    ]
    found = best_tiles(rows)
    assert [best.tiles for best in found] == [(8,)] * 5
    assert len({(b.row.kernel, b.row.m, b.row.n, b.row.k, b.row.dtype) for b in found}) == 5


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = [interval(8, 0.95, 1.0, 1.1), interval(16, 1.05, 1.2, 1.3), interval(32, 3.0, 4.0, 5.0)]
    assert best_tiles(rows) == best_tiles(rows[::-1])


def test_a_tile_measured_twice_is_no_tie_of_itself() -> None:
    """A resumed file holds a point twice when its kernel was edited in between."""
    old = make_row(8, 1.0, source_sha256="old")
    (best,) = best_tiles([old, make_row(8, 1.01), make_row(16, 2.0)])
    assert best.tiles == (8,)
