"""The events that `machine.step` takes, and the actions that it returns.

A member announces that it leaves over its own links. What the other members do about it travels over other
links, which may be faster. Therefore each member that learns of it first relays it to all, before it sends
anything else. Since a link keeps the order of its messages, every member knows that the announcement was made
before it sees a consequence of it, such as a ballot without that member or the end of its links.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from duetlink.groups.membership.messages import Epoch, Message

# -- events ------------------------------------------------------------------------------------------------


class Begun(msgspec.Struct, frozen=True):
    """An operation of this epoch has begun here. Allowed only while `MemberState.may_begin`."""


class Ended(msgspec.Struct, frozen=True):
    """No operation runs here any more; `finished` of them succeeded, others left their inputs unchanged."""

    finished: int = 1


class Gone(msgspec.Struct, frozen=True):
    """The link to this seat is gone for good."""

    seat: int


class Missed(msgspec.Struct, frozen=True):
    """This seat is silent. With this member's own seat: this process itself was stopped for a while."""

    seat: int


class Found(msgspec.Struct, frozen=True):
    """This seat is no longer silent."""

    seat: int


class Waited(msgspec.Struct, frozen=True):
    """This seat has been silent for `patience_s`. `Gone` follows if it stays silent as long again."""

    seat: int


class AbortEpoch(msgspec.Struct, frozen=True):
    """An operation failed here, and its messages may still be in flight, so a new epoch is needed."""


class Leave(msgspec.Struct, frozen=True):
    """The user of this member closes the group."""


class Admit(msgspec.Struct, frozen=True):
    """These newcomers have links to all members and may join the next epoch."""

    seats: tuple[int, ...]


class MessageReceived(msgspec.Struct, frozen=True):
    sender: int
    message: Message


Event = Begun | Ended | Gone | Missed | Found | Waited | AbortEpoch | Leave | Admit | MessageReceived


# -- actions -----------------------------------------------------------------------------------------------


class SendToMember(msgspec.Struct, frozen=True):
    """Send to one seat, if there is a link to it."""

    to: int
    message: Message


class SendToAll(msgspec.Struct, frozen=True):
    """Send to every seat that this member has a link to."""

    message: Message


class GiveUp(msgspec.Struct, frozen=True):
    """Close the link to this seat, which is regarded as lost."""

    seat: int


class Revoke(msgspec.Struct, frozen=True):
    """End the operations of this epoch, because `seat` is lost or (`leaves`) leaves.

    If `seat` is None, an operation failed at some member, which ends the same operation at the others. The
    caller feeds `Ended` afterwards if anything was running.
    """

    epoch: Epoch
    seat: int | None
    leaves: bool


class Enter(msgspec.Struct, frozen=True):
    """Begin this epoch.

    `even` says that all members had finished the same number of operations of the last epoch, so an
    interrupted operation may simply be repeated.
    """

    epoch: Epoch
    even: bool


End = Literal["left", "put out", "no majority", "not admitted"]


class Stop(msgspec.Struct, frozen=True):
    """End this member's part in the group: no operation will run here again."""

    why: str
    end: End
    without: tuple[int, ...] = ()  # members of the epoch that are lost or out of reach, if that is why


Action = SendToMember | SendToAll | GiveUp | Revoke | Enter | Stop
