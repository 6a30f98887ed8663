"""Runs points of a checked build in a child process and returns what it wrote, unexplained."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbench.check.debuginfo import DebugInfo
from mmbench.errors import CrashError, KernelTimeoutError, LaunchError
from mmbench.inputs import Inputs, exact, from_memory, in_memory
from mmbench.product import MATRICES
from mmbench.runners import Array
from mmbench.runners.host_messages import missing_definition
from mmbench.spec import Dim3, Launch, Point

STORE = np.dtype([("stored", "u4"), ("site", "u4"), ("thread", "u4"), ("block", "u4")])
TRACED = np.dtype([
    ("thread", "u4"), ("epoch", "u4"), ("site", "u4"), ("buffer", "u2"), ("op", "u1"),
    ("bytes", "u1"), ("element", "i8"), ("before", "f8"), ("after", "f8"),
])  # fmt: skip
_CHILD = Path(__file__).with_name("child.py")
_NO_BLOCK = -1
_START_SECONDS = 60.0


@dataclass(frozen=True)
class RawRun:
    """What the runtime reported: findings and counts as it wrote them, C, and who stored it."""

    launch: Launch
    c: Array
    stores: npt.NDArray[np.void]  # one for each element of C
    seconds: float
    findings: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    changed_inputs: tuple[str, ...] = ()
    traced: npt.NDArray[np.void] | None = None
    traced_total: int = 0


@dataclass(frozen=True)
class Libraries:
    """The two libraries of a checked build, and what is known of the kernel's."""

    kernel: Path
    runtime: Path
    info: DebugInfo


def run_checked(
    points: Sequence[Point],
    libraries: Libraries,
    inputs: Sequence[Inputs],
    timeout: float,
    traced_block: Dim3 | None = None,
) -> list[RawRun]:
    """Run points of one library, one after another.

    Raise KernelTimeoutError, CrashError or LaunchError at the first that cannot end well.
    """
    with tempfile.TemporaryDirectory(prefix="mmbench-check-") as scratch:
        jobs = []
        for number, (point, data) in enumerate(zip(points, inputs, strict=True)):
            folder = Path(scratch, str(number))
            folder.mkdir()
            job = _job(point, libraries, folder)
            job["traced_block"] = _block_number(point.launch(), traced_block)
            job["timeout"] = timeout
            _write_matrices(point, data, folder)
            (folder / "job.json").write_text(json.dumps(job))
            jobs.append(job)
        paths = [str(Path(scratch, str(number), "job.json")) for number in range(len(points))]
        _run_child(paths, timeout)
        return [
            _collect(point, Path(path).parent, job)
            for point, path, job in zip(points, paths, jobs, strict=True)
        ]


def _block_number(launch: Launch, block: Dim3 | None) -> int:
    if block is None:
        return _NO_BLOCK
    if any(not 0 <= i < extent for i, extent in zip(block, launch.grid, strict=True)):
        raise LaunchError(f"there is no block {block} in the grid {launch.grid}")
    x, y, z = block
    return x + launch.grid[0] * (y + launch.grid[1] * z)


def _job(point: Point, libraries: Libraries, folder: Path) -> dict[str, Any]:
    launch = point.launch()
    info, product = libraries.info, point.spec.product
    arguments: list[dict[str, Any]] = []
    number = 0
    values = point.arguments(dict.fromkeys(MATRICES, 0), exact(product))
    for argument, value in zip(point.spec.arguments, values, strict=True):
        if not argument.is_matrix:
            ctype = "size_t" if argument.is_pointer else argument.ctype
            arguments.append({"ctype": ctype, "value": value})
            continue
        name = argument.name
        arguments.append({
            "name": name, "number": number, "file": str(folder / name),
            "element_bytes": product.bytes_of(name),
            "output": name == "C", "stores": str(folder / "stores"),
        })  # fmt: skip
        number += 1
    return {
        "runtime": str(libraries.runtime),
        "kernel": str(libraries.kernel),
        "grid": launch.grid,
        "block": launch.block,
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "shift": 0 if info.has_small_accesses else 2,
        "arrays": [
            (array.offset, array.bytes, int(array.dynamic), array.element_bytes, int(array.whole))
            for array in info.arrays
        ],
        "guards": info.guards,
        "arguments": arguments,
        **{name: str(folder / name) for name in ("report", "seconds", "trace", "status", "said")},
    }


def _write_matrices(point: Point, inputs: Inputs, folder: Path) -> None:
    product = point.spec.product
    for name, data in zip(MATRICES, (inputs.a, inputs.b, inputs.c), strict=True):
        (folder / name).write_bytes(in_memory(data, product, name).tobytes())


def _run_child(jobs: list[str], timeout: float) -> None:
    command = [sys.executable, "-I", "-S", str(_CHILD), *jobs]
    done = subprocess.run(
        command, capture_output=True, timeout=_START_SECONDS + len(jobs) * (timeout + 1),
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise LaunchError(f"the checked runs could not begin: {_last_line(said)}", said)


def _last_line(said: str) -> str:
    return said.splitlines()[-1] if said else "the process said nothing"


def _raise_if_failed(point: Point, job: dict[str, Any]) -> None:
    status = int(Path(job["status"]).read_text())
    if status == -signal.SIGALRM:
        raise KernelTimeoutError(
            f"{point}: the kernel did not end within {job['timeout']:g} s; look for a loop whose "
            "step can be 0, or a wait for another thread"
        )
    if status < 0:
        raise CrashError(f"{point}: the kernel ended its process ({signal.Signals(-status).name})")
    if status > 0:
        said = Path(job["said"]).read_text().strip()
        if (missing := missing_definition(said, point.spec.path)) is not None:
            raise missing
        raise LaunchError(f"{point}: the checked run could not begin: {_last_line(said)}", said)


def _collect(point: Point, folder: Path, job: dict[str, Any]) -> RawRun:
    _raise_if_failed(point, job)
    problem, product = point.problem, point.spec.product
    dtype = np.dtype(product.dtype_of("C"))
    rows = [json.loads(line) for line in (folder / "report").read_text().splitlines()]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["type"], []).append(row)
    words_each = dtype.itemsize >> job["shift"]
    stores = np.fromfile(folder / "stores", STORE)[::words_each]
    names = buffer_names(point)
    traced = np.fromfile(folder / "trace", TRACED) if job["traced_block"] >= 0 else None
    return RawRun(
        launch=point.launch(),
        c=from_memory(np.fromfile(folder / "C", dtype), problem, product, "C"),
        stores=from_memory(stores[: problem.m * problem.n], problem, product, "C"),
        seconds=float((folder / "seconds").read_text()),
        findings=kinds.get("finding", []),
        counts=kinds.get("count", []),
        changed_inputs=tuple(
            names[row["buffer"]] for row in kinds.get("input", []) if row["changed"]
        ),
        traced=traced,
        traced_total=kinds["end"][0]["traced"],
    )


def buffer_names(point: Point) -> tuple[str, ...]:
    """The matrices in the order of the entry point's arguments, as the runtime numbers them."""
    return tuple(argument.name for argument in point.spec.arguments if argument.is_matrix)
