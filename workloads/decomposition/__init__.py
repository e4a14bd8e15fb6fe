"""Operators written out as others at import: attentions, and operators that runtimes fuse, by what they compute.

A module registers a function for each kind; the walk over a file replaces a node by the nodes that the function writes.
"""

from dsascape.workloads.decomposition import attention, microsoft, microsoft_attention, rotary
from dsascape.workloads.decomposition.writer import DECOMPOSED, MICROSOFT, NodeWriter, decomposed

__all__ = [
    "DECOMPOSED",
    "MICROSOFT",
    "NodeWriter",
    "attention",
    "decomposed",
    "microsoft",
    "microsoft_attention",
    "rotary",
]
