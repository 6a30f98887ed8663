"""Turns a CUDA kernel into one that runs a whole thread block per call.

Between two barriers the threads of a block are independent, so each such region can be run
as a loop over the threads: "deep fission", as in MCUDA (Stratton, Stone, Hwu, LCPC 2008).
With the loop over x innermost the C++ compiler vectorises across threads. The user's
statements are copied as they are; only loops, and the storage of variables that cross from
region to region, are put around them.

Nothing is rewritten that is not understood for certain: the answer is None, and the kernel
runs with one fiber per thread. Where the size of an array only shows when it is compiled, a
static_assert refuses; so a result that does not compile also means one fiber per thread.

The modules, in the order of their work: ``parse`` (the file, its macros and functions),
``plan`` (a tree of statements, barriers and loops), ``uses`` (which variables each names or
changes), ``roles`` (which are uniform, which can be made again), ``write``.
"""

from __future__ import annotations

from functools import cache


@cache
def to_block_form(source: str, entry: str) -> str | None:
    """Rewrite kernel ``entry`` so that one call runs a whole block, or None if not for certain.

    The result needs from the shim ``blockIdx``, ``blockDim``, ``gridDim``, ``uint3`` and
    ``SIMT_MAX_THREADS``, no ``threadIdx``, and at most that many threads in a block.
    """
    try:
        from mmbench.runners.regions.parse import Unsupported
        from mmbench.runners.regions.write import rewrite
    except ImportError:  # no tree-sitter for this platform: the fibers do without
        return None
    try:
        return rewrite(source, entry)
    except (Unsupported, RecursionError):
        return None
