"""What this machine has for each runner, what is missing, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mmbench import cache
from mmbench.errors import MmbenchError
from mmbench.runners import find_tool, host_compiler, nvcc


@dataclass(frozen=True)
class Check:
    """One thing that was looked for. ``runner`` is the runner that needs it."""

    name: str
    runner: str
    ok: bool
    found: str
    mend: str = ""


def examine() -> list[Check]:
    """Look for everything, in the order in which it is needed."""
    return [
        Check("Python", "", True, platform.python_version()),
        _cache_folder(),
        _attempt(
            "C++ compiler", "cpu", _host_compiler, 'apt install g++, or pip install "mmbench[cpu]"'
        ),
        _attempt("cpu runner", "cpu", _runtime, "install a C++ compiler first"),
        *_cuda_checks(),
    ]


def usable(checks: list[Check], runner: str) -> bool:
    """Whether nothing that this runner needs is missing."""
    return all(check.ok for check in checks if check.runner == runner)


def _attempt(name: str, runner: str, look: Callable[[], str], mend: str) -> Check:
    try:
        return Check(name, runner, True, look())
    except MmbenchError as error:
        return Check(name, runner, False, error.message, mend)


def _cache_folder() -> Check:
    found, wanted = cache.folder(), cache.wanted()
    if found == wanted:
        return Check("cache folder", "", True, str(found))
    return Check(
        "cache folder", "", False, f"{wanted} cannot be written; {found} is used instead",
        "make it a folder that you may write to, or set MMBENCH_CACHE",
    )  # fmt: skip


def _host_compiler() -> str:
    compiler = host_compiler.find()
    return f"{compiler.version} ({' '.join(compiler.command)})"


def _runtime() -> str:
    return f"builds; {host_compiler.runtime_library().name}"


def _cuda_checks() -> Iterator[Check]:
    yield _attempt(
        "NVIDIA driver and GPU", "cuda", _gpu,
        "install the NVIDIA driver (on Debian and Ubuntu: apt install nvidia-driver), or use "
        "--runner cpu",
    )  # fmt: skip
    yield _attempt(
        "nvcc", "cuda", lambda: "{0.version} ({0.path})".format(nvcc.find()),
        "install the CUDA toolkit; or without root: conda install -c nvidia cuda-nvcc, or "
        "pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-nvvm",
    )  # fmt: skip
    headers = _cuda_headers()
    yield Check(
        "CUDA headers", "cuda", headers is not None,
        headers or "cuda.h not found beside nvcc; PyCUDA cannot be built without it",
        "install the CUDA toolkit, or set CUDA_ROOT to the folder that has include/cuda.h",
    )  # fmt: skip
    yield _package("pycuda", "cuda", 'PATH=<toolkit>/bin:$PATH pip install "mmbench[cuda]"')
    yield _package("nvidia-ml-py", "telemetry", "pip install nvidia-ml-py (clocks and power)")


def _gpu() -> str:
    """Names of the GPUs. Without PyCUDA nvidia-smi tells whether there is a driver at all."""
    if importlib.util.find_spec("pycuda") is None:
        return _nvidia_smi()
    from mmbench.runners import cuda

    runners = [cuda.CudaRunner(i) for i in range(cuda.device_count())]
    return "; ".join(f"{r.device.name}, driver {r.device.driver}" for r in runners)


def _nvidia_smi() -> str:
    import subprocess

    tool = find_tool("nvidia-smi")
    if tool is None:
        raise MmbenchError("no nvidia-smi, so no NVIDIA driver")
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise MmbenchError(f"nvidia-smi finds no GPU ({answer.stdout.strip()[:80]})")
    return "; ".join(answer.stdout.strip().splitlines())


def _cuda_headers() -> str | None:
    try:
        roots = [Path(nvcc.find().path).resolve().parents[1]]
    except MmbenchError:
        roots = []
    roots += [Path(folder).parent for folder in nvcc.folders()]
    for root in roots:
        for header in (root / "include/cuda.h", root / "targets/x86_64-linux/include/cuda.h"):
            if header.is_file():
                return str(header)
    return None


def _package(name: str, runner: str, mend: str) -> Check:
    try:
        return Check(name, runner, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, runner, False, "not installed", mend)
