"""Gossip for a torch model: it is averaged with those of the neighbours, in place."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from duetlink.errors import SettingError, UnsupportedValue
from duetlink_gossip.averaging import Averaging, Fallback, PushSum
from duetlink_gossip.base import Mixed, Node
from duetlink_gossip.chunks import Floats, Strides, form_of, item_bytes
from duetlink_gossip.courier import Courier
from duetlink_gossip.fragments import FragmentNode
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from duetlink_gossip.parity import SAID_BYTES
from duetlink_gossip.post import Post

_FORMAT = "duetlink gossip 1"


class Meeting(Protocol):
    """Makes a post for all its members, which call it alike. A `duetlink.group` is one."""

    def post(self, over: str) -> Post: ...


class Gossip:
    """Averages `model` with those of the neighbours in a graph, and never waits for a member that is gone.

    D-PSGD (Lian et al. 2017): each member trains on its own data, and calls `mix` every few steps. Its model
    is sent to its neighbours as datagrams that may be lost: missing values are replaced by the member's own.
    A round ends when the neighbours have sent, or at a deadline, which is estimated from earlier rounds.

        gossip = Gossip(model, group)
        for step, (x, y) in enumerate(batches):
            optimizer.zero_grad(), loss(model(x), y).backward(), optimizer.step()
            if step % 9 == 8:
                gossip.mix()

    All members make it with models of the same shape and the same arguments, and should begin with the same
    parameters: `group.sync(model)`. Models are sent to neighbours, encrypted; rows are not sent.
    """

    def __init__(
        self,
        model: nn.Module,
        group: Meeting | Post,
        *,
        mode: str = "rounds",
        graph: str = "ring",
        degree: int = 3,
        seed: int = 0,
        over: str = "datagrams",
        precision: str = "int16",
        push_sum: bool = False,
        repair: bool = False,
        fec: int = 0,
        patience_s: float = 10.0,
    ) -> None:
        """Start a thread that exchanges datagrams with the other members.

        Args:
            model: its parameters and floating-point buffers are averaged, as float32.
            group: a `duetlink.group`, or a `Post`.
            mode: "rounds", or "async": each member sends every fragment of its model to `degree` random
                members, averages what has come since its last `mix`, and never waits. It takes no `graph`,
                `push_sum`, `repair` or `fec`.
            graph: "ring", "full", "regular", "small-world", or "random", which is another in each round.
            degree: neighbours of each member, where the graph takes one.
            seed: of the graph; the same at all members.
            over: "datagrams", which may be lost, or "streams", which retransmit lost bytes.
            precision: the type of a parameter in a datagram: "int16" or "int8" with a scale for each chunk,
                rounded up or down at random, or "float32".
            push_sum: keep the mean over all members, whatever is lost. Parameters are sent as 32 bits.
            repair: ask once in each round for lost chunks.
            fec: send one more datagram for every `fec` datagrams, from which a lost one of them is recovered
                (forward error correction by XOR). 0: none.
            patience_s: the longest that a round may take.

        Raises:
            SettingError: a value is out of range, or the model has no parameters.
            UnsupportedValue: the model has complex parameters.
        """
        if mode not in ("rounds", "async"):
            raise SettingError(f"mode is {mode!r}: there are rounds, async")
        if mode == "async" and (graph != "ring" or push_sum or repair or fec):
            raise SettingError(
                "mode='async' takes no graph, push_sum, repair or fec: each fragment is sent once, to random "
                "members"
            )
        if not (patience_s > 0.0 and math.isfinite(patience_s)):
            raise SettingError(f"patience_s is {patience_s!r}: it is a finite number of seconds above 0")
        if not isinstance(fec, int) or fec < 0 or (fec and over == "streams"):
            raise SettingError(
                f"fec is {fec!r} over {over}: it is 0, or how many datagrams share one parity; of what goes "
                "over streams nothing is lost"
            )
        self._tensors = _floats(model)
        post = group.post(over) if hasattr(group, "post") else group
        try:
            count = sum(tensor.numel() for tensor in self._tensors.values())
            room = post.mtu_bytes - (SAID_BYTES if fec else 0)  # a parity is longer than a chunk
            strides = Strides.fitting(count, room, 4 if push_sum else item_bytes(precision))
            shapes = [(name, tuple(tensor.shape)) for name, tensor in self._tensors.items()]
            epoch = getattr(post, "epoch", 0)
            node: Node
            if mode == "async":
                form = form_of(shapes, mode, precision, strides.chunks)
                node = FragmentNode(
                    post.rank, post.size, strides, precision, fanout=degree, epoch=epoch, form=form
                )
            else:
                chosen = Graph(graph, post.size, degree, seed)
                averaging: Averaging = (
                    PushSum(strides.chunks, strides.length)
                    if push_sum
                    else Fallback(post.rank, post.size, strides.chunks, precision)
                )
                node = GossipNode(
                    post.rank,
                    chosen,
                    strides,
                    averaging,
                    epoch=epoch,
                    # unchanged without error correction, for members of versions that have none
                    form=form_of(
                        shapes, chosen, averaging.precision, strides.chunks, *([("fec", fec)] if fec else [])
                    ),
                    repair=repair,
                    fec=fec,
                    lossless=getattr(post, "lossless", False),
                    patience_s=patience_s,
                )
        except BaseException:
            post.close()
            raise
        self._model = model
        self._courier = Courier(node, post)

    @property
    def round(self) -> int:
        """The number of the last round. Others may have made more."""
        return self._courier.node.round

    def mix(self) -> Mixed:
        """Make one round: send the model to the neighbours, and average it with those that arrive.

        Raises:
            OperationMismatch: a neighbour has another model, or other settings. It is excluded from now on;
                the round was made with the others, and the next call continues.
            RemoteProtocolError: the same, if a neighbour sent values that are not finite, or broke the
                protocol.
            UnsupportedValue: this model is not finite; nothing was sent.
            LinkClosed: the gossip is closed.
        """
        before = self._vector()
        after, mixed = self._courier.mix(before)
        self._add(after - before)
        if faults := self._courier.faults():
            raise faults[0]
        return mixed

    def state_dict(self) -> dict[str, Any]:
        """Return this member's state for `load_state_dict`: tensors, numbers and texts. Call it between
        rounds.
        """
        state = self._courier.node.state()
        return {name: _packed(item) for name, item in state.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `state_dict`. Raises SettingError if it is of another gossip."""
        try:
            self._courier.node.restore({name: _unpacked(item) for name, item in state.items()})
        except (AttributeError, KeyError, ValueError, TypeError) as error:
            raise SettingError(f"this is no state of a gossip with these arguments: {error!r}") from None

    def save(self, path: str | Path, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Save model, optimizer and round to a file, atomically: until it is complete, the old file stays."""
        whole = {
            "format": _FORMAT,
            "model": self._model.state_dict(),
            "optimizer": optimizer.state_dict() if optimizer is not None else None,
            "gossip": self.state_dict(),
        }
        beside = Path(f"{path}.{os.getpid()}.tmp")
        try:
            with beside.open("wb") as file:
                torch.save(whole, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def load(self, path: str | Path, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Continue from a file of `save`. Raises SettingError if it is not one, or has another model."""
        try:
            whole = torch.load(path, weights_only=True)  # runs no code from the file
            known = whole["format"] == _FORMAT
        except FileNotFoundError:
            raise
        except Exception as error:
            raise SettingError(f"{path} cannot be read: {type(error).__name__} {error}") from None
        if not known:
            raise SettingError(f"{path} is of another format than {_FORMAT!r}")
        try:
            self._model.load_state_dict(whole["model"])
        except RuntimeError as error:
            raise SettingError(f"{path} has another model: {error}") from None
        if optimizer is not None and whole["optimizer"] is not None:
            optimizer.load_state_dict(whole["optimizer"])
        self.load_state_dict(whole["gossip"])

    def close(self) -> None:
        """Stop taking part; the others go on. Safe to call twice."""
        self._courier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _vector(self) -> Floats:
        parts = [tensor.detach().to("cpu", torch.float32).reshape(-1) for tensor in self._tensors.values()]
        vector: Floats = torch.cat(parts).numpy()
        return vector

    def _add(self, change: Floats) -> None:
        """Add the change, not the new value: a parameter for which nothing has arrived keeps its bits."""
        at, whole = 0, torch.from_numpy(change)
        with torch.no_grad():
            for tensor in self._tensors.values():
                part = whole[at : at + tensor.numel()].view(tensor.shape)
                tensor.add_(part.to(tensor.device, tensor.dtype))
                at += tensor.numel()


def _floats(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors to average, by name; counters of batches have no mean."""
    kept = model.state_dict()  # without buffers that are not saved, such as masks
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
    named = {**dict(model.named_parameters()), **buffers}
    for name, tensor in named.items():
        if tensor.is_complex():
            raise UnsupportedValue(f"{name} is {tensor.dtype}: averaged are real numbers")
    found = {name: tensor for name, tensor in named.items() if tensor.is_floating_point() and tensor.numel()}
    if not found:
        raise SettingError("the model has no parameters of floating point, so there is nothing to average")
    return found


def _packed(item: Any) -> Any:
    """Store an array as a tensor of bytes, with dtype and shape: torch lacks some of NumPy's types."""
    if not isinstance(item, np.ndarray):
        return item
    octets = np.frombuffer(item.tobytes(), np.uint8).copy()
    return {"dtype": item.dtype.str, "shape": list(item.shape), "bytes": torch.from_numpy(octets)}


def _unpacked(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    octets = item["bytes"].numpy().tobytes()
    return np.frombuffer(octets, np.dtype(item["dtype"])).reshape(item["shape"]).copy()
