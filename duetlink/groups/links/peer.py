"""Another member of a group, as this one is linked to it, and what it said last."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from duetlink.errors import LimitExceeded, PeerLost
from duetlink.net.link.link import Link

# What is kept of a member's words: enough for the topics that there are, little enough to be kept for ever.
MOST_TOPICS = 8
MOST_TOPIC_CHARACTERS = 32
MOST_WORD_BYTES = 256


@dataclass(slots=True)
class Peer:
    """Another member, or one to be."""

    seat: int
    link: Link | None = None
    making: asyncio.Task[None] | None = None
    is_greeted: bool = False  # it has this link as well, and can be sent to
    losing: asyncio.Task[None] | None = None  # counts how long it has been out of reach
    loss: PeerLost | None = None  # why it would be lost, then
    is_linked: bool = False  # to all that were there before it; known to the founder only
    words: dict[str, bytes] = field(default_factory=dict)  # its latest on each topic

    def keep_word(self, topic: str, content: bytes) -> None:
        """Keep what it says on that topic, in place of what it said before. Raises LimitExceeded."""
        if len(topic) > MOST_TOPIC_CHARACTERS or len(content) > MOST_WORD_BYTES:
            raise LimitExceeded(
                f"member {self.seat} sent {len(content)} bytes on a topic, more than are allowed"
            )
        if topic not in self.words and len(self.words) >= MOST_TOPICS:
            raise LimitExceeded(f"member {self.seat} has words on more than {MOST_TOPICS} topics")
        self.words[topic] = content
