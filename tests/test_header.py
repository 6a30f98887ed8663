"""A header is read in full, and every mistake in one is reported at its own line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmbench.errors import HeaderError
from mmbench.expressions import Expression
from mmbench.header import read_kernel, read_source
from mmbench.product import Product
from mmbench.spec import Argument

HEADER = """\
// A comment before the header.
// /// kernel
// summary = "A kernel."
// after = "naive"
// dtype = "float64"
// entry = "multiply"
// arguments = ["A", "B", "C", "int M", "size_t N", "K"]
// runners = ["cuda"]
// default = true
//
// [params]
// TILE_SIZE = [8, 16]                 # a comment
// DEPTH = [4]
//
// [launch]
// block = ["TILE_SIZE", 2]
// grid = ["ceil_div(N, TILE_SIZE)", "M", "1"]
// dynamic_shared_bytes = "DEPTH * 8"
//
// [device]
// shared_bytes = "TILE_SIZE * 8"
// compute_capability = [7, 5]
//
// [requires]
// "N % TILE_SIZE == 0" = "no edge guard"
// "ceil_div(K, 2) == min(K, 3)" = "an odd kernel"
//
// [traffic]
// reads = "2 * M * N * K"
// writes = "M * N"
// ///

__global__ void multiply(const double *A, const double *B, double *C) {}
"""

MINIMAL = """\
// /// kernel
// summary = "A kernel."
// [launch]
// block = [32]
// grid = ["N"]
// [traffic]
// reads = 0
// writes = "N * N"
// ///
__global__ void matmul_mine(const float *A, const float *B, float *C, int N) {}
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "mine.cu"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(HeaderError) as caught:
        read_kernel(path)
    return caught.value.message


def changed(old: str, new: str, text: str = HEADER) -> tuple[str, int]:
    """The header with one line's text replaced, and the number of that line."""
    lines = text.split("\n")
    (place,) = (i for i, line in enumerate(lines) if line.startswith(f"// {old}"))
    lines[place] = f"// {new}"
    return "\n".join(lines), place + 1


def test_every_key_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER)
    spec = read_kernel(path)
    assert (spec.name, spec.path, spec.source) == ("mine", path, HEADER)
    assert (spec.summary, spec.after) == ("A kernel.", "naive")
    assert spec.product == Product("float64", "float64")
    assert (spec.entry, spec.runners, spec.default) == ("multiply", ("cuda",), True)
    sizes = (Argument("M", "int"), Argument("N", "size_t"), Argument("K", "int"))
    assert spec.arguments == (Argument("A"), Argument("B"), Argument("C"), *sizes)
    assert spec.params == {"TILE_SIZE": (8, 16), "DEPTH": (4,)}
    assert spec.block == (Expression("TILE_SIZE"), Expression("2"))
    assert spec.grid == (
        Expression("ceil_div(N, TILE_SIZE)"), Expression("M"), Expression("1")
    )  # fmt: skip
    assert spec.dynamic_shared == Expression("DEPTH * 8")
    assert spec.static_shared == Expression("TILE_SIZE * 8")
    assert spec.compute_capability == (7, 5)
    assert spec.requires == (
        (Expression("N % TILE_SIZE == 0"), "no edge guard"),
        (Expression("ceil_div(K, 2) == min(K, 3)"), "an odd kernel"),
    )
    assert (spec.reads, spec.writes) == (Expression("2 * M * N * K"), Expression("M * N"))
    assert spec.rectangular


