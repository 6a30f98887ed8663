"""What a user types and gets: exit codes, the two streams, and a sentence for each mistake."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from conftest import RIGHT, WriteKernel
from mmbench import __version__, cli, kernels
from mmbench.errors import RunnerUnavailableError
from mmbench.results import COLUMNS
from mmbench.runners import open_runner

BRIEF = ("--min-time", "0", "--max-time", "0.3")
PAIRED = ("--runner", "cpu", "--min-time", "0", "--max-time", "0.1", "--samples", "3")
QUICK = (*PAIRED, "--baseline", "none")  # compare has no baseline besides its first kernel
SMALL = ("--n", "32", "--tile", "8", *QUICK)
SMALL_PAIR = ("--n", "32", "--tile", "8", *PAIRED)


DROPS_LAST_K = RIGHT.replace("k < N; ++k", "k < N - 1; ++k")
BROKEN = RIGHT.replace("float acc = 0.0f", "float acc = zero")
CRASHES = RIGHT.replace("float acc = 0.0f;", "*(volatile float *)8 = 1.0f; float acc = 0.0f;")
ENDLESS = RIGHT.replace("float acc = 0.0f;", "volatile int go = 1; while (go) ; float acc = 0.0f;")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """What was wrong, less the usage lines that click puts before it."""
        assert "Traceback" not in self.err + self.out
        lines = [ln for ln in self.err.splitlines() if ln.startswith(("Error: ", "mmbench: "))]
        assert len(lines) == 1, self.err
        return lines[0]

    def rows(self) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(self.out))


Command = Callable[..., Answer]


def wide() -> dict[str, str]:
    """The environment of a person with a wide terminal."""
    return {**os.environ, "COLUMNS": "200"}


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def mm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the entry point of the console script in this process."""

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["mmbench", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def process() -> Command:
    """Run ``python -m mmbench`` as a process of its own."""

    def run(*words: str) -> Answer:
        command = [sys.executable, "-m", "mmbench", *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=wide(),
            timeout=120,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


def has_gpu() -> bool:
    try:
        open_runner("cuda")
    except RunnerUnavailableError:
        return False
    return True


# The three commands that README promises, at a small size.


@pytest.mark.cpu
def test_run_as_in_the_readme(process: Command, tmp_path: Path) -> None:
    answer = process("run", "--n", "64", "--tile", "32", *BRIEF)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    for name in ("naive", "tiled"):
        row = next(line.split() for line in lines if line.startswith(name))
        assert row[1:4] == ["64", "32", "ok"]
    assert "GFLOP/s" in answer.out
    assert "GB/s" in answer.out
    assert not list(tmp_path.iterdir()), "run leaves no file behind that was not asked for"


@pytest.mark.cpu
def test_sweep_as_in_the_readme(process: Command, tmp_path: Path) -> None:
    answer = process("sweep", "--n", "32,48", "--tile", "8", *BRIEF)
    assert answer.code == 0, answer.err
    (path,) = (tmp_path / "results").glob("*.csv")
    assert list(pd.read_csv(path)["status"]) == ["ok"] * 4
    assert path.name in answer.err


@pytest.mark.cpu
def test_compare_as_in_the_readme(process: Command) -> None:
    answer = process("compare", "naive", "tiled", "--n", "64", "--tile", "8", *BRIEF)
    assert answer.code == 0, answer.err
    assert "times as fast as naive" in answer.out
    assert "95 % interval" in answer.out
    assert "tiled requests 1/" in answer.out


# Exit codes.


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("body", "status", "kind", "reason"),
    [
        (DROPS_LAST_K, "wrong", None, r"elements differ"),
        (BROKEN, "failed", "compile", r"mine\.cu:\d+: error: .*zero"),
        (CRASHES, "failed", "crash", r"illegal memory access"),
        (ENDLESS, "timeout", "timeout", r"no result after 0\.5 s"),
    ],
)
def test_what_is_not_right_has_no_rate_and_says_so_in_its_exit_code(
    mm: Command, write_kernel: WriteKernel, body: str, status: str, kind: str | None, reason: str
) -> None:
    path = write_kernel("mine", body)
    answer = mm("run", "--kernel", str(path), *SMALL, "--timeout", "0.5", "--format", "csv")
    assert answer.code == (2 if kind == "compile" else 1)
    (row,) = answer.rows().to_dict("records")
    assert row["status"] == status
    assert row["kind"] == kind or (kind is None and pd.isna(row["kind"]))
    assert pd.Series([row["reason"]]).str.contains(reason)[0], row["reason"]
    empty = ["time_ms_median", "time_ms_min", "gflops", "requested_gbs", "compulsory_gbs"]
    assert all(pd.isna(row[name]) for name in empty)


@pytest.mark.cpu
def test_the_others_are_measured_beside_a_wrong_one(mm: Command, write_kernel: WriteKernel) -> None:
    wrong, crashing = write_kernel("wrong", DROPS_LAST_K), write_kernel("crashing", CRASHES)
    chosen = ["--kernel", str(crashing), "--kernel", str(wrong), "--kernel", "naive"]
    answer = mm("run", *chosen, *SMALL, "--format", "csv")
    assert answer.code == 1
    assert list(answer.rows()["status"]) == ["failed", "wrong", "ok"]


@pytest.mark.cpu
@pytest.mark.parametrize("tile", ["33", "64"])
def test_a_tile_over_the_limit_of_threads_is_skipped(mm: Command, tile: str) -> None:
    answer = mm("run", "--kernel", "tiled", "--n", "64", "--tile", tile, *QUICK)
    assert answer.code == 0
    threads = int(tile) ** 2
    assert f"block {tile}x{tile} = {threads} threads, the limit is 1024" in answer.out


@pytest.mark.cpu
def test_what_a_kernel_declares_itself_unfit_for_is_skipped_with_its_reason(mm: Command) -> None:
    answer = mm("run", "--kernel", "tutorial", "--n", "100", "--tile", "16", *QUICK)
    assert answer.code == 0
    assert "skipped" in answer.out
    assert "N must be a multiple of TILE_SIZE" in answer.out


@pytest.mark.cpu
@pytest.mark.parametrize("shape", [("--n", str(10**9)), ("--n", "40000", "--k", str(10**9))])
def test_what_exceeds_the_memory_is_told_before_it_is_allocated(
    mm: Command, shape: tuple[str, ...]
) -> None:
    begin = time.monotonic()
    answer = mm("run", "--kernel", "naive", *shape, "--tile", "8", *QUICK)
    assert answer.code == 0
    assert "skipped" in answer.out
    assert "GB of memory for A, B and C" in answer.out
    assert time.monotonic() - begin < 5


@pytest.mark.cpu
def test_ctrl_c_ends_a_run_with_130(write_kernel: WriteKernel, tmp_path: Path) -> None:
    path, out = write_kernel("endless", ENDLESS), tmp_path / "rows.csv"
    command = [sys.executable, "-m", "mmbench", "run", "--kernel", "naive", "--kernel", str(path)]
    running = subprocess.Popen(
        [*command, *SMALL, "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=wide(),
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not (out.exists() and out.read_text().count("\n") == 2):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the workers too
        _, err = running.communicate(timeout=10)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


# Bad input: exit 2 and one sentence that says what and what else.


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tile", "0"], "0 is not a positive whole number"),
        (["--tile", "-8"], "-8 is not a positive whole number"),
        (["--tile", "abc"], '"abc" is not a whole number or a range; write 256,512'),
        (["--tile", "8.5"], '"8.5" is not a whole number'),
        (["--n", "0"], "0 is not a positive whole number"),
        (["--n", "-1"], "-1 is not a positive whole number"),
        (["--n", "512:256"], '"512:256" is empty: 256 is below 512'),
        (["--n", "256:4096:*1"], "never ends"),
        (["--n", ""], "is not a whole number or a range"),
        (["--m", "0"], "--m"),
        (["--samples", "0"], "--samples"),
        (["--min-time", "-1"], "--min-time"),
        (["--interval", "-1%"], '"-1%" is no share; write 2% or 0.02'),
        (["--timeout", "0"], "--timeout"),
        (["--processes", "0"], "--processes"),
        (["--runner", "tpu"], "--runner"),
        (["--format", "xml"], "--format"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_bad_option_is_named(mm: Command, words: list[str], sentence: str) -> None:
    answer = mm("run", *words)
    assert answer.code == 2
    assert answer.out == ""
    assert sentence in answer.error
    if words[0] in ("--tile", "--n"):
        assert words[0] in answer.error


@pytest.mark.cpu
@pytest.mark.parametrize("command", [["run", "--kernel"], ["sweep"], ["compare", "naive"]])
def test_an_unknown_kernel_gets_the_nearest_name(mm: Command, command: list[str]) -> None:
    answer = mm(*command, "tild", *PAIRED)
    assert answer.code == 2
    assert answer.error == 'mmbench: no kernel is called "tild"; did you mean "tiled"?'


@pytest.mark.cpu
def test_a_kernel_unlike_any_gets_the_list(mm: Command) -> None:
    answer = mm("run", "--kernel", "zzzzzzzz", *SMALL)
    assert answer.code == 2
    assert all(name in answer.error for name in kernels.names())


@pytest.mark.cpu
def test_a_file_that_is_no_kernel_is_told(mm: Command, tmp_path: Path) -> None:
    (tmp_path / "bare.cu").write_text("__global__ void f() {}\n")
    (tmp_path / "folder.cu").mkdir()
    (tmp_path / "image.cu").write_bytes(b"// \x89PNG\r\n\x1a\n\xff")
    for name, sentence in (
        ("bare.cu", "f takes no pointer: mmbench passes A, B and C"),
        ("folder.cu", "is a folder"),
        ("image.cu", "not UTF-8"),
        ("missing.cu", "no such file"),
        ("./no/such/folder/x.cu", "no such file"),
    ):
        answer = mm("run", "--kernel", name, *SMALL)
        assert answer.code == 2, name
        assert sentence in answer.error
        assert Path(name).name in answer.error


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('reads  = "2', "reads  = 2", "not TOML"),
        ('reads  = "2', 'reeds  = "2', 'unknown key "reeds"'),
        ('writes = "M * N"', 'writes = "M * P"', "P is neither M, N, K"),
        ("TILE_SIZE = [16]", "TILE_SIZE = [0]", "positive whole numbers"),
        ('entry = "matmul"', 'entry = "matmal"', "no function matmal"),
    ],
)
def test_a_broken_header_is_told_with_its_line(
    mm: Command, write_kernel: WriteKernel, before: str, after: str, sentence: str
) -> None:
    path = write_kernel("mine", RIGHT)
    text = path.read_text()
    line = text[: text.index(before)].count("\n") + 1
    path.write_text(text.replace(before, after))
    answer = mm("run", "--kernel", str(path), *SMALL)
    assert answer.code == 2
    assert answer.error.startswith(f"mmbench: {path}:{line}: ")
    assert sentence in answer.error


@pytest.mark.cpu
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_an_unwritable_file_is_told_before_anything_is_measured(
    mm: Command, tmp_path: Path, write_kernel: WriteKernel, command: str
) -> None:
    kernel = str(write_kernel("endless", ENDLESS))
    words = [command, *(["--kernel"] if command == "run" else []), kernel, *SMALL]
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    for name, sentence in (
        ("folder.csv", "is a directory"),
        ("file/rows.csv", "cannot write file/rows.csv"),
        ("rows.txt", "rows.txt: results are written as .csv"),
        ("/proc/rows.csv", "cannot write /proc/rows.csv"),
    ):
        answer = mm(*words, "--out", name)
        assert answer.code == 2, name
        assert sentence in answer.error
    assert not (tmp_path / "rows.txt").exists()


@pytest.mark.cpu
def test_cold_is_refused_where_it_cannot_be_measured(mm: Command) -> None:
    answer = mm("run", *SMALL, "--cache", "cold")
    assert answer.code == 2
    assert "--cache cold is not for the cpu runner" in answer.error


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
@pytest.mark.parametrize("command", [["run"], ["sweep"], ["compare", "naive", "tiled"]])
def test_cuda_without_a_gpu_says_what_is_missing(
    mm: Command, command: list[str], tmp_path: Path
) -> None:
    answer = mm(*command, "--n", "32", "--runner", "cuda")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.error.startswith("mmbench: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
@pytest.mark.cpu
def test_auto_says_in_one_line_that_it_took_the_host(mm: Command) -> None:
    answer = mm("run", "--kernel", "naive", "--n", "32", "--tile", "8", *BRIEF)
    assert answer.code == 0
    assert answer.error.endswith("using the cpu runner: host times, not a GPU's")
    assert "host times, not a GPU's" in answer.out


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "name at least two kernels, or two CSV files"),
        (["naive"], "name at least two kernels"),
        (["old.csv", "naive"], "either kernels or exactly two CSV files"),
        (["old.csv", "old.csv", "old.csv"], "either kernels or exactly two CSV files"),
        (["missing.csv", "old.csv"], "cannot read missing.csv: No such file"),
        (["old.csv", "old.csv"], "old.csv is not a CSV of mmbench"),
    ],
)
def test_compare_says_what_it_compares(
    mm: Command, tmp_path: Path, names: list[str], sentence: str
) -> None:
    (tmp_path / "old.csv").write_text("date,price\n2020,1\n")
    answer = mm("compare", *names)
    assert answer.code == 2
    assert sentence in answer.error


