"""A kernel's hardware counters, read with Nsight Compute, beside the model and the counts.

Three figures with three names: *model* is the header's traffic formula, *counted* what the
checked build saw at source level, *measured* what the GPU's counters say. The tool is told
to leave the card's clocks alone.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mmbench import metrics
from mmbench.check import UnsupportedError, check_point
from mmbench.errors import LaunchError, MmbenchError, RunnerUnavailableError
from mmbench.once import command_words
from mmbench.runners import find_tool
from mmbench.runners.nvcc import folders
from mmbench.spec import Point

_WARP = 32
_TIMEOUT_SECONDS = 300
_L1 = "l1tex__"


@dataclass(frozen=True)
class Counter:
    """One line of the profile: a name, a unit, and the counter of ncu that measures it."""

    name: str
    unit: str
    counter: str
    model: Callable[[Point], float] | None = None


def _load_requests(point: Point) -> float:
    return point.traffic().reads / _WARP


def _store_requests(point: Point) -> float:
    return point.traffic().writes / _WARP


def _compulsory_reads(point: Point) -> float:
    compulsory = metrics.compulsory_bytes(point.problem, point.spec.product)
    return compulsory - _compulsory_writes(point)


def _compulsory_writes(point: Point) -> float:
    return point.problem.m * point.problem.n * point.spec.product.bytes_of("C")


COUNTERS = (
    Counter("global load requests", "warps", f"{_L1}t_requests_pipe_lsu_mem_global_op_ld.sum",
            _load_requests),
    Counter("global load sectors", "32 B", f"{_L1}t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    Counter("global store requests", "warps", f"{_L1}t_requests_pipe_lsu_mem_global_op_st.sum",
            _store_requests),
    Counter("global store sectors", "32 B", f"{_L1}t_sectors_pipe_lsu_mem_global_op_st.sum"),
    Counter("shared load wavefronts", "", f"{_L1}data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    Counter("shared store wavefronts", "", f"{_L1}data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    Counter("shared load bank conflicts", "",
            f"{_L1}data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
    Counter("shared store bank conflicts", "",
            f"{_L1}data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"),
    Counter("L2 traffic", "bytes", "lts__t_bytes.sum"),
    Counter("DRAM read", "bytes", "dram__bytes_read.sum", _compulsory_reads),
    Counter("DRAM written", "bytes", "dram__bytes_write.sum", _compulsory_writes),
)  # fmt: skip


@dataclass(frozen=True)
class ProfileRow:
    """One quantity, as modelled, counted and measured; None where a way does not give it."""

    name: str
    unit: str
    model: float | None
    counted: float | None
    measured: float | None


def profile(point: Point) -> list[ProfileRow]:
    """Run the point under ncu and through the checked build."""
    measured, counted = measure(point), count(point)
    return [
        ProfileRow(
            each.name,
            each.unit,
            each.model(point) if each.model and point.spec.declares_traffic else None,
            counted.get(each.name),
            measured.get(each.counter),
        )
        for each in COUNTERS
    ]


def count(point: Point) -> dict[str, float]:
    """The checked build's counts by the counter's name; empty for a kernel it does not run."""
    try:
        counts = check_point(point).counts
    except UnsupportedError:
        return {}

    def total(space: str, op: str, field: str) -> int:
        chosen = [each for each in counts if (each.space, each.op) == (space, op)]
        return sum(getattr(each, field) for each in chosen)

    found: dict[str, float] = {}
    for op in ("load", "store"):
        for field in ("requests", "sectors"):
            found[f"global {op} {field}"] = total("global", op, field)
        wavefronts = total("shared", op, "wavefronts")
        found[f"shared {op} wavefronts"] = wavefronts
        conflicts = wavefronts - total("shared", op, "ideal_wavefronts")
        found[f"shared {op} bank conflicts"] = conflicts
    return found


def measure(point: Point) -> dict[str, float]:
    """Values of COUNTERS for one launch, by the counter's name."""
    answer = subprocess.run(
        ncu_command(point), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS,
        env=dict(os.environ, CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0")),
        check=False,
    )  # fmt: skip
    if "ERR_NVGPUCTRPERM" in answer.stdout + answer.stderr:
        raise RunnerUnavailableError(
            "the driver lets only root read the GPU's counters; run as root, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0"
        )
    return read_counters(answer.stdout)


def ncu_command(point: Point) -> list[str]:
    """The command line: one launch of the kernel, the counters above, clocks left alone."""
    tool = find_tool("ncu", *folders(), "/opt/nvidia/nsight-compute")
    if tool is None:
        raise RunnerUnavailableError(
            "ncu not found; it comes with the CUDA toolkit (Nsight Compute): add its folder to PATH"
        )
    names = ",".join(each.counter for each in COUNTERS)
    return [
        tool, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--metrics", names, "--kernel-name", f"regex:{point.spec.entry}",
        sys.executable, *command_words(point),
    ]  # fmt: skip


def read_counters(text: str) -> dict[str, float]:
    """Parse ncu's raw CSV: a line of names, one of units, then a line for each launch."""
    begin = text.find('"ID"')
    lines = list(csv.reader(io.StringIO(text[begin:]))) if begin >= 0 else []
    if len(lines) < 3:
        said = next((line for line in text.splitlines() if line.startswith("==ERROR==")), "")
        raise LaunchError(f"ncu profiled no launch {said}".strip())
    names, _, values = lines[:3]
    cells = dict(zip(names, values, strict=False))
    try:
        return {c.counter: float(cells[c.counter].replace(",", "")) for c in COUNTERS}
    except (KeyError, ValueError) as error:
        raise MmbenchError(f"ncu gave no value for a counter ({error})") from None
