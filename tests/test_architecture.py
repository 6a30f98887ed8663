"""Who may import whom, who may print, and how large a module may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mmbench
from mmbench import kernels

PACKAGE = Path(mmbench.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    "mmbench." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in FILES
}
LARGEST = 500

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(node: ast.AST) -> Iterator[str]:
    """Full names of all that is imported anywhere below this node, for type checkers alone too."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            assert each.level == 0, "imports are absolute"
            assert each.module
            yield from (f"{each.module}.{alias.name}" for alias in each.names)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: everything outside functions and TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def imports_when_loaded(path: Path) -> set[str]:
    return {name for node in at_import(tree(path)) for name in _own_imports(node)}


def _own_imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from imports(node)


def uses(path: Path, package: str) -> bool:
    return any(name.split(".")[0] == package for name in imports(tree(path)))


def modules_used(path: Path) -> set[str]:
    """The modules of mmbench that a file imports, as paths below the package."""
    found = set()
    for name in imports(tree(path)):
        for full in (name, name.rpartition(".")[0]):
            if full in MODULES:
                found.add(name_of(MODULES[full]))
            elif f"{full}.__init__" in MODULES:
                found.add(name_of(MODULES[f"{full}.__init__"]))
    return found


def test_there_is_something_to_look_at() -> None:
    assert {"cli.py", "bench.py", "runners/cuda.py"} <= {name_of(path) for path in FILES}
    assert "errors.py" in modules_used(PACKAGE / "cli.py")
    assert "runners/cuda.py" in modules_used(PACKAGE / "runners" / "__init__.py")


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("click", {"cli.py"}),
        ("pycuda", {"runners/cuda.py", "runners/source_module.py"}),
        ("pynvml", {"runners/nvml.py"}),
        (
            "rich",
            {
                "table.py",
                "catalogue_view.py",
                "check_view.py",
                "explain/text_view.py",
                "progress.py",
                "cli.py",
            },
        ),
        ("pandas", {"compare.py"}),
        ("multiprocessing", {"worker_process.py"}),
        ("tomllib", {"header.py"}),
    ],
)
def test_a_library_is_the_affair_of_few(package: str, allowed: set[str]) -> None:
    assert {name_of(path) for path in FILES if uses(path, package)} <= allowed


@pytest.mark.parametrize("package", ["pycuda", "pynvml"])
def test_a_library_that_may_be_missing_is_imported_late(package: str) -> None:
    for path in FILES:
        early = {name.split(".")[0] for name in imports_when_loaded(path)}
        assert package not in early, name_of(path)


def test_the_command_line_loads_nothing_heavy() -> None:
    early = imports_when_loaded(PACKAGE / "cli.py")
    ours = {name for name in early if name.startswith("mmbench")}
    assert ours <= {
        "mmbench.__version__",
        "mmbench.errors.MmbenchError",
        "mmbench.errors.UsageError",
    }
    assert not {name.split(".")[0] for name in early} & {"numpy", "rich", "pandas"}
    assert not imports_when_loaded(PACKAGE / "__init__.py")


OUTPUT = re.compile(r"^(print|click\.(secho|echo)|sys\.exit|exit|quit|sys\.std(out|err)\.write)$")


def test_only_the_command_line_prints_and_exits() -> None:
    offenders = [
        f"{name_of(path)}:{node.lineno}"
        for path in FILES
        if name_of(path) != "cli.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and OUTPUT.match(ast.unparse(node.func))
    ]
    assert offenders == []


# What a module must not know. A module that is not named may import whatever is below it.
FORBIDDEN = {
    "errors.py": {"*"},
    "expressions.py": {"*"},
    "product.py": {"*"},
    "gpu_only.py": {"*"},
    "spec.py": {"*", "-expressions.py", "-product.py"},
    "arguments.py": {"*", "-expressions.py", "-spec.py"},
    "metrics.py": {"*", "-product.py", "-spec.py"},
    "measure.py": {"*", "-errors.py"},
    "results.py": {"*"},
    "header.py": {"*", "-arguments.py", "-errors.py", "-expressions.py", "-product.py", "-spec.py"},
    "overrides.py": {"*", "-arguments.py", "-errors.py", "-expressions.py", "-header.py",
                     "-product.py", "-spec.py"},
    "axes.py": {"*", "-errors.py", "-product.py", "-spec.py"},
    "inputs.py": {"*", "-product.py", "-runners/__init__.py"},
    "verify.py": {"bench.py", "measure.py", "kernels/*", "table.py", "csvfile.py",
                  "runners/cpu.py", "runners/cuda.py"},
    "kernels/__init__.py": {"*", "-baselines.py", "-errors.py", "-header.py", "-overrides.py",
                            "-product.py", "-spec.py", "-infer/__init__.py"},
    "bench.py": {"cli.py", "table.py", "csvfile.py", "sidecar.py", "progress.py", "kernels/*",
                 "catalogue_view.py"},
    "worker.py": {"cli.py", "table.py", "csvfile.py", "sidecar.py", "bench.py", "kernels/*"},
    "csvfile.py": {"cli.py", "table.py", "bench.py", "runners/*", "kernels/*"},
    "table.py": {"cli.py", "csvfile.py", "kernels/*"},
}  # fmt: skip


