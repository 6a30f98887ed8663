"""Parameters that are no size of the product: tiles at run time, batches, offsets.

They are known by what the body does with them: ``blockIdx.y * tile + threadIdx.y`` is a place in
tiles, ``blockIdx.z * stride`` the begin of a matrix of a batch, of which mmbench has one.
"""

from __future__ import annotations

from dataclasses import replace

from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.launch import PARAMETER
from mmbench.infer.names import size_role
from mmbench.infer.parameters import Signature
from mmbench.infer.roles import Evidence
from mmbench.infer.syntax import children, text, walk, words

_COMPARISONS = ("<", "<=", ">", ">=", "!=", "==")


def settle_parameters(signature: Signature, body: Body) -> tuple[Signature, dict[str, Poly]]:
    """The signature with the roles of such parameters, and the values to read the body with."""
    evidence = Evidence(body, signature)
    open_names = {p.name for p in signature.sizes if not p.role and not p.constant}
    found: dict[str, str] = {}
    if len(open_names) > 1:
        found = _batches(evidence, open_names) | _offsets(evidence, open_names)
        found |= _unused(evidence, open_names)
        rest = open_names - found.keys()
        if len(rest) > 1:
            found |= {name: PARAMETER for name in rest if _is_tile(evidence, name)}
    parameters = tuple(
        replace(p, role=found[p.name]) if p.name in found else p for p in signature.parameters
    )
    settled = {
        p.name: Poly.of(int(p.role) if p.role.isdigit() else PARAMETER)
        for p in parameters
        if not p.pointer and (p.role.isdigit() or p.role == PARAMETER)
    }
    return replace(signature, parameters=parameters), settled


def _unused(evidence: Evidence, names: set[str]) -> dict[str, str]:
    """Parameters that the body never asks for, and no name tells: any value does."""
    block = evidence.body.function.child_by_field_name("body")
    used = words(block) if block is not None else names
    return {name: "0" for name in names - used if size_role(name) is None}


def _terms(evidence: Evidence, name: str) -> list[tuple[str, ...]]:
    """The products of atoms in the accesses' offsets that have the parameter."""
    offsets = (offset for listed in evidence.accesses.values() for offset in listed)
    return [term for offset in offsets for term in offset.terms if name in term]


def _batches(evidence: Evidence, names: set[str]) -> dict[str, str]:
    """Strides from one matrix of a batch to the next, and how many there are: one."""
    found: dict[str, str] = {}
    for name in names:
        terms = _terms(evidence, name)
        if terms and size_role(name) is None and all(_along_z(term) for term in terms):
            found[name] = "0"
    for node in walk(evidence.body.function):
        sides = children(node)
        sign = text(node.child_by_field_name("operator"))
        if node.type != "binary_expression" or len(sides) != 2 or sign not in _COMPARISONS:
            continue
        places = [evidence.body.poly(side) for side in sides]
        for place, bound in (places, places[::-1]):
            name = str(bound)
            if name in names and _along_z(tuple(place.atoms)) and not _terms(evidence, name):
                found[name] = "1"
    return found


def _along_z(atoms: tuple[str, ...]) -> bool:
    return any(atom in ("blockIdx.z", "threadIdx.z") for atom in atoms)


def _has_threads(atoms: tuple[str, ...]) -> bool:
    return any("threadIdx." in atom for atom in atoms)


def _offsets(evidence: Evidence, names: set[str]) -> dict[str, str]:
    """Parameters that are only added to the places in a matrix: where it begins."""
    alone = {name: _terms(evidence, name) for name in names}
    return {n: "0" for n, terms in alone.items() if terms and set(terms) == {(n,)}}


def _is_tile(evidence: Evidence, name: str) -> bool:
    """Whether a variable is ``blockIdx.a * name + threadIdx.a``, and no matrix has it as stride."""
    if any(_has_threads(term) for term in _terms(evidence, name)):
        return False
    body, others = evidence.body, evidence.size_names - {name}
    for variables in body.variables.values():
        for variable in variables:
            if variable.value is None:
                continue
            place = body.poly(variable.value)
            scaled = place.without(name).atoms
            rest = {atom for term in place.terms if name not in term for atom in term}
            blocks = any(atom.startswith("blockIdx.") for atom in scaled)
            tiled = _has_threads(tuple(rest)) and not _has_threads(tuple(scaled))
            if blocks and tiled and not place.atoms & others:
                return True
    return False
