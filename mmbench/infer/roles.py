"""Which pointer is A, B and C, which size is M, N and K, and where a thread works in C.

The body is believed first: what is stored through is C; the factor of C's row is N, that of
A's row is K. Names decide where the body does not, the order of appearance comes last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mmbench.errors import UsageError
from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.names import input_order, is_output, plain, size_role
from mmbench.infer.parameters import HINT, Signature
from mmbench.infer.syntax import children, text, walk
from mmbench.spec import Argument

_ROW_NAMES = re.compile(r"(?:row|r|y|ty|i|m)\d*|\w*row\w*|g?y|idy|\w+_y|\w+Y", re.IGNORECASE)


@dataclass
class Roles:
    """The reading of one kernel."""

    matrices: dict[str, str]  # A, B, C -> parameter
    sizes: dict[str, str]  # parameter -> M, N, K
    row: Poly = field(default_factory=Poly)
    column: Poly = field(default_factory=Poly)
    notes: list[str] = field(default_factory=list)

    def arguments(self, signature: Signature) -> tuple[Argument, ...]:
        """In the file's own order."""
        names = {name: role for role, name in self.matrices.items()}
        return tuple(
            Argument(names[p.name]) if p.pointer else Argument(self.sizes[p.name], p.ctype)
            for p in signature.parameters
        )


@dataclass
class Evidence:
    """A kernel's accesses, split at the sizes that scale them."""

    body: Body
    signature: Signature

    def __post_init__(self) -> None:
        self.pointers = {p.name for p in self.signature.matrices}
        self.size_names = {p.name for p in self.signature.sizes}
        self.accesses = self.body.accesses(self.pointers)
        self.stored = self.body.stored(self.pointers)

    def split(self, offset: Poly) -> tuple[Poly, Poly, set[str]]:
        """The part that a size scales, without the size; the rest; and those sizes."""
        scaled, rest, strides = Poly(), Poly(), set()
        for monomial, factor in offset.terms.items():
            sizes = [atom for atom in monomial if atom in self.size_names]
            others = tuple(atom for atom in monomial if atom not in self.size_names)
            if not sizes:
                rest += Poly({monomial: factor})
            elif len(sizes) == 1:
                scaled += Poly({others: factor})
                strides.add(sizes[0])
        return scaled, rest, strides

    def atoms(self, name: str) -> set[str]:
        return {atom for offset in self.accesses[name] for atom in offset.atoms}

    def strides(self, name: str) -> set[str]:
        return {s for offset in self.accesses[name] for s in self.split(offset)[2]}


def _is_position(atom: str) -> bool:
    return "blockIdx" in atom or "threadIdx" in atom


def find_roles(entry: str, signature: Signature, body: Body) -> Roles:
    """Read a kernel; raise UsageError where a size has no clear meaning."""
    evidence = Evidence(body, signature)
    output = _output(evidence)
    first, second = [p.name for p in signature.matrices if p.name != output]
    row, column = _place(evidence, output, first, second)
    ids = _identities(row, column)
    roles = Roles({"C": output}, {}, row, column)
    straight = _is_straight(evidence, (first, second), ids)
    named = input_order(first, second)
    if straight is not None and named is not None and straight != named:
        if _row_major(evidence, output):
            straight = named
        else:
            roles.notes.append("column-major: run as the row-major product of the transposes")
    if straight is None:
        straight = True if named is None else named
    left, right = (first, second) if straight else (second, first)
    roles.matrices |= {"A": left, "B": right}
    _note_transposed(evidence, roles, ids[1])
    roles.sizes = _sizes(entry, evidence, roles, ids)
    return roles


def _output(evidence: Evidence) -> str:
    matrices = evidence.signature.matrices
    stored = evidence.stored
    changeable = [p.name for p in matrices if not p.const]
    if len(stored) == 1:
        return next(iter(stored))
    candidates = [name for name in changeable if not stored or name in stored]
    candidates = candidates or [p.name for p in matrices]
    if len(candidates) == 1:
        return candidates[0]
    plains = {plain(name): name for name in candidates}
    if "c" in plains:
        return plains["c"]
    named = [name for name in candidates if is_output(name)]
    return named[-1] if named else candidates[-1]


def _place(evidence: Evidence, output: str, first: str, second: str) -> tuple[Poly, Poly]:
    """The row and the column of C at which a thread works."""
    best = Poly(), Poly()
    for offset in evidence.accesses[output]:
        scaled, rest, _ = evidence.split(offset)
        if any(map(_is_position, scaled.atoms)):
            return scaled, rest
        best = scaled, rest
    for name in (first, second):
        for offset in evidence.accesses[name]:
            scaled, rest, _ = evidence.split(offset)
            if not any(map(_is_position, best[0].atoms)) and any(map(_is_position, scaled.atoms)):
                best = scaled, best[1]
            if name == second and any("%" in a or "blockIdx" in a for a in rest.atoms):
                best = best[0], rest
    return best


