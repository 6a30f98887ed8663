"""What mmbench claims of a GPU, on a GPU: the same rows that users get."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import RIGHT, WriteKernel, measured_rows
from mmbench import axes, kernels, metrics
from mmbench.bench import Bench, Settings
from mmbench.measure import StopRule
from mmbench.product import Problem
from mmbench.results import Row
from mmbench.runners import Runner
from mmbench.spec import Point

pytestmark = pytest.mark.gpu

QUICK = StopRule(samples=5, min_time=0.0, budget=0.5, warm_up=0.01)


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
        FIRST
        for (int k = 0; k < TILE_SIZE; ++k) acc += sA[ty][k] * sB[k][tx];
        SECOND
    }
    if (row < N && col < N) C[row * N + col] = acc;
}
"""


def rows_of(
    runner: Runner, points: list[Point], cache: str = "hot", timeout: float = 20
) -> list[Row]:
    bench = Bench(runner, Settings(QUICK, cache, timeout=timeout))
    return measured_rows(bench, points)


def points_of(path: Path | str, n: str, tile: str = "16") -> list[Point]:
    spec = kernels.get(str(path))
    return axes.points([spec], axes.problems(axes.parse_axis(n)), axes.parse_axis(tile))


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_is_right_at_awkward_sizes(gpu: Runner, name: str) -> None:
    spec = kernels.get(name)
    tiles = spec.params.get("TILE_SIZE", (16,))
    problems = [Problem(n, n, n) for n in (1, 15, 16, 17, 32, 33, 97, 256)]
    if spec.rectangular:
        problems += [Problem(70, 40, 33), Problem(33, 1, 257)]
    rows = rows_of(gpu, axes.points([spec], problems, tiles))
    assert {row.status for row in rows} <= {"ok", "skipped"}, [row.reason for row in rows]
    assert sum(row.status == "ok" for row in rows) >= len(tiles)


@pytest.mark.parametrize("name", kernels.names())
def test_declared_shared_memory_is_what_the_compiler_reports(gpu: Runner, name: str) -> None:
    spec = kernels.get(name)
    points = axes.points([spec], [Problem(64, 64, 64)], None)
    for point, row in zip(points, rows_of(gpu, points), strict=True):
        static = spec.static_shared.value(point.names) if spec.static_shared else 0
        assert row.shared_bytes == static + point.launch().dynamic_shared_bytes


def test_rates_lie_below_the_roof_and_agree_with_the_time(gpu: Runner) -> None:
    for row in rows_of(gpu, points_of("tiled", "1024", "32"), cache="cold"):
        assert row.status == "ok", row.reason
        assert row.time_ms_median is not None
        assert row.gflops == pytest.approx(2 * 1024**3 / row.time_ms_median / 1e6)
        assert row.roof_percent is not None
        assert 0 < row.roof_percent < 100
        assert row.registers is not None
        assert row.occupancy_percent is not None
        assert row.sm_clock_mhz is None or row.sm_clock_mhz > 100


