"""The contract of a gradient compressor, which makes a chunk and remembers what it left out.

A codec holds no state; a compressor does: per tensor name, float32 arrays ("slots") of what the receiver has
not got yet, and the number of steps. Each method is a pure step from one `TensorState` to the next. A chunk
contains all that its reader needs: `duetlink.codecs.decode` returns the dense gradient without any state.

Error feedback (Karimireddy et al., ICML 2019, Algorithm 2): p = gradient + residual is compressed, and
residual = p - decoded. Nothing is lost, only delayed. Every method uses it, except those with a memory of
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
    """The memory of one tensor after `step` steps. Arrays are replaced, never written to."""

    step: int = 0
    slots: Mapping[str, Float32Array] = field(default_factory=dict)

    def slot(self, slot: str, gradient: Float32Array) -> Float32Array:
        """Return the array of that slot, or zeros.

        Raises:
            LocalProtocolError: its shape is not that of the gradient.
        """
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
    slots: ClassVar[tuple[str, ...]]  # names of the arrays in a tensor's state

    def __init__(self, *, seed: int = 0) -> None:
        """Use `seed` for every random choice: equal seeds and inputs give equal chunks."""
        self.seed = seed
        self._epoch = 0
        self._tensors: dict[str, TensorState] = {}

    @property
    def epoch(self) -> int:
        """The training epoch, set by the trainer at the beginning of each; methods with a schedule use it."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if not isinstance(epoch, int) or not 0 <= epoch < 1 << 63:
            raise LocalProtocolError(f"epoch {epoch!r}; epochs count from 0")
        self._epoch = epoch

    def compress(self, gradient: Array, name: str) -> bytes:
        """Return the chunk for the gradient of the tensor `name`; the gradient is not changed or kept.

        After an error, the state is unchanged.

        Raises:
            LocalProtocolError: the gradient is not float32, not finite, or of another shape than that name
                had before.
            CodecFailed: a codec could not encode.
        """
        return self.compress_all({name: gradient})[name]

    def compress_all(self, gradients: Mapping[str, Array]) -> dict[str, bytes]:
        """Return the chunks of all gradients of one step, by name. If one fails, the state is unchanged."""
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
        """Return the memory of one tensor, or None, to `restore` it if its chunk does not arrive."""
        return self._tensors.get(name)

    def restore(self, name: str, state: TensorState | None) -> None:
        """Put back the memory that `remembered` returned."""
        if state is None:
            self.reset(name)
        else:
            self._tensors[name] = state

    def state_dict(self) -> State:
        """Return copies of the whole memory: "epoch", and "step/NAME" and "SLOT/NAME" of each tensor."""
        state: State = {EPOCH: self._epoch}
        for name, tensor in self._tensors.items():
            state[f"{STEP}/{name}"] = tensor.step
            state |= {f"{slot}/{name}": array.copy() for slot, array in tensor.slots.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Array | float]) -> None:
        """Continue from a `state_dict`. It does not contain the constructor's arguments.

        Raises:
            LocalProtocolError: it is not the state of such a compressor; this one is unchanged.
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
        """Transform the gradients of one step together, before each takes its own step."""
        return gradients

    @abstractmethod
    def _step(self, gradient: Float32Array, name: str, state: TensorState) -> tuple[bytes, TensorState]:
        """Return the chunk and the next state. Do not write to `gradient` or the arrays of `state`."""


class ErrorFeedback(GradientCompressor):
    """Remembers in `residual` the part that decoding does not give back."""

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
        """Return a chunk of `accumulated`, its exact decoding, and the next values of the other slots."""


def dense(array: Float32Array) -> bytes:
    """Return the chunk of an uncompressed array."""
    return chunk.encode(array, Raw())


def derived_seed(seed: int, name: str, step: int) -> int:
    """Return 64 bits for the random choices of one step of one tensor."""
    return xxhash.xxh3_64_intdigest(f"{seed}/{step}/{name}".encode())


def sent_count(size: int, density: float) -> int:
    """Return how many of `size` items to send: at least one, if there are any."""
    return min(size, max(1, round(size * density)))


def checked_density(density: float) -> float:
    """Return the density; raise LocalProtocolError unless it is in (0, 1]."""
    if not 0 < density <= 1:
        raise LocalProtocolError(f"a density of {density!r}: the part of the items sent, above 0, at most 1")
    return float(density)


def checked_array(array: object, name: str) -> Float32Array:
    """Return the array C-contiguous; raise LocalProtocolError unless it is finite and float32."""
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
