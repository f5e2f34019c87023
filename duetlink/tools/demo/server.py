"""The demo's signaling server: `duetlink signal` in a separate process, as a third party would run it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from duetlink.tools.demo.errors import DemoFailed

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0


@contextlib.asynccontextmanager
async def signaling_server() -> AsyncIterator[str]:
    """Run the server on a free port and give its address; the process ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "duetlink", "signal", "--port", "0", "--until-eof"),
        stdin=asyncio.subprocess.PIPE,  # closed when this process ends in any way; the server then ends too
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal goes to the demo only, which then stops the server
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _START_TIMEOUT_S)
        except TimeoutError:
            line = b""
        variable, _, address = line.decode().strip().partition("=")
        if variable != "DUETLINK_SIGNALING":
            raise DemoFailed("the signaling server did not start; try `duetlink signal --port 0` to see why")
        yield address
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
