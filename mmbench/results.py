"""The row that every point yields, and COLUMNS, the one list of what a row holds.

Nothing here knows how a row is shown or stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

STATUSES = ("ok", "wrong", "skipped", "failed", "timeout")


@dataclass(frozen=True)
class Column:
    """Name, unit and meaning of one cell; the meaning holds the formula where there is one."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of results. None is unknown or not applicable, and an empty cell in a CSV."""

    timestamp: str
    mmbench_version: str
    runner: str
    device: str
    device_uuid: str
    kernel: str
    source_sha256: str
    dtype: str
    m: int
    n: int
    k: int
    tile_size: int | None
    params: str
    block: str | None = None
    grid: str | None = None
    status: str
    kind: str | None = None
    reason: str | None = None
    checked: str | None = None
    cache: str | None = None
    processes: int | None = None
    samples: int | None = None
    time_ms_median: float | None = None
    time_ms_low: float | None = None
    time_ms_high: float | None = None
    time_ms_min: float | None = None
    spread_percent: float | None = None
    process_spread_percent: float | None = None
    outliers: int | None = None
    timer_floor_ms: float | None = None
    flop: int | None = None
    gflops: float | None = None
    roof_percent: float | None = None
    baseline: str | None = None
    baseline_percent: float | None = None
    requested_bytes: int | None = None
    requested_gbs: float | None = None
    compulsory_bytes: int | None = None
    compulsory_gbs: float | None = None
    arithmetic_intensity: float | None = None
    max_error: float | None = None
    error_bound: float | None = None
    precision: str | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    occupancy_percent: float | None = None
    compile_s: float | None = None
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    gflops_per_watt: float | None = None
    joules: float | None = None
    temperature_c: int | None = None
    throttle: str | None = None
    remarks: str | None = None
    seed: int | None = None
    flags: str | None = None
    driver: str | None = None
    compiler: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rows results of the same thing, on the same device."""
        return (
            *self.point_key,
            self.source_sha256,
            self.flags,
            self.device_uuid,
            self.cache,
            self.seed,
        )

    @property
    def point_key(self) -> tuple[object, ...]:
        """The point alone: what two files are compared by."""
        return (self.kernel, self.dtype, self.m, self.n, self.k, self.params)

    @property
    def plausible(self) -> bool:
        """Whether the figures can be: others are shown, but never taken as the best."""
        return "implausible" not in (self.remarks or "")

    @property
    def square(self) -> bool:
        return self.m == self.n == self.k


def latest(rows: Iterable[Row]) -> list[Row]:
    """The last row of each point: a point measured again has its new result."""
    return list({row.point_key: row for row in rows}.values())


def in_order(rows: Iterable[Row], keys: Sequence[tuple[object, ...]]) -> list[Row]:
    """The rows in the order of these point keys; any other behind the last of its problem."""
    place = {key: i for i, key in enumerate(keys)}
    rows = list(rows)
    last: dict[tuple[int, int, int], int] = {}
    for row in rows:
        if (at := place.get(row.point_key)) is not None:
            problem = (row.m, row.n, row.k)
            last[problem] = max(at, last.get(problem, at))

    def where(row: Row) -> float:
        behind = last.get((row.m, row.n, row.k), len(place)) + 0.5
        return place.get(row.point_key, behind)

    return sorted(rows, key=where)


COLUMNS: tuple[Column, ...] = (
    Column("timestamp", "UTC", "When the row was measured, ISO 8601."),
    Column("mmbench_version", "", "Version of mmbench."),
    Column("runner", "", "`cuda` (times are GPU times) or `cpu` (times are host times)."),
    Column("device", "", "Name of the GPU, or of the processor with its cores."),
    Column("device_uuid", "", "Identity of the device, by which `--resume` knows it."),
    Column("kernel", "", "Name of the kernel: the stem of its .cu file."),
    Column(
        "source_sha256",
        "",
        "First 16 digits of the SHA-256 of the kernel's source and its local headers.",
    ),
    Column("dtype", "", "Element type of A, B and C; `A and B/C` where C has another."),
    Column("m", "", "Rows of A and C."),
    Column("n", "", "Columns of B and C."),
    Column("k", "", "Columns of A and rows of B."),
    Column("tile_size", "", "Value of TILE_SIZE; empty for a kernel without it."),
    Column("params", "", "All parameters of the kernel as `NAME=value`, separated by blanks."),
    Column("block", "threads", "Block of the launch, `x,y,z`."),
    Column("grid", "blocks", "Grid of the launch, `x,y,z`."),
    Column(
        "status",
        "",
        "`ok` (checked and measured), `wrong` (C is not A*B), `skipped` (declared unfit), "
        "`failed` (broke), `timeout`. Only `ok` rows have times and rates.",
    ),
    Column("kind", "", "Kind of a failure: `compile`, `launch`, `crash`, `runner`, ..."),
    Column("reason", "", "Why the row is not `ok`, in a sentence."),
    Column("checked", "", "How C was checked: every element, or rows and Freivalds' test."),
    Column(
        "cache",
        "",
        "`cold`: the L2 cache was overwritten before each launch; `hot`: launches in a row.",
    ),
    Column("processes", "", "Number of processes that took samples (`--processes`)."),
    Column("samples", "", "Number of samples in all, one duration each."),
    Column(
        "time_ms_median",
        "ms",
        "Median duration of one launch; of several processes, the geometric mean of their medians.",
    ),
    Column(
        "time_ms_low",
        "ms",
        "Lower end of its 95 % confidence interval, by order statistics; of several processes, by "
        "Student's t over their medians.",
    ),
    Column(
        "time_ms_high",
        "ms",
        "Upper end of that interval; both are empty below 6 samples in one process.",
    ),
    Column("time_ms_min", "ms", "Fastest sample."),
    Column("spread_percent", "%", "Interquartile range / median of all samples * 100."),
    Column(
        "process_spread_percent",
        "%",
        "(largest - smallest) / geometric mean of the processes' medians * 100; empty for one.",
    ),
    Column(
        "outliers",
        "",
        "Samples more than 3 interquartile ranges outside of the quartiles. None is dropped.",
    ),
    Column("timer_floor_ms", "ms", "What the timer reads of an empty kernel in this mode."),
    Column(
        "flop",
        "FLOP",
        "2 * M * N * K: a multiply and an add for each product; whole-number operations for "
        "whole-number types.",
    ),
    Column("gflops", "GFLOP/s", "flop / median time / 10^9 (GOP/s for whole-number types)."),
    Column(
        "roof_percent",
        "%",
        "gflops / FP32 roof * 100. Roof = SMs * FMA units * 2 * highest SM clock; "
        "empty on the cpu runner.",
    ),
    Column(
        "baseline",
        "",
        "Library that was measured beside the kernel, in turns in one process, with its version "
        "and math mode.",
    ),
    Column("baseline_percent", "%", "gflops / gflops of the baseline beside it * 100."),
    Column(
        "requested_bytes",
        "bytes",
        "What the kernel's own loads and stores ask for, by the header's traffic formula; "
        "caches serve a part of it.",
    ),
    Column(
        "requested_gbs",
        "GB/s",
        "Effective bandwidth: requested_bytes / median time / 10^9. Above the DRAM peak it was "
        "served by caches.",
    ),
    Column(
        "compulsory_bytes",
        "bytes",
        "(M*K + K*N + M*N) * element size: A and B read once, C written once. No kernel can "
        "move less.",
    ),
    Column("compulsory_gbs", "GB/s", "compulsory_bytes / median time / 10^9."),
    Column("arithmetic_intensity", "FLOP/byte", "flop / requested_bytes."),
    Column(
        "max_error",
        "",
        "Largest |c - reference| / sum |a||b| with real inputs, against a float64 reference.",
    ),
    Column("error_bound", "", "4 * sqrt(K) * 2^-24 for float32: a row above it is `wrong`."),
    Column(
        "precision",
        "",
        "What the kernel computes in. `FP32` was found by a probe that TF32 and BF16 cannot pass; "
        "other types by their names alone. Empty where no probe was run.",
    ),
    Column("registers", "", "Registers of a thread, from the driver; empty on the cpu runner."),
    Column("shared_bytes", "bytes", "Static and dynamic shared memory of a block."),
    Column("local_bytes", "bytes", "Local memory (spills) of a thread, from the driver."),
    Column(
        "occupancy_percent",
        "%",
        "Warps that blocks of this size keep resident on an SM / the most it can hold * 100, "
        "from registers, shared memory and threads.",
    ),
    Column("compile_s", "s", "Seconds the compiler took; empty where the cache had the program."),
    Column("sm_clock_mhz", "MHz", "SM clock between samples, the median of readings (NVML)."),
    Column("power_w", "W", "Power draw of the card, the median of the same readings (NVML)."),
    Column("gflops_per_watt", "GFLOP/s/W", "gflops / power_w."),
    Column("joules", "J", "power_w * median time: energy of one product at that draw."),
    Column("temperature_c", "C", "Highest temperature of these readings (NVML)."),
    Column("throttle", "", "Reasons for which the clock was held down meanwhile (NVML)."),
    Column(
        "remarks",
        "",
        "What a reader must know of the figures: `implausible`, at the timer's floor, noisy, "
        "not measured in turns, other processes on the device.",
    ),
    Column("seed", "", "Seed of the inputs."),
    Column("flags", "", "Compiler options."),
    Column("driver", "", "Driver version and the CUDA version it supports."),
    Column("compiler", "", "Version of nvcc or of the host's C++ compiler."),
)

assert [column.name for column in COLUMNS] == [f.name for f in fields(Row)]
