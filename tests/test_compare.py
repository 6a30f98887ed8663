"""Is one faster? Ratios whose truth is known beforehand."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from mmbench import axes, kernels
from mmbench.bench import Measured
from mmbench.compare import (
    Ratio,
    compare_files,
    compare_measured,
    group_points,
    ratio_of,
    ratio_of_rounds,
    reason,
)
from mmbench.csvfile import CsvWriter
from mmbench.errors import UsageError
from mmbench.product import Problem
from mmbench.results import Row
from mmbench.spec import Point


def make_row(**cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "plain",
        "source_sha256": "0123456789abcdef", "dtype": "float32", "m": 64, "n": 64, "k": 64,
        "tile_size": 16, "params": "TILE_SIZE=16", "status": "ok", "cache": "cold",
    }  # fmt: skip
    return Row(**(known | cells))


def timed(median: float, half: float | None = None, **cells: Any) -> Row:
    if half is not None:
        cells |= {"time_ms_low": median - half, "time_ms_high": median + half}
    return make_row(time_ms_median=median, **cells)


def noisy(mean: float, count: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [mean * generator.uniform(0.98, 1.02) for _ in range(count)]


def test_identical_samples_are_the_same() -> None:
    samples = noisy(1e-3, 30, seed=1)
    ratio = ratio_of_rounds(samples, samples)
    assert ratio == Ratio(1.0, 1.0, 1.0)
    assert ratio is not None
    assert ratio.verdict == "same"


@pytest.mark.parametrize("truth", [0.25, 0.8, 1.25, 4.0, 1000.0])
def test_a_known_ratio_lies_in_its_interval(truth: float) -> None:
    ratio = ratio_of_rounds(noisy(truth * 1e-3, 40, seed=2), noisy(1e-3, 40, seed=3))
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.low < truth < ratio.high
    assert ratio.high / ratio.low < 1.04
    assert ratio.verdict == ("faster" if truth > 1 else "slower")


def test_equal_kernels_are_told_apart_about_as_seldom_as_promised() -> None:
    verdicts = [
        ratio.verdict
        for seed in range(40)
        if (ratio := ratio_of_rounds(noisy(1.0, 25, seed), noisy(1.0, 25, seed + 1000)))
    ]
    assert len(verdicts) == 40
    assert verdicts.count("faster") + verdicts.count("slower") <= 6


def test_the_interval_narrows_with_more_rounds() -> None:
    widths = []
    for count in (10, 400):
        ratio = ratio_of_rounds(noisy(2.0, count, seed=4), noisy(1.0, count, seed=5))
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        widths.append(ratio.high - ratio.low)
    assert widths[1] < widths[0] / 2


def test_drift_that_hits_both_cancels() -> None:
    """A card that warms up slows both kernels; the rounds pair what was measured together."""
    drift = [1 + 0.5 * i / 40 for i in range(40)]
    other = [1e-3 * d * noise for d, noise in zip(drift, noisy(1.0, 40, seed=6), strict=True)]
    base = [1.1 * sample for sample in other]
    ratio = ratio_of_rounds(base, other)
    assert ratio is not None
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)
    assert ratio.verdict == "faster"
    # The same samples out of step tell far less.
    unpaired = ratio_of_rounds(base, random.Random(7).sample(other, 40))
    assert unpaired is not None
    assert unpaired.low is not None
    assert unpaired.high is not None
    assert unpaired.high - unpaired.low > 0.05


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_rounds_have_a_ratio_but_no_interval(count: int) -> None:
    ratio = ratio_of_rounds([2.0] * count, [1.0] * count)
    assert ratio == Ratio(2.0, None, None)
    assert ratio is not None
    assert ratio.verdict == "unclear"


def test_six_rounds_are_enough() -> None:
    assert ratio_of_rounds([2.0] * 6, [1.0] * 6) == Ratio(2.0, 2.0, 2.0)


def test_no_samples_have_no_ratio() -> None:
    assert ratio_of_rounds([], []) is None
    assert ratio_of_rounds([1.0], []) is None


def test_the_interval_is_reproducible() -> None:
    base, other = noisy(2.0, 20, seed=8), noisy(1.0, 20, seed=9)
    assert ratio_of_rounds(base, other, seed=1) == ratio_of_rounds(base, other, seed=1)


def test_the_first_is_the_baseline_of_all_others() -> None:
    point = Point(kernels.get("naive"), Problem(64, 64, 64), {"TILE_SIZE": 16})
    group = [
        Measured(point, make_row(kernel="base"), ((4.0,) * 8,)),
        Measured(point, make_row(kernel="twice"), ((2.0,) * 8,)),
        Measured(point, make_row(kernel="broken", status="failed")),
    ]
    twice, broken = compare_measured(group)
    assert (twice.baseline.kernel, twice.other.kernel) == ("base", "twice")
    assert twice.ratio == Ratio(2.0, 2.0, 2.0)
    assert broken.ratio is None


def by_process(*factors: float) -> tuple[Measured, Measured]:
    """Two that were measured in turns, the other slower by a factor of its own in each process."""
    point = Point(kernels.get("naive"), Problem(64, 64, 64), {"TILE_SIZE": 16})
    first = tuple(tuple(noisy(1.0, 40, seed)) for seed in range(len(factors)))
    other = tuple(
        tuple(factor * sample for sample in noisy(1.0, 40, 50 + seed))
        for seed, factor in enumerate(factors)
    )
    return Measured(point, make_row(), first), Measured(point, make_row(), other)


def test_what_differs_from_process_to_process_is_unclear() -> None:
    """In each the other is clearly slower or faster; samples thrown together would be sure."""
    found = ratio_of(*by_process(1.04, 1.05, 1.06, 0.98))
    assert found is not None
    assert found.verdict == "unclear"
    assert found.value == pytest.approx(1 / 1.032, rel=0.01)


def test_what_all_processes_agree_on_is_clear() -> None:
    found = ratio_of(*by_process(1.05, 1.051, 1.049, 1.05))
    assert found is not None
    assert found.verdict == "slower"


def test_what_was_measured_apart_has_no_rounds() -> None:
    """The extreme quotients: 4.1 / 1.9 and 3.9 / 2.1."""
    first, other = by_process(1.0)
    first = dataclasses.replace(first, row=timed(4.0, 0.1), apart=True)
    other = dataclasses.replace(other, row=timed(2.0, 0.1))
    assert ratio_of(first, other) == Ratio(2.0, pytest.approx(3.9 / 2.1), pytest.approx(4.1 / 1.9))


def test_one_process_goes_by_rounds() -> None:
    first, other = by_process(1.05)
    assert ratio_of(first, other) == ratio_of_rounds(first.samples, other.samples)


def test_groups_are_of_one_problem_and_tile(write_kernel: Any) -> None:
    body = "__global__ void matmul(const float *A, const float *B, float *C, int N) {}"
    path: Path = write_kernel("untiled", body, block='["16", "16"]', grid='["1", "1"]')
    path.write_text(path.read_text().replace("// [params]\n// TILE_SIZE = [16]\n", ""))
    specs = kernels.select(["naive", "tiled", str(path)])
    groups = group_points(axes.points(specs, axes.problems([32, 64]), [8, 16]))
    assert [[(p.problem.n, p.spec.name, p.tile) for p in group] for group in groups] == [
        [(n, "naive", tile), (n, "tiled", tile), (n, "untiled", None)]
        for n in (32, 64)
        for tile in (8, 16)
    ]
    alone = group_points(axes.points(specs[2:], axes.problems([32]), [8, 16]))
    assert [[p.tile for p in group] for group in alone] == [[None]]


def test_every_group_compares_at_least_two() -> None:
    """Kernels with other lists of tiles still meet, or it is said that they do not."""
    specs = kernels.select(["naive", "tiled"])
    groups = group_points(axes.points(specs, axes.problems([64]), None))
    assert all(len(group) == 2 for group in groups)


def test_the_reason_names_what_differs() -> None:
    base = make_row(requested_bytes=32 * 10**9, registers=40, occupancy_percent=100.0,
                    shared_bytes=0)  # fmt: skip
    other = make_row(kernel="better", requested_bytes=10**9, registers=48, occupancy_percent=62.5,
                     shared_bytes=8192)  # fmt: skip
    told = reason(base, other)
    assert "better requests 1/32 of the bytes (1 GB, plain 32 GB)" in told
    assert "registers 48 (40)" in told
    assert "occupancy 62 % (100 %)" in told
    assert "shared memory 8,192 B (0 B)" in told


def test_the_reason_when_requests_are_alike_or_more_or_unknown() -> None:
    base = make_row(requested_bytes=2 * 10**9)
    assert reason(base, make_row(requested_bytes=2 * 10**9)) == "both request 2 GB"
    assert "requests 1.5 times the bytes" in reason(base, make_row(requested_bytes=3 * 10**9))
    assert reason(base, make_row()) == ""


# Files.


def write(path: Path, *rows: Row) -> Path:
    with CsvWriter(path) as writer:
        for row in rows:
            writer.write(row)
    return path


def test_files_are_matched_by_point(tmp_path: Path) -> None:
    old = write(
        tmp_path / "old.csv",
        timed(4.0, 0.1, n=1), timed(1.0, 0.1, n=2), timed(1.0, 0.1, n=3), timed(1.0, n=4),
    )  # fmt: skip
    new = write(
        tmp_path / "new.csv",
        timed(1.0, n=5), timed(1.0, 0.1, n=3), timed(2.0, 0.1, n=2), timed(2.0, 0.1, n=1),
        timed(0.5, n=6),
    )  # fmt: skip
    found = compare_files(old, new)
    by_n = {each.other.n: each.ratio for each in found.comparisons}
    assert {n: ratio.value for n, ratio in by_n.items() if ratio} == {1: 2.0, 2: 0.5, 3: 1.0}
    assert [ratio.verdict for ratio in by_n.values() if ratio] == ["faster", "slower", "unclear"]
    assert found.geometric_mean == pytest.approx(1.0)
    assert [row.n for row in found.only_old] == [4]
    assert [row.n for row in found.only_new] == [5, 6]


def test_the_geometric_mean_is_of_what_could_be_compared(tmp_path: Path) -> None:
    failed = make_row(n=3, status="failed", reason="it broke")
    old = write(tmp_path / "old.csv", timed(8.0, n=1), timed(1.0, n=2), timed(1.0, n=3))
    new = write(tmp_path / "new.csv", timed(1.0, n=1), timed(0.5, n=2), failed)
    found = compare_files(old, new)
    assert found.geometric_mean == pytest.approx(4.0)
    last = found.comparisons[-1]
    assert last.ratio is None
    assert last.reason == "it broke"


def test_nothing_to_compare_has_no_mean(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", make_row(status="failed"))
    assert compare_files(path, path).geometric_mean is None


def test_a_file_against_itself_is_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", timed(1.0, 0.001), timed(2.0, 0.0, n=128))
    found = compare_files(path, path)
    assert [each.ratio.verdict for each in found.comparisons if each.ratio] == ["same", "same"]
    assert found.geometric_mean == 1.0
    assert found.only_old == found.only_new == ()


def test_medians_without_intervals_are_unclear(tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", timed(2.0, 0.1))
    new = write(tmp_path / "new.csv", timed(1.0))
    (each,) = compare_files(old, new).comparisons
    assert each.ratio == Ratio(2.0)


def test_another_source_is_the_same_point(tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", timed(2.0, 0.1))
    new = write(tmp_path / "new.csv", timed(1.0, 0.1, source_sha256="edited"))
    (each,) = compare_files(old, new).comparisons
    assert each.ratio is not None
    assert each.ratio.verdict == "faster"


def test_the_devices_are_told(tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", timed(2.0), timed(2.0, n=128, device="Other card"))
    new = write(tmp_path / "new.csv", timed(1.0))
    assert compare_files(old, new).devices == ("Card, Other card", "Card")


def test_files_with_no_point_in_common_are_told(tmp_path: Path) -> None:
    old = write(tmp_path / "old.csv", timed(2.0))
    new = write(tmp_path / "new.csv", timed(2.0, kernel="another"))
    with pytest.raises(UsageError, match="no point in common"):
        compare_files(old, new)
    with pytest.raises(UsageError, match="no point in common"):
        compare_files(old, write(tmp_path / "empty.csv"))
