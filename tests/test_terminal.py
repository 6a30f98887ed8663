"""In a real terminal of 80 columns: nothing runs over the edge, and no bar stays behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from conftest import RIGHT, WriteKernel

pytestmark = pytest.mark.cpu

WIDTH = 80
SMALL = (
    "--n",
    "32",
    "--tile",
    "8",
    "--runner",
    "cpu",
    "--min-time",
    "0",
    "--max-time",
    "0.1",
    "--samples",
    "3",
)


ENDLESS = RIGHT.replace("float acc = 0.0f;", "volatile int go = 1; while (go) ; float acc = 0.0f;")

# Makes the pseudo-terminal the one that Ctrl-C reaches the program through.
IN_FRONT = (
    "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'mmbench', *sys.argv[1:]])"
)


@dataclass
class Screen:
    """As much of a terminal as rich uses: what stands in which line in the end."""

    lines: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    widest: str = ""

    def feed(self, text: str) -> Screen:
        for sequence, character in re.findall(r"\x1b\[([?\d;]*[A-Za-z])|([^\x1b])", text):
            if sequence:
                self._control(sequence)
            elif character == "\r":
                self.column = 0
            elif character == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append([])
            elif character >= " ":
                self._put(character)
        return self

    def _put(self, character: str) -> None:
        line = self.lines[self.row]
        line += " " * (self.column + 1 - len(line))
        line[self.column] = character
        self.column += 1
        is_remark = "".join(line).startswith("mmbench: ")  # holds paths, is folded by terminals
        if not is_remark and self.column > len(self.widest):
            self.widest = "".join(line)

    def _control(self, sequence: str) -> None:
        count = int(re.sub(r"\D", "", sequence) or 1)
        if sequence[-1] == "A":
            self.row = max(0, self.row - count)
        elif sequence == "2K":
            self.lines[self.row] = []
        else:
            assert sequence[-1] in "mhl", f"the test knows no {sequence!r}"

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines)


class Terminal:
    """A program in a pseudo-terminal of 80 columns and 24 lines."""

    def __init__(self, words: tuple[str, ...], environment: dict[str, str], folder: Path) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_FRONT, *words],
            stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.raw = ""

    def read(self, until: Callable[[], bool] = lambda: False) -> str:
        """Read until the program ends, or the condition holds; return all that was read."""
        deadline = time.monotonic() + 90
        while not until():
            assert time.monotonic() < deadline, self.raw
            if not select.select([self.master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not data:
                break
            self.raw += data.decode(errors="replace")
        return self.raw

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


Open = Callable[..., Terminal]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a person at a terminal, whose mmbench samples as briefly as these tests want."""
    folder = tmp_path / "site"
    folder.mkdir()
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    drop = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "TERM": "xterm-256color"}


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> Open:
    def start(*words: str) -> Terminal:
        started = Terminal(words, environment, tmp_path)
        request.addfinalizer(started.close)
        return started

    return start


def see(started: Terminal, code: int = 0) -> Screen:
    raw = started.read()
    assert started.process.wait(timeout=10) == code, raw
    assert "Traceback" not in raw
    screen = Screen().feed(raw)
    assert len(screen.widest) <= WIDTH, screen.widest
    return screen


def test_the_screen_of_these_tests() -> None:
    """A line, a bar that is redrawn and taken away, another line."""
    screen = Screen().feed(
        "one\r\n\x1b[?25lbar 10 %\r\x1b[2Kbar 100 %\r\x1b[2Ktwo\r\n\x1b[1mx\x1b[0m"
    )
    assert screen.text == "one\ntwo\nx"
    assert screen.widest == "bar 100 %"
    assert Screen().feed("a\r\nb\x1b[1A\r\x1b[2Kc").text == "c\nb"
    assert Screen().feed("x" * 81).widest == "x" * 81
    assert Screen().feed("mmbench: " + "x" * 81).widest == "mmbench:"