@pytest.mark.cpu
def test_compare_needs_two_different_kernels(mm: Command) -> None:
    answer = mm("compare", "naive", "naive", *SMALL_PAIR)
    assert answer.code == 2
    assert "two different kernels" in answer.error


# Streams and formats.


@pytest.mark.cpu
def test_csv_on_stdout_is_csv_alone(process: Command) -> None:
    answer = process(
        "run", "--n", "32", "--tile", "8,33", *BRIEF, "--baseline", "none", "--format", "csv"
    )
    assert answer.code == 0, answer.err
    rows = answer.rows()
    assert list(rows.columns) == [column.name for column in COLUMNS]
    assert list(rows["status"]) == ["ok", "skipped", "ok", "skipped"]
    assert rows["gflops"].isna().tolist() == [False, True, False, True]
    assert len(answer.out.splitlines()) == 5
    fine = rows[rows["status"] == "ok"]
    expected = fine["flop"] / fine["time_ms_median"] / 1e6
    assert list(fine["gflops"]) == pytest.approx(list(expected))


@pytest.mark.cpu
def test_sampling_goes_on_until_the_interval_is_narrow(mm: Command) -> None:
    words = ["--n", "48", "--tile", "8", "--runner", "cpu", "--baseline", "none", "--samples", "7"]

    def samples(interval: str) -> int:
        rule = ["--min-time", "0", "--max-time", "0.3", "--interval", interval]
        answer = mm("run", "--kernel", "naive", *words, *rule, "--format", "json")
        (row,) = json.loads(answer.out)["results"]
        return int(row["samples"])

    assert 7 <= samples("99%") < samples("0")


