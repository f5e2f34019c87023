"""One operation under way, as torch sees it."""

from __future__ import annotations

import concurrent.futures
import datetime
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from duetlink.errors import CallTimeout

_Base: Any = dist.distributed_c10d.Work


class PendingWork(_Base):  # type: ignore[misc]
    """Waits without the GIL, for a future that the loop thread completes."""

    def __init__(self, done: concurrent.futures.Future[int | None], outputs: list[Tensor], what: str) -> None:
        """`done`: of the operation, with the sender's rank where there is one. `outputs`: what it fills."""
        super().__init__()
        self._done = done
        self._what = what
        self._future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
        done.add_done_callback(lambda _: self._complete(outputs))

    def _complete(self, outputs: list[Tensor]) -> None:
        error = self._done.exception() if not self._done.cancelled() else concurrent.futures.CancelledError()
        if error is None:
            self._future.set_result(outputs)
        else:
            self._future.set_exception(error)  # type: ignore[arg-type] # whatever it is

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait for the end. Raises what the operation has raised, CallTimeout after `timeout`."""
        seconds = None if timeout is None or timeout.total_seconds() <= 0 else timeout.total_seconds()
        try:
            self._done.result(seconds)
        except concurrent.futures.TimeoutError:
            if self._done.done():
                raise
            raise CallTimeout(f"{self._what} timed out after {seconds} s: it goes on, wait again") from None
        return True

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[list[Tensor]]:
        return self._future

    def is_completed(self) -> bool:
        return self._done.done()

    def is_success(self) -> bool:
        return self._done.done() and self.exception() is None

    def exception(self) -> BaseException | None:
        return self._done.exception() if self._done.done() and not self._done.cancelled() else None

    def result(self) -> list[Tensor]:
        return self._future.value()

    def source_rank(self) -> int:
        rank = self._done.result()
        assert rank is not None
        return rank

    _source_rank = source_rank
