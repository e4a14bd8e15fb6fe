"""Tiles of Winograd's algorithm by dtype: those whose rounding errors are as small as the dtype's users expect.

Largest error by the largest result, of standard normal weights divided by the root of what is summed and rectified
normal data, 64 and 256 channels, each operation rounded to the dtype (`tests/workloads/winograd/test_accuracy.py`
works them out again):

| dtype | direct | F(2, 3) | F(4, 3) | F(6, 3) |
|---|---|---|---|---|
| fp32 | 1e-6 | 5e-7 | 6e-6 | 1e-5 |
| fp16 | 7e-3 | 4e-3 | 6e-2 | 1e-1 |

Integers are never computed so: weights of F(4, 3) are multiples of 1/576. Some libraries compute F(4, 3) and F(6, 3)
in half precision all the same, as ncnn does: networks that classify images bear it.
"""

from collections.abc import Mapping

SIZES_OF: Mapping[str, tuple[int, ...]] = {"fp32": (2, 4, 6), "fp16": (2,)}
"""Results along each side of the tiles that may be used, by dtype; of other dtypes none."""
_COARSE_SIZES_OF: Mapping[str, tuple[int, ...]] = {"fp32": (2, 4, 6), "fp16": (2, 4, 6)}


def sizes_of(dtype: str, most: int, *, is_coarse: bool = False) -> tuple[int, ...]:
    """Return the tiles that may be used for numbers of ``dtype``, up to ``most``, smallest first.

    ``is_coarse``: errors of a tenth of the largest result are small enough.
    """
    sizes = _COARSE_SIZES_OF if is_coarse else SIZES_OF
    return tuple([size for size in sizes.get(dtype, ()) if size <= most])
