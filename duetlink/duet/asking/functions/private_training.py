"""Private training at the owner: `duet.remote(DpSgd(...)).fit(x, y)` on pointers.

The training is sent as an ordinary function. The only difference is that its source is generated from the
training's options instead of being written by hand.
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
    """The interface of `duetlink.learning.DpSgd`, which this package may not import."""

    def as_function(self, epochs: int) -> tuple[str, Any]:
        """Return the source of a function `train(x, y, weights)`, and the weights."""


class RemoteTraining:
    """A private training whose `fit` runs at the owner. The model on this side does not change."""

    def __init__(self, training: Training, remote_session: RemoteSession) -> None:
        self._training = training
        self._remote_session = remote_session

    def fit(self, x: Any, y: Any, *, epochs: int = 1) -> LocalCall:
        """Train on mocks here at once, and return a call that can be submitted.

        Its `.submit(reason, dp=(epsilon, delta))` asks the owner for the `state_dict` of a model that was
        trained on the real rows.

        `x` has the model's inputs and `y` the targets, one for each row: pointers to assets, or to columns
        and rows selected from them. They become tensors of float32; inputs of an embedding and targets of a
        classification loss become int64.

        Raises:
            SettingError: a part of the training cannot be written as code; the message says which.
            Exception: whatever the training raises on the mocks.
        """
        text, weights = self._training.as_function(epochs)
        check_source(_NAME, text)
        check_letters(_NAME, text)
        code = compile(text, f"<{_NAME}>", "exec", dont_inherit=True)
        return Function(Source(_NAME, text, code), self._remote_session)(x, y, weights)

    def __repr__(self) -> str:
        return "<a private training at the owner: fit(x, y) runs it on mocks, and can be submitted>"
