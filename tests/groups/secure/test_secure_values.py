"""Secure sums of arrays, tensors and state dicts: ranges, rounding, noise, and what is refused."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.data.codecs.element import BY_NAME
from duetlink.errors import (
    OperationAborted,
    OperationMismatch,
    OutOfRange,
    SecureSumFailed,
    SettingError,
    UnsupportedValue,
)
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.secure import averages
from duetlink.groups.secure.ranges import Range
from duetlink.groups.secure.sums import SecureSum
from tests.groups.secure.conftest import Epoch, MakeEpoch

FLOAT32, FLOAT64, INT64, INT8 = (BY_NAME[name] for name in ("float32", "float64", "int64", "int8"))


async def reduce(epoch: Epoch, values: Any, op: str = "sum", **arguments: Any) -> list[Any]:
    """The secure sum of `values`, one for each rank, at every rank."""

    async def one(rank: int) -> object:
        sums = SecureSum()
        return await sums.run(
            epoch.members[rank],
            epoch.party,
            values[rank],
            ReduceOptions(op, secure=True, **arguments),
            call=f"a.py:{rank}",
        )

    return await epoch.all(one)


def random(size: int, items: int, dtype: type[np.generic] = np.float32) -> list[Any]:
    generator = np.random.default_rng(7)
    return [generator.uniform(-1, 1, items).astype(dtype) for _ in range(size)]


# -- what comes out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 1.0])
async def test_a_sum_of_floats_is_the_sum_to_half_a_step_for_each_member(
    make_epoch: MakeEpoch, limit: float | None
) -> None:
    given = random(4, 1000)
    found = await reduce(make_epoch(range(4)), given, limit=limit)
    exact = np.sum(given, axis=0, dtype=np.float64)
    step = Range.of(FLOAT32, 4, limit, 0, 2).step
    assert step == (2.0**-36 if limit is None else 2.0**-23)
    for each in found:
        assert each.dtype == np.float32
        np.testing.assert_array_equal(each, found[0])  # the same bits at all
        assert np.abs(each - exact).max() <= 4 * step / 2 + np.spacing(np.float32(4)) / 2


async def test_a_tree_of_kinds_comes_back_in_its_form(make_epoch: MakeEpoch) -> None:
    values = [
        {
            "weight": torch.full((2, 3), 0.5 * (rank + 1)),
            "half": torch.full((3,), 0.25 * rank, dtype=torch.bfloat16),
            "steps": torch.tensor(10 + rank),
            "exact": np.array([1e-9, -3.0]),
            "count": 7,
        }
        for rank in range(3)
    ]
    for found in await reduce(make_epoch(range(3)), values):
        assert torch.equal(found["weight"], torch.full((2, 3), 3.0))
        assert torch.equal(found["half"], torch.full((3,), 0.75, dtype=torch.bfloat16))
        assert found["steps"] == torch.tensor(33)
        np.testing.assert_allclose(found["exact"], [3e-9, -9.0], atol=1e-10)
        assert found["count"] == 21


async def test_integers_are_exact_and_their_mean_is_rounded_halves_up(make_epoch: MakeEpoch) -> None:
    most = 2**56
    values = [np.array([most, -most, rank, 1, -1]) for rank in range(4)]
    (total, *_) = await reduce(make_epoch(range(4)), values)
    assert total.tolist() == [4 * most, -4 * most, 6, 4, -4]
    (mean, *_) = await reduce(make_epoch(range(4)), [np.array([rank, -rank]) for rank in range(4)], "mean")
    assert mean.tolist() == [2, -1]  # of 6 / 4 and -6 / 4


async def test_a_mean_of_floats(make_epoch: MakeEpoch) -> None:
    given = random(3, 50, np.float64)
    for found in await reduce(make_epoch(range(3)), given, "mean", limit=1.0):
        np.testing.assert_allclose(found, np.mean(given, axis=0), atol=1e-15)


async def test_a_weighted_average_of_a_model_by_one_sum(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))
    models = [torch.nn.BatchNorm1d(2) for _ in range(3)]
    for rank, model in enumerate(models):
        with torch.no_grad():
            model.weight.fill_(rank)
            assert model.num_batches_tracked is not None
            model.num_batches_tracked.fill_(10 * rank)
    before = epoch.members[0].engine.completed

    async def one(rank: int) -> object:
        member = epoch.members[rank]
        weight = (100.0, 0.0, 300.0)[rank]
        return await averages.average(
            SecureSum(),
            member,
            epoch.party,
            models[rank],
            weight,
            ReduceOptions(secure=True, limit=10.0),
            call="",
        )

    assert await epoch.all(one) == models
    for model in models:
        assert model.weight.tolist() == [1.5, 1.5]
        assert model.num_batches_tracked == torch.tensor(15)
    assert epoch.members[0].engine.completed - before == 5  # one introduction, one opening


# -- ranges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (np.array([0, 1.5], np.float32), 1.0),
        (np.array([np.nan], np.float32), 1.0),
        (np.array([-np.inf]), None),
        (np.array([1.1e6]), None),
        (np.array([11]), 10),
        (np.array([2**62]), None),
        (np.array([2**63], np.uint64), None),
    ],
)
async def test_what_is_out_of_range_is_not_clipped_and_its_member_is_named_without_the_value(
    make_epoch: MakeEpoch, value: Any, limit: float | None
) -> None:
    values = [np.zeros_like(value), np.zeros_like(value), value]
    found = await reduce(make_epoch(range(3)), values, limit=limit)
    assert isinstance(found[2], OutOfRange)
    for each in found[:2]:
        assert isinstance(each, OperationAborted)
        assert str(each).startswith(
            "rank 2 (member 2) gave up a secure sum at a.py:2: one of its values is outside the declared "
            "range"
        )


@pytest.mark.parametrize("limit", [0.1, 0.3])
async def test_what_was_clipped_to_the_limit_in_its_own_format_is_within_it(
    make_epoch: MakeEpoch, limit: float
) -> None:
    """float32 has no 0.1: the number next to it is larger, and that is what clipping gives."""
    most = torch.full((2,), limit)
    values = [most, most.half(), most.bfloat16(), -most]
    epoch = make_epoch(range(3))
    for found in await reduce(epoch, [values] * 3, "mean", limit=limit):
        for each, given in zip(found, values, strict=True):
            assert torch.allclose(each, given, rtol=0, atol=2.0**-24)
    for each in await reduce(epoch, [np.nextafter(most.numpy(), np.float32(1))] * 3, limit=limit):
        assert isinstance(each, OutOfRange)


async def test_numbers_that_are_equal_are_the_same_arguments(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))
    ways: list[Any] = [(10, 1, 1), (10.0, 1.0, np.int64(1)), (np.float32(10), np.int8(1), 1)]

    async def one(rank: int) -> object:
        limit, noise, colluding = ways[rank]
        return await SecureSum().run(
            epoch.members[rank],
            epoch.party,
            np.ones(3),
            ReduceOptions(secure=True, limit=limit, noise=noise, colluding=colluding),
        )

    for found in await epoch.all(one):
        assert isinstance(found, np.ndarray), found


async def test_a_weighted_average_has_the_limit_of_the_values(make_epoch: MakeEpoch) -> None:
    """What is weighted may be 2^20 times as large, so that range would let it pass."""
    epoch = make_epoch(range(3))

    async def one(rank: int) -> object:
        value = {"steps": np.array([500]), "x": np.array([1.0, 11.0 if rank == 1 else 2.0], np.float32)}
        member = epoch.members[rank]
        return await averages.average(
            SecureSum(), member, epoch.party, value, 1.0, ReduceOptions(secure=True, limit=10.0), call="a.py"
        )

    for rank, found in enumerate(await epoch.all(one)):
        if rank == 1:
            assert isinstance(found, OutOfRange)
            assert str(found).startswith("1 items are beyond the range of ±10, the first (11) at 1")
        else:
            assert isinstance(found, OperationAborted)
            assert "one of its values is outside the declared range" in str(found)


async def test_different_ranges_are_found(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))

    async def one(rank: int) -> object:
        return await SecureSum().run(
            epoch.members[rank], epoch.party, np.ones(3), ReduceOptions(secure=True, limit=1.0 + (rank == 1))
        )

    for each in await epoch.all(one):
        assert isinstance(each, OperationMismatch)


async def test_garbage_in_place_of_masked_values_is_found(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = make_epoch(range(3))
    encode = Range.encode
    turn = iter(range(3))

    def garbage(self: Range, array: Any) -> Any:
        if next(turn) == 1:
            return np.random.default_rng(1).integers(0, 2**32, len(array), np.uint32)
        return encode(self, array)

    monkeypatch.setattr(Range, "encode", garbage)
    for each in await reduce(epoch, random(3, 20), limit=1.0):
        assert isinstance(each, SecureSumFailed)
        assert "does not reveal which one" in str(each)


def test_every_sum_that_members_may_give_is_within_the_range() -> None:
    for limit in (1e-30, 0.7, 1.0, 1e30):
        for members in (3, 4, 16):
            chosen = Range.of(FLOAT32, members, limit, 0, 2)
            most = np.full(8, limit, np.float32)
            most = np.minimum(most, np.nextafter(np.float32(limit), np.float32(0)))
            total = np.add.reduce([chosen.encode(-most) for _ in range(members)], dtype=np.uint32)
            np.testing.assert_allclose(chosen.decode(total, "mean"), -most, rtol=1e-6)


def test_the_steps_that_a_limit_of_one_gives() -> None:
    assert [Range.of(FLOAT32, members, 1.0, 0, 2).step for members in (3, 4, 16)] == [2**-23, 2**-23, 2**-21]
    assert [Range.of(FLOAT64, members, 1.0, 0, 2).step for members in (3, 4, 16)] == [2**-55, 2**-55, 2**-53]
    assert [Range.of(FLOAT32, members, None, 0, 2).step for members in (3, 4, 16)] == [2**-36, 2**-36, 2**-34]


@pytest.mark.parametrize(
    ("value", "arguments", "error"),
    [
        (np.ones(2), {"op": "max"}, UnsupportedValue),
        (np.ones(2, np.complex64), {}, UnsupportedValue),
        (np.ones(2, bool), {}, UnsupportedValue),
        ({}, {}, UnsupportedValue),
        (np.ones(2), {"limit": 0.0}, SettingError),
        (np.ones(2), {"limit": math.inf}, SettingError),
        (np.ones(2), {"noise": -1.0}, SettingError),
        (np.ones(2), {"noise": math.nan}, SettingError),
        (np.ones(2), {"colluding": -1}, SettingError),
        (np.ones(2, np.float32), {"limit": 1e6, "noise": 1e-3}, SettingError),
        (np.ones(2, np.int64), {"limit": 2.0**60}, SettingError),
        (np.ones(2, np.int64), {"noise": 2.0**26}, SettingError),
    ],
)
async def test_what_is_refused_before_anything_is_sent(
    make_epoch: MakeEpoch, value: Any, arguments: dict[str, Any], error: type[Exception]
) -> None:
    epoch = make_epoch(range(3))
    for each in await reduce(epoch, [value] * 3, **arguments):
        assert isinstance(each, error), each
    assert epoch.members[0].engine.completed == 0
    assert epoch.members[0].broken is None


def test_a_sum_that_does_not_fit_its_integers_is_no_sum() -> None:
    chosen = Range.of(INT8, 3, None, 0, 1)
    total = np.add.reduce([chosen.encode(np.array([100], np.int8)) for _ in range(3)])
    with pytest.raises(OutOfRange, match="a sum does not fit int8; give int64"):
        chosen.decode(total, "sum")


# -- noise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("colluding", "of_all"), [(0, 1.0), (1, 4 / 3), (2, 2.0), (3, 4.0)])
def test_the_honest_members_noise_alone_is_what_was_asked_for(colluding: int, of_all: float) -> None:
    """Variance 1 without the colluding members' part; that of all four is what it comes to with it."""
    chosen = Range.of(FLOAT32, 4, 8.0, 1.0, 4 - colluding)
    one = (chosen.share_sigma * chosen.step) ** 2
    assert (4 - colluding) * one == pytest.approx(1.0, rel=1e-3)
    assert (4 - colluding) * one >= 1.0
    assert 4 * one == pytest.approx(of_all, rel=1e-3)


