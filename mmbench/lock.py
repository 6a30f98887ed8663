"""One measurement at a time on a device: an advisory lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def path_of(uuid: str) -> Path:
    """The lock file of a device, in the folder that all users of the machine share."""
    return Path(tempfile.gettempdir()) / f"mmbench-{re.sub(r'[^A-Za-z0-9-]', '-', uuid)}.lock"


def _open(path: Path) -> int:
    """Open the lock file; whoever makes it lets every other user of the machine lock it too."""
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(PermissionError):
        os.fchmod(descriptor, 0o666)
    return descriptor


@contextmanager
def held(uuid: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the device's lock; where another mmbench has it, say so and wait for its end."""
    try:
        descriptor = _open(path_of(uuid))
    except OSError:  # no folder to lock in: measure all the same
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            waiting(f"waiting for another mmbench on this device (process {owner or 'unknown'})")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
