"""Points to rows: skip, compile, verify, measure. Yields exactly one row a point.

An MmbenchError becomes a row; anything else is a bug and propagates. This module knows no
output: what is shown and stored is its callers' affair.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from mmbench import __version__, baselines, figures, hints, metrics, precision, processes
from mmbench.cache import source_hash
from mmbench.compiles import Compiles, program_key
from mmbench.errors import MmbenchError, UnfitError, WrongRunnerError
from mmbench.fitness import unfit_reason
from mmbench.measure import StopRule
from mmbench.results import Row
from mmbench.runners import Runner
from mmbench.spec import Point
from mmbench.supervisor import Progress, Supervisor
from mmbench.verify import Verdict
from mmbench.worker import Entry, Outcome, Task

_STATUS = {"unfit": "skipped", "runner": "skipped", "timeout": "timeout"}
_AHEAD = 3  # problems that a worker is told of before they come
_SLOWEST_FLOP_PER_SECOND = 5e7  # of any right kernel on the host; for the default time-out


@dataclass(frozen=True)
class Settings:
    """How points are verified and measured."""

    rule: StopRule = field(default_factory=StopRule)
    cache: str = "hot"
    seed: int = 0
    timeout: float | None = None  # seconds; None: 60 s, more for large products on the host
    processes: int = 1  # that take all of their samples, one after the other


@dataclass(frozen=True)
class Measured:
    """A row and what does not fit into one: samples of each process, the text of a failure."""

    point: Point
    row: Row
    processes: tuple[tuple[float, ...], ...] = ()
    details: str = ""
    apart: bool = False  # not in turns with the others of its group

    @property
    def samples(self) -> tuple[float, ...]:
        """Of all processes."""
        return tuple(itertools.chain.from_iterable(self.processes))


@dataclass
class _Job:
    """A group of points on its way: what cannot be run, and the task of the others."""

    group: Sequence[Point]
    failed: dict[int, Measured] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    task: Task | None = None


class Bench:
    """A runner, its worker, and the settings of a command."""

    def __init__(self, runner: Runner, settings: Settings) -> None:
        self.runner = runner
        self.settings = settings
        self._hints: dict[tuple[object, ...], bool] = {}

    def quick(self) -> Bench:
        """A bench of the same settings that takes few samples of each point, in one process."""
        rule = self.settings.rule
        few = dataclasses.replace(
            rule, samples=min(5, rule.samples), min_time=min(0.02, rule.min_time),
            budget=min(0.2, rule.budget), warm_up=min(0.02, rule.warm_up),
        )  # fmt: skip
        return Bench(self.runner, dataclasses.replace(self.settings, rule=few, processes=1))

    def run(self, points: Sequence[Point], progress: Progress) -> Generator[Measured]:
        """Measure points apart, one after the other."""
        for group in self.run_groups([[point] for point in points], progress):
            yield from group

    def baseline(self, name: str) -> str:
        """The baseline to measure against: ``auto`` is the runner's own, where it is there."""
        return self.runner.baseline() if name == "auto" else "" if name == "none" else name

    def pairs(self, points: Sequence[Point], baseline: str) -> list[list[Point]]:
        """Each point with the baseline's product beside it, where the library has it."""
        return [
            [point, Point(baselines.get(baseline, point.spec.product), point.problem, {})]
            if baseline
            and baselines.supports(baseline, point.spec.product)
            and unfit_reason(point, self.runner.device) is None
            else [point]
            for point in points
        ]

    def run_groups(
        self, groups: Sequence[Sequence[Point]], progress: Progress, in_order: bool = True
    ) -> Generator[list[Measured]]:
        """Measure groups of points, those of a group interleaved; one problem for each group.

        Unless ``in_order``, a group whose programs are there goes before one that would have to
        be waited for.
        """
        points = [point for group in groups for point in group]
        device, host_is_free = self.runner.device, self.runner.compiles_while_measuring
        with (
            Supervisor(device.runner, device.index, not host_is_free) as supervisor,
            Compiles(self.runner, points, progress, hasty=not in_order) as compiles,
        ):
            problems = self._problems(points)
            if problems:
                supervisor.prestart((problems[: 1 + _AHEAD], self.settings.seed))
            waiting = list(range(len(groups)))
            job: _Job | None = None
            while waiting or job is not None:
                job = job or self._job(groups[waiting.pop(0)], compiles, problems)
                # Where nothing has to be compiled for it, the worker goes on with the next one.
                among = (waiting[:1] if in_order else waiting) if host_is_free else []
                ready = next((i for i in among if compiles.ready(groups[i])), None)
                then = None
                if ready is not None:
                    waiting.remove(ready)
                    then = self._job(groups[ready], compiles, problems)
                yield self._measure(job, supervisor, progress, then)
                job = then

    def _problems(self, points: Sequence[Point]) -> list[Point]:
        """The first point of each problem and product that there is anything to run of."""
        found: dict[tuple[object, ...], Point] = {}
        for point in points:
            key = _computed(point)
            if key not in found and unfit_reason(point, self.runner.device) is None:
                found[key] = point
        return list(found.values())

    def _job(self, group: Sequence[Point], compiles: Compiles, problems: Sequence[Point]) -> _Job:
        """Wait for the programs of a group. Of the problems, the worker is told the next ones."""
        job = _Job(group)
        for i, point in enumerate(group):
            try:
                if reason := unfit_reason(point, self.runner.device):
                    here = self.runner.device.runner in point.spec.runners
                    raise UnfitError(reason) if here else WrongRunnerError(reason)
                job.entries[i] = Entry(point, compiles.program(point))
            except MmbenchError as error:
                job.failed[i] = self._failed(point, error)
        if job.entries:
            entries = list(job.entries.values())
            mine = _computed(entries[0].point)
            ahead = itertools.dropwhile(lambda point: _computed(point) != mine, problems)
            job.task = self._task(entries, tuple(itertools.islice(ahead, 1, 1 + _AHEAD)))
        return job

    def _task(self, entries: Sequence[Entry], ahead: tuple[Point, ...] = ()) -> Task:
        cold, seed = self.settings.cache == "cold", self.settings.seed
        return Task(tuple(entries), self.settings.rule, cold, seed, ahead)

    def _measure(
        self, job: _Job, supervisor: Supervisor, progress: Progress, then: _Job | None
    ) -> list[Measured]:
        results = dict(job.failed)
        if job.task is not None:
            outcomes = self._outcomes(job.task, supervisor, progress, then.task if then else None)
            for (i, entry), outcome in zip(job.entries.items(), outcomes, strict=True):
                hint = self._hint(entry, outcome, supervisor)
                results[i] = self._measured(entry, outcome, hint)
        measured = [results[i] for i in range(len(job.group))]
        return [_beside(each, measured) for each in measured]

    def _outcomes(
        self, task: Task, supervisor: Supervisor, progress: Progress, then: Task | None = None
    ) -> list[Outcome]:
        point = task.entries[0].point

        def show(phase: str, share: float | None) -> None:
            progress(f"{point.problem} {phase}", share)

        timeout, count = self._timeout(point), self.settings.processes
        try:
            return processes.run(supervisor, task, timeout, show, count, then)
        except MmbenchError as error:
            if len(task.entries) == 1:
                return [Outcome(error=error)]
            failure = error
        # One of them has taken the worker with it. Apart, each answers for itself.
        apart = [
            dataclasses.replace(outcome, apart=True)
            for entry in task.entries
            for outcome in self._outcomes(self._task([entry]), supervisor, progress)
        ]
        if all(outcome.timing for outcome in apart):  # whose failure it was cannot be told
            failure.message += "; not when measured apart"
            return [
                outcome if entry.point.spec.library else Outcome(error=failure)
                for entry, outcome in zip(task.entries, apart, strict=True)
            ]
        return apart

    def _timeout(self, point: Point) -> float:
        if self.settings.timeout is not None:
            return self.settings.timeout
        host = self.runner.device.runner == "cpu"
        return 60.0 + (metrics.flop(point.problem) / _SLOWEST_FLOP_PER_SECOND if host else 0.0)

    def _failed(self, point: Point, error: MmbenchError, **more: object) -> Measured:
        status = _STATUS.get(error.kind, "failed")
        kind = None if error.kind == "unfit" else error.kind
        row = self._row(point, status=status, kind=kind, reason=error.message, **more)
        return Measured(point, row, details=error.details)

    def _hint(self, entry: Entry, outcome: Outcome, supervisor: Supervisor) -> str:
        """What a wrong kernel may need; "" where nothing was found."""
        if outcome.verdict is None or outcome.verdict.ok:
            return ""
        tried = hints.at_multiples_of_tile(entry.point)
        if tried is None or unfit_reason(tried, self.runner.device):
            return ""
        key = program_key(entry.point)
        if key not in self._hints:
            beside = hints.beside_multiples(tried)
            self._hints[key] = self._is_right(
                Entry(tried, entry.program), supervisor
            ) and not self._is_right(Entry(beside, entry.program), supervisor)
        return f"; {hints.needs_multiples(entry.point, tried)}" if self._hints[key] else ""

    def _is_right(self, entry: Entry, supervisor: Supervisor) -> bool:
        """Whether a point comes out right; it is not timed."""
        task = Task((entry,), None, False, self.settings.seed)
        try:
            (found,) = supervisor.run(task, self._timeout(entry.point), lambda text, share: None)
        except MmbenchError:
            return False
        return found.verdict is not None and found.verdict.ok

    def _measured(self, entry: Entry, outcome: Outcome, hint: str = "") -> Measured:
        """The row of a point that reached the worker. Rates are for ok rows alone."""
        point, program = entry.point, entry.program
        cells: dict[str, object] = {"compile_s": program.compile_seconds}
        cells |= self._resources(point, outcome)
        if outcome.error is not None:
            return self._failed(point, outcome.error, **cells)
        verdict = outcome.verdict
        assert verdict is not None
        cells |= {
            "checked": verdict.method,
            "max_error": _finite(verdict.max_error),
            "error_bound": verdict.error_bound,
            "precision": _precision(point, verdict),
        }
        if not verdict.ok or outcome.timing is None:
            row = self._row(point, status="wrong", reason=verdict.message + hint, **cells)
            return Measured(point, row)
        cells |= figures.cells(point, outcome, self.runner.device, self.settings.cache == "cold")
        row = self._row(point, status="ok", **cells)
        return Measured(point, row, outcome.timing.processes, apart=outcome.apart)

    def _resources(self, point: Point, outcome: Outcome) -> dict[str, object]:
        used, device = outcome.resources, self.runner.device
        if used is None:
            return {}
        launch = point.launch()
        shared = used.static_shared_bytes + launch.dynamic_shared_bytes
        share = None
        if device.multiprocessor is not None and used.registers is not None:
            share = 100 * metrics.occupancy(
                device.multiprocessor, launch.threads, used.registers, shared
            )
        return {
            "registers": used.registers,
            "shared_bytes": shared,
            "local_bytes": used.local_bytes,
            "occupancy_percent": share,
        }

    def _row(self, point: Point, **cells: object) -> Row:
        return Row(**(self.identity(point) | _shape(point) | cells))  # type: ignore[arg-type]

    def remaining(self, points: Sequence[Point], rows: Sequence[Row]) -> list[Point]:
        """The points that these rows of an earlier session do not settle.

        Settled is what would come out again: same source, flags, device and cache mode, no
        fewer processes, and not a failure of the machine's making.
        """
        wanted = self.settings.processes
        settled = {
            row.key
            for row in rows
            if row.status in ("wrong", "skipped")
            or (row.status == "ok" and (row.processes or 1) >= wanted)
        }
        return [p for p in points if self._row(p, status="skipped").key not in settled]

    def point_key(self, point: Point) -> tuple[object, ...]:
        """What the row of this point will have as its ``point_key``."""
        return self._row(point, status="skipped").point_key

    def identity(self, point: Point) -> dict[str, object]:
        """The cells that are known of a point before it is measured."""
        device, spec = self.runner.device, point.spec
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return {
            "timestamp": now,
            "mmbench_version": __version__,
            "runner": device.runner,
            "device": device.name,
            "device_uuid": device.uuid,
            "kernel": spec.name,
            "source_sha256": source_hash(spec.source, spec.folders),
            "dtype": spec.product.types,
            "m": point.problem.m,
            "n": point.problem.n,
            "k": point.problem.k,
            "tile_size": point.tile,
            "params": " ".join(f"{name}={value}" for name, value in sorted(point.params.items())),
            "cache": self.settings.cache,
            "seed": self.settings.seed,
            "flags": self.runner.flags(point),
            "driver": device.driver or None,
            "compiler": device.compiler or None,
        }


