"""``extern __shared__`` arrays for a host, whose linker must find each of them defined."""

from __future__ import annotations

import re

from mmbench.device import CUDA_LIMITS

_ALIGNED = r"(?:__align__\s*\(\s*\w+\s*\)\s*)?"
_DYNAMIC = re.compile(rf"\bextern\s+__shared__\s+{_ALIGNED}([\w:\s]+?)\s*\b(\w+)\s*\[\s*\]")
_SIZED = re.compile(
    rf"\bextern(?=\s+__shared__\s+{_ALIGNED}[\w:\s]+?\s*\b\w+\s*(?:;|\[\s*[^\s\]]))"
)
_MEMORY = "simt_dynamic_shared"


def sized_as_static(source: str) -> str:
    """The source in which ``extern __shared__ float s[64]`` is a plain array, as nvcc takes it.

    Lines and columns stay as they are.
    """
    return _SIZED.sub(" " * len("extern"), source)


def dynamic_bytes(source: str) -> int:
    """Bytes that ``definitions`` gives to the arrays of unknown size."""
    return CUDA_LIMITS.dynamic_shared_bytes if _DYNAMIC.search(source) else 0


def definitions(source: str) -> str:
    """What defines the arrays of unknown size: all of them lie at one place, as on a GPU."""
    arrays = dict.fromkeys(_DYNAMIC.findall(source))
    size = CUDA_LIMITS.dynamic_shared_bytes
    if len(arrays) < 2:
        return "".join(
            f"thread_local {ctype} {name}[{size} / sizeof({ctype})];\n" for ctype, name in arrays
        )
    memory = f'extern "C" {{ thread_local char {_MEMORY}[{size}] __attribute__((aligned(16))); }}\n'
    return memory + "".join(
        f"extern thread_local {ctype} {name}[{size} / sizeof({ctype})] "
        f'__attribute__((alias("{_MEMORY}")));\n'
        for ctype, name in arrays
    )