def forbidden(used: str, rules: set[str]) -> bool:
    if f"-{used}" in rules:
        return False
    folder = used.rpartition("/")[0]
    return bool(rules & {"*", used, f"{folder}/*"}) and used != "__init__.py"


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_module_knows_only_what_lies_below_it(name: str) -> None:
    used = modules_used(PACKAGE / name)
    assert {each for each in used if forbidden(each, FORBIDDEN[name])} == set()


@pytest.mark.parametrize("path", sorted((PACKAGE / "runners").glob("*.py")), ids=name_of)
def test_a_runner_knows_neither_sweeps_nor_output(path: Path) -> None:
    above = {"bench.py", "table.py", "csvfile.py", "cli.py", "sidecar.py", "axes.py", "progress.py",
             "kernels/__init__.py", "worker.py", "supervisor.py", "measure.py", "verify.py",
             "compare.py", "best.py", "results.py", "doctor.py", "catalogue_view.py"}  # fmt: skip
    assert modules_used(path) & above == set()


def test_measuring_knows_no_arrays() -> None:
    assert not uses(PACKAGE / "measure.py", "numpy")
    assert not uses(PACKAGE / "results.py", "numpy")


def test_nothing_imports_the_command_line() -> None:
    users = {name_of(path) for path in FILES if "cli.py" in modules_used(path)}
    assert users == {"__main__.py"}


def test_imports_form_no_circle() -> None:
    graph = {
        name_of(path): {
            used
            for name in imports_when_loaded(path)
            for used in _modules(name)
            if used != name_of(path)
        }
        for path in FILES
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for used in graph[name]:
                visit(used, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def _modules(name: str) -> Iterator[str]:
    """The most specific module that an imported name stands for; not the packages above it."""
    for full in (name, name.rpartition(".")[0]):
        for module in (full, f"{full}.__init__"):
            if module in MODULES and full != "mmbench":
                yield name_of(MODULES[module])
                return


def test_the_map_of_the_modules_is_whole_and_in_their_order() -> None:
    """CONTRIBUTING.md: a module imports only from those above it, or in its line."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("| module |")[2].partition("\n\n")[0].splitlines()[2:]
    lines = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in rows]
    place = {name: at for at, names in enumerate(lines) for name in names}
    parts = {name_of(path): name_of(path).partition("/")[0].removesuffix(".py") for path in FILES}
    main = {"__init__", "__main__"}
    assert set(parts.values()) - main == set(place)
    for path in FILES:
        used = {parts[name] for name in modules_used(path)} - main
        if (mine := parts[name_of(path)]) not in main:
            assert {name for name in used if place[name] > place[mine]} == set(), mine


def test_modules_stay_readable() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in FILES}
    sizes.pop("cli.py")
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_names_say_what_a_module_is_for() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
    assert {path.stem for path in FILES} & vague == set()
    for path in FILES:
        assert ast.get_docstring(tree(path)), f"{name_of(path)} says not what it is for"


def test_every_function_is_typed() -> None:
    bare = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, Function) and node.returns is None
    ]
    assert bare == []


def strings(path: Path) -> Iterator[ast.Constant]:
    """The texts of a module that are no docstrings."""
    module = tree(path)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            assert isinstance(node, ast.Constant)
            yield node


def test_no_code_names_a_kernel() -> None:
    """Adding, renaming or removing a kernel is a matter of its .cu file alone."""
    names = kernels.names()
    assert names
    # "mmbench show NAME" in a message is an example for people; see the test below.
    pattern = re.compile(rf"(?<!mmbench show )\b({'|'.join(map(re.escape, names))})(\.cu)?\b")
    offenders = [
        f"{name_of(path)}:{node.lineno} {node.value!r}"
        for path in FILES
        if name_of(path) != "cli.py"
        for node in strings(path)
        if pattern.search(str(node.value))
    ]
    assert offenders == []


def test_examples_in_messages_name_kernels_that_exist() -> None:
    examples = {
        name
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(r"mmbench show ([a-z_]\w*)", node.value)
    }
    assert examples <= set(kernels.names())


def test_kernels_lie_in_their_folder_alone() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.cu")}
    assert folders <= {PACKAGE / "kernels", PACKAGE / "probes", PACKAGE / "runners"}
    assert [path.name for path in (PACKAGE / "runners").glob("*.cu")] == ["cuda_session.cu"]
    others = [path.name for path in (PACKAGE / "kernels").iterdir() if path.suffix != ".cu"]
    assert [name for name in others if name != "__pycache__"] == ["__init__.py"]
