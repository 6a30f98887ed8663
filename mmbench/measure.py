"""When to stop sampling, and what a set of samples says. Knows no kernel, device or array.

It is handed ``sample``, a function that returns the seconds of one launch.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Sample = Callable[[], float]
Clock = Callable[[], float]

_FENCE = 3.0  # IQRs: Tukey's outer fences (Exploratory Data Analysis, 1977)
_STEADY = 0.02  # warm-up ends when a sample is this close to the one before it
# The 97.5 % quantile of Student's t with 1, 2, ... degrees of freedom; with more it is smaller.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip


@dataclass(frozen=True)
class StopRule:
    """Stop at ``samples`` AND ``min_time`` AND ``precision``, or when ``budget`` is spent.

    Times in seconds. ``precision`` is the half-width of the median's confidence interval
    relative to the median. ``slow`` is the launch beyond which the launches that were checked
    serve as samples, since more of them would take minutes. ``warm``: the device has just been
    busy, so two launches alike end the warm-up at once.
    """

    samples: int = 10
    min_time: float = 0.5
    precision: float = 0.005
    budget: float = 5.0
    warm_up: float = 0.1
    slow: float = 2.0
    warm: bool = False


@dataclass(frozen=True)
class Timing:
    """A set of samples, each the seconds of one launch."""

    samples: tuple[float, ...]
    median: float
    low: float | None
    high: float | None
    fastest: float
    spread: float | None
    outliers: int = 0  # samples beyond the outer fences: 3 IQR outside of the quartiles
    processes: tuple[tuple[float, ...], ...] = ()  # the samples of each process

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """Median with its 95 % confidence interval; spread is the IQR over the median.

        Outliers are counted, never dropped. The interval is that of order statistics: the number
        of samples below the true median is binomial(n, 1/2), whatever their distribution. It
        exists from 6 samples on.
        """
        ordered = sorted(samples)
        n = len(ordered)
        middle = quantile(ordered, 0.5)
        rank = _lower_rank(n)
        first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
        iqr = third - first
        fences = first - _FENCE * iqr, third + _FENCE * iqr
        return cls(
            samples=tuple(samples),
            median=middle,
            low=None if rank is None else ordered[rank],
            high=None if rank is None else ordered[n - 1 - rank],
            fastest=ordered[0],
            spread=iqr / middle if n > 2 else None,
            outliers=sum(not fences[0] <= s <= fences[1] for s in ordered) if n > 3 else 0,
            processes=(tuple(samples),),
        )

    @classmethod
    def of_processes(cls, timings: Sequence[Timing]) -> Timing:
        """What several processes say together: the geometric mean of their medians.

        A process has a context and memory of its own, which may make it faster or slower than
        others for as long as it lives. So the interval is that of the mean, not of the samples.
        """
        if len(timings) == 1:
            return timings[0]
        every = cls.of([seconds for timing in timings for seconds in timing.samples])
        middle, low, high = geometric_mean([timing.median for timing in timings])
        return replace(
            every,
            median=middle,
            low=low,
            high=high,
            processes=tuple(samples for timing in timings for samples in timing.processes),
        )

    @property
    def between(self) -> float | None:
        """How far the processes' medians lie apart, relative to their mean; None for one."""
        if len(self.processes) < 2:
            return None
        medians = [statistics.median(samples) for samples in self.processes]
        return (max(medians) - min(medians)) / self.median

    @property
    def precision(self) -> float:
        """Half-width of the confidence interval relative to the median; infinite without one."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2 / self.median


def geometric_mean(values: Sequence[float]) -> tuple[float, float, float]:
    """Of what two or more processes found, with the ends of its 95 % interval.

    The interval is Student's t over the logarithms (Georges, Buytaert and Eeckhout, Statistically
    Rigorous Java Performance Evaluation, 2007, take the same over virtual machines).
    """
    logs = [math.log(value) for value in values]
    middle = statistics.fmean(logs)
    student = _STUDENT[min(len(logs) - 1, len(_STUDENT)) - 1]
    half = student * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


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
    kernels: Sequence[Sample],
    rule: StopRule,
    clock: Clock = time.perf_counter,
    judged: Sequence[int] | None = None,
) -> list[list[float]]:
    """Sample several kernels in turn, A B B A A B ..., so that drift hits all of them alike.

    Those that are ``judged``, all by default, are sampled until the rule is content with them;
    its times count for each of them. Returns the samples, equally many and in rounds.
    """
    for sample in kernels:
        _warm_up(sample, rule, clock)
    taken: list[list[float]] = [[] for _ in kernels]
    begin = clock()
    order = list(range(len(kernels)))
    judged = range(len(kernels)) if judged is None else judged
    while not _enough(taken, rule, clock() - begin, judged):
        for i in order:
            taken[i].append(kernels[i]())
        order.reverse()
    return taken


def _warm_up(sample: Sample, rule: StopRule, clock: Clock) -> None:
    begin, last = clock(), math.inf
    least = 0.0 if rule.warm else rule.warm_up / 2
    while clock() - begin < rule.warm_up:
        now = sample()
        if clock() - begin >= least and abs(now - last) <= _STEADY * now:
            return
        last = now


def _enough(
    taken: Sequence[Sequence[float]], rule: StopRule, elapsed: float, judged: Sequence[int]
) -> bool:
    count = len(taken[0])
    if count == 0:
        return False
    if elapsed >= rule.budget * max(1, len(judged)):
        return True
    if count < rule.samples or elapsed < rule.min_time * max(1, len(judged)):
        return False
    # The interval narrows slowly, and sorting is not free: look after each tenth more samples.
    if count % max(1, count // 10):
        return False
    return all(Timing.of(taken[i]).precision <= rule.precision for i in judged)
