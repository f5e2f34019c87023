"""What the room does for a kernel that has received a value it did not ask for: decodes it and uses it.

A body may have been made so that a library ends the process that reads it, or never returns. Here that
costs nothing. What comes out of it is thrown away: the kernel decodes the same bytes itself when this has
gone well.
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
    """Tries one body after the other."""

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer:
        """`decode`: an encoded value of this size, with this room. The reply is empty.

        Raises:
            MalformedValue, LimitExceeded, MissingLibrary: as `values.decode`.
        """
        if command != "decode":
            raise RemoteProtocolError(f"the room knows no command {command!r}")
        asked = json.loads(content)
        (fd,) = fds
        body = map_sealed(fd, asked["size_bytes"], writable_copy=True)
        touch(values.decode(body, room=values.DecodeBudget(asked["room_bytes"])))
        return b"", ()
