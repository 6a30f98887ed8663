"""Rows to what one picture shows: one device, one element type, one cache mode. Draws nothing."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmbench import baselines
from mmbench.errors import UsageError
from mmbench.results import Row, latest

# How a library is called where neither its version nor its math mode is told.
_LIBRARIES = {"cublas": "cuBLAS", "cublas:default": "cuBLAS, default math", "blas": "BLAS"}


@dataclass(frozen=True)
class Baseline:
    """A library's GFLOP/s by problem edge."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Study:
    """Results that may stand in one picture. Rates are None where they are unknown."""

    device: str
    uuid: str
    runner: str
    dtype: str
    cache: str | None
    rows: tuple[Row, ...]
    dram_peak_gbs: float | None = None
    stated_roof_gflops: float | None = None
    sources: tuple[str, ...] = field(default=())  # stems of the files that the rows are from

    @property
    def right(self) -> list[Row]:
        """Rows that were checked and measured: the only ones with a rate."""
        return [row for row in self.rows if is_right(row)]

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels that have a rate, in the order of the rows; no library."""
        return list(dict.fromkeys(row.kernel for row in self.right if not is_baseline(row)))

    def best(self, kernel: str) -> list[Row]:
        """The kernel's fastest right row at each problem, small problems first."""
        found: dict[tuple[int, int, int], Row] = {}
        for row in self.right:
            problem = (row.m, row.n, row.k)
            if row.kernel == kernel and rate(row) > (
                rate(found[problem]) if problem in found else 0.0
            ):
                found[problem] = row
        return sorted(found.values(), key=edge)

    @property
    def roof_gflops(self) -> float | None:
        """The roof that the rows' percentages are of: gflops / roof_percent * 100."""
        roofs = [rate(row) / row.roof_percent * 100 for row in self.right if row.roof_percent]
        return statistics.median(roofs) if roofs else self.stated_roof_gflops

    @property
    def baselines(self) -> list[Baseline]:
        """The libraries' lines: their rows, else what the kernels' percentages say of them."""
        points: dict[str, dict[float, list[float]]] = {}
        for row in self.right:
            if is_baseline(row):
                points.setdefault(library(row), {}).setdefault(edge(row), []).append(rate(row))
        for row in self.right if not points else ():
            if row.baseline_percent:
                whole = rate(row) / row.baseline_percent * 100
                points.setdefault(library(row), {}).setdefault(edge(row), []).append(whole)
        return [
            Baseline(name, tuple(sorted((x, statistics.median(ys)) for x, ys in found.items())))
            for name, found in points.items()
        ]

    @property
    def unit(self) -> str:
        """Of the rate: operations on whole numbers are none in floating point."""
        return unit(self.dtype)

    @property
    def host(self) -> bool:
        """Whether the times are a processor's, which say nothing of a GPU."""
        return self.runner != "cuda"

    @property
    def square(self) -> bool:
        return all(row.square for row in self.right)

    @property
    def date(self) -> str:
        days = sorted({row.timestamp[:10] for row in self.rows})
        return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"

    @property
    def mode(self) -> str:
        """Whose times they are, in the words of the tables."""
        if self.host:
            return "host times, not a GPU's"
        return f"{self.cache} L2" if self.cache else "GPU times"

    @property
    def title(self) -> str:
        return ", ".join((self.device, self.dtype, self.mode, self.date))


def is_right(row: Row) -> bool:
    """Whether a row has a rate that may be drawn: right, measured, and physically possible."""
    return row.status == "ok" and bool(row.gflops) and row.plausible


def is_baseline(row: Row) -> bool:
    """Whether the row is a library's, measured to compare kernels with."""
    return row.kernel in baselines.NAMES


def library(row: Row) -> str:
    """Name and version of the library that a row is of, or that it was measured beside.

    Its ``flags`` say "name version, math mode"; a kernel's ``baseline`` has them in brackets.
    """
    name, _, told = (row.baseline or "").partition(" ")
    if is_baseline(row):
        name, told = row.kernel, row.flags or ""
    text = re.split(r", | \(|\)", told.removeprefix("("))[0].strip()
    if not text:
        return _LIBRARIES.get(name, name or "baseline")
    text = text if re.match("[A-Za-z]", text) else f"{_LIBRARIES.get(name, name)} {text}"
    return f"{text}, default math" if name.endswith(":default") else text


def unit(dtype: str) -> str:
    """Unit of the rate of products of this type, which is C's behind a slash where they differ."""
    return "GOP/s" if dtype.rpartition("/")[2].startswith("int") else "GFLOP/s"


def rate(row: Row) -> float:
    """GFLOP/s; 0 where there is none."""
    return row.gflops or 0.0


