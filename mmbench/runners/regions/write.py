"""Writes the block form of a kernel: its regions, each in loops over the threads of a block."""

from __future__ import annotations

import re

from tree_sitter import Node

from mmbench.runners.regions.parse import (
    SYNC,
    Cuda,
    Unsupported,
    declared_name,
    leaves,
    parse,
    text,
    walk,
)
from mmbench.runners.regions.plan import (
    Barrier,
    Branch,
    Decl,
    Guard,
    Item,
    Loop,
    Planner,
    Shared,
    Stmt,
)
from mmbench.runners.regions.roles import Reopen, Roles
from mmbench.runners.regions.uses import Expr, Role, Var

_PRIVATE_BYTES = 1024  # of a thread, by a rough count; more would not fit a stack times 1024
_ROWS = (
    "for (int simt_z = 0; simt_z < simt_bz; ++simt_z)\n"
    "for (int simt_y = 0; simt_y < simt_by; ++simt_y) {"
)


def rewrite(source: str, entry: str) -> str:
    """The file with this kernel in block form; raise Unsupported with the reason why not."""
    cuda = parse(source)
    kernels = [
        n for n in cuda.functions.get(entry, ()) if any(c.type == "__global__" for c in n.children)
    ]
    if len(kernels) != 1 or len(cuda.functions[entry]) != 1:
        raise Unsupported(f"there is not exactly one kernel {entry}")
    verbatim: set[int] = set()
    for _ in range(50):
        try:
            return Writer(cuda, Planner(cuda, kernels[0], verbatim)).result()
        except Reopen as again:
            verbatim |= again.positions
    raise Unsupported("the plan does not settle")


