"""When sampling stops and what samples say, from scripted durations and the clock they move."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, cycle, repeat
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench.measure import StopRule, Timing, collect, geometric_mean, interleave, quantile

AT_ONCE = StopRule(samples=1, min_time=0, precision=math.inf, budget=1000, warm_up=0)


class Script:
    """Launches of scripted durations on a clock that nothing else moves.

    Whole seconds keep the clock exact.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.launches: list[str] = []

    def clock(self) -> float:
        return self.now

    def kernel(self, name: str, durations: Iterable[float]) -> Iterator[float]:
        for duration in durations:
            self.now += duration
            self.launches.append(name)
            yield duration


def rule(**changes: float) -> StopRule:
    return StopRule(**{**vars(AT_ONCE), **changes})


def collected(durations: Iterable[float], stop: StopRule) -> tuple[list[float], Script]:
    script = Script()
    return collect(script.kernel("A", durations).__next__, stop, script.clock), script


def test_stops_at_the_number_of_samples() -> None:
    samples, script = collected(range(1, 100), rule(samples=3))
    assert samples == [1, 2, 3]
    assert len(script.launches) == 3


def test_goes_on_to_the_shortest_time() -> None:
    samples, _ = collected(repeat(2), rule(samples=2, min_time=9))
    assert samples == [2] * 5


def test_goes_on_to_the_number_of_samples() -> None:
    samples, _ = collected(repeat(20), rule(samples=4, min_time=9))
    assert samples == [20] * 4


def test_goes_on_to_the_precision() -> None:
    noisy = chain([90, 110] * 4, repeat(100))
    samples, _ = collected(noisy, rule(samples=6, precision=0.01, budget=10**6))
    assert Timing.of(samples).precision <= 0.01
    assert Timing.of(samples[:-1]).precision > 0.01
    assert len(samples) > 8


def test_the_shortest_time_is_not_enough_without_precision() -> None:
    samples, _ = collected(repeat(1), rule(precision=0.01, min_time=2))
    assert len(samples) == 6  # the first number with a confidence interval


def test_budget_ends_unsteady_samples() -> None:
    samples, script = collected(cycle([1, 3]), rule(samples=6, precision=0.001, budget=50))
    assert script.now - samples[-1] < 50 <= script.now
    assert sum(samples) == script.now


def test_budget_ends_before_the_number_of_samples_and_the_shortest_time() -> None:
    samples, _ = collected(repeat(30), rule(samples=10, min_time=500, budget=60))
    assert samples == [30, 30]


def test_one_sample_is_taken_whatever_the_budget() -> None:
    assert collected(repeat(30), rule(budget=0))[0] == [30]


def test_no_warm_up() -> None:
    samples, script = collected([7], rule(warm_up=0))
    assert samples == [7]
    assert script.launches == ["A"]


def test_steady_warm_up_ends_at_half_its_time() -> None:
    # 10 is reached after 10 launches; the samples are what follows.
    samples, script = collected(chain(repeat(1, 10), [5]), rule(warm_up=20))
    assert samples == [5]
    assert len(script.launches) == 11


def test_warm_up_goes_on_until_two_launches_are_alike() -> None:
    samples, _ = collected([10, 9, 8, 7, 7.1, 5], rule(warm_up=60))
    assert samples == [5]


def test_a_faster_launch_is_not_steady() -> None:
    samples, _ = collected([20, 12, 9, 9, 5], rule(warm_up=60))
    assert samples == [5]


def test_unsteady_warm_up_ends_with_its_time() -> None:
    samples, _ = collected(chain([1, 3] * 5, [5]), rule(warm_up=20))
    assert samples == [5]


def test_the_first_launch_is_not_steady() -> None:
    # It has no launch before it; here it is the slow one that a warm-up is for.
    samples, _ = collected([12, 4, 4, 5], rule(warm_up=20))
    assert samples == [5]


def interleaved(
    durations: list[Iterable[float]], stop: StopRule
) -> tuple[list[list[float]], Script]:
    script = Script()
    kernels = [
        script.kernel(name, each).__next__ for name, each in zip("ABC", durations, strict=False)
    ]
    return interleave(kernels, stop, script.clock), script


def test_kernels_take_turns_there_and_back() -> None:
    taken, script = interleaved([range(1, 9), range(11, 19), range(21, 29)], rule(samples=4))
    assert "".join(script.launches) == "ABCCBAABCCBA"
    assert taken == [[1, 2, 3, 4], [11, 12, 13, 14], [21, 22, 23, 24]]


def test_each_kernel_is_warmed_up() -> None:
    taken, script = interleaved([[1, 1, 5], [1, 1, 6]], rule(warm_up=3))
    assert taken == [[5], [6]]
    assert "".join(script.launches) == "AABBAB"


def test_budget_and_shortest_time_are_for_each_kernel() -> None:
    taken, _ = interleaved([repeat(1), repeat(1)], rule(min_time=5))
    assert [len(samples) for samples in taken] == [5, 5]
    taken, _ = interleaved([cycle([1, 3]), cycle([3, 1])], rule(precision=0, budget=10))
    assert [len(samples) for samples in taken] == [5, 5]


def test_all_kernels_must_be_precise() -> None:
    noisy = chain([90, 110] * 4, repeat(100))
    taken, _ = interleaved([repeat(100), noisy], rule(samples=6, precision=0.01, budget=10**6))
    assert Timing.of(taken[1]).precision <= 0.01
    assert len(taken[0]) == len(taken[1]) > 8


