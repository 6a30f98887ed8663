"""What the host's compiler and loader say of a kernel, in the user's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import WriteKernel
from mmbench.check import check_point
from mmbench.errors import CompileError
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners.host_messages import missing_definition
from mmbench.spec import Point

MINE = Path("mine.cu")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("mul", "mul"),
        ("__expf", "__expf"),
        ("_Z3mulff", "mul"),
        ("_Z3mulIfET_S0_S0_", "mul"),
        ("_Z12N5multipliedv", "N5multiplied"),
        ("_ZN3one3two3mulEff", "one::two::mul"),
        ("_ZNK4Tile3getEi", "Tile::get"),
        ("_ZTW2As", "As"),
        ("_ZdlPv", "_ZdlPv"),
    ],
)
def test_a_symbol_is_named_as_it_was_declared(symbol: str, name: str) -> None:
    error = missing_definition(f"/cache/x.so: undefined symbol: {symbol}", MINE)
    assert error is not None
    assert error.kind == "compile"
    assert error.message == (
        f"mine.cu: {name} is declared but not defined in this file; define it there"
    )


@pytest.mark.parametrize(
    "said",
    [
        "/cache/x.so: cannot open shared object file: No such file or directory",
        "/cache/x.so: undefined symbol: simt_barrier",
        "/cache/x.so: undefined symbol: __tsan_read4",
    ],
)
def test_what_is_no_fault_of_the_file(said: str) -> None:
    assert missing_definition(said, MINE) is None


@pytest.mark.cpu
def test_a_checked_build_that_lacks_a_function(write_kernel: WriteKernel) -> None:
    body = """\
__device__ float mul(float a, float b);
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    C[0] = mul(A[0], B[0]);
}
"""
    path = write_kernel("lacking", body)
    point = Point(read_kernel(path), Problem(8, 8, 8), {"TILE_SIZE": 8})
    with pytest.raises(CompileError, match="mul is declared but not defined in this file") as found:
        check_point(point)
    assert found.value.message.startswith(f"{path}: ")
