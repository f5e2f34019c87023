"""Descriptors as a budget: what may wait is refused near the end, what must go on has some of its own."""

from __future__ import annotations

import os

import pytest

from duetlink.base.runtime import descriptors
from duetlink.base.runtime.descriptors import Reserve
from duetlink.errors import DescriptorsShort


def opened(target: str = os.devnull) -> int:
    """How many descriptors of this process lead there."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}") == target
        except OSError:
            continue
    return count


@pytest.mark.parametrize(
    ("open_", "limit", "refused"),
    [
        (959, 1024, False),
        (960, 1024, True),
        (111, 128, False),
        (112, 128, True),
        (5000, None, False),
        (None, 1024, False),
    ],
)
def test_the_last_ones_are_not_for_what_may_wait(
    monkeypatch: pytest.MonkeyPatch, open_: int | None, limit: int | None, refused: bool
) -> None:
    monkeypatch.setattr(descriptors, "used", lambda: open_)
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    if not refused:
        descriptors.check_room("'x' is not shared")
        return
    with pytest.raises(DescriptorsShort, match=f"^'x' is not shared: {open_} of the {limit:,} descriptors"):
        descriptors.check_room("'x' is not shared")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
def test_they_are_counted() -> None:
    before = descriptors.used()
    assert before is not None
    fd = os.open(os.devnull, os.O_RDONLY)
    assert descriptors.used() == before + 1
    os.close(fd)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
def test_a_reserve_is_free_while_it_is_lent_and_taken_back_after() -> None:
    before = opened()
    reserve = Reserve(3)
    assert opened() == before + 3
    with reserve.lent():
        assert opened() == before
        with reserve.lent():
            pass
        assert opened() == before
    assert opened() == before + 3
    reserve.close()
    reserve.close()
    assert opened() == before
    with reserve.lent():
        pass
    assert opened() == before
