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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mmbench.errors import LaunchError, MmbenchError, UnfitError
from mmbench.inputs import Inputs, guard_elements
from mmbench.measure import StopRule, Timing, interleave
from mmbench.product import Problem, Product
from mmbench.runners import (
    Array,
    Kernel,
    Program,
    Resources,
    Session,
    Telemetry,
    open_session,
    summary,
)
from mmbench.spec import Point
from mmbench.verify import Checker, Verdict

Phase = Callable[[str], None]
_HOT_BATCH_SECONDS = 1e-3  # of one hot sample: 1000 times the resolution of a CUDA event
_HOT_BATCH_MOST = 100
_SLOW_PROBE = 0.5  # seconds of a launch beyond which none is spent on the precision
_STILL_WARM = 1.0  # seconds after a measurement for which clocks stay up
_READ_SECONDS = 0.05  # between two readings of the card; one takes about a millisecond
_FURTHER = {"factors": "alpha-beta", "ones": "saturation"}


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


@dataclass(frozen=True)
class Outcome:
    """What became of one entry. Without a timing, its verdict or its error says why."""

    resources: Resources | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    telemetry: Telemetry | None = None
    floor: float | None = None  # seconds that the timer reads of an empty kernel
    error: MmbenchError | None = None


def main(pipe: Any, runner: str, device: int, status: Any, log: str) -> None:
    """Serve tasks until the pipe closes. The entry point of the process.

    What kernels and drivers print goes to the file ``log``, not to the user's terminal.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    _die_with_supervisor()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    bench: _Bench | None = None
    try:
        failure: Exception | None = None
        try:  # while the first kernel is still being compiled
            bench = _Bench(open_session(runner, device, status))
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


class _Bench:
    """A session with the operands of the problem at hand."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.operands: dict[tuple[object, ...], _Operands] = {}
        self.measured_at = -math.inf
        self.floors: dict[bool, float | None] = {}

    def run(self, task: Task, phase: Phase) -> list[Outcome]:
        wanted = {self._key(entry.point, task.seed) for entry in task.entries}
        self.operands = {key: held for key, held in self.operands.items() if key in wanted}
        entries = [
            _Measured(self.session, self._operands(entry.point, task.seed, phase), entry)
            for entry in task.entries
        ]
        for entry in entries:
            entry.verify(phase)
        ready = [entry for entry in entries if entry.ready]
        if ready and task.rule is not None:
            phase("measuring")
            self._measure(ready, task.rule, task.cold, phase)
        return [entry.outcome() for entry in entries]

    @staticmethod
    def _key(point: Point, seed: int) -> tuple[object, ...]:
        return (point.problem, point.spec.product, seed)

    def _operands(self, point: Point, seed: int, phase: Phase) -> _Operands:
        key = self._key(point, seed)
        if key not in self.operands:
            phase("making inputs and references")
            self.operands[key] = _Operands(self.session, point.problem, point.spec.product, seed)
        return self.operands[key]

    def _measure(self, entries: list[_Measured], rule: StopRule, cold: bool, phase: Phase) -> None:
        if max(min(entry.checked) for entry in entries) >= rule.slow:
            for entry in entries:
                entry.timing = Timing.of(entry.checked)
            return
        if cold not in self.floors:
            self.floors[cold] = self.session.timer_floor(cold)
        samplers = [_Watched(self.session, partial(entry.sample, cold)) for entry in entries]
        kernels = [i for i, entry in enumerate(entries) if not entry.point.spec.library]
        judged = kernels or range(len(entries))  # a baseline is measured as long as its kernel
        if time.perf_counter() - self.measured_at < _STILL_WARM:
            rule = replace(rule, warm_up=rule.warm_up / 10)
        taken = interleave([watched.sample for watched in samplers], rule, judged=judged)
        self.measured_at = time.perf_counter()
        for entry, watched, samples in zip(entries, samplers, taken, strict=True):
            entry.timing = Timing.of(samples)
            entry.telemetry = summary(watched.readings)
            entry.floor = self.floors[cold]
        for entry in entries:
            entry.verify_again(phase)


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


