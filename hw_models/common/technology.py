"""Energy by technology node: SRAM by its size (one method for every on-chip memory), arithmetic by two estimates.

SRAM energy is interpolated between published points on power laws, in the node (as the energies of
multiply-accumulates in the presets are) and in the size. Beyond the largest point it grows with the square root of the
size, as wires do (CACTI 7 has exponents of 0.55 to 0.6 from 64 KiB to 8 MiB); below the smallest it is constant.
"""

import itertools
import math

_POINTS_PJ = {
    45: {8 * 2**10: 10.0, 32 * 2**10: 20.0, 2**20: 100.0},
    7: {8 * 2**10: 7.5, 32 * 2**10: 8.5, 2**20: 14.0},
}
"""Picojoules of one 64-bit access, by node in nanometres and capacity in bytes: 45 nm from Horowitz, "Computing's
energy problem", ISSCC 2014; 7 nm from Jouppi et al., "Ten lessons from three generations", ISCA 2021, table 2."""
_ACCESS_BYTES = 8
_LARGEST_POINT_BYTES = 2**20
_PER_ACCESS = 0.816
"""Share of the energy of a 64-bit access that a wider one pays once: a byte of a 512-bit access costs 3.5 times less,
between 3 and 4 times by CACTI."""
WIDEST_ACCESS_BYTES = 64
"""Widest access for which that is known."""
_SCALED = {45: 1.0, 32: 0.641, 20: 0.181, 16: 0.142, 14: 0.114, 10: 0.097, 7: 0.0775}
"""Energy of logic by node in nanometres, relative to 45 nm: Stillmaker and Baas, "Scaling equations for the accurate
prediction of CMOS device performance from 180 nm to 7 nm", Integration 58, 2017, at 0.9 V, below 32 nm at 0.8 V."""
_WIRE_PJ_PER_BIT_MM = {40: 310 / 256 / 10, 10: 200 / 256 / 10}
"""Picojoules per bit and millimetre of wires by node in nanometres: Keckler et al., "GPUs and the future of parallel
computing", IEEE Micro 31(5), 2011, table 1: 310 and 200 pJ for 256 bits over 10 mm."""
_REGISTER_BIT_PJ = 0.009
"""Picojoules of writing one bit of a register at 40 nm: Shao et al., "Aladdin", ISCA 2014, in its public model."""
_REGISTER_NM = 40
_PUBLISHED = 1 / 3
"""Energy of a multiply-accumulate at 7 nm relative to 45 nm, in the sources of ``_POINTS_PJ`` (INT8: 0.1 and 0.3 pJ,
FP16: 0.5 and 1.5 pJ)."""
_OLDEST_NM, _NEWEST_NM = max(_SCALED), min(_SCALED)
SMALLEST_NM, LARGEST_NM = 3.0, 90.0
"""Range of nodes in nanometres for which the power law is assumed to hold."""


def sram_pj_per_byte(capacity_bytes: int, node_nm: float, access_bytes: int = _ACCESS_BYTES) -> float:
    """Return the energy in picojoules per byte of an SRAM of ``capacity_bytes``, ``access_bytes`` at a time.

    The published points are for 64 bits. Wider accesses share decoders and word lines (`_PER_ACCESS`), but not the
    wires beyond the largest point, which make up the rest of a larger memory's energy.
    """
    whole_pj = _narrow_pj_per_byte(capacity_bytes, node_nm)
    bank_pj = min(whole_pj, _narrow_pj_per_byte(_LARGEST_POINT_BYTES, node_nm))
    return whole_pj - bank_pj * _PER_ACCESS * (1 - _ACCESS_BYTES / access_bytes)


def _narrow_pj_per_byte(capacity_bytes: int, node_nm: float) -> float:
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


def over_45nm(node_nm: float) -> float:
    """Return the energy of logic at a node relative to 45 nm, on a power law through published multiply-accumulates."""
    return math.pow(_PUBLISHED, math.log(_OLDEST_NM / node_nm) / math.log(_OLDEST_NM / _NEWEST_NM))


def logic_over_45nm(node_nm: float) -> float:
    """Return the energy of logic at a node relative to 45 nm, scaled as logic scales.

    Beyond the nodes of that source it is in a constant ratio to `over_45nm`.
    """
    return over_45nm(node_nm) * low_share(node_nm)


def wire_pj_per_byte_mm(node_nm: float) -> float:
    """Return picojoules of moving a byte over one millimetre of on-chip wires, on a power law between two nodes."""
    (old_nm, old), (new_nm, new) = _WIRE_PJ_PER_BIT_MM.items()
    position = math.log(old_nm / node_nm) / math.log(old_nm / new_nm)
    return 8 * old * math.pow(new / old, position)


def register_bit_pj(node_nm: float) -> float:
    """Return picojoules of writing one bit of a pipeline register, scaled as logic scales."""
    return _REGISTER_BIT_PJ * logic_over_45nm(node_nm) / logic_over_45nm(_REGISTER_NM)


def low_share(node_nm: float) -> float:
    """Return the ratio of the low to the nominal estimate of arithmetic energy: scaling of logic over published points.

    Sources differ by this factor: synthesised multiplier arrays are near the low estimate, whole processors are not.
    Outside the nodes that both estimates cover, the ratio is constant.
    """
    nodes = sorted(_SCALED, reverse=True)
    node = min(max(node_nm, nodes[-1]), nodes[0])
    older, newer = next(pair for pair in itertools.pairwise(nodes) if pair[0] >= node >= pair[1])
    position = math.log(older / node) / math.log(older / newer)
    scaled = _SCALED[older] * math.pow(_SCALED[newer] / _SCALED[older], position)
    return scaled / over_45nm(node)
