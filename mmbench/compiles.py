"""Compiles of all points, in parallel and ahead of the measurements that need their programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from mmbench.fitness import unfit_reason
from mmbench.runners import Program, Runner
from mmbench.spec import Point
from mmbench.supervisor import Progress

_UNSEEN_SECONDS = 0.1  # of waiting that is not worth a word
_MOST_AT_ONCE = 16


class Compiles:
    """Begins with all of them; done beforehand where they would disturb a measurement.

    ``hasty``: a few begin alone, since they end sooner so, and the first can be measured while
    the others are compiled.
    """

    def __init__(
        self, runner: Runner, points: Sequence[Point], progress: Progress, hasty: bool = False
    ) -> None:
        cores = os.cpu_count() or 1
        self._runner = runner
        self._progress = progress
        self._futures: dict[tuple[object, ...], Future[Program]] = {}
        self._pool = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, cores))
        self._one_is_done = Event()
        self._closed = False
        few = max(1, cores // 4 - 1) if hasty and runner.compiles_while_measuring else len(points)
        self._prepared = self._pool.submit(runner.prepare)
        for point in points:
            key = program_key(point)
            if key not in self._futures and unfit_reason(point, runner.device) is None:
                waits = len(self._futures) >= few
                self._futures[key] = self._pool.submit(self._compile, point, waits)

    def _compile(self, point: Point, waits: bool) -> Program:
        if waits:
            self._one_is_done.wait()
        if self._closed:
            raise CancelledError
        try:
            return self._runner.compile(point)
        finally:
            self._one_is_done.set()

    def ready(self, points: Sequence[Point]) -> bool:
        """Whether nobody would have to wait for the programs of these points."""
        futures = [self._futures.get(program_key(point)) for point in points]
        return self._prepared.done() and all(each is None or each.done() for each in futures)

    def program(self, point: Point) -> Program:
        """Wait for a point's program, and for what the session needs, which says why it failed."""
        future = self._futures[program_key(point)]
        needed: list[Future[Any]] = [self._prepared, future]
        if wait(needed, _UNSEEN_SECONDS).not_done:
            self._progress(f"{point}: compiling", None)
            wait(needed)
        return future.result()

    def __enter__(self) -> Compiles:
        if not self._runner.compiles_while_measuring:
            try:
                self._finish()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._one_is_done.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self) -> None:
        for i, future in enumerate(self._futures.values()):
            self._progress("compiling", i / len(self._futures))
            future.exception()


def program_key(point: Point) -> tuple[object, ...]:
    """What points with the same program have in common."""
    return (point.spec.path, point.defines)
