"""The embedded signaling server of this process: it runs while there are codes that name it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duetlink.errors import SettingError
from duetlink.net.signaling.discovery import SignalingServer
from duetlink.settings import Settings

if TYPE_CHECKING:
    from duetlink.net.signaling.embedded import EmbeddedServer


class Hosting:
    """Counts the duets whose codes name the server. Methods belong to the loop thread."""

    def __init__(self) -> None:
        self._order = asyncio.Lock()
        self._server: EmbeddedServer | None = None
        self._settings = Settings()  # those of the first user
        self._named = 0

    async def begin(self, settings: Settings) -> SignalingServer:
        """Return a server to name in a code, until `end`. It listens where the settings say.

        Raises SignalingUnavailable, PortUnavailable, and SettingError if it already listens elsewhere.
        """
        listen, ports = settings.listen, settings.signaling_ports
        async with self._order:
            if self._server is not None and listen != self._settings.listen:
                raise SettingError(
                    f"listen={listen!r}: the signaling server of this kernel listens at "
                    f"{self._settings.listen or 'all addresses'} already, for another duet; use one setting "
                    "for all"
                )
            if self._server is not None and ports is not None and self._server.port not in ports:
                raise SettingError(
                    f"signaling_port={settings.signaling_port!r}: the signaling server of this kernel "
                    f"listens at port {self._server.port} already, for another duet; use one setting for all"
                )
            if self._server is None:
                # imported here: a side that joins needs no server, and its library loads slowly
                from duetlink.net.signaling.embedded import EmbeddedServer

                server = EmbeddedServer(listen=listen, ports=ports)
                try:
                    await server.start()
                except BaseException:
                    await server.stop()
                    raise
                self._server, self._settings = server, settings
            self._named += 1
            return self._server.address

    async def end(self) -> None:
        """Stop the server after the last code that names it has ended."""
        async with self._order:
            self._named -= 1
            if self._named == 0 and self._server is not None:
                server, self._server = self._server, None
                await server.stop()
