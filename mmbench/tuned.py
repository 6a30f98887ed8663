"""The best parameters found for a kernel on a device, kept in the user's config folder."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from mmbench import whole_file
from mmbench.cache import source_hash
from mmbench.errors import UsageError
from mmbench.product import Problem
from mmbench.spec import KernelSpec


def path() -> Path:
    """The file that holds the winners ($MMBENCH_CONFIG overrides its folder)."""
    folder = os.environ.get("MMBENCH_CONFIG")
    return (Path(folder) if folder else user_config_path("mmbench")) / "tuned.json"


def save(device: str, spec: KernelSpec, problem: Problem, params: Mapping[str, int]) -> None:
    """Keep a winner; it replaces the one of the same device, source and problem."""
    kept = [each for each in _read() if not _is_same(each, device, spec, problem)]
    kept.append({**_identity(device, spec), "m": problem.m, "n": problem.n, "k": problem.k,
                 "params": dict(params)})  # fmt: skip
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write(target, json.dumps(kept, indent=1).encode())
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None


def find(device: str, spec: KernelSpec, problem: Problem) -> dict[str, int] | None:
    """The parameters tuned for this problem, or for the nearest one; None where there are none.

    Near is a small ratio of each size. An edited kernel has none until it is tuned again.
    """
    identity = _identity(device, spec)
    mine = [each for each in _read() if identity.items() <= each.items()]
    if not mine:
        return None
    best = min(mine, key=lambda each: _distance(each, problem))
    return {name: int(value) for name, value in best["params"].items()}


def _distance(each: dict[str, Any], problem: Problem) -> float:
    sizes = (("m", problem.m), ("n", problem.n), ("k", problem.k))
    return sum(abs(math.log(each[name] / size)) for name, size in sizes)


def _identity(device: str, spec: KernelSpec) -> dict[str, Any]:
    return {
        "device": device,
        "kernel": spec.name,
        "source_sha256": source_hash(spec.source, spec.folders),
    }


def _is_same(each: dict[str, Any], device: str, spec: KernelSpec, problem: Problem) -> bool:
    where = {"m": problem.m, "n": problem.n, "k": problem.k}
    return (_identity(device, spec) | where).items() <= each.items()


def _read() -> list[dict[str, Any]]:
    try:
        found = json.loads(path().read_text())
    except (OSError, ValueError):
        return []
    return [each for each in found if _is_winner(each)] if isinstance(found, list) else []


def _is_winner(each: object) -> bool:
    """Whether an entry is one that ``save`` has written: the file is open to people's hands."""
    if not isinstance(each, dict) or not isinstance(each.get("params"), dict):
        return False
    numbers = [*(each.get(size) for size in "mnk"), *each["params"].values()]
    return all(isinstance(number, int) and number > 0 for number in numbers)