def edge(row: Row) -> float:
    """N of a square product; of another one the edge of the cube with as many products."""
    return float(row.n) if row.square else (row.m * row.n * row.k) ** (1 / 3)


def shape(row: Row) -> str:
    """The problem in a few characters."""
    return str(row.n) if row.square else f"{row.m}x{row.n}x{row.k}"


def variant(row: Row) -> str:
    """The values of the kernel's parameters; of the tile alone where there is no other."""
    return " ".join(value for _, value in parameters(row))


def parameters(row: Row) -> list[tuple[str, str]]:
    """Name and value of each of the kernel's parameters."""
    pairs = (text.partition("=") for text in row.params.split())
    return [(name, value) for name, _, value in pairs]


def read_environment(csv_path: Path) -> dict[str, Any]:
    """What the JSON beside a CSV says of its runs, without the results; empty if there is none."""
    path = csv_path.with_suffix(".json")
    if path == csv_path or not path.exists():
        return {}
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        return {"runs": [{k: v for k, v in run.items() if k != "results"} for run in runs]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"{path} is not the JSON of {csv_path.name}; move it away to go on without it"
        ) from None


def read_studies(paths: Sequence[Path]) -> list[Study]:
    """The pictures that these files hold: files of the same device are put together.

    A file without one right row is an error, since nothing of it could be drawn.
    """
    from mmbench.csvfile import read_rows

    tagged: list[tuple[Row, str]] = []
    runs: list[dict[str, Any]] = []
    for path in paths:
        found = read_rows(path)
        if not any(is_right(row) and not is_baseline(row) for row in found):
            raise UsageError(
                f"{path} has no row with status ok, so there is nothing to draw; "
                "`mmbench report` shows the reasons in its rows"
            )
        tagged += [(row, path.stem) for row in found]
        runs += read_environment(path).get("runs", [])
    return _apart(tagged, {"runs": runs})


def studies(rows: Iterable[Row], environment: Mapping[str, Any]) -> list[Study]:
    """Rows apart by device, element type and cache mode; only groups in which a kernel has a rate.

    ``environment`` is what ``read_environment`` returns. Where a point was measured again its
    last row counts. A row without a cache mode belongs to each of them.
    """
    return _apart([(row, "") for row in rows], environment)


def _apart(tagged: Sequence[tuple[Row, str]], environment: Mapping[str, Any]) -> list[Study]:
    groups: dict[tuple[str, str], list[tuple[Row, str]]] = {}
    uuids: dict[str, set[str]] = {}
    for row, source in tagged:
        uuid = row.device_uuid or row.device
        groups.setdefault((uuid, row.dtype), []).append((row, source))
        uuids.setdefault(row.device, set()).add(uuid)
    found = []
    for (uuid, dtype), members in groups.items():
        device = _device(environment, uuid)
        for cache in dict.fromkeys(
            row.cache for row, _ in members if is_right(row) and not is_baseline(row)
        ):
            mine = [(row, source) for row, source in members if row.cache in (cache, None)]
            newest = latest(sorted((row for row, _ in mine), key=lambda row: row.timestamp))
            kept = {id(row) for row in newest}
            name = mine[0][0].device
            found.append(
                Study(
                    device=f"{name} ({uuid[:12]})" if len(uuids[name]) > 1 else name,
                    uuid=uuid,
                    runner=mine[0][0].runner,
                    dtype=dtype,
                    cache=cache,
                    rows=tuple(row for row, _ in mine if id(row) in kept),
                    dram_peak_gbs=device.get("dram_peak_gbs"),
                    stated_roof_gflops=(
                        device.get("fp32_roof_gflops") if dtype == "float32" else None
                    ),
                    sources=tuple(dict.fromkeys(source for _, source in mine)),
                )
            )
    return found


def _device(environment: Mapping[str, Any], uuid: str) -> Mapping[str, Any]:
    """What the sidecar says of a device; empty where it says nothing."""
    for run in environment.get("runs", []):
        device = run.get("device")
        if isinstance(device, dict) and uuid in (device.get("uuid"), device.get("name")):
            return device
    return {}


def names(found: Sequence[Study]) -> list[str]:
    """A file name for each study, no two the same: the one file's stem, else the device."""
    texts = []
    for study in found:
        alone = all(
            each.uuid == study.uuid for each in found if set(each.sources) & set(study.sources)
        )
        device = _slug(study.device)
        if len(study.sources) > 1:
            texts.append(device)
        else:
            texts.append(study.sources[0] if alone else f"{study.sources[0]}-{device}")
    for part in ("dtype", "cache"):
        doubled = {text for text in texts if texts.count(text) > 1}
        texts = [
            f"{text}-{_slug(str(getattr(study, part)))}" if text in doubled else text
            for text, study in zip(texts, found, strict=True)
        ]
    return texts


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
