"""The scripts in benchmarks/, as far as no GPU is needed: reports, processes, command lines."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmbench import axes, cli, kernels

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def peers() -> Any:
    return importlib.import_module("peers")


@pytest.fixture
def speed() -> Any:
    return importlib.import_module("sweep_speed")


HEAD = {
    "date": "2026-01-02",
    "command": "python benchmarks/x.py",
    "device": "NVIDIA H200",
    "driver": "1.2 (CUDA 13.0)",
    "compiler": "nvcc 13.0.88",
    "versions": {"python": "3.12.3", "cuda-bench": "0.3.0"},
}


def peers_run(series: dict[tuple[str, int], list[float]], **more: Any) -> dict[str, Any]:
    """A result file with these microseconds, one value a repeat."""
    figures = [
        {"repeat": i, "tool": tool, "n": n, "seconds": us / 1e6, "samples": 10}
        for (tool, n), values in series.items()
        for i, us in enumerate(values)
    ]
    repeats = max(len(values) for values in series.values())
    run = {"kernel": "tiled with TILE_SIZE 32", "options": "-w", "repeats": repeats, "missing": {}}
    return {**HEAD, **run, "figures": figures, **more}


def cells(text: str, *starts: str) -> list[str]:
    """The cells of the one table row that begins with these cells."""
    head = f"| {' | '.join(starts)} |"
    (row,) = (line for line in text.splitlines() if line.startswith(head))
    return [cell.strip() for cell in row.strip("|").split("|")][len(starts) :]


def test_peers_report_has_median_spread_and_ratio(peers: Any) -> None:
    text = peers.report(
        peers_run(
            {
                ("cuda-bench cold", 512): [50.0, 50.2, 50.1],
                ("triton do_bench", 512): [60.12, 60.12, 60.12],
                ("mmbench cold", 512): [50.3, 50.1, 50.9],
                ("kernel_tuner (pycuda)", 512): [1060.0, 1000.0, 1061.2],
                ("mmbench hot, 5 processes", 512): [49.5, 49.5, 49.5],
                ("mmbench hot", 512): [49.0, 49.0, 49.0],
                ("cuda-bench batch", 512): [50.0, 50.0, 50.0],
            }
        )
    )
    assert cells(text, "512", "mmbench cold") == ["50.30", "1.59", "1.0040"]
    assert cells(text, "512", "triton do_bench") == ["60.12", "0.00", "1.2000"]
    assert cells(text, "512", "cuda-bench cold") == ["50.10", "0.40", "1.0000"]
    assert cells(text, "512", "kernel_tuner (pycuda)") == ["1,060.00", "5.77", "21.2000"]
    assert cells(text, "512", "mmbench hot") == ["49.00", "0.00", "0.9800"]
    order = [text.index(x) for x in ("| mmbench cold", "| cuda-bench cold", "| triton do_bench")]
    assert order == sorted(order)
    assert text.index("| mmbench hot |") < text.index("| mmbench hot, 5 processes |")
    assert "NVIDIA H200, driver 1.2 (CUDA 13.0), nvcc 13.0.88" in text
    assert "2026-01-02: `python benchmarks/x.py`" in text


@pytest.mark.parametrize(
    ("ours", "theirs", "near", "steady"),
    [
        ([100.9, 100.9], [100.0, 100.0], "met (+0.90 %)", "met (0.00 %, theirs 0.00 %)"),
        ([98.9, 98.9], [100.0, 100.0], "missed (-1.10 %)", "met (0.00 %, theirs 0.00 %)"),
        ([99.7, 100.3], [100.0, 100.0], "met (+0.00 %)", "missed (0.60 %, theirs 0.00 %)"),
        ([99.7, 100.3], [99.5, 100.5], "met (+0.00 %)", "met (0.60 %, theirs 1.00 %)"),
        ([99.8, 100.2], [99.9, 100.1], "met (+0.00 %)", "met (0.40 %, theirs 0.20 %)"),
    ],
)
def test_peers_goals(
    peers: Any, ours: list[float], theirs: list[float], near: str, steady: str
) -> None:
    text = peers.report(peers_run({("mmbench cold", 64): ours, ("cuda-bench cold", 64): theirs}))
    assert cells(text, "mmbench cold within 1 % of cuda-bench cold") == [near]
    title = "mmbench cold spread below 0.5 % or below that of cuda-bench cold"
    assert cells(text, title) == [steady]
    assert cells(text, "mmbench hot within 1 % of cuda-bench batch") == ["no figure"]


def test_peers_report_names_what_is_missing_and_keeps_the_rest(peers: Any) -> None:
    why = {"cuda-bench": "cuda-bench is not usable here: No module named 'cuda.bench'"}
    text = peers.report(peers_run({("mmbench cold", 512): [50.0]}, missing=why))
    assert f"Left out: {why['cuda-bench']}." in text
    assert cells(text, "512", "mmbench cold") == ["50.00", "", ""]
    assert set(cells(text, "mmbench cold within 1 % of cuda-bench cold")) == {"no figure"}


def test_the_scatter_is_told_by_cause() -> None:
    """By hand: places 1 % apart in each of three processes, processes 2 %, in turns 0.5 %."""
    scatter = importlib.import_module("scatter")
    found = [
        {
            "medians": {
                "same": {"cold": [40.0, 40.0], "hot": [30.0, 30.3], "hot, cycles": [100.0] * 2},
                "module": {"cold": [40.0], "hot": [30.0], "hot, cycles": [100.0]},
                "place": {"cold": [39.8, 40.0, 40.2], "hot": [30.0], "hot, cycles": [100.0]},
                "process": {
                    "cold": [40.0 + 0.4 * i], "hot": [30.0 + i], "hot, cycles": [100.0 + i],
                },
                "turns": {"cold": [40.0 + 0.1 * i]},
            },
            "empty": 1.0 + i / 10,
            "clocks": [1970.0 - i, 1976.25],
        }
        for i in range(3)
    ]  # fmt: skip
    text = scatter.report({**HEAD, "n": 512, "found": found})
    assert cells(text, "nothing: the same again") == ["0.00", "1.00", "0.00"]
    assert cells(text, "the place of A, B and C") == ["1.00", "0.00", "0.00"]
    assert cells(text, "the process, one place each") == ["1.98", "6.45", "1.98"]
    assert cells(text, "the process, 16 places in turn") == ["0.50", "", ""]
    assert "takes 1.00 to 1.20 us in these processes, tiled 100 to 102 cycles" in text
    assert "their correlation is 1.00. The SM clock of the hot samples was 1968.0 to 1976.2" in text


def test_mmbench_rows_become_seconds(peers: Any) -> None:
    row = {
        "n": 512, "status": "ok", "reason": None, "time_ms_median": 0.05, "samples": 9,
        "sm_clock_mhz": 1980, "processes": 1,
    }  # fmt: skip
    (figure,) = peers.mmbench_figures({"results": [row]}, "hot")
    assert figure == peers.Figure("mmbench hot", 512, pytest.approx(5e-5), 9, 1980)
    (figure,) = peers.mmbench_figures({"results": [{**row, "processes": 5}]}, "hot")
    assert figure.tool == "mmbench hot, 5 processes"
    with pytest.raises(RuntimeError, match="N=512: wrong, 3 elements differ"):
        peers.mmbench_figures(
            {"results": [{**row, "status": "wrong", "reason": "3 elements differ"}]}, "hot"
        )


def nvbench_state(**more: Any) -> SimpleNamespace:
    values = {
        "nv/cold/sample_size": 3,
        "nv/cold/time/gpu/median": 7e-5,
        "nv/cold/sm_clock_rate/mean": 1.98e9,
        "nv/batch/time/gpu/mean": 4e-5,
        "nv/batch/sample_size": 900,
    }
    state = {
        "point": {"N": "512"},
        "is_skipped": False,
        "skip_reason": None,
        "samples": [9e-5, 5e-5, 6e-5],
        "summaries": {tag: SimpleNamespace(value=value) for tag, value in values.items()},
    }
    return SimpleNamespace(**(state | more))


def test_cuda_bench_cold_is_the_median_and_batch_its_mean(peers: Any) -> None:
    cold, batch = peers.cuda_bench_figures(nvbench_state())
    assert cold == peers.Figure("cuda-bench cold", 512, 6e-5, 3, pytest.approx(1980))
    assert batch == peers.Figure("cuda-bench batch", 512, 4e-5, 900, None)
    cold, _ = peers.cuda_bench_figures(nvbench_state(samples=None))
    assert (cold.seconds, cold.samples) == (7e-5, 3)


def test_cuda_bench_without_figures_says_so(peers: Any) -> None:
    with pytest.raises(RuntimeError, match=r"no figure of cuda-bench cold at N=512; tags: \[\]"):
        peers.cuda_bench_figures(nvbench_state(summaries={}, samples=None))
    with pytest.raises(RuntimeError, match="skipped N=512: too slow"):
        peers.cuda_bench_figures(nvbench_state(is_skipped=True, skip_reason="too slow"))


CHILD = "import json, pathlib, sys, time; path = pathlib.Path(sys.argv[1]); "


@pytest.mark.parametrize(
    ("code", "message", "shown"),
    [
        ("print('first'); raise ValueError('no luck')", "ended with code 1: ValueError: no luck",
         "| first"),
        ("print('ModuleNotFoundError: x'); sys.exit(3)",
         "is not usable here: ModuleNotFoundError: x", ""),
        ("print('begun', flush=True); time.sleep(60)", "gave no answer in 1 s: begun", "| begun"),
        ("pass", "ended with code 0: (it printed nothing)", ""),
    ],
)  # fmt: skip
def test_a_failed_tool_is_told_with_its_last_lines(
    peers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    code: str, message: str, shown: str,
) -> None:  # fmt: skip
    result = tmp_path / "result.json"
    result.write_text("[1]")  # of an earlier repeat: must not be taken for this one's
    with pytest.raises(peers.ToolError) as error:
        peers.run_child(["-c", CHILD + code, str(result)], result, "tool", 1)
    assert str(error.value) == f"tool {message}"
    assert shown in capsys.readouterr().err


def test_a_tool_hands_back_json(peers: Any, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    code = CHILD + "path.write_text(json.dumps([{'n': 5}]))"
    assert peers.run_child(["-c", code, str(result)], result, "tool", 30) == [{"n": 5}]


def test_a_child_that_cannot_import_its_tool_is_unusable_not_broken(
    peers: Any, tmp_path: Path
) -> None:
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import peers, importlib; "
    code += "peers.child_main(lambda: importlib.import_module('no.such_tool'), 'x')"
    with pytest.raises(peers.ToolError, match="tool is not usable here: ModuleNotFoundError: No m"):
        peers.run_child(["-c", code], tmp_path / "result.json", "tool", 60)


def test_tools_take_turns_and_a_failed_one_drops_out(
    peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def answer(arguments: list[str], *_: Any) -> list[dict[str, Any]]:
        name = arguments[2]
        order.append(name)
        if name == "triton":
            raise peers.ToolError("triton is not usable here")
        return [{"tool": name, "n": 64, "seconds": 1e-5}]

    monkeypatch.setattr(peers, "run_child", answer)
    saved: list[dict[str, Any]] = []
    job = peers.Job("k", "s", [], [64], 0.1)
    peers.measure(job, 3, 1e9, lambda more: saved.append(dict(more)))
    first, second, third = order[:7], order[7:13], order[13:]
    assert first == list(peers.TOOLS)
    assert [second[0], third[0]] == [list(peers.TOOLS)[1], list(peers.TOOLS)[2]]
    assert set(second) == set(third) == set(first) - {"triton"}
    assert len(second) == len(third) == 6
    assert [each["repeats"] for each in saved] == [1, 2, 3]
    assert saved[-1]["missing"] == {"triton": "triton is not usable here"}
    assert len(saved[-1]["figures"]) == 18


def test_no_repeat_is_begun_past_the_limit(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "run_child", lambda *_: [])
    saved: list[dict[str, Any]] = []
    peers.measure(peers.Job("k", "s", [], [64], 0.1), 5, 0.0, saved.append)
    assert len(saved) == 1


def test_the_job_has_the_cubin_and_options_of_the_cuda_runner(
    peers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Runner:
        def __init__(self, index: int) -> None:
            assert index == 0

        def compile(self, point: Any) -> Any:
            assert (point.spec.name, point.tile, point.problem.n) == ("tiled", 32, 512)
            (tmp_path / "made").mkdir()
            (tmp_path / "made" / "8f.cubin").write_bytes(b"ELF")
            return SimpleNamespace(path=str(tmp_path / "made"), symbol="_Z5tiled")

        def flags(self, point: Any) -> str:
            return "-std=c++17 -w -lineinfo -DTILE_SIZE=32 -arch=sm_90"

    monkeypatch.setattr("mmbench.runners.cuda.CudaRunner", Runner)
    job = peers.prepare((512, 1024), 0.5, tmp_path)
    assert Path(job.cubin).read_bytes() == b"ELF"
    assert (job.symbol, job.ns, job.seconds) == ("_Z5tiled", [512, 1024], 0.5)
    assert job.options == ["-std=c++17", "-w", "-lineinfo"]


def parses(command: list[str]) -> dict[str, Any]:
    """What mmbench's own command line makes of ``-m mmbench COMMAND ...``."""
    assert command[:2] == ["-m", "mmbench"]
    name, *rest = command[2:]
    return cli.cli.commands[name].make_context(name, rest).params


