"""What the usual names of a product's parameters mean."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"^(?:d|dev|device|g|gpu|m|mat|matrix|in|input|p|ptr)_+(?=.)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?<=.)_+(?:d|dev|device|gpu|g|mat|matrix|ptr|in|out)$", re.IGNORECASE)
_PAIRS = (
    ("a", "b"), ("m", "n"), ("left", "right"), ("lhs", "rhs"), ("l", "r"), ("inp", "weight"),
    ("in1", "in2"), ("x", "y"), ("first", "second"), ("x", "w"), ("input", "weight"),
    ("mat1", "mat2"), ("m1", "m2"), ("input1", "input2"), ("matrix1", "matrix2"), ("p", "q"),
    ("in_a", "in_b"), ("u", "v"), ("a1", "a2"), ("v1", "v2"),
)  # fmt: skip
_OUTPUTS = re.compile(
    r"c|p|out\w*|res|result\w*|dst|dest|product|prod|ans|answer|z|y|output\w*|mat3|m3|matrix3",
    re.IGNORECASE,
)
_ROLES = {("a", "rows"): "M", ("a", "cols"): "K", ("b", "rows"): "K", ("b", "cols"): "N",
          ("c", "rows"): "M", ("c", "cols"): "N"}  # fmt: skip
_INNER = re.compile(r"k|inner\w*|common\w*|depth|shared_?dim|k_?dim|dim_?k|size_?k", re.IGNORECASE)


def plain(name: str) -> str:
    """A matrix's name without what says that it lies on the device."""
    bare = _SUFFIX.sub("", _PREFIX.sub("", name)).lower()
    if re.fullmatch(r"[d](?:[abcmnp])|[abcmnp]d", bare):
        bare = bare.strip("d")
    if re.fullmatch(r"(?:mat|matrix|dev|array|arr|m)([abc])", bare):
        bare = bare[-1]
    if re.fullmatch(r"([abc])(?:mat|matrix|dev|arr|array)", bare):
        bare = bare[0]
    return bare


def input_order(first: str, second: str) -> bool | None:
    """Whether the names say that the first is A (True) or B (False); None: they do not."""
    pair = plain(first), plain(second)
    if pair in _PAIRS:
        return True
    return False if pair[::-1] in _PAIRS else None


def is_output(name: str) -> bool:
    return bool(_OUTPUTS.fullmatch(plain(name)))


def size_role(name: str) -> str | None:
    """M, N or K where the name of a size says which; None where it does not."""
    lower = name.lower()
    if re.fullmatch(r"[mnk](?:_?(?:size|dim))?|(?:size|dim)_?[mnk]", lower):
        return re.sub(r"_|size|dim", "", lower).upper()
    if lower in ("lda", "ldb", "ldc"):
        return lower
    if _INNER.fullmatch(lower):
        return "K"
    rest = re.sub(r"num|number|_|of|mat(?:rix)?|size|the", "", lower)
    for kind, words in (("rows", "rows?|heights?|h"), ("cols", "col(?:umn)?s?|widths?|w")):
        found = re.fullmatch(rf"(?:([abc])(?:{words})|(?:{words})([abc]))", rest)
        if found:
            return _ROLES[found.group(1) or found.group(2), kind]
    return None
