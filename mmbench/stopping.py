"""SIGTERM and SIGHUP end a command as Ctrl-C does: files are closed, and no child is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

_LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_interrupts() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt for these signals; the list that is yielded has those that came.

    A terminal sends Ctrl-C to the children as well, so they are told too. A signal that is
    ignored, as SIGHUP is under nohup, stays so.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGINT)
        raise KeyboardInterrupt

    ours = [number for number in _LIKE_CTRL_C if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield came
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C and its like wait until the block has ended."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, *_LIKE_CTRL_C)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        os.kill(os.getpid(), came[0])


def _children() -> list[int]:
    """The processes that any thread of this one has started (Linux)."""
    found: list[int] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, thread.read_text().split())
    return found
