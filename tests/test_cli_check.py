"""``mmbench check``, ``explain`` and ``profile`` as a user types them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import WriteKernel

pytestmark = pytest.mark.cpu

TILED = """
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    __shared__ float sA[TILE_SIZE][TILE_SIZE], sB[TILE_SIZE][TILE_SIZE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE_SIZE + ty, col = blockIdx.x * TILE_SIZE + tx;
    float acc = 0.0f;
    for (int t = 0; t < N; t += TILE_SIZE) {
        sA[ty][tx] = row < N && t + tx < N ? A[row * N + t + tx] : 0.0f;
        sB[ty][tx] = t + ty < N && col < N ? B[(t + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE_SIZE; ++k) acc += sA[ty][k] * sB[k][tx];
        __syncthreads();
    }
    if (row < N && col < N) C[row * N + col] = acc;
}
"""
RACY = TILED.replace("        __syncthreads();\n    }", "    }")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def mm(tmp_path: Path) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(
            [sys.executable, "-m", "mmbench", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    return run


def line_of(path: Path, text: str) -> int:
    return 1 + next(i for i, line in enumerate(path.read_text().splitlines()) if text in line)


def test_a_right_kernel_has_a_clean_bill_and_counts(mm: Run) -> None:
    answer = mm("check", "tiled", "--n", "33", "--tile", "16")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "no fault found. Checked: races" in " ".join(answer.stdout.split())
    loads = f"{33 * 33 * 3:,}"  # each element of A is read ceil(33 / 16) times
    assert loads in answer.stdout
    assert "as written in the source" in answer.stdout


def test_a_missing_barrier_is_found_with_both_lines(mm: Run, write_kernel: WriteKernel) -> None:
    path = write_kernel("racy", RACY)
    answer = mm("check", "racy.cu")
    assert answer.returncode == 1
    assert "shared-race" in answer.stdout
    assert f"racy.cu:{line_of(path, 'acc += sA')}" in answer.stdout
    assert f"line {line_of(path, 'sA[ty][tx] =')}" in answer.stdout
    assert "__syncthreads()" in answer.stdout


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_findings_as_data(mm: Run, write_kernel: WriteKernel, form: str) -> None:
    path = write_kernel("racy", RACY)
    answer = mm("check", "racy.cu", "--format", form)
    assert answer.returncode == 1
    value = json.loads(answer.stdout)
    line = line_of(path, "acc += sA")
    if form == "json":
        assert not value["ok"]
        assert {(f["kind"], f["line"]) for f in value["findings"]} >= {("shared-race", line)}
        assert value["points"][0]["counts"]
    else:
        results = value["runs"][0]["results"]
        region = results[0]["locations"][0]["physicalLocation"]["region"]
        assert (results[0]["ruleId"], region["startLine"]) == ("shared-race", line)


def test_what_is_not_supported_is_refused_by_name_and_line(
    mm: Run, write_kernel: WriteKernel
) -> None:
    path = write_kernel(
        "inline", TILED.replace("float acc", 'asm volatile("bar.sync 0;");\nfloat acc')
    )
    answer = mm("check", "inline.cu")
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    assert f"inline.cu:{line_of(path, 'asm volatile')}" in answer.stderr
    assert "asm" in answer.stderr


def test_a_kernel_for_a_gpu_says_why(mm: Run, tmp_path: Path) -> None:
    includes = "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
    body = "    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;\n"
    (tmp_path / "both.cu").write_text(includes + RECTANGULAR.replace("{\n", f"{{\n{body}", 1))
    answer = mm("check", "both.cu")
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1] == (
        "mmbench: both.cu: mul uses tensor-core operations (wmma), so it runs on cuda only; "
        "check it with --runner cuda"
    )
    (tmp_path / "both.cu").write_text(includes + RECTANGULAR)
    answer = mm("check", "both.cu", "--n", "20", "--tile", "8")
    assert answer.returncode == 0, answer.stderr


def test_a_compile_error_names_the_users_line(mm: Run, write_kernel: WriteKernel) -> None:
    path = write_kernel("typo", TILED.replace("float acc = 0.0f;", "float acc = 0.0f"))
    answer = mm("check", "typo.cu")
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    numbers = {line_of(path, "float acc"), line_of(path, "for (int t")}
    assert any(f"typo.cu:{number}:" in answer.stderr for number in numbers)


def test_an_endless_kernel_is_ended_with_a_sentence(mm: Run, write_kernel: WriteKernel) -> None:
    write_kernel(
        "endless", TILED.replace("float acc", "volatile int go = 1; while (go) ;\nfloat acc")
    )
    answer = mm("check", "endless.cu", "--n", "8", "--timeout", "1")
    assert answer.returncode == 1
    assert "did not end within 1 s" in answer.stderr


def test_sizes_that_do_not_fit_are_told(mm: Run) -> None:
    answer = mm("check", "tutorial", "--n", "33", "--tile", "16")
    assert answer.returncode == 2
    assert "multiple of TILE_SIZE" in answer.stderr
    assert "none of the points asked for can run here" in answer.stderr


def test_profile_without_a_gpu_says_what_is_missing(mm: Run) -> None:
    answer = mm("profile", "tiled")
    if answer.returncode == 0:
        pytest.skip("there is a GPU here")
    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1


RECTANGULAR = """
#include <iostream>
#include <no_such_helper.h>
#define TILE_DIM 16
// __global__ void older(float *A) {}
template <class T> void unused() {}
__global__ void mul(float *P, const float *M, const float *N, int rows, int cols, int inner)
{
    __shared__ float a[TILE_DIM][TILE_DIM], b[TILE_DIM][TILE_DIM];
    int y = blockIdx.y * TILE_DIM + threadIdx.y, x = blockIdx.x * TILE_DIM + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < inner; t += TILE_DIM) {
        a[threadIdx.y][threadIdx.x] =
            y < rows && t + threadIdx.x < inner ? M[y * inner + t + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] =
            t + threadIdx.y < inner && x < cols ? N[(t + threadIdx.y) * cols + x] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE_DIM; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (y < rows && x < cols) P[y * cols + x] = sum;
}
int main() { std::cout << "host code" << std::endl; return 0; }
"""


@pytest.mark.parametrize("command", ["run", "check", "show", "sweep"])
def test_a_file_without_a_header_is_read_and_the_reading_is_said(
    mm: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "mine.cu").write_text(RECTANGULAR)
    quick = ["--runner", "cpu", "--min-time", "0", "--max-time", "0.1"]
    sizes = ["--n", "33", "--m", "20", "--k", "50", "--tile", "8,16"]
    words = {
        "run": [
            "run",
            "--kernel",
            "mine.cu",
            *sizes,
            *quick,
            "--baseline",
            "none",
            "--format",
            "csv",
        ],
        "sweep": ["sweep", "mine.cu", *sizes, *quick, "--out", "a.csv"],
        "check": ["check", "mine.cu", *sizes],
        "show": ["show", "mine.cu"],
    }[command]
    answer = mm(*words)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "TILE_DIM is the tile" in answer.stderr
    if command == "run":
        rows = list(csv.DictReader(answer.stdout.splitlines()))
        assert [row["status"] for row in rows] == ["ok", "ok"]
        assert [row["requested_bytes"] for row in rows] == ["", ""]
        assert [row["tile_size"] for row in rows] == ["8", "16"]


def test_several_kernels_need_a_choice(mm: Run, tmp_path: Path) -> None:
    second = RECTANGULAR.replace("void mul(", "void mul2(").partition("__global__ void mul2")
    body = second[1] + second[2].partition("int main")[0]
    (tmp_path / "two.cu").write_text(RECTANGULAR + body)
    answer = mm("check", "two.cu", "--n", "8", "--tile", "8")
    assert answer.returncode == 2
    assert "mul, mul2" in answer.stderr
    assert "older" not in answer.stderr
    assert mm("check", "two.cu", "--n", "8", "--tile", "8", "--entry", "mul2").returncode == 0
    assert mm("check", "tiled", "--entry", "x", "--n", "8", "--tile", "8").returncode == 0


STRIDE = """
__global__ void mm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float acc = 0;
    for (int k = 0; k < K; ++k) acc += A[row * M + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""


def test_a_wrong_stride_is_found_with_a_tile_too(mm: Run, tmp_path: Path) -> None:
    """M, N and K differ also where the tile is given."""
    (tmp_path / "mine.cu").write_text(STRIDE)
    answer = mm("check", "mine.cu", "--tile", "8")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "tile 8, N or MxNxK: 7, 8, 5x7x18" in answer.stdout
    assert "A[row * M + k]" in answer.stdout


def test_a_large_size_of_the_files_own_is_let_go(mm: Run, tmp_path: Path) -> None:
    text = STRIDE.replace("int M, int N, int K", "").replace("*C, ", "*C")
    text = text.replace("row * M", "row * N").replace("< K", "< N").replace(">= M", ">= N")
    (tmp_path / "mine.cu").write_text("#define N 600\n" + text)
    answer = mm("check", "mine.cu")
    assert answer.returncode == 2
    assert "--define N=N" in answer.stderr
    answer = mm("check", "mine.cu", "--tile", "8", "--define", "N=N", "--n", "20")
    assert answer.returncode == 0, answer.stdout + answer.stderr