def test_defaults(tmp_path: Path) -> None:
    spec = read_kernel(written(tmp_path, MINIMAL))
    assert (spec.entry, spec.after, spec.product) == ("matmul_mine", None, Product())
    assert [argument.name for argument in spec.arguments] == ["A", "B", "C", "N"]
    assert (spec.runners, spec.default, spec.params) == (("cuda", "cpu"), False, {})
    assert (spec.static_shared, spec.dynamic_shared, spec.requires) == (None, None, ())
    assert spec.compute_capability == (0, 0)
    assert spec.reads == Expression("0")
    assert not spec.rectangular


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("after", 'before = "naive"', 'unknown key "before"; known: after, alpha'),
        ("writes", 'bytes = "M * N"', 'unknown key "bytes" in [traffic]; known: reads, writes'),
        ("shared_bytes", 'registers = "1"', 'unknown key "registers" in [device]'),
        ("dynamic", 'threads = "1"', 'unknown key "threads" in [launch]'),
        ("[params]", "[parameters]", 'unknown key "parameters"'),
        ("summary", "summary = A kernel", "not TOML"),
        ("reads", "reads = = 1", "not TOML"),
        ("DEPTH", "TILE_SIZE = [32]", "not TOML"),
        ("summary", "summary = 3", '"summary" must be a text'),
        ("summary", 'summary = ""', '"summary" must be a text'),
        ("after", "after = 3", '"after" must be a text'),
        ("dtype", 'dtype = "bfloat16"', "must be one of float16, float32, float64, int8, int32"),
        ("dtype", 'dtype = "bfloat16"', "int64, not 'bfloat16'"),
        ("dtype", 'dtype = ["float32"]', "must be one of float16, float32, float64"),
        ("entry", 'entry = "1x"', '"entry" must be the name'),
        ("entry", "entry = 3", '"entry" must be the name'),
        ("entry", 'entry = "absent"', "no function absent"),
        ("entry", 'entry = "mult"', "no function mult"),
        ("arguments", 'arguments = "A, B, C"', '"arguments" must be a list'),
        ("arguments", 'arguments = ["A", "B", "C", 4]', '"arguments" must be a list'),
        ("arguments", 'arguments = ["A", "B", "int N"]', "each of A, B and C once"),
        ("arguments", 'arguments = ["A", "A", "B", "C"]', "each of A, B and C once"),
        ("arguments", 'arguments = ["A", "B", "C", "short N"]', 'argument "short N" is not'),
        (
            "arguments",
            'arguments = ["A", "B", "C", "int X"]',
            'argument "int X": X is neither A, B, C, null',
        ),
        ("runners", 'runners = "cuda"', '"runners" must be a list'),
        ("runners", 'runners = ["opencl"]', '"runners" must be a list'),
        ("runners", "runners = []", '"runners" must be a list'),
        ("runners", 'runners = [["cuda"]]', '"runners" must be a list'),
        ("default", 'default = "no"', '"default"'),
        ("TILE_SIZE", "TILE_SIZE = 16", "TILE_SIZE must be a list of positive"),
        ("TILE_SIZE", "TILE_SIZE = []", "TILE_SIZE must be a list of positive"),
        ("TILE_SIZE", "TILE_SIZE = [8, 0]", "TILE_SIZE must be a list of positive"),
        ("TILE_SIZE", "TILE_SIZE = [8.5]", "TILE_SIZE must be a list of positive"),
        ("TILE_SIZE", "TILE_SIZE = [true]", "TILE_SIZE must be a list of positive"),
        ("DEPTH", "N = [4]", "N must be a list of positive"),
        ("DEPTH", '"-x" = [4]', "-x must be a list of positive"),
        ("block", "block = []", 'needs "block", a list of one to three'),
        ("block", 'block = ["1", "1", "1", "1"]', 'needs "block", a list of one to three'),
        ("grid", 'grid = "M"', 'needs "grid", a list of one to three'),
        ("block", "block = [1.5]", '"block" must be an expression in quotes'),
        ("grid", "grid = [true]", '"grid" must be an expression in quotes'),
        ("shared_bytes", "shared_bytes = 1.5", '"shared_bytes" must be an expression'),
        ("compute", 'compute_capability = "7.5"', '"compute_capability" must be a list'),
        ("compute", "compute_capability = [7]", '"compute_capability" must be a list'),
        ("compute", "compute_capability = [7, 5.0]", '"compute_capability" must be a list'),
        ('"N %', '"N % TILE_SIZE == 0" = ""', "needs the reason as a text"),
        ('"N %', '"N % TILE_SIZE == 0" = 3', "needs the reason as a text"),
        ('"N %', '"N %" = "odd"', '"N %" is not an arithmetic expression'),
        ('"ceil', '"ceil_div(K, 2) == min(K, 3)" = ""', "needs the reason as a text"),
        ("reads", 'reads = "2 * M * WIDTH"', "WIDTH is neither M, N, K nor in [params]"),
        ("dynamic", 'dynamic_shared_bytes = "LOST"', "LOST is neither"),
        ("block", 'block = ["TILE"]', "TILE is neither"),
        ('"N %', '"N % T == 0" = "odd"', "T is neither"),
    ],
)
def test_mistake_is_reported_at_its_line(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text, line = changed(old, new)
    path = written(tmp_path, text)
    message = complaint(path)
    assert message.startswith(f"{path}:{line}: ")
    assert reason in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The name of a key of another table, of a text that is part of another line, and an
        # error that the parser notices only at the end.
        ("writes", 'block = "M * N"'),
        ("shared_bytes", 'summary = "again"'),
        ("writes", 'writes = "E"'),
        ("writes", 'writes = "M * N'),
    ],
)
def test_mistake_is_not_reported_at_another_line(tmp_path: Path, old: str, new: str) -> None:
    text, line = changed(old, new)
    path = written(tmp_path, text)
    assert complaint(path).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "N.real",
        "lambda: 1",
        "N and K",
        "launder(N, 2)",
        "2**1000",
        "N << 2",
        "N +",
    ],
)
@pytest.mark.parametrize("key", ["reads", "shared_bytes", "dynamic_shared_bytes"])
def test_bad_expression_is_reported_at_its_line(tmp_path: Path, key: str, text: str) -> None:
    source, line = changed(key, f'{key} = "{text}"')
    path = written(tmp_path, source)
    message = complaint(path)
    assert message.startswith(f"{path}:{line}: ")
    assert f'"{key}"' in message


