"""Which of a file's kernels is meant."""

from __future__ import annotations

from pathlib import Path

from mmbench.errors import UsageError
from mmbench.infer.body import Body
from mmbench.infer.parameters import HINT, pointer_count, pointer_names
from mmbench.infer.syntax import Kernel, Source, children, expand, parse_tree, text, walk

_MATRICES = 3
_LOOPS = ("for_statement", "while_statement", "do_statement")


def choose(path: Path, source: Source, entry: str | None) -> Kernel:
    """The kernel of that name; without a name the only one that can be a product."""
    kernels = {kernel.name: kernel for kernel in source.kernels}
    for header in source.headers if not kernels else ():
        if header.kernels and header.path is not None:
            names = ", ".join(kernel.name for kernel in header.kernels)
            raise UsageError(
                f"{path}: its kernels ({names}) are in {header.path}; name that file instead"
            )
    if not kernels and (line := _broken(source)):
        raise UsageError(
            f"{path}:{line}: the __global__ function that begins here cannot be read; is a brace, "
            "a bracket or a semicolon missing there or above?"
        )
    if not kernels:
        raise UsageError(
            f"{path}: no __global__ function found; name a .cu file that has the kernel itself"
        )
    listed = ", ".join(kernels)
    if entry is not None:
        if entry not in kernels:
            raise UsageError(f"{path}: no kernel is called {entry}; it has {listed}")
        return _only(path, source, kernels[entry])
    products = [k for k in kernels.values() if pointer_count(k) == _MATRICES]
    candidates = products or list(kernels.values())
    if len(candidates) > 1:
        candidates = [k for k in candidates if _can_be_product(source, k)] or candidates
    if len(candidates) > 1:
        raise UsageError(
            f"{path} has {len(candidates)} kernels ({', '.join(k.name for k in candidates)}); "
            f"name one with --entry, or {HINT}"
        )
    return _only(path, source, candidates[0])


def _only(path: Path, source: Source, kernel: Kernel) -> Kernel:
    """The kernel, where it is no overload of another."""
    same = [k for k in source.kernels if k.name == kernel.name and not _is_specialization(k)]
    if len(same) > 1:
        lines = ", ".join(str(k.node.start_point[0] + 1) for k in same)
        raise UsageError(
            f"{path} has {len(same)} kernels of the name {kernel.name} (lines {lines}); give the "
            "one that is meant a name of its own"
        )
    return kernel


def _is_specialization(kernel: Kernel) -> bool:
    """``template <> __global__ void f<float>(...)``."""
    if kernel.template is None:
        return False
    return not children(kernel.template.child_by_field_name("parameters"))


def _broken(source: Source) -> int | None:
    """The line of a __global__ that no function follows; None where the code has none."""
    for node in walk(source.root):
        if not node.children and node.type != "preproc_arg" and text(node) == "__global__":
            outer = node.parent
            while outer is not None and outer.type not in ("declaration", "ERROR"):
                outer = outer.parent
            if outer is not None and outer.type == "ERROR":
                return node.start_point[0] + 1
    return None


def _can_be_product(source: Source, kernel: Kernel) -> bool:
    """Whether a kernel loops, and does not use all matrices at one and the same place."""
    code = expand(source, text(kernel.node), frozenset(), functions=True)
    root = parse_tree(code.encode())
    nodes = list(walk(root))
    function = next((n for n in nodes if n.type == "function_definition"), root)
    calls = any(n.type == "call_expression" for n in nodes)
    if not calls and not any(n.type in _LOOPS for n in nodes):
        return False
    accesses = Body(function, {}).accesses(pointer_names(kernel))
    places = [{str(offset) for offset in offsets} for offsets in accesses.values()]
    return not places or any(place != places[0] for place in places) or not places[0]
