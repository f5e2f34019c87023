"""The same state at all members: compared by digest, and only what differs is sent, from one member to each.

Theory. Each member tells the SHA-256 of every array's name, type, shape and bytes. The version that most
members hold is taken for the right one (of several, that of the lowest rank), and its holder of the lowest
rank sends each other member the arrays whose digests differ there. What arrives is digested
again. The idea is PCCL's (docs of pccl 1.0, "shared state"), whose hash is not made to resist an adversary.
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

_SINGLE = ""  # the name of a lone array
_Sha256 = Annotated[str, Meta(min_length=64, max_length=64)]
_Digests = Annotated[dict[str, _Sha256], Meta(max_length=100_000)]  # by the names of arrays
_TAG = -19  # users' tags are from 0 on


async def sync(collectives: Collectives, value: Any, call: str) -> tuple[Any, int]:
    """The agreed state, and how many bytes of arrays this member has sent and received for it.

    Raises:
        UnsupportedValue: the value is no array, dict of arrays, or model.
        RemoteProtocolError: what a member sent is not what it had announced.
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
                raise RemoteProtocolError(f"rank {source} sent other arrays than it had announced")
            moved += sum(_array(leaf).nbytes for leaf in received.values())
            arrays = {name: received.get(name, arrays.get(name)) for name in right}
    if arrays.keys() != right.keys():
        arrays = {name: arrays[name] for name in right}
    if not isinstance(state, Mapping) and not is_model(value):
        if _SINGLE not in arrays:
            raise UnsupportedValue("the others hold a dict of arrays, this member a lone one")
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
        raise RemoteProtocolError(f"a member told digests that cannot be read: {error}") from None


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        # NumPy knows no bfloat16: the bytes are what counts
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