async def test_the_sum_has_the_noise_that_was_asked_for(make_epoch: MakeEpoch) -> None:
    items = 12_000
    values = [{"a": np.full(items, rank, np.float32), "n": np.full(items, rank)} for rank in range(3)]
    found = await reduce(make_epoch(range(3)), values, limit=4.0, noise=5.0, colluding=0)
    for each in found:
        np.testing.assert_array_equal(each["a"], found[0]["a"])  # one noise, the same at all
    for off in (found[0]["a"] - 3.0, found[0]["n"] - 3.0):
        assert abs(off.mean()) < 25 / math.sqrt(items)
        assert off.var() == pytest.approx(25.0, rel=0.16)  # of integers each share is rounded up to 3 steps
    assert found[0]["n"].dtype == np.int64
    other = await reduce(make_epoch(range(3)), values, limit=4.0, noise=5.0, colluding=0)
    assert not np.array_equal(other[0]["a"], found[0]["a"])


# -- memory -----------------------------------------------------------------------------------------------


async def test_memory_is_bounded_by_a_few_times_the_value(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))
    items = 500_000
    given = [np.zeros(items, np.float32) for _ in range(3)]
    tracemalloc.start()
    try:
        found = await reduce(epoch, given, limit=1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not found[0].any()
    # for each member: residues, what goes, what comes, sums, the result; and what is on the way
    assert peak < 3 * 6 * given[0].nbytes
