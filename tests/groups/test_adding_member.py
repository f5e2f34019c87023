"""A member in a process of its own adds what three others send over real links, and cannot decode it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink.groups.api.group import Group
from tests.groups.conftest import together
from tests.groups.member import QUICK
from tests.groups.test_killed_members import Process

ITEMS = 300_000
DECODERS = ("peel", "places_of", "bitmap_of", "Lane", "Spans", "SketchPlan", "SketchTerms", "head_of")


def reduced(codec: str, arrays: Any, group: Group) -> Any:
    return group.reduce(arrays[group.rank], 0, codec=codec)


@pytest.fixture
def group_and_adder() -> Iterator[tuple[list[Group], Process]]:
    """Three members here, of which the first one launched; the fourth, of rank 1, is a process."""
    arguments: dict[str, Any] = {"settings": QUICK, "patience_s": 1.0}
    with contextlib.ExitStack() as stack:
        groups = [duetlink.group(size=4, name="root", **arguments)]
        adder = Process("adder")
        stack.callback(adder.end)
        stack.callback(lambda: together(groups, lambda group: group.close()))
        assert adder.run(str(groups[0].code)) == "ok None"
        groups += [duetlink.group(groups[0].code, name=name, **arguments) for name in ("north", "south")]
        together(groups, lambda group: group.wait_ready(60))
        assert adder.run("out = group.wait_ready(60).rank") == "ok 1"
        yield groups, adder


def test_a_member_adds_what_it_cannot_decode(group_and_adder: tuple[list[Group], Process]) -> None:
    groups, adder = group_and_adder
    assert adder.run("from duetlink.groups.collectives.sums import reduced") == "ok None"
    for name in DECODERS:  # whatever makes a coded array, or reads it, raises there from now on
        assert adder.run(f"reduced.{name} = None") == "ok None"
    random = np.random.default_rng(5)
    sparse, counts = {}, {}
    for group in groups:
        normal = 9 * random.normal(size=ITEMS)
        sparse[group.rank] = np.where(random.random(ITEMS) < 0.04, normal, 0).astype(np.float32)
        counts[group.rank] = np.trunc(normal).astype(np.float32) + np.float32(0)  # no -0.0
    for codec, arrays in (("union", sparse), ("sketch", sparse), ("integers", counts)):
        adder.begin(f"out = group.reduce(None, 0, codec={codec!r})")
        found = together(groups, partial(reduced, codec, arrays))
        assert adder.answer() == "ok None"
        assert found[0].tobytes() == (arrays[0] + (arrays[2] + arrays[3])).tobytes(), codec
        assert found[1:] == [None, None]
    assert [(report.codec, report.way, report.members) for report in groups[0].sums] == [
        ("union", "union", 3),
        ("sketch", "sketch", 3),
        ("integers", "integers", 3),
    ]
    # with an array of its own it would have to
    adder.begin("group.reduce(np.ones(300_000, np.float32), 0, codec='union')")
    together(groups, lambda group: group.reduce(sparse[group.rank], 0, codec="union"))
    assert adder.answer() == "error TypeError 'NoneType' object is not callable"
