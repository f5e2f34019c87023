"""The helper process: one attempt at one path, from its configuration to its end.

It is a separate process because a busy cell of the notebook holds the interpreter's lock for longer than
packets can wait. It starts when a path is tried. It ends with the path, with a `down` event that gives the
reason, or when its standard input is closed, which happens whenever the kernel ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import selectors
import traceback
from importlib import import_module

from duetlink.errors import DuetError, LimitExceeded, LocalProtocolError, PathUnavailable
from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES, MAX_SIGNALS, Establish, Established, Session
from duetlink.net.carrier.helper.console import Console
from duetlink.net.carrier.multiplexing.mux import Mux

_HELLO_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 1.0
_STATISTICS_INTERVAL_S = 1.0

_DRIVERS = {
    "udp": ("ice", "establish_direct"),
    "relay": ("ice", "establish_relayed"),
    "punched": ("punch", "establish"),
}


class Process:
    """The carrier of one attempt."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._signals: asyncio.Queue[bytes] = asyncio.Queue()
        self._sent = 0

    async def run(self) -> None:
        """Carry connections until the route is lost or the kernel closes the helper."""
        task = asyncio.current_task()
        assert task is not None
        self._console.read(self._lines.put_nowait, on_end=task.cancel)
        configuration = Configuration.from_json(await self._lines.get())
        commands = asyncio.ensure_future(self._run_commands(task))
        try:
            why = await self._carry(configuration)
        except DuetError as error:
            why = str(error)
        except OSError as error:
            why = error.strerror or str(error)
        finally:
            commands.cancel()
        self._console.tell(down={"why": why})

    async def _run_commands(self, task: asyncio.Task[None]) -> None:
        while True:
            command = json.loads(await self._lines.get())
            if "signal" in command:
                self._signals.put_nowait(base64.b64decode(command["signal"]))
            if "close" in command:
                task.cancel()

    async def _carry(self, configuration: Configuration) -> str:
        """Carry connections until the route is lost; return the reason."""
        session = Session(configuration, self._send, self._signals.get)
        established = await driver_of(configuration.rung)(session)
        mux = Mux(
            controlling=configuration.controlling,
            flight_port=configuration.flight_port,
            flight_host=configuration.flight_host,
        )
        try:
            transport = await established.attach(mux)
            await self._wait_ready(mux)
            return await self._serve(established, mux, transport)
        finally:
            mux.close("this side has closed the path")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await established.close()

    async def _send(self, payload: bytes) -> None:
        self._sent += 1
        if len(payload) > MAX_SIGNAL_BYTES:
            raise LocalProtocolError(f"a signal of {len(payload)} bytes is over {MAX_SIGNAL_BYTES}")
        if self._sent > MAX_SIGNALS:
            raise LimitExceeded(f"this attempt needs over {MAX_SIGNALS} signals")
        self._console.tell(signal=base64.b64encode(payload).decode())

    async def _wait_ready(self, mux: Mux) -> None:
        await asyncio.wait(
            (mux.ready, mux.ended), timeout=_HELLO_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if mux.ended.done():
            raise PathUnavailable(mux.ended.result())
        if not mux.ready.done():
            raise PathUnavailable(
                f"a route was found, but nothing came from the peer by it in {_HELLO_TIMEOUT_S:g} s"
            )

    async def _serve(self, established: Established, mux: Mux, transport: asyncio.Transport) -> str:
        listener = await asyncio.get_running_loop().create_server(mux.accept, "127.0.0.1", 0)
        lost = asyncio.ensure_future(established.wait_lost())
        self._console.tell(
            up={"port": listener.sockets[0].getsockname()[1], "description": established.description}
        )
        try:
            while not mux.ended.done() and not lost.done():
                # only a tunnel has these; the losses of a TCP connection are known to the system only
                if (datagrams := transport.get_extra_info("datagrams")) is not None:
                    self._console.tell(datagrams=datagrams)
                await asyncio.wait(
                    (mux.ended, lost),
                    timeout=_STATISTICS_INTERVAL_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            return mux.ended.result() if mux.ended.done() else lost.result()
        finally:
            lost.cancel()
            listener.close()


def driver_of(rung: str) -> Establish:
    """Return the driver of a path. It is imported only now, so that the process starts quickly."""
    module, name = _DRIVERS[rung]
    driver: Establish = getattr(import_module(f"duetlink.net.carrier.drivers.{module}"), name)
    return driver


def main() -> None:
    """Run until the attempt ends.

    An unexpected error ends it with a traceback on standard error, which the kernel reads.
    """
    console, status = Console(), 0
    # select() waits with a precision of microseconds, which pacing needs; epoll's is a millisecond
    runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector()))
    try:
        runner.run(Process(console).run())
    except asyncio.CancelledError:  # the kernel has closed the helper
        pass
    except BaseException:
        traceback.print_exc()
        status = 1
    console.close()
    # without the usual exit, which would wait for threads, for example one that waits for a name server
    os._exit(status)
