"""Energy of SRAM by size and technology node: one method for every on-chip memory of a machine.

Between published points it is interpolated on power laws, in the node as the energies of multiply-accumulates in the
presets are, and in the size. Beyond the largest point it grows with the root of the size, as wires do (CACTI 7 has
exponents of 0.55 to 0.6 from 64 KiB to 8 MiB); below the smallest it stays.
"""

import math

_POINTS_PJ = {
    45: {8 * 2**10: 10.0, 32 * 2**10: 20.0, 2**20: 100.0},
    7: {8 * 2**10: 7.5, 32 * 2**10: 8.5, 2**20: 14.0},
}
"""Picojoules of one access of 64 bits, by node in nanometres and bytes of the memory: 45 nm from Horowitz, "Computing's
energy problem", ISSCC 2014; 7 nm from Jouppi et al., "Ten lessons from three generations", ISCA 2021, table 2."""
_ACCESS_BYTES = 8
SMALLEST_NM, LARGEST_NM = 3.0, 90.0
"""Nodes for which the power law is taken to hold."""


def sram_pj_per_byte(capacity_bytes: int, node_nm: float) -> float:
    """Return the picojoules of reading or writing one byte of an SRAM of ``capacity_bytes``, 64 bits at a time.

    Wider accesses cost less per byte (3 to 4 times at 512 bits, by CACTI); the points are for 64.
    """
    (old_nm, old), (new_nm, new) = _POINTS_PJ.items()
    position = math.log(old_nm / node_nm) / math.log(old_nm / new_nm)
    sizes = list(old)
    levels = [old[size] * math.pow(new[size] / old[size], position) for size in sizes]
    if capacity_bytes >= sizes[-1]:
        return levels[-1] * math.sqrt(capacity_bytes / sizes[-1]) / _ACCESS_BYTES
    below = max([number for number, size in enumerate(sizes) if size <= capacity_bytes], default=-1)
    if below < 0:
        return levels[0] / _ACCESS_BYTES
    slope = math.log(levels[below + 1] / levels[below]) / math.log(sizes[below + 1] / sizes[below])
    return levels[below] * math.pow(capacity_bytes / sizes[below], slope) / _ACCESS_BYTES
