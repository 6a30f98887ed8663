"""The CUDA driver's start, some tenths of a second, beside what Python still has to import.

It makes no context, and loads nothing itself, so it can come first. Errors are left to whoever
uses the driver next.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from threading import Thread


def is_there() -> bool:
    """Whether this machine has a CUDA driver at all."""
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return True
    return False


def begin() -> Thread:
    """Let the driver start, and do not wait for it."""
    thread = Thread(target=_initialise, daemon=True)
    thread.start()
    return thread


def _initialise() -> None:
    with suppress(OSError, AttributeError):  # no driver here
        ctypes.CDLL("libcuda.so.1").cuInit(0)
