"""As much of a TURN client (RFC 8656) as a probe needs: allocate, send a packet to itself, release.

aioice's own client keeps allocations alive in the background and folds a server's refusals into one error;
here each refusal keeps its code, and nothing goes on after `release`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import Any, Literal

from aioice import stun
from aioice.turn import TCP_TRANSPORT, UDP_TRANSPORT, make_integrity_key

from duetlink.tools.doctor.finding import foreign
from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.wire import Answer, Wire

LIFETIME_S = 60  # of an allocation that is not released, because this side ended: short


class TurnRefused(Exception):
    """The server answered with an error code (RFC 8656 §18, RFC 8489 §14.8)."""

    def __init__(self, code: int, reason: str, *, authenticated: bool) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = foreign(reason)
        self.authenticated = authenticated  # the question carried the credentials


class TurnUntrusted(Exception):
    """The server answered, but its answer is not signed with the credentials, or makes no sense."""


class TurnClient:
    """One allocation over `wire`, with long-term credentials (RFC 8489 §9.2)."""

    def __init__(self, wire: Wire, server: Address, username: str | None, credential: str | None) -> None:
        self._wire = wire
        self._server = server
        self._username = username
        self._credential = credential
        self._key: bytes | None = None
        self._realm = ""
        self._nonce = b""
        self.needs_credentials = False
        self.round_trip_s: float | None = None

    async def allocate(self, transport: Literal["udp", "tcp"]) -> Address:
        """The relayed address. Raises TurnRefused, TurnUntrusted, OSError."""
        number = UDP_TRANSPORT if transport == "udp" else TCP_TRANSPORT
        answer = await self._ask(
            stun.Method.ALLOCATE, {"LIFETIME": LIFETIME_S, "REQUESTED-TRANSPORT": number}
        )
        relayed = answer.message.attributes.get("XOR-RELAYED-ADDRESS")
        if relayed is None:
            raise TurnUntrusted("its answer names no relayed address")
        return str(relayed[0]), int(relayed[1])

    async def relay_round_trip(self, relayed: Address, timeout_s: float) -> float | None:
        """Seconds of a packet to the allocation's own address and back; None if it does not come back.

        Raises TurnRefused, TurnUntrusted, OSError where the server does not permit it.
        """
        await self._ask(stun.Method.CREATE_PERMISSION, {"XOR-PEER-ADDRESS": relayed})
        arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        sent: dict[bytes, float] = {}

        def take(message: stun.Message) -> None:
            sent_s = sent.get(message.attributes.get("DATA", b""))
            if message.message_method == stun.Method.DATA and sent_s is not None and not arrived.done():
                arrived.set_result(time.monotonic() - sent_s)

        self._wire.on_other = take
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    payload = os.urandom(16)
                    sent[payload] = time.monotonic()
                    self._send_to(relayed, payload)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(timeout_s / 3):
                            return await asyncio.shield(arrived)
        except TimeoutError:
            return None
        finally:
            self._wire.on_other = None
            arrived.cancel()

    async def release(self) -> None:
        """Free the allocation, as far as the server can be told so in a moment."""
        with contextlib.suppress(TurnRefused, TurnUntrusted, OSError):
            async with asyncio.timeout(0.5):
                await self._ask(stun.Method.REFRESH, {"LIFETIME": 0})

    def _send_to(self, peer: Address, payload: bytes) -> None:
        indication = stun.Message(
            message_method=stun.Method.SEND,
            message_class=stun.Class.INDICATION,
            attributes={"XOR-PEER-ADDRESS": peer, "DATA": payload},
        )
        self._wire.send(bytes(indication), self._server)

    async def _ask(self, method: stun.Method, attributes: dict[str, Any]) -> Answer:
        """Ask with what is known of realm and nonce; once more where the answer tells them."""
        retried: set[int] = set()
        while True:
            request = stun.Message(
                message_method=method, message_class=stun.Class.REQUEST, attributes=dict(attributes)
            )
            signed = self._key is not None
            if self._key is not None:
                request.attributes |= {
                    "USERNAME": self._username,
                    "NONCE": self._nonce,
                    "REALM": self._realm,
                }
                request.add_message_integrity(self._key)
            answer = await self._wire.ask(bytes(request), self._server)
            if answer.sendings == 1 and self.round_trip_s is None:
                self.round_trip_s = answer.round_trip_s
            message = answer.message
            if message.message_class == stun.Class.RESPONSE:
                if self._key is not None and not message.check_message_integrity(self._key):
                    raise TurnUntrusted("its answer is not signed with these credentials")
                return answer
            code, reason = message.attributes.get("ERROR-CODE", (0, "no code given"))
            self.needs_credentials |= code == 401
            # 401 first: here are realm and nonce. 438: the nonce is stale, here is another (RFC 8489 §9.2.5)
            may_retry = (code == 401 and not signed) or (code == 438 and 438 not in retried)
            if not may_retry or not self._learn(message):
                raise TurnRefused(code, reason, authenticated=signed)
            retried.add(code)

    def _learn(self, message: stun.Message) -> bool:
        """Take realm and nonce of an error; False where they are missing, or credentials to use with them."""
        nonce = message.attributes.get("NONCE")
        realm = message.attributes.get("REALM", self._realm)
        if nonce is None or not realm or not self._username or self._credential is None:
            return False
        # as strings these go into attributes of at most 763 bytes (RFC 8489 §14.9, §14.10)
        if len(nonce) > 763 or len(realm.encode()) > 763:
            return False
        self._nonce, self._realm = nonce, realm
        self._key = make_integrity_key(self._username, realm, self._credential)
        return True
