"""Which reading of a file without a header is right: each is tried on a small product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mmbench.errors import CompileError, MmbenchError, UnfitError
from mmbench.fitness import unfit_reason
from mmbench.product import Problem
from mmbench.runners import Runner
from mmbench.spec import KernelSpec, Point
from mmbench.supervisor import Supervisor
from mmbench.worker import Entry, Task

_TIMEOUT = 20.0  # seconds
_MULTIPLES = (2, 3, 4)  # of the largest tile: M, N and K all differ, and no kernel needs a guard


def settle(spec: KernelSpec, runner: Runner, say: Callable[[str], None]) -> KernelSpec:
    """The reading whose product is right; the first where none is, or where there is only one.

    ``say`` is told which was taken.
    """
    readings = [replace(spec, alternatives=())]
    readings += [
        replace(each, product=spec.product, defines=spec.defines, includes=spec.includes)
        for each in spec.alternatives
    ]
    if len(readings) == 1 or runner.device.runner not in spec.runners:
        return readings[0]
    ran = False
    for reading in readings:
        right = _is_right(reading, runner)
        ran |= right is not None
        if right:
            chosen = replace(reading, notes=spec.notes)
            if reading is not readings[0]:
                say(f"{spec.path.name}: of {len(readings)} readings this one is right: "
                    f"{describe(chosen)}")  # fmt: skip
            return chosen
    if ran:  # else the row itself says what keeps it from running
        say(
            f"{spec.path.name}: none of {len(readings)} readings of the file gives the right C, so "
            f"the first is measured; {_hint(spec, readings)} how it is meant"
        )
    return readings[0]


def _hint(spec: KernelSpec, readings: Sequence[KernelSpec]) -> str:
    """The options that settle what the readings differ in, and the storage that may be amiss."""
    options = [
        option
        for option, part in (("--args", "arguments"), ("--block", "block"), ("--grid", "grid"))
        if any(getattr(each, part) != getattr(readings[0], part) for each in readings)
    ]
    told = " ".join(spec.notes)
    options += [o for o in ("--trans-a", "--trans-b", "--layout") if f"(see {o}" in told]
    *others, last = options or ["--args"]
    return f"{', '.join(others)} and {last} say" if others else f"{last} says"


def describe(spec: KernelSpec) -> str:
    """How a kernel is called, in a line."""
    block, grid = (", ".join(map(str, axes)) for axes in (spec.block, spec.grid))
    return f"{spec.entry}({', '.join(map(str, spec.arguments))}), block ({block}), grid ({grid})"


def _is_right(spec: KernelSpec, runner: Runner) -> bool | None:
    """Whether a reading gives the right C on a small product; None where it cannot run."""
    params = {name: values[0] for name, values in spec.params.items()}
    side = max(16, *params.values()) if params else 32
    m, n, k = (side * multiple for multiple in _MULTIPLES)
    if not spec.rectangular:
        m = n = k = 4 * side
    point = Point(spec, spec.fixed or Problem(m, n, k), params)
    try:
        if unfit_reason(point, runner.device):
            return None
        task = Task((Entry(point, runner.compile(point)),), None, False, 0)
        with Supervisor(runner.device.runner, runner.device.index) as supervisor:
            (outcome,) = supervisor.run(task, _TIMEOUT, lambda text, share: None)
    except (CompileError, UnfitError):
        return None
    except MmbenchError:
        return False
    return outcome.error is None and outcome.verdict is not None and outcome.verdict.ok
