"""Makes TLS contexts read the system's certificates when they are first used.

`import aiohttp` makes two contexts, each with all certificates of the system. Signaling on one machine or in
one laboratory needs neither.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
import threading
from collections.abc import Iterator
from typing import Any

# methods of a context that need the certificates; a context without them trusts no one
_NEEDING = ("wrap_bio", "wrap_socket", "get_ca_certs", "cert_store_stats")


@contextlib.contextmanager
def late_certificates() -> Iterator[None]:
    """Contexts made until the end of the block, in any thread, read the certificates when first used."""
    ssl.SSLContext.set_default_verify_paths = _later  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths  # inherited again


def _later(context: ssl.SSLContext) -> None:
    lock = threading.Lock()

    def first(name: str, *arguments: Any, **keywords: Any) -> Any:
        with lock:
            if name in vars(context):  # no other thread was faster
                ssl.SSLContext.set_default_verify_paths(context)
                for each in _NEEDING:
                    delattr(context, each)
        return getattr(context, name)(*arguments, **keywords)

    for name in _NEEDING:
        setattr(context, name, functools.partial(first, name))
