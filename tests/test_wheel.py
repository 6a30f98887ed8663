"""What pip installs is complete: the command works far from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import mmbench
from mmbench import kernels

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parents[1]
# PEP 517 called as pip calls it, less the environment that pip would download first.
BUILD = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    name = run(sys.executable, "-c", BUILD, folder, cwd=ROOT).strip().splitlines()[-1]
    return folder / name


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel, and with our dependencies."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    # Only now: pip must not meet the mmbench that this folder holds. Its own .pth files, such
    # as that of an editable install, are not read from here.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_holds_all_that_is_not_python(wheel: Path) -> None:
    package = Path(mmbench.__file__).parent
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.suffix in (".py", ".cu", ".h", ".c", ".cuh", ".inc") or path.name == "py.typed"
    }
    assert {f"mmbench/kernels/{name}.cu" for name in kernels.names()} <= wanted
    assert "mmbench/py.typed" in wanted
    assert any(name.endswith(".h") for name in wanted)
    held = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - held == set()
    strangers = {name for name in held - wanted if ".dist-info/" not in name}
    assert {name for name in strangers if not name.startswith("mmbench/runners/simt/")} == set()


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
        entry_points = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert f"\nVersion: {mmbench.__version__}\n" in text
    assert "\nLicense-Expression: MIT\n" in text
    assert "mmbench = mmbench.__main__:main" in entry_points


def test_the_installed_command_works_from_an_empty_folder(scripts: Path, tmp_path: Path) -> None:
    where = run(
        scripts / "python", "-c", "import mmbench; print(mmbench.__file__)",
        cwd=tmp_path, PYTHONPATH="",
    ).strip()  # fmt: skip
    assert Path(where).is_relative_to(scripts.parent), "the test would test the source tree"

    out = run(scripts / "mmbench", "list", cwd=tmp_path, PYTHONPATH="", COLUMNS="200")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        spec.name for spec in kernels.ladder()
    ]
    out = run(
        scripts / "mmbench", "run", "--n", "32", "--tile", "8", "--runner", "cpu",
        "--min-time", "0", "--samples", "3", "--baseline", "none", "--format", "csv",
        cwd=tmp_path, PYTHONPATH="", MMBENCH_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert [line.count(",ok,") for line in out.splitlines()[1:]] == [1, 1]
    assert {path.name for path in tmp_path.iterdir()} == {"cache"}