@pytest.mark.parametrize("cold", [True, False])
def test_no_launch_latency_lies_in_a_sample(
    gpu: Runner, write_kernel: WriteKernel, cold: bool
) -> None:
    """An empty kernel between two plain events reads some 9 us; behind the gate far less."""
    from mmbench.runners.cuda import CudaSession

    path = write_kernel(
        "empty", "__global__ void matmul(const float *, const float *, float *, int) {}"
    )
    (point,) = points_of(path, "16")
    session = CudaSession(0)
    kernel = session.load(gpu.compile(point), point, point.launch())
    buffer = session.allocate(4096)
    arguments = [buffer.address] * 3 + [16]
    samples = [kernel.sample(arguments, 1, cold) for _ in range(50)]
    del kernel, buffer
    session.close()
    assert 0 < float(np.median(samples)) < 6e-6


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 1023, 4 << 20, (4 << 20) + 3])
def test_a_session_copies_and_compares_to_the_last_byte(gpu: Runner, size: int) -> None:
    from mmbench.runners.cuda import CudaSession

    session = CudaSession(0)
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    one, other = session.allocate(size), session.allocate(size)
    session.write(one, data)
    session.copy(other, one)
    assert session.same([(one, other)])
    found = np.empty_like(data)
    session.read(other, found)
    assert np.array_equal(found, data)
    for place in {0, size // 2, size - 1}:
        changed = data.copy()
        changed[place] ^= 0x80
        session.write(other, changed)
        assert not session.same([(one, other)])
        assert not session.same([(one, one), (one, other), (one, one)])
    session.copy(other, one)
    assert session.same([(one, other), (one, one)])
    del one, other
    session.close()


def test_a_stray_write_is_not_blamed_on_the_next_kernel(
    gpu: Runner, write_kernel: WriteKernel
) -> None:
    """It hits what the session keeps on the device behind A, B and C."""
    stray = RIGHT.replace(
        "C[row * N + col] = acc;",
        "C[row * N + col] = acc;\n    if (row + col == 0) "
        "for (long i = 1 << 20; i < 16 << 20; i += 4096) C[i] = 1.0f;",
    )
    first, second = write_kernel("stray", stray), write_kernel("guarded", RIGHT)
    points = points_of(second, "512") + points_of(first, "512") + points_of(second, "512")
    rows = rows_of(gpu, points)
    assert [rows[0].status, rows[2].status] == ["ok", "ok"]


def test_cold_is_slower_than_hot_where_the_cache_matters(gpu: Runner) -> None:
    points = points_of("tiled", "512", "16")
    (cold,) = rows_of(gpu, points, "cold")
    (hot,) = rows_of(gpu, points, "hot")
    assert cold.time_ms_median is not None
    assert hot.time_ms_median is not None
    assert cold.time_ms_median > 0.98 * hot.time_ms_median


@pytest.mark.parametrize(
    ("missing", "n"), [("FIRST", "96"), ("SECOND", "96,128,256,512")], ids=["first", "second"]
)
def test_a_missing_barrier_is_wrong(
    gpu: Runner, write_kernel: WriteKernel, missing: str, n: str
) -> None:
    body = TILED.replace(missing, "").replace("FIRST", "__syncthreads();")
    path = write_kernel("race", body.replace("SECOND", "__syncthreads();"))
    rows = rows_of(gpu, points_of(path, n, "32"))
    assert "wrong" in {row.status for row in rows}
    assert all(row.gflops is None for row in rows if row.status == "wrong")


def test_an_illegal_access_costs_its_row_alone(gpu: Runner, write_kernel: WriteKernel) -> None:
    wild = RIGHT.replace("C[row * N + col]", "C[((long long)row << 40) + col]")
    points = points_of("naive", "40") + points_of(write_kernel("wild", wild), "40")
    points += points_of("naive", "40")
    before, bad, after = rows_of(gpu, points)
    assert (before.status, bad.status, after.status) == ("ok", "failed", "ok")
    assert bad.reason is not None
    assert "illegal memory access" in bad.reason
    assert bad.gflops is None


def test_a_failed_assert_costs_its_row_alone(gpu: Runner, write_kernel: WriteKernel) -> None:
    body = "#include <assert.h>\n" + RIGHT.replace("float acc", "assert(N < 40);\nfloat acc")
    bad, good = rows_of(gpu, points_of(write_kernel("asserts", body), "40,39"))
    assert (bad.status, good.status) == ("failed", "ok")
    assert bad.reason is not None
    assert "N < 40" in bad.reason


def test_an_endless_kernel_is_ended(gpu: Runner, write_kernel: WriteKernel) -> None:
    body = RIGHT.replace("float acc", "while (((volatile float *)A)[0] < 1e30f) {}\nfloat acc")
    points = points_of(write_kernel("endless", body), "40") + points_of("naive", "40")
    bad, good = rows_of(gpu, points, timeout=3)
    assert (bad.status, good.status) == ("timeout", "ok")


def test_launch_bounds_skip_a_block_too_large(gpu: Runner, write_kernel: WriteKernel) -> None:
    body = RIGHT.replace("void matmul", "void __launch_bounds__(256) matmul")
    fits, too_large = rows_of(gpu, points_of(write_kernel("bounded", body), "40", "16,32"))
    assert (fits.status, too_large.status) == ("ok", "skipped")
    assert too_large.reason is not None
    assert "256 threads" in too_large.reason


def test_a_compile_error_names_the_users_line(gpu: Runner, write_kernel: WriteKernel) -> None:
    path = write_kernel("typo", RIGHT.replace("acc = 0.0f;", "acc = 0.0f"))
    lines = path.read_text().splitlines()
    (row,) = rows_of(gpu, points_of(path, "40"))
    assert (row.status, row.kind) == ("failed", "compile")
    assert row.reason is not None
    number = int(row.reason.removeprefix(f"{path}:").partition(":")[0])
    assert "for (int k" in lines[number - 1] or "float acc" in lines[number - 1]


def test_dynamic_shared_memory_above_48_kib(gpu: Runner, write_kernel: WriteKernel) -> None:
    body = "extern __shared__ float spare[];\n" + RIGHT.replace(
        "float acc = 0.0f;", "spare[16383] = 1.0f; float acc = spare[16383] - 1.0f;"
    )
    path = write_kernel("dynamic", body, launch="dynamic_shared_bytes = 65536")
    (row,) = rows_of(gpu, points_of(path, "40"))
    assert row.status == "ok", row.reason
    assert row.shared_bytes == 65536


def test_the_occupancy_formula_agrees_with_the_driver(gpu: Runner) -> None:
    """cuOccupancyMaxActiveBlocksPerMultiprocessor is asked through CuPy, where it is installed."""
    cupy = pytest.importorskip("cupy")
    limits = gpu.device.multiprocessor
    assert limits is not None
    for threads, words in ((64, 0), (256, 512), (1024, 2048), (256, 8192), (96, 100)):
        shared = f"__shared__ float s[{words}]; s[threadIdx.x % {words}] = x[0];" if words else ""
        code = f'extern "C" __global__ void f(float *x) {{ {shared} x[threadIdx.x] += 1.0f; }}'
        function = cupy.RawKernel(code, "f")
        function.compile()
        blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            function.kernel.ptr, threads, 0
        )
        share = metrics.occupancy(limits, threads, function.num_regs, function.shared_size_bytes)
        warps = -(-threads // 32)
        assert share == pytest.approx(blocks * warps * 32 / limits.threads)


def test_the_command_line_measures_and_saves(gpu: Runner, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    command = [sys.executable, "-m", "mmbench", "run", "--n", "256", "--tile", "16"]
    command += ["--runner", "cuda", "--min-time", "0", "--format", "json", "--out", str(out)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    rows = json.loads(answer.stdout)["results"]
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["cache"] == "cold" and row["roof_percent"] > 0 for row in rows)
    assert len(out.read_text().splitlines()) == 1 + len(rows)


def test_each_process_has_a_context_of_its_own(gpu: Runner) -> None:
    command = [sys.executable, "-m", "mmbench", "run", "--kernel", "tiled", "--n", "256"]
    command += ["--tile", "16", "--runner", "cuda", "--min-time", "0.1", "--processes", "3"]
    answer = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    row, library = json.loads(answer.stdout)["results"]
    for each in (row, library):
        medians = each["process_medians_ms"]
        assert each["processes"] == len(medians) == 3
        assert min(medians) <= each["time_ms_median"] <= max(medians) < 1.1 * min(medians)


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        (("C[row * N + col] = acc", "C[row * N + col + 64] = acc"), "out-of-bounds-write"),
        (("FIRST", ""), "race"),
        (("A[row * N + t + tx] : 0.0f", "A[row * N + t + tx + N] : 0.0f"), "out-of-bounds-read"),
    ],
    ids=["stray write", "missing barrier", "stray read"],
)
def test_check_on_the_gpu_finds_what_the_checked_build_finds(
    gpu: Runner, write_kernel: WriteKernel, planted: tuple[str, str], kind: str
) -> None:
    from mmbench.check.sanitizer import check_point_on_gpu

    body = TILED.replace(*planted).replace("FIRST", "__syncthreads();")
    path = write_kernel("planted", body.replace("SECOND", "__syncthreads();"))
    (point,) = points_of(path, "33")
    report = check_point_on_gpu(point, ("racecheck",) if kind == "race" else ("memcheck",))
    assert any(finding.kind.endswith(kind) for finding in report.findings), report
    assert all(finding.line > 0 for finding in report.findings)


