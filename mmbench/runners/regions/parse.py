"""What a CUDA file says about the names that a kernel uses: macros, helpers, constants.

The rewriting in ``regions`` is only as sound as the knowledge of what each name can hide, so
everything here answers one question: may this name stand in a kernel, and if so, can it read
memory, change one of its arguments, or depend on the thread? What is not known is refused by
raising ``Unsupported``, whose text is the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tree_sitter import Language, Node, Parser


class Unsupported(Exception):  # noqa: N818 - an answer, not an error
    """The kernel cannot be rewritten for certain; the text says why."""


def leaves(node: Node) -> Iterator[Node]:
    """The tokens of a tree in order, without comments."""
    if node.type == "comment":
        return
    if not node.children:
        yield node
    for child in node.children:
        yield from leaves(child)


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, parents first, without comments."""
    if node.type == "comment":
        return
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node | None) -> str:
    """The source text of a node; empty for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def children(node: Node) -> list[Node]:
    """The named children without comments."""
    return [child for child in node.named_children if child.type != "comment"]


SYNC = re.compile(
    r"__syncwarp|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__match_\w+|__reduce_\w+"
    r"|__syncthreads_\w+|__barrier_\w+|__pipeline_\w+|cooperative_groups|cg|nvcuda|wmma|pipeline"
    r"|barrier|asm|__asm__|__asm|volatile|clock|clock64|__nanosleep|__trap|__builtin_\w+"
    r"|goto|try|throw|co_\w+|static|thread_local|new|delete|this|laneid|__label__|simt_\w*"
    r"|__typeof__|decltype|_Pragma|__COUNTER__|__LINE__"
)


def words(listing: str) -> frozenset[str]:
    """The words of a listing."""
    return frozenset(listing.split())


# Words that may stand in a macro's body; any other C++ keyword there could be a statement.
TYPES = words(
    "int unsigned signed long short char float double bool half size_t float2 float4 int4 "
    "uint uint32_t int32_t uint64_t int64_t const"
)
_KEYWORDS = words(
    "return break continue for while do if else switch case default auto extern register "
    "typedef using struct class union enum template typename operator void __shared__ "
    "__syncthreads __global__ __device__ __constant__ mutable inline constexpr namespace "
    "and or not"
)
_MACRO_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d[\w.]*|\.\d[\w.]*|->|\+\+|--|<<=|>>=|[-+*/%&|^]=|[<>=!]=|&&|\|\||<<|>>|##|\S"
)
PURE_CALLS = words(
    "min max abs labs fabs fabsf fmin fmax fminf fmaxf fma fmaf __fmaf_rn __fmul_rn "
    "__fadd_rn __fsub_rn __fdividef sqrt sqrtf rsqrtf exp expf log logf pow powf floor "
    "floorf ceil ceilf __mul24 __umul24 umin umax __float2half __half2float __hadd __hmul "
    "__hfma __hsub __float2half_rn __int2float_rn __float2int_rn make_float2 make_float4 "
    "make_int2 make_int4 make_float3 make_double2 make_uint2 make_uint4 make_char4 make_uchar4 "
    "__expf __exp10f __logf __log2f __log10f __powf __sinf __cosf __tanf __tanhf __saturatef "
    "__frcp_rn __fsqrt_rn __frsqrt_rn __fdiv_rn __dp4a __float_as_int __float_as_uint "
    "__int_as_float __uint_as_float __mulhi __umulhi __brev __byte_perm __popc __clz __ffs"
)
OTHER_CALLS = words("__ldg __ldcg __ldca __ldcs assert")
ORDERED_CALLS = words(
    "atomicAdd atomicSub atomicExch atomicMin atomicMax atomicCAS atomicInc atomicDec "
    "atomicAnd atomicOr atomicXor __threadfence __threadfence_block __threadfence_system "
    "printf"
)
CASTS = words("static_cast reinterpret_cast const_cast")
BUILTINS = words("blockIdx blockDim gridDim threadIdx warpSize NULL nullptr std")
_SYSTEM_HEADER = re.compile(
    r"<(cuda\w*|device_launch_parameters|device_functions|math_constants|mma|vector_types|assert"
    r"|math|limits|float|stdio|stdlib|string|stdint|stddef|time|c[a-z]+|algorithm|vector|chrono"
    r"|iostream|iomanip|random|string|functional|utility|type_traits|limits|memory|numeric"
    r"|thread|fstream|sstream|map|array|tuple|cublas_v2|curand\w*|sys/time)(\.h|\.hpp)?>"
)
_UNROLL = re.compile(rb"(?m)^[ \t]*#[ \t]*pragma[ \t]+(?:GCC[ \t]+)?unroll\b[^\n\\]*$")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass
class Macro:
    """A #define: its parameters (None for an object-like one) and the tokens of its body."""

    parameters: list[str] | None
    tokens: list[str]


