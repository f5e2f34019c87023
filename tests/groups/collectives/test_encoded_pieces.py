"""Sums whose pieces travel encoded: the same bits, fewer bytes where there is something to gain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from duetlink.errors import OperationMismatch, RemoteProtocolError, UnknownCodec, UnsupportedValue
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.links.transport import Message
from tests.groups.collectives.conftest import Group, MakeGroup


def count_bytes(group: Group) -> list[int]:
    """The bodies' sizes, as they leave."""
    sizes: list[int] = []

    def watch(of: int, to: int, message: Message) -> Message:
        sizes.append(len(message.body))
        return message

    group.network.on_send = watch
    return sizes


@pytest.mark.parametrize("codec", ["zstd", "sparse", "pcodec"])
async def test_encoded_sums_have_the_same_bits(make_group: MakeGroup, codec: str) -> None:
    group = make_group(3)
    sizes = count_bytes(group)
    for items in (0, 1, 300_001):
        random = np.random.default_rng(items)
        given = [np.where(random.random(items) < 0.01, random.normal(size=items), 0) for _ in range(3)]
        plain = await group.all(lambda m, a=given: m.all_reduce(a[m.rank], ReduceOptions(algorithm="ring")))
        plain_bytes, sizes[:] = sum(sizes), []
        found = await group.all(
            lambda m, a=given: m.all_reduce(a[m.rank], ReduceOptions(codec=codec, algorithm="ring"))
        )
        assert [each.tobytes() for each in found] == [each.tobytes() for each in plain]
        assert sum(sizes) <= plain_bytes
        if items > 1:
            assert sum(sizes) < plain_bytes / 5
        sizes.clear()


async def test_what_does_not_become_smaller_travels_as_it_is(make_group: MakeGroup) -> None:
    group = make_group(2)
    noise = np.random.default_rng(1).integers(0, 2**63, 400_000)
    sizes = count_bytes(group)
    await group.all(lambda m: m.all_reduce(noise, ReduceOptions("xor", codec="zstd")))
    assert sum(sizes) == 2 * noise.nbytes


async def test_tensors_can_travel_encoded(make_group: MakeGroup) -> None:
    group = make_group(2)
    tensor = torch.zeros(50_000, dtype=torch.bfloat16)
    tensor[::100] = 1.5
    for each in await group.all(lambda m: m.all_reduce(tensor, ReduceOptions(codec="zstd"))):
        assert isinstance(each, torch.Tensor)
        assert each.equal(tensor * 2)


async def test_a_codec_that_cannot_be_used_is_refused_before_anything_is_sent(make_group: MakeGroup) -> None:
    group = make_group(2)
    for codec, value, error in (
        ("qsgd", np.ones(9, np.float32), UnsupportedValue),
        ("decimals", np.ones(9, np.int32), UnsupportedValue),
        ("magic", np.ones(9), UnknownCodec),
    ):
        with pytest.raises(error):
            await group.members[0].all_reduce(value, ReduceOptions(codec=codec))
    assert await group.all(lambda m: m.all_reduce(1)) == [2, 2]


async def test_members_agree_on_the_codec(make_group: MakeGroup) -> None:
    group = make_group(2)
    found = await group.all(
        lambda m: m.all_reduce(np.ones(9), ReduceOptions(codec="zstd" if m.rank else None))
    )
    assert [type(each) for each in found] == [OperationMismatch] * 2
    assert "rank 1 (member 1): all_reduce(float64[9], sum, butterfly, zstd)" in str(found[0])


@pytest.mark.parametrize("at", [0, 20, -1])
async def test_an_encoded_piece_that_was_changed_is_refused(make_group: MakeGroup, at: int) -> None:
    group = make_group(2)

    def change(of: int, to: int, message: Message) -> Message:
        body = bytearray(message.body)
        if of == 1 and body:
            body[at] ^= 1
        return Message(message.head, memoryview(body))

    group.network.on_send = change
    found = await group.all(
        lambda m: m.all_reduce(np.zeros(10_000), ReduceOptions(codec="zstd", algorithm="naive"))
    )
    assert isinstance(found[0], RemoteProtocolError)
    assert "rank 1 (member 1)" in str(found[0])
