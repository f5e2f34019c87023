"""Signaling: how two notebooks meet, prove to each other that they know the code, and exchange a few bytes.

`base.py` is the contract of a mailbox, `pairing.py` the exchange over one, `secret.py` the keys;
`server.py` and `client.py` are the mailbox over WebSocket, `paste.py` the way by hand. Nothing here knows
of WebRTC.
"""

from duetlink.net.signaling.base import MAX_MESSAGE_BYTES, Mailbox, Mood, Role
from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.discovery import SignalingServer, configured, live_servers
from duetlink.net.signaling.hello import BORROWS, GROUP, SignalingHello, negotiate
from duetlink.net.signaling.limits import Limits
from duetlink.net.signaling.pairing import Paired, connected, pair_owner, pair_scientist
from duetlink.net.signaling.paste import PasteOwner, PasteScientist
from duetlink.net.signaling.secret import SessionKey

__all__ = [
    "BORROWS",
    "GROUP",
    "MAX_MESSAGE_BYTES",
    "Limits",
    "Mailbox",
    "Mood",
    "Paired",
    "PasteOwner",
    "PasteScientist",
    "Role",
    "SessionCode",
    "SessionKey",
    "SignalingHello",
    "SignalingServer",
    "WebSocketMailbox",
    "configured",
    "connected",
    "live_servers",
    "negotiate",
    "pair_owner",
    "pair_scientist",
]
