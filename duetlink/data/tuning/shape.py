"""How large chunks are, and how many threads encode them."""

from __future__ import annotations

import math

from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES, LATENCY, LEAST_CPU
from duetlink.data.tuning.model import Figures
from duetlink.data.tuning.outlook import LARGE_CHUNK_BYTES, Outlook

KIB = 1024
MIN_CHUNK_BYTES = 64 * KIB
MAX_CHUNK_BYTES = 2048 * KIB
_FIRST_CHUNK_BYTES = 256 * KIB  # while the link's speed is unknown
_CHUNK_S = 0.25
_LEAST_CHUNKS = 16


def chunk_bytes(outlook: Outlook, choice: Choice, ratio: float) -> int:
    """Before encoding. A chunk takes a quarter of a second on the link at most."""
    objective, speed = outlook.settings.objective, outlook.speed
    few = objective == FEWEST_BYTES  # what repeats is found within a chunk
    if speed is None:
        size = MAX_CHUNK_BYTES if few else _FIRST_CHUNK_BYTES
    elif choice.raw and outlook.fast:
        size = MAX_CHUNK_BYTES
    else:
        pieces = _LEAST_CHUNKS * (2 if objective == LATENCY else 1)
        of_object = MAX_CHUNK_BYTES if few else max(MIN_CHUNK_BYTES, outlook.size_bytes // pieces)
        most = MAX_CHUNK_BYTES if few else LARGE_CHUNK_BYTES
        size = int(min(most, of_object, _CHUNK_S * speed / ratio))
    # a power of two, so that chunks end where leaves of 4 MiB do
    return max(MIN_CHUNK_BYTES, min(MAX_CHUNK_BYTES, 1 << max(0, size.bit_length() - 1)))


def workers(outlook: Outlook, choice: Choice, figures: Figures) -> int:
    """No more than keep the link busy."""
    most, speed = outlook.knowledge.workers, outlook.speed
    if choice.raw or outlook.settings.objective == LEAST_CPU:
        return 1
    if speed is None or outlook.goodput.floor is not None:  # encoding may be what is slow
        return most
    needed = math.ceil(1.5 * speed / figures.ratio / figures.encode)
    return max(1, min(most, needed))
