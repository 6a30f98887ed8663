"""A sweep loses nothing: rows reach the disk one by one, and --resume measures what is left."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from conftest import RIGHT, WriteKernel
from mmbench import cli
from mmbench.csvfile import read_rows
from mmbench.results import COLUMNS, Row

pytestmark = pytest.mark.cpu

QUICK = ("--runner", "cpu", "--min-time", "0", "--max-time", "0.1", "--samples", "3")


ENDLESS = RIGHT.replace("float acc = 0.0f;", "volatile int go = 1; while (go) ; float acc = 0.0f;")

Sweep = Callable[..., tuple[int, str, str]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sweep:
    """Run ``mmbench sweep`` in this process; returns exit code, stdout and stderr."""

    def run(*words: str, runner: bool = True) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mmbench", "sweep", *words, *(QUICK if runner else ())])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start ``python -m mmbench`` in a process group of its own, as a shell does."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mmbench", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **variables},
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        if is_group_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def ends_soon(group: int) -> bool:
    deadline = time.monotonic() + 5
    while is_group_alive(group) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_group_alive(group)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.02)


def lines_of(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def points_of(path: Path) -> Counter[tuple[object, ...]]:
    """How often the file has each point; every line of it counts."""
    names = ["kernel", "m", "n", "k", "tile_size"]
    return Counter(pd.read_csv(path)[names].itertuples(index=False, name=None))


def table_lines(out: str, kernel: str) -> list[str]:
    """The lines of a kernel in the table of results, which ends at the first empty line."""
    table = out.split("\n\n")[0]
    return [line for line in table.splitlines() if re.match(rf"{kernel} +\d", line)]


def test_the_file_is_named_after_time_and_device(sweep: Sweep, tmp_path: Path) -> None:
    code, out, err = sweep("naive", "--n", "32", "--tile", "8")
    assert code == 0
    csv_path, json_path = sorted((tmp_path / "results").iterdir())
    assert re.fullmatch(r"\d{8}T\d{6}Z-[a-z0-9]+(-[a-z0-9]+)*\.csv", csv_path.name)
    assert json_path.name == csv_path.with_suffix(".json").name
    assert f"wrote results/{csv_path.name}" in err
    assert "results/" not in out
    (row,) = read_rows(csv_path)
    (session,) = json.loads(json_path.read_text())["runs"]
    assert session["command"][:2] == ["sweep", "naive"]
    assert session["kernels"]["naive"]["sha256"] == row.source_sha256
    assert session["device"]["name"] == row.device
    (result,) = session["results"]
    assert len(result["samples_ms"]) == row.samples
    assert min(result["samples_ms"]) == pytest.approx(row.time_ms_min, rel=1e-4)


def test_points_come_problem_by_problem(sweep: Sweep, tmp_path: Path) -> None:
    code, _, _ = sweep("naive", "tiled", "--n", "32:64:*2", "--tile", "8,33", "--out", "a.csv")
    assert code == 0
    rows = read_rows(tmp_path / "a.csv")
    found = [(row.n, row.kernel, row.tile_size, row.status) for row in rows]
    assert found == [
        (n, kernel, tile, "ok" if tile == 8 else "skipped")
        for n in (32, 64)
        for kernel in ("naive", "tiled")
        for tile in (8, 33)
    ]


def test_interrupted_and_resumed(start: Start, write_kernel: WriteKernel, tmp_path: Path) -> None:
    kernel = write_kernel("mine", ENDLESS)
    words = ["sweep", "naive", "./mine.cu", "--n", "32,48", "--tile", "8", *QUICK]
    running = start(*words, "--out", "my results/a.csv")
    path = tmp_path / "my results" / "a.csv"
    # The first row is on the disk while the second point still runs.
    wait_until(lambda: lines_of(path) == 2, running)
    assert [row.status for row in read_rows(path)] == ["ok"]
    wait_until(lambda: '"samples_ms"' in path.with_suffix(".json").read_text(), running)
    time.sleep(0.5)

    begin = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)  # what Ctrl-C sends, to the workers too
    out, err = running.communicate(timeout=30)
    assert time.monotonic() - begin < 5
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted: 1 of 4 points were measured" in err
    assert ends_soon(running.pid), "a worker outlives its sweep"
    assert list(pd.read_csv(path).columns) == [column.name for column in COLUMNS]
    (session,) = json.loads(path.with_suffix(".json").read_text())["runs"]
    assert [each["kernel"] for each in session["results"]] == ["naive"]

    # The very command that was named finishes the job.
    kernel.write_text(kernel.read_text().replace("int go = 1", "int go = 0"))
    command = shlex.split(err.strip().splitlines()[-1].partition("go on with: ")[2])
    assert command[:2] == ["mmbench", "sweep"]
    resumed = start(*command[1:])
    out, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert "1 of 4 points are in" in err
    expected = [(name, n, n, n, 8) for n in (32, 48) for name in ("naive", "mine")]
    assert points_of(path) == Counter(expected)
    sessions = json.loads(path.with_suffix(".json").read_text())["runs"]
    assert [len(each["results"]) for each in sessions] == [1, 3]


def test_ctrl_c_while_compilers_run_does_not_wait_for_all_of_them(
    start: Start, tmp_path: Path
) -> None:
    compiler = tmp_path / "slow-c++"
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) ;; *) touch compiling; sleep 2 ;; esac\n'
        'exec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    tiles = ",".join(map(str, range(1, 17)))
    running = start(
        "sweep", "naive", "--n", "32", "--tile", tiles, *QUICK, "--out", "a.csv", CXX=str(compiler)
    )
    wait_until(lambda: (tmp_path / "compiling").exists(), running)
    time.sleep(0.3)
    begin = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "go on with: mmbench sweep" in err
    assert read_rows(tmp_path / "a.csv") == []
    assert time.monotonic() - begin < 5, "it went on compiling"


def killed(start: Start, path: Path) -> subprocess.Popen[str]:
    """A sweep that was killed, not interrupted, while its second point ran."""
    words = ["sweep", "naive", "mine.cu", "--n", "32", "--tile", "8", *QUICK]
    running = start(*words, "--out", str(path))
    sidecar = path.with_suffix(".json")
    wait_until(lambda: sidecar.exists() and '"samples_ms"' in sidecar.read_text(), running)
    time.sleep(0.5)
    running.kill()
    running.wait()
    return running


def test_killed_in_the_middle(
    start: Start, sweep: Sweep, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    write_kernel("mine", ENDLESS)
    path = tmp_path / "a.csv"
    killed(start, path)
    assert [row.kernel for row in read_rows(path)] == ["naive"]
    assert len(pd.read_csv(path)) == 1
    (session,) = json.loads(path.with_suffix(".json").read_text())["runs"]
    assert [each["kernel"] for each in session["results"]] == ["naive"]
    code, _, err = sweep("naive", "--n", "32,48", "--tile", "8", "--resume", "a.csv")
    assert code == 0
    assert "1 of 2 points are in" in err


def test_no_worker_outlives_a_killed_sweep(
    start: Start, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    """Its kernel may be endless: it would keep a core, or the GPU, until the next boot."""
    write_kernel("mine", ENDLESS)
    running = killed(start, tmp_path / "a.csv")
    assert ends_soon(running.pid)


def test_a_torn_last_line_is_dropped(sweep: Sweep, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    words = ["naive", "--n", "32", "--tile", "8,33"]
    assert sweep(*words, "--out", "a.csv")[0] == 0
    whole = path.read_bytes()
    header, first, second = whole.splitlines(keepends=True)
    path.write_bytes(header + first + second[: len(second) // 2])
    assert len(read_rows(path)) == 1
    code, _, err = sweep(*words, "--resume", "a.csv")
    assert code == 0
    assert "1 of 2 points are in a.csv already" in err
    assert path.read_bytes().startswith(header + first)
    assert set(points_of(path).values()) == {1}
    assert [row.status for row in read_rows(path)] == ["ok", "skipped"]


def test_resuming_what_is_done_measures_nothing(sweep: Sweep, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    words = ["naive", "--n", "32", "--tile", "8,33"]
    sweep(*words, "--out", "a.csv")
    before = path.read_bytes()
    code, out, err = sweep(*words, "--resume", "a.csv")
    assert code == 0
    assert "2 of 2 points are in a.csv already" in err
    assert path.read_bytes() == before
    assert len(table_lines(out, "naive")) == 2


def test_resuming_adds_what_is_new(sweep: Sweep, tmp_path: Path) -> None:
    sweep("naive", "--n", "32", "--tile", "8", "--out", "a.csv")
    code, _, err = sweep("naive", "--n", "32,48", "--tile", "8", "--resume", "a.csv")
    assert code == 0
    assert "1 of 2 points are in" in err
    assert [row.n for row in read_rows(tmp_path / "a.csv")] == [32, 48]


def test_an_edited_kernel_is_measured_again(
    sweep: Sweep, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    kernel = write_kernel("mine", RIGHT)
    words = ["mine.cu", "naive", "--n", "32", "--tile", "8,16"]
    sweep(*words, "--out", "a.csv")
    kernel.write_text(kernel.read_text() + "// edited\n")
    code, out, err = sweep(*words, "--resume", "a.csv")
    assert code == 0
    assert "2 of 4 points are in" in err
    rows = [row for row in read_rows(tmp_path / "a.csv") if row.kernel == "mine"]
    assert [row.tile_size for row in rows] == [8, 16, 8, 16]
    assert len({row.source_sha256 for row in rows}) == 2
    # What is shown is the kernel as it is now, and a tile is no tie of itself.
    assert len(table_lines(out, "mine")) == 2
    assert not re.search(r"\b8 = 8\b|\b16 = 16\b", out)


def test_another_seed_is_measured_again(sweep: Sweep, tmp_path: Path) -> None:
    words = ["naive", "--n", "32", "--tile", "8"]
    sweep(*words, "--out", "a.csv")
    code, _, err = sweep(*words, "--seed", "7", "--resume", "a.csv")
    assert code == 0
    assert "0 of 1 points are in" in err
    assert [row.seed for row in read_rows(tmp_path / "a.csv")] == [0, 7]


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        (",hot,", ",cold,"),
        ("-O3 ", "-O1 "),
        (None, "0" * 24),  # another device's identity
    ],
)
def test_rows_of_another_mode_flags_or_device_do_not_count(
    sweep: Sweep, tmp_path: Path, mine: str | None, others: str
) -> None:
    path = tmp_path / "a.csv"
    words = ["naive", "--n", "32", "--tile", "8"]
    sweep(*words, "--out", "a.csv")
    mine = mine or read_rows(path)[0].device_uuid
    path.write_text(path.read_text().replace(mine, others))
    code, _, err = sweep(*words, "--resume", "a.csv")
    assert code == 0
    assert "0 of 1 points are in" in err
    assert len(read_rows(path)) == 2


def test_what_failed_is_tried_again(
    sweep: Sweep, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    write_kernel("mine", f'#include "step.h"\n{RIGHT.replace("++k", "STEP(k)")}')
    (tmp_path / "step.h").write_text("#define STEP(k) no such thing\n")
    words = ["mine.cu", "naive", "--n", "32", "--tile", "8"]
    code, out, _ = sweep(*words, "--out", "a.csv")
    assert code == 1
    assert "step.h:1: error" in out or "mine.cu:" in out
    assert [row.status for row in read_rows(tmp_path / "a.csv")] == ["failed", "ok"]

    (tmp_path / "step.h").write_text("#define STEP(k) ++k\n")
    code, out, err = sweep(*words, "--resume", "a.csv")
    assert "1 of 2 points are in" in err
    rows = {row.kernel: row for row in read_rows(tmp_path / "a.csv")}
    assert len(rows) == 2
    assert rows["mine"].status == "ok"
    # The failure is history: neither the table nor the exit code tells it.
    assert len(table_lines(out, "mine")) == 1
    assert "failed" not in out
    assert code == 0


def test_what_is_wrong_or_skipped_is_settled(
    sweep: Sweep, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    write_kernel("mine", RIGHT.replace("++k", "k += 2"))
    words = ["mine.cu", "--n", "32", "--tile", "8,33"]
    assert sweep(*words, "--out", "a.csv")[0] == 1
    code, _, err = sweep(*words, "--resume", "a.csv")
    assert code == 1
    assert "2 of 2 points are in" in err
    assert lines_of(tmp_path / "a.csv") == 3


def test_more_processes_than_before_are_measured(sweep: Sweep, tmp_path: Path) -> None:
    words = ["naive", "--n", "32", "--tile", "8"]
    assert sweep(*words, "--out", "a.csv")[0] == 0
    assert "1 of 1 points are in" in sweep(*words, "--resume", "a.csv")[2]
    _, out, err = sweep(*words, "--processes", "2", "--resume", "a.csv")
    assert "0 of 1 points are in" in err
    assert "no confidence interval" not in out
    (row,) = read_rows(tmp_path / "a.csv")
    assert row.processes == 2
    assert "1 of 1 points are in" in sweep(*words, "--processes", "2", "--resume", "a.csv")[2]
    assert "1 of 1 points are in" in sweep(*words, "--resume", "a.csv")[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--resume", "missing.csv"], "missing.csv"),
        (["--resume", "other.csv"], "other.csv is not a CSV of mmbench"),
        (["--resume", "other.csv", "--out", "b.csv"], "leave --out away"),
        (["--resume", "folder.csv"], "is a directory"),
        (["--resume", "broken.csv"], "broken.csv:2: not a row of mmbench"),
    ],
)
def test_what_cannot_be_resumed_is_left_as_it_is(
    sweep: Sweep, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "other.csv").write_text("date,price\n2020,1\n")
    broken = ",".join(column.name for column in COLUMNS) + "\n1,2,3\n"
    (tmp_path / "broken.csv").write_text(broken)
    before = {path: path.read_text() for path in tmp_path.glob("*.csv") if path.is_file()}
    code, out, err = sweep("naive", "--n", "32", *words)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert "Traceback" not in err
    assert {path: path.read_text() for path in tmp_path.glob("*.csv") if path.is_file()} == before


def test_a_file_with_other_columns_is_not_spoiled(sweep: Sweep, tmp_path: Path) -> None:
    """Rows of another version or in another order must not mix with today's in one file."""
    path = tmp_path / "a.csv"
    sweep("naive", "--n", "32", "--tile", "8", "--out", "a.csv")
    frame = pd.read_csv(path)
    frame[[*reversed(frame.columns)]].to_csv(path, index=False)
    before = path.read_text()
    code, _, _ = sweep("naive", "--n", "32,48", "--tile", "8", "--resume", "a.csv")
    if code == 2:
        assert path.read_text() == before
    else:
        assert [row.n for row in read_rows(path)] == [32, 48]


