"""What is started early: the CUDA driver, here one of the tests' own, and a worker process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmbench import driver, kernels, worker_process
from mmbench.errors import CrashError
from mmbench.product import Problem
from mmbench.runners import Program
from mmbench.runners.host_compiler import find
from mmbench.spec import Point
from mmbench.supervisor import Supervisor
from mmbench.worker import Entry, Task

pytestmark = pytest.mark.cpu

FAKE = r"""
#include <stdio.h>
int cuInit(unsigned flags) { printf("init %u\n", flags); fflush(stdout); return STATUS; }
"""
BEGIN = "from mmbench import driver; print(driver.is_there(), flush=True); driver.begin().join()"


def test_without_a_driver_nothing_happens() -> None:
    driver.begin().join()


def with_driver(folder: Path, status: int) -> dict[str, str]:
    """An environment in which there is a CUDA driver that answers so."""
    source = folder / "cuda.c"
    source.write_text(FAKE)
    subprocess.run(
        [*find().command, "-x", "c", "-shared", "-fPIC", f"-DSTATUS={status}", str(source),
         "-o", str(folder / "libcuda.so.1")], check=True,
    )  # fmt: skip
    return os.environ | {"LD_LIBRARY_PATH": str(folder)}


@pytest.mark.parametrize("status", [0, 100])
def test_it_is_started_whatever_it_answers(tmp_path: Path, status: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", BEGIN], env=with_driver(tmp_path, status), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.splitlines() == ["True", "init 0"]
    assert answer.stderr == ""


def test_a_worker_that_nobody_takes_ends_with_the_command(tmp_path: Path) -> None:
    """A driver without PyCUDA, or without a GPU: the cpu runner takes over."""
    code = (
        "import atexit, sys, mmbench.cli, mmbench.worker_process as w\n"
        "atexit.register(lambda: print(*(x.process.pid for x in w._early.values())))\n"
        "sys.argv[1:] = 'run --kernel naive --n 16 --tile 8 --min-time 0 --baseline none'.split()\n"
        "mmbench.cli.main()"
    )
    script = tmp_path / "main.py"
    script.write_text(f"if __name__ == '__main__':\n    exec({code!r})\n")
    answer = subprocess.run(
        [sys.executable, str(script)], env=with_driver(tmp_path, 100), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "using the cpu runner" in answer.stderr
    pid = int(answer.stdout.split()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_opens_its_session_when_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: a context on a GPU would disturb whoever measures there."""
    monkeypatch.setenv("MMBENCH_CACHE", str(tmp_path))
    worker_process.start_early("cpu", 7)
    (early,) = worker_process._early.values()
    os.kill(early.process.pid, signal.SIGINT)  # Ctrl-C goes to the whole group; it is not its
    time.sleep(1.0)
    assert early.process.is_alive()
    assert not list(tmp_path.iterdir())
    taken = worker_process.take("cpu", 7)
    assert taken is early
    assert worker_process._early == {}
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*.so")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    taken.end()
    assert not taken.process.is_alive()


def test_a_worker_is_gone_before_the_next_one_opens_its_session() -> None:
    """Nobody waits for its end before; but the memory that it holds may be needed now."""
    with Supervisor("cpu", 7) as supervisor:
        supervisor.prestart()
        assert supervisor._worker is not None
        first = supervisor._worker.process
    assert first in worker_process._ending
    with Supervisor("cpu", 7) as supervisor:
        supervisor.prestart()
        assert not first.is_alive()
        assert worker_process._ending == []


@pytest.mark.parametrize("undisturbed", [True, False])
def test_the_next_worker_starts_where_that_disturbs_nobody(undisturbed: bool) -> None:
    with Supervisor("cpu", 7, undisturbed) as supervisor:
        supervisor.prestart_next()
        first, waiting = supervisor._worker, dict(worker_process._early)
        assert first is not None
        assert first not in waiting.values()
        assert len(waiting) == (0 if undisturbed else 1)
        supervisor.prestart_next()  # it is there already
        assert worker_process._early == waiting
        supervisor.stop()
        assert not first.process.is_alive()
        supervisor.prestart()
        if not undisturbed:
            assert supervisor._worker is waiting["cpu", 7]
        assert worker_process._early == {}


def test_a_worker_that_has_died_unseen_is_a_crash() -> None:
    """Its pipe is broken then, and a broken pipe means "| head" further up."""
    point = Point(kernels.get("naive"), Problem(8, 8, 8), {"TILE_SIZE": 8})
    task = Task((Entry(point, Program("", "", None)),), None, False, 0)
    with Supervisor("cpu", 7) as supervisor:
        supervisor.prestart()
        assert supervisor._worker is not None
        os.kill(supervisor._worker.process.pid, signal.SIGKILL)
        supervisor._worker.process.join()
        with pytest.raises(CrashError, match="SIGKILL"):
            supervisor.run(task, 10.0, lambda text, share: None)
