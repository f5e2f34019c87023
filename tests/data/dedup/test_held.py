from __future__ import annotations

import gc
import weakref

import numpy as np

from duetlink.data.dedup import HeldBodies, Segment
from duetlink.data.dedup.held import MAX_BODIES


def body(size: int, value: int = 0) -> memoryview:
    return memoryview(bytes([value]) * size)


def values(held: HeldBodies) -> list[int]:
    return [kept.body[0] for kept in held.bodies()]


def test_newest_comes_first() -> None:
    held = HeldBodies(100)
    assert held.keep("a", body(10, 1), [Segment(0, 10, 2)])
    assert held.keep("b", body(10, 2), [])
    assert values(held) == [2, 1]
    assert held.bodies()[1].segments == (Segment(0, 10, 2),)
    assert held.total_bytes == 20


def test_the_oldest_goes_when_the_quota_is_reached() -> None:
    held = HeldBodies(100)
    for value in range(1, 5):
        held.keep(str(value), body(30, value), [])
    assert values(held) == [4, 3, 2]
    assert held.total_bytes == 90


def test_an_older_version_stays_while_there_is_room_and_goes_first() -> None:
    held = HeldBodies(100)
    held.keep("a", body(30, 1), [])
    held.keep("b", body(30, 2), [])
    held.keep("b", body(30, 3), [])
    assert values(held) == [3, 2, 1]
    held.keep("c", body(30, 4), [])
    assert values(held) == [4, 3, 1]


def test_a_body_above_the_quota_is_not_kept_and_drives_nothing_out() -> None:
    held = HeldBodies(100)
    held.keep("a", body(100, 1), [])
    assert not held.keep("b", body(101, 2), [])
    assert values(held) == [1]


def test_empty_bodies_do_not_add_up() -> None:
    held = HeldBodies(0)
    for index in range(MAX_BODIES + 10):
        held.keep(str(index), body(0), [])
    assert len(held.bodies()) == MAX_BODIES


def test_memory_is_kept_without_a_copy_and_let_go() -> None:
    array = np.arange(10)
    gone = weakref.ref(array)
    held = HeldBodies(1000)
    held.keep("a", array.data.cast("B"), [])
    array[0] = 77
    assert held.bodies()[0].body[0] == 77
    del array
    gc.collect()
    assert gone() is not None
    del held
    gc.collect()
    assert gone() is None
