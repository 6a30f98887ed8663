"""One task in several processes anew, and what they say together.

On an H200 the medians of a kernel of 40 us differ by up to 1 % from one process to the next,
however many samples each has taken: a process has its own place in memory and its own context.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from mmbench.measure import Timing
from mmbench.runners import summary
from mmbench.supervisor import Progress, Supervisor
from mmbench.worker import Outcome, Task


def run(
    supervisor: Supervisor, task: Task, timeout: float, progress: Progress, processes: int
) -> list[Outcome]:
    """Run a task in so many processes, the last of which stays; raise what ended it in one."""
    runs: list[list[Outcome]] = []

    def show(phase: str, share: float | None) -> None:
        progress(f"process {len(runs) + 1} of {processes}: {phase}", share)

    while len(runs) < processes:
        last = len(runs) == processes - 1
        if runs:
            supervisor.stop()
        if not last:
            supervisor.prestart_next()
        mine = task if last else replace(task, ahead=None)
        runs.append(supervisor.run(mine, timeout, show if processes > 1 else progress))
        if not any(outcome.timing for outcome in runs[-1]):
            break
    return [_together(outcomes) for outcomes in zip(*runs, strict=True)]


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    """Of one entry. Where a process has found it wrong or failed, that is the outcome."""
    timings = [outcome.timing for outcome in outcomes if outcome.timing is not None]
    if len(timings) < len(outcomes):
        return next(outcome for outcome in outcomes if outcome.timing is None)
    floors = [outcome.floor for outcome in outcomes if outcome.floor is not None]
    return replace(
        outcomes[0],
        timing=Timing.of_processes(timings),
        telemetry=summary([each.telemetry for each in outcomes if each.telemetry is not None]),
        floor=statistics.median(floors) if floors else None,
    )
