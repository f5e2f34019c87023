"""Log filter for connections that do not speak HTTP, which are of no interest to a user."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp.http_exceptions import HttpProcessingError

_LOG_INTERVAL_S = 60.0

_log = logging.getLogger(__name__)


class MalformedRequests(logging.Handler):
    """Receives aiohttp's log records, and logs only the number of malformed requests, once a minute.

    aiohttp logs a traceback for each. If logging is not configured, Python would print them into the owner's
    notebook. The number is logged as INFO, which Python does not print by default.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.logger = logging.Logger(
            "aiohttp.server", logging.WARNING
        )  # a logger of its own, not that of other servers in this process
        self.logger.addHandler(self)
        self._clock = clock
        self._logged_s = clock()
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            self._count += 1
        else:
            _log.handle(record)  # an error of our own

    def tell(self, *, now: bool = False) -> None:
        """Log the number, if a minute has passed since the last time, or if `now`."""
        if not now and self._clock() - self._logged_s < _LOG_INTERVAL_S:
            return
        self._logged_s = self._clock()
        if self._count:
            _log.info("%d connections that were no clients' were refused", self._count)
            self._count = 0
