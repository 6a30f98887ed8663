"""mmbench init: the header that it writes reads back as what was inferred, and runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmbench import header, kernels
from mmbench.cli import cli
from mmbench.overrides import Overrides

PROGRAM = """\
#include <cstdio>
#include <cublas_v2.h>
#define TILE 16
template <typename T>
__global__ void product(T *out, const T *x, const T *w, int rows, int cols, int inner)
{
    __shared__ T a[TILE][TILE], b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int t = 0; t < inner; t += TILE) {
        a[threadIdx.y][threadIdx.x] =
            row < rows && t + threadIdx.x < inner ? x[row * inner + t + threadIdx.x] : T(0);
        b[threadIdx.y][threadIdx.x] =
            col < cols && t + threadIdx.y < inner ? w[(t + threadIdx.y) * cols + col] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && col < cols) out[row * cols + col] = sum;
}
int main()
{
    float *d = nullptr;
    product<float><<<dim3(4, 4), dim3(TILE, TILE)>>>(d, d, d, 64, 64, 64);
    printf("done\\n");
}
"""


def invoke(*words: str) -> tuple[int, str]:
    answer = CliRunner().invoke(cli, list(words))
    return answer.exit_code, answer.output


def test_the_header_reads_back_as_what_was_inferred(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    before = kernels.get(str(path))
    assert invoke("init", str(path))[0] == 0
    after = kernels.get(str(path))
    assert path.read_text().endswith(PROGRAM)
    assert after.source.split("\n// ///\n")[1].strip() == before.source.strip()
    before = replace(before, source="", notes=(), alternatives=())
    assert replace(after, source="") == before


@pytest.mark.cpu
def test_a_file_with_its_header_runs_like_before(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    words = ("run", "--kernel", str(path), "--runner", "cpu", "--m", "40", "--n", "33", "--k", "21")
    quick = ("--tile", "8,16", "--max-time", "0.05", "--format", "csv", "--baseline", "none")
    assert invoke("init", str(path))[0] == 0
    code, output = invoke(*words, *quick)
    assert code == 0, output
    assert output.count(",ok,") == 2  # the tile follows although the file defines it


@pytest.mark.cpu
def test_args_by_name_hold_for_every_reading_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    roles = "out=C, x=A, w=B, rows=M, cols=N, inner=K"
    spec = kernels.get(str(path), Overrides(args=roles))
    assert spec.alternatives
    for reading in (spec, *spec.alternatives):
        assert [str(argument) for argument in reading.arguments] == [
            "C", "A", "B", "int M", "int N", "int K",
        ]  # fmt: skip
    code, output = invoke(
        "run", "--kernel", str(path), "--runner", "cpu", "--n", "64", "--tile", "8",
        "--args", roles, "--max-time", "0.05", "--format", "csv", "--baseline", "none",
    )  # fmt: skip
    assert code == 0, output
    assert output.count(",ok,") == 1


def test_the_options_go_into_the_header(tmp_path: Path) -> None:
    path = tmp_path / "linear.cu"
    path.write_text(
        "__global__ void linear(float *y, const float *x, const float *w, const float *bias,\n"
        "                       int tokens, int in, int out, float scale)\n"
        "{ int t = blockIdx.y * blockDim.y + threadIdx.y, o = blockIdx.x * blockDim.x + "
        "threadIdx.x;\n"
        "  if (t >= tokens || o >= out) return;\n"
        "  float sum = bias ? bias[o] : 0.0f;\n"
        "  for (int i = 0; i < in; ++i) sum += x[t * in + i] * w[o * in + i];\n"
        "  y[t * out + o] = scale * sum; }\n"
    )
    roles = "y=C, x=A, w=B, bias=null, tokens=M, in=K, out=N, scale=alpha"
    assert invoke("init", str(path), "--args", roles, "--trans-b")[0] == 0
    spec = header.read_kernel(path)
    assert [str(argument) for argument in spec.arguments] == [
        "C", "A", "B", "null", "int M", "int K", "int N", "float alpha",
    ]  # fmt: skip
    assert spec.product.column_major == {"B"}


def test_line_ends_and_the_byte_order_mark_stay(tmp_path: Path) -> None:
    path = tmp_path / "dos.cu"
    text = "\ufeff// ünïcödé\n" + PROGRAM
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert invoke("init", str(path))[0] == 0
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf// /// kernel\r\n")
    assert data.count(b"\xef\xbb\xbf") == 1
    assert data.count(b"\n") == data.count(b"\r\n")
    assert kernels.get(str(path)).entry == "product"


def test_stdout_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    code, output = invoke("init", str(path), "--stdout")
    assert code == 0
    assert '// entry = "product"' in output
    assert path.read_text() == PROGRAM


def test_a_second_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    invoke("init", str(path))
    once = path.read_text()
    answer = CliRunner().invoke(cli, ["init", str(path)], standalone_mode=False)
    assert "has a header already" in str(answer.exception)
    assert path.read_text() == once


def test_a_file_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: bytes) -> int:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    answer = CliRunner().invoke(cli, ["init", str(path)], standalone_mode=False)
    assert "cannot be written: Permission denied" in str(answer.exception)


def test_what_is_said_on_the_command_line_comes_before_the_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PROGRAM)
    invoke("init", str(path))
    spec = kernels.get(str(path), Overrides(block="T,T,1", beta=1.0))
    assert [str(axis) for axis in spec.block] == ["TILE_SIZE", "TILE_SIZE", "1"]
    assert spec.product.beta == 1
