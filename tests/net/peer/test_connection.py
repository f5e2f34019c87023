"""One WebRTC connection: what it says when the peer cannot be reached."""

from __future__ import annotations

import re

import pytest

from duetlink.errors import PeerUnreachable
from duetlink.net.peer.connection import PeerConnection


async def test_a_peer_without_a_path_is_told_with_what_was_tried() -> None:
    here, there = PeerConnection([]), PeerConnection([])
    try:
        answer = await there.answer(await here.offer())
        # as from a peer whose firewall lets nothing through, not even to a STUN server
        await here.accept(re.sub(rb"a=candidate:.*?\\r\\n", b"", answer))
        with pytest.raises(PeerUnreachable, match=r"\(\d+ addresses here, 0 at the peer\); where both sides"):
            await here.wait_open(30)
    finally:
        await here.close()
        await there.close()
