"""Brings all members to the same state: compares digests, and sends only the arrays that differ.

Theory. Each member sends the SHA-256 of every array's name, type, shape and bytes. The version that most
members hold is chosen (in a tie, that of the lowest rank). The lowest rank that holds it sends each other
member the arrays whose digests differ there. The receiver digests them again. The idea is PCCL's (docs of
pccl 1.0, "shared state"), whose hash is not made to resist an adversary.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from duetlink.base.wire import json_
from duetlink.errors import RemoteProtocolError, UnsupportedValue
from duetlink.groups.collectives.averaging import is_model, put_back, state_of
from duetlink.groups.collectives.collectives import Collectives

_SINGLE = ""  # the name of a single array
_Sha256 = Annotated[str, Meta(min_length=64, max_length=64)]
_Digests = Annotated[dict[str, _Sha256], Meta(max_length=100_000)]  # by the names of arrays
_TAG = -19  # users' tags are 0 or more


async def sync(collectives: Collectives, value: Any, call: str) -> tuple[Any, int]:
    """Return the agreed state, and the number of bytes of arrays that this member sent and received.

    Raises:
        UnsupportedValue: the value is not an array, a dict of arrays, or a model.
        RemoteProtocolError: a member sent arrays that do not fit the digests that it sent before.
    """
    state = state_of(value)
    arrays = dict(state) if isinstance(state, Mapping) else {_SINGLE: state}
    mine = await asyncio.to_thread(_digests, arrays)
    told = await collectives.all_gather_bytes(json.dumps(mine).encode(), call=call)
    held = [_read(data) for data in told]
    counts = Counter(tuple(sorted(each.items())) for each in held)
    most = max(counts.values())
    source = next(rank for rank, each in enumerate(held) if counts[tuple(sorted(each.items()))] == most)
    right = held[source]
    moved = 0
    for rank, each in enumerate(held):
        wanted = [name for name, digest in right.items() if each.get(name) != digest]
        if not wanted:
            continue
        if collectives.rank == source:
            sent = {name: arrays[name] for name in wanted}
            await collectives.send(sent, rank, _TAG)
            moved += sum(_array(leaf).nbytes for leaf in sent.values())
        elif collectives.rank == rank:
            received = (await collectives.recv(source, _TAG)).value
            found = await asyncio.to_thread(_digests, received if isinstance(received, dict) else {})
            if found != {name: right[name] for name in wanted} or not isinstance(received, dict):
                raise RemoteProtocolError(f"rank {source} sent arrays that do not fit its digests")
            moved += sum(_array(leaf).nbytes for leaf in received.values())
            arrays = {name: received.get(name, arrays.get(name)) for name in right}
    if arrays.keys() != right.keys():
        arrays = {name: arrays[name] for name in right}
    if not isinstance(state, Mapping) and not is_model(value):
        if _SINGLE not in arrays:
            raise UnsupportedValue("the other members hold a dict of arrays, this one a single array")
        return arrays[_SINGLE], moved
    return put_back(value, arrays), moved


def _digests(arrays: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, leaf in arrays.items():
        if not isinstance(name, str):
            raise UnsupportedValue(f"the names of a shared state are texts, not {type(name).__name__}")
        array = _array(leaf)
        head = json.dumps([name, _kind(leaf), list(array.shape)]).encode()
        digest = hashlib.sha256(len(head).to_bytes(8, "big") + head)
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        found[name] = digest.hexdigest()
    return found


def _read(data: bytes) -> dict[str, str]:
    try:
        return json_.read(data, _Digests)
    except ValueError as error:
        raise RemoteProtocolError(f"a member sent digests that cannot be read: {error}") from None


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        # NumPy has no bfloat16, so the bytes are compared
        flat = leaf.detach().cpu().contiguous()
        if flat.dim() == 0:
            flat = flat.reshape(1)
        bytes_: np.ndarray[Any, Any] = flat.view(torch.uint8).numpy()
        return bytes_
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiubc":
        raise UnsupportedValue(f"a shared state holds arrays of numbers, not {array.dtype}")
    return array


def _kind(leaf: Any) -> str:
    return str(leaf.dtype) if hasattr(leaf, "dtype") else type(leaf).__name__
