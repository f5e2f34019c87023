"""Processes that stand for the members of a group; the one of rank 0 tells what was measured."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import click


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def of_all(processes: Sequence[subprocess.Popen[Any]]) -> Any:
    """What rank 0 prints as JSON, once all have ended. Raises click.ClickException: one of them failed."""
    told, _ = processes[0].communicate()
    if any(process.wait() for process in processes):
        raise click.ClickException("a member failed")
    return json.loads(told)


def measured(module: str, members: int, *arguments: object) -> Any:
    """Of processes of this host, started with its rank, the number of members, a port, and `arguments`."""
    command = [sys.executable, "-m", module]
    given = [str(each) for each in (members, free_port(), *arguments)]
    return of_all(
        [
            subprocess.Popen([*command, str(rank), *given], stdout=subprocess.PIPE if rank == 0 else None)
            for rank in range(members)
        ]
    )
