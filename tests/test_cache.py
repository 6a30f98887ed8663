"""What a compiled kernel is filed under changes with all that went into it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.cache import folder, key, source_hash, with_headers


@pytest.fixture
def fresh_folder() -> Iterator[None]:
    """Let folder() look anew, in the test and after it."""
    folder.cache_clear()
    yield
    folder.cache_clear()


@pytest.mark.usefixtures("fresh_folder")
def test_folder_is_the_one_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMBENCH_CACHE", str(tmp_path / "deep" / "cache"))
    assert folder() == tmp_path / "deep" / "cache"
    assert list(folder().iterdir()) == []


@pytest.mark.usefixtures("fresh_folder")
@pytest.mark.parametrize("chosen", [None, ""])
def test_folder_is_the_users_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if chosen is None:
        monkeypatch.delenv("MMBENCH_CACHE", raising=False)
    else:
        monkeypatch.setenv("MMBENCH_CACHE", chosen)
    assert folder().is_dir()
    assert folder().name == "mmbench"
    assert folder().is_relative_to(tmp_path)


@pytest.mark.usefixtures("fresh_folder")
def test_folder_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("MMBENCH_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    mine = folder()
    assert mine.is_dir()
    assert mine.parent == tmp_path / "tmp"
    folder.cache_clear()  # as in another process
    assert folder() == mine
    mine.chmod(0o777)  # somebody else may write there: its code is not ours to run
    folder.cache_clear()
    assert folder() != mine


def test_key_is_a_file_name() -> None:
    name = key("source", "-O3")
    assert name == key("source", "-O3")
    assert len(name) == 24
    assert set(name) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("ab",), ("a", "b")),
        (("a", ""), ("a",)),
        (("", "a"), ("a", "")),
        ((), ("",)),
        (("a", "b"), ("b", "a")),
        (("a\0b",), ("a", "b")),
    ],
)
def test_key_keeps_parts_apart(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert key(*one) != key(*other)


parts = st.lists(st.text("ab\0é", max_size=3), max_size=3)


@given(parts, parts)
def test_different_parts_have_different_keys(one: list[str], other: list[str]) -> None:
    assert (key(*one) == key(*other)) is (one == other)


def test_source_hash_is_sha256() -> None:
    assert source_hash("é\n", [Path()]) == hashlib.sha256("é\n".encode()).hexdigest()[:16]
    assert source_hash("a", [Path()]) != source_hash("a ", [Path()])


def test_source_without_headers_is_itself(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("unused")
    text = '#include <b.h>\nint x; // see "a.h"\n'
    assert with_headers(text, [tmp_path]) == text


@pytest.mark.parametrize(
    "line",
    [
        '#include "a.h"',
        "#include <a.h>",
        '  #include "a.h"',
        '# include "a.h"',
        '\t#\tinclude\t"a.h"',
    ],
)
def test_edit_of_a_header_changes_the_text(tmp_path: Path, line: str) -> None:
    header = tmp_path / "a.h"
    header.write_text("#define A 1\n")
    source = f"int x;\n{line}\n"
    before = with_headers(source, [tmp_path])
    assert before.startswith(source)
    assert "#define A 1" in before
    header.write_text("#define A 2\n")
    assert with_headers(source, [tmp_path]) != before


def test_headers_of_headers_are_found_beside_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.h").write_text('#include "b.h"\n#include "../c.h"\n')
    (tmp_path / "deep" / "b.h").write_text("the right b\n")
    (tmp_path / "b.h").write_text("another b\n")
    (tmp_path / "c.h").write_text("the c\n")
    text = with_headers('#include "deep/a.h"\n', [tmp_path])
    assert "the right b" in text
    assert "the c" in text
    assert "another b" not in text


def test_headers_that_include_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    text = with_headers('#include "a.h"\n#include "a.h"\n#include "./b.h"\n', [tmp_path])
    assert text.count("\0") == 2


def test_order_of_headers_is_fixed(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("the a\n")
    (tmp_path / "b.h").write_text("the b\n")
    texts = [
        with_headers(f'#include "{one}.h"\n#include "{other}.h"\n', [tmp_path])
        for one, other in ("ab", "ba")
    ]
    for text in texts:
        assert text.index("the a") < text.index("the b")


def test_missing_headers_and_folders_are_left_to_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    text = '#include "absent.h"\n#include "folder"\n'
    assert with_headers(text, [tmp_path]) == text


def test_header_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_bytes(b"// caf\xe9\n#define A 1\n")
    assert "#define A 1" in with_headers('#include "a.h"\n', [tmp_path])


def test_a_header_of_a_folder_named_beside_that_of_the_file(tmp_path: Path) -> None:
    own, more = tmp_path / "own", tmp_path / "more"
    for folder_, text in ((own, "the own a\n"), (more, "the other a\n")):
        folder_.mkdir()
        (folder_ / "a.h").write_text(text)
    (more / "b.h").write_text("the b\n")
    found = with_headers('#include "a.h"\n#include <b.h>\n', [own, more])
    assert "the own a" in found
    assert "the other a" not in found
    assert "the b" in found
    before = source_hash("#include <b.h>\n", [own, more])
    (more / "b.h").write_text("the edited b\n")
    assert source_hash("#include <b.h>\n", [own, more]) != before
