"""Operators written out as others at import: attentions, and operators that runtimes fuse, by what they compute.

A module registers a function for each kind; the walk over a file replaces a node by the nodes that the function writes.
"""

from dsascape.workloads.decomposition import attention, experts, microsoft, microsoft_attention, rotary, state_space
from dsascape.workloads.decomposition.writer import DECOMPOSED, MICROSOFT, NodeWriter, decomposed

__all__ = [
    "DECOMPOSED",
    "MICROSOFT",
    "NodeWriter",
    "attention",
    "decomposed",
    "experts",
    "microsoft",
    "microsoft_attention",
    "rotary",
    "state_space",
]