def test_the_scripts_give_mmbench_options_that_it_has(peers: Any, speed: Any) -> None:
    job = peers.Job("k", "s", [], [512, 1024], 0.5)
    run = parses(peers.mmbench_command(job, "cold"))
    assert (run["n"], run["tiles"], run["cache"]) == ((512, 1024), (32,), "cold")
    assert (run["runner"], run["form"], run["min_time"]) == ("cuda", "json", 0.5)
    several = parses(peers.mmbench_command(job, "hot", 5))
    assert (several["processes"], several["min_time"]) == (5, 0.1)
    sweep = parses(speed.mmbench_command(speed.Job([256], [8, 24], 20), "x.csv"))
    assert (sweep["names"], sweep["tiles"]) == (speed.KERNELS, (8, 24))
    assert (sweep["samples"], sweep["min_time"], sweep["interval"]) == (20, 0, 0.99)


def test_kernel_tuner_gets_the_right_answer_in_the_place_of_c(peers: Any) -> None:
    (point,) = axes.points([kernels.get("tiled")], axes.problems([24]), [8])
    answer, arguments = peers.tuner_arguments(point)
    assert [type(x) for x in arguments[3:]] == [np.int32] * 3
    assert list(arguments[3:]) == [24, 24, 24]
    assert not arguments[2].any()
    assert [x is None for x in answer] == [True, True, False, True, True, True]
    assert np.allclose(answer[2], arguments[0].astype(float) @ arguments[1], atol=1e-5)
    assert len({id(x) for x in arguments[:3]}) == 3
    name, source, size = peers.tuner_problem(point)
    assert f"void {name}(" in source
    assert size == (24, 24)


