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
_READ = "set_default_verify_paths"


@contextlib.contextmanager
def late_certificates() -> Iterator[None]:
    """Contexts that this thread makes until the end of the block read the certificates when first used.

    Those of other threads are as ever. Does nothing where `ssl.SSLContext` is not Python's own, or has a
    `set_default_verify_paths` of its own: somebody has changed how certificates are found.
    """
    kind, thread = ssl.SSLContext, threading.get_ident()
    if kind.__module__ != "ssl" or _READ in vars(kind):
        yield
        return
    read = kind.set_default_verify_paths

    def later(context: ssl.SSLContext) -> None:
        if threading.get_ident() != thread:
            read(context)
            return
        for name in _NEEDING:
            setattr(context, name, functools.partial(first, context, name))

    def first(context: ssl.SSLContext, name: str, *arguments: Any, **keywords: Any) -> Any:
        read(context)  # threads that are here at once read them twice, which does no harm
        for each in _NEEDING:
            vars(context).pop(each, None)
        return getattr(context, name)(*arguments, **keywords)

    kind.set_default_verify_paths = later  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if vars(kind).get(_READ) is later:
            del kind.set_default_verify_paths  # inherited again
