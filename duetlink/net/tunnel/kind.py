"""What a datagram of the tunnel is for."""

from __future__ import annotations

from enum import IntEnum

from duetlink.net.tunnel.datagram import COVERED, FIRST_KIND


class Kind(IntEnum):
    """First byte. All but DATA are authenticated whole; all but ACK and RESET are acknowledged."""

    DATA = FIRST_KIND  # a part of the stream, at its position
    ACK = FIRST_KIND | COVERED
    FIN = FIRST_KIND | COVERED | 1  # the stream ends at its position; its payload is that of an ACK
    PING = FIRST_KIND | COVERED | 2  # its payload is padding
    RESET = FIRST_KIND | COVERED | 3  # all is over
