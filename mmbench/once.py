"""One launch of one kernel on a GPU, as the process that NVIDIA's tools are put around.

    compute-sanitizer python -m mmbench.once KERNEL M N K [NAME=VALUE ...]

The matrices are allocated at their exact sizes, without guard zones, so that a checker sees
every access outside them. Exits 0 if C is right, 1 if it is wrong, 2 if the launch failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import numpy as np

from mmbench import kernels
from mmbench.errors import MmbenchError
from mmbench.inputs import exact, from_memory, in_memory, make_inputs
from mmbench.product import Problem
from mmbench.runners import open_runner
from mmbench.runners.cuda import CudaSession
from mmbench.spec import Point


def parse_point(words: Sequence[str]) -> Point:
    """The point that the words of a command name; the inverse of ``command_words``."""
    name, m, n, k, *params = words
    values = dict(text.split("=", 1) for text in params)
    problem = Problem(int(m), int(n), int(k))
    return Point(kernels.get(name), problem, {key: int(v) for key, v in values.items()})


def command_words(point: Point) -> list[str]:
    """How to call this module for a point, behind the interpreter's name."""
    problem = point.problem
    sizes = [str(size) for size in (problem.m, problem.n, problem.k)]
    params = [f"{name}={value}" for name, value in sorted(point.params.items())]
    return ["-m", "mmbench.once", str(point.spec.path), *sizes, *params]


def launch_once(point: Point) -> bool:
    """Launch on whole-number inputs; return whether C is exact."""
    runner, _ = open_runner("cuda")
    session = CudaSession(0)
    kernel = session.load(runner.compile(point), point, point.launch())
    inputs = make_inputs(point.problem, exact(point.spec.product), 0, "whole")
    addresses, buffers = {}, {}
    for name, matrix in (("A", inputs.a), ("B", inputs.b), ("C", inputs.c)):
        data = in_memory(matrix, inputs.product, name)
        buffers[name] = session.allocate(data.nbytes)
        session.write(buffers[name], data)
        addresses[name] = buffers[name].address
    kernel.launch(point.arguments(addresses, inputs.product))
    c = in_memory(inputs.c, inputs.product, "C").copy()
    session.read(buffers["C"], c)
    found = from_memory(c, point.problem, inputs.product, "C")
    return bool(np.array_equal(found, inputs.result()))


def main() -> None:
    try:
        code = 0 if launch_once(parse_point(sys.argv[1:])) else 1
    except MmbenchError:
        code = 2
    os._exit(code)  # PyCUDA's clean-up of a broken context only prints errors


if __name__ == "__main__":
    main()
