"""The handle of an operation that runs, as torch expects it."""

from __future__ import annotations

import concurrent.futures
import datetime
import threading
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from duetlink.base.reraise import reraise
from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.errors import CallTimeout, DuetError, LinkClosed
from duetlink.groups.torch.callbacks import callbacks

_Base: Any = dist.distributed_c10d.Work


class PendingWork(_Base):  # type: ignore[misc]
    """An operation that runs on the loop thread. Waiting for it releases the GIL."""

    def __init__(
        self,
        done: concurrent.futures.Future[int | None],
        outputs: list[Tensor],
        what: str,
        copies: HostCopies,
    ) -> None:
        """`done` is the operation's future, whose result is the sender's rank for a receive, else None.

        `outputs` are the tensors that the operation fills; `what` names it in errors. Outputs on accelerators
        may still be written when `done` is: what waits here, or for the future, comes after that on the
        current streams of its thread, as with torch's own backends.
        """
        super().__init__()
        self._done = done
        self._outputs = outputs
        self._what = what
        self._copies = copies
        self._begun_by = threading.get_ident()
        self._lock = threading.Lock()
        self._future: torch.futures.Future[list[Tensor]] | None = None

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait until the operation has ended; returns True.

        Raises the error of the operation; CallTimeout after `timeout`, and the operation goes on then.
        """
        seconds = None if timeout is None or timeout.total_seconds() <= 0 else timeout.total_seconds()
        try:
            self._done.result(seconds)
        except concurrent.futures.CancelledError:
            raise self._cancelled() from None
        except concurrent.futures.TimeoutError:
            if self._done.done():
                raise
            raise CallTimeout(f"{self._what} timed out after {seconds} s: it goes on, wait again") from None
        self._copies.join()
        return True

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[list[Tensor]]:
        """Return a torch future of the outputs.

        After an error it raises RuntimeError with the error's type and text, as C++ futures do; `wait` and
        `exception` have the error itself. Its callbacks run as `callbacks.py` describes.
        """
        with self._lock:  # made only on request: completing one costs a switch to another thread
            if self._future is None:
                begun: torch.futures.Future[None] = torch.futures.Future(devices=self._copies.future_devices)
                # Future.set_exception would store the exception as the value, and DDP's C++ takes tensors out
                # of that and crashes; what a callback raises is an error for C++ too
                self._future = begun.then(lambda _: self._found())
                if self._done.done():
                    begun.set_result(None)
                else:
                    self._done.add_done_callback(
                        lambda _: callbacks.run(lambda: begun.set_result(None), self._begun_by)
                    )
            return self._future

    def is_completed(self) -> bool:
        return self._done.done()

    def is_success(self) -> bool:
        return self._done.done() and self.exception() is None

    def exception(self) -> BaseException | None:
        if not self._done.done():
            return None
        return self._cancelled() if self._done.cancelled() else self._done.exception()

    def result(self) -> list[Tensor]:
        self.wait()
        return self._outputs

    def source_rank(self) -> int:
        rank = self._done.result()
        assert rank is not None
        return rank

    _source_rank = source_rank

    def _found(self) -> list[Tensor]:
        error = self.exception()
        if error is not None:
            raise reraise(error) if isinstance(error, DuetError) else error
        self._copies.join()  # on streams that torch has made current here, and which the future records
        return self._outputs

    def _cancelled(self) -> LinkClosed:
        return LinkClosed(f"{self._what} has not ended: this rank has left the job")
