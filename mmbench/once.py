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
from mmbench.runners import open_runner
from mmbench.runners.cuda import CudaSession
from mmbench.spec import Point, Problem


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
    """Launch on whole-number inputs; return whether C is A * B exactly."""
    runner, _ = open_runner("cuda")
    session = CudaSession(0)
    kernel = session.load(runner.compile(point), point, point.launch())
    problem, dtype = point.problem, point.spec.dtype
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (problem.m, problem.k)).astype(dtype)
    b = rng.integers(-4, 5, (problem.k, problem.n)).astype(dtype)
    c = np.empty((problem.m, problem.n), dtype)
    buffers = {"A": session.allocate(a.nbytes), "B": session.allocate(b.nbytes)}
    buffers["C"] = session.allocate(c.nbytes)
    session.write(buffers["A"], a)
    session.write(buffers["B"], b)
    sizes = {"M": problem.m, "N": problem.n, "K": problem.k}
    kernel.launch(
        [
            buffers[argument.name].address if argument.is_matrix else sizes[argument.name]
            for argument in point.spec.arguments
        ]
    )
    session.read(buffers["C"], c)
    return bool(np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64)))


def main() -> None:
    try:
        code = 0 if launch_once(parse_point(sys.argv[1:])) else 1
    except MmbenchError:
        code = 2
    os._exit(code)  # PyCUDA's clean-up of a broken context only prints errors


if __name__ == "__main__":
    main()
