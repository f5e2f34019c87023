"""Asking for what an operation has made: the same request as for an asset, for a result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duetlink.compute.privacy.statistic import PrivateStatistic
from duetlink.duet.asking.requests.asking import What

if TYPE_CHECKING:
    from duetlink.duet.asking.recording.program import Program
    from duetlink.duet.asking.requests.pending_request import PendingRequest


class Asked:
    """What a pointer to a result can ask its owner for."""

    __slots__ = ()
    _program: Program
    _id: int

    def request(self, reason: str = "", *, expires_s: float | None = None) -> PendingRequest:
        """Ask for what this is at the owner, as it is when all that was recorded so far is done, and return
        at once. Awaitable; see PendingRequest. After `expires_s` the owner can no longer say yes.
        """
        return self._program.ask(self, reason, expires_s, What())

    def get(self, *key: Any, reason: str = "", timeout_s: float | None = None, **more: Any) -> Any:
        """Ask, wait for the answer, and return the value, as it is at the owner.

        With a key it is the object's own `get`, as of a frame, a series or `series.str`, and asks nobody.

        `timeout_s` bounds the whole call: the wait for the answer and the transfer. When it is over, or where
        the call is interrupted, the request is withdrawn or the transfer cancelled.

        Raises:
            UnsupportedValue: its mock cannot travel, and neither can it; nobody was asked.
            ProgramDiffers: its program, run alone on the mocks, makes something else than the mock here.
            OperationFailed: it could not be made there; the message says as much of that as the owner tells.
            RequestDenied: the owner said no; `.reason` has the owner's words.
            RequestTimeout: no answer within `timeout_s`, or it had not arrived by then.
            TransferFailed, LinkClosed: it did not arrive; nothing partial is kept.
        """
        if key or more:
            return self._look_up(key, more)
        return self.request(reason).result_or_withdraw(timeout_s)

    if TYPE_CHECKING:

        def _look_up(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            """The object's own `get`."""

    def dp(
        self,
        epsilon: float,
        *,
        bounds: tuple[float, float] | None = None,
        reason: str = "",
        timeout_s: float | None = None,
        **more: Any,
    ) -> PrivateStatistic:
        """A private statistic in place of this one: of the count, sum, mean, var, quantile or histogram of a
        column, with noise, paid from the budget that its owner has set. It is answered at once.

        `bounds` are the lowest and highest item that counts, in place of the owner's; what is known without
        the data. `more` may be `candidates` of a quantile, `bins` or `categories` of a histogram.

        Raises:
            OperationRefused: no private statistic can be made of it; the message says why, and what to do.
            BudgetExceeded: there is not enough left; nothing was spent.
            OperationFailed: it could not be made. What it costs is spent.
        """
        asked = {"epsilon": epsilon, "bounds": bounds, **more}
        statistic = json.dumps({key: value for key, value in asked.items() if value is not None}).encode()
        pending = self._program.ask(self, reason, None, What(statistic=statistic))
        return PrivateStatistic(**pending.result_or_withdraw(timeout_s))
