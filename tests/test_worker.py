"""What becomes of a kernel that misbehaves: its own row says so, and the sweep goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import HEADER, WriteKernel, measured_rows, quiet
from mmbench.bench import Bench, Settings
from mmbench.header import read_kernel
from mmbench.measure import StopRule
from mmbench.product import Problem
from mmbench.results import Row
from mmbench.runners import Runner
from mmbench.spec import Point
from mmbench.supervisor import Progress, Supervisor
from mmbench.worker import Entry, Task
from mmbench.worker_process import WorkerProcess

pytestmark = pytest.mark.cpu

QUICK = StopRule(samples=3, min_time=0.0, precision=1.0, budget=0.1, warm_up=0.0)
MEASURED = ("samples", "time_ms_median", "time_ms_low", "time_ms_high", "time_ms_min",
            "spread_percent", "gflops", "roof_percent", "requested_gbs",
            "compulsory_gbs")  # fmt: skip
GOOD, FIRST_BAD = 17, 20
WHERE = "at block (1, 0, 0), thread (3, 2, 0)"

KERNEL = r"""
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

__device__ __noinline__ float dig(int depth)
{
    volatile float pad[256];
    pad[depth % 256] = depth;
    return depth == 0 ? pad[0] : dig(depth - 1) + pad[depth % 256];
}

__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < N; ++k) acc += A[row * N + k] * B[k * N + col];
    volatile bool bad = row == 2 && col == 19;
    volatile int zero = 0;
    MISBEHAVE
    C[row * N + col] = acc;
}
"""


@dataclass(frozen=True)
class Case:
    """A line in a kernel, and what its row says."""

    line: str
    reason: str
    status: str = "failed"
    kind: str | None = "crash"


ENDLESS = Case(
    "while (bad);",
    "no result after 1 s (kernel: first launch); the process was ended",
    "timeout",
    "timeout",
)
CASES = [
    Case(
        "if (bad) *(volatile float *)16 = acc;",
        f"illegal memory access (signal 11, SIGSEGV) {WHERE} (kernel: first launch)",
    ),
    Case("if (bad) acc += ((const volatile float *)B)[1ll << 40];", f"SIGSEGV) {WHERE}"),
    Case("*(volatile float *)16 = acc;", "illegal memory access"),
    Case(
        'assert(!bad && "row is fine");',
        f'device-side assert in the kernel (!bad && "row is fine") {WHERE}',
    ),
    Case(
        "if (bad) acc += dig(1000);",
        f"a thread needs more local memory than the cpu runner's 64 KiB, {WHERE}",
    ),
    Case("if (bad) abort();", f"the kernel crashed (signal 6, SIGABRT) {WHERE}"),
    Case("if (bad) __trap();", f"the kernel crashed (signal 4, SIGILL) {WHERE}"),
    Case("if (bad) exit(3);", "ended with code 3 (kernel: first launch)"),
    Case("if (bad) _exit(0);", "ended with code 0 (kernel: first launch)"),
    Case("if (bad) acc += 1.0f;", "1 of 841 elements differ; first C[2][19] = ", "wrong", None),
    ENDLESS,
]
if os.uname().machine == "x86_64":  # others do not trap it
    CASES.append(Case("if (bad) acc += row / zero;", f"division of a whole number by zero {WHERE}"))


@pytest.fixture(scope="module", autouse=True)
def _thread_form() -> Iterator[None]:
    """Threads as fibers, so that a fault has a thread; see runners.regions for the other form."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MMBENCH_NO_BLOCK_FORM", "1")
    yield
    patch.undo()


def count_starts(patch: pytest.MonkeyPatch) -> list[Supervisor]:
    """A list that gets an entry for each worker process that is started."""
    started: list[Supervisor] = []
    start = Supervisor._start

    def counted(
        self: Supervisor, first: tuple[Sequence[Point], int] | None = None
    ) -> WorkerProcess:
        started.append(self)
        return start(self, first)

    patch.setattr(Supervisor, "_start", counted)
    return started


