"""Lets malloc keep the memory of gRPC's messages for the messages that follow.

gRPC allocates and frees some megabytes for each message. In a process that has freed no large block yet,
glibc gives them back to the system each time, which clears them before they are used again. How large a block
it keeps it learns from the largest one below 32 MiB that was freed (mallopt(3), M_MMAP_THRESHOLD): so this
allocates and frees one.
"""

from __future__ import annotations

import functools

import numpy as np

_BLOCK_BYTES = 32 * 1024 * 1024 - 64 * 1024  # glibc ignores blocks above 32 MiB, its own header included


@functools.cache
def keep() -> None:
    """Call before messages flow; only the first call of a process does anything.

    It has the effect of freeing an array of 32 MiB: none but on glibc. From then on the process keeps up to
    64 MiB that it has freed.
    """
    # once: in a heap that has grown, NumPy's advice about its pages would split a mapping each time
    np.empty(_BLOCK_BYTES, np.uint8)
