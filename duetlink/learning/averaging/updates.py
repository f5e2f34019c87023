"""The encoding of updates: dense for a sum, or coded for sending to each other member."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs import decode
from duetlink.data.codecs.gradients import GradientCompressor, Quantised, TopK
from duetlink.errors import DuetError, SettingError
from duetlink.learning.averaging.flat import Floats

UPDATES = ("float32", "int8", "sparse")
_NAME = "update"
_FRAME_BYTES = 4096  # coding adds less than this to a small update


def compressor(updates: str, density: float) -> GradientCompressor | None:
    """Return a compressor with error feedback: what coding leaves out of one update is added to the next.

    Returns None for "float32", which is not coded.

    Raises:
        SettingError: there is no such encoding, or the density is not in (0, 1].
    """
    if updates not in UPDATES:
        raise SettingError(f"updates is {updates!r}: there are {', '.join(UPDATES)}")
    if not 0.0 < density <= 1.0:
        raise SettingError(f"density is {density!r}: the part of an update that is sent, above 0, at most 1")
    if updates == "float32":
        return None
    return Quantised("block8") if updates == "int8" else TopK(density, value="block8")


def encode(compressor: GradientCompressor, update: Floats) -> bytes:
    """Encode this member's next update, which is finite."""
    return compressor.compress(update, _NAME)


def read(chunk: bytes, size: int) -> Floats | None:
    """Decode a member's update; None if it is malformed, of another size, or not finite."""
    try:
        found, _ = decode(chunk, 4 * size + _FRAME_BYTES)
    except DuetError:
        return None
    if found.shape != (size,) or found.dtype != np.float32 or not np.isfinite(found).all():
        return None
    return found.view(np.float32)