def _identities(row: Poly, column: Poly) -> tuple[set[str], set[str]]:
    """Atoms that tell a row and a column: the blocks' where they differ, else the threads'."""
    rows = {a for a in row.atoms - column.atoms if _is_position(a)}
    columns = {a for a in column.atoms - row.atoms if _is_position(a)}
    row_blocks = {a for a in rows if a.startswith("blockIdx")}
    column_blocks = {a for a in columns if a.startswith("blockIdx")}
    return (row_blocks, column_blocks) if row_blocks and column_blocks else (rows, columns)


def _is_straight(
    evidence: Evidence, inputs: tuple[str, str], ids: tuple[set[str], set[str]]
) -> bool | None:
    """Whether the first input goes with C's rows and the second with its columns."""
    scores = []
    for name in inputs:
        atoms = evidence.atoms(name)
        scores.append(bool(atoms & ids[0]) - bool(atoms & ids[1]))
    return None if scores[0] == scores[1] else scores[0] > scores[1]


def _row_major(evidence: Evidence, output: str) -> bool:
    """Whether the author calls what is scaled in C's index a row."""
    sizes = "|".join(sorted(evidence.size_names)) or "N"
    pattern = rf"\(?\b(\w+)\)?\s*\*\s*\(?(?:{sizes})\b|\b(?:{sizes})\)?\s*\*\s*\(?(\w+)"
    for node in walk(evidence.body.function):
        if node.type == "subscript_expression" and text(node).startswith(output):
            found = re.search(pattern, text(node))
            if found:
                return bool(_ROW_NAMES.fullmatch(found.group(1) or found.group(2)))
    return True


def _note_transposed(evidence: Evidence, roles: Roles, column_ids: set[str]) -> None:
    for offset in evidence.accesses[roles.matrices["B"]]:
        scaled, rest, _ = evidence.split(offset)
        if scaled.atoms & column_ids and not rest.atoms & column_ids:
            roles.notes.append("B seems to be read transposed; mmbench passes it row-major")
            return


def _sizes(
    entry: str, evidence: Evidence, roles: Roles, ids: tuple[set[str], set[str]]
) -> dict[str, str]:
    names = [p.name for p in evidence.signature.sizes]
    if len(names) == 1:
        return {names[0]: "N"}
    by_name = {name: role for name in names if (role := size_role(name))}
    votes: dict[str, set[str]] = {name: set() for name in names}
    for matrix, role in (("A", "K"), ("B", "N"), ("C", "N")):
        for stride in evidence.strides(roles.matrices[matrix]):
            votes[stride].add(role)
    if any(len(v) > 1 for v in votes.values()):
        if len(by_name) == len(names):
            return by_name
        votes = {name: set() for name in names}
    guards = _guards(evidence, ids)
    said_by_name = {name: {role} for name, role in by_name.items()}
    found: dict[str, str] = {}
    for said in (said_by_name, guards, votes):  # the last is believed most
        found |= {name: next(iter(r)) for name, r in said.items() if len(r) == 1}
    return _complete(entry, names, found)


def _complete(entry: str, names: list[str], found: dict[str, str]) -> dict[str, str]:
    """Give the last size the last role; raise UsageError where that is not enough."""
    open_names = [name for name in names if name not in found]
    open_roles = [role for role in "MNK" if role not in found.values()]
    if len(open_names) == 1 and len(open_roles) == 1:
        found[open_names[0]] = open_roles[0]
    elif open_names:
        raise UsageError(
            f"{entry}: the meaning of {', '.join(open_names)} cannot be read from the body "
            f"(M, N or K?); {HINT} with the arguments"
        )
    return found


def _guards(evidence: Evidence, ids: tuple[set[str], set[str]]) -> dict[str, set[str]]:
    """What each size bounds: rows (M), columns (N) or neither (K)."""
    found: dict[str, set[str]] = {name: set() for name in evidence.size_names}
    for node in walk(evidence.body.function):
        if node.type != "binary_expression" or len(children(node)) != 2:
            continue
        sign = text(node.child_by_field_name("operator"))
        left, right = (evidence.body.poly(n) for n in children(node))
        if sign in (">", ">=") and right.atoms and not left.atoms - evidence.size_names:
            left, right = right, left
        if sign not in ("<", "<=", ">", ">=", "!="):
            continue
        bound = right.atoms & evidence.size_names
        if len(bound) != 1 or right != Poly.of(next(iter(bound))):
            continue
        atoms = left.atoms
        rows, columns = bool(atoms & ids[0]), bool(atoms & ids[1])
        if not (rows and columns):
            role = "M" if rows else "N" if columns else "K"
            found[next(iter(bound))].add(role)
    return found
