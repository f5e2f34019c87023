"""How a mailbox ended, as the error that `Mailbox.receive` raises: one text for every kind of mailbox."""

from __future__ import annotations

from duetlink.errors import DuetError, LinkClosed, SignalingRefused, WrongCode
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES

CLOSED_HERE = "this side has closed the mailbox"


class OtherSideDone(LinkClosed):
    """The other side has all that it needs, and has left."""


def other_side_left(mood: str) -> DuetError:
    """The error for a side whose peer left with this mood; moods that are not known count as "errory"."""
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
    """Raises SignalingRefused for a message that no mailbox takes."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise SignalingRefused(
            f"a message of {len(message)} bytes is too large for signaling, which takes {MAX_MESSAGE_BYTES}"
        )
