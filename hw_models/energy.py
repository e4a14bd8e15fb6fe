"""Energy of a run by component: arithmetic, each memory, static power over the makespan."""

from hw_models.clustered_dsa import ClusteredDsa, HardwareError
from hw_models.program import MatrixCompute, Program, Transfer, VectorCompute, base_name


def energy_pj(program: Program, spec: ClusteredDsa, makespan_ps: int) -> dict[str, float]:
    """Return picojoules by component: ``macs``, ``vector``, each memory, ``static``.

    Raises ``HardwareError`` where the spec has no energy for a dtype that the program computes.
    """
    per_byte = {
        "local_buffer": spec.energy.local_buffer,
        "global_buffer": spec.energy.global_buffer,
        "ddr": spec.energy.ddr,
    }
    per_mac = {str(dtype): energy for dtype, energy in spec.energy.mac.items()}
    spent = dict.fromkeys(("macs", "vector", *per_byte, "static"), 0.0)
    for instruction in program.instructions:
        times = program.members_of(instruction)
        if isinstance(instruction, Transfer):
            source, destination = base_name(instruction.source), base_name(instruction.destination)
            spent[source] += times * instruction.size_bytes * per_byte[source]
            spent[destination] += times * instruction.size_bytes * instruction.fan_out * per_byte[destination]
        elif isinstance(instruction, MatrixCompute | VectorCompute):
            if instruction.macs:
                if instruction.dtype not in per_mac:
                    raise HardwareError(
                        f"{spec.name}: energy.mac has {', '.join(per_mac)}, needs {instruction.dtype}"
                    )
                spent["macs"] += times * instruction.macs * per_mac[instruction.dtype]
            if isinstance(instruction, VectorCompute):
                spent["vector"] += times * instruction.simple * spec.energy.vector_op
                spent["vector"] += times * instruction.special * spec.energy.special_op
            spent["local_buffer"] += times * instruction.local_bytes * per_byte["local_buffer"]
    spent["static"] = spec.energy.static_power_w * makespan_ps
    return spent
