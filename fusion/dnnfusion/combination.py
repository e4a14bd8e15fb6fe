"""Mapping type of two fused operators, and whether fusing them pays (DNNFusion, Table 3).

The colours of the table follow section 3.2: One-to-One goes with everything; into Many-to-Many go neither One-to-Many
nor Many-to-Many (the two crosses: the paper has a rule of code generation for each of the other 23 cells); Reorganize
and Shuffle next to One-to-Many or Many-to-Many, and Many-to-Many before One-to-Many, have to be profiled. The text says
nothing of two One-to-Many operators; nothing is computed twice there, so they are fused.
"""

from enum import Enum

from dsascape.fusion.dnnfusion.mapping import MappingType

_O2O, _ORG, _SHF, _O2M, _M2M = MappingType
_MOVES = frozenset({_ORG, _SHF})
_STRONG = frozenset({_O2M, _M2M})


class Relation(Enum):
    """Verdict of the table on two operators: green, yellow or red."""

    THROUGH = "fuse_through"
    DEPEND = "fuse_depend"
    BREAK = "fuse_break"


def relation(first: MappingType, second: MappingType) -> Relation:
    """Return whether ``second``, which reads what ``first`` writes, is fused with it."""
    if second is _M2M and first in _STRONG:
        return Relation.BREAK
    moves_beside_strong = (first in _MOVES and second in _STRONG) or (first in _STRONG and second in _MOVES)
    if moves_beside_strong or (first is _M2M and second is _O2M):
        return Relation.DEPEND
    return Relation.THROUGH


def combined(first: MappingType, second: MappingType) -> MappingType:
    """Return the type of both as one operator; the stronger transformation impedance decides.

    Raises ``ValueError`` for the two pairs that are not fused.
    """
    if relation(first, second) is Relation.BREAK:
        raise ValueError(f"{first} and then {second} are not fused")
    if first in _STRONG:
        return first
    if second in _STRONG:
        return second
    if {first, second} == {_ORG, _SHF}:
        return _ORG
    return max(first, second)
