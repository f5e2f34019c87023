"""A private training that is at the owner's: `duet.remote(DpSgd(...)).fit(x, y)` on pointers.

Nothing new crosses: it is a function, whose text is written from the training instead of by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from duetlink.compute.operations.function import check_letters, check_source
from duetlink.duet.asking.functions.function import Function, LocalCall
from duetlink.duet.asking.functions.source import Source

if TYPE_CHECKING:
    from duetlink.duet.asking.pointers.remote_session import RemoteSession

_NAME = "train"


class Training(Protocol):
    """What `duetlink.learning.DpSgd` offers, which stands on a higher floor."""

    def as_function(self, epochs: int) -> tuple[str, Any]:
        """The text of `train(x, y, weights)`, and the weights."""


class RemoteTraining:
    """The counterpart of a private training at the owner. The model that is here stays as it is."""

    def __init__(self, training: Training, remote_session: RemoteSession) -> None:
        self._training = training
        self._remote_session = remote_session

    def fit(self, x: Any, y: Any, *, epochs: int = 1) -> LocalCall:
        """Train on mocks here at once, and return what can be submitted: `.submit(reason, dp=(epsilon,
        delta))` asks the owner for the `state_dict` of a model that was trained on the real rows.

        `x` has the model's inputs and `y` the targets, one for each row: pointers to assets, or to columns
        and rows that were chosen from them. They become tensors of float32, or of int64 for an embedding and
        for the targets of a loss of classes.

        Raises:
            SettingError: a part of the training cannot be written down; the message says which.
            Exception: what the training raises on the mocks.
        """
        text, weights = self._training.as_function(epochs)
        check_source(_NAME, text)
        check_letters(_NAME, text)
        code = compile(text, f"<{_NAME}>", "exec", dont_inherit=True)
        return Function(Source(_NAME, text, code), self._remote_session)(x, y, weights)

    def __repr__(self) -> str:
        return "<a private training at the owner: fit(x, y) runs it on mocks, and can be submitted>"
