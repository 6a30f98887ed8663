"""Replaces a file as a whole: neither a reader nor a full disk ever sees half of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write(path: Path, data: bytes, keep_mode: bool = False) -> None:
    """Write beside the file, then take its place; OSError leaves what is there as it is.

    ``keep_mode``: with the permissions of the file that is replaced.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(data)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        if keep_mode:
            shutil.copymode(path, part)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
