"""One task in several processes anew, and what they say together.

On an H200 the medians of a kernel of 40 us differ by up to 1 % from one process to the next,
however many samples each has taken: a process has its own place in memory and its own context.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from mmbench.errors import MmbenchError
from mmbench.measure import Timing
from mmbench.runners import summary
from mmbench.supervisor import Progress, Supervisor
from mmbench.worker import Outcome, Task


def run(
    supervisor: Supervisor,
    task: Task,
    timeout: float,
    progress: Progress,
    processes: int,
    then: Task | None = None,
) -> list[Outcome]:
    """Run a task in so many processes, the last of which stays; raise what ended it in one.

    ``then`` is for the supervisor, where the next task is for the same process.
    """
    if processes == 1:
        return supervisor.run(task, timeout, progress, then)
    runs: list[list[Outcome]] = []

    def show(phase: str, share: float | None) -> None:
        progress(f"process {len(runs) + 1}/{processes}: {phase}", share)

    while len(runs) < processes:
        last = len(runs) == processes - 1
        if runs:
            supervisor.stop()
        if not last:
            supervisor.prestart_next()
        mine = task if last else replace(task, ahead=())
        try:
            runs.append(supervisor.run(mine, timeout, show))
        except MmbenchError as error:
            error.message += _after(len(runs), processes)
            raise
        if not any(outcome.timing for outcome in runs[-1]):
            break
    return [_together(outcomes, processes) for outcomes in zip(*runs, strict=True)]


def _after(before: int, processes: int) -> str:
    """What to add to a failure: that it depends on the process."""
    return f" (in process {before + 1} of {processes}; right before)" if before else ""


def _together(outcomes: Sequence[Outcome], processes: int) -> Outcome:
    """Of one entry. Where a process has found it wrong or failed, that is the outcome."""
    for i, outcome in enumerate(outcomes):
        if outcome.timing is None:
            return _said_when(outcome, _after(i, processes))
    timings = [outcome.timing for outcome in outcomes if outcome.timing is not None]
    floors = [outcome.floor for outcome in outcomes if outcome.floor is not None]
    return replace(
        outcomes[0],
        timing=Timing.of_processes(timings),
        telemetry=summary([each.telemetry for each in outcomes if each.telemetry is not None]),
        floor=statistics.median(floors) if floors else None,
    )


def _said_when(outcome: Outcome, when: str) -> Outcome:
    if outcome.error is not None:
        outcome.error.message += when
    elif outcome.verdict is not None:
        verdict = replace(outcome.verdict, message=outcome.verdict.message + when)
        return replace(outcome, verdict=verdict)
    return outcome
