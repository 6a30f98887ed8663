"""Memory that a worker shares with the process that watches it.

The layout is ``simt_status`` of runners/simt/simt.h. It outlives the worker, so what a crash was
about can still be read, and it is written while a launch runs, so progress can be shown.
"""

from __future__ import annotations

import ctypes
import signal


class _Index(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class Status(ctypes.Structure):
    """Progress and last fault of the worker's launch."""

    _fields_ = (
        ("next_block", ctypes.c_int64),
        ("total_blocks", ctypes.c_int64),
        ("fault_signal", ctypes.c_int64),
        ("fault_address", ctypes.c_int64),
        ("fault_block", _Index),
        ("fault_thread", _Index),
        ("thread_known", ctypes.c_int64),
        ("stack_overflow", ctypes.c_int64),
        ("message", ctypes.c_char * 512),
    )

    def progress(self) -> float | None:
        """Share of the running launch's blocks that have been handed out, or None."""
        total = int(self.total_blocks)
        return None if total == 0 else min(1.0, int(self.next_block) / total)

    def fault(self) -> str:
        """What the last crash was about, as a phrase; empty if the runtime caught none."""
        if not self.fault_signal:
            return ""
        name = signal.Signals(self.fault_signal).name
        where = f"block {self.fault_block}"
        if self.thread_known:
            where += f", thread {self.fault_thread}"
        if self.message:
            text = bytes(self.message).decode(errors="replace")
            return f"device-side assert in the kernel ({text}) at {where}"
        if self.stack_overflow:
            return f"a thread needs more local memory than the cpu runner's 64 KiB, at {where}"
        if self.fault_signal == signal.SIGFPE:
            return f"division of a whole number by zero at {where}"
        if self.fault_signal in (signal.SIGSEGV, signal.SIGBUS):
            return f"illegal memory access (signal {self.fault_signal}, {name}) at {where}"
        return f"the kernel crashed (signal {self.fault_signal}, {name}) at {where}"

    def clear(self) -> None:
        ctypes.memset(ctypes.byref(self), 0, ctypes.sizeof(self))
