"""Errands of several users on one thread."""

from __future__ import annotations

import threading

from duetlink.base.runtime.errands import Errands


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "duetlink-errands"]


def test_there_is_one_thread_from_the_first_user_to_the_last_and_all_is_done_in_order() -> None:
    errands, done = Errands("duetlink-errands"), list[int]()
    assert threads() == []
    errands.begin()
    errands.begin()
    (thread,) = threads()
    for number in range(100):
        errands.put(lambda number=number: done.append(number))  # type: ignore[misc]
    errands.end()
    assert threads() == [thread]
    errands.put(lambda: done.append(100))
    errands.end()
    thread.join(10)
    assert done == list(range(101))
    assert threads() == []


def test_an_errand_that_fails_does_not_keep_the_others_from_being_done() -> None:
    errands, done = Errands("duetlink-errands"), threading.Event()
    errands.begin()
    errands.put(lambda: 1 / 0)
    errands.put(done.set)
    errands.end()
    assert done.wait(10)


def test_it_begins_anew_after_its_end() -> None:
    errands = Errands("duetlink-errands")
    for _ in range(2):
        done = threading.Event()
        errands.begin()
        errands.put(done.set)
        assert done.wait(10)
        errands.end()
