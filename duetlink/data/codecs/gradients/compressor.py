"""The contract of a gradient compressor: a gradient becomes a chunk, and what was left out is remembered.

A codec holds no state; a compressor does: per tensor name, float32 arrays ("slots") of what the receiver has
not had yet, and the number of steps. Each method is a pure step from one `TensorState` to the next. A chunk
says all that its reader needs: `duetlink.codecs.decode` gives the dense gradient, with no state.

Error feedback (Karimireddy et al., ICML 2019, Algorithm 2): p = gradient + residual is compressed, and
residual = p - decoded. Nothing is lost, only late. It is on in every method but those with a memory of
their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array
from duetlink.data.codecs.gradients.state import State
from duetlink.data.codecs.raw import Raw
from duetlink.errors import LocalProtocolError

Float32Array: TypeAlias = NDArray[np.float32]

STEP = "step"
EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class TensorState:
    """What is remembered of one tensor after `step` steps. Arrays are replaced, never written to."""

    step: int = 0
    slots: Mapping[str, Float32Array] = field(default_factory=dict)

    def slot(self, slot: str, gradient: Float32Array) -> Float32Array:
        """The array of that slot, zeros where there is none; raises LocalProtocolError if its shape is not
        that of the gradient."""
        found = self.slots.get(slot)
        if found is None:
            return np.zeros_like(gradient)
        if found.shape != gradient.shape:
            raise LocalProtocolError(
                f"a gradient of shape {gradient.shape} for a tensor whose {slot} has {found.shape};"
                " one name is one tensor: give it another name, or reset() this one"
            )
        return found


class GradientCompressor(ABC):
    """One worker's compressor of all its gradients. One thread at a time may use it."""

    name: ClassVar[str]
    slots: ClassVar[tuple[str, ...]]  # of a tensor's state

    def __init__(self, *, seed: int = 0) -> None:
        """`seed` is that of every random choice: equal seeds and inputs give equal chunks."""
        self.seed = seed
        self._epoch = 0
        self._tensors: dict[str, TensorState] = {}

    @property
    def epoch(self) -> int:
        """Set by the trainer at the beginning of each; methods with a schedule go by it."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if not isinstance(epoch, int) or not 0 <= epoch < 1 << 63:
            raise LocalProtocolError(f"epoch {epoch!r}; epochs count from 0")
        self._epoch = epoch

    def compress(self, gradient: Array, name: str) -> bytes:
        """The chunk to send for the gradient of the tensor `name`; the gradient is not changed or kept.

        Raises:
            LocalProtocolError: not float32, not finite, or of another shape than that name had before.
            CodecFailed: a codec could not encode.
            After either, the state is as it was.
        """
        return self.compress_all({name: gradient})[name]

    def compress_all(self, gradients: Mapping[str, Array]) -> dict[str, bytes]:
        """The chunks of all gradients of one step, by name: of all, or the state is as it was."""
        checked = {name: checked_array(gradient, name) for name, gradient in gradients.items()}
        steps = {
            name: self._step(gradient, name, self._tensors.get(name, TensorState()))
            for name, gradient in self._prepared(checked).items()
        }
        self._tensors |= {name: state for name, (_, state) in steps.items()}
        return {name: data for name, (data, _) in steps.items()}

    def reset(self, name: str | None = None) -> None:
        """Forget one tensor, or all: what was not delivered yet is lost."""
        if name is None:
            self._tensors.clear()
        else:
            self._tensors.pop(name, None)

    def remembered(self, name: str) -> TensorState | None:
        """Of one tensor, to `restore` where its chunk did not arrive; None where there is nothing."""
        return self._tensors.get(name)

    def restore(self, name: str, state: TensorState | None) -> None:
        """What `remembered` gave is remembered again."""
        if state is None:
            self.reset(name)
        else:
            self._tensors[name] = state

    def state_dict(self) -> State:
        """Copies of all that is remembered: "epoch", and "step/NAME" and "SLOT/NAME" of each tensor."""
        state: State = {EPOCH: self._epoch}
        for name, tensor in self._tensors.items():
            state[f"{STEP}/{name}"] = tensor.step
            state |= {f"{slot}/{name}": array.copy() for slot, array in tensor.slots.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Array | float]) -> None:
        """Go on from where `state_dict` was called. What the constructor was given is not part of it.

        Raises:
            LocalProtocolError: no state of such a compressor; this one is as it was.
        """
        epoch: int = 0
        steps: dict[str, int] = {}
        arrays: dict[str, dict[str, Float32Array]] = {}
        for key, value in state.items():
            slot, _, name = key.partition("/")
            if key == EPOCH:
                epoch = _count(key, value)
            elif slot == STEP:
                steps[name] = _count(key, value)
            elif slot in self.slots:
                arrays.setdefault(name, {})[slot] = checked_array(value, key).copy()
            else:
                raise LocalProtocolError(f"a state with {key!r}; {self.name} has {', '.join(self.slots)}")
        self._tensors = {
            name: TensorState(steps.get(name, 0), arrays.get(name, {})) for name in steps | arrays
        }
        self._epoch = epoch

    def _prepared(self, gradients: dict[str, Float32Array]) -> dict[str, Float32Array]:
        """What is done to the gradients of one step together, before each takes its own."""
        return gradients

    @abstractmethod
    def _step(self, gradient: Float32Array, name: str, state: TensorState) -> tuple[bytes, TensorState]:
        """The chunk and the next state. `gradient` and the arrays of `state` may not be written to."""


class ErrorFeedback(GradientCompressor):
    """Remembers what decoding did not give back: `residual`."""

    slots: ClassVar[tuple[str, ...]] = ("residual",)

    def _step(self, gradient: Float32Array, name: str, state: TensorState) -> tuple[bytes, TensorState]:
        accumulated = checked_array(gradient + state.slot("residual", gradient), name)
        data, decoded, others = self._approximate(accumulated, name, state)
        residual = checked_array(accumulated - decoded, name)
        return data, TensorState(state.step + 1, {"residual": residual} | others)

    @abstractmethod
    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        """A chunk for `accumulated`, exactly what it decodes to, and the next of slots but the residual."""


def dense(array: Float32Array) -> bytes:
    """The chunk of an array that goes as it is."""
    return chunk.encode(array, Raw())


def derived_seed(seed: int, name: str, step: int) -> int:
    """64 bits for the random choices of one step of one tensor."""
    return xxhash.xxh3_64_intdigest(f"{seed}/{step}/{name}".encode())


def sent_count(size: int, density: float) -> int:
    """How many of `size` items are sent: at least one of any."""
    return min(size, max(1, round(size * density)))


def checked_density(density: float) -> float:
    """Raises LocalProtocolError unless it is in (0, 1]."""
    if not 0 < density <= 1:
        raise LocalProtocolError(f"a density of {density!r}: the part of the items sent, above 0, at most 1")
    return float(density)


def checked_array(array: object, name: str) -> Float32Array:
    """It, C-contiguous; raises LocalProtocolError unless it is a finite array of float32."""
    if not isinstance(array, np.ndarray | np.generic) or array.dtype != np.float32:
        kind = getattr(array, "dtype", type(array).__name__)
        raise LocalProtocolError(f"{name!r} is {kind}; compressors take arrays of float32")
    if not np.isfinite(array).all():
        raise LocalProtocolError(f"{name!r} has items that are not finite; leave this step out")
    return np.asarray(array, np.float32, order="C")


def _count(key: str, value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise LocalProtocolError(f"a state's {key!r} is {value!r}, not a count")
    return value