@pytest.mark.parametrize(
    ("count", "rank"),
    # P(binomial(n, 1/2) <= rank) is at most 2.5 %: 1/64 for 6, 10/512 for 9, 79/4096 for 12 ...
    [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (14, 2), (15, 3), (20, 5), (30, 9), (100, 39)],
)
def test_interval_of_order_statistics(count: int, rank: int) -> None:
    timing = Timing.of(range(1, count + 1))
    assert (timing.low, timing.high) == (rank + 1, count - rank)


@pytest.mark.parametrize("count", range(1, 6))
def test_no_interval_below_six_samples(count: int) -> None:
    timing = Timing.of([2.0] * count)
    assert (timing.low, timing.high) == (None, None)
    assert timing.precision == math.inf


@pytest.mark.parametrize("count", [6, 7, 50, 51, 999, 1000, 1001, 1024, 2500])
def test_interval_is_the_narrowest_that_holds_95_percent(count: int) -> None:
    low = Timing.of(range(count)).low
    assert low is not None
    # The number of samples below the true median is binomial(n, 1/2): at most 2.5 % a side.
    below = list(accumulate(math.comb(count, r) for r in range(int(low) + 4)))
    assert 40 * below[int(low)] <= 2**count
    # One rank further in would be too narrow; beyond 1000 samples a rank or two do not matter.
    assert 40 * below[int(low) + (1 if count < 1000 else 3)] > 2**count


def test_timing_of_known_samples() -> None:
    timing = Timing.of([5.0, 1.0, 2.0, 4.0, 3.0, 100.0])
    assert timing.samples == (5.0, 1.0, 2.0, 4.0, 3.0, 100.0)
    assert timing.median == 3.5
    assert timing.fastest == 1.0
    assert (timing.low, timing.high) == (1.0, 100.0)
    assert timing.spread == pytest.approx((4.75 - 2.25) / 3.5)
    assert timing.precision == pytest.approx(99 / 2 / 3.5)


def test_spread_needs_three_samples() -> None:
    assert Timing.of([1.0, 2.0]).spread is None
    assert Timing.of([1.0, 2.0, 3.0]).spread == pytest.approx(0.5)


durations = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


@settings(deadline=None)
@given(durations)
def test_low_median_high(samples: list[float]) -> None:
    timing = Timing.of(samples)
    assert timing.fastest == min(samples)
    assert min(samples) <= timing.median <= max(samples)
    if timing.low is not None and timing.high is not None:
        assert timing.fastest <= timing.low <= timing.median <= timing.high <= max(samples)
        assert {timing.low, timing.high} <= set(samples)


@settings(deadline=None)
@given(durations, st.randoms(use_true_random=False))
def test_order_of_samples_does_not_matter(samples: list[float], random: Random) -> None:
    shuffled = samples[:]
    random.shuffle(shuffled)
    one, other = Timing.of(samples), Timing.of(shuffled)
    assert other.samples == tuple(shuffled)
    for name in ("median", "low", "high", "fastest", "spread", "precision"):
        assert getattr(one, name) == getattr(other, name)


@settings(deadline=None)
@given(durations, st.floats(0, 1))
def test_quantile_is_numpys(samples: list[float], share: float) -> None:
    ordered = sorted(samples)
    assert quantile(ordered, share) == pytest.approx(float(np.quantile(ordered, share)), rel=1e-12)


def test_on_a_warm_device_two_launches_alike_are_enough() -> None:
    warm = dataclasses.replace(rule(warm_up=60), warm=True)
    samples, script = collected([12, 9, 9, 5], warm)
    assert samples == [5]
    assert len(script.launches) == 4
    assert collected([30, 9, 20, 1, 5], warm)[0] == [5]


def test_several_processes_count_alike() -> None:
    """The one with more samples, or with a wild one, has no larger say."""
    parts = [Timing.of([1.0, 1.0, 50.0]), Timing.of([4.0] * 9)]
    timing = Timing.of_processes(parts)
    assert timing.median == pytest.approx(2.0)
    assert timing.processes == (parts[0].samples, parts[1].samples)
    assert timing.samples == parts[0].samples + parts[1].samples
    assert timing.fastest == 1.0
    assert timing.between == pytest.approx(1.5)
    assert timing.outliers == 3


def test_one_process_has_nothing_between() -> None:
    timing = Timing.of([1.0, 2.0])
    assert Timing.of_processes([timing]) is timing
    assert timing.between is None


def test_the_interval_of_two_processes() -> None:
    """By hand: logarithms 0 and 2 have the mean 1 and the standard error 1."""
    middle, low, high = geometric_mean([1.0, math.e**2])
    assert middle == pytest.approx(math.e)
    assert math.log(high) - 1 == pytest.approx(12.706, abs=1e-3)
    assert 1 - math.log(low) == pytest.approx(12.706, abs=1e-3)


@pytest.mark.parametrize("count", [2, 3, 5, 10, 20, 40])
def test_19_of_20_intervals_hold_the_truth(count: int) -> None:
    """However many processes: too narrow a quantile of Student's t would show."""
    logs = np.random.default_rng(count).normal(0.0, 0.01, (4000, count))
    intervals = [geometric_mean(row) for row in np.exp(logs).tolist()]
    share = sum(low <= 1.0 <= high for _, low, high in intervals) / len(intervals)
    assert 0.94 < share < 0.96
