"""Sizes that a file fixes itself: constants in the place of parameters M, N and K."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from mmbench.errors import UsageError
from mmbench.infer.body import Body
from mmbench.infer.parameters import Parameter, Signature
from mmbench.infer.roles import Evidence
from mmbench.infer.syntax import children, text, walk
from mmbench.infer.tile import Constant
from mmbench.product import Problem


@dataclass(frozen=True)
class FixedSizes:
    """The constants that are sizes, with their values; those a user sets have none."""

    values: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.values)

    def freed(self, roles: Mapping[str, str]) -> tuple[str, ...]:
        """What ``--define`` takes to make each constant follow the size that it stands for."""
        return tuple(
            f"{name}={roles.get(name, 'N')}"
            for name, value in self.values.items()
            if value is not None
        )

    def notes(self, roles: Mapping[str, str]) -> tuple[str, ...]:
        fixed = [f"{name} = {value}" for name, value in self.values.items() if value is not None]
        if not fixed:
            return ()
        freed = self.freed(roles)
        options = " ".join(f"--define {each}" for each in freed)
        sizes = sorted({f"--{each.partition('=')[2].lower()}" for each in freed})
        follow = "makes it" if len(freed) == 1 else "make them"
        return (
            f"no size parameter: {', '.join(fixed)} in the file ({options} {follow} follow "
            f"{', '.join(sizes)})",
        )

    def added_to(self, signature: Signature) -> Signature:
        """The signature with the constants as if they were parameters."""
        extra = (Parameter(name, "int", False, True, constant=True) for name in self.values)
        return replace(signature, parameters=(*signature.parameters, *extra))

    def problem(self, roles: Mapping[str, str]) -> Problem | None:
        """The one shape for which the kernel is written; None where sizes are passed to it."""
        known = {roles.get(name, "N"): value for name, value in self.values.items()}
        if not known or None in known.values():
            return None
        sizes = [known.get(role) or next(iter(known.values())) for role in "MNK"]
        m, n, k = (size or 1 for size in sizes)
        return Problem(m, n, k)


def _bounds(evidence: Evidence, candidates: frozenset[str]) -> set[str]:
    """The constants that bound places in the grid, as in ``row < M``."""
    found: set[str] = set()
    for node in walk(evidence.body.function):
        if node.type == "binary_expression" and len(children(node)) == 2:
            left, right = (evidence.body.poly(side) for side in children(node))
            for place, bound in ((left, right), (right, left)):
                blocks = any("blockIdx" in atom for atom in evidence.body.deep_atoms(place))
                if blocks and str(bound) in candidates and _compares(node):
                    found.add(str(bound))
    return found


def _compares(node: Node) -> bool:
    return text(node.child_by_field_name("operator")) in ("<", "<=", ">", ">=")


def find_fixed_sizes(
    label: str,
    signature: Signature,
    body: Body,
    constants: Mapping[str, Constant],
    candidates: frozenset[str],
    settable: Mapping[str, str],
) -> FixedSizes:
    """The constants that are the strides of the matrices; raise UsageError if there are none.

    ``body`` must hold the ``candidates`` by their names; ``settable`` are those that a user sets,
    with the texts they are set to: a number fixes the size anew, anything else frees it.
    """
    names = sorted(candidates)
    parameters = tuple(Parameter(name, "int", False, True, constant=True) for name in names)
    evidence = Evidence(body, replace(signature, parameters=(*signature.parameters, *parameters)))
    strides = {s for p in signature.matrices for s in evidence.strides(p.name)}
    if not strides:
        raise UsageError(
            f"{label} takes no size and has no constant that is one, so mmbench cannot tell for "
            "which N it is right; make the size a parameter such as `int N`"
        )
    values = {}
    for name in sorted(strides | _bounds(evidence, candidates)):
        given = settable.get(name)
        value = constants[name].value if given is None else int(given) if given.isdigit() else None
        if value is None and given is None:
            raise UsageError(f"{label}: the value of {name} is not known; set --define {name}=N")
        values[name] = value
    return FixedSizes(values)