@pytest.mark.cpu
def test_samples_are_taken_in_several_processes(mm: Command) -> None:
    answer = mm("run", "--kernel", "naive", *SMALL, "--processes", "3", "--format", "json")
    (row,) = json.loads(answer.out)["results"]
    medians = row["process_medians_ms"]
    assert row["processes"] == len(medians) == len(row["process_samples"]) == 3
    assert row["samples"] == sum(row["process_samples"])
    assert row["samples"] == len(row["samples_ms"]) >= 3 * 3
    assert min(medians) <= row["time_ms_median"] <= max(medians)
    assert row["time_ms_low"] < row["time_ms_median"] < row["time_ms_high"]
    apart = 100 * (max(medians) - min(medians)) / row["time_ms_median"]
    assert row["process_spread_percent"] == pytest.approx(apart, rel=1e-2)


@pytest.mark.cpu
@pytest.mark.parametrize("others", [[], ["tiled"]], ids=["beside blas", "beside kernels"])
def test_a_crash_that_does_not_come_again_is_a_failure(
    mm: Command, write_kernel: WriteKernel, tmp_path: Path, others: list[str]
) -> None:
    """What has failed in a group once is not to be had as a rate: not apart either."""
    mark = tmp_path / "mark"
    once = f'if (row + col == 0 && !remove("{mark}")) *(volatile int *)8 = 1;'
    body = RIGHT.replace("C[row * N + col] = acc;", f"C[row * N + col] = acc; {once}")
    path = write_kernel("flaky", f"#include <cstdio>\n{body}")
    words = ["run", "--kernel", str(path), *SMALL_PAIR] if not others else []
    words = words or ["compare", *others, str(path), *SMALL_PAIR]
    assert mm(*words).code == 0
    mark.touch()
    answer = mm(*words)
    assert not mark.exists()
    assert answer.code == 1
    assert "illegal memory access" in answer.out
    assert "not when measured apart" in " ".join(answer.out.split())
    assert "times as fast" not in answer.out


