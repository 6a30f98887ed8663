"""Read a .cu file's header block into a KernelSpec.

The header is TOML inside a comment fence, ``// /// kernel`` to ``// ///``, the form that
Python uses for scripts (https://packaging.python.org/en/latest/specifications/
inline-script-metadata/). This module does not know which kernels exist.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mmbench.arguments import parse_argument
from mmbench.errors import HeaderError
from mmbench.expressions import Expression, ExpressionError
from mmbench.product import ELEMENT_BYTES, MATRICES, Problem, Product
from mmbench.spec import Argument, KernelSpec

_FENCE = re.compile(r"^//[ \t]*///[ \t]*kernel[ \t]*$")
_END = re.compile(r"^//[ \t]*///[ \t]*$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEYS = {
    "": {
        "summary", "after", "dtype", "c_dtype", "column_major", "alpha", "beta", "entry",
        "arguments", "sizes", "runners", "default", "tile", "include", "params", "defines",
        "launch", "device", "requires", "traffic",
    },
    "launch": {"block", "grid", "dynamic_shared_bytes"},
    "device": {"shared_bytes", "compute_capability"},
    "traffic": {"reads", "writes"},
}  # fmt: skip


def read_source(path: Path) -> str:
    """Return a .cu file's text with Unix line ends and without a byte-order mark."""
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise HeaderError(f"{path} is a folder; name a .cu file in it") from None
    except FileNotFoundError:
        raise HeaderError(f"{path}: no such file") from None
    except OSError as error:
        raise HeaderError(f"{path} cannot be read: {error.strerror}") from None
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HeaderError(
            f"{path}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x}); save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def has_header(source: str) -> bool:
    """Whether a source begins a header block, right or wrong."""
    return any(_FENCE.match(line) for line in source.split("\n"))


def read_kernel(path: Path) -> KernelSpec:
    """Read one kernel file; raise HeaderError with file and line where its header is wrong."""
    source = read_source(path)
    return _Header(path, source).spec()


def as_define(text: str, names: frozenset[str]) -> Expression | str:
    """A macro's value: an expression over the sizes and parameters, or else plain text."""
    try:
        expression = Expression(text)
    except ExpressionError:
        return text
    return expression if expression.names <= names else text


class _Header:
    """The parsed header of one file, with the place of each key for error messages."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.source = source
        self.first_line, text = self._fenced()
        self.lines = text.split("\n")
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r"at line (\d+)", str(error))
            offset = int(where.group(1)) - 1 if where else len(self.lines) - 1
            reason = re.sub(r" \(at .*\)$", "", str(error))
            self._fail(f"the header is not TOML: {reason}", offset=offset)

    def _fenced(self) -> tuple[int, str]:
        lines = self.source.split("\n")
        start = next((i for i, line in enumerate(lines) if _FENCE.match(line)), None)
        if start is None:
            raise HeaderError(
                f"{self.path}: no header block; begin the file with the lines from "
                '"// /// kernel" to "// ///" (mmbench show tiled prints one)'
            )
        body: list[str] = []
        for line in lines[start + 1 :]:
            if _END.match(line):
                return start + 2, "\n".join(body)
            if not line.startswith("//"):
                break
            body.append(line[2:].removeprefix(" "))
        raise HeaderError(
            f'{self.path}:{start + 1}: the header block has no end; close it with "// ///"'
        )

    def _fail(
        self, message: str, key: str = "", offset: int | None = None, table: str = ""
    ) -> NoReturn:
        """Raise at a line: that of ``offset``, else that of a key, looked for in its table."""
        if offset is None:
            first = self._find(rf"\s*\[{table}\]", 0, 0) if table else 0
            offset = self._find(rf'\s*\[?"?{re.escape(key)}(?!\w)', first, first)
        raise HeaderError(f"{self.path}:{self.first_line + offset}: {message}")

    def _find(self, pattern: str, first: int, default: int) -> int:
        """Index of the first line from ``first`` on that begins with the pattern."""
        matches = (i for i in range(first, len(self.lines)) if re.match(pattern, self.lines[i]))
        return next(matches, default)

    def spec(self) -> KernelSpec:
        self._check_keys()
        name = self.path.stem
        params = self._params()
        spec = KernelSpec(
            name=name,
            path=self.path,
            source=self.source,
            entry=self._entry(name),
            summary=self._text("summary"),
            after=self._text("after", required=False) or None,
            product=self._product(),
            arguments=self._arguments(),
            tile_name=self._tile(),
            fixed=self._sizes(),
            includes=tuple(self.path.parent / each for each in self._texts("include")),
            defines=self._defines(),
            runners=self._runners(),
            default=self._default(),
            params=params,
            block=self._axes("block"),
            grid=self._axes("grid"),
            dynamic_shared=self._optional("launch", "dynamic_shared_bytes"),
            static_shared=self._optional("device", "shared_bytes"),
            compute_capability=self._compute_capability(),
            requires=self._requires(),
            reads=self._traffic("reads", "M * K + K * N"),
            writes=self._traffic("writes", "M * N"),
            declares_traffic="traffic" in self.data,
        )
        self._check_names(spec)
        return spec

    def _check_keys(self) -> None:
        for table, known in _KEYS.items():
            values = self.data.get(table, {}) if table else self.data
            if not isinstance(values, dict):
                self._fail(f"[{table}] must be a table", table)
            for key in values.keys() - known:
                where = f" in [{table}]" if table else ""
                message = f'unknown key "{key}"{where}; known: {", ".join(sorted(known))}'
                self._fail(message, key, table=table)

    def _text(self, key: str, required: bool = True) -> str:
        value = self.data.get(key, "")
        if not isinstance(value, str) or (required and not value):
            self._fail(f'"{key}" must be a text', key)
        return value

    def _choice(self, key: str, default: str, known: Mapping[str, object]) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or value not in known:
            self._fail(f'"{key}" must be one of {", ".join(known)}, not {value!r}', key)
        return str(value)

    def _default(self) -> bool:
        value = self.data.get("default", False)
        if not isinstance(value, bool):
            self._fail('"default" must be true or false', "default")
        return value

    def _entry(self, name: str) -> str:
        entry = self.data.get("entry", f"matmul_{name}")
        if not isinstance(entry, str) or not _NAME.fullmatch(entry):
            self._fail('"entry" must be the name of a __global__ function', "entry")
        if not re.search(rf"\b{entry}\b", self._code()):
            self._fail(f"the file has no function {entry}; name the kernel's with entry", "entry")
        return entry

    def _code(self) -> str:
        """The file without its header block."""
        end = self.first_line - 1 + len(self.lines)
        return "\n".join(self.source.split("\n")[end:])

    def _product(self) -> Product:
        dtype = self._choice("dtype", "float32", ELEMENT_BYTES)
        column_major = self._texts("column_major")
        if any(name not in MATRICES for name in column_major):
            self._fail('"column_major" must be a list of A, B and C', "column_major")
        return Product(
            dtype=dtype,
            c_dtype=self._choice("c_dtype", dtype, ELEMENT_BYTES),
            column_major=frozenset(column_major),
            alpha=self._factor("alpha", 1),
            beta=self._factor("beta", 0),
        )

    def _factor(self, key: str, default: float) -> float:
        value = self.data.get(key, default)
        if type(value) not in (int, float):
            self._fail(f'"{key}" must be a number', key)
        return float(value)

    def _texts(self, key: str) -> list[str]:
        texts = self.data.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            self._fail(f'"{key}" must be a list of texts', key)
        return texts

    def _tile(self) -> str:
        name = self.data.get("tile", "TILE_SIZE")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._fail('"tile" must be the name of a constant in the file', "tile")
        return name

    def _sizes(self) -> Problem | None:
        sizes = self.data.get("sizes")
        if sizes is None:
            return None
        whole = isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes)
        if not whole or len(sizes) != 3:
            self._fail('"sizes" must be a list of M, N and K, such as [128, 128, 128]', "sizes")
        return Problem(*sizes)

    def _defines(self) -> dict[str, Expression | str]:
        defines = self.data.get("defines", {})
        if not isinstance(defines, dict):
            self._fail("[defines] must be a table", "defines")
        for name, value in defines.items():
            if not _NAME.fullmatch(name) or not isinstance(value, str | int):
                self._fail(f"{name} must be a whole number or an expression in quotes", name)
        known = frozenset({"M", "N", "K", *self.data.get("params", {})})
        return {name: as_define(str(value), known) for name, value in defines.items()}

    def _arguments(self) -> tuple[Argument, ...]:
        texts = self._texts("arguments") or ["A", "B", "C", "N"]
        params = self.data.get("params", {})
        try:
            arguments = tuple(parse_argument(text, params) for text in texts)
        except ValueError as error:
            self._fail(f"argument {error}", "arguments")
        if sorted(a.name for a in arguments if a.is_matrix) != ["A", "B", "C"]:
            self._fail('"arguments" must name each of A, B and C once', "arguments")
        return arguments

    def _runners(self) -> tuple[str, ...]:
        runners = self.data.get("runners", ["cuda", "cpu"])
        known = isinstance(runners, list) and all(r in ("cuda", "cpu") for r in runners)
        if not known or not runners:
            self._fail('"runners" must be a list of "cuda" and "cpu"', "runners")
        return tuple(runners)

    def _params(self) -> dict[str, tuple[int, ...]]:
        params = self.data.get("params", {})
        if not isinstance(params, dict):
            self._fail("[params] must be a table", "params")
        for name, values in params.items():
            whole = isinstance(values, list) and all(type(v) is int and v > 0 for v in values)
            if not whole or not values or not _NAME.fullmatch(name) or name in ("M", "N", "K"):
                self._fail(f"{name} must be a list of positive whole numbers", name)
        return {name: tuple(values) for name, values in params.items()}

    def _expression(self, text: object, key: str) -> Expression:
        if type(text) is int:
            text = str(text)
        if not isinstance(text, str):
            self._fail(f'"{key}" must be an expression in quotes', key)
        try:
            return Expression(text)
        except ExpressionError as error:
            self._fail(f'"{key}": {error}', key)

    def _optional(self, table: str, key: str) -> Expression | None:
        value = self.data.get(table, {}).get(key)
        return None if value is None else self._expression(value, key)

    def _traffic(self, key: str, compulsory: str) -> Expression:
        """A count of elements; a header without the table leaves the traffic undeclared."""
        if "traffic" not in self.data:
            return Expression(compulsory)
        expression = self._optional("traffic", key)
        if expression is None:
            self._fail(f'[traffic] needs "{key}"', "traffic")
        return expression

    def _axes(self, key: str) -> tuple[Expression, ...]:
        axes = self.data.get("launch", {}).get(key)
        if not isinstance(axes, list) or not 1 <= len(axes) <= 3:
            place = "launch" if axes is None else key
            self._fail(f'[launch] needs "{key}", a list of one to three expressions', place)
        return tuple(self._expression(axis, key) for axis in axes)

    def _compute_capability(self) -> tuple[int, int]:
        value = self.data.get("device", {}).get("compute_capability", [0, 0])
        if not isinstance(value, list) or [type(v) for v in value] != [int, int]:
            self._fail('"compute_capability" must be a list such as [7, 5]', "compute_capability")
        return value[0], value[1]

    def _requires(self) -> tuple[tuple[Expression, str], ...]:
        requires = self.data.get("requires", {})
        if not isinstance(requires, dict):
            self._fail("[requires] must be a table", "requires")
        for condition, reason in requires.items():
            if not isinstance(reason, str) or not reason:
                self._fail(f'"{condition}" needs the reason as a text', condition)
        return tuple((self._expression(c, c), reason) for c, reason in requires.items())

    def _check_names(self, spec: KernelSpec) -> None:
        """Every name in an expression must be a size or a parameter of this kernel."""
        known = {"M", "N", "K", *spec.params}
        expressions = [*spec.block, *spec.grid, spec.reads, spec.writes]
        expressions += [e for e in (spec.static_shared, spec.dynamic_shared) if e]
        expressions += [condition for condition, _ in spec.requires]
        for expression in expressions:
            for name in sorted(expression.names - known):
                quoted = f'"{expression.text}"'
                offset = next((i for i, line in enumerate(self.lines) if quoted in line), 0)
                message = f"{quoted}: {name} is neither M, N, K nor in [params]"
                self._fail(message, offset=offset)