def test_a_right_kernel_has_a_clean_bill_on_the_gpu(gpu: Runner) -> None:
    from mmbench.check.sanitizer import check_point_on_gpu

    (point,) = points_of("tiled", "33")
    report = check_point_on_gpu(point)
    assert report.findings == ()
    assert report.verdict_message == ""


@pytest.mark.parametrize("name", ["naive", "uncoalesced", "tiled", "tutorial"])
def test_counted_sectors_are_what_the_gpu_measures(gpu: Runner, name: str) -> None:
    from mmbench import profiling

    (point,) = points_of(name, "64")
    rows = {row.name: row for row in profiling.profile(point)}
    for quantity in ("requests", "sectors"):
        for op in ("load", "store"):
            row = rows[f"global {op} {quantity}"]
            assert row.counted == row.measured, row
    assert rows["shared load bank conflicts"].measured == 0


def test_a_header_that_is_missing_is_one_sentence(gpu: Runner, write_kernel: WriteKernel) -> None:
    """PyCUDA reports this one as bytes: it comes from a preprocessing pass."""
    path = write_kernel("lacks", '#include "beside.cuh"\n' + RIGHT)
    (path.parent / "beside.cuh").write_text("#include <no_such_header.h>\n")
    (row,) = rows_of(gpu, points_of(path, "40"))
    assert (row.status, row.kind) == ("failed", "compile")
    assert row.reason is not None
    assert "no_such_header.h" in row.reason
    assert "\\n" not in row.reason