def test_the_kernels_of_the_sweep_take_the_same_arguments(speed: Any) -> None:
    """So that one set of arguments serves all three in kernel_tuner."""
    assert len({kernels.get(name).arguments for name in speed.KERNELS}) == 1


def speed_run(times: dict[str, tuple[float, float | None]], **more: Any) -> dict[str, Any]:
    job = {"ns": [256, 512], "tiles": [8, 16], "samples": 20}
    values = [
        {"repeat": 0, "tool": tool, "process": process, "imports": calls and 3.0, "calls": calls,
         "points": 12, "samples": 20, "compile": None}
        for tool, (process, calls) in times.items()
    ]  # fmt: skip
    run = {"job": job, "cores": 16, "repeats": 1, "times": values, "missing": {}}
    return {**HEAD, **run, **more}


@pytest.mark.parametrize(("nvrtc", "verdict"), [(20.0, "met, 0.50"), (19.0, "missed, 0.53")])
def test_sweep_goal_is_judged_by_the_faster_kernel_tuner(
    speed: Any, nvrtc: float, verdict: str
) -> None:
    times = {"mmbench": (10.0, None), "nvrtc": (nvrtc, 16.0), "nvcc": (100.0, 95.0)}
    text = speed.report(speed_run(times))
    assert f"{verdict} of kernel_tuner, nvrtc (" in text
    assert cells(text, "mmbench sweep") == ["10.0", "", "", "1.00", ""]
    assert cells(text, "kernel_tuner, nvcc") == ["100.0", "3.0", "95.0", "0.10", "0.11"]
    assert "12 points" in text