@dataclass
class Cuda:
    """A parsed file and the meaning of its file-level names."""

    code: bytes
    root: Node
    macros: dict[str, list[Macro]] = field(default_factory=dict)
    functions: dict[str, list[Node]] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    memory: set[str] = field(default_factory=set)
    template_names: set[str] = field(default_factory=set)
    holding_arrays: set[str] = field(default_factory=set)
    ordered_helpers: set[str] = field(default_factory=set)
    foreign_header: bool = False
    _checked: dict[str, bool] = field(default_factory=dict)

    @cached_property
    def types(self) -> set[str]:
        """The types that the file itself names."""
        found = set()
        for node in walk(self.root):
            if node.type in (
                "struct_specifier",
                "class_specifier",
                "enum_specifier",
                "alias_declaration",
            ):
                found.add(text(node.child_by_field_name("name")))
            elif node.type == "type_definition":
                found.update(text(n) for n in node.children_by_field_name("declarator"))
        return found

    def check_type(self, name: str) -> None:
        """Refuse a type of which a header of the user's could hide anything."""
        if self.foreign_header and name not in self.types | self.template_names | TYPES:
            raise Unsupported(f"does not know the type {name}")

    def expansion(self, name: str, _seen: frozenset[str] = frozenset()) -> list[str]:
        """All tokens that a macro can expand to, over every definition of it."""
        if name in _seen:
            return []
        found: list[str] = []
        for macro in self.macros.get(name, []):
            formal = set(macro.parameters or ())
            for token in macro.tokens:
                if token not in formal:
                    found.append(token)
                    found += self.expansion(token, _seen | {name})
                else:
                    found.append("")
        return found

    def check_macro(self, name: str) -> None:
        """Refuse a macro that could be more than an expression."""
        tokens = self.expansion(name)
        for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
            hidden = token in _KEYWORDS or SYNC.fullmatch(token)
            if hidden or token in ("{", "}", ";", "#", "##", "\\", "++", "--", '"', "'"):
                raise Unsupported(f"macro {name} hides {token!r}")
            if token == "=" or (token.endswith("=") and token not in ("==", "<=", ">=", "!=")):
                raise Unsupported(f"macro {name} assigns")
            if following == "(" and re.match(r"[A-Za-z_]", token) and self.check_call(token):
                raise Unsupported(f"macro {name} may change its arguments")

    def macro_reads_memory(self, name: str) -> bool:
        """Whether the expansion may load from memory."""
        tokens = self.expansion(name)
        if "[" in tokens or "->" in tokens or ("*" in tokens and TYPES & set(tokens)):
            return True
        before = ("(", ",", "+", "-", "*", "/", "%", "?", ":", "=", "<", ">", "!", "&", "|")
        return any(
            token == "*" and prior.endswith(before)
            for token, prior in zip(tokens, ["(", *tokens], strict=False)
        )

    def check_name(self, name: str) -> None:
        """Refuse a name that is neither the kernel's own nor known to be harmless."""
        if SYNC.fullmatch(name):
            raise Unsupported(f"uses {name}")
        if name in self.macros:
            self.check_macro(name)
        elif (
            name in BUILTINS
            or name in self.constants | self.shared | self.memory
            or name in self.template_names
            or name in self.functions
            or name in self.types
            or name in PURE_CALLS | OTHER_CALLS | ORDERED_CALLS | CASTS
        ):
            return
        elif self.foreign_header or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise Unsupported(f"does not know {name}")

    def check_call(self, name: str) -> bool:
        """Refuse an unknown function; answer whether a call may change its arguments."""
        if name in self.macros:
            self.check_macro(name)
            return "&" in self.expansion(name)
        if name in self._checked:
            return self._checked[name]
        known = PURE_CALLS | OTHER_CALLS | ORDERED_CALLS | CASTS | TYPES | self.types
        if name in self.functions:
            self._checked[name] = True  # for recursion
            by_reference = [self._check_function(node) for node in self.functions[name]]
            self._checked[name] = any(by_reference)
            words = {text(leaf) for node in self.functions[name] for leaf in leaves(node)}
            for macro in words & set(self.macros):
                words.update(self.expansion(macro))
            if words & (ORDERED_CALLS | self.ordered_helpers | {"assert"}):
                self.ordered_helpers.add(name)
        elif name in known or name in self.template_names:
            self._checked[name] = False
        else:
            raise Unsupported(f"calls the unknown function {name}")
        return self._checked[name]

    def _check_function(self, function: Node) -> bool:
        parameters = next((n for n in walk(function) if n.type == "parameter_list"), None)
        check_body(self, function)
        names = {text(n) for n in leaves(parameters)} if parameters is not None else {"&"}
        return "&" in names or "&&" in names or bool(names & set(self.macros))


