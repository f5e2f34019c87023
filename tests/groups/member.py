"""A member in a process of its own, driven by lines on stdin: `python member.py NAME`.

The first line is the code to join by, empty for whoever launches. Each further line is one statement, run
with `group`, `np` and what earlier lines defined; after each, one line is answered: `ok` and the repr of
`out` if set, or `error` and the exception's type and text. `times` holds when this member first knew of a
loss, "known", and when the last failure had come to the caller, "failed", by `time.monotonic()`, which all
processes of a host share.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink.errors import PeerLost
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.links.mesh import Mesh
from duetlink.groups.membership.messages import Epoch
from duetlink.settings import Settings
from duetlink.testing.faults import replace_function

QUICK = Settings(heartbeat_interval_s=0.2, heartbeat_timeout_s=2.0, reconnect_timeout_s=2.0, only=("tcp",))


def die_in_the_middle(after: int) -> None:
    """Kill this process at its so many-th message to another member."""
    original, sent = Mesh.send, 0

    async def send(self: Mesh, to: int, head: bytes, body: memoryview) -> None:
        nonlocal sent
        sent += 1
        if sent > after:
            os.kill(os.getpid(), signal.SIGKILL)
        await original(self, to, head, body)

    Mesh.send = send  # type: ignore[method-assign]


def note_losses(times: dict[str, float]) -> None:
    """Write down when this member first knows that another is lost, by its own link or by a word."""

    def revoke(self: GroupLife, epoch: Epoch, lost: int | None, leaves: bool) -> None:
        if lost is not None:
            times.setdefault("known", time.monotonic())
        original(self, epoch, lost, leaves)

    original = replace_function(pytest.MonkeyPatch(), GroupLife, "revoke", revoke)


def main() -> None:
    times: dict[str, float] = {}
    note_losses(times)
    arguments: dict[str, Any] = {"name": sys.argv[1], "settings": QUICK, "patience_s": 0.0}
    code = sys.stdin.readline().strip()
    group = duetlink.group(code, **arguments) if code else duetlink.group(size=3, **arguments)
    scope: dict[str, object] = {
        "np": np,
        "group": group,
        "PeerLost": PeerLost,
        "die_in_the_middle": die_in_the_middle,
        "times": times,
    }
    for line in itertools.chain(["pass"], sys.stdin):
        scope["out"] = None
        try:
            exec(line, scope)  # this test's own statements
            print("ok", repr(scope["out"]), flush=True)
        except Exception as error:
            times["failed"] = time.monotonic()
            print("error", type(error).__name__, str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
