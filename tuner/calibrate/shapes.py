"""Shapes of probes: what the code of the kernels and the evaluation of their times have in common.

A bundle carries this module, so it uses the standard library only.
"""

_SUMS = (6, 8, 10, 12, 16, 24)
"""Numbers of independent sums: two pipes of four cycles need eight, four need sixteen; some numbers suit a scheduler
better than others."""
_USUAL_SUMS = 12
"""Sums of each thread where many compute: what two pipes of four cycles need, and half as many again."""
_OPERANDS = 2
"""Vectors in registers beside the sums: a column, and one number of a row in every lane."""
COLUMNS = 2
"""Vectors per row of a register tile of a matrix product; with as many rows as the registers hold, the tile generated
for most layers."""
TILES_OF_PANEL = 4
"""Number of register tiles that use one panel of weights."""
TILES = 16
"""Number of register tiles of a product computed in sequence where results should stay in the first cache."""
PANEL_BY_L1 = 4
"""Size of far panels of weights relative to the first cache's array, so that all tiles but the first read them from the
second cache."""
SHORT, LONG = 16, 128
"""Reduction depths of these products; what both take in common is the overhead of their loops."""
DEPTH = 4096
"""Number of sequential multiply-accumulates, of one vector or several by turns."""
VECTORS = 64
"""Number of vectors of exponentials and divisions."""
STEPS = 20_000
"""Number of dependent loads of a chain."""


def sums(registers: int) -> tuple[int, ...]:
    """Return the numbers of sums, with their operands in no more than ``registers`` registers; at least one number."""
    return tuple(count for count in _SUMS if count + _OPERANDS <= registers) or _SUMS[:1]


def sums_on_threads(registers: int) -> int:
    """Return the number of sums of each thread where many compute."""
    return max(count for count in sums(registers) if count <= _USUAL_SUMS)


def register_rows(registers: int) -> int:
    """Return the rows of a product's register tile: as many as the registers hold in addition to its operands."""
    return (registers - 1) // COLUMNS - 1


def few_rows(registers: int) -> int:
    """Return half of `register_rows`, at least one."""
    return max(register_rows(registers) // 2, 1)


def summed_vectors(registers: int) -> int:
    """Return the number of vectors that are summed side by side."""
    return registers // 2
