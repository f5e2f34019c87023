"""Two sessions that hear each other, as the kernels would relay their signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES, Establish, Established, Session
from duetlink.net.carrier.multiplexing.mux import Mux
from duetlink.settings import IceServer

Servers = tuple[IceServer, ...]


def make_sessions(first: Servers = (), second: Servers = (), **fields: Any) -> tuple[Session, Session]:
    """The controlling side's and the other's."""
    key = os.urandom(32)
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(), asyncio.Queue()]

    def make(index: int, servers: Servers) -> Session:
        async def send(payload: bytes) -> None:
            assert len(payload) <= MAX_SIGNAL_BYTES
            queues[1 - index].put_nowait(payload)

        values = {"map_port": False} | fields
        configuration = Configuration("", index == 0, key, servers, flight_port=1, **values)
        return Session(configuration, send, queues[index].get)

    return make(0, first), make(1, second)


async def establish_both(establish: Establish, sessions: tuple[Session, Session]) -> list[Established]:
    """Both ends; if one fails, the other is ended, as the kernels do, and the failure raised."""
    tasks = [asyncio.ensure_future(establish(session)) for session in sessions]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        if task.exception() is not None:
            for other in done - {task}:
                if other.exception() is None:
                    await other.result().close()
            raise task.exception() or AssertionError
    return [task.result() for task in tasks]


class Carried:
    """Two established ends with a mux on each, and an echo server that both sides lead to."""

    def __init__(self, ends: list[Established]) -> None:
        self.ends = ends
        self.muxes: list[Mux] = []
        self.transports: list[Any] = []
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[Any]] = set()

    async def open(self) -> Carried:
        self._servers = [await asyncio.start_server(self._echo, "127.0.0.1", 0)]
        port = self._servers[0].sockets[0].getsockname()[1]
        for index, end in enumerate(self.ends):
            mux = Mux(controlling=index == 0, flight_port=port)
            self.transports.append(await end.attach(mux))
            self.muxes.append(mux)
        async with asyncio.timeout(60):
            await asyncio.gather(*(mux.ready for mux in self.muxes))
        return self

    async def exchange(self, index: int, data: bytes) -> None:
        """Send `data` from one side to the other, and have it come back as it was."""
        listener = await asyncio.get_running_loop().create_server(self.muxes[index].accept, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listener.sockets[0].getsockname()[1], limit=1 << 20
        )
        try:
            writer.write(data)
            async with asyncio.timeout(60):
                assert await reader.readexactly(len(data)) == data
        finally:
            writer.close()
            listener.close()

    async def close(self) -> None:
        for mux in self.muxes:
            mux.close("the test has ended")
        for end in self.ends:
            await end.close()
        for server in self._servers:
            server.close()
        while self._serving:
            await asyncio.sleep(0.01)
        # aioice's farewells to the TURN server
        left = asyncio.all_tasks() - {asyncio.current_task()}
        turn = [task for task in left if "TurnTransport" in repr(task)]
        for task in turn:
            task.cancel()
        await asyncio.gather(*turn, return_exceptions=True)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 18):
                writer.write(data)
                await writer.drain()
        writer.close()
        self._serving.discard(task)


@pytest.fixture
async def carry() -> AsyncIterator[Any]:
    """`carried = await carry(establish, sessions)`."""
    made: list[Carried] = []

    async def carry(establish: Establish, sessions: tuple[Session, Session]) -> Carried:
        made.append(Carried(await establish_both(establish, sessions)))
        return await made[-1].open()

    yield carry
    for carried in made:
        await carried.close()