def check_body(cuda: Cuda, function: Node) -> None:
    """Refuse a helper whose run is not the same when threads take turns at the barriers."""
    for leaf in leaves(function):
        name = text(leaf)
        if name in ("threadIdx", "__syncthreads", "__shared__") or SYNC.fullmatch(name):
            raise Unsupported(f"a helper function uses {name}")
        if name in cuda.macros:
            cuda.check_macro(name)
            if "threadIdx" in cuda.expansion(name):
                raise Unsupported(f"a helper function uses threadIdx by {name}")
    for node in walk(function):
        if node.type == "lambda_expression":
            raise Unsupported("a helper function holds a lambda")
        if node.type == "call_expression":
            cuda.check_call(called(node, cuda))


def called(call: Node, cuda: Cuda) -> str:
    """The name of the function, or of the type in a cast, that a call expression calls."""
    function = call.child_by_field_name("function")
    name = text(function)
    if name.startswith("(") and name[1:-1].strip() in cuda.types | cuda.template_names:
        return name[1:-1].strip()
    if function is not None and function.type == "template_function":
        name = text(function.child_by_field_name("name"))
    elif name in ("std::min", "std::max", "std::abs", "std::fma"):
        name = name[5:]
    elif function is None or function.type not in ("identifier", "primitive_type"):
        raise Unsupported(f"calls {name}")
    return name


def declared_name(declarator: Node) -> Node:
    """The identifier that a declarator declares."""
    node: Node | None = declarator
    while node is not None and node.type != "identifier":
        inner = node.child_by_field_name("declarator")
        node = inner if inner is not None else next(iter(children(node)), None)
    if node is None:
        raise Unsupported(f"cannot read the declaration {text(declarator)}")
    return node


def parse(source: str) -> Cuda:
    """Read a file; raise ``Unsupported`` where a file-level construct defeats the analysis."""
    import tree_sitter_cuda

    original = source.encode()
    if b"simt_" in original or b"SIMT_" in original:
        raise Unsupported("uses the reserved prefix simt_")
    code = _UNROLL.sub(lambda found: b" " * len(found.group()), original)
    root = Parser(Language(tree_sitter_cuda.language())).parse(code).root_node
    cuda = Cuda(code, root)
    _collect(cuda, root)
    _check_classes(cuda)
    return cuda


