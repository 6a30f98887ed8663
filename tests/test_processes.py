"""One task in several processes: how they are run, and what they say together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mmbench import kernels, processes
from mmbench.errors import CrashError, UnfitError
from mmbench.measure import StopRule, Timing
from mmbench.product import Problem
from mmbench.runners import Program, Telemetry
from mmbench.spec import Point
from mmbench.verify import Verdict
from mmbench.worker import Entry, Outcome, Task

POINT = Point(kernels.get("naive"), Problem(8, 8, 8), {"TILE_SIZE": 8})
TASK = Task((Entry(POINT, Program("", "", None)),), StopRule(), False, 0, ahead=(POINT,))
RIGHT = Verdict(True, "", "every element compared")
WRONG = Verdict(False, "1 of 64 elements differ", "every element compared")


def timed(*samples: float, **more: Any) -> Outcome:
    return Outcome(verdict=RIGHT, timing=Timing.of(samples), **more)


class Scripted:
    """A supervisor whose tasks come out as planned."""

    def __init__(self, *planned: list[Outcome] | Exception) -> None:
        self.planned = list(planned)
        self.log: list[str] = []

    def run(
        self, task: Task, timeout: float, progress: Any, then: Task | None = None
    ) -> list[Outcome]:
        assert timeout == 9.0
        self.log.append("run" if not task.ahead else "run and look ahead")
        if then is not None:
            self.log.append("go on")
        progress("measuring", 0.5)
        outcome = self.planned.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def prestart_next(self) -> None:
        self.log.append("start next")

    def stop(self) -> None:
        self.log.append("stop")


def run(supervisor: Any, count: int) -> tuple[list[Outcome], list[tuple[str, float | None]]]:
    said: list[tuple[str, float | None]] = []
    found = processes.run(supervisor, TASK, 9.0, lambda *words: said.append(words), count, TASK)
    return found, said


def test_one_process_is_as_it_was() -> None:
    outcome = timed(1.0, 2.0, 4.0)
    supervisor = Scripted([outcome])
    assert run(supervisor, 1) == ([outcome], [("measuring", 0.5)])
    assert supervisor.log == ["run and look ahead", "go on"]


def test_each_process_is_a_new_one() -> None:
    supervisor = Scripted([timed(1.0)], [timed(2.0)], [timed(4.0)])
    (outcome,), said = run(supervisor, 3)
    one = ["start next", "run", "stop"]
    assert supervisor.log == [*one, *one, "run and look ahead"]
    assert said[1] == ("process 2/3: measuring", 0.5)
    assert outcome.timing is not None
    assert outcome.timing.samples == (1.0, 2.0, 4.0)
    assert outcome.timing.median == pytest.approx(2.0)


def test_all_have_a_say() -> None:
    hot = Telemetry(1980, 300.0, 60, "power", 0)
    cool = Telemetry(1900, 200.0, 40, "", 1)
    supervisor = Scripted(
        [timed(1.0, floor=3.0, telemetry=hot)], [timed(1.0, floor=5.0, telemetry=cool)]
    )
    (outcome,), _ = run(supervisor, 2)
    assert outcome.floor == 4.0
    assert outcome.telemetry == Telemetry(1940, 250.0, 60, "power", 1)


def test_what_one_process_finds_wrong_is_wrong() -> None:
    supervisor = Scripted([timed(1.0)], [Outcome(verdict=WRONG)], [timed(1.0)])
    (outcome,), _ = run(supervisor, 3)
    assert outcome.timing is None
    assert outcome.verdict is not None
    assert not outcome.verdict.ok
    assert outcome.verdict.message == f"{WRONG.message} (in process 2 of 3; right before)"
    assert supervisor.log.count("run") == 2  # nothing is left to be measured


def test_an_error_of_one_process_is_the_outcome() -> None:
    supervisor = Scripted([timed(1.0)], [Outcome(error=UnfitError("too large"))])
    (outcome,), _ = run(supervisor, 3)
    assert outcome.timing is None
    assert outcome.error is not None
    assert outcome.error.message == "too large (in process 2 of 3; right before)"


@pytest.mark.parametrize("processes", [1, 3])
def test_what_is_wrong_at_once_is_wrong_in_all(processes: int) -> None:
    supervisor = Scripted([Outcome(verdict=WRONG)])
    (outcome,), _ = run(supervisor, processes)
    assert outcome.verdict == WRONG


def test_a_pair_goes_on_without_the_wrong_one() -> None:
    wrong = Outcome(verdict=WRONG)
    supervisor = Scripted([timed(1.0), wrong], [timed(4.0), wrong])
    (right, other), _ = run(supervisor, 2)
    assert right.timing is not None
    assert right.timing.median == pytest.approx(2.0)
    assert other == wrong


def test_a_crash_in_a_later_process_ends_it() -> None:
    supervisor = Scripted([timed(1.0)], CrashError("the kernel crashed"))
    with pytest.raises(CrashError) as error:
        run(supervisor, 3)
    assert error.value.message == "the kernel crashed (in process 2 of 3; right before)"


def test_the_looks_ahead_are_of_the_task() -> None:
    supervisor = Scripted([timed(1.0)], [timed(1.0)])
    processes.run(
        supervisor,  # type: ignore[arg-type]
        replace(TASK, ahead=()), 9.0, lambda *_: None, 2,
    )  # fmt: skip
    assert supervisor.log == ["start next", "run", "stop", "run"]
