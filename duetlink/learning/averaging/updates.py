"""How an update travels: dense in a sum, or coded so that members bring each other what they have."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs import decode
from duetlink.data.codecs.gradients import GradientCompressor, Quantised, TopK
from duetlink.errors import DuetError, SettingError
from duetlink.learning.averaging.flat import Floats

UPDATES = ("float32", "int8", "sparse")
_NAME = "update"
_FRAME_BYTES = 4096  # more than coding adds to a small update


def compressor(updates: str, density: float) -> GradientCompressor | None:
    """With error feedback: what coding leaves out of one update is added to the next. None for what travels
    as it is.

    Raises:
        SettingError: there is no such way, or no such density.
    """
    if updates not in UPDATES:
        raise SettingError(f"updates is {updates!r}: there are {', '.join(UPDATES)}")
    if not 0.0 < density <= 1.0:
        raise SettingError(f"density is {density!r}: the part of an update that is sent, above 0, at most 1")
    if updates == "float32":
        return None
    return Quantised("block8") if updates == "int8" else TopK(density, value="block8")


def encode(compressor: GradientCompressor, update: Floats) -> bytes:
    """The next chunk of this member. The update is finite."""
    return compressor.compress(update, _NAME)


def read(chunk: bytes, size: int) -> Floats | None:
    """The update of a member; None where it is none, of another size, or not finite."""
    try:
        found, _ = decode(chunk, 4 * size + _FRAME_BYTES)
    except DuetError:
        return None
    if found.shape != (size,) or found.dtype != np.float32 or not np.isfinite(found).all():
        return None
    return found.view(np.float32)