@pytest.mark.cpu
def test_an_element_that_was_written_is_not_called_untouched(
    mm: Command, write_kernel: WriteKernel
) -> None:
    """A sum that has run past the end of B must not look like what C held before."""
    path = write_kernel("past", RIGHT.replace("k < N; ++k", "k <= N; ++k"))
    answer = mm("run", "--kernel", str(path), "--n", "128", *QUICK)
    assert answer.code == 1
    assert "elements differ" in answer.out
    assert "never written" not in answer.out


@pytest.mark.cpu
def test_what_was_not_measured_in_turns_is_said(mm: Command, write_kernel: WriteKernel) -> None:
    hang = str(write_kernel("hang", ENDLESS))
    answer = mm("compare", "naive", "tiled", hang, *SMALL_PAIR, "--timeout", "1")
    assert answer.code == 1
    assert "not measured in turns: naive N=32 tile=8, tiled N=32 tile=8" in answer.out
    assert "tiled is" in answer.out


@pytest.mark.cpu
def test_pairs_are_compared_in_each_process(mm: Command) -> None:
    words = ["--n", "64", "--tile", "8", *PAIRED, "--processes", "2", "--format", "json"]
    answer = mm("compare", "naive", "tiled", *words)
    assert answer.code == 0
    (found,) = json.loads(answer.out)["comparisons"]
    assert found["low"] < found["speedup"] < found["high"]


