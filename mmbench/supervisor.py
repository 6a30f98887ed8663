"""Keeps one worker process, and replaces it when a kernel has crashed it or does not end.

One warm worker serves a whole sweep: starting one costs a third of a second and more.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from mmbench import worker_process
from mmbench.errors import CrashError, KernelTimeoutError, LaunchError, MmbenchError
from mmbench.spec import Point
from mmbench.worker import Outcome, Task
from mmbench.worker_process import WorkerProcess

Progress = Callable[[str, float | None], None]
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 2.0
_ASSERTION = re.compile(r"Assertion `(.*)` failed")  # as the CUDA driver prints it


class Supervisor:
    """Runs tasks in a worker process of one runner and device.

    ``undisturbed``: no process is to be started while kernels are measured.
    """

    def __init__(self, runner: str, device: int, undisturbed: bool = True) -> None:
        self._runner = runner
        self._device = device
        self._undisturbed = undisturbed
        self._served = 0  # tasks that the present worker has ended
        self._given: Task | None = None  # that it has begun without being asked for
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(wait=False)  # what it has found can be shown meanwhile

    def run(
        self, task: Task, timeout: float, progress: Progress, then: Task | None = None
    ) -> list[Outcome]:
        """Run a task; raise CrashError, KernelTimeoutError, or the error that ended it.

        ``timeout`` is for each phase: a launch that is checked, or all timed launches. A crash
        in a worker that ran other kernels before may be their doing, so it is tried again in a
        new one. ``then`` is a task that will most likely be asked for next: the worker goes on
        with it while the caller does what is to be done with these outcomes.
        """
        used = self._served > 0
        try:
            outcomes = self._run(task, timeout, progress)
        except CrashError:
            if not used:
                raise
            outcomes = self._run(task, timeout, progress)
        self._served += 1
        if any(outcome.verdict is None or not outcome.verdict.ok for outcome in outcomes):
            self.stop()  # a wrong kernel may have written anywhere in the worker's memory
        elif then is not None:
            with contextlib.suppress(CrashError):  # of a worker that has ended since
                self._give(then)
        return outcomes

    def _run(self, task: Task, timeout: float, progress: Progress) -> list[Outcome]:
        if self._given is not task:
            if self._given is not None:  # it is busy with what nobody has asked for
                self.stop()
            self._give(task)
        worker, self._given = self._worker, None
        assert worker is not None
        phase, deadline = "starting", time.monotonic() + timeout + _GRACE_SECONDS
        while True:
            kind, content = self._next(worker, deadline, timeout, phase, progress)
            if kind == "phase":
                phase, deadline = content, time.monotonic() + timeout
                progress(phase, None)
            elif kind == "done":
                return list(content)
            elif kind == "bug":
                raise RuntimeError(f"the worker failed:\n{content}")
            else:
                raise self._failure(worker, content)

    def _give(self, task: Task) -> None:
        worker = self._worker or self._start()
        worker.status.clear()
        try:
            worker.pipe.send(task)
        except OSError:  # it has ended while nobody looked
            raise self._crash(worker, "starting") from None
        self._given = task

    def prestart(self, first: tuple[Sequence[Point], int] | None = None) -> None:
        """Start a worker before there is a task: its session opens while kernels are compiled.

        ``first``: points of the first tasks, and their seed, whose inputs are made meanwhile.
        """
        if self._worker is None:
            self._start(first)

    def prestart_next(self) -> None:
        """Have a worker, and start the process that is to follow it while it measures."""
        self.prestart()
        if not self._undisturbed:
            worker_process.start_early(self._runner, self._device)

    def stop(self, wait: bool = True) -> None:
        """End the worker, at once and whatever it does, and ``wait`` for its end."""
        if self._worker is not None:
            self._worker.end(wait)
        self._worker = None
        self._given = None
        self._served = 0

    def _start(self, first: tuple[Sequence[Point], int] | None = None) -> WorkerProcess:
        self._served = 0
        self._worker = worker_process.take(self._runner, self._device, first)
        return self._worker

    def _next(
        self,
        worker: WorkerProcess,
        deadline: float,
        timeout: float,
        phase: str,
        progress: Progress,
    ) -> tuple[str, Any]:
        """The worker's next message, while progress is shown and the clock is watched."""
        while not worker.pipe.poll(_POLL_SECONDS):
            progress(phase, worker.status.progress())
            if time.monotonic() > deadline:
                self.stop()
                raise KernelTimeoutError(
                    f"no result after {timeout:g} s ({phase}); the process was ended"
                )
        try:
            message: tuple[str, Any] = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._crash(worker, phase) from None
        return message

    def _failure(self, worker: WorkerProcess, error: MmbenchError) -> MmbenchError:
        """The error of a task. After a failed launch the device's context is beyond use."""
        if isinstance(error, LaunchError):
            said = worker.said()
            self.stop()
            if assertion := _ASSERTION.search(said):
                return LaunchError(f"device-side assert in the kernel ({assertion[1]})")
        return error

    def _crash(self, worker: WorkerProcess, phase: str) -> CrashError:
        worker.process.join(_GRACE_SECONDS)
        code = worker.process.exitcode
        text = worker.status.fault()
        if not text and code is not None and code < 0:
            with contextlib.suppress(ValueError):
                text = f"the kernel crashed (signal {-code}, {signal.Signals(-code).name})"
        text = text or f"the worker process ended with code {code}"
        self.stop()
        return CrashError(f"{text} ({phase})")
