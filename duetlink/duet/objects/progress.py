"""A progress bar for a transfer that takes more than a second, in a notebook and in a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from duetlink.net.link.transfer import Transfer

DELAY_S = 1.0


class Progress:
    """Draws one transfer with tqdm. Use on the thread that waits: output belongs to its cell."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def show(self, transfer: Transfer | None) -> None:
        """Draw `transfer` as it is now; nothing before it has taken DELAY_S."""
        if transfer is None:
            return
        if self._bar is None:
            if transfer.status().duration_s < DELAY_S:
                return
            self._bar = _tqdm()(total=transfer.size_bytes, unit="B", unit_scale=True, desc=self._name)
        self._bar.set_postfix_str(transfer.path, refresh=False)
        self._bar.update(transfer.done_bytes - self._bar.n)
        if transfer.done_bytes == transfer.size_bytes:
            self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tqdm() -> Any:
    from tqdm.auto import tqdm

    return tqdm