class _Operands:
    """A, B and C on the device, each between guard zones, and the references on the host."""

    def __init__(self, session: Session, problem: Problem, product: Product, seed: int) -> None:
        self.session = session
        self.problem = problem
        self.product = product
        self.checker = Checker(problem, product, seed)
        whole = self.checker.whole
        sizes = {"A": whole.a_padded, "B": whole.b_padded, "C": whole.c_padded}
        need = sum(array.nbytes for array in sizes.values())
        free = session.free_bytes()
        if need > free:
            raise UnfitError(
                f"needs {need / 1e9:,.1f} GB on the device for A, B and C, "
                f"{free / 1e9:,.1f} GB are free"
            )
        self.buffers = {name: session.allocate(array.nbytes) for name, array in sizes.items()}
        guard = guard_elements(problem, product)
        self.addresses = {
            name: buffer.address + guard * product.bytes_of(name)
            for name, buffer in self.buffers.items()
        }
        self.loaded: Inputs | None = None

    def load(self, inputs: Inputs) -> None:
        """Put these inputs into A and B, and what C is to hold before the launch into C."""
        before = self.loaded
        if before is None or before.a_padded is not inputs.a_padded:
            self.session.write(self.buffers["A"], inputs.a_padded)
            self.session.write(self.buffers["B"], inputs.b_padded)
        self.loaded = inputs
        self.session.write(self.buffers["C"], inputs.c_padded)

    def fetch(self, name: str, like: Array) -> Array:
        data = np.empty_like(like)
        self.session.read(self.buffers[name], data)
        return data

    def fetch_c(self) -> Array:
        return self.fetch("C", self.checker.whole.c_padded)

    def changed_input(self) -> str:
        """Whether the last launch wrote into A or B, as a sentence, or ""."""
        inputs = self.loaded
        assert inputs is not None
        a, b = self.fetch("A", inputs.a_padded), self.fetch("B", inputs.b_padded)
        changed = self.checker.changed_input(inputs, a, b)
        if changed:
            self.loaded = None
        return changed

    def arguments(self, point: Point) -> list[int | float]:
        """Values for the entry point's parameters, in its order, for the inputs in place."""
        product = self.product if self.loaded is None else self.loaded.product
        return point.arguments(self.addresses, product)


class _Measured:
    """One entry on its way from loading to its outcome."""

    def __init__(self, session: Session, operands: _Operands, entry: Entry) -> None:
        self.operands = operands
        self.point = entry.point
        self.checked: list[float] = []
        self.batch = 1
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

    def verify(self, phase: Phase) -> None:
        """Check launches on whole numbers exactly, then one on real numbers.

        A kernel that takes alpha or beta is checked with others as well, and one of half
        precision with sums that a half accumulator cannot hold.
        """
        if self.kernel is None:
            return
        with self._failures():
            wrong = self._first_checks(phase)
            error: float | None = None
            if not wrong:
                wrong = self._launch_and_check(self.operands.checker.real, "second", phase)
                if not wrong:
                    wrong, error = self.operands.checker.check_real(self.operands.fetch_c())
            self._judge(wrong, error)
            self.batch = self._hot_batch()

    def verify_again(self, phase: Phase) -> None:
        """Check one more launch after the timed ones: a race can be right once, wrong later."""
        phase(f"{self.point.spec.name}: last check")
        with self._failures():
            checker = self.operands.checker
            self.operands.load(checker.real)
            self._run()
            wrong, error = checker.check_real(self.operands.fetch_c())
            wrong = wrong or self.operands.changed_input()
            if wrong:
                self._judge(f"right before it was timed, wrong after: {wrong}", error)

    def sample(self, cold: bool) -> float:
        assert self.kernel is not None
        arguments = self.operands.arguments(self.point)
        return self.kernel.sample(arguments, 1 if cold else self.batch, cold)

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

    def _first_checks(self, phase: Phase) -> str:
        """The launches whose result is known exactly; what is wrong, or ""."""
        checker = self.operands.checker
        wrong = self._launch_and_check(checker.whole, "first", phase)
        for inputs in (checker.with_factors(self.point.spec.factors), checker.ones()):
            if inputs is not None and not wrong:
                wrong = self._launch_and_check(inputs, _FURTHER[inputs.kind], phase)
        probe = None if wrong or self.checked[-1] > _SLOW_PROBE else checker.precision_probe
        if probe is not None:
            wrong = self._launch_and_check(probe, "precision", phase)
            self.precision = "" if wrong else "FP32"
        return wrong

    def _launch_and_check(self, inputs: Inputs, text: str, phase: Phase) -> str:
        phase(f"{self.point.spec.name}: {text} launch")
        self.operands.load(inputs)
        self._run()
        phase(f"{self.point.spec.name}: checking")
        checker, wrong = self.operands.checker, ""
        if inputs.kind == "ones":
            wrong = checker.check_ones(self.operands.fetch_c(), inputs)
        elif inputs.kind == "precision":
            wrong = checker.check_precision(self.operands.fetch_c(), inputs)
        elif inputs.kind != "real":
            c = self.operands.fetch_c()
            wrong = checker.check_whole(c, inputs)
            if wrong and inputs.kind == "whole" and (hint := checker.other_reading(c)):
                wrong = f"{wrong}; hint: {hint}"
        return self.operands.changed_input() or wrong

    def _run(self) -> None:
        assert self.kernel is not None
        self.checked.append(self.kernel.launch(self.operands.arguments(self.point)))

    def _judge(self, wrong: str, error: float | None) -> None:
        checker = self.operands.checker
        self.verdict = Verdict(
            not wrong, wrong, checker.method, error, checker.bound, self.precision
        )

    def _hot_batch(self) -> int:
        fastest = max(min(self.checked), 1e-9)
        return int(max(1, min(_HOT_BATCH_MOST, _HOT_BATCH_SECONDS // fastest)))