def rows_of(
    runner: Runner,
    path: Path,
    sizes: list[int],
    rule: StopRule = QUICK,
    timeout: float = 20.0,
    progress: Progress = quiet,
) -> list[Row]:
    spec = read_kernel(path)
    points = [Point(spec, Problem(n, n, n), {"TILE_SIZE": 16}) for n in sizes]
    return measured_rows(Bench(runner, Settings(rule, timeout=timeout)), points, progress)


@dataclass(frozen=True)
class Sweep:
    """Rows of one sweep in which a good point stands before and after each bad one."""

    good: list[Row]
    bad: dict[Case, Row]
    worker_starts: int


@pytest.fixture(scope="module", params=[False, True], ids=["asked", "given ahead"])
def sweep(
    cpu: Runner, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Sweep:
    """On the host, and as on a GPU, where the worker goes on with the next point by itself."""
    lines = "".join(f"if (N == {n}) {{ {case.line} }}\n" for n, case in enumerate(CASES, FIRST_BAD))
    header = HEADER.format(
        entry="matmul", arguments='["A", "B", "C", "int N"]', extra="", launch="",
        block="[16, 16]", grid='["ceil_div(N, 16)", "ceil_div(N, 16)"]',
    )  # fmt: skip
    path = tmp_path_factory.mktemp("worker") / "kernel.cu"
    path.write_text(header + KERNEL.replace("MISBEHAVE", lines))
    sizes = [GOOD]
    for n in range(FIRST_BAD, FIRST_BAD + len(CASES)):
        sizes += [n, GOOD]
    with pytest.MonkeyPatch.context() as patch:
        starts = count_starts(patch)
        patch.setattr(cpu, "compiles_while_measuring", request.param, raising=False)
        rows = rows_of(cpu, path, sizes, timeout=1.0)
    assert [row.n for row in rows] == sizes
    return Sweep(rows[::2], dict(zip(CASES, rows[1::2], strict=True)), len(starts))


@pytest.mark.parametrize("case", CASES, ids=[case.line for case in CASES])
def test_a_bad_row_says_why_and_has_no_rates(sweep: Sweep, case: Case) -> None:
    row = sweep.bad[case]
    assert (row.status, row.kind) == (case.status, case.kind)
    assert row.reason is not None
    assert case.reason in row.reason
    assert {name: getattr(row, name) for name in MEASURED} == dict.fromkeys(MEASURED)


def test_the_rows_around_it_are_measured(sweep: Sweep) -> None:
    assert [row.status for row in sweep.good] == ["ok"] * (len(CASES) + 1)
    for row in sweep.good:
        assert row.reason is None
        assert row.gflops is not None
        assert row.gflops > 0


def test_a_worker_is_replaced_after_each_bad_kernel(sweep: Sweep) -> None:
    """A crash is tried again in a new worker; a wrong kernel may have written anywhere."""
    crashes = [case for case in CASES if case.kind == "crash"]
    assert sweep.worker_starts == 1 + len(CASES) + len(crashes)


def test_a_crash_that_an_earlier_kernel_caused_is_not_the_later_ones(
    cpu: Runner, write_kernel: WriteKernel
) -> None:
    """N = 20 is right but leaves something behind that N = 17 stumbles over."""
    lines = "if (N == 20) left = 1; if (N == 17 && left) *(volatile int *)8 = 1;"
    body = KERNEL.replace("MISBEHAVE", lines)
    path = write_kernel("poison", body.replace("__global__", "static int left;\n__global__"))
    assert [row.status for row in rows_of(cpu, path, [20, 17])] == ["ok", "ok"]


def test_one_worker_serves_all_points(
    cpu: Runner, write_kernel: WriteKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = count_starts(monkeypatch)
    path = write_kernel("kernel", KERNEL.replace("MISBEHAVE", ""))
    rows = rows_of(cpu, path, [1, 15, 16, 17, 33])
    assert [row.status for row in rows] == ["ok"] * 5
    assert len(starts) == 1


def test_a_worker_goes_on_while_its_rows_are_written(
    cpu: Runner, write_kernel: WriteKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "compiles_while_measuring", True, raising=False)
    starts = count_starts(monkeypatch)
    spec = read_kernel(write_kernel("kernel", KERNEL.replace("MISBEHAVE", "")))
    groups = [[Point(spec, Problem(n, n, n), {"TILE_SIZE": 16})] for n in (15, 16, 17)]
    measuring = Bench(cpu, Settings(QUICK)).run_groups(groups, quiet)
    written = []
    for row in (each.row for group in measuring for each in group):
        written.append((row.n, row.status))
        worker = starts[-1]._worker
        assert worker is not None
        assert worker.pipe.poll(10 if len(written) < len(groups) else 0) is (len(written) < 3)
    assert written == [(15, "ok"), (16, "ok"), (17, "ok")]
    assert len(starts) == 1


def test_a_task_that_was_given_ahead_may_never_be_asked_for(
    cpu: Runner, write_kernel: WriteKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = count_starts(monkeypatch)
    spec = read_kernel(write_kernel("kernel", KERNEL.replace("MISBEHAVE", "")))
    points = [Point(spec, Problem(n, n, n), {"TILE_SIZE": 16}) for n in (15, 16, 17)]
    one, two, three = (Task((Entry(p, cpu.compile(p)),), QUICK, False, 0) for p in points)
    with Supervisor("cpu", 0) as supervisor:
        supervisor.prestart((points[:1], 0))
        for task, then in ((one, two), (three, one), (one, None), (two, two), (two, None)):
            (outcome,) = supervisor.run(task, 20, quiet, then)
            assert outcome.verdict is not None
            assert outcome.verdict.ok
    assert len(starts) == 2


def test_progress_of_a_long_launch(cpu: Runner, write_kernel: WriteKernel) -> None:
    # 256 blocks; a launch takes about 0.8 s whatever the number of cores.
    line = "if (threadIdx.x + threadIdx.y == 0) usleep(3000 * sysconf(_SC_NPROCESSORS_ONLN));"
    path = write_kernel("kernel", KERNEL.replace("MISBEHAVE", line))
    seen: list[tuple[str, float]] = []

    def progress(text: str, share: float | None) -> None:
        if share is not None:
            seen.append((text, share))

    (row,) = rows_of(cpu, path, [256], StopRule(slow=0.1), progress=progress)
    assert (row.status, row.samples) == ("ok", 2)
    shares = [share for text, share in seen if text == "N=256 kernel: first launch"]
    assert len(set(shares)) > 1
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_dynamic_shared_memory(cpu: Runner, write_kernel: WriteKernel) -> None:
    """Its size is the launch's: the array that the runner makes for it is no static memory."""
    body = """
    extern __shared__ float tiles[];

    __global__ void matmul(const float *A, const float *B, float *C, int N)
    {
        float *a = tiles, *b = tiles + TILE_SIZE * TILE_SIZE;
        int x = threadIdx.x, y = threadIdx.y, at = y * TILE_SIZE + x;
        int row = blockIdx.y * TILE_SIZE + y, col = blockIdx.x * TILE_SIZE + x;
        float acc = 0.0f;
        for (int t = 0; t < N; t += TILE_SIZE) {
            a[at] = row < N && t + x < N ? A[row * N + t + x] : 0.0f;
            b[at] = t + y < N && col < N ? B[(t + y) * N + col] : 0.0f;
            __syncthreads();
            for (int k = 0; k < TILE_SIZE; ++k)
                acc += a[y * TILE_SIZE + k] * b[k * TILE_SIZE + x];
            __syncthreads();
        }
        if (row < N && col < N) C[row * N + col] = acc;
    }
    """
    launch = 'dynamic_shared_bytes = "2 * TILE_SIZE * TILE_SIZE * 4"'
    (row,) = rows_of(cpu, write_kernel("kernel", body, launch=launch), [40])
    assert (row.status, row.reason, row.shared_bytes) == ("ok", None, 2048)