def test_a_foreign_json_beside_the_file_is_not_overwritten(sweep: Sweep, tmp_path: Path) -> None:
    sweep("naive", "--n", "32", "--tile", "8", "--out", "a.csv")
    (tmp_path / "a.json").write_text('{"mine": 1}')
    code, _, err = sweep("naive", "--n", "48", "--tile", "8", "--resume", "a.csv")
    assert code == 2
    assert "a.json is not the JSON of a.csv" in err
    assert (tmp_path / "a.json").read_text() == '{"mine": 1}'
    gc.collect()  # a file that was left open is told of here, not in the next test


def test_the_best_tile_of_each_n_ends_the_output(sweep: Sweep, tmp_path: Path) -> None:
    code, out, _ = sweep("naive", "--n", "32,256", "--tile", "1,16", "--out", "a.csv")
    assert code == 0
    best = out.partition("best tile")[2].splitlines()
    lines = {line.split()[0]: line.split() for line in best if line.split()[1:2] == ["naive"]}
    assert set(lines) == {"32", "256"}
    for n, words in lines.items():
        rows = [row for row in read_rows(tmp_path / "a.csv") if row.n == int(n)]
        assert str(min(rows, key=time_of).tile_size) in words
        assert ("tie" in words) == ("=" in words)


def time_of(row: Row) -> float:
    assert row.time_ms_median is not None
    return row.time_ms_median


def test_one_tile_has_no_best(sweep: Sweep) -> None:
    _, out, _ = sweep("naive", "--n", "32", "--tile", "8", "--out", "a.csv")
    assert "best tile" not in out


def test_a_row_that_is_not_right_makes_exit_1_and_stays_in_the_file(
    sweep: Sweep, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    write_kernel("mine", ENDLESS)
    words = ["mine.cu", "naive", "--n", "32", "--tile", "8", "--timeout", "0.5"]
    code, out, _ = sweep(*words, "--out", "a.csv")
    assert code == 1
    assert [row.status for row in read_rows(tmp_path / "a.csv")] == ["timeout", "ok"]
    assert "no result after 0.5 s" in out
