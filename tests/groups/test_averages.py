"""Means over members in corners: the right value, or a typed error that leaves everything as it was."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

from duetlink.errors import OutOfRange, SettingError, UnsupportedValue
from duetlink.groups.api import shared_state
from duetlink.groups.collectives import averaging
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.secure import averages
from duetlink.groups.secure.sums import SecureSum
from tests.groups.secure.conftest import Epoch, MakeEpoch, make_epoch

__all__ = ["make_epoch"]

NAN, INF = float("nan"), float("inf")
Way = Literal["plain", "weighted", "secure", "secure weighted"]
WAYS: tuple[Way, ...] = ("plain", "weighted", "secure", "secure weighted")
WEIGHTED: tuple[Way, ...] = ("weighted", "secure weighted")


async def mean(
    epoch: Epoch, way: Way, values: list[Any], weights: list[float], limit: float | None = None
) -> list[Any]:
    """What an average of the values, one for each rank, gives at each rank: a value or an error."""

    async def one(rank: int) -> object:
        weight = weights[rank] if way in WEIGHTED else None
        if way in ("plain", "weighted"):
            return await averaging.average(epoch.members[rank], values[rank], weight, "a.py")
        members, party = epoch.members[rank], epoch.party
        options = ReduceOptions(secure=True, limit=limit)
        return await averages.average(SecureSum(), members, party, values[rank], weight, options, call="a.py")

    return await epoch.all(one)


class Model(nn.Module):
    mask: torch.Tensor

    def __init__(self, weight: float, mask: list[bool]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([weight]))
        self.register_buffer("mask", torch.tensor(mask))


class Extra(nn.Linear):
    def __init__(self, extra: Any) -> None:
        super().__init__(2, 1)
        self.extra = extra
        nn.init.ones_(self.weight)

    def get_extra_state(self) -> Any:
        return self.extra


# -- weights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WEIGHTED)
async def test_the_value_of_a_member_with_weight_0_does_not_count(make_epoch: MakeEpoch, way: Way) -> None:
    values = [{"x": np.array([1.0, 2.0]), "y": torch.tensor([4.0])} for _ in range(3)]
    values[1] = {"x": np.array([NAN, INF]), "y": torch.tensor([-INF])}
    values[2] = {"x": np.array([5.0, 6.0]), "y": torch.tensor([8.0])}
    for found in await mean(make_epoch(range(3)), way, values, [1.0, 0.0, 3.0], limit=10.0):
        assert found["x"].tolist() == [4.0, 5.0]
        assert found["y"].tolist() == [7.0]


@pytest.mark.parametrize("way", WEIGHTED)
async def test_a_bool_of_a_member_with_weight_0_does_not_count(make_epoch: MakeEpoch, way: Way) -> None:
    models = [Model(2.0, [True, False]), Model(NAN, [False, False]), Model(6.0, [True, False])]
    assert await mean(make_epoch(range(3)), way, models, [1.0, 0.0, 1.0]) == models
    for model in models:
        assert model.weight.tolist() == [4.0]
        assert model.mask.tolist() == [True, False]


async def test_weights_without_a_finite_sum_are_refused(make_epoch: MakeEpoch) -> None:
    models = [Model(float(rank), [True]) for rank in range(3)]
    for found in await mean(make_epoch(range(3)), "weighted", models, [1e308, 1e308, 1e308]):
        assert isinstance(found, UnsupportedValue)
        assert str(found) == "the members' weights add up to more than 1.8e308; give smaller ones"
    assert [model.weight.item() for model in models] == [0.0, 1.0, 2.0]


async def test_a_secure_weight_that_its_range_cannot_tell_from_others_is_refused(
    make_epoch: MakeEpoch,
) -> None:
    for found in await mean(make_epoch(range(3)), "secure weighted", [np.ones(2)] * 3, [1e-9] * 3):
        assert isinstance(found, SettingError)
        assert str(found).startswith("weight is 1e-09: 0, or 0.000976562 to 1,048,576 in a secure average")


@pytest.mark.parametrize("way", WEIGHTED)
async def test_a_weight_that_is_no_number_is_refused(make_epoch: MakeEpoch, way: Way) -> None:
    weights: list[Any] = ["many", NAN, -1.0]
    for found in await mean(make_epoch(range(3)), way, [np.ones(2)] * 3, weights):
        assert isinstance(found, SettingError)


async def test_a_small_share_of_float16_keeps_its_digits(make_epoch: MakeEpoch) -> None:
    values = [np.full(1, 1000 * rank, np.float16) for rank in range(3)]
    for found in await mean(make_epoch(range(3)), "weighted", values, [99_998.0, 1.0, 1.0]):
        assert found.dtype == np.float16
        assert found[0] == pytest.approx(0.03, rel=0.002)


# -- beyond the range of the items ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["plain", "weighted"])
@pytest.mark.parametrize(
    "value",
    [
        np.array([60_000, 3, -60_000], np.float16),
        np.array([3e38, 3, -3e38], np.float32),
        np.array([1.5e308, 3, -1.5e308]),
        torch.tensor([3e38, 3, -3e38], dtype=torch.bfloat16),
    ],
    ids=lambda value: str(value.dtype),
)
async def test_a_mean_is_right_where_the_sum_has_no_room(make_epoch: MakeEpoch, way: Way, value: Any) -> None:
    found = await mean(make_epoch(range(3)), way, [value] * 3, [1.0, 1.0, 1.0])
    for each in found:
        assert each.dtype == value.dtype
        near = {"float16": 1e-3, "torch.bfloat16": 1e-2}.get(str(value.dtype), 1e-6)
        assert [float(item) for item in each] == pytest.approx([float(item) for item in value], rel=near)


async def test_infinities_and_no_numbers_of_members_stay(make_epoch: MakeEpoch) -> None:
    values = [np.array([INF, NAN, INF, 1.0, 3e38], np.float32) for _ in range(3)]
    values[1] = np.array([1.0, 1.0, -INF, 1.0, -3e38], np.float32)
    for found in await mean(make_epoch(range(3)), "plain", values, []):
        assert found[:4].tolist() == pytest.approx([INF, NAN, NAN, 1.0], nan_ok=True)
        assert found[4] == pytest.approx(1e38, rel=1e-6)


async def test_a_mean_in_place_is_right_where_the_sum_has_no_room(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))
    arrays = [np.array([3e38, float(rank)], np.float32) for rank in range(3)]
    await epoch.all(
        lambda rank: epoch.members[rank].all_reduce(arrays[rank], ReduceOptions("mean", in_place=True))
    )
    for array in arrays:
        assert array.tolist() == pytest.approx([3e38, 1.0], rel=1e-6)


@pytest.mark.parametrize("codec", ["union", "auto", "integers"])
async def test_a_coded_mean_has_the_bits_of_the_dense_one(make_epoch: MakeEpoch, codec: str) -> None:
    epoch = make_epoch(range(3))
    given = np.zeros(4096, np.float32)
    given[7], given[9] = 3e38, 2.0
    found: list[Any] = await epoch.all(
        lambda rank: epoch.members[rank].all_reduce(given, ReduceOptions("mean", codec=codec))
    )
    dense: list[Any] = await epoch.all(
        lambda rank: epoch.members[rank].all_reduce(given, ReduceOptions("mean", algorithm="ring"))
    )
    for each in found:
        assert each.tobytes() == dense[0].tobytes()
        assert each[7] == pytest.approx(3e38, rel=1e-6)


@pytest.mark.parametrize("size", [2, 3, 16])
async def test_a_mean_of_integers_is_right_where_the_sum_has_no_room(
    make_epoch: MakeEpoch, size: int
) -> None:
    value = {
        "int": 2**63 - 1,
        "lowest": np.array([-(2**63), -(2**63) + 1]),
        "unsigned": np.array([2**64 - 1, 0, 5], np.uint64),
        "torch": torch.tensor([2**62, -1]),
        "byte": np.array([255], np.uint8),
    }
    for found in await mean(make_epoch(range(size)), "plain", [value] * size, []):
        assert found["int"] == 9_223_372_036_854_775_807
        assert found["lowest"].tolist() == [-9_223_372_036_854_775_808, -9_223_372_036_854_775_807]
        assert found["unsigned"].tolist() == [18_446_744_073_709_551_615, 0, 5]
        assert found["torch"].tolist() == [4_611_686_018_427_387_904, -1]
        assert found["byte"].tolist() == [255]


async def test_a_mean_of_integers_is_rounded_halves_up(make_epoch: MakeEpoch) -> None:
    values = [np.array([0, 0, 2**63 - 1, -1]), np.array([1, -1, 2**63 - 2, -2])]
    for found in await mean(make_epoch(range(2)), "plain", values, []):
        assert found.tolist() == [1, 0, 9_223_372_036_854_775_807, -1]


@pytest.mark.parametrize("codec", [None, "union"])
async def test_every_mean_of_integers_has_room(make_epoch: MakeEpoch, codec: str | None) -> None:
    epoch = make_epoch(range(3))
    given = np.full(300, 2**63 - 1)
    found = await epoch.all(lambda rank: epoch.members[rank].reduce(given, 1, "mean", codec=codec))
    assert np.array_equal(found[1], given)  # type: ignore[arg-type]
    found = await epoch.all(
        lambda rank: epoch.members[rank].reduce_scatter([given, given[:2], given], "mean")
    )
    assert [np.asarray(each).tolist() for each in found] == [
        [2**63 - 1] * 300,
        [2**63 - 1] * 2,
        [2**63 - 1] * 300,
    ]
    found = await epoch.all(
        lambda rank: epoch.members[rank].all_reduce(given, ReduceOptions("mean", codec=codec))
    )
    assert all(np.array_equal(each, given) for each in found)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WEIGHTED)
async def test_integers_that_a_weighted_mean_cannot_keep_are_refused(make_epoch: MakeEpoch, way: Way) -> None:
    epoch = make_epoch(range(3))
    value = {"a": torch.ones(2), "steps": torch.tensor(2**60 + 1)}
    for found in await mean(epoch, way, [value] * 3, [1.0] * 3, limit=2.0**50):
        assert isinstance(found, UnsupportedValue)
        assert str(found).startswith("value['steps'] has integers beyond 2^47 (140,737,488,355,328)")
    assert epoch.members[0].engine.completed == 0


async def test_equal_integers_keep_their_value_under_any_weights(make_epoch: MakeEpoch) -> None:
    value = {
        "np": np.array([2**47, -(2**47), 2**47 - 1]),
        "torch": torch.tensor([2**47 - 3]),
        "int": 2**46 + 1,
    }
    value["arrow"] = pa.array([7, 8])
    for found in await mean(make_epoch(range(3)), "weighted", [value] * 3, [3.0, 7.0, 11.0]):
        assert found["np"].tolist() == [2**47, -(2**47), 2**47 - 1]
        assert (found["torch"].tolist(), found["int"]) == ([2**47 - 3], 2**46 + 1)
        assert found["arrow"].to_pylist() == [7, 8]


# -- bools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", [None, 10.0, 0.3])
async def test_a_bool_buffer_that_all_have_stays(
    make_epoch: MakeEpoch, way: Way, limit: float | None
) -> None:
    models = [Model(0.1 * rank, [True, False, True]) for rank in range(3)]
    assert await mean(make_epoch(range(3)), way, models, [2.0] * 3, limit) == models
    for model in models:
        assert model.weight.tolist() == pytest.approx([0.1], abs=1e-6)
        assert model.mask.tolist() == [True, False, True]
        assert model.mask.dtype == torch.bool


@pytest.mark.parametrize("way", WAYS)
async def test_a_bool_buffer_that_differs_is_named_and_the_model_stays(
    make_epoch: MakeEpoch, way: Way
) -> None:
    models = [Model(float(rank), [True, rank == 1]) for rank in range(3)]
    for found in await mean(make_epoch(range(3)), way, models, [1.0, 2.0, 3.0]):
        assert isinstance(found, UnsupportedValue)
        assert str(found).startswith(
            "value['mask'] is bool and not the same at all members, so it has no mean"
        )
    assert [model.weight.item() for model in models] == [0.0, 1.0, 2.0]
    assert [model.mask.tolist()[1] for model in models] == [False, True, False]


@pytest.mark.parametrize("way", WAYS)
async def test_bools_alone_are_kept(make_epoch: MakeEpoch, way: Way) -> None:
    for value in (np.array([True, False]), [True, np.bool_(False)]):
        for found in await mean(make_epoch(range(3)), way, [value] * 3, [1.0] * 3):
            assert list(found) == [True, False]


# -- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("extra", [{"steps": 3}, torch.tensor([1.0]), 7])
async def test_an_extra_state_is_refused_before_anything_is_sent(
    make_epoch: MakeEpoch, way: Way, extra: Any
) -> None:
    epoch = make_epoch(range(3))
    models = [Extra(extra) for _ in range(3)]
    for found in await mean(epoch, way, models, [1.0] * 3):
        assert isinstance(found, UnsupportedValue)
        assert str(found).startswith("the model's state has '_extra_state', a ")
    assert epoch.members[0].engine.completed == 0
    assert [model.weight.tolist() for model in models] == [[[1.0, 1.0]]] * 3


@pytest.mark.parametrize("way", WAYS)
async def test_the_same_keys_in_another_order_are_one_value(make_epoch: MakeEpoch, way: Way) -> None:
    values: list[dict[str, Any]] = [
        {"a": np.array([1.0]), "b": {"x": np.array([2.0]), "y": np.array([3.0])}},
        {"b": {"y": np.array([5.0]), "x": np.array([4.0])}, "a": np.array([3.0])},
        {"b": {"x": np.array([6.0]), "y": np.array([7.0])}, "a": np.array([5.0])},
    ]
    for rank, found in enumerate(await mean(make_epoch(range(3)), way, values, [1.0] * 3)):
        assert list(found) == list(values[rank])
        assert found["a"] == pytest.approx(3.0)
        assert found["b"]["x"] == pytest.approx(4.0)
        assert found["b"]["y"] == pytest.approx(5.0)


async def test_other_names_of_the_same_shapes_are_no_one_value(make_epoch: MakeEpoch) -> None:
    values = [{"a": np.ones(1), "b" if rank else "c": np.ones(1)} for rank in range(3)]
    found = await mean(make_epoch(range(3)), "plain", values, [])
    assert all(isinstance(each, Exception) for each in found)


async def test_a_state_of_another_model_leaves_a_model_as_it_was(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))
    models = [nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(3, 1)]
    models[1].load_state_dict(models[0].state_dict())
    before = models[2].weight.tolist(), models[2].bias.tolist()
    found = await epoch.all(lambda rank: shared_state.sync(epoch.members[rank], models[rank], "a.py"))
    assert isinstance(found[2], UnsupportedValue)
    assert "has the shape (1, 3) in this model, and (1, 2) at the others" in str(found[2])
    assert (models[2].weight.tolist(), models[2].bias.tolist()) == before


async def test_what_is_beyond_a_secure_range_leaves_the_model_as_it_was(make_epoch: MakeEpoch) -> None:
    models = [Model(5.0 * rank, [True]) for rank in range(3)]
    found = await mean(make_epoch(range(3)), "secure weighted", models, [1.0] * 3, limit=6.0)
    assert isinstance(found[2], OutOfRange)
    assert [model.weight.item() for model in models] == [0.0, 5.0, 10.0]
