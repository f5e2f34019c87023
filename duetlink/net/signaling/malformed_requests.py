"""Connections that are no clients': what they send is not HTTP, and of no interest to a person."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp.http_exceptions import HttpProcessingError

_TOLD_EACH_S = 60.0

_log = logging.getLogger(__name__)


class MalformedRequests(logging.Handler):
    """Takes in what aiohttp logs: of requests that are none only their number is told, once a minute.

    aiohttp would log a traceback for each, which Python prints where nobody has configured logging: into the
    owner's notebook. The number is logged as INFO, which Python does not print by itself.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.logger = logging.Logger("aiohttp.server", logging.WARNING)  # not that of other servers
        self.logger.addHandler(self)
        self._clock = clock
        self._told_s = clock()
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            self._count += 1
        else:
            _log.handle(record)  # a defect of ours

    def tell(self, *, now: bool = False) -> None:
        """Log how many there were, if it is a minute ago that it was told, or if `now`."""
        if not now and self._clock() - self._told_s < _TOLD_EACH_S:
            return
        self._told_s = self._clock()
        if self._count:
            _log.info("%d connections that were no clients' were refused", self._count)
            self._count = 0
