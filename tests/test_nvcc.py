"""nvcc's words in the user's: file, line, and what is no error of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import WriteKernel
from mmbench.errors import CompileError, UnfitError
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners.nvcc import in_users_words
from mmbench.runners.source_module import source
from mmbench.spec import Point

MINE = Path("some folder/mine.cu")


def test_the_first_error_in_the_users_file_is_told() -> None:
    log = (
        'cuda_fp16.h(12): error: identifier "x" is undefined\n'
        'mine.cu(6): error: expected a ";"\n'
        "mine.cu(9): error: something else\n"
        "3 errors detected in the compilation of kernel.cu.\n"
    )
    error = in_users_words(log, MINE)
    assert isinstance(error, CompileError)
    assert error.message == 'some folder/mine.cu:6: error: expected a ";"'
    assert error.details == log


def test_a_missing_header_is_told_by_the_host_compiler() -> None:
    log = "mine.cu:3:10: fatal error: helper_cuda.h: No such file or directory\ncompilation over.\n"
    message = in_users_words(log, MINE).message
    assert message == "some folder/mine.cu:3: error: helper_cuda.h: No such file or directory"


def test_too_much_shared_memory_is_unfit_with_both_numbers() -> None:
    log = (
        "ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)\n"
    )
    error = in_users_words(log, MINE)
    assert isinstance(error, UnfitError)
    assert "65536 bytes" in error.message
    assert "49152" in error.message


@pytest.mark.parametrize("log", ["", "nvcc fatal   : Unsupported gpu architecture 'sm_30'\n"])
def test_what_names_no_line_is_still_a_sentence(log: str) -> None:
    message = in_users_words(log, MINE).message
    assert message.startswith("some folder/mine.cu: ")
    assert "\n" not in message


def test_pycuda_has_no_reason_to_preprocess(write_kernel: WriteKernel) -> None:
    """It does wherever it reads "#include", some tenths of a second at each load."""
    body = (
        '#include <cuda_runtime.h>\n  #\tinclude "a.h"\n\t#include "b.h"\n#include_next <c>\n'
        "__global__ void matmul(const float *A, const float *B, float *C, int N) {}\n"
    )
    spec = read_kernel(write_kernel("mine", body))
    text = source(Point(spec, Problem(1, 1, 1), {"TILE_SIZE": 16}))
    assert '# include <cuda_runtime.h>\n  #\tinclude "a.h"\n\t# include "b.h"\n' in text
    assert "#include_next <c>" in text
    assert text.splitlines()[1:] == spec.source.replace("#include ", "# include ").splitlines()
