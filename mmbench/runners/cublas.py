"""cuBLAS through ctypes: where its library is, what it is, and one product in a stream.

Knows no PyCUDA: a stream and matrices come as addresses.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mmbench.errors import LaunchError, RunnerUnavailableError
from mmbench.product import Problem, Product

# Values of cublas_api.h and library_types.h.
_TYPES = {"float32": 0, "float64": 1, "float16": 2}  # CUDA_R_32F, CUDA_R_64F, CUDA_R_16F
_COMPUTE = {"float32": 68, "float64": 70}  # CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F
_COMPUTE_PEDANTIC = {"float32": 69, "float64": 71}
_DEFAULT_MATH, _PEDANTIC_MATH = 0, 2
_NOT_TRANSPOSED, _TRANSPOSED = 0, 1
_ALGORITHM_DEFAULT = -1
_VERSIONS = (13, 12)
_WORKSPACE_BYTES = 64 << 20  # twice what cuBLAS recommends for Hopper


@cache
def _library(folder: str) -> ctypes.CDLL:
    """Load the library; ``folder`` is that of the toolkit in use, or empty."""
    for path in _candidates(folder):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise RunnerUnavailableError(
        "cuBLAS is not found; pip install nvidia-cublas, or install the CUDA toolkit's libraries"
    )


def _candidates(folder: str) -> Iterator[str]:
    for version in _VERSIONS:
        name = f"libcublas.so.{version}"
        if folder:
            yield str(Path(folder, name))
        spec = importlib.util.find_spec("nvidia")
        for place in spec.submodule_search_locations or () if spec else ():
            yield from map(str, Path(place).glob(f"*/lib/{name}"))
        yield name


def describe(folder: str, name: str) -> str:
    """Version and math mode, as a row states them; raise RunnerUnavailableError without it."""
    library = _library(folder)
    parts = []
    for which in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        library.cublasGetProperty(which, ctypes.byref(value))
        parts.append(str(value.value))
    mode = "default math" if name.endswith(":default") else "pedantic math"
    return f"cuBLAS {'.'.join(parts)}, {mode}"


class Gemm:
    """A product in a stream of the current context: alpha * A * B + beta * C."""

    def __init__(self, folder: str, name: str, problem: Problem, product: Product) -> None:
        self.library = _library(folder)
        self.handle = ctypes.c_void_p()
        self.problem = problem
        self.product = product
        self.pedantic = not name.endswith(":default")
        self._check(self.library.cublasCreate_v2(ctypes.byref(self.handle)))
        mode = _PEDANTIC_MATH if self.pedantic else _DEFAULT_MATH
        self._check(self.library.cublasSetMathMode(self.handle, mode))

    def use(self, stream: int, workspace: int) -> None:
        """Queue into this stream, and take this memory of ``workspace_bytes()`` for it."""
        self._check(self.library.cublasSetStream_v2(self.handle, ctypes.c_void_p(stream)))
        place, size = ctypes.c_void_p(workspace), ctypes.c_size_t(_WORKSPACE_BYTES)
        self._check(self.library.cublasSetWorkspace_v2(self.handle, place, size))

    def __call__(self, arguments: Sequence[Any]) -> None:
        """Queue the product; ``arguments`` are the addresses of A, B, C, then alpha and beta."""
        a, b, c, alpha, beta = arguments
        m, n, k = self.problem.m, self.problem.n, self.problem.k
        first, second = (a, "A"), (b, "B")
        if "C" not in self.product.column_major:
            # cuBLAS stores by columns: a row-major C is the product of the transposes.
            first, second, m, n = second, first, n, m
        wide = "float64" if self.product.c_dtype == "float64" else "float32"
        scale = ctypes.c_double if wide == "float64" else ctypes.c_float
        compute = (_COMPUTE_PEDANTIC if self.pedantic else _COMPUTE)[wide]
        self._check(
            self.library.cublasGemmEx(
                self.handle, self._operation(first[1]), self._operation(second[1]), m, n, k,
                ctypes.byref(scale(alpha)), *self._matrix(*first), *self._matrix(*second),
                ctypes.byref(scale(beta)), *self._matrix(c, "C"),
                compute, _ALGORITHM_DEFAULT,
            )
        )  # fmt: skip

    def _operation(self, name: str) -> int:
        same = (name in self.product.column_major) == ("C" in self.product.column_major)
        return _NOT_TRANSPOSED if same else _TRANSPOSED

    def _matrix(self, address: int, name: str) -> tuple[Any, int, int]:
        leading = self.product.leading_dimension(name, self.problem)
        return ctypes.c_void_p(address), _TYPES[self.product.dtype_of(name)], leading

    def _check(self, status: int) -> None:
        if status != 0:
            raise LaunchError(f"cuBLAS reports status {status} for this product")


def workspace_bytes() -> int:
    """Memory of the device that a Gemm may use."""
    return _WORKSPACE_BYTES
