"""Keys of equal layers: everything that the costs of a layer depend on, without names."""

from dsascape.workloads.analysis import Analysis


def first_equal(analysis: Analysis, signature: "Signature") -> "Signature":
    """Return the first signature equal to this one (interning), so that later comparisons are by identity."""
    del analysis
    return signature


class Signature:
    """Key of everything a layer's costs depend on; its hash is computed once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[object, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __reduce__(self) -> "tuple[type[Signature], tuple[object, ...]]":
        return Signature, (self._parts,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Signature) and self._hash == other._hash and self._parts == other._parts
