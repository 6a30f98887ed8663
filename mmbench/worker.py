"""The process in which kernels run: it verifies, then measures, and may die of either.

It never prints. What it has to say goes through a pipe to the supervisor.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from mmbench.errors import LaunchError, MmbenchError, UnfitError
from mmbench.inputs import Inputs
from mmbench.measure import StopRule, Timing, interleave
from mmbench.operands import Operands
from mmbench.product import MATRICES, Problem, Product
from mmbench.runners import (
    Kernel,
    Program,
    Resources,
    Session,
    Telemetry,
    open_session,
    preload,
    summary,
)
from mmbench.spec import Point
from mmbench.verify import MEANT, Checker, Verdict

Phase = Callable[[str], None]
_HOT_BATCH_SECONDS = 3e-3  # of one hot sample: a thousand times what the timer adds to it
_HOT_BATCH_MOST = 300
_STILL_WARM = 1.0  # seconds after a measurement for which clocks stay up
_AHEAD_ELEMENTS = 2**28  # beyond, two problems at once may be more than the host holds
_AHEAD_IN_ALL = 2**25  # of more than one that is made ahead
_ROOM = 16  # times its three matrices: what operands with their copies and places may take
_MOST_ROOM = 2**29  # bytes that may lie idle on a device
_READ_SECONDS = 0.05  # between two readings of the card; one takes about a millisecond


@dataclass(frozen=True)
class Entry:
    """A compiled point to be measured."""

    point: Point
    program: Program


@dataclass(frozen=True)
class Task:
    """Entries of one problem, verified one by one, then measured interleaved."""

    entries: tuple[Entry, ...]
    rule: StopRule | None  # None: verified only
    cold: bool
    seed: int
    ahead: tuple[Point, ...] = ()  # of tasks that may follow, with other problems


@dataclass(frozen=True)
class Outcome:
    """What became of one entry. Without a timing, its verdict or its error says why."""

    resources: Resources | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    telemetry: Telemetry | None = None
    floor: float | None = None  # seconds that the timer reads of an empty kernel
    error: MmbenchError | None = None
    apart: bool = False  # measured alone, as its group could not be measured in turns


def main(pipe: Any, runner: str, device: int, status: Any, log: str) -> None:
    """Open a session once told to, serve tasks until the pipe closes, then end the process.

    With the word to open it may come the points of what will be asked for first, and their seed.
    What kernels and drivers print goes to the file ``log``, not to the user's terminal.
    """
    _die_with_supervisor()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    bench: _Bench | None = None
    try:
        failure: Exception | None = None
        try:  # while the first kernel is still being compiled
            with suppress(MmbenchError):  # opening it comes to the same
                preload(runner)
            first = pipe.recv()
            bench = _Bench(open_session(runner, device, status))
            if first is not None:
                bench.look_ahead(*first)
        except Exception as error:
            failure = error
        while True:
            task = pipe.recv()
            try:
                if bench is None:
                    raise failure or MmbenchError("the session could not be opened")
                outcomes = bench.run(task, lambda text: pipe.send(("phase", text)))
                pipe.send(("done", outcomes))
            except MmbenchError as error:
                pipe.send(("error", error))
            except Exception:
                pipe.send(("bug", traceback.format_exc()))
    except (EOFError, OSError):
        pass  # the supervisor has gone
    finally:
        # Clean-up in a CUDA context that a kernel has broken only prints errors.
        os._exit(0)


def _die_with_supervisor() -> None:
    """An endless kernel must not outlive a supervisor that was killed (prctl(2), Linux)."""
    set_parent_death_signal = 1
    supervisor = os.getppid()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != supervisor:  # it was gone before the call
        os._exit(1)


def _leave_their_result(entries: Sequence[Entry | _Measured]) -> bool:
    """Whether C holds after timed launches what the last of them has computed.

    So it is where one kernel alone overwrites C.
    """
    return len(entries) == 1 and entries[0].point.spec.product.beta == 0


def _real_is_timed(task: Task) -> bool:
    """Whether real inputs need no launch before the timed ones, after which they are checked.

    (Hot, a launch before tells how many make up a sample.)
    """
    return task.rule is not None and task.cold and _leave_their_result(task.entries)


_Key = tuple[Problem, Product, int]


class _Bench:
    """A session with the operands of the problem at hand."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.operands: dict[_Key, Operands] = {}
        self.ahead: dict[_Key, Future[Checker]] = {}
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.measured_at = -math.inf
        self.floors: dict[bool, float | None] = {}

    def run(self, task: Task, phase: Phase) -> list[Outcome]:
        self._make_room({self._key(entry.point, task.seed) for entry in task.entries})
        entries = [
            _Measured(self.session, self._operands(entry.point, task.seed, phase), entry)
            for entry in task.entries
        ]
        if task.ahead:
            self.look_ahead(task.ahead, task.seed)
        for entry in entries:
            entry.verify(phase, real=not _real_is_timed(task))
        ready = [entry for entry in entries if entry.ready]
        if ready and task.rule is not None:
            phase("measuring")
            self._measure(ready, task.rule, task.cold, phase)
        return [entry.outcome() for entry in entries]

    @staticmethod
    def _key(point: Point, seed: int) -> _Key:
        return (point.problem, point.spec.product, seed)

    def _operands(self, point: Point, seed: int, phase: Phase) -> Operands:
        key = self._key(point, seed)
        if key not in self.operands:
            phase("making inputs and references")
            begun = self.ahead.pop(key, None)
            checker = begun.result() if begun else Checker(*key)
            self.operands[key] = Operands(self.session, checker)
        return self.operands[key]

    def _make_room(self, wanted: set[_Key]) -> None:
        """Drop operands of other problems, unless they take little: they may come again."""
        for key, held in self.operands.items():
            if key not in wanted:  # what is launched now may write there
                held.forget()
        if wanted <= self.operands.keys():
            return
        others = sum(held.bytes for key, held in self.operands.items() if key not in wanted)
        most = min(_MOST_ROOM, self.session.free_bytes()) if self.session.own_memory else 0
        if _ROOM * others > most:
            self.operands = {key: held for key, held in self.operands.items() if key in wanted}

    def look_ahead(self, points: Sequence[Point], seed: int) -> None:
        """Make inputs and references of later tasks meanwhile, those of the next one first.

        Not where that would disturb what is measured, nor more than the host can hold.
        """
        if not self.session.own_memory:
            return
        ahead: dict[_Key, Future[Checker]] = {}
        room = _AHEAD_ELEMENTS
        for point in points:
            key = self._key(point, seed)
            elements = sum(math.prod(point.problem.shape(name)) for name in MATRICES)
            if key not in self.operands and elements <= room:
                ahead[key] = self.ahead.get(key) or self.pool.submit(Checker.ready, *key)
                room = min(room, _AHEAD_IN_ALL) - elements
        self.ahead = ahead

    def _measure(self, entries: list[_Measured], rule: StopRule, cold: bool, phase: Phase) -> None:
        if max(min(entry.checked) for entry in entries) >= rule.slow:
            for entry in entries:
                if not entry.tried_real:
                    entry.verify_again(phase, as_it_is=False)
                entry.timing = Timing.of(entry.checked)
            return
        if cold not in self.floors:
            self.floors[cold] = self.session.timer_floor(cold)
        kernels = [i for i, entry in enumerate(entries) if not entry.point.spec.library]
        judged = kernels or range(len(entries))  # a baseline is measured as long as its kernel
        if time.perf_counter() - self.measured_at < _STILL_WARM:
            checked = min(sum(entry.checked) for entry in entries)  # that has warmed it up too
            # Cold, there was nothing to be warmed up but the clocks.
            again = 0.0 if cold else max(0.0, rule.warm_up / 10 - checked)
            rule = replace(rule, warm_up=again, warm=True)
        for operands in {id(entry.operands): entry.operands for entry in entries}.values():
            put = operands.spread if cold else operands.load
            put(operands.checker.real)
        samplers = [_Watched(self.session, entry.sampler(cold)) for entry in entries]
        taken = interleave([watched.sample for watched in samplers], rule, judged=judged)
        self.measured_at = time.perf_counter()
        for entry, watched, samples in zip(entries, samplers, taken, strict=True):
            entry.timing = Timing.of(samples)
            entry.telemetry = summary(watched.readings)
            entry.floor = self.floors[cold]
        for entry in entries:
            entry.verify_again(phase, as_it_is=_leave_their_result(entries))