def test_a_run_shows_a_bar_and_takes_it_away(terminal: Open) -> None:
    started = terminal("run", *SMALL, "--tile", "8,16")
    screen = see(started)
    assert "━" in started.raw
    assert "left" in started.raw
    assert re.search(r"\d+%", started.raw)
    assert "━" not in screen.text
    assert "left" not in screen.text
    assert not re.search(r"\d%", screen.text)
    assert started.raw.rfind("\x1b[?25h") > started.raw.rfind("\x1b[?25l"), "the cursor is back"
    assert "host times" in screen.text
    for kernel in ("naive", "tiled"):
        lines = [line for line in screen.text.splitlines() if line.startswith(kernel)]
        assert sum(" ok " in line for line in lines) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "naive", "tiled", *SMALL),
        ("sweep", "naive", "tiled", *SMALL, "--tile", "8,16,33", "--out", "a.csv"),
        ("list",),
        ("show", "tiled"),
        ("devices",),
        ("doctor",),
        ("--help",),
        ("run", "--help"),
        ("sweep", "--help"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_nothing_runs_over_the_edge(terminal: Open, words: tuple[str, ...]) -> None:
    screen = see(terminal(*words))
    assert screen.text.strip()
    assert "━" not in screen.text
    assert "…" not in screen.text, "something was cut"


def test_long_names_and_reasons_stay_inside(terminal: Open, write_kernel: WriteKernel) -> None:
    path = write_kernel("a_kernel_whose_name_is_far_too_long_for_a_table_of_a_terminal", RIGHT)
    broken = write_kernel("broken", RIGHT.replace("acc +=", f"{'x' * 90} +="))
    screen = see(terminal("run", "--kernel", str(path), "--kernel", str(broken), *SMALL), code=1)
    line = broken.read_text().partition("xxx")[0].count("\n") + 1
    assert f"{broken}:{line}:error:" in "".join(screen.text.split())


def test_a_bar_is_on_stderr_alone(environment: dict[str, str], tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with (tmp_path / "rows.csv").open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "mmbench", "run", *SMALL, "--baseline", "none",
             "--format", "csv"],
            stdout=out, stderr=slave, env=environment, cwd=tmp_path,
        )  # fmt: skip
    os.close(slave)
    raw = b""
    try:
        while data := os.read(master, 65536):
            raw += data
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(master)
    assert running.wait(timeout=30) == 0
    assert "━" in raw.decode()
    assert list(pd.read_csv(tmp_path / "rows.csv")["status"]) == ["ok", "ok"]
    assert "\x1b" not in (tmp_path / "rows.csv").read_text()


def results_in(path: Path) -> int:
    """How many results the JSON beside a CSV holds."""
    if not path.exists():
        return 0
    return sum(len(session["results"]) for session in json.loads(path.read_text())["runs"])


def see_interrupted(started: Terminal, path: Path) -> None:
    os.write(started.master, b"\x03")
    screen = see(started, code=130)
    rows = list(pd.read_csv(path)["status"])
    assert rows == ["ok"]
    assert results_in(path.with_suffix(".json")) == 1
    assert "━" not in screen.text, "the bar was left on the screen"
    assert started.raw.rfind("\x1b[?25h") > started.raw.rfind("\x1b[?25l"), "the cursor is back"
    assert "interrupted: 1 of 2 points were measured" in screen.text
    assert "go on with: mmbench sweep naive endless.cu" in screen.text


def test_ctrl_c_while_a_kernel_runs(
    terminal: Open, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    write_kernel("endless", ENDLESS)
    started = terminal("sweep", "naive", "endless.cu", *SMALL, "--out", "a.csv")
    started.read(until=lambda: results_in(tmp_path / "a.json") == 1)
    seen = len(started.raw)
    started.read(until=lambda: "endless: first launch" in started.raw[seen:])
    see_interrupted(started, tmp_path / "a.csv")


def test_ctrl_c_while_a_row_is_written(
    terminal: Open, write_kernel: WriteKernel, tmp_path: Path
) -> None:
    """The CSV, the JSON and what is said agree, however unlucky the moment."""
    write_kernel("endless", ENDLESS)
    with (tmp_path / "site" / "sitecustomize.py").open("a") as file:
        file.write("import os, time\nfsync = os.fsync\n")
        file.write("os.fsync = lambda descriptor: (fsync(descriptor), time.sleep(0.7))\n")
    started = terminal("sweep", "naive", "endless.cu", *SMALL, "--out", "a.csv")
    path = tmp_path / "a.csv"
    started.read(until=lambda: path.exists() and path.read_text().count("\n") == 2)
    see_interrupted(started, path)
