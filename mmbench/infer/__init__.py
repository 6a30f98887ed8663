"""Infer what a header would state from a .cu file that has none.

The parts: ``conditionals`` and ``expansion`` do a preprocessor's work, ``syntax`` finds kernels,
``template`` and ``tile`` make constants sweepable, ``isolate`` cuts the kernel out of its program,
``body``, ``settling`` and ``roles`` read the arguments, ``launch``, ``extents``, ``launch_calls``,
``host`` and ``shared`` the launch.
"""

from __future__ import annotations

from mmbench.infer.header_text import header_text, write_on_top
from mmbench.infer.preparing import prepare
from mmbench.infer.reading import Inferred, infer

__all__ = ["Inferred", "header_text", "infer", "prepare", "write_on_top"]