def _collect(cuda: Cuda, node: Node) -> None:
    for child in children(node):
        if child.type in ("preproc_def", "preproc_function_def"):
            _collect_macro(cuda, child)
        elif child.type == "preproc_include":
            path = text(child.child_by_field_name("path"))
            cuda.foreign_header |= not _SYSTEM_HEADER.fullmatch(path)
        elif child.type == "function_definition":
            _collect_function(cuda, child)
        elif child.type == "declaration":
            _collect_variable(cuda, child)
        elif child.type in ("type_definition", "alias_declaration"):
            if "&" in text(child) or "volatile" in text(child):
                raise Unsupported("a type name stands for a reference or a volatile type")
        elif child.type in ("preproc_call", "using_declaration"):
            continue
        else:
            if child.type == "template_parameter_list":
                declared = (n for n in walk(child) if n.type.endswith("identifier"))
                cuda.template_names.update(text(n) for n in declared)
            _collect(cuda, child)


def _collect_macro(cuda: Cuda, node: Node) -> None:
    formal = node.child_by_field_name("parameters")
    parameters = [text(n) for n in children(formal)] if formal is not None else None
    body = _COMMENT.sub(" ", text(node.child_by_field_name("value"))).replace("\\\n", " ")
    body = body.replace("\\\r\n", " ")
    tokens = _MACRO_TOKEN.findall(body)
    if parameters is not None and "..." in text(formal):
        tokens.append("##")
    name = text(node.child_by_field_name("name"))
    cuda.macros.setdefault(name, []).append(Macro(parameters, tokens))


def _collect_function(cuda: Cuda, node: Node) -> None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        declarator = inner if inner is not None else next(iter(children(declarator)), None)
    if declarator is not None:
        name = text(declarator.child_by_field_name("declarator"))
        cuda.functions.setdefault(name, []).append(node)
    body = node.child_by_field_name("body")
    for inner_node in walk(body) if body is not None else ():
        if inner_node.type in ("preproc_def", "preproc_function_def"):
            _collect_macro(cuda, inner_node)


def _collect_variable(cuda: Cuda, node: Node) -> None:
    words = {text(n) for n in leaves(node)}
    for declarator in node.children_by_field_name("declarator"):
        if any(n.type == "function_declarator" for n in walk(declarator)):
            continue
        name = text(declared_name(declarator))
        plain = not any(
            n.type.endswith(("array_declarator", "pointer_declarator")) for n in walk(declarator)
        )
        if "__shared__" in words:
            cuda.shared.add(name)
        elif plain and words & {"const", "constexpr"} and "extern" not in words:
            cuda.constants.add(name)
        else:
            cuda.memory.add(name)


def _check_classes(cuda: Cuda) -> None:
    """Methods, constructors and operators run without being called by name: look into all."""
    for node in walk(cuda.root):
        if node.type in ("struct_specifier", "class_specifier"):
            for inner in walk(node):
                if inner.type == "function_definition":
                    check_body(cuda, inner)
                elif inner.type == "array_declarator":
                    cuda.holding_arrays |= {text(node.child_by_field_name("name"))} | {
                        text(d) for d in (node.parent or node).children_by_field_name("declarator")
                    }
    for name, nodes in cuda.functions.items():
        if "operator" not in name:
            continue
        for node in nodes:
            check_body(cuda, node)
            changing = [
                n
                for n in walk(node)
                if n.type == "parameter_declaration" and "&" in text(n) and "const" not in text(n)
            ]
            if changing and not re.fullmatch(r"operator\s*[-+*/%]?=", name):
                raise Unsupported(f"{name} may change its operands")
