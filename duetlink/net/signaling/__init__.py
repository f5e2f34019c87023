"""Signaling: how two notebooks meet, prove to each other that they know the code, and exchange a few bytes.

  session code  `7-crossover-clockwork`: a nameplate (number) and two secret words (`code.py`)
  nameplate     the public number under which the owner's mailbox can be found
  mailbox       carries opaque messages between two sides that need not be online together (`base.py`)
  seat          one side's end of a mailbox on the server; each is taken once
  hall          several mailboxes under one nameplate, for a group: one for each member that joins
  meeting place 32 secret bytes, derived from a session key, where two paired sides meet again (`reunion.py`)
  mood          the reason that a side gives when it leaves a mailbox, such as "wrong-code"
  hello         protocol versions, name and features of one side, sealed (`hello.py`)

Example: the owner's kernel sends `claim` to the signaling server and gets nameplate 7. It shows the code
7-crossover-clockwork and puts its SPAKE2 message into the mailbox. The scientist's kernel sends `join(7)`,
receives that message, and computes the session key from it and the two words. It sends its own SPAKE2 message
and, sealed with that key, its hello and its WebRTC offer. The owner opens them, which works only if both used
the same words, and sends its sealed hello and answer.

`pairing.py` has this exchange, `secret.py` the keys. `server.py` and `client.py` are the mailbox over
WebSocket, `paste.py` the exchange by hand. This package knows nothing of WebRTC.
"""

from duetlink.net.signaling.late_certificates import late_certificates

with late_certificates():
    import aiohttp as aiohttp

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
