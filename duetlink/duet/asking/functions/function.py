"""`@duet.remote` on a function: a call runs it on mocks; `submit` asks the owner to run it on the data."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from duetlink.compute.operations.printer.source_shown import shown_source
from duetlink.compute.privacy.claim import Claim
from duetlink.data import values
from duetlink.duet.asking.functions.source import Source, source_of
from duetlink.duet.asking.functions.submission import Arguments, Submission, mocks_of, written
from duetlink.duet.asking.mocks import mock_shown
from duetlink.duet.asking.requests.asking import Question
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.code import Code
from duetlink.duet.display import visible
from duetlink.duet.objects.asset import AssetInfo
from duetlink.errors import UnsupportedValue

if TYPE_CHECKING:
    from duetlink.duet.asking.pointers.remote_session import RemoteSession


class Function:
    """A function that can be sent to the owner. Calling it runs it on mocks and sends nothing.

    It can use its arguments, libraries, and names that it defines itself.
    """

    def __init__(self, function: Any, remote_session: RemoteSession) -> None:
        """Wrap a function, or a `Source`.

        Raises:
            SettingError: the function cannot be sent; the message names the part that is in the way.
        """
        self._remote_session = remote_session
        if isinstance(function, Source):
            self._source = function
            return
        self._source = source_of(function)
        functools.update_wrapper(self, function)

    @property
    def source(self) -> Code:
        """The code that the owner gets to read."""
        return Code(shown_source(self._source.text))

    def __call__(self, *arguments: Any, **keywords: Any) -> LocalCall:
        """Run it with mocks in place of pointers, and with copies of values.

        Raises:
            SettingError: an argument cannot be sent.
            NoMock: an asset has none.
            Exception: whatever the function raises, with its traceback.
        """
        taken = Arguments(self._remote_session)
        call = written(taken, arguments, keywords)
        theirs = tuple(map(mocks_of, arguments))
        theirs_by_name = {name: mocks_of(argument) for name, argument in keywords.items()}
        mock = self._source.run(theirs, theirs_by_name)
        submission = Submission(
            self._source.name, self._source.text, call, tuple(taken.inputs), mock, shown=tuple(taken.shown)
        )
        return LocalCall(submission, self._remote_session)

    def __repr__(self) -> str:
        return f"<function {self._source.name}, to be run at the owner: call it to run it on mocks>"


class LocalCall:
    """One call of a `Function`: its result on the mocks, and `submit`, which requests the real result."""

    def __init__(self, submission: Submission, remote_session: RemoteSession) -> None:
        self._submission = submission
        self._remote_session = remote_session

    @property
    def mock(self) -> Any:
        """The result on the mocks. It says nothing about the real data."""
        return self._submission.mock

    @property
    def source(self) -> Code:
        """The code that the owner gets to read."""
        return Code(shown_source(self._submission.source))

    def submit(
        self, reason: str = "", *, expires_s: float | None = None, dp: tuple[float, float] | None = None
    ) -> PendingRequest:
        """Ask the owner to run the function and to send its result. Returns at once; see PendingRequest.

        After `expires_s` seconds the owner can no longer approve.

        `dp=(epsilon, delta)` claims that the function trains privately, by `duetlink.learning.DpSgd`. Before
        it runs, epsilon is charged to the budget of each asset among its arguments. Its result is not sent if
        its trainings cost more than that.

        Raises:
            SettingError: `dp` is not an epsilon above 0 and a delta between 0 and 1.
            UnsupportedValue: the result on the mocks cannot travel, so the real result could not either.
            LinkClosed: there is no peer.
        """
        try:
            summary = values.summarise(self.mock)
        except UnsupportedValue as error:
            raise UnsupportedValue(
                f"{self._submission.name} has to return what can travel: {error}"
            ) from error
        thread, asking = self._remote_session.connected()
        info = AssetInfo(f"{self._submission.name}(…)", 0, summary.kind, summary.detail, 0)
        submission = dataclasses.replace(self._submission, claim=None if dp is None else Claim(*dp))
        check = functools.partial(self._remote_session.rehearsals.check, *submission.shown)
        question = functools.partial(
            Question,
            info,
            reason,
            expires_s=expires_s or 0.0,
            job=submission,
            check=check if submission.shown else None,
        )
        return PendingRequest(question, asking, thread)

    def get(
        self, *, reason: str = "", timeout_s: float | None = None, dp: tuple[float, float] | None = None
    ) -> Any:
        """Submit the call, wait for the answer, and return the function's result on the real data.

        `timeout_s` bounds the whole call: the wait for the answer and the transfer. A timeout or an interrupt
        withdraws the request. `dp` is explained at `submit`.

        Raises:
            OperationFailed: the function failed at the owner; the message says as much as the owner allows.
            RequestDenied, RequestTimeout, TransferFailed, LinkClosed, … as `Pointer.get`.
        """
        return self.submit(reason, dp=dp).result_or_withdraw(timeout_s)

    def __repr__(self) -> str:
        return (
            f"<{self._submission.name} has run on mocks only: .submit(reason) asks the owner to run it on "
            f"the real data; its result on the mocks:\n{mock_shown.text_of(self.mock)}>"
        )

    def _repr_html_(self) -> str:
        title = f"{visible(self._submission.name)} has run on mocks only; its result on them:"
        return mock_shown.html_of(title, self.mock)