class Writer:
    """Writes the block form of one kernel."""

    def __init__(self, cuda: Cuda, planner: Planner) -> None:
        self.cuda, self.planner = cuda, planner
        self.items = planner.plan()
        self.roles = Roles(planner, self.items)
        self.out: list[str] = []
        self.bounds = [("0", "simt_bx")]
        self.guards = 0
        self._check_size()

    def result(self) -> str:
        """The whole file with the kernel's body replaced."""
        body = self.planner.body
        self.out = [
            "{",
            "const auto simt_bi = blockIdx; const auto simt_bd = blockDim, simt_gd = gridDim;",
            *(f'#pragma push_macro("{n}")\n#undef {n}' for n in _INDICES),
            *(f"const auto {n} = {v};" for n, v in _INDICES.items()),
            "const int simt_bx = (int)blockDim.x, simt_by = (int)blockDim.y, "
            "simt_bz = (int)blockDim.z;",
        ]
        if self.planner.barriers:
            self._parameters()
            self.block(self.items)
        else:
            self.out += [_ROWS, "const int simt_row = 0;"]
            self._parameters()
            self.row(self.items)
            self.out.append("}")
        self.out += [f'#pragma pop_macro("{n}")' for n in _INDICES]
        self.out.append(f"#line {body.end_point.row + 1}\n}}")
        code = self.cuda.code
        pieces: list[bytes] = []
        end = 0
        for node in sorted([body, *self._threaded()], key=lambda n: n.start_byte):
            pieces.append(code[end : node.start_byte])
            new = "\n".join(self.out) if node is body else "{" + "\n" * text(node).count("\n") + "}"
            pieces.append(new.encode())
            end = node.end_byte
        return b"".join([*pieces, code[end:]]).decode()

    def _threaded(self) -> list[Node]:
        """The bodies of the other functions that need a thread of their own.

        The chosen kernel does not call them (that is refused), but they would not compile
        where there is no threadIdx, so their bodies are left empty.
        """
        found = []
        for node in walk(self.cuda.root):
            body = node.child_by_field_name("body")
            if node.type != "function_definition" or body is None or node == self.planner.kernel:
                continue
            names = {text(leaf) for leaf in leaves(body)}
            for name in names & set(self.cuda.macros):
                names.update(self.cuda.expansion(name))
            if names & {"threadIdx", "__syncthreads"} or any(SYNC.fullmatch(n) for n in names):
                found.append(body)
        return found

    # -- storage ------------------------------------------------------------------------------

    def _check_size(self) -> None:
        total = 0
        for var in self.planner.variables:
            if var.role is Role.LANE:
                size = 8
                for node in walk(var.declarator):
                    if node.type == "array_declarator":
                        count = text(node.child_by_field_name("size"))
                        tokens = self.cuda.expansion(count)
                        count = tokens[0] if len(tokens) == 1 else count
                        size *= int(count) if count.isdecimal() else 4
                total += size
        if total > _PRIVATE_BYTES:
            raise Unsupported("too much private state per thread")

    def _parameters(self) -> None:
        for var in self.planner.variables:
            if not var.parameter or var.role not in (Role.LANE, Role.LOCAL):
                continue
            self.out.append(f"__typeof__({var.name}) simt_in_{var.name} = {var.name};")
            if var.role is Role.LANE:
                self._array(var, f"__typeof__({var.name}) {self.slot(var)}[SIMT_MAX_THREADS];")
                lanes = "simt_bx * simt_by * simt_bz" if self.planner.barriers else "simt_bx"
                self.out.append(
                    f"for (int simt_t = 0; simt_t < {lanes}; ++simt_t) "
                    f"{self.slot(var)}[simt_t] = {var.name};"
                )

    @staticmethod
    def slot(var: Var) -> str:
        """The name of the array that holds a variable of all lanes."""
        return f"simt_{var.name}_{var.number}"

    def _array(self, var: Var, declaration: str) -> None:
        self.out.append(declaration)
        self.out.append(
            f'static_assert(sizeof({self.slot(var)}) <= (1 << 20), "simt: private state");'
        )

    def declare_lanes(self, var: Var) -> None:
        """Declare the array behind a variable that crosses from group to group."""
        specifiers = (
            var.specifiers if var.pointer else re.sub(r"\b(const|constexpr)\b", "", var.specifiers)
        )
        start, name = var.declarator.start_byte, declared_name(var.declarator)
        before = self.cuda.code[start : name.start_byte].decode()
        after = self.cuda.code[name.end_byte : var.declarator.end_byte].decode()
        before = re.sub(r"\b(const|__restrict__|__restrict)\b", "", before)
        self._line(name)
        self._array(var, f"{specifiers} {before}{self.slot(var)}[SIMT_MAX_THREADS]{after};")

    # -- the block in control -----------------------------------------------------------------

    def block(self, items: list[Item]) -> None:
        """Write items between which there may be barriers."""
        region: list[Item] = []
        for item in items:
            if isinstance(item, Shared | Decl):
                self.hoist(item)
                region.append(item)
            elif (
                isinstance(item, Guard)
                or (isinstance(item, Loop) and not item.barrier)
                or (isinstance(item, Stmt) and not self.roles.of_block(item))
            ):
                region.append(item)
            else:
                self.region(region)
                region = []
                self.control(item)
        self.region(region)

    def hoist(self, item: Item) -> None:
        """Write a declaration that must be visible to several groups."""
        if isinstance(item, Shared):
            self.user(item.node)
        elif isinstance(item, Decl) and item.var.role is Role.UNIFORM:
            self.declaration(item.var)
        elif isinstance(item, Decl) and item.var.role is Role.LANE:
            self.declare_lanes(item.var)

    def region(self, items: list[Item]) -> None:
        """Write what runs between two barriers."""
        lanes = [
            i
            for i in items
            if not isinstance(i, Shared)
            and not (
                isinstance(i, Decl)
                and (
                    i.var.role in (Role.UNIFORM, Role.REMAT)
                    or (i.var.role is Role.LANE and i.var.value is None)
                )
            )
        ]
        if lanes:
            self.out += [_ROWS, "const int simt_row = (simt_z * simt_by + simt_y) * simt_bx;"]
            self.row(items, hoisted=True)
            self.out.append("}")

    def control(self, item: Item) -> None:
        """Write a loop or branch around barriers, or a step of the block."""
        if isinstance(item, Stmt):
            self.user(item.expr.node)
        elif isinstance(item, Loop):
            self.head(item)
            self.block(item.body)
            self.out.append("}")
        elif isinstance(item, Branch):
            if item.condition is not None:
                self._line(item.condition.node)
                self.out.append(f"if ({text(item.condition.node)})")
            self.out.append("{")
            self.block(item.body)
            self.out.append("}")
            if item.otherwise is not None:
                self.out.append("else {")
                self.block(item.otherwise)
                self.out.append("}")
        else:
            assert isinstance(item, Barrier)

    def head(self, loop: Loop) -> None:
        """Write a loop's header as it stands."""
        body = loop.node.child_by_field_name("body")
        assert body is not None
        header = self.cuda.code[loop.node.start_byte : body.start_byte].decode()
        self._line(loop.node)
        self.out.append(header + "\n{")

    # -- a row of lanes -----------------------------------------------------------------------

    def row(self, items: list[Item], hoisted: bool = False) -> None:
        """Write items for the lanes of one row."""
        group: list[Stmt | Decl] = []
        for item in items:
            if isinstance(item, Stmt | Decl | Shared):
                if not hoisted:
                    self.hoist(item)
                if isinstance(item, Stmt | Decl) and item.group >= 0:
                    group.append(item)
                continue
            self.lanes(group)
            group = []
            if isinstance(item, Loop):
                self.head(item)
                self.row(item.body)
                self.out.append("}")
            elif isinstance(item, Guard):
                self.guard(item)
        self.lanes(group)

    def guard(self, guard: Guard) -> None:
        """Write a body for each run of neighbouring lanes that pass the condition.

        The lanes that pass are nearly always one run from 0 on, so the body is left without
        a condition in its innermost loop.
        """
        self.guards += 1
        low, high, test = (f"simt_{n}_{self.guards}" for n in ("lo", "hi", "in"))
        start, end = self.bounds[-1]
        self.out.append(f"auto {test} = [&](int simt_x) -> bool {{")
        self.thread("simt_x")
        self.copies(self._needed([guard.condition]), None)
        self._line(guard.condition.node)
        negation = "!" if guard.leave else "(bool)"
        self.out += [
            f"return {negation}({text(guard.condition.node)});",
            "};",
            f"for (int {low} = {start}, {high}; ; {low} = {high}) {{",
            f"while ({low} < {end} && !{test}({low})) ++{low};",
            f"if ({low} >= {end}) break;",
            f"for ({high} = {low} + 1; {high} < {end} && {test}({high}); ) ++{high};",
        ]
        self.bounds.append((low, high))
        self.row(guard.body)
        self.bounds.pop()
        self.out.append("}")

    def lanes(self, group: list[Stmt | Decl]) -> None:
        """Write the loop over x around consecutive statements."""
        exprs = [e for i in group if (e := i.expr if isinstance(i, Stmt) else i.var.value)]
        if not exprs:
            return
        needed = self._needed(exprs)
        steps = {v for v in needed if v.base_type == "int" and self.roles.unit_step(v)}
        low, high = self.bounds[-1]
        self.out.append("{")
        if steps:
            self._bases(needed, steps)
        if not any(self.roles.ordered(e) for e in exprs) and not self.planner.lambda_body:
            self.out.append("#pragma omp simd")
        self.out.append(f"for (int simt_x = {low}; simt_x < {high}; ++simt_x) {{")
        self.thread("simt_x")
        self.copies(needed, steps)
        self._bind(group, exprs)
        if self.planner.lambda_body:
            self.out.append("[&]() -> void {")
        for item in group:
            if isinstance(item, Stmt):
                self.user(item.expr.node)
            elif item.var.role is Role.LANE:
                self.assign(item.var)
            else:
                self.declaration(item.var)
        self.out.append("}();}}" if self.planner.lambda_body else "}}")

    def _bind(self, group: list[Stmt | Decl], exprs: list[Expr]) -> None:
        bound = {v for e in exprs for v in e.names.values()}
        bound |= {i.var for i in group if isinstance(i, Decl)}
        for var in sorted(bound, key=lambda v: v.number):
            if var.role is Role.LANE:
                self.out.append(f"auto &{var.name} = {self.slot(var)}[simt_row + simt_x];")
            elif var.role is Role.LOCAL and var.parameter:
                self.out.append(f"auto {var.name} = simt_in_{var.name};")

    @staticmethod
    def _needed(exprs: list[Expr]) -> list[Var]:
        """The index variables that expressions use, each after those it is made of."""
        found: set[Var] = set()
        pending = list(exprs)
        while pending:
            for var in pending.pop().names.values():
                if var.role is Role.REMAT and var not in found and var.value is not None:
                    found.add(var)
                    pending.append(var.value)
        return sorted(found, key=lambda v: v.number)

    def _bases(self, needed: list[Var], steps: set[Var]) -> None:
        """Compute what an index is for x = 0.

        The lane's index is then that plus x in signed arithmetic, which the compiler knows
        not to wrap, so it sees neighbouring lanes use neighbouring memory. An int that does
        wrap within a row is beyond any array; it stops the run rather than be misread.
        """
        chosen = [v for v in needed if v in steps]
        self.out.append(f"int {', '.join(f'simt_b_{v.name}' for v in chosen)}; {{")
        self.thread("0")
        self.copies(needed, None)
        self.out += [f"simt_b_{v.name} = {v.name};" for v in chosen]
        self.out.append("}")
        tests = " || ".join(f"simt_b_{v.name} > 0x7fffffff - simt_bx" for v in chosen)
        self.out.append(f"if ({tests}) __builtin_trap();")

    def copies(self, needed: list[Var], steps: set[Var] | None) -> None:
        """Compute index variables anew."""
        for var in needed:
            if steps and var in steps:
                self.out.append(f"const int {var.name} = simt_b_{var.name} + simt_x;")
            else:
                self.declaration(var)

    def thread(self, x: str) -> None:
        """Say which thread runs."""
        self.out.append(
            f"const uint3 threadIdx = {{(unsigned)({x}), (unsigned)simt_y, (unsigned)simt_z}};"
        )

    # -- the user's text ------------------------------------------------------------------------

    def assign(self, var: Var) -> None:
        """Give a variable in an array its first value."""
        if var.init is None:
            return
        self._line(var.init)
        value = text(var.init)
        if var.dims:
            declarator = text(var.declarator)
            name = declared_name(var.declarator)
            offset = name.start_byte - var.declarator.start_byte
            raw = declarator.encode()
            after = raw[offset + len(var.name.encode()) :].decode()
            equals = " = " if var.init.type == "initializer_list" else " "
            self.out.append(
                f"{{ {var.specifiers} {raw[:offset].decode()}simt_v{after}{equals}{value}; "
                f"__builtin_memcpy(&{var.name}, &simt_v, sizeof simt_v); }}"
            )
        elif var.init.type in ("initializer_list", "argument_list"):
            plain = var.base_type if not var.pointer else f"__typeof__({self.slot(var)}[0] + 0)"
            self.out.append(f"{{ const {plain} simt_v{value}; {var.name} = simt_v; }}")
        else:
            self.out.append(f"{var.name} = {value};")

    def declaration(self, var: Var) -> None:
        """Write the declaration of one variable as the user wrote it."""
        self._line(var.declarator)
        value = ""
        if var.init is not None:
            braced = var.init.type in ("initializer_list", "argument_list") and not var.dims
            value = ("" if braced else " = ") + text(var.init)
        self.out.append(f"{var.specifiers} {text(var.declarator)}{value};")

    def user(self, node: Node) -> None:
        """Write the user's own text."""
        self._line(node)
        self.out.append(text(node))

    def _line(self, node: Node) -> None:
        self.out.append(f"#line {node.start_point.row + 1}")


_INDICES = {"blockIdx": "simt_bi", "blockDim": "simt_bd", "gridDim": "simt_gd"}
