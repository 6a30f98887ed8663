"""One measurement at a time: the second waits for the first, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mmbench import lock


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from mmbench import lock
with lock.held("GPU-1", print):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_free_lock_is_taken_without_a_word() -> None:
    said: list[str] = []
    with lock.held("GPU-1", said.append):
        assert lock.path_of("GPU-1").read_text() == str(os.getpid())
    with lock.held("GPU-1", said.append):
        pass
    assert said == []


def test_every_user_of_the_machine_may_lock() -> None:
    before = os.umask(0o077)
    try:
        with lock.held("GPU-1", pytest.fail):
            assert lock.path_of("GPU-1").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        said: list[str] = []
        entered = threading.Event()

        def measure() -> None:
            with lock.held("GPU-1", said.append):
                entered.set()

        thread = threading.Thread(target=measure)
        thread.start()
        assert not entered.wait(0.5)
        assert said == [f"waiting for another mmbench on this device (process {holder.pid})"]
        with lock.held("GPU-2", said.append):  # another device is free
            pass
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert entered.wait(10)
        thread.join()


def test_a_process_that_dies_leaves_no_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
        holder.wait()
    said: list[str] = []
    with lock.held("GPU-1", said.append):
        pass
    assert said == []


def test_without_a_folder_there_is_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with lock.held("GPU-1", pytest.fail):
        pass
