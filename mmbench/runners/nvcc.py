"""nvcc: where it is, what it says of itself, and its errors in the user's own lines.

The CUDA compiler may come with a toolkit, with conda, or with pip (nvidia-cuda-nvcc and the
packages beside it); all three are looked for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache as memoize
from pathlib import Path

from mmbench.errors import CompileError, MmbenchError, RunnerUnavailableError, UnfitError
from mmbench.runners import find_tool
from mmbench.runners.host_messages import HOST_ERROR

_LOOKED = "$PATH, $CUDA_HOME, $CUDA_PATH, $CUDA_ROOT, /usr/local/cuda*/bin, pip and conda packages"
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic )?error(?:: | #[\w-]+: )(.*)$", re.MULTILINE)
_TOO_MUCH_SHARED = re.compile(r"uses too much shared data \((0x\w+) bytes, (0x\w+) max\)")


@dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler."""

    path: str
    version: str

    @property
    def library_folder(self) -> str:
        """Where the libraries of this toolkit lie."""
        return str(Path(self.path).resolve().parents[1] / "lib64")


def folders() -> list[str]:
    """Folders besides PATH in which nvcc may lie, the most deliberate choice first."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")]
    found = [f"{root}/bin" for root in roots if root]
    found += sorted((str(p / "bin") for p in Path("/usr/local").glob("cuda*")), reverse=True)
    if conda := os.environ.get("CONDA_PREFIX"):
        found.append(f"{conda}/bin")
    return found + [str(folder) for folder in _pip_folders()]


def _pip_folders() -> list[Path]:
    """bin folders of the nvidia-cuda-nvcc packages (``nvidia/cuda_nvcc``, ``nvidia/cu13``)."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None:
        return []
    roots = [Path(root) for root in spec.submodule_search_locations or []]
    return [folder for root in roots for folder in sorted(root.glob("c*/bin"), reverse=True)]


@memoize
def find() -> Nvcc:
    """The nvcc to use; raise RunnerUnavailableError where there is none."""
    path = find_tool("nvcc", *folders())
    if path is None:
        raise RunnerUnavailableError(
            f"nvcc not found (looked in {_LOOKED}); install the CUDA toolkit or set CUDA_HOME"
        )
    try:
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise RunnerUnavailableError(f"nvcc ({path}) does not run: {error}") from None
    match = re.search(r"release ([\d.]+), V([\d.]+)", text)
    return Nvcc(path, f"nvcc {match[2]}" if match else "nvcc of unknown version")


def in_users_words(log: str, path: Path) -> MmbenchError:
    """nvcc's first error as one sentence at the user's file and line; the log below it.

    Too much static shared memory is no error of the source: the point is unfit.
    """
    if match := _TOO_MUCH_SHARED.search(log):
        need, limit = int(match[1], 16), int(match[2], 16)
        return UnfitError(
            f"needs {need} bytes of static shared memory per block, the limit is {limit}", log
        )
    errors = _ERROR.findall(log) + HOST_ERROR.findall(log)
    mine = [found for found in errors if found[0].endswith(path.name)] or errors
    if mine:
        where, line, text = mine[0]
        where = str(path) if where.endswith(path.name) else where
        return CompileError(f"{where}:{line}: error: {text}", log)
    ptxas = re.search(r"^ptxas (?:error|fatal)\s*: (.*)$", log, re.MULTILINE)
    first = ptxas[1] if ptxas else next((ln for ln in log.splitlines() if ln.strip()), "no message")
    return CompileError(f"{path}: {first.strip()}", log)
