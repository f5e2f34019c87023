from __future__ import annotations

import pytest

from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.memory import MemoryMailbox
from duetlink.testing.signaling import MailboxContract


class TestMemoryMailbox(MailboxContract):
    async def open_pair(self) -> tuple[MemoryMailbox, MemoryMailbox]:
        return MemoryMailbox.pair()


class TestWebSocketMailbox(MailboxContract):
    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        self.url = url

    async def open_pair(self) -> tuple[WebSocketMailbox, WebSocketMailbox]:
        owner, nameplate = await WebSocketMailbox.claim(self.url)
        return owner, await WebSocketMailbox.join(self.url, nameplate)


class TestMailboxOfAHall(MailboxContract):
    @pytest.fixture(autouse=True)
    def _server(self, url: str) -> None:
        self.url = url

    async def open_pair(self) -> tuple[WebSocketMailbox, WebSocketMailbox]:
        owners, nameplate = await WebSocketMailbox.claim_seats(self.url, 2)
        first = await WebSocketMailbox.join(self.url, nameplate)
        await first.close()
        await owners[0].close()
        return owners[1], await WebSocketMailbox.join(self.url, nameplate)
