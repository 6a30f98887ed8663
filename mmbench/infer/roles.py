"""Which pointer is A, B and C, which size is M, N and K, and where a thread works in C.

The body is believed first: what is stored through is C; the factor of C's row is N, that of
A's row is K. Names decide where the body does not, the order of appearance comes last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import permutations

from mmbench.errors import UsageError
from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.names import input_order, is_output, plain, size_role
from mmbench.infer.parameters import HINT, Signature
from mmbench.infer.syntax import children, text, walk
from mmbench.spec import NULL, Argument

_ROW_NAMES = re.compile(r"(?:row|r|y|ty|i|m)\d*|\w*row\w*|g?y|idy|\w+_y|\w+Y", re.IGNORECASE)


@dataclass
class Roles:
    """One reading of a kernel. ``column_major``: its index arithmetic goes down the columns."""

    matrices: dict[str, str]  # A, B, C -> parameter
    sizes: dict[str, str]  # parameter -> M, N, K, a leading dimension or another expression
    row: Poly = field(default_factory=Poly)
    column: Poly = field(default_factory=Poly)
    column_major: bool = False
    notes: list[str] = field(default_factory=list)

    def arguments(self, signature: Signature) -> tuple[Argument, ...]:
        """In the file's own order."""
        names = {name: role for role, name in self.matrices.items()}
        return tuple(
            Argument(names.get(p.name, NULL))
            if p.pointer
            else Argument(self.sizes.get(p.name, p.role), p.ctype)
            for p in signature.parameters
            if not p.constant
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


def find_roles(
    entry: str, signature: Signature, body: Body, column_major: bool | None = None
) -> list[Roles]:
    """The readings of a kernel that its text allows, the likeliest first.

    ``column_major`` says how C is stored, where that is known. Raise UsageError where a size
    has no clear meaning.
    """
    evidence = Evidence(body, signature)
    given = {p.role: p.name for p in signature.matrices if p.role}
    output = given.get("C") or _output(evidence, set(given.values()))
    inputs = [p.name for p in signature.matrices if p.name != output]
    first, second = (inputs[0], inputs[1]) if len(inputs) > 1 else (inputs[0], inputs[0])
    scaled, rest = _place(evidence, output, first, second)
    straight = _is_straight(evidence, (first, second), _identities(scaled, rest))
    named = _named_order(given, first, second)
    down = bool(column_major)
    if column_major is None and None not in (straight, named) and straight != named:
        down = not given and not _row_major(evidence, output)
        straight = named
    elif down and straight is not None:
        straight = not straight
    orders = [straight if straight is not None else named]
    if given and named is not None:
        orders = [named]
    elif orders == [None]:
        orders = [True, False]
    found = []
    for order in orders:
        left, right = (first, second) if order is not False else (second, first)
        row, column = (rest, scaled) if down else (scaled, rest)
        matrices = {"A": left, "B": right, "C": output}
        place = Roles(matrices, {}, row, column, down)
        for sizes in _sizes(entry, evidence, place):
            roles = Roles(matrices, sizes, row, column, down)
            _note_storage(evidence, roles)
            found.append(roles)
    return found


def _named_order(given: dict[str, str], first: str, second: str) -> bool | None:
    if given.get("A") == first or given.get("B") == second:
        return True
    if given.get("A") == second or given.get("B") == first:
        return False
    return input_order(first, second)


def _output(evidence: Evidence, inputs: set[str]) -> str:
    matrices = [p for p in evidence.signature.matrices if p.name not in inputs]
    stored = evidence.stored - inputs
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
    rows = rows or _loops(row.atoms - column.atoms)
    columns = columns or _loops(column.atoms - row.atoms)
    row_blocks = {a for a in rows if a.startswith("blockIdx")}
    column_blocks = {a for a in columns if a.startswith("blockIdx")}
    return (row_blocks, column_blocks) if row_blocks and column_blocks else (rows, columns)


def _loops(atoms: set[str]) -> set[str]:
    """Variables of loops: a thread that works on all rows has no other place."""
    return {a for a in atoms if a.startswith("~")}


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


def _is_turned(evidence: Evidence, matrix: str, name: str, roles: Roles) -> bool:
    """Whether an input is read in the other storage order than C: as if it were transposed."""
    rows, columns = _identities(roles.row, roles.column)
    mine = rows if matrix == "A" else columns
    for offset in evidence.accesses[name]:
        scaled, rest, _ = evidence.split(offset)
        along_rows = bool((scaled if matrix == "A" else rest).atoms & mine)
        along_columns = bool((rest if matrix == "A" else scaled).atoms & mine)
        if along_rows != along_columns:
            return along_columns != roles.column_major
    return False


def _note_storage(evidence: Evidence, roles: Roles) -> None:
    turned = [m for m in ("A", "B") if _is_turned(evidence, m, roles.matrices[m], roles)]
    if roles.column_major and len(turned) == 2:
        roles.notes.append("C seems to be stored by columns, A and B are not (see --layout C=col)")
        return
    if roles.column_major:
        roles.notes.append("its index arithmetic is column-major (see --layout)")
    for matrix in turned:
        roles.notes.append(f"{matrix} seems to be read transposed (see --trans-{matrix.lower()})")


def _strides(evidence: Evidence, place: Roles) -> dict[str, str]:
    """What scales the index of each matrix: its columns, or its rows where it goes down them."""
    across, along = {"A": "K", "B": "N", "C": "N"}, {"A": "M", "B": "K", "C": "M"}
    by_columns = {m: place.column_major for m in across}
    for matrix in ("A", "B"):
        by_columns[matrix] ^= _is_turned(evidence, matrix, place.matrices[matrix], place)
    return {m: along[m] if by_columns[m] else across[m] for m in across}


def _sizes(entry: str, evidence: Evidence, place: Roles) -> list[dict[str, str]]:
    """What is passed for each size, in every way that the kernel's text allows."""
    told = {p.name: p.role for p in evidence.signature.sizes if p.role}
    names = [p.name for p in evidence.signature.sizes if p.name not in told]
    if not names:
        return [told]
    if len(names) == 1 and not set(told.values()) & {"M", "N", "K"}:
        return [told | {names[0]: "N"}]
    by_name = {name: role for name in names if (role := size_role(name))}
    votes: dict[str, set[str]] = {name: set() for name in evidence.size_names}
    for matrix, role in _strides(evidence, place).items():
        for stride in evidence.strides(place.matrices[matrix]):
            votes[stride].add(role)
    leading = {name: role for name, role in by_name.items() if role.startswith("ld")}
    if any(len(v) > 1 for v in votes.values()):
        if len(by_name) == len(names):
            return [told | by_name]
        votes = {name: set() for name in evidence.size_names}
    guards = _guards(evidence, _identities(place.row, place.column))
    said_by_name = {name: {role} for name, role in by_name.items()}
    found: dict[str, str] = {}
    for said in (said_by_name, guards, votes):  # the last is believed most
        found |= {n: next(iter(r)) for n, r in said.items() if len(r) == 1 and n in names}
    if len(by_name) == len(names) and set(found.values()) < set(by_name.values()):
        return [told | by_name]  # a kernel that takes one size for another
    if set(found.values()) & {"M", "N", "K"} - set(leading.values()):
        found |= leading
    return [told | complete for complete in _complete(entry, names, found | {}, told)]


def _complete(
    entry: str, names: list[str], found: dict[str, str], told: dict[str, str]
) -> list[dict[str, str]]:
    """Give the sizes that are still open the roles that are left, in every order."""
    open_names = [name for name in names if name not in found]
    taken = {*found.values(), *told.values()}
    open_roles = [role for role in "MNK" if role not in taken]
    if not open_names:
        return [found]
    if pitches := [name for name in open_names if "pitch" in name.lower()]:
        raise UsageError(
            f"{entry}: {pitches[0]} is the bytes of a row by its name; say what is passed for it "
            f'with --args, such as "{pitches[0]}=4*N"'
        )
    if len(open_names) > len(open_roles):
        raise UsageError(
            f"{entry}: the meaning of {', '.join(open_names)} cannot be read from the body "
            f"(M, N or K?); {HINT}"
        )
    return [
        found | dict(zip(open_names, order, strict=True))
        for order in permutations(open_roles, len(open_names))
    ]


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
