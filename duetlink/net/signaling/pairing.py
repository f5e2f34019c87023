"""The pairing exchange over any mailbox: two crossings once both sides are present.

    owner -> scientist   SPAKE2 message A                              waits in the mailbox
    scientist -> owner   SPAKE2 message B, sealed(hello, offer)        proves that it knows the words
    owner -> scientist   sealed(hello, answer)                         proves the same

If the scientist has no TURN server and the owner lends one, two crossings come before the answer:

    owner -> scientist   sealed(hello with relays, nothing)
    scientist -> owner   sealed(hello, an offer that uses them)

The scientist leaves when it has opened the answer. So the owner keeps its end open while the two sides
connect, and learns there if the answer was altered or lost.

The mailbox, the network and the other side are untrusted until a sealed message opens. Each side runs SPAKE2
once and accepts one message for it, so an attacker between them has one guess, and a wrong one ends the
pairing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError

from duetlink.base.wire.envelope import parsed
from duetlink.errors import (
    DuetError,
    IncompatiblePeer,
    LinkClosed,
    PairingTimeout,
    PeerUnreachable,
    WrongCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES, Mailbox, Role
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.endings import OtherSideDone
from duetlink.net.signaling.hello import BORROWS, SignalingHello, negotiate
from duetlink.net.signaling.secret import KeyAgreement, SessionKey
from duetlink.settings import IceServer

SCIENTIST_TIMEOUT_S = 30.0
OWNER_TIMEOUT_S = 30.0  # from the arrival of the scientist

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paired:
    """The result of pairing: shared key, the peer's hello and payload, and the common protocol and
    features.
    """

    key: SessionKey
    hello: SignalingHello
    """the peer's"""
    payload: bytes = field(repr=False)
    """the scientist's offer, or the owner's answer"""
    protocol: int
    features: frozenset[str]


async def pair_owner(
    mailbox: Mailbox,
    code: SessionCode,
    hello: SignalingHello,
    answer: Callable[[SignalingHello, bytes], Awaitable[bytes]],
    timeout_s: float | None = None,
) -> Paired:
    """Wait for the scientist, check that it knows the words, and send it the result of `answer(hello,
    offer)`.

    On success the mailbox stays open, for `connected`. On any failure, cancellation included, it is closed.

    Raises:
        WrongCode: a wrong code was tried; the mailbox cannot be used any more.
        PairingTimeout: no scientist came within `timeout_s`, or the mailbox has expired.
        IncompatiblePeer, RemoteProtocolError, and what the mailbox and `answer` raise.
    """
    try:
        async with _deadline(timeout_s, "no scientist came"):
            agreement = KeyAgreement(code, Role.OWNER)
            await mailbox.send(pb.Envelope(pake=agreement.message).SerializeToString())
            message = await mailbox.receive()
        async with _deadline(OWNER_TIMEOUT_S, "a scientist came, but pairing did not end"):
            envelope = _read_envelope(message)
            key = agreement.finish(envelope.pake)
            their_hello, offer = open_introduction(key, envelope.sealed)
            try:
                protocol, features = negotiate(hello, their_hello)
            except IncompatiblePeer:
                # send our hello anyway, from which the scientist finds the same
                await mailbox.send(_sealed_envelope(key, dataclasses.replace(hello, relays=()), b""))
                raise
            lends, hello = hello, dataclasses.replace(hello, relays=())
            if lends.relays and BORROWS in their_hello.features:
                await mailbox.send(_sealed_envelope(key, lends, b""))
                _, offer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            payload = await answer(their_hello, offer)
            await mailbox.send(_sealed_envelope(key, hello, payload))
            return Paired(key, their_hello, offer, protocol, features)
    except WrongCode:
        await mailbox.close("wrong-code")
        raise _wrong_code(code) from None
    except BaseException:
        await mailbox.close("errory")
        raise


async def connected(mailbox: Mailbox, code: SessionCode, connecting: Awaitable[T]) -> T:
    """Await `connecting` on the owner's side, unless the scientist leaves without the answer.

    Closes the mailbox.

    Raises:
        WrongCode: the answer was altered on the way; the code cannot be used any more.
        PeerUnreachable: the answer was lost on the way, or the scientist has given up.
        What `connecting` raises.
    """
    trying, taken = asyncio.ensure_future(connecting), asyncio.ensure_future(_wait_left(mailbox, code))
    try:
        await asyncio.wait((trying, taken), return_when=asyncio.FIRST_COMPLETED)
        if not trying.done():
            await taken
        result = await trying
    except BaseException:
        await mailbox.close("errory")
        raise
    finally:
        for task in (trying, taken):
            task.cancel()
        await asyncio.gather(trying, taken, return_exceptions=True)
    await mailbox.close()
    return result


