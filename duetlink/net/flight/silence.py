"""Turns off gRPC's log, which writes a line to standard error for every malformed connection of a stranger.

pyarrow contains its own gRPC, which cannot log elsewhere. It reads its log level from the environment when
the first server or client is made. Only C's environment is changed here: `os.environ`, which other threads
may be reading, stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERBOSITY = "GRPC_VERBOSITY"


@contextmanager
def silenced() -> Iterator[None]:
    """Use around the making of a server or client. If the user has set the variable, it is not changed."""
    if _VERBOSITY in os.environ:
        yield
        return
    os.putenv(_VERBOSITY, "NONE")
    try:
        yield
    finally:
        os.unsetenv(_VERBOSITY)
