"""Another member of a group: the link to it, and its latest status messages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from duetlink.errors import LimitExceeded, PeerLost
from duetlink.net.link.link import Link

# Limits on the status messages kept of one member: enough for the topics in use, and harmless to keep.
MOST_TOPICS = 8
MOST_TOPIC_CHARACTERS = 32
MOST_WORD_BYTES = 256


@dataclass(slots=True)
class Peer:
    """Another member, or a newcomer."""

    seat: int
    link: Link | None = None
    making: asyncio.Task[None] | None = None  # makes the link
    is_greeted: bool = False  # it has sent its greeting, so its end of the link works
    losing: asyncio.Task[None] | None = None  # counts the time since its link fell silent
    loss: PeerLost | None = None  # the error if it stays silent
    is_linked: bool = False  # it has links to all earlier members; known at the host only
    statuses: dict[str, bytes] = field(default_factory=dict)  # its latest status message on each topic

    def keep_status(self, topic: str, content: bytes) -> None:
        """Keep a status message in place of the last one on its topic.

        Raises LimitExceeded for more than 256 bytes, a topic of more than 32 characters, or a ninth topic.
        """
        if len(topic) > MOST_TOPIC_CHARACTERS or len(content) > MOST_WORD_BYTES:
            raise LimitExceeded(
                f"member {self.seat} sent a status message of {len(content)} bytes on a topic of "
                f"{len(topic)} characters; at most {MOST_WORD_BYTES} and {MOST_TOPIC_CHARACTERS} are allowed"
            )
        if topic not in self.statuses and len(self.statuses) >= MOST_TOPICS:
            raise LimitExceeded(f"member {self.seat} sent status messages on more than {MOST_TOPICS} topics")
        self.statuses[topic] = content
