"""Settings of the reformer, with where each comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReformerOptions:
    """Numbers of SPLIT and JOIN; the paper has none for any of them."""

    split: bool = True
    """Whether kernels with several complex operators are split at all (false: the paper's AGO-NR)."""
    stable_units: int = 3
    """Units without a gain after which a mini sub-graph is stable: "tends to stabilize" in the paper. The default is
    the window of TVM's task scheduler, over which its gradient looks back."""
    most_for_minis: float = 0.5
    """Fraction of a kernel's trials after which it is joined, stable or not, so that the joined search gets the rest
    (own choice)."""
