"""What the host's compiler and loader say of a kernel, in the user's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import WriteKernel
from mmbench.check import UnsupportedError, check_point
from mmbench.errors import CompileError
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners.host_messages import in_users_words, missing_definition
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


GXX = "mine.cu:{line}:9: error: '{name}' was not declared in this scope\n"


@pytest.mark.parametrize(
    "said",
    [
        "'{}' was not declared in this scope",
        "\u2018{}\u2019 was not declared in this scope; did you mean \u2018__all_sync\u2019?",
        "there are no arguments to '{}' that depend on a template parameter, so a declaration",
        "use of undeclared identifier '{}'",
        "call to function '{}' that is neither visible in the template definition nor found",
    ],
)
@pytest.mark.parametrize("name", ["__match_any_sync", "__vadd4", "__fadd_rz", "norm3df"])
def test_a_function_that_only_a_gpu_has_is_no_error(said: str, name: str) -> None:
    log = f"mine.cu:7:9: error: {said.format(name)}\n"
    found = in_users_words(CompileError("", log), MINE)
    assert found.kind == "runner"
    assert found.message == f"the cpu runner has no {name}; run it on a GPU"


@pytest.mark.parametrize("name", ["__syncthread", "__shfl", "__my_helper", "vadd4", "scale"])
def test_a_name_that_is_not_of_cuda_is_an_error(name: str) -> None:
    found = in_users_words(CompileError("", GXX.format(line=7, name=name)), MINE)
    assert found.kind == "compile"
    assert found.message == f"mine.cu:7: error: '{name}' was not declared in this scope"


def test_another_error_comes_before_what_only_a_gpu_has() -> None:
    log = GXX.format(line=7, name="__vadd4") + "mine.cu:9:1: error: expected ';'\n"
    assert in_users_words(CompileError("", log), MINE).message == "mine.cu:9: error: expected ';'"
    follows = GXX.format(line=7, name="__vadd4") + "mine.cu:7:20: error: cannot convert\n"
    assert in_users_words(CompileError("", follows), MINE).kind == "runner"


@pytest.mark.cpu
def test_a_check_names_the_line_of_what_only_a_gpu_has(write_kernel: WriteKernel) -> None:
    body = "__global__ void matmul(const float *A, const float *B, float *C, int N)\n"
    path = write_kernel("matching", body + "{\n    C[0] = __match_any_sync(~0u, N);\n}\n")
    point = Point(read_kernel(path), Problem(8, 8, 8), {"TILE_SIZE": 8})
    line = path.read_text().splitlines().index("    C[0] = __match_any_sync(~0u, N);") + 1
    with pytest.raises(UnsupportedError) as found:
        check_point(point)
    assert found.value.message == (
        f"{path}:{line}: __match_any_sync cannot be checked on the host; check this kernel on a GPU"
    )


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