def test_json_on_stdout_is_json_without_nan(mm: Command, write_kernel: WriteKernel) -> None:
    body = RIGHT.replace("= acc;", "= acc / (row == 0 ? 0.0f : 1.0f);")
    names = ["--kernel", "naive", "--kernel", str(write_kernel("infinite", body))]
    answer = mm("run", *names, *SMALL, "--format", "json")
    assert answer.code == 1

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    value = json.loads(answer.out, parse_constant=refuse)
    good, bad = value["results"]
    assert good["status"] == "ok"
    assert len(good["samples_ms"]) == good["samples"]
    assert min(good["samples_ms"]) == pytest.approx(good["time_ms_min"], rel=1e-4)
    assert bad["status"] == "wrong"
    assert bad["gflops"] is None
    assert value["mmbench"] == __version__
    assert set(value["kernels"]) == {"naive", "infinite"}


@pytest.mark.cpu
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_out_writes_the_rows_beside_what_is_printed(mm: Command, tmp_path: Path, form: str) -> None:
    answer = mm("run", "--kernel", "naive", *SMALL, "--out", "new/rows.csv", "--format", form)
    assert answer.code == 0
    assert answer.out
    (row,) = pd.read_csv(tmp_path / "new/rows.csv").to_dict("records")
    (session,) = json.loads((tmp_path / "new/rows.json").read_text())["runs"]
    assert session["results"][0]["gflops"] == row["gflops"] > 0
    if form == "csv":
        assert answer.out == (tmp_path / "new/rows.csv").read_text()