async def _wait_left(mailbox: Mailbox, code: SessionCode) -> None:
    """Wait until the scientist has left with the answer, or the mailbox can tell nothing more."""
    try:
        while True:
            await mailbox.receive()  # no further message is expected
    except OtherSideDone:
        return
    except WrongCode:
        raise _wrong_code(code) from None
    except LinkClosed:
        raise PeerUnreachable(
            f"a scientist who knows code {code.nameplate} came, and left before this side's answer arrived: "
            "it was lost on the way, or they gave up; launch() a new code"
        ) from None
    except DuetError:  # the mailbox has ended, which connecting does not need
        return


def _wrong_code(code: SessionCode) -> WrongCode:
    return WrongCode(
        f"a wrong code was tried for {code.nameplate}, or a message was altered on the way; the code is "
        "burnt: run launch() for a new one"
    )


async def pair_scientist(
    mailbox: Mailbox,
    code: SessionCode,
    hello: SignalingHello,
    offer: bytes | Awaitable[bytes],
    timeout_s: float | None = SCIENTIST_TIMEOUT_S,
    borrow: Callable[[tuple[IceServer, ...]], Awaitable[bytes]] | None = None,
) -> Paired:
    """Prove to the owner that this side knows the words, send the offer, and return the owner's answer.

    An awaitable `offer` runs while the owner's message is on its way, and is cancelled on failure. `borrow`
    makes another offer with TURN servers that the owner lends. It is called at most once, and only if `hello`
    has the feature `BORROWS`. On success the mailbox stays open. On any failure, cancellation included, it is
    closed.

    Raises:
        WrongCode: the words are wrong, or a message was altered; the code cannot be used any more.
        PairingTimeout: the owner did not answer within `timeout_s`.
        PeerUnreachable: the owner has left, and its answer has not arrived.
        IncompatiblePeer, RemoteProtocolError, and what the mailbox and `offer` raise.
    """
    offering = asyncio.ensure_future(_value(offer))
    try:
        async with _deadline(timeout_s, f"no answer of the owner of code {code.nameplate} came"):
            agreement = KeyAgreement(code, Role.SCIENTIST)
            key = agreement.finish(_read_envelope(await mailbox.receive()).pake)
            await mailbox.send(_sealed_envelope(key, hello, await offering, agreement.message))
            their_hello, answer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            protocol, features = negotiate(hello, their_hello)
            if borrow is not None and their_hello.relays and not answer:
                offer = await borrow(their_hello.relays)
                await mailbox.send(_sealed_envelope(key, hello, offer))
                _, answer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            return Paired(key, their_hello, answer, protocol, features)
    except WrongCode:
        await mailbox.close("wrong-code")
        raise WrongCode(
            f"the words do not match those of code {code.nameplate}, or a message was altered on the way; "
            "the code is burnt: ask the owner for a new one"
        ) from None
    except OtherSideDone:
        await mailbox.close("errory")
        raise PeerUnreachable(
            f"the owner of code {code.nameplate} has left, and its answer was lost on the way; ask the owner "
            "for a new code"
        ) from None
    except BaseException:
        await mailbox.close("errory")
        raise
    finally:
        offering.cancel()
        await asyncio.gather(offering, return_exceptions=True)


def seal_introduction(key: SessionKey, hello: SignalingHello, payload: bytes) -> bytes:
    return key.seal(pb.Introduction(hello=hello.to_wire(), payload=payload).SerializeToString())


def open_introduction(key: SessionKey, sealed: bytes) -> tuple[SignalingHello, bytes]:
    """Open and parse an introduction.

    Raises WrongCode if it does not open, RemoteProtocolError if the authenticated content is malformed.
    """
    introduction = parsed(pb.Introduction, key.open(sealed), "the peer's introduction cannot be read")
    return SignalingHello.from_wire(introduction.hello), introduction.payload


def _sealed_envelope(key: SessionKey, hello: SignalingHello, payload: bytes, pake: bytes = b"") -> bytes:
    return pb.Envelope(pake=pake, sealed=seal_introduction(key, hello, payload)).SerializeToString()


def _read_envelope(data: bytes) -> pb.Envelope:
    """Parse an envelope.

    Raises WrongCode if it is malformed, because a side that knows the words does not send that.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise WrongCode(f"a pairing message of {len(data)} bytes")
    try:
        return pb.Envelope.FromString(data)
    except DecodeError:
        raise WrongCode("the pairing message cannot be read") from None


async def _value(offer: bytes | Awaitable[bytes]) -> bytes:
    return offer if isinstance(offer, bytes) else await offer


@contextlib.asynccontextmanager
async def _deadline(timeout_s: float | None, what: str) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, but raises PairingTimeout.

    A TimeoutError of the body is passed on unchanged.
    """
    timeout = asyncio.timeout(timeout_s)
    try:
        async with timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise PairingTimeout(f"{what} within {timeout_s:g} s; the owner has to launch() a new code") from None
