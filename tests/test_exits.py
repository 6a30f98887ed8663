"""How a command ends when something outside of it stops it: a signal, a full disk, a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import WriteKernel

FULL = Path("/dev/full")
MMBENCH = [sys.executable, "-m", "mmbench"]
SLOW = [
    "--runner",
    "cpu",
    "--tile",
    "8",
    "--baseline",
    "none",
    "--min-time",
    "1",
    "--max-time",
    "1",
]
ENDLESS = """
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    volatile int go = 1;
    while (go) ;
    C[threadIdx.x] = 1.0f;
}
"""


def start(*words: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [*MMBENCH, *words], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(what: str, process: subprocess.Popen[str], path: Path) -> None:
    deadline = time.monotonic() + 60
    while what not in (path.read_text() if path.exists() else ""):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["list"], ["show", "tiled"]])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full here")
    with FULL.open("w") as full:
        done = subprocess.run(
            [*MMBENCH, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "mmbench: the output cannot be written: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["list"], ["show", "tiled"]])
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*MMBENCH, *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.cpu
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_what_was_measured_and_no_files(number: int, tmp_path: Path) -> None:
    process = start("sweep", "naive", "--n", "32,48", *SLOW, "--out", "a.csv", folder=tmp_path)
    wait_for(",ok,", process, tmp_path / "a.csv")
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert "1 of 2 points were measured" in said
    assert "Traceback" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.json"]


@pytest.mark.cpu
def test_a_run_says_where_its_rows_are(tmp_path: Path) -> None:
    process = start("run", "--kernel", "naive", "--n", "32,48", *SLOW, "--out", "a.csv",
                    folder=tmp_path)  # fmt: skip
    wait_for(",ok,", process, tmp_path / "a.csv")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "mmbench: 1 row is in a.csv" in said


@pytest.mark.cpu
def test_a_stopped_check_leaves_no_process(write_kernel: WriteKernel, tmp_path: Path) -> None:
    path = write_kernel("endless", ENDLESS)
    process = start("check", str(path), "--n", "32", folder=tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("mmbench-check-*/*/job.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert not list(tmp_path.glob("mmbench-*"))
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False)
    assert left.stdout == b""


def printed(code: str) -> str:
    """What Python prints of this, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_ctrl_c_while_the_command_still_loads(tmp_path: Path) -> None:
    """Whoever is that quick gets no traceback either."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [*MMBENCH, "list"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_nohup_goes_on() -> None:
    code = (
        "import signal; from mmbench import stopping\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with stopping.as_interrupts(): signal.raise_signal(signal.SIGHUP)\n"
        "with stopping.held_back(): signal.raise_signal(signal.SIGHUP)\n"
        "print('went on')"
    )
    assert printed(code) == "went on\n"


def test_a_signal_waits_for_the_end_of_a_block() -> None:
    code = (
        "import signal; from mmbench import stopping\n"
        "with stopping.as_interrupts():\n"
        "    try:\n"
        "        with stopping.held_back():\n"
        "            signal.raise_signal(signal.SIGTERM); print('both files')\n"
        "    except KeyboardInterrupt: print('stopped')"
    )
    assert printed(code) == "both files\nstopped\n"
