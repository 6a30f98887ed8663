"""The BLAS behind NumPy as a kernel of the cpu runner: the baseline of host times."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mmbench.product import Problem, Product
from mmbench.runners import Array, Resources

_SETTLE_SECONDS = 0.002


def describe() -> str:
    """Name and version of NumPy's BLAS."""
    config = np.show_config(mode="dicts")
    found = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'BLAS')} {found.get('version', '')} (NumPy {np.__version__})"


class BlasKernel:
    """alpha * A * B + beta * C by numpy.matmul, with as many threads as the BLAS takes."""

    resources = Resources(static_shared_bytes=0)

    def __init__(self, problem: Problem, product: Product) -> None:
        self.problem = problem
        self.product = product

    def launch(self, arguments: Sequence[Any]) -> float:
        a, b, c = (
            self._matrix(name, address) for name, address in zip("ABC", arguments[:3], strict=True)
        )
        alpha, beta = arguments[3:]
        begin = time.perf_counter()
        if alpha == 1 and beta == 0:
            np.matmul(a, b, out=c)
        else:
            kind = c.dtype.type
            c *= kind(beta)
            c += kind(alpha) * (a @ b)
        return time.perf_counter() - begin

    def sample(self, arguments: Sequence[Any], launches: int, cold: bool) -> float:
        seconds = sum(self.launch(arguments) for _ in range(launches)) / launches
        time.sleep(_SETTLE_SECONDS)
        return seconds

    def _matrix(self, name: str, address: int) -> Array:
        shape = self.problem.shape(name)
        size = shape[0] * shape[1] * self.product.bytes_of(name)
        memory = (ctypes.c_char * size).from_address(address)
        order: Literal["F", "C"] = "F" if name in self.product.column_major else "C"
        dtype = np.dtype(self.product.dtype_of(name))
        return np.ndarray(shape, dtype, buffer=memoryview(memory), order=order)
