"""TCP through a TURN server (RFC 6062): the relay is a splice of two TCP connections, not of datagrams.

The server gives this side an address. Whoever connects to it, and is permitted, is announced on the control
connection; this side then opens a data connection, binds it to that one by its number, and from there on the
two are one stream of bytes. In the other direction the server connects to a peer on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aioice import stun
from aioice.turn import TCP_TRANSPORT, make_integrity_key

from duetlink.errors import PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.address import Address
from duetlink.net.carrier.server_url import ServerUrl
from duetlink.net.carrier.stun_tcp import read_message
from duetlink.net.carrier.wire import Wire

_LIFETIME_S = 600
_MIN_REFRESH_S = 30.0
_ASK_TIMEOUT_S = 3.0
_CONNECT_TIMEOUT_S = 10.0  # the server's, to the peer, is 30 s (RFC 6062 §5.2)
_MAX_CHALLENGE_BYTES = 763  # RFC 8489 §14.9, §14.10


class TurnRefused(PathUnavailable):
    """The server answered with an error."""

    def __init__(self, code: int, reason: str) -> None:
        words = f"it refused the user name or password, which may have expired ({code})"
        super().__init__(words if code in (401, 441) else f"it refused: {code} {reason[:100]}")
        self.code = code


class _Credentials:
    """Long-term ones (RFC 8489 §9.2), with what the server has told to use them with."""

    def __init__(self, server: ServerUrl) -> None:
        self._username = server.username
        self._password = server.credential
        self._realm = ""
        self._nonce = b""
        self._key: bytes | None = None

    @property
    def known(self) -> bool:
        return self._key is not None

    def sign(self, request: stun.Message) -> None:
        if self._key is not None:
            request.attributes |= {"USERNAME": self._username, "NONCE": self._nonce, "REALM": self._realm}
            request.add_message_integrity(self._key)

    def signed(self, answer: stun.Message) -> bool:
        return self._key is None or answer.check_message_integrity(self._key)

    def learn(self, challenge: stun.Message) -> bool:
        """Take realm and nonce of an error; False where they are missing, or what to use them with."""
        nonce = challenge.attributes.get("NONCE")
        realm = challenge.attributes.get("REALM", self._realm)
        if nonce is None or not realm or self._username is None or self._password is None:
            return False
        if len(nonce) > _MAX_CHALLENGE_BYTES or len(realm.encode()) > _MAX_CHALLENGE_BYTES:
            return False
        self._nonce, self._realm = nonce, realm
        self._key = make_integrity_key(self._username, realm, self._password)
        return True


class TcpAllocation:
    """A relayed TCP address, for as long as it is not closed.

    `on_stream` is called with every connection that a permitted peer opens to it.
    """

    def __init__(self, server: ServerUrl, wire: Wire, on_stream: Callable[[Wire], object]) -> None:
        self.server = server
        self._wire = wire
        self._on_stream = on_stream
        self._credentials = _Credentials(server)
        self._asked: dict[bytes, asyncio.Future[stun.Message]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.host = wire.peer[0]  # of the server
        self.relayed: Address
        self.mapped: Address  # how the server sees this side

    @classmethod
    async def open(cls, server: ServerUrl, on_stream: Callable[[Wire], object]) -> TcpAllocation:
        """Ask `server` for an address. Raises PathUnavailable, another OSError, or TimeoutError."""
        _extend_stun()
        made = cls(server, await _dial(server, server.host), on_stream)
        try:
            await made._allocate()
        except BaseException:
            await made.close()
            raise
        return made

    async def permit(self, host: str) -> None:
        """Let connections from there in. Raises PathUnavailable, another OSError, or TimeoutError."""
        await self._ask(stun.Method.CREATE_PERMISSION, {"XOR-PEER-ADDRESS": (host, 0)})

    async def connect(self, peer: Address) -> Wire:
        """One from the server to `peer`. Raises PathUnavailable, another OSError, or TimeoutError."""
        answer = await self._ask(
            stun.Method["CONNECT"], {"XOR-PEER-ADDRESS": peer}, timeout_s=_CONNECT_TIMEOUT_S
        )
        return await self._bind(answer.attributes.get("CONNECTION-ID", 0))

    async def close(self) -> None:
        """Give the address back, without waiting for it. Again is harmless."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # the server drops an allocation with its control connection (RFC 6062 §4.4)
        self._wire.abort()

    async def _allocate(self) -> None:
        self._start(self._listen())
        answer = await self._ask(
            stun.Method.ALLOCATE, {"LIFETIME": _LIFETIME_S, "REQUESTED-TRANSPORT": TCP_TRANSPORT}
        )
        try:
            self.relayed = answer.attributes["XOR-RELAYED-ADDRESS"]
            self.mapped = answer.attributes["XOR-MAPPED-ADDRESS"]
        except KeyError:
            raise RemoteProtocolError("the TURN server gave no address") from None
        self._start(self._refresh(answer.attributes.get("LIFETIME", _LIFETIME_S)))

    def _start(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _refresh(self, lifetime_s: int) -> None:
        while True:
            await asyncio.sleep(max(lifetime_s / 2, _MIN_REFRESH_S))
            with contextlib.suppress(OSError, TimeoutError):  # there is time for another try
                await self._ask(stun.Method.REFRESH, {"LIFETIME": _LIFETIME_S})

    # -- questions and answers -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Take what comes on the control connection, until it ends."""
        try:
            while True:
                message = await read_message(self._wire)
                answered = self._asked.get(message.transaction_id)
                if message.message_method == stun.Method["CONNECTION_ATTEMPT"]:
                    self._start(self._accept(message.attributes.get("CONNECTION-ID", 0)))
                elif answered is not None and not answered.done():
                    answered.set_result(message)
        except (OSError, RemoteProtocolError) as error:
            for answered in self._asked.values():
                if not answered.done():
                    answered.set_exception(ConnectionAbortedError(str(error)))
            self._wire.abort()

    async def _accept(self, connection_id: int) -> None:
        self._on_stream(await self._bind(connection_id))

    async def _bind(self, connection_id: int) -> Wire:
        """A data connection that is the one of that number (RFC 6062 §4.3)."""
        wire = await _dial(self.server, self.host)
        try:

            async def exchange(request: stun.Message) -> stun.Message:
                wire.write(bytes(request))
                return await read_message(wire)

            async with asyncio.timeout(_ASK_TIMEOUT_S):
                await self._transact(
                    exchange, stun.Method["CONNECTION_BIND"], {"CONNECTION-ID": connection_id}
                )
        except BaseException:
            wire.abort()
            raise
        return wire

    async def _ask(
        self, method: stun.Method, attributes: dict[str, Any], *, timeout_s: float = _ASK_TIMEOUT_S
    ) -> stun.Message:
        async def exchange(request: stun.Message) -> stun.Message:
            answered = asyncio.get_running_loop().create_future()
            self._asked[request.transaction_id] = answered
            try:
                self._wire.write(bytes(request))
                message: stun.Message = await answered
                return message
            finally:
                del self._asked[request.transaction_id]

        async with asyncio.timeout(timeout_s):
            return await self._transact(exchange, method, attributes)

    async def _transact(
        self,
        exchange: Callable[[stun.Message], Awaitable[stun.Message]],
        method: stun.Method,
        attributes: dict[str, Any],
    ) -> stun.Message:
        """Ask with what is known of realm and nonce; once more where the answer tells them."""
        credentials, challenges = self._credentials, {401, 438}
        while True:
            request = stun.Message(
                message_method=method, message_class=stun.Class.REQUEST, attributes=dict(attributes)
            )
            was_known = credentials.known
            credentials.sign(request)
            answer = await exchange(request)
            if answer.message_class == stun.Class.RESPONSE:
                if not credentials.signed(answer):
                    raise RemoteProtocolError("the TURN server's answer is not signed with the credentials")
                return answer
            code, reason = answer.attributes.get("ERROR-CODE", (0, "no code given"))
            # 401 first: here are realm and nonce. 438: the nonce is stale, here is another (RFC 8489 §9.2.5)
            expected = code in challenges and not (code == 401 and was_known)
            if not expected or not credentials.learn(answer):
                raise TurnRefused(code, reason)
            challenges.remove(code)


async def _dial(server: ServerUrl, host: str) -> Wire:
    """Connect to `server`, whose address may be known by now."""
    tls = ssl.create_default_context() if server.transport == "tls" else None
    async with asyncio.timeout(_ASK_TIMEOUT_S):
        return await Wire.open((host, server.port), tls, server.host)


def _extend_stun() -> None:
    """Teach aioice's STUN the words of RFC 6062 §6. Additions only; again is harmless."""
    for name, value in (("CONNECT", 0xA), ("CONNECTION_BIND", 0xB), ("CONNECTION_ATTEMPT", 0xC)):
        if name not in stun.Method.__members__:
            method = int.__new__(stun.Method, value)
            method._name_, method._value_ = name, value
            stun.Method._member_map_[name] = method
            stun.Method._value2member_map_[value] = method
    connection_id = (0x002A, "CONNECTION-ID", stun.pack_unsigned, stun.unpack_unsigned)
    stun.ATTRIBUTES_BY_TYPE.setdefault(0x002A, connection_id)
    stun.ATTRIBUTES_BY_NAME.setdefault("CONNECTION-ID", connection_id)
