"""README and docs say what is true: generated parts are fresh, commands parse, examples run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mmbench import cli, header, kernels
from mmbench.csvfile import read_rows
from mmbench.results import COLUMNS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAIN_JOB, TEST_COMMAND = (
    line for line in README.splitlines() if line.startswith("python3 -m venv .venv && ")
)


def commands() -> list[list[str]]:
    """Every line of README's shell blocks that calls mmbench, as words."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("mmbench ")]
    return [words[1:] for words in found]


def renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_fresh() -> None:
    render = renderer()
    for page in render.PAGES:
        assert render.rendered(page) == (ROOT / page).read_text(encoding="utf-8"), page


def test_a_stale_part_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    render = renderer()
    monkeypatch.setitem(render.PARTS, "kernels", lambda: "something else")
    assert render.rendered("README.md") != README


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_in_readme_parses(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.endswith((".csv", ".cu")):
            Path(word).touch()
    name, *arguments = words
    command = cli.cli.commands[name]
    command.make_context(name, arguments)


def test_readme_shows_every_command() -> None:
    assert {words[0] for words in commands()} == set(cli.cli.commands)


def test_readme_names_every_kernel() -> None:
    assert all(f"`{name}`" in README for name in kernels.names())


def test_ci_runs_readmes_test_command() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == TEST_COMMAND


@pytest.mark.cpu
def test_readmes_first_command_does_the_main_job(tmp_path: Path) -> None:
    words = shlex.split(MAIN_JOB.rpartition(" && ")[2])
    assert words[0] == ".venv/bin/mmbench"
    answer = subprocess.run(
        [sys.executable, "-m", "mmbench", *words[1:], "--min-time", "0.1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    rows = read_rows(tmp_path / words[words.index("--out") + 1])
    assert {row.kernel for row in rows} == {"naive", "tiled", "blas"}
    assert {row.status for row in rows} == {"ok"}
    assert "host times" in answer.stdout


def test_readmes_header_example_is_a_header(tmp_path: Path) -> None:
    (example,) = re.findall(r"```cpp\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "mine.cu"
    path.write_text(
        f"{example}__global__ void my_kernel(float *A, float *B, float *C, int N) {{}}\n"
    )
    assert header.read_kernel(path).params == {"TILE_SIZE": (8, 16, 32)}


def test_contributing_explains_every_key_of_the_header() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for table, keys in header._KEYS.items():
        if table:
            assert f"[{table}]" in text
        for key in keys:
            assert f"`{key}`" in text or f"`[{key}]`" in text, key


def test_every_column_has_a_meaning() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.meaning.endswith(".") for column in COLUMNS)


def test_pages_name_no_folder_of_a_machine() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"/(?:work|tmp|root|home)/", text), page
