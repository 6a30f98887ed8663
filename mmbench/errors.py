"""Everything that can go wrong in a way a user can act on.

Each class is one kind of failure. A message is one sentence that says what, where and what
to do next. Anything that is not an ``MmbenchError`` is a bug and keeps its traceback.
"""

from __future__ import annotations


class MmbenchError(Exception):
    """Base of all errors that are shown as a sentence instead of a traceback.

    ``kind`` is the word that a failed row carries in its ``kind`` column.
    ``details`` is a longer text (a compiler's log) that is shown below the sentence.
    """

    kind = "error"

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[type[MmbenchError], tuple[str, str]]:
        # Errors travel from the worker process to the command line.
        return type(self), (self.message, self.details)


class UsageError(MmbenchError):
    """The command asks for something that cannot be; nothing was measured."""

    kind = "usage"


class HeaderError(UsageError):
    """A kernel file's header is missing or wrong; the message begins with ``file:line``."""

    kind = "header"


class RunnerUnavailableError(UsageError):
    """The chosen runner cannot work here; the message says what to install."""

    kind = "environment"


class CompileError(MmbenchError):
    """The compiler refused a kernel; the message begins with the user's ``file:line``."""

    kind = "compile"


class LaunchError(MmbenchError):
    """A launch was refused, or the kernel failed while it ran."""

    kind = "launch"


class CrashError(MmbenchError):
    """The kernel ended its worker process."""

    kind = "crash"


class KernelTimeoutError(MmbenchError):
    """The kernel did not end in the time it was given."""

    kind = "timeout"


class UnfitError(MmbenchError):
    """A point that this device or this kernel does not support: a skipped row, not a failure."""

    kind = "unfit"


class WrongRunnerError(UnfitError):
    """A kernel that cannot run on this runner at all, whatever the point: a skipped row."""

    kind = "runner"