class _Watched:
    """A sampler that reads the card's state between samples, a few times a second."""

    def __init__(self, session: Session, sample: Callable[[], float]) -> None:
        self._session = session
        self._sample = sample
        self._read = 0.0
        self.readings: list[Telemetry] = []

    def sample(self) -> float:
        seconds = self._sample()
        if time.perf_counter() - self._read > _READ_SECONDS:
            if (reading := self._session.telemetry()) is not None:
                self.readings.append(reading)
            self._read = time.perf_counter()
        return seconds


class _Measured:
    """One entry on its way from loading to its outcome."""

    def __init__(self, session: Session, operands: Operands, entry: Entry) -> None:
        self.operands = operands
        self.point = entry.point
        self.checked: list[float] = []
        self.tried_real = False
        self.batch = 1
        self.sampled = 0
        self.places = [operands]
        self.kernel: Kernel | None = None
        self.verdict: Verdict | None = None
        self.timing: Timing | None = None
        self.telemetry: Telemetry | None = None
        self.floor: float | None = None
        self.precision = ""
        self.error: MmbenchError | None = None
        with self._failures():
            launch = entry.point.launch()
            kernel = session.load(entry.program, entry.point, launch)
            most = kernel.resources.max_threads
            if most is not None and launch.threads > most:
                raise UnfitError(
                    f"this kernel allows {most} threads per block (launch bounds or registers), "
                    f"the launch needs {launch.threads}"
                )
            self.kernel = kernel

    @property
    def ready(self) -> bool:
        return self.error is None and self.verdict is not None and self.verdict.ok

    def verify(self, phase: Phase, real: bool) -> None:
        """Check launches on whole numbers exactly, then one on ``real`` numbers if asked to.

        A kernel that takes alpha or beta is checked with others as well, and one of half
        precision with sums that a half accumulator cannot hold.
        """
        if self.kernel is None:
            return
        self.tried_real = real
        with self._failures():
            wrong, error = self._checks(phase)
            if wrong and self.operands.spoiled():
                wrong, error = self._checks(phase)
            self._judge(wrong, error)
            self.batch = self._hot_batch()

    def verify_again(self, phase: Phase, as_it_is: bool) -> None:
        """Check real numbers after the timed launches: a race can be right once, wrong later.

        ``as_it_is``: each C holds what the last timed launch left there; else launch once more.
        """
        phase(f"{self.point.spec.name}: last check")
        real = self.operands.checker.real
        with self._failures():
            if as_it_is:
                wrong, error = self.operands.check(real, self.places[: self.sampled])
            else:
                wrong, error = self._launch_and_check(real, "last", phase)
            if wrong and self.operands.spoiled():
                wrong, error = self._launch_and_check(real, "last", phase)
            if wrong:
                seen = "right with other inputs, wrong when it was timed"
                if self.tried_real:
                    seen = "right before it was timed, wrong after"
                wrong = f"{seen}: {wrong}"
            self._judge(wrong, error)

    def sampler(self, cold: bool) -> Callable[[], float]:
        """What takes a sample, a cold one in each place of the inputs in turn."""
        assert self.kernel is not None
        sample, launches = self.kernel.sample, 1 if cold else self.batch
        if cold:
            self.places = self.operands.places
        each = [place.arguments(self.point) for place in self.places]

        def take() -> float:
            arguments = each[self.sampled % len(each)]
            self.sampled += 1
            return sample(arguments, launches, cold)

        return take

    def outcome(self) -> Outcome:
        return Outcome(
            resources=self.kernel.resources if self.kernel else None,
            verdict=self.verdict,
            timing=self.timing if self.ready else None,
            telemetry=self.telemetry,
            floor=self.floor,
            error=self.error,
        )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Keep an entry's failure as its own: the others of the task go on.

        A failed launch is passed on: the session may be beyond use.
        """
        try:
            yield
        except LaunchError:
            raise
        except MmbenchError as error:
            self.error = error

    def _checks(self, phase: Phase) -> tuple[str, float | None]:
        """The launches before the timed ones: what is wrong, or "", and the error of real ones."""
        checker = self.operands.checker
        if wrong := self._first_check(phase):
            return wrong, None
        factors = checker.with_factors(self.point.spec.factors)
        for inputs, text in ((factors, "alpha-beta"), (checker.ones, "saturation")):
            if inputs is not None and (wrong := self._launch_and_check(inputs, text, phase)[0]):
                return wrong, None
        return (
            self._launch_and_check(checker.real, "second", phase) if self.tried_real else ("", None)
        )

    def _first_check(self, phase: Phase) -> str:
        """A launch whose result is known exactly, which tells the precision if that can be told.

        Where it is wrong, smaller numbers say more of what is wrong with it.
        """
        checker = self.operands.checker
        if (probe := checker.precision_probe) is None:
            return self._launch_and_check(checker.whole, "first", phase)[0]
        wrong = self._launch_and_check(probe, "first", phase)[0]
        if wrong:
            return self._launch_and_check(checker.whole, "second", phase)[0] or wrong
        self.precision = "FP32"
        return ""

    def _launch_and_check(
        self, inputs: Inputs, text: str, phase: Phase
    ) -> tuple[str, float | None]:
        assert self.kernel is not None
        phase(f"{self.point.spec.name}: {text} launch")
        self.operands.load(inputs)
        self.checked.append(self.kernel.launch(self.operands.arguments(self.point)))
        phase(f"{self.point.spec.name}: checking")
        return self.operands.check(inputs)

    def _judge(self, wrong: str, error: float | None) -> None:
        checker = self.operands.checker
        if "beta" in self.point.spec.factors:
            wrong = wrong.replace(MEANT, "")
        self.verdict = Verdict(
            not wrong, wrong, checker.method, error, checker.bound, self.precision
        )

    def _hot_batch(self) -> int:
        fastest = max(min(self.checked), 1e-9)
        return int(max(1, min(_HOT_BATCH_MOST, _HOT_BATCH_SECONDS // fastest)))
