"""The methods `request`, `get` and `dp` of pointers to results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duetlink.compute.privacy.statistic import PrivateStatistic
from duetlink.duet.asking.requests.asking import What

if TYPE_CHECKING:
    from duetlink.duet.asking.recording.program import Program
    from duetlink.duet.asking.requests.pending_request import PendingRequest


class ResultRequests:
    """Mixin of pointers to results: the methods that request the result from its owner."""

    __slots__ = ()
    _program: Program
    _id: int

    def request(self, reason: str = "", *, expires_s: float | None = None) -> PendingRequest:
        """Ask the owner for the real result and return at once. Awaitable; see PendingRequest.

        The result is computed by all steps recorded up to this call. After `expires_s` seconds the owner can
        no longer approve.
        """
        return self._program.ask(self, reason, expires_s, What())

    def get(self, *key: Any, reason: str = "", timeout_s: float | None = None, **more: Any) -> Any:
        """Ask the owner for the real result, wait for the answer, and return the value.

        With a key, it is the `get` of the object itself (a frame, a series or `series.str`), and nothing is
        requested.

        `timeout_s` bounds the whole call: the wait for the answer and the transfer. A timeout or an interrupt
        withdraws the request or cancels the transfer.

        Raises:
            UnsupportedValue: its mock cannot travel, so the result could not either; nothing was requested.
            ProgramDiffers: its program, run alone on the mocks, gives another result than the mock here.
            OperationFailed: it could not be computed there; the message says as much as the owner allows.
            RequestDenied: the owner denied the request; `.reason` has the owner's words.
            RequestTimeout: the answer or the value did not arrive within `timeout_s`.
            TransferFailed, LinkClosed: it did not arrive; nothing partial is kept.
        """
        if key or more:
            return self._look_up(key, more)
        return self.request(reason).result_or_withdraw(timeout_s)

    if TYPE_CHECKING:

        def _look_up(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            """Call the `get` of the object itself."""

    def dp(
        self,
        epsilon: float,
        *,
        bounds: tuple[float, float] | None = None,
        reason: str = "",
        timeout_s: float | None = None,
        **more: Any,
    ) -> PrivateStatistic:
        """Return this statistic with noise, paid from the privacy budget that the owner has set.

        It works for the count, sum, mean, var, quantile or histogram of a column, and is answered at once.

        `bounds` are the lowest and highest value that counts; they replace the owner's, and have to be known
        without the data. `more` may be `candidates` of a quantile, `bins` or `categories` of a histogram.

        Raises:
            OperationRefused: there is no private form of this statistic; the message says why and what to do.
            BudgetExceeded: the budget left is too small; nothing was spent.
            OperationFailed: it could not be computed. Its cost is spent all the same.
        """
        asked = {"epsilon": epsilon, "bounds": bounds, **more}
        statistic = json.dumps({key: value for key, value in asked.items() if value is not None}).encode()
        pending = self._program.ask(self, reason, None, What(statistic=statistic))
        return PrivateStatistic(**pending.result_or_withdraw(timeout_s))