@pytest.mark.parametrize("key", ["launch", "device", "traffic"])
def test_table_that_is_none(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, f'// /// kernel\n// summary = "S"\n// {key} = 3\n// ///\n')
    assert complaint(path) == f"{path}:3: [{key}] must be a table"


@pytest.mark.parametrize("key", ["params", "requires"])
def test_free_table_that_is_none(tmp_path: Path, key: str) -> None:
    text, line = changed("summary", f'summary = "S"\n// {key} = 3', MINIMAL)
    path = written(tmp_path, text)
    assert complaint(path) == f"{path}:{line + 1}: [{key}] must be a table"


@pytest.mark.parametrize(
    ("key", "table"), [("block", "launch"), ("grid", "launch"), ("reads", "traffic")]
)
def test_missing_key_is_reported_at_its_table(tmp_path: Path, key: str, table: str) -> None:
    text, _ = changed(key, "", MINIMAL)
    line = text.split("\n").index(f"// [{table}]") + 1
    path = written(tmp_path, text)
    message = complaint(path)
    assert message.startswith(f'{path}:{line}: [{table}] needs "{key}"')


def test_missing_summary(tmp_path: Path) -> None:
    text, _ = changed("summary", "", MINIMAL)
    path = written(tmp_path, text)
    assert complaint(path) == f'{path}:2: "summary" must be a text'


def test_entry_must_be_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("matmul_mine", "matmul_other"))
    assert "no function matmul_mine" in complaint(path)


@pytest.mark.parametrize("text", ["", "__global__ void matmul_mine() {}\n", "// kernel\n// ///\n"])
def test_no_header(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    message = complaint(path)
    assert message.startswith(f"{path}: no header block")
    assert '"// /// kernel"' in message


@pytest.mark.parametrize("after", ["__global__ void matmul_mine() {}\n", "", "\n// ///\n"])
def test_header_without_an_end(tmp_path: Path, after: str) -> None:
    path = written(tmp_path, '// first\n\n// /// kernel\n// summary = "S"\n' + after)
    assert complaint(path).startswith(f"{path}:3: the header block has no end")


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbf" + HEADER.replace("\n", "\r\n").encode())
    spec = read_kernel(path)
    assert spec.source == HEADER
    assert spec.summary == "A kernel."


def test_lines_are_counted_in_windows_files(tmp_path: Path) -> None:
    text, line = changed("dtype", 'dtype = "half"')
    path = written(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert complaint(path).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("before", [b"", b"// caf"])
def test_other_encodings(tmp_path: Path, mark: bytes, end: bytes, before: bytes) -> None:
    path = written(tmp_path, mark + end.join([b"// one", b"// two", before + b"\xe9", b""]))
    with pytest.raises(HeaderError) as caught:
        read_source(path)
    assert caught.value.message.startswith(f"{path}:3: not UTF-8 text (byte 0xe9)")


def test_folder(tmp_path: Path) -> None:
    assert complaint(tmp_path).startswith(f"{tmp_path} is a folder")


def test_missing_file(tmp_path: Path) -> None:
    assert complaint(tmp_path / "absent.cu") == f"{tmp_path / 'absent.cu'}: no such file"


def test_file_below_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER) / "more.cu"
    assert complaint(path).startswith(f"{path} cannot be read: ")
