"""The compressor behind `lossy="gradient"`: the one that `duet.compression` says at the time.

What the one before has left out goes over to the next: a change of settings loses nothing.
"""

from __future__ import annotations

import threading

from duetlink.data.codecs.base import GRADIENT
from duetlink.data.codecs.gradients.choice import compressor
from duetlink.data.codecs.gradients.compressor import EPOCH, STEP, GradientCompressor
from duetlink.data.tuning import Compression
from duetlink.data.tuning.compression import AUTO

MARK = "gradient"


class Gradients:
    """Of one duet. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: tuple[str | None, int | None] = (None, None)
        self._compressor: GradientCompressor | None = None

    def by(self, compression: Compression) -> GradientCompressor:
        """The compressor that the settings say, with all that is still to be delivered.

        Raises:
            UnknownCodec: the settings name a codec that is not installed here.
        """
        name = compression.codec[GRADIENT]
        auto = compression.mode == "auto" or name == AUTO
        settings = (None, None) if auto else (name, compression.level[GRADIENT])
        with self._lock:
            if self._compressor is None or settings != self._settings:
                self._compressor = _continued(self._compressor, compressor(*settings))
                self._settings = settings
            return self._compressor


def _continued(before: GradientCompressor | None, after: GradientCompressor) -> GradientCompressor:
    """`after`, which remembers of `before` what it has a place for."""
    if before is not None:
        kept = (EPOCH, STEP, *after.slots)
        state = before.state_dict()
        after.load_state_dict({key: value for key, value in state.items() if key.split("/")[0] in kept})
    return after
