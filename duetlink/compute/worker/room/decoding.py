"""The handler of rooms that test a received value: they decode it and touch it, to protect the kernel.

A hostile body may make a library crash the process that decodes it, or hang. In a room this does no harm. The
decoded value is discarded: the kernel decodes the same bytes itself if the test succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from duetlink.compute.worker.protocol.handlers import Answer, Emit
from duetlink.compute.worker.protocol.memory import map_sealed
from duetlink.data import values
from duetlink.data.values.touch import touch
from duetlink.errors import RemoteProtocolError


class DecodingHandler:
    """Decodes one body after the other."""

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer:
        """Carry out `decode`: an encoded value of `size_bytes`, with a memory budget of `room_bytes`.

        The reply is empty.

        Raises:
            MalformedValue, LimitExceeded, MissingLibrary: as `values.decode`.
        """
        if command != "decode":
            raise RemoteProtocolError(f"the room knows no command {command!r}")
        fields = json.loads(content)
        (fd,) = fds
        body = map_sealed(fd, fields["size_bytes"], writable_copy=True)
        touch(values.decode(body, room=values.DecodeBudget(fields["room_bytes"])))
        return b"", ()
