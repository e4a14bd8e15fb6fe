"""DNNFusion's Table 3: the mapping type of two fused operators, and whether they may be fused."""

import pytest

from dsascape.fusion.dnnfusion import MappingType, Relation, combined, relation

O2O, REORGANIZE, SHUFFLE, O2M, M2M = MappingType
COLUMNS = (O2O, O2M, M2M, REORGANIZE, SHUFFLE)
TABLE: dict[MappingType, tuple[MappingType | None, ...]] = {
    O2O: (O2O, O2M, M2M, REORGANIZE, SHUFFLE),
    O2M: (O2M, O2M, None, O2M, O2M),
    M2M: (M2M, M2M, None, M2M, M2M),
    REORGANIZE: (REORGANIZE, O2M, M2M, REORGANIZE, REORGANIZE),
    SHUFFLE: (SHUFFLE, O2M, M2M, REORGANIZE, SHUFFLE),
}
"""As printed; None is a cross."""


@pytest.mark.parametrize("first", COLUMNS)
def test_every_row_is_the_papers(first: MappingType) -> None:
    for second, expected in zip(COLUMNS, TABLE[first], strict=True):
        assert (relation(first, second) is Relation.BREAK) == (expected is None)
        if expected is not None:
            assert combined(first, second) is expected


def test_a_pair_that_is_not_fused_has_no_type() -> None:
    with pytest.raises(ValueError, match="Many-to-Many and then Many-to-Many are not fused"):
        combined(M2M, M2M)


def test_there_are_23_cells_with_a_rule_of_code_generation() -> None:
    assert sum(relation(a, b) is not Relation.BREAK for a in COLUMNS for b in COLUMNS) == 23


@pytest.mark.parametrize("other", COLUMNS)
def test_one_to_one_is_fused_with_everything_unseen(other: MappingType) -> None:
    assert relation(O2O, other) is relation(other, O2O) is Relation.THROUGH


@pytest.mark.parametrize("strong", [O2M, M2M])
@pytest.mark.parametrize("moves", [REORGANIZE, SHUFFLE])
def test_movements_next_to_strong_types_are_profiled(strong: MappingType, moves: MappingType) -> None:
    assert relation(strong, moves) is relation(moves, strong) is Relation.DEPEND
    assert relation(M2M, O2M) is Relation.DEPEND
