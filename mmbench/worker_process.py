"""The process of a worker: how it is started, and what its first steps are.

Its start takes the better part of a second: Python, NumPy, the GPU's driver. So this module
imports nothing heavy, and a command that will need a worker starts one before anything else. Until
somebody takes it, it leaves the GPU alone: another mmbench may be measuring there.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import tempfile
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from mmbench import driver
from mmbench.status import Status

# OpenBLAS's threads wait for the next call busily, and would take a core from the kernel that is
# measured after it. They give up after 2^20 cycles, half a millisecond. Set while there are no
# other threads: a change of the environment can pull it from under a compiler that one starts.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")


@dataclass
class WorkerProcess:
    """A process that serves tasks, the pipe to it, and what it leaves when it dies."""

    process: Any
    pipe: Any
    log: Any
    memory: Any

    @property
    def status(self) -> Status:
        """The state of its launch, which outlives it."""
        return Status.from_buffer(self.memory)

    def said(self) -> str:
        """What its kernels and drivers have printed."""
        return Path(self.log.name).read_text(errors="replace")

    def end(self, wait: bool = True) -> None:
        """End it, at once and whatever it does. It leaves a GPU some 60 ms later."""
        self.process.kill()
        if wait:
            self.process.join()
        else:
            _ending.append(self.process)
        self.pipe.close()
        self.log.close()


_early: dict[tuple[str, int], WorkerProcess] = {}
_ending: list[Any] = []  # processes that have been killed, and may still hold a GPU's memory


def start_early(runner: str, device: int) -> None:
    """Have a worker ready for whoever asks for one first. One that nobody takes ends with us."""
    if (runner, device) not in _early:
        _early[runner, device] = _start(runner, device)


def take(runner: str, device: int, first: Any = None) -> WorkerProcess:
    """The worker that was started early, or a new one; it opens its session now.

    ``first``: what it is to make ready then, see ``worker.main``.
    """
    while _ending:
        _ending.pop().join()
    taken = _early.pop((runner, device), None) or _start(runner, device)
    with contextlib.suppress(OSError):  # it has ended already; its first task will tell
        taken.pipe.send(first)
    return taken


def _start(runner: str, device: int) -> WorkerProcess:
    context = multiprocessing.get_context("spawn")
    memory: Any = context.RawArray(ctypes.c_char, ctypes.sizeof(Status))
    log = tempfile.NamedTemporaryFile(prefix="mmbench-")  # noqa: SIM115 (see WorkerProcess.end)
    pipe, other = context.Pipe()
    process = context.Process(
        target=_main, args=(other, runner, device, memory, log.name), daemon=True
    )
    # Ctrl-C is ours to handle: the process begins with it blocked, and leaves it so. (The tracker
    # unblocks it where it has to be started first.)
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    other.close()
    return WorkerProcess(process, pipe, log, memory)


def _main(pipe: Any, runner: str, device: int, memory: Any, log: str) -> None:
    if runner == "cuda":
        driver.begin()
    from mmbench import worker

    worker.main(pipe, runner, device, memory, log)
