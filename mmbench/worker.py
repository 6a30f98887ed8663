"""The process in which kernels run: it verifies, then measures, and may die of either.

It never prints. What it has to say goes through a pipe to the supervisor.
"""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mmbench.errors import LaunchError, MmbenchError, UnfitError
from mmbench.measure import StopRule, Timing, interleave
from mmbench.runners import (
    Array,
    Buffer,
    Kernel,
    Program,
    Resources,
    Session,
    Telemetry,
    open_session,
)
from mmbench.spec import Point, Problem
from mmbench.verify import Checker, Inputs, Verdict, guard_elements, padded

Phase = Callable[[str], None]
_HOT_BATCH_SECONDS = 1e-3  # of one hot sample: 1000 times the resolution of a CUDA event
_HOT_BATCH_MOST = 100


@dataclass(frozen=True)
class Entry:
    """A compiled point to be measured."""

    point: Point
    program: Program


@dataclass(frozen=True)
class Task:
    """Entries of one problem and dtype, verified one by one, then measured interleaved."""

    entries: tuple[Entry, ...]
    rule: StopRule
    cold: bool
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What became of one entry. Without a timing, its verdict or its error says why."""

    resources: Resources | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    telemetry: Telemetry | None = None
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
        while True:
            task = pipe.recv()
            try:
                bench = bench or _Bench(open_session(runner, device, status))
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
        self.operands: _Operands | None = None

    def run(self, task: Task, phase: Phase) -> list[Outcome]:
        first = task.entries[0].point
        operands = self._operands(first.problem, first.spec.dtype, task.seed, phase)
        entries = [_Measured(self.session, operands, entry) for entry in task.entries]
        for entry in entries:
            entry.verify(phase)
        ready = [entry for entry in entries if entry.ready]
        if ready:
            phase("measuring")
            self._measure(ready, task, phase)
        return [entry.outcome() for entry in entries]

    def _operands(self, problem: Problem, dtype: str, seed: int, phase: Phase) -> _Operands:
        key = (problem, dtype, seed)
        if self.operands is None or self.operands.key != key:
            phase("making inputs and references")
            self.operands = None  # free the old ones first
            self.operands = _Operands(self.session, problem, dtype, seed)
        return self.operands

    def _measure(self, entries: list[_Measured], task: Task, phase: Phase) -> None:
        if max(min(entry.checked) for entry in entries) >= task.rule.slow:
            for entry in entries:
                entry.timing = Timing.of(entry.checked)
            return
        samplers = [partial(entry.sample, task.cold) for entry in entries]
        for entry, samples in zip(entries, interleave(samplers, task.rule), strict=True):
            entry.timing = Timing.of(samples)
            entry.telemetry = self.session.telemetry()
        for entry in entries:
            entry.verify_again(phase)


class _Operands:
    """A, B and C on the device, each between guard zones, and the references on the host."""

    def __init__(self, session: Session, problem: Problem, dtype: str, seed: int) -> None:
        self.key = (problem, dtype, seed)
        self.session = session
        self.problem = problem
        self.checker = Checker(problem, dtype, seed)
        self.blank, _ = padded(problem, problem.m, problem.n, dtype)
        whole = self.checker.whole
        need = whole.a_padded.nbytes + whole.b_padded.nbytes + self.blank.nbytes
        free = session.free_bytes()
        if need > free:
            raise UnfitError(
                f"needs {need / 1e9:,.1f} GB on the device for A, B and C, "
                f"{free / 1e9:,.1f} GB are free"
            )
        self.a = session.allocate(whole.a_padded.nbytes)
        self.b = session.allocate(whole.b_padded.nbytes)
        self.c = session.allocate(self.blank.nbytes)
        self.loaded: Inputs | None = None

    def load(self, inputs: Inputs) -> None:
        """Put these inputs into A and B, and the marker into all of C."""
        if self.loaded is not inputs:
            self.session.write(self.a, inputs.a_padded)
            self.session.write(self.b, inputs.b_padded)
            self.loaded = inputs
        self.session.write(self.c, self.blank)

    def fetch(self, buffer: Buffer, like: Array) -> Array:
        data = np.empty_like(like)
        self.session.read(buffer, data)
        return data

    def fetch_c(self) -> Array:
        return self.fetch(self.c, self.blank)

    def changed_input(self) -> str:
        """Whether the last launch wrote into A or B, as a sentence, or ""."""
        inputs = self.loaded
        assert inputs is not None
        a, b = self.fetch(self.a, inputs.a_padded), self.fetch(self.b, inputs.b_padded)
        changed = self.checker.changed_input(inputs, a, b)
        if changed:
            self.loaded = None
        return changed

    def arguments(self, point: Point) -> list[int]:
        """Values for the entry point's parameters, in its order; addresses for the matrices."""
        offset = guard_elements(self.problem) * self.blank.itemsize
        values = {
            "A": self.a.address + offset,
            "B": self.b.address + offset,
            "C": self.c.address + offset,
            "M": self.problem.m,
            "N": self.problem.n,
            "K": self.problem.k,
        }
        return [values[argument.name] for argument in point.spec.arguments]


class _Measured:
    """One entry on its way from loading to its outcome."""

    def __init__(self, session: Session, operands: _Operands, entry: Entry) -> None:
        self.operands = operands
        self.point = entry.point
        self.arguments = operands.arguments(entry.point)
        self.checked: list[float] = []
        self.batch = 1
        self.kernel: Kernel | None = None
        self.verdict: Verdict | None = None
        self.timing: Timing | None = None
        self.telemetry: Telemetry | None = None
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
        """Check one launch on whole numbers exactly, then one on real numbers."""
        if self.kernel is None:
            return
        checker, name = self.operands.checker, self.point.spec.name
        with self._failures():
            wrong = self._launch_and_check(checker.whole, f"{name}: first launch", phase)
            error: float | None = None
            if not wrong:
                wrong = self._launch_and_check(checker.real, f"{name}: second launch", phase)
                if not wrong:
                    wrong, error = checker.check_real(self.operands.fetch_c())
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
        return self.kernel.sample(self.arguments, 1 if cold else self.batch, cold)

    def outcome(self) -> Outcome:
        return Outcome(
            resources=self.kernel.resources if self.kernel else None,
            verdict=self.verdict,
            timing=self.timing if self.ready else None,
            telemetry=self.telemetry,
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

    def _launch_and_check(self, inputs: Inputs, text: str, phase: Phase) -> str:
        phase(text)
        self.operands.load(inputs)
        self._run()
        phase(f"{self.point.spec.name}: checking")
        wrong = ""
        if inputs.kind == "whole":
            wrong = self.operands.checker.check_whole(self.operands.fetch_c())
        return self.operands.changed_input() or wrong

    def _run(self) -> None:
        assert self.kernel is not None
        self.checked.append(self.kernel.launch(self.arguments))

    def _judge(self, wrong: str, error: float | None) -> None:
        checker = self.operands.checker
        self.verdict = Verdict(not wrong, wrong, checker.method, error, checker.bound)

    def _hot_batch(self) -> int:
        fastest = max(min(self.checked), 1e-9)
        return int(max(1, min(_HOT_BATCH_MOST, _HOT_BATCH_SECONDS // fastest)))
