"""Sharing arrays of `duetlink.empty`: mapped by a peer of this host, and copy-on-write afterwards."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import Policy, errors
from duetlink.net.paths.shared_memory import SharedMemory
from tests.conftest import DuetPair, MakeDuets
from tests.duet.test_duet import pointer, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds exist on Linux only")

COUNT = 1 << 20


def filled(value: float = 1.0) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = duetlink.empty(COUNT)
    array[:] = value
    return array


@pytest.fixture
def nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: SharedMemory, piece: memoryview, offset_bytes: int) -> None:
        assert len(piece) < 1000, "an array is copied to shared memory"  # but the proof of one host is
        original(self, piece, offset_bytes)

    original = SharedMemory.write
    monkeypatch.setattr(SharedMemory, "write", write)


@pytest.fixture
def near(make_duets: MakeDuets) -> DuetPair:
    owner, scientist = make_duets(only=("local",))
    owner.policies.add(Policy("approve"))
    return owner, scientist


@pytest.mark.usefixtures("nothing_is_copied")
def test_a_shared_array_is_mapped_and_what_is_written_afterwards_reaches_nobody(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    owner.share(array, "scans")
    array[:] = 2
    first = pointer(scientist, "scans").get(timeout_s=10)
    assert first.min() == first.max() == 1
    first[:] = 3
    assert array.min() == array.max() == 2
    second = pointer(scientist, "scans").get(timeout_s=10)
    assert second.min() == second.max() == 1
    assert {transfer.path for transfer in scientist.transfers} == {"local"}


@pytest.mark.usefixtures("nothing_is_copied")
def test_an_unchanged_array_is_shared_twice_without_a_copy(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    owner.share(array, "a")
    owner.share(array, "b")
    assert pointer(scientist, "a").get(timeout_s=10)[-1] == 1
    assert pointer(scientist, "b").get(timeout_s=10)[-1] == 1


def test_a_changed_array_is_shared_again_by_a_copy(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    owner.share(array, "scans")
    array[0] = 2
    owner.share(array, "scans")
    until(lambda: scientist.store["scans"].revision == 2)
    again = pointer(scientist, "scans").get(timeout_s=10)
    assert (again[0], again[1]) == (2, 1)


def test_it_leaves_only_by_an_approval_and_both_are_logged(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(only=("local",))
    owner.share(filled(), "scans")
    pending = pointer(scientist, "scans").request("to look")
    owner.wait_request(10).deny("not yet")
    with pytest.raises(errors.RequestDenied, match="not yet"):
        pending.result(10)
    pending = pointer(scientist, "scans").request("now")
    owner.wait_request(10).approve()
    assert pending.result(10)[0] == 1
    until(lambda: [entry.kind for entry in owner.audit].count("release") == 2)  # its beginning and its end
    kinds = [entry.kind for entry in owner.audit if entry.kind in ("share", "request", "answer", "release")]
    assert kinds == ["share", "request", "answer", "request", "answer", "release", "release"]


def test_a_preview_shows_what_would_leave_and_not_what_was_written_since(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(only=("local",))
    array = duetlink.empty(4 * COUNT)
    owner.share(array, "scans")
    array[:] = 5
    pending = pointer(scientist, "scans").request("to look")
    assert "5" not in owner.wait_request(10).preview()
    pending.withdraw()


def test_over_another_path_it_arrives_as_it_was_shared(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(only=("tcp",))
    owner.policies.add(Policy("approve"))
    array = filled()
    owner.share(array, "scans")
    array[:] = 2
    assert pointer(scientist, "scans").get(timeout_s=10).max() == 1


def test_a_share_that_fails_and_a_gift_leave_the_array_as_it_was(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    with pytest.raises(errors.SettingError):
        owner.share(array, "scans", mock="of no kind")
    with pytest.raises(errors.SettingError):
        owner.share(array, "scans", budget=duetlink.Budget(1.0))
    owner.send(array, "given")
    array[0] = 2
    owner.share(array, "scans")  # what was written is in the memory itself
    array[0] = 3
    assert pointer(scientist, "scans").get(timeout_s=10)[0] == 2


def test_the_status_counts_the_bytes_in_shared_memory_once(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    owner.share(array, "mapped")
    owner.share(array + 1, "copied")
    for name in ("mapped", "copied"):
        pointer(scientist, name).get(timeout_s=10)
    size_bytes = owner.store["mapped"].size_bytes
    sizes = {held.title: (held.size_bytes, held.shared_bytes) for held in owner.status().held}
    assert sizes == {
        "mapped, revision 1": (size_bytes, size_bytes),
        "shared memory of mapped, revision 1": (0, 0),
        "copied, revision 1": (size_bytes, 0),
        "shared memory of copied, revision 1": (size_bytes, size_bytes),
    }
    assert (owner.status().held_bytes, owner.status().shared_bytes) == (3 * size_bytes, 2 * size_bytes)
    assert owner.status().table().caption.startswith("Held: 25.2 MB, 16.8 MB of it in shared memory; ")


def test_the_memory_ends_with_the_asset_and_the_array(near: DuetPair) -> None:
    owner, scientist = near
    array = filled()
    asset = owner.share(array, "scans")
    arrived = pointer(scientist, "scans").get(timeout_s=10)
    del array
    assert pointer(scientist, "scans").get(timeout_s=10)[0] == 1
    asset.unshare()
    assert arrived[0] == 1
