"""Values that follow others which a user changes: energies and areas the node, static power the area.

A machine file states energies, areas and a static power for one node and one die. Who changes the node, or how much
there is on the die, and does not state these anew, means the same circuits: each value is scaled as what it is derived
from.

| values | follow | source |
|---|---|---|
| energies of operations and instructions | the node, as published multiply-accumulates do | `technology.over_45nm` |
| energies of registers, of wires, of SRAM by size | the node | `technology` |
| areas of logic and SRAM, of a DSA's rest, of an interface's controller | the node | `silicon` |
| `energy.static_power`; by node `energy.core_static`, else `energy.clocks` | the die without interfaces | `silicon` |

The clock, DRAM and the rest of a CPU or GPU (links to other chips, pads) stay as they are, and so does a static power
``by area``, which follows by itself. Static power by area has no trend with the node (`silicon.IDLE_W_PER_MM2`).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dsascape.hw_models.common import silicon, technology
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.machine_files.overrides import leaves, value_at

NODE = "energy.node"
_STATIC, _CORE_STATIC = "energy.static_power", "energy.core_static"
OF_NODE = (_STATIC, _CORE_STATIC)
"""Static powers that shrink with the die at a smaller node."""
OF_SIZE = (_STATIC, "energy.clocks")
"""Powers that grow with the die as there is more on it. Where cores have a static power of their own, only
that does."""
_INTERFACES = ("ddr", "dram")
_ENERGIES: Mapping[str, Callable[[float], float]] = {
    **dict.fromkeys(("mac", "vector_op", "special_op", "instruction", "clocks"), technology.over_45nm),
    **dict.fromkeys(("array_registers", "vector_register"), technology.register_bit_pj),
    **dict.fromkeys(("on_chip_path", "dma_path"), technology.wire_pj_per_byte_mm),
}
"""Figure by node that energies are in proportion to, by name; those of memories are SRAM's."""
_AREAS: Mapping[str, Callable[[float], float]] = {
    **dict.fromkeys(("mac", "sm"), silicon.logic_over_7nm), "sram": silicon.sram_mm2_per_mib,
    **dict.fromkeys(_INTERFACES, silicon.ddr_mm2_per_gb_per_s),
}  # fmt: skip
"""Figure by node that areas are in proportion to, by name; the rest of a DSA, links and control, is logic (assumed)."""
_DIGITS = ".6g"
_DEFAULT_BYTES = 2**20
"""Size of an SRAM whose size no section states."""


def node_of(data: Mapping[str, Any]) -> float | None:
    """Return the node of a machine's plain data in nanometres; None for kinds without one."""
    return _number(value_at(data, NODE))


def at_node(data: Mapping[str, Any], node_nm: float) -> dict[str, str]:
    """Return the values that are other ones at another node, by path, the node among them; static power is left out."""
    old_nm = node_of(data)
    if old_nm is None or old_nm == node_nm:
        return {}
    found = {NODE: f"{node_nm!r} nm"}
    for path in leaves(data):
        ratio = _ratio(path, data)
        number = _number(value_at(data, path))
        if ratio is not None and number:
            unit = str(value_at(data, path)).partition(" ")[2]
            found[path] = f"{number * ratio(node_nm) / ratio(old_nm):{_DIGITS}} {unit}"
    return found


def by_area(
    before: MachineSpec, after: MachineSpec, paths: Collection[str], stated: Collection[str] = ()
) -> dict[str, str]:
    """Return the powers at ``paths`` of ``after``, as its die is larger than that of ``before``, without ``stated``."""
    old_mm2, new_mm2 = _die_mm2(before), _die_mm2(after)
    if old_mm2 == new_mm2 or not old_mm2 or not new_mm2:
        return {}
    data = after.model_dump(by_alias=True)
    of_cores = [_STATIC] if _CORE_STATIC not in paths and _number(value_at(data, _CORE_STATIC)) else []
    watts = {path: _number(value_at(data, path)) for path in paths if path not in (*stated, *of_cores)}
    return {path: f"{value * new_mm2 / old_mm2:{_DIGITS}} W" for path, value in watts.items() if value}


def _ratio(path: str, data: Mapping[str, Any]) -> Callable[[float], float] | None:
    """Return the figure by node that a value is in proportion to; None for a value that does not follow the node."""
    section, _, inside = path.partition(".")
    name = inside.partition(".")[0]
    if section == "area":
        return _AREAS.get(name, silicon.logic_over_7nm if name == "other" and "mac" in data["area"] else None)
    if section == "energy":
        memory_bytes = 0 if name in _INTERFACES else _capacity(data, name)
        return _ENERGIES.get(name, _of_sram(memory_bytes) if memory_bytes else None)
    level, _, last = path.rpartition(".")
    return _of_sram(_capacity(data, level)) if last == "energy" else None


def _of_sram(size_bytes: int) -> Callable[[float], float]:
    return lambda node_nm: technology.sram_pj_per_byte(size_bytes or _DEFAULT_BYTES, node_nm)


def _capacity(data: Mapping[str, Any], section: str) -> int:
    """Return the bytes of the largest section of that name or path; 0 where there is none."""
    ends = f"{section}.capacity"
    sizes = [value_at(data, path) for path in leaves(data) if path == ends or path.endswith(f".{ends}")]
    return max([int(_number(size) or 0) for size in sizes], default=0)


def _die_mm2(machine: MachineSpec) -> float:
    return sum([area for name, area in machine.area_parts_mm2.items() if name not in _INTERFACES])


def _number(text: object) -> float | None:
    """Return the number of a quantity in its base unit, as specs print it; None for other values."""
    number = str(text).partition(" ")[0] if isinstance(text, str) else ""
    try:
        return float(number)
    except ValueError:
        return None