PROGRAM = """
#include <iostream>
#include <no_such_helper.h>
#define TILE_DIM 16
__global__ void mul(float *P, const float *M, const float *N, int rows, int cols, int inner)
{
    __shared__ float a[TILE_DIM][TILE_DIM], b[TILE_DIM][TILE_DIM];
    int tx = threadIdx.x, ty = threadIdx.y;
    int y = blockIdx.y * TILE_DIM + ty, x = blockIdx.x * TILE_DIM + tx;
    float sum = 0.0f;
    for (int t = 0; t < inner; t += TILE_DIM) {
        a[ty][tx] = y < rows && t + tx < inner ? M[y * inner + t + tx] : 0.0f;
        b[ty][tx] = t + ty < inner && x < cols ? N[(t + ty) * cols + x] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE_DIM; ++k) sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    if (y < rows && x < cols) P[y * cols + x] = sum;
}
int main() { std::cout << "host code" << std::endl; return 0; }
"""


def test_a_whole_program_without_a_header_runs(gpu: Runner, tmp_path: Path) -> None:
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    spec = kernels.get(str(path))
    points = axes.points([spec], [Problem(70, 40, 33)], [8, 32])
    rows = rows_of(gpu, points)
    assert [row.status for row in rows] == ["ok", "ok"], [row.reason for row in rows]
    assert [row.block for row in rows] == ["8,8,1", "32,32,1"]
    assert {row.requested_bytes for row in rows} == {None}


def test_too_much_static_shared_memory_is_a_skipped_row(
    gpu: Runner, write_kernel: WriteKernel
) -> None:
    body = RIGHT.replace(
        "float acc = 0.0f;",
        "__shared__ volatile float big[20000]; big[threadIdx.x] = 0.0f;\n"
        "float acc = big[threadIdx.x];",
    )
    (row,) = rows_of(gpu, points_of(write_kernel("big", body), "40"))
    assert row.status == "skipped"
    assert row.reason is not None
    assert "80000 bytes" in row.reason
    assert "49152" in row.reason


def test_a_local_header_is_found_beside_a_file_named_by_a_relative_path(
    gpu: Runner, write_kernel: WriteKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "start.cuh").write_text("#define START 0.0f\n")
    body = '# include "start.cuh"\n' + RIGHT.replace("acc = 0.0f", "acc = START")
    write_kernel("local", body)
    monkeypatch.chdir(tmp_path)
    (row,) = rows_of(gpu, points_of("./local.cu", "40"))
    assert row.status == "ok", row.reason
    (tmp_path / "start.cuh").write_text("#define START 1.0f\n")
    (row,) = rows_of(gpu, points_of("./local.cu", "40"))
    assert row.status == "wrong"
