"""gRPC without its log: it writes a line to standard error for whatever a stranger sends to our port.

pyarrow has a gRPC of its own, which cannot be asked to write anywhere else. It reads how much it shall write
from the environment, when its first server or client is made. That is C's environment: `os.environ`, which
other threads may be reading at the moment, stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERBOSITY = "GRPC_VERBOSITY"


@contextmanager
def silenced() -> Iterator[None]:
    """Around the making of a server or client. Where a person has set the variable, theirs holds."""
    if _VERBOSITY in os.environ:
        yield
        return
    os.putenv(_VERBOSITY, "NONE")
    try:
        yield
    finally:
        os.unsetenv(_VERBOSITY)
