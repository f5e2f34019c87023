"""What happens to an epoch, and what a member has to do about it: in and out of `machine.py`.

Who leaves. A member's word that it leaves comes by its own link, and what others do about it by theirs, which
may be quicker. So whoever first hears that a member leaves tells it on, before anything else; as each link
keeps the order, nobody hears of what follows (a ballot without that member, the end of its links) before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duetlink.groups.membership.messages import Epoch, Message

# -- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """An operation of this epoch runs here; only where `may_begin`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """None runs any more; `finished` have ended well, the others left their inputs as they were."""

    finished: int = 1


@dataclass(frozen=True, slots=True)
class Gone:
    """The link to this seat is gone for good."""

    seat: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Nothing is heard of this seat. Of this member's own: it was stopped for a while."""

    seat: int


@dataclass(frozen=True, slots=True)
class Found:
    """This seat is heard again."""

    seat: int


@dataclass(frozen=True, slots=True)
class Waited:
    """This seat has been missed for as long as a member is waited for. `Gone` follows if it stays so."""

    seat: int


@dataclass(frozen=True, slots=True)
class AbortEpoch:
    """An operation failed here, and its messages may still be on their way."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The person here closes the group."""


@dataclass(frozen=True, slots=True)
class Admit:
    """These newcomers have links to everybody and may come in."""

    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MessageReceived:
    sender: int
    message: Message


Event = Begun | Ended | Gone | Missed | Found | Waited | AbortEpoch | Leave | Admit | MessageReceived


# -- actions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendToMember:
    """To one seat, if there is a link to it."""

    to: int
    message: Message


@dataclass(frozen=True, slots=True)
class Tell:
    """To every seat that there is a link to."""

    message: Message


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the link to this seat: it is taken for gone."""

    seat: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """End what runs in this epoch: `seat` is lost, or leaves. `Ended` follows if anything ran.

    None: somebody's operation failed, which ends the same operation at the others.
    """

    epoch: Epoch
    seat: int | None
    leaves: bool


@dataclass(frozen=True, slots=True)
class Enter:
    """`even`: all had finished the same number of operations, so who was interrupted may simply try again."""

    epoch: Epoch
    even: bool


End = Literal["left", "put out", "no majority", "not admitted"]


@dataclass(frozen=True, slots=True)
class Stop:
    """No operation will ever run here again."""

    why: str
    end: End
    without: tuple[int, ...] = ()  # members of the epoch that are lost or out of reach, if that is why


Action = SendToMember | Tell | GiveUp | Revoke | Enter | Stop
