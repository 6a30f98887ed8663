"""Libraries that kernels are measured against, as specs: a name in the place of a source."""

from __future__ import annotations

from pathlib import Path

from mmbench.expressions import Expression
from mmbench.product import Product
from mmbench.spec import Argument, KernelSpec

# Each with its runner, its element types (A and B, C) and what it is.
_HALF = ("float16", "float16"), ("float16", "float32")
_REAL = ("float32", "float32"), ("float64", "float64")
_LIBRARIES = {
    "cublas": ("cuda", (*_REAL, *_HALF), "NVIDIA's cuBLAS in its pedantic mode: FP32 stays FP32."),
    "cublas:default": ("cuda", (*_REAL, *_HALF), "NVIDIA's cuBLAS in its default mode."),
    "blas": ("cpu", _REAL, "The BLAS that NumPy was built with, on the host's cores."),
}
NAMES = tuple(_LIBRARIES)
USUAL = {runner: name for name, (runner, _, _) in reversed(_LIBRARIES.items())}


def get(name: str, product: Product) -> KernelSpec:
    """The baseline of this name, computing this product."""
    runner, _, summary = _LIBRARIES[name]
    one = (Expression("1"),)
    return KernelSpec(
        name=name,
        path=Path(name),
        source="",
        entry=name,
        summary=summary,
        block=one,
        grid=one,
        reads=Expression("M * K + K * N"),
        writes=Expression("M * N"),
        declares_traffic=False,
        arguments=(
            *map(Argument, ("A", "B", "C")),
            Argument("alpha", "double"),
            Argument("beta", "double"),
        ),
        runners=(runner,),
        product=product,
        library=name,
    )


def supports(name: str, product: Product) -> bool:
    """Whether the library has a product of these element types."""
    return (product.dtype, product.c_dtype) in _LIBRARIES[name][1]
