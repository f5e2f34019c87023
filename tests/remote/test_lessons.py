"""Problems with pointers that users of PySyft's Duet reported; docs/duet-problems.md names these tests."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from duetlink import Mock, Policy, errors
from duetlink.duet.answering.requests import Request
from tests.conftest import MakeDuets
from tests.remote.conftest import Bench


def asked(bench: Bench) -> Request:
    return bench.owner.requests[-1]


def test_what_private_data_were_put_into_is_not_ones_own(bench: Bench) -> None:
    private = bench.share(torch.tensor([3.0, 5.0]), "private", mock=torch.zeros(2))

    def added_in_place() -> Any:
        mine = bench.scientist.remote(torch.zeros(2))
        mine.add_(private)
        return mine

    def in_a_dict() -> Any:
        return bench.scientist.remote({"mine": 1.0, "theirs": private})["theirs"]

    def in_a_list() -> Any:
        return bench.scientist.remote([1.0, private])[1]

    def written_into() -> Any:
        mine = torch.zeros(2) * bench.scientist.remote(torch.ones(2))
        mine[:] = private
        return mine

    for smuggle in (added_in_place, in_a_dict, in_a_list, written_into):
        count = len(bench.owner.requests)
        value = smuggle().get(reason=smuggle.__name__)
        assert torch.equal(value, torch.tensor([3.0, 5.0]))
        assert len(bench.owner.requests) == count + 1  # without an answer it would not have come
        lineage = asked(bench).lineage
        assert lineage is not None
        assert ("private", 1) in lineage.assets, smuggle.__name__


def test_parameters_that_were_taken_before_training_are_asked_for_after_it(bench: Bench) -> None:
    images = bench.share(torch.ones(4, 3), "images", mock=torch.zeros(4, 3))
    model = bench.scientist.remote(nn.Linear(3, 1))
    weight = next(iter(model.parameters()))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    model(images).mean().backward()
    optimiser.step()
    count = len(bench.owner.requests)
    weight.get(reason="they are mine")
    assert len(bench.owner.requests) == count + 1
    assert "images" in str(asked(bench).code)


def test_also_what_one_has_sent_comes_back_by_an_answer_only(bench: Bench) -> None:
    def deny(request: Request) -> None:
        request.deny("it is here now")

    bench.answer = deny
    with pytest.raises(errors.RequestDenied, match="it is here now"):
        bench.scientist.remote(np.ones(3)).get(reason="my own")


def test_lists_and_dicts_at_the_owner_do_not_change(bench: Bench) -> None:
    private = bench.share(np.arange(3.0), "kept out", mock=np.zeros(3))
    things = bench.scientist.remote({"a": 1})
    with pytest.raises(errors.OperationRefused, match="cannot be changed"):
        things["b"] = private
    listed = bench.share([1, 2], "list", mock=[0, 0])
    for name in ("append", "extend", "insert", "update"):
        assert not hasattr(listed, name)
        assert not hasattr(things, name)


def test_a_step_of_training_that_fails_on_the_real_data_is_told(bench: Bench) -> None:
    labels = bench.share(torch.tensor([0, 1, 7, 1]), "labels", mock=Mock(bounds=(0, 1)))
    images = bench.share(torch.ones(4, 1, 3, 3), "pictures", mock=torch.zeros(4, 1, 3, 3))
    model = bench.scientist.remote(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()))
    loss: Any = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    weight = next(iter(model.parameters()))
    for result in (loss, weight.grad):
        with pytest.raises(errors.OperationFailed, match=r"cross_entropy: IndexError: .* Target 7"):
            result.get(reason="loss")
    assert bench.scientist.check(weight.grad) is False
    assert bench.scientist.check(weight) is True


def test_a_frame_is_joined_grouped_and_concatenated(bench: Bench) -> None:
    towns = pd.DataFrame({"town": ["Ulm", "Bonn"], "people": [1, 3]})
    real = pd.DataFrame({"town": ["Ulm", "Bonn", "Bonn"], "age": [30.0, 40.0, 50.0]})
    frame = bench.share(real, "residents", mock=Mock(categories={"town": ["Ulm", "Bonn"]}))
    pandas = bench.scientist.remote(pd)

    def work(pandas: Any, frame: Any) -> Any:
        twice = pandas.concat([frame, frame])
        return twice.merge(towns, on="town").groupby("town").agg({"age": "mean", "people": "sum"})

    pd.testing.assert_frame_equal(work(pandas, frame).get(), work(pd, real))


def test_a_power_of_a_tensor_is_written_as_in_torch(bench: Bench) -> None:
    x = bench.share(torch.tensor([1.0, 2.0]), "powers", mock=torch.zeros(2)) + 1
    assert torch.equal((x**2).get(reason="power"), torch.tensor([4.0, 9.0]))
    x **= 2
    assert torch.equal(x.get(reason="power in place"), torch.tensor([4.0, 9.0]))


def test_what_one_has_placed_can_be_written_to(bench: Bench) -> None:
    mine = bench.scientist.remote(np.zeros(3))
    mine[1:] = 5
    np.testing.assert_array_equal(mine.get(reason="array"), [0, 5, 5])
    frame = bench.scientist.remote(pd.DataFrame({"a": [1, 2]}))
    frame.loc[0, "a"] = 9
    assert frame.get(reason="frame").a.tolist() == [9, 2]


def test_a_write_by_label_that_fails_is_told_of_the_frame(bench: Bench) -> None:
    mock = pd.DataFrame({"a": [0, 5, 6], "b": [0.0, 0.0, 0.0]})
    frame = bench.share(pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]}), "labelled", mock=mock)
    mine = frame.copy()
    mine.loc[mine.a > 2, "b"] = [10.0, 20.0]  # one row of the real data
    with pytest.raises(errors.OperationFailed, match="setitem"):
        mine.get(reason="it was not written")


def test_pointers_are_neither_copied_nor_pickled(bench: Bench) -> None:
    pointer = bench.share(np.arange(3.0), "single", mock=np.zeros(3))
    tensor = bench.scientist.remote(torch.zeros(2))
    for one in (pointer, pointer + 1, tensor):
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(errors.OperationRefused):
                copied(one)
    np.testing.assert_array_equal(copy.copy(pointer + 1).get(reason="the same"), [1, 2, 3])


def test_length_and_iteration_ask_nobody(bench: Bench) -> None:
    numbers = bench.share(np.arange(4.0), "numbers", mock=np.zeros(4))
    count = len(bench.owner.requests)
    items = list(numbers)
    assert (len(numbers), len(items), len(bench.owner.requests)) == (4, 4, count)
    assert items[3].get(reason="the last") == 3.0


def test_results_inherit_tags_and_what_the_original_tagged_by_its_name_is_an_operation(bench: Bench) -> None:
    waited: list[set[str]] = []

    def deny(request: Request) -> None:
        assert request.lineage is None or request.asset.tags == ("x",)
        waited.append(set(request.lineage.operations if request.lineage is not None else ()))
        request.deny()

    bench.answer = deny
    bench.owner.share(np.arange(6.0), "tagged", tags=["x"], mock=np.zeros(6))
    x: Any = bench.scientist.wait_object("tagged", 10)
    policies = bench.owner.policies
    policies.add(Policy("approve", name="mean", tags="x", operations="mean"))
    try:
        assert x.mean().get(reason="the mean") == 2.5
        for other in (x, x.sum(), x.mean() + 0):
            with pytest.raises(errors.RequestDenied):
                other.get(reason="not the mean")
    finally:
        policies.clear()
    assert waited == [set(), {"sum"}, {"mean", "add"}]


def test_two_owners_and_one_scientist(make_duets: MakeDuets) -> None:
    halves = np.array([1.0, 2.0]), np.array([30.0, 40.0])
    pointers: list[Any] = []
    scientists = []
    for half in halves:
        owner, scientist = make_duets()
        owner.policies.add(Policy("approve", operations=("mean",), max_elements=1))
        owner.share(half, "half", mock=np.zeros(2))
        pointers.append(scientist.wait_object("half", 10))
        scientists.append(scientist)
    with pytest.raises(errors.OperationRefused, match="belongs to another duet"):
        pointers[0].copy() + pointers[1]
    assert in_parallel([lambda pointer=pointer: pointer.mean().get() for pointer in pointers]) == [1.5, 35.0]  # type: ignore[misc]
    assert all(scientist.state == "connected" for scientist in scientists)


def in_parallel(calls: list[Callable[[], Any]]) -> list[Any]:
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda number=number, call=call: results.update({number: call()}))
        for number, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [results[number] for number in range(len(calls))]
