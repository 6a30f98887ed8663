"""A progress bar with the time left, for a sequence of points of very different sizes.

The bar is made with the first thing to be shown: by then a worker is starting and compilers run,
which need not wait for rich.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mmbench.metrics import flop
from mmbench.spec import Point

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_CONSTANT_COST = 2e8  # of a point, in FLOP: what checking costs however small the product
_CHECKED_LAUNCHES = 2
_OTHER_COLUMNS = 52  # what the bar and the times need, and a "^C"


class ProgressView:
    """Shown on a terminal alone. A point weighs as much as its floating-point operations.

    Each group is launched in so many ``processes``.
    """

    def __init__(
        self,
        console: Callable[[], Console],
        groups: Sequence[Sequence[Point]],
        processes: int = 1,
    ) -> None:
        self._console = console
        self._left = [list(group) for group in groups]
        self._processes = processes
        self._done = 0.0  # weights of the groups that have been measured
        self._shown = 0.0
        self._launches = 0
        self._phase = ""

    @cached_property
    def _bar(self) -> tuple[Progress, TaskID]:
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column

        console = self._console()
        room = max(10, console.width - _OTHER_COLUMNS)
        progress = Progress(
            SpinnerColumn(),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, max_width=room),
            ),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=3600,
            disable=not console.is_terminal,
        )
        task = progress.add_task("starting", total=sum(map(_weight, self._left)) or 1)
        progress.start()
        return progress, task

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if "_bar" in self.__dict__:
            self._bar[0].stop()

    def update(self, phase: str, share: float | None) -> None:
        """Say what is going on; ``share`` is how much of a launch is done, where known."""
        if phase != self._phase and self._phase.endswith("launch"):
            self._launches += 1
        self._phase = phase
        begun = share if share is not None and phase.endswith("launch") else 0.0
        completed = self._done
        if self._left:  # most likely it is about the first of them
            group = self._left[0]
            launches = _CHECKED_LAUNCHES * len(group) * self._processes
            completed += _weight(group) * min(1.0, (self._launches + begun) / launches)
        self._show(completed, description=phase)

    def advance(self, group: Sequence[Point]) -> None:
        """This group of points is done."""
        self._left.remove(list(group))
        self._done += _weight(group)
        self._launches = 0
        self._phase = ""
        self._show(self._done)

    def _show(self, completed: float, **more: str) -> None:
        self._shown = max(self._shown, completed)
        bar, task = self._bar
        bar.update(task, completed=self._shown, **more)  # type: ignore[arg-type]


def _weight(group: Sequence[Point]) -> float:
    return sum(flop(point.problem) + _CONSTANT_COST for point in group)
