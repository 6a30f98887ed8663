"""Infer what a header would state from a .cu file that has none.

The parts: ``syntax`` finds kernels, ``template`` and ``tile`` make constants sweepable,
``isolate`` cuts the kernel out of its program, ``body`` and ``roles`` read the arguments,
``launch``, ``host`` and ``shared`` the launch.
"""

from __future__ import annotations

from mmbench.infer.reading import Inferred, infer

__all__ = ["Inferred", "infer"]