def test_sweep_goal_tells_how_far_apart_the_repeats_are(speed: Any) -> None:
    run = speed_run({"mmbench": (10.0, None), "nvrtc": (20.0, 16.0)})
    for repeat, seconds in ((1, 25.0), (2, 40.0)):
        run["times"] += [{**each, "repeat": repeat} for each in run["times"][:2]]
        run["times"][-1]["process"] = seconds
    assert "met, 0.40 of kernel_tuner, nvrtc (0.25 to 0.50 in single repeats)." in speed.report(run)


def test_sweep_report_without_kernel_tuner(speed: Any) -> None:
    why = {"nvcc": "nvcc is not usable here: No module named 'kernel_tuner'"}
    text = speed.report(speed_run({"mmbench": (10.0, None)}, missing=why))
    assert "no figure" in text
    assert f"Left out: {why['nvcc']}." in text


def test_every_sweep_begins_with_empty_caches(speed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    seen: list[str] = []

    def answer(arguments: list[str], *_: Any) -> dict[str, Any]:
        for variable in ("MMBENCH_CACHE", "CUDA_CACHE_PATH"):
            folder = Path(os.environ[variable])
            assert list(folder.iterdir()) == []
            seen.append(str(folder))
        rows = [{"status": "ok", "samples": 20}] * 12
        return {
            "points": 12,
            "samples": 20,
            "calls": None,
            "compile": None,
            "runs": [{"results": rows}],
        }

    for variable in speed._CACHES:
        monkeypatch.setenv(variable, "")  # so that it is put back afterwards
    monkeypatch.setattr(speed, "run_child", answer)
    saved: list[dict[str, Any]] = []
    speed.measure(speed.Job([256, 512], [8, 16], 20), ["mmbench", "nvcc"], 2, saved.append)
    assert len(set(seen)) == 8
    assert [x["tool"] for x in saved[-1]["times"]] == ["mmbench", "nvcc", "nvcc", "mmbench"]


def test_a_sweep_that_lost_points_does_not_count(
    speed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in speed._CACHES:
        monkeypatch.setenv(variable, "")
    lost = {"points": 11, "samples": 20, "calls": None, "compile": None}
    monkeypatch.setattr(speed, "run_child", lambda *_: lost)
    saved: list[dict[str, Any]] = []
    speed.measure(speed.Job([256, 512], [8, 16], 20), ["nvcc"], 1, saved.append)
    assert saved[-1]["times"] == []
    assert saved[-1]["missing"] == {"nvcc": "nvcc measured 11 of 12 points"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"status": "wrong", "reason": "C differs"}, "mmbench: tiled N=8: C differs"),
        ({"samples": 21}, "mmbench: tiled N=8: 21 samples"),
    ],
)
def test_a_sweep_with_a_bad_row_does_not_count(
    speed: Any, changed: dict[str, Any], why: str
) -> None:
    row = {"kernel": "tiled", "n": 8, "status": "ok", "samples": 20, "reason": None}
    assert speed._swept([row, row], 20).points == 2
    with pytest.raises(Exception, match=why):
        speed._swept([row, row | changed], 20)


def test_options(peers: Any, speed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert (peers.parse([]).n, peers.parse([]).repeats) == ((512, 1024, 4096), 5)
    quick = peers.parse(["--quick", "--n", "64:256:*2"])
    assert (quick.n, quick.repeats) == ((64, 128, 256), 2)
    assert speed.parse([]).tile == (4, 8, 16, 24, 32)
    assert speed.parse(["--tools", "nvcc,mmbench"]).tools == ["nvcc", "mmbench"]
    with pytest.raises(SystemExit):
        speed.parse(["--tools", "nvc"])
    assert 'no tool is called "nvc"' in capsys.readouterr().err


def test_saved_files_are_rendered_again(
    peers: Any, speed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    import json

    path = tmp_path / "run.json"
    for module, run in (
        (peers, peers_run({("mmbench cold", 512): [50.0]})),
        (speed, speed_run({"mmbench": (10.0, None)})),
    ):
        path.write_text(json.dumps(run))
        monkeypatch.setattr(sys, "argv", ["x.py", "--render", str(path)])
        module.main()
        assert capsys.readouterr().out == module.report(run)
