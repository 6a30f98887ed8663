"""The JSON file beside a CSV: the environment, the kernels' hashes, and every sample.

It is replaced as a whole after each row, so a reader never sees half of it.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mmbench import __version__, whole_file
from mmbench.bench import Measured
from mmbench.cache import source_hash
from mmbench.device import Device
from mmbench.errors import UsageError
from mmbench.spec import KernelSpec


def environment(device: Device, specs: Sequence[KernelSpec]) -> dict[str, Any]:
    """What a result depends on besides the point: versions, the device, the sources."""
    import numpy as np

    return {
        "mmbench": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": dataclasses.asdict(device),
        "kernels": {
            spec.name: {
                "file": spec.path.name,
                "sha256": source_hash(spec.source, spec.folders),
            }
            for spec in specs
        },
    }


def as_json(measured: Sequence[Measured], surroundings: dict[str, Any]) -> dict[str, Any]:
    """Environment and results as one value for json.dumps; unknown cells are null."""
    return {**surroundings, "results": [_result(each) for each in measured]}


def _result(measured: Measured) -> dict[str, Any]:
    cells = dataclasses.asdict(measured.row)
    return {
        **cells,
        "samples_ms": _milliseconds(measured.samples),
        "process_samples": [len(samples) for samples in measured.processes],
        "process_medians_ms": _milliseconds(map(statistics.median, measured.processes)),
    }


def _milliseconds(times: Iterable[float]) -> list[float]:
    """To the nanosecond: no timer used here resolves more."""
    return [round(seconds * 1e3, 6) for seconds in times]


class Sidecar:
    """One JSON file; each session that adds to its CSV is one of its ``runs``."""

    def __init__(
        self,
        csv_path: Path,
        surroundings: dict[str, Any],
        append: bool,
        kept: Path | None = None,
    ) -> None:
        """Begin or go on; ``kept`` is the CSV that earlier rows were put into, if they were."""
        self.path = csv_path.with_suffix(".json")
        earlier: list[dict[str, Any]] = []
        if append and self.path.exists():
            try:
                earlier = json.loads(self.path.read_text(encoding="utf-8"))["runs"]
                if not isinstance(earlier, list):
                    raise TypeError
            except (OSError, ValueError, KeyError, TypeError):
                raise UsageError(
                    f"{self.path} is not the JSON of {csv_path.name}; move it away to go on"
                ) from None
        elif self.path.exists() and kept is not None:
            shutil.copyfile(self.path, kept.with_suffix(".json"))
        head = {"command": sys.argv[1:], **surroundings, "results": []}
        self._text = json.dumps({"runs": [*earlier, head]}, allow_nan=False)
        self._separator = ""
        self._write()

    def write(self, measured: Measured) -> None:
        """Add a result, without encoding again what is in the file already."""
        line = json.dumps(_result(measured), allow_nan=False)
        self._text = f"{self._text.removesuffix(_END)}{self._separator}\n{line}{_END}"
        self._separator = ","
        self._write()

    def _write(self) -> None:
        try:
            whole_file.write(self.path, f"{self._text}\n".encode())
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None


_END = "]}]}"  # closes the results, the run, the runs and the file
