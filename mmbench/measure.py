"""When to stop sampling, and what a set of samples says. Knows no kernel, device or array.

It is handed ``sample``, a function that returns the seconds of one launch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Sample = Callable[[], float]
Clock = Callable[[], float]

_STEADY = 0.02  # warm-up ends when a sample is this close to the one before it


@dataclass(frozen=True)
class StopRule:
    """Stop at ``samples`` AND ``min_time`` AND ``precision``, or when ``budget`` is spent.

    Times in seconds. ``precision`` is the half-width of the median's confidence interval
    relative to the median. ``slow`` is the launch beyond which the launches that were checked
    serve as samples, since more of them would take minutes.
    """

    samples: int = 10
    min_time: float = 0.5
    precision: float = 0.005
    budget: float = 5.0
    warm_up: float = 0.1
    slow: float = 2.0


@dataclass(frozen=True)
class Timing:
    """A set of samples, each the seconds of one launch."""

    samples: tuple[float, ...]
    median: float
    low: float | None
    high: float | None
    fastest: float
    spread: float | None

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """Median with its 95 % confidence interval; spread is the IQR over the median.

        The interval is that of order statistics: the number of samples below the true median
        is binomial(n, 1/2), whatever their distribution. It exists from 6 samples on.
        """
        ordered = sorted(samples)
        n = len(ordered)
        middle = quantile(ordered, 0.5)
        rank = _lower_rank(n)
        iqr = quantile(ordered, 0.75) - quantile(ordered, 0.25)
        return cls(
            samples=tuple(samples),
            median=middle,
            low=None if rank is None else ordered[rank],
            high=None if rank is None else ordered[n - 1 - rank],
            fastest=ordered[0],
            spread=iqr / middle if n > 2 else None,
        )

    @property
    def precision(self) -> float:
        """Half-width of the confidence interval relative to the median; infinite without one."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2 / self.median


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of sorted values, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _lower_rank(n: int) -> int | None:
    """Largest index r with P(binomial(n, 1/2) <= r) <= 2.5 %, or None where there is none."""
    total, rank = 0, None
    limit = 0.025 * 2.0**n if n < 1000 else None
    if limit is None:
        return int(n / 2 - 0.5 - 1.96 * math.sqrt(n) / 2)
    for r in range(n // 2):
        total += math.comb(n, r)
        if total > limit:
            break
        rank = r
    return rank


def collect(sample: Sample, rule: StopRule, clock: Clock = time.perf_counter) -> list[float]:
    """Warm up to a steady state, then sample until the rule says stop."""
    return interleave([sample], rule, clock)[0]


def interleave(
    kernels: Sequence[Sample], rule: StopRule, clock: Clock = time.perf_counter
) -> list[list[float]]:
    """Sample several kernels in turn, A B B A A B ..., so that drift hits all of them alike.

    The budget is for each of them. Returns their samples, equally many and in rounds.
    """
    for sample in kernels:
        _warm_up(sample, rule, clock)
    taken: list[list[float]] = [[] for _ in kernels]
    begin = clock()
    order = list(range(len(kernels)))
    while not _enough(taken, rule, clock() - begin):
        for i in order:
            taken[i].append(kernels[i]())
        order.reverse()
    return taken


def _warm_up(sample: Sample, rule: StopRule, clock: Clock) -> None:
    begin, last = clock(), math.inf
    while clock() - begin < rule.warm_up:
        now = sample()
        if clock() - begin >= rule.warm_up / 2 and abs(now - last) <= _STEADY * now:
            return
        last = now


def _enough(taken: Sequence[Sequence[float]], rule: StopRule, elapsed: float) -> bool:
    count = len(taken[0])
    if count == 0:
        return False
    if elapsed >= rule.budget * len(taken):
        return True
    if count < rule.samples or elapsed < rule.min_time * len(taken):
        return False
    # The interval narrows slowly, and sorting is not free: look after each tenth more samples.
    if count % max(1, count // 10):
        return False
    return all(Timing.of(samples).precision <= rule.precision for samples in taken)
