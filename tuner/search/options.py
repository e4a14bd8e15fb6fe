"""What the space of programs has: all of it, or what an ablation leaves (Ansor, Figs. 7 and 10; AGO, Fig. 13)."""

from dataclasses import dataclass

from dsascape.tuner.search.hints import Hint


@dataclass(frozen=True)
class SpaceOptions:
    """Parts of the space that can be left out."""

    locations: bool = True
    """Whether flexible nodes move, and on a GPU copies and shares are drawn; else all is as the sketch has it."""
    layouts: bool = True
    """Whether weights are stored in the order of the tiles."""
    sketches: int = 0
    """Most sketches that are used, those with most fused nodes first; 0: all."""
    sticking_out: bool = True
    """Whether tiles may stick out of dimensions that they do not divide."""
    unrolling: bool = True
    """Whether the unrolling is drawn; else it is the same for all."""
    hints: tuple[Hint, ...] = ()
    """Restrictions by the user."""
    intensive: bool = True
    """Whether a complex operator may be computed inside of the tiles of another (false: the paper's AGO-NI)."""


LIMITED = SpaceOptions(locations=False, layouts=False, sketches=1, sticking_out=False, unrolling=False)
"""The space of a manual template: one structure, sizes of its tiles, and what is parallel."""
