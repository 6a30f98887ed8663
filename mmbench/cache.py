"""The folder of compiled kernels, keyed on everything that went into them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path


@cache
def folder() -> Path:
    """The user's cache folder of mmbench ($MMBENCH_CACHE overrides), or a temporary one."""
    path = wanted()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return _temporary()


def wanted() -> Path:
    """The cache folder that there should be."""
    chosen = os.environ.get("MMBENCH_CACHE")
    return Path(chosen) if chosen else user_cache_path("mmbench")


def _temporary() -> Path:
    """One for all processes of a user: nobody else may have put compiled code there."""
    path = Path(tempfile.gettempdir()) / f"mmbench-cache-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        state = path.lstat()
        if state.st_uid == os.getuid() and state.st_mode & 0o7777777 == stat.S_IFDIR | 0o700:
            return path
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="mmbench-"))


def key(*parts: str) -> str:
    """A short name for these texts; different texts give different names."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape")  # paths under a locale without UTF-8
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


def source_hash(text: str, folders: Sequence[Path]) -> str:
    """SHA-256 of a source with its local headers: what results are filed under."""
    return hashlib.sha256(with_headers(text, folders).encode()).hexdigest()[:16]


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def with_headers(text: str, folders: Sequence[Path]) -> str:
    """A source's text followed by that of each local header it includes, in a fixed order.

    What a compiled kernel is keyed on: an edit of a header must not find the old binary.
    """
    return "\0".join([text, *local_headers(text, folders)])


def local_headers(text: str, folders: Sequence[Path]) -> list[str]:
    """The texts of the local headers that a source includes, and of those that they include.

    ``folders`` are that of the source, and the further ones in which headers are looked for.
    """
    seen: dict[Path, str] = {}
    waiting = [(text, folders[0])]
    while waiting:
        including, beside = waiting.pop()
        for name in _INCLUDE.findall(including):
            for folder in (beside, *folders[1:]):
                path = (folder / name).resolve()
                if path.is_file():
                    if path not in seen:
                        seen[path] = path.read_text(encoding="utf-8", errors="replace")
                        waiting.append((seen[path], path.parent))
                    break
    return [seen[path] for path in sorted(seen)]