def _beside(each: Measured, group: Sequence[Measured]) -> Measured:
    """The same with its share of the baseline's rate, where both were measured side by side."""
    for other in group:
        library = other.point.spec.library
        if library and other is not each and other.point.spec.product == each.point.spec.product:
            cells: dict[str, object] = {"baseline": f"{library} ({other.row.flags})"}
            if each.row.gflops and other.row.gflops:
                cells["baseline_percent"] = 100 * each.row.gflops / other.row.gflops
            row = dataclasses.replace(each.row, **cells)  # type: ignore[arg-type]
            return dataclasses.replace(each, row=row)
    return each


def _computed(point: Point) -> tuple[object, ...]:
    """What points with the same inputs and the same reference have in common."""
    return (point.problem, point.spec.product)


def _precision(point: Point, verdict: Verdict) -> str | None:
    product = point.spec.product
    if product.types == "float32":
        return verdict.precision or None
    return precision.nominal(product) if verdict.ok else None


def _finite(value: float | None) -> float | None:
    """No cell holds an infinity or a NaN: readers of CSV and JSON do not agree on those."""
    return value if value is not None and math.isfinite(value) else None


def _shape(point: Point) -> dict[str, object]:
    """Block and grid as text, where the header's expressions have values at this point."""
    if point.spec.library:
        return {}
    try:
        launch = point.launch()
    except ValueError:
        return {}
    return {"block": ",".join(map(str, launch.block)), "grid": ",".join(map(str, launch.grid))}
