"""What the host's compiler and loader say of a kernel, as one sentence in the user's words."""

from __future__ import annotations

import re
from pathlib import Path

from mmbench.errors import CompileError

_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_OUR_OWN = re.compile(r"simt_|checked_|__tsan_|__ubsan_")  # missing ones are no fault of the user's
_LENGTH = re.compile(r"\d+")


def in_users_words(error: CompileError, path: Path) -> CompileError:
    """The first error in the user's own file, with its line; wrapper lines are no one's."""
    errors = _ERROR.findall(error.details)
    mine = [found for found in errors if Path(found[0]).resolve() == path.resolve()]
    if mine:
        _, line, text = mine[0]
        return CompileError(f"{path}:{line}: error: {text}", error.details)
    for where, line, text in errors:
        return CompileError(f"{where}:{line}: error: {text}", error.details)
    return CompileError(f"{path}: the host compiler refused it", error.details)


def missing_definition(said: str, path: Path) -> CompileError | None:
    """The error where the loader misses what a kernel only declares; None where it misses nothing.

    A shared library may be linked with names left open, so it is the loader that finds out.
    """
    found = _UNDEFINED.search(said)
    if found is None or _OUR_OWN.match(found[1]):
        return None
    name = _as_declared(found[1])
    return CompileError(
        f"{path}: {name} is declared but not defined in this file; define it there", said
    )


def _as_declared(symbol: str) -> str:
    """The qualified name in a C++ symbol, without its types; the symbol itself if it is none."""
    start = re.match(r"_Z(?:TW|TH)?(N[rVKRO]*)?L?", symbol)
    if start is None:
        return symbol
    parts, at = [], start.end()
    while length := _LENGTH.match(symbol, at):
        at = length.end() + int(length.group())
        parts.append(symbol[length.end() : at])
        if start[1] is None:  # what follows are the parameters
            break
    return "::".join(parts) or symbol
