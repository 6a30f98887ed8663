"""The doctor says what is missing and what mends it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmbench import cache, cli, doctor
from mmbench.errors import RunnerUnavailableError
from mmbench.runners import host_compiler, nvcc, open_runner


def forget() -> None:
    """Tools are looked for once a process; a test that hides them must start anew."""
    for looked_up in (host_compiler.find, host_compiler.runtime_library, nvcc.find):
        looked_up.cache_clear()


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with an empty PATH, no $CXX, and neither ziglang nor PyCUDA."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CXX", raising=False)
    for package in ("ziglang", "pycuda"):
        monkeypatch.setitem(sys.modules, package, None)
    forget()
    yield
    forget()


def by_name(checks: list[doctor.Check]) -> dict[str, doctor.Check]:
    return {check.name: check for check in checks}


@pytest.mark.usefixtures("nothing_installed")
def test_without_a_compiler_both_ways_to_get_one_are_named() -> None:
    checks = by_name(doctor.examine())
    compiler = checks["C++ compiler"]
    assert not compiler.ok
    assert "apt install g++" in compiler.mend
    assert 'pip install "mmbench[cpu]"' in compiler.mend
    assert not checks["cpu runner"].ok
    assert not doctor.usable(list(checks.values()), "cpu")
    assert checks["Python"].ok


@pytest.mark.usefixtures("nothing_installed")
def test_the_runner_names_both_ways_too() -> None:
    for name in ("cpu", "auto"):
        with pytest.raises(RunnerUnavailableError) as told:
            open_runner(name)
        assert "apt install g++" in told.value.message
        assert 'pip install "mmbench[cpu]"' in told.value.message
        assert "\n" not in told.value.message


@pytest.mark.usefixtures("nothing_installed")
def test_the_command_exits_2_where_no_runner_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmbench", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert err == ""
    assert "runners that work here: none" in out
    assert "miss  C++ compiler: " in out
    assert 'pip install "mmbench[cpu]"' in out


@pytest.mark.usefixtures("nothing_installed")
def test_every_gap_has_a_mend() -> None:
    gaps = [check for check in doctor.examine() if not check.ok]
    assert gaps
    for check in gaps:
        assert check.mend, check.name
        assert check.found, check.name


@pytest.mark.usefixtures("nothing_installed")
def test_a_compiler_named_in_cxx_is_taken_and_a_broken_one_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "my-c++"
    tool.write_text("#!/bin/sh\n[ $# = 1 ] && echo 'my-c++ 1.2.3'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CXX", str(tool))
    compiler = by_name(doctor.examine())["C++ compiler"]
    assert compiler.ok
    assert "my-c++ 1.2.3" in compiler.found
    forget()
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    compiler = by_name(doctor.examine())["C++ compiler"]
    assert not compiler.ok
    assert "$CXX" in compiler.found
    assert "does not run" in compiler.found


@pytest.mark.usefixtures("nothing_installed")
def test_a_compiler_that_makes_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "idle-c++"
    tool.write_text("#!/bin/sh\necho 'idle-c++ 1.2.3'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CXX", str(tool))
    runtime = by_name(doctor.examine())["cpu runner"]
    assert not runtime.ok
    assert runtime.found


@pytest.mark.cpu
def test_a_machine_with_a_compiler_can_run_kernels() -> None:
    checks = doctor.examine()
    assert doctor.usable(checks, "cpu")
    assert "builds" in by_name(checks)["cpu runner"].found


@pytest.mark.gpu
def test_a_machine_with_a_gpu_lacks_nothing() -> None:
    checks = doctor.examine()
    assert doctor.usable(checks, "cuda"), checks
    assert "driver" in by_name(checks)["NVIDIA driver and GPU"].found


def test_a_runner_is_usable_only_with_all_it_needs() -> None:
    good = doctor.Check("a", "cpu", True, "")
    bad = doctor.Check("b", "cpu", False, "", "mend")
    optional = doctor.Check("c", "telemetry", False, "", "mend")
    assert doctor.usable([good, optional], "cpu")
    assert not doctor.usable([good, bad], "cpu")


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MMBENCH_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache.folder.cache_clear()
    try:
        check = next(each for each in doctor.examine() if each.name == "cache folder")
    finally:
        cache.folder.cache_clear()
    assert not check.ok
    assert f"{tmp_path / 'file'} cannot be written" in check.found
    assert "MMBENCH_CACHE" in check.mend
