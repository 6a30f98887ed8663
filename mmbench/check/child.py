"""The process in which checked kernels run. Started by path, knows no mmbench.

Each of its arguments is a job, a JSON file that ``launch`` writes. A job runs in a fork, since
its kernel may end the process; what it has to say it writes into the files that the job names.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

_CTYPES: dict[str, type[Any]] = {
    "int": ctypes.c_int32, "unsigned": ctypes.c_uint32, "unsigned int": ctypes.c_uint32,
    "size_t": ctypes.c_uint64, "long long": ctypes.c_int64,
    "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip


_PR_SET_PDEATHSIG = 1


class _Uint3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class _Launch(ctypes.Structure):
    """``checked_launch`` of simt/checked_state.h."""

    _fields_ = (
        ("grid", ctypes.c_void_p),
        ("block", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("traced_block", ctypes.c_int64),
    )


def _open(job: dict[str, Any]) -> tuple[Any, Any]:
    for name in ("libm.so.6", "libstdc++.so.6"):  # for kernels that were linked without
        try:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    runtime = ctypes.CDLL(job["runtime"], mode=ctypes.RTLD_GLOBAL)
    kernel = ctypes.CDLL(job["kernel"])
    runtime.checked_buffer.restype = ctypes.c_void_p
    runtime.checked_run.restype = ctypes.c_int64
    dynamic = ctypes.c_uint64(job["dynamic_shared_bytes"])
    if runtime.checked_open(kernel.simt_entry, job["shift"], dynamic) != 0:
        raise MemoryError("no memory for the threads' stacks")
    for offset, size, is_dynamic, element_bytes, whole in job["arrays"]:
        place = ctypes.c_uint64(offset), ctypes.c_uint64(size)
        if runtime.checked_array(*place, is_dynamic, element_bytes, whole) != 0:
            raise MemoryError("too many shared arrays")
    for offset, size in job["guards"]:
        runtime.checked_ignore(ctypes.c_uint64(offset), ctypes.c_uint64(size))
    return runtime, kernel


def _buffer(runtime: Any, argument: dict[str, Any]) -> int:
    data = Path(argument["file"]).read_bytes()
    size = ctypes.c_uint64(len(data))
    address = runtime.checked_buffer(size, argument["element_bytes"], int(argument["output"]))
    if not address:
        raise MemoryError(f"no memory for {argument['name']}")
    ctypes.memmove(address, data, len(data))
    return int(address)


def run(job: dict[str, Any]) -> None:
    """Run a job: results are the report, the outputs, who stored them, and the trace."""
    runtime, kernel = _open(job)
    values: list[Any] = []
    outputs = []
    for argument in job["arguments"]:
        # 16 bytes each, so that a kernel which takes a wider type reads zeros, not the next.
        value = (ctypes.c_uint64 * 2)()
        if "file" in argument:
            value[0] = _buffer(runtime, argument)
            if argument["output"]:
                outputs.append((argument, int(value[0])))
        else:
            _CTYPES[argument["ctype"]].from_buffer(value).value = argument["value"]
        values.append(value)
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    grid, block = _Uint3(*job["grid"]), _Uint3(*job["block"])
    launch = _Launch(
        ctypes.addressof(grid), ctypes.addressof(block),
        ctypes.cast(kernel.simt_entry, ctypes.c_void_p), ctypes.addressof(pointers),
        job["traced_block"],
    )  # fmt: skip
    nanoseconds = runtime.checked_run(ctypes.byref(launch))
    for argument, address in outputs:
        size = Path(argument["file"]).stat().st_size
        Path(argument["file"]).write_bytes(ctypes.string_at(address, size))
        runtime.checked_write_stores(argument["stores"].encode(), argument["number"])
    if job["traced_block"] >= 0:
        runtime.checked_write_trace(job["trace"].encode())
    runtime.checked_write_report(job["report"].encode())
    Path(job["seconds"]).write_text(str(nanoseconds / 1e9))


def _die_with_parent() -> None:
    """An endless kernel must not outlive whoever waits for it (prctl(2), Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_apart(job: dict[str, Any]) -> int:
    """Run a job in a process of its own: 0, its exit code, or the signal that ended it, negative.

    SIGALRM is the time-out: nothing else stops a kernel that never returns.
    """
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler waits for the kernel's end
        _die_with_parent()
        signal.setitimer(signal.ITIMER_REAL, job["timeout"])
        try:
            run(job)
        except BaseException:
            Path(job["said"]).write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def main(paths: list[str]) -> None:
    """Run jobs until one does not end well, or until whoever has started this is gone."""
    _die_with_parent()
    for path in paths:
        job = json.loads(Path(path).read_text())
        code = run_apart(job)
        Path(job["status"]).write_text(str(code))
        if code != 0:
            break


if __name__ == "__main__":
    main(sys.argv[1:])
