"""`duetlink.log_to(path)`: a file of internal events, to be sent with a bug report."""

from __future__ import annotations

import datetime
import json
import logging
import os
import platform
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from duetlink.base import events
from duetlink.base.events import Event, Shown
from duetlink.version import __version__

MAX_BYTES = 16 * 1024 * 1024  # so that a peer that causes endless events does not fill the disk

_LOGGER = logging.getLogger("duetlink")


class EventLog(logging.Handler):
    """An open file of `log_to`. Any thread may call; `close` it, or use it in a `with` block."""

    def __init__(self, path: Path, *, addresses: bool) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self._addresses = addresses
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._left_bytes = MAX_BYTES
        self._writing = threading.Lock()
        self._write(
            "log_began",
            duetlink=__version__,
            python=platform.python_version(),
            system=sys.platform,
            machine=platform.machine(),
            cpus=os.cpu_count(),
        )
        self._unlisten = events.listen(self._on_event)
        _LOGGER.addHandler(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<log of events in {self.path}{', closed' if self._file is None else ''}>"

    def close(self) -> None:
        """Stop writing. Safe to call twice."""
        self._unlisten()
        _LOGGER.removeHandler(self)
        with self._writing:
            if self._file is not None:
                os.close(self._file)
                self._file = None
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Log the origin of a warning, but not its text, which may quote anybody."""
        error = record.exc_info[0] if record.exc_info else None
        self._write(
            "logged",
            level=record.levelname,
            module=record.name,
            line=record.lineno,
            error=None if error is None else events.error_name(error),
        )
        handlers = [*_LOGGER.handlers, *logging.getLogger().handlers]
        is_first = handlers[0] is self and all(isinstance(handler, EventLog) for handler in handlers)
        if is_first and logging.lastResort is not None:  # a log must not hide what Python prints without one
            logging.lastResort.handle(record)

    def _on_event(self, event: Event, source: int) -> None:
        self._write(event.name(), source=source, **event.shown(addresses=self._addresses))

    def _write(self, event: str, **fields: Shown) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields}).encode() + b"\n"
        with self._writing:
            if self._file is None or self._left_bytes < 0:
                return
            self._left_bytes -= len(line)
            os.write(self._file, line if self._left_bytes >= 0 else b'{"event": "log_full"}\n')


def log_to(path: str | os.PathLike[str], *, addresses: bool = False) -> EventLog:
    """Append internal events from now on to the file `path`, for a bug report.

    Each event is a line of JSON with its time in UTC, its name and its fields.

    The file contains no values, names, session codes or texts of users. It contains sizes, times, the
    versions of duetlink and Python, and the paths and codecs that were tried; addresses only with
    `addresses=True`. Only its owner may read it. Logging ends at 16 MiB, when the returned object is closed,
    or with this process.

        with duetlink.log_to("report.jsonl"):
            duet = duetlink.join(code)

    Raises:
        OSError: the file cannot be written.
    """
    return EventLog(Path(path), addresses=addresses)
