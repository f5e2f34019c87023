"""The errors with which `Mailbox.receive` says how a mailbox ended: one text for all kinds of mailboxes."""

from __future__ import annotations

from duetlink.errors import DuetError, LinkClosed, SignalingRefused, WrongCode
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES

CLOSED_HERE = "this side has closed the mailbox"


class OtherSideDone(LinkClosed):
    """The other side has everything that it needs, and has left."""


def other_side_left(mood: str) -> DuetError:
    """Return the error for a mailbox that the other side left with this mood.

    Unknown moods count as "errory".
    """
    if mood == "wrong-code":
        return WrongCode(
            "the two sides do not have the same code; it is burnt: the owner has to launch() a new one"
        )
    if mood == "happy":
        return OtherSideDone("the other side has closed the mailbox")
    if mood == "lonely":
        return LinkClosed("the other side stopped waiting and left; the owner has to launch() a new code")
    return LinkClosed("the other side left before pairing was complete; the owner has to launch() a new code")


def check_size(message: bytes) -> None:
    """Raise SignalingRefused if the message is too large for any mailbox."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise SignalingRefused(
            f"a message of {len(message)} bytes is too large for signaling, which takes {MAX_MESSAGE_BYTES}"
        )
