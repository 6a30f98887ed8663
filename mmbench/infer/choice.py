"""Which of a file's kernels is meant."""

from __future__ import annotations

from pathlib import Path

from mmbench.errors import UsageError
from mmbench.infer.parameters import HINT, pointer_count
from mmbench.infer.syntax import Kernel, Source

_MATRICES = 3


def choose(path: Path, source: Source, entry: str | None) -> Kernel:
    """The kernel of that name; without a name the only one that can be a product."""
    kernels = {kernel.name: kernel for kernel in source.kernels}
    if not kernels:
        raise UsageError(
            f"{path}: no __global__ function found; name a .cu file that has the kernel itself"
        )
    listed = ", ".join(kernels)
    if entry is not None:
        if entry not in kernels:
            raise UsageError(f"{path}: no kernel is called {entry}; it has {listed}")
        return kernels[entry]
    products = [k for k in kernels.values() if pointer_count(k) == _MATRICES]
    candidates = products or list(kernels.values())
    if len(candidates) > 1:
        raise UsageError(
            f"{path} has {len(candidates)} kernels ({', '.join(k.name for k in candidates)}); "
            f"name one with --entry, or {HINT}"
        )
    return candidates[0]