@pytest.mark.cpu
def test_a_path_with_blanks_and_umlauts_works(
    process: Command, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    folder = tmp_path / "path with spaces"
    folder.mkdir()
    write_kernel("x", RIGHT).rename(folder / "ünïcode.cu")
    answer = process("run", "--kernel", "./path with spaces/ünïcode.cu", *SMALL)
    assert answer.code == 0, answer.err
    assert "ünïcode" in answer.out


@pytest.mark.cpu
@pytest.mark.parametrize("command", ["run --kernel", "check", "show", "compare naive"])
def test_a_files_name_is_shown_as_it_is(
    mm: Command, write_kernel: WriteKernel, command: str
) -> None:
    """Brackets and colons are neither markup nor the name of a picture."""
    path = write_kernel("my[bold]:smile:", RIGHT)
    measured = () if command in ("check", "show") else ("--n", "16", *PAIRED)
    answer = mm(*command.split(), str(path), *measured)
    assert answer.code == 0
    assert any("my[bold]:smile:" in line.split()[0] for line in answer.out.splitlines() if line)
    assert "😄" not in answer.out


@pytest.mark.cpu
def test_a_compile_error_is_told_at_the_users_line_alone(
    mm: Command, write_kernel: WriteKernel
) -> None:
    path = write_kernel("mine", BROKEN)
    line = path.read_text().splitlines().index("    float acc = zero;") + 1
    answer = mm("run", "--kernel", str(path), *SMALL)
    assert answer.code == 2
    told = next(ln for ln in answer.out.splitlines() if ": failed: " in ln)
    assert f"{path}:{line}: error: " in told
    for foreign in ("simt", "cuda_shim", "unit.cpp", "#line", "/tmp/bash", "cc1plus"):
        assert foreign not in answer.out + answer.err
    assert answer.err == ""


@pytest.mark.cpu
def test_verbose_adds_the_compilers_whole_text(mm: Command, write_kernel: WriteKernel) -> None:
    path = write_kernel("mine", BROKEN)
    answer = mm("run", "--kernel", str(path), *SMALL, "--verbose", "--format", "csv")
    assert "float acc = zero;" in answer.err
    assert "cuda_shim.h" not in answer.err
    assert len(answer.rows()) == 1


@pytest.mark.cpu
def test_a_kernel_named_twice_is_measured_once(mm: Command) -> None:
    answer = mm("run", "--kernel", "naive", "--kernel", "naive", *SMALL, "--format", "csv")
    assert len(answer.rows()) == 1


@pytest.mark.cpu
def test_a_rectangular_product(mm: Command) -> None:
    shape = ["--m", "17", "--k", "9", "--n", "33", "--tile", "8", *QUICK]
    answer = mm("run", "--kernel", "tiled", "--kernel", "tutorial", *shape, "--format", "csv")
    assert answer.code == 0
    tiled, tutorial = answer.rows().to_dict("records")
    assert (tiled["m"], tiled["n"], tiled["k"], tiled["status"]) == (17, 33, 9, "ok")
    assert tiled["flop"] == 2 * 17 * 33 * 9
    assert tutorial["status"] == "skipped"


@pytest.mark.cpu
def test_compare_reports_a_kernel_that_is_wrong(mm: Command, write_kernel: WriteKernel) -> None:
    answer = mm("compare", "naive", str(write_kernel("wrong", DROPS_LAST_K)), *SMALL_PAIR)
    assert answer.code == 1
    assert "no comparison" in answer.out
    assert "times as fast" not in answer.out


@pytest.mark.cpu
def test_what_a_file_held_before_is_kept_beside_it(mm: Command, tmp_path: Path) -> None:
    assert mm("run", "--kernel", "naive", *SMALL, "--out", "a.csv").code == 0
    held = [(tmp_path / f"a.{kind}").read_text() for kind in ("csv", "json")]
    answer = mm("run", "--kernel", "tiled", *SMALL, "--out", "a.csv")
    assert "a.csv held rows of an earlier run; they are in a.old.csv now" in answer.err
    assert [(tmp_path / f"a.old.{kind}").read_text() for kind in ("csv", "json")] == held


@pytest.mark.cpu
def test_compare_reads_two_files(mm: Command) -> None:
    for name in ("old.csv", "new.csv"):
        assert mm("run", *SMALL, "--out", name).code == 0
    answer = mm("compare", "old.csv", "new.csv")
    assert answer.code == 0
    assert "old.csv -> new.csv" in answer.out
    assert "geometric mean of new/old speed" in answer.out
    assert mm("run", "--n", "48", "--tile", "8", *QUICK, "--out", "other.csv").code == 0
    answer = mm("compare", "old.csv", "other.csv")
    assert answer.code == 2
    assert "no point in common" in answer.error


@pytest.mark.cpu
def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m mmbench show tiled | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True, text=True, env=wide(), timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.stdout.startswith("tiled: ")


# Looking around.


def test_list_names_every_kernel_with_its_idea(mm: Command) -> None:
    answer = mm("list")
    assert answer.code == 0
    for spec in kernels.ladder():
        line = next(ln for ln in answer.out.splitlines() if ln.split()[:1] == [spec.name])
        assert spec.summary in line


@pytest.mark.parametrize("columns", ["80", "200"])
@pytest.mark.parametrize("name", kernels.names())
def test_show_prints_the_whole_source(
    mm: Command, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    answer = mm("show", name)
    assert answer.code == 0
    # A narrow terminal may fold a line, but never cut it.
    missing = Counter(kernels.get(name).source.split()) - Counter(answer.out.split())
    assert not missing


def test_show_reads_a_users_file_too(mm: Command, write_kernel: WriteKernel) -> None:
    answer = mm("show", str(write_kernel("mine", RIGHT)))
    assert answer.code == 0
    assert "A kernel of the tests." in answer.out
    assert mm("show", "tild").code == 2


@pytest.mark.cpu
def test_devices_names_the_host(mm: Command) -> None:
    answer = mm("devices")
    assert answer.code == 0
    assert "cpu:0" in answer.out
    assert "at most 1024" in answer.out


@pytest.mark.cpu
def test_doctor_finds_the_cpu_runner(mm: Command) -> None:
    answer = mm("doctor")
    assert answer.code == 0
    assert "runners that work here: " in answer.out
    assert "cpu" in answer.out.splitlines()[-1]


# Help answers at once.


@pytest.mark.parametrize("words", [["--help"], ["-h"], *([n, "--help"] for n in cli.cli.commands)])
def test_help_is_on_stdout(mm: Command, words: list[str]) -> None:
    answer = mm(*words)
    assert answer.code == 0
    assert answer.out.startswith("Usage: ")
    assert answer.err == ""


def test_version(mm: Command) -> None:
    assert mm("--version").out == f"mmbench, version {__version__}\n"


def test_no_command_is_a_usage_error(mm: Command) -> None:
    answer = mm()
    assert answer.code == 2
    assert "Usage: " in answer.out + answer.err


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["run", "--help"], ["run", "--n", "0"]]
)
def test_nothing_heavy_is_imported_to_say_little(words: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['mmbench', *{words!r}]\n"
        "from mmbench.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pandas', 'rich', 'pycuda', 'pynvml', 'tree_sitter'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"
