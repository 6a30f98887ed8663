"""What the checked build cannot run, found in the source before a compiler meets it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mmbench.errors import MmbenchError
from mmbench.gpu_only import gpu_constructs, without_comments


class UnsupportedError(MmbenchError):
    """The kernel uses a construct that needs a GPU; the message names it and its line."""

    kind = "unsupported"


_LAUNCH = re.compile(r"<<<")


def refuse_unsupported(path: Path, source: str, entry: str, headers: Sequence[str] = ()) -> None:
    """Raise UnsupportedError at the first construct that cannot be checked here.

    ``headers`` are the texts of the local headers.
    """
    text = without_comments(source)
    found = gpu_constructs(source, headers)
    launch = _launch_in_kernel(text, entry)
    if launch is not None:
        found.append((launch, "a launch from inside a kernel (dynamic parallelism)"))
    if not found:
        return
    start, name = min(found)
    line = text.count("\n", 0, start) + 1
    raise cannot_be_checked(path, line, name)


def cannot_be_checked(path: Path, line: int, name: str) -> UnsupportedError:
    """The error for a construct, by its name and its line."""
    return UnsupportedError(
        f"{path}:{line}: {name} cannot be checked on the host; check this kernel on a GPU"
    )


def _launch_in_kernel(text: str, entry: str) -> int | None:
    """Where the body of the entry, or any function of the device, launches a kernel."""
    for match in _LAUNCH.finditer(text):
        before = text[: match.start()]
        opened = before.rfind("__global__"), before.rfind("__device__")
        body = before[max(opened) :] if max(opened) >= 0 else ""
        if body and body.count("{") > body.count("}"):
            return match.start()
    return None
