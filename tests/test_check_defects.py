"""Planted defects are found on their line, right kernels are left alone, by g++ and clang++."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from mmbench.check import KernelReport, check_kernel, choose_points
from mmbench.check.kinds import KINDS
from mmbench.header import read_kernel
from mmbench.runners import host_compiler
from mmbench.runners.host_compiler import HostCompiler

pytestmark = pytest.mark.cpu

FOLDER = Path(__file__).parent / "check"
BAD = sorted((FOLDER / "bad").glob("*.cu"))
GOOD = sorted((FOLDER / "good").glob("*.cu"))
OTHER_POINTS = 2  # for the second compiler, which has to agree with the first
Place = tuple[str, int]


def expected(path: Path) -> set[Place]:
    """The (kind, line) of each "// EXPECT kind, kind" in a file."""
    places = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.search(r"// EXPECT (.*)$", line):
            places |= {(kind.strip(), number) for kind in match.group(1).split(",")}
    return places


def places(report: KernelReport) -> set[Place]:
    return {(each.finding.kind, each.finding.line) for each in report.findings}


def second_compiler() -> HostCompiler | None:
    """The compiler of the other family, g++ or clang++, where it is installed."""
    name = "clang++" if host_compiler.find().is_gcc else "g++"
    path = shutil.which(name)
    if path is None:
        return None
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return HostCompiler((path,), answer.stdout.splitlines()[0])


class Reports:
    """Reports by file, made ahead on all cores in the order of the tests."""

    def __init__(self, paths: list[Path], others: list[Path]) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.first = {path: self.pool.submit(check_kernel, read_kernel(path)) for path in paths}
        self.second: dict[Path, Future[KernelReport]] = {}
        if (compiler := second_compiler()) is not None:
            self.second = {path: self.pool.submit(self._again, path, compiler) for path in others}

    def _again(self, path: Path, compiler: HostCompiler) -> KernelReport:
        spec = read_kernel(path)
        return check_kernel(spec, choose_points(spec)[-OTHER_POINTS:], compiler=compiler)


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> Iterator[Reports]:
    chosen: dict[str, list[Path]] = {"path": [], "both": []}
    for item in request.session.items:
        parameters = getattr(item, "callspec", None)
        for name, paths in chosen.items():
            if parameters and Path(str(item.path)).name == Path(__file__).name:
                paths += [parameters.params[name]] if name in parameters.params else []
    both = list(dict.fromkeys(chosen["both"]))
    made = Reports(list(dict.fromkeys(chosen["path"] + both)), both)
    # pytest changes the environment from test to test, which must not happen while a thread
    # starts a process with it.
    wait([*made.first.values(), *made.second.values()])
    yield made
    made.pool.shutdown(cancel_futures=True)


def test_there_are_kernels_to_check() -> None:
    assert len(BAD) >= 40
    assert len(GOOD) >= 30
    kinds = {kind for path in BAD for kind, _ in expected(path)}
    assert len(kinds) >= 24
    assert kinds <= KINDS.keys()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_planted_defect_is_found(path: Path, reports: Reports) -> None:
    report = reports.first[path].result()
    assert expected(path)
    assert places(report) == expected(path), [each.finding.message for each in report.findings]
    assert report.ok == all(KINDS[kind].severity == "note" for kind, _ in expected(path))
    for each in report.findings:
        finding = each.finding
        lines = path.read_text().splitlines()
        assert finding.source_line == lines[finding.line - 1].strip()
        assert finding.path == str(path)
        assert "{" not in finding.message + finding.hint


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_right_kernel_is_left_alone(path: Path, reports: Reports) -> None:
    report = reports.first[path].result()
    assert report.findings == (), [each.finding.message for each in report.findings]
    assert report.ok
    for each in report.reports:
        traffic = each.point.traffic()
        loads = sum(each.elements(name, "load") for name in "ABC")
        stores = each.elements("C", "store")
        assert (loads, stores) == (traffic.reads, traffic.writes), str(each.point)


@pytest.mark.parametrize("both", BAD + GOOD, ids=lambda path: path.stem)
def test_compilers_agree(both: Path, reports: Reports) -> None:
    if both not in reports.second:
        pytest.skip("only one of g++ and clang++ is installed")
    first, second = reports.first[both].result(), reports.second[both].result()
    by_point = {str(report.point): report for report in first.reports}
    for report in second.reports:
        same = by_point[str(report.point)]
        assert [(f.kind, f.line, f.other_line, f.array, f.thread) for f in report.findings] == [
            (f.kind, f.line, f.other_line, f.array, f.thread) for f in same.findings
        ]
        assert sorted(
            (c.line, c.variable, c.op, c.bytes_each, c.accesses, c.requests, c.sectors,
             c.ideal_sectors, c.wavefronts, c.ideal_wavefronts, c.worst_conflict)
            for c in report.counts
        ) == sorted(
            (c.line, c.variable, c.op, c.bytes_each, c.accesses, c.requests, c.sectors,
             c.ideal_sectors, c.wavefronts, c.ideal_wavefronts, c.worst_conflict)
            for c in same.counts
        )  # fmt: skip
        assert report.verdict_message == same.verdict_message
