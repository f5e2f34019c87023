"""Values that ride inside control messages, as in the Duet of 2021."""

from __future__ import annotations

import dataclasses

from duetlink import Settings
from duetlink.base.wire import fragments


def only_data_channel(settings: Settings) -> Settings:
    """Settings for it. The limits of a message are lifted in this process for good; both ends need that."""
    fragments.MAX_MESSAGE_BYTES = 1 << 31
    fragments.Reassembler.__init__.__defaults__ = (1 << 31,)
    return dataclasses.replace(settings, inline_limit_bytes=1 << 30)
