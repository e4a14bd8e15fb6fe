"""Bank conflicts of shared memory.

Neighbouring words lie in neighbouring banks, each of which gives one word in a pass. Threads of a warp that ask for
different words of one bank are served in passes of their own; those that ask for the same word share it. Loads of
several words a thread are served for as many threads at a time as need one word of each bank.
"""

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.spec import WORD_BYTES


def passes_of(words: NDArray[np.int64], banks: int) -> NDArray[np.int64]:
    """Return the passes in which each row of ``words`` is served.

    ``words``: numbers of the words that threads ask for at a time, one row for each time, with one word at least. A row
    takes as many passes as there are different words in the bank that has most of them.
    """
    rows = len(words)
    ordered = np.sort(words, axis=1)
    is_new = np.ones(ordered.shape, dtype=bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = np.arange(rows, dtype=np.int64)[:, None] * banks + ordered % banks
    passes: NDArray[np.int64] = np.bincount(places[is_new], minlength=rows * banks).reshape(rows, banks).max(axis=1)
    return passes


def served_at_a_time(access_bytes: float, warp: int, banks: int) -> int:
    """Return how many threads of a warp are served at a time where each asks for so many bytes."""
    return max(min(int(banks * WORD_BYTES // max(access_bytes, WORD_BYTES)), warp), 1)


def passes_per_access(
    addresses: NDArray[np.int64], elements: int, element_bytes: float, warp: int, banks: int
) -> float:
    """Return the further passes of one access of a warp, in the mean over all warps of a block.

    ``addresses``: the element that each thread's access begins with, by thread; ``elements``: neighbours that it takes.
    """
    if not banks or not len(addresses):
        return 0.0
    warps = -(-len(addresses) // warp)
    at_a_time = served_at_a_time(elements * element_bytes, warp, banks)
    missing = warps * warp - len(addresses)
    first = np.concatenate([addresses, np.repeat(addresses[-1:], missing)])  # as the last one does: no word more
    served = -(-warp // at_a_time) * at_a_time
    first = np.pad(first.reshape(warps, warp), ((0, 0), (0, served - warp)), mode="edge").reshape(-1, at_a_time)
    begin = np.floor(first * element_bytes / WORD_BYTES).astype(np.int64)
    count = max(int(elements * element_bytes // WORD_BYTES), 1)
    words = (begin[:, :, None] + np.arange(count, dtype=np.int64)).reshape(len(first), -1)
    return int((passes_of(words, banks) - 1).sum()) / warps
