"""What a soak sees of a process: by /proc, and by its own objects."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections import deque
from pkgutil import resolve_name

import pytest

from tests.soak import census, kept, proc
from tests.soak.chart import bars, chart
from tests.soak.samples import Samples, Series

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is as Linux tells it")


class Slotted:
    __slots__ = ("items", "unset")

    def __init__(self) -> None:
        self.items = {1: "a", 2: "b"}


class Keeper(Slotted):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = [1, 2, 3]
        self.latest = deque([1, 2], maxlen=2)  # bounded: it cannot leak

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"a census asked for {name}")


def test_descriptors_are_counted_by_kind_and_mappings_with_their_bytes() -> None:
    before = proc.held(os.getpid())
    fd = os.memfd_create("test")
    os.ftruncate(fd, 1 << 20)
    read, write = os.pipe()
    with mmap.mmap(fd, 1 << 20) as mapped:  # which opens the descriptor once more
        mapped[:] = bytes(1 << 20)
        after = proc.held(os.getpid())
    for each in (fd, read, write):
        os.close(each)
    assert {name: after[name] - before[name] for name in ("descriptors", "memfds", "pipes", "sockets")} == {
        "descriptors": 4,
        "memfds": 2,
        "pipes": 2,
        "sockets": 0,
    }
    assert after["mappings"] > before["mappings"]
    assert after["mapped bytes"] >= before["mapped bytes"] + (1 << 20)
    assert after["threads"] >= 1
    assert after["private bytes"] > 1 << 20


def test_a_process_that_has_ended_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken note
    with pytest.raises(ProcessLookupError, match="has ended"):
        proc.held(process.pid)
    process.wait()
    with pytest.raises(ProcessLookupError, match="has ended"):
        proc.held(process.pid)


def test_objects_are_counted_by_class_and_the_items_of_their_containers_by_attribute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Keeper, "__module__", "duetlink.made_up")
    keepers = [Keeper() for _ in range(3)]
    found = {name: number for name, number in census.take().items() if "made_up" in name}
    assert found == {
        "duetlink.made_up.Keeper": 3,
        "items of duetlink.made_up.Keeper.items": 6,
        "items of duetlink.made_up.Keeper.waiting": 9,
    }
    del keepers
    assert not any("made_up" in name for name in census.take())


def test_what_is_kept_on_purpose_has_a_limit_and_nothing_else_does() -> None:
    assert kept.limit("duetlink.net.link.history.Second") == 3600
    assert kept.limit("items of duetlink.net.link.history.Seconds._kept") == 3600
    assert kept.limit("duetlink.duet.objects.asset.Content") is None
    assert kept.limit("memfds") is None


@pytest.mark.parametrize("beginning", [beginning for beginning, _ in kept.LIMITS])
def test_each_limit_names_a_module_or_a_class_that_there_is(beginning: str) -> None:
    owner, _, attribute = beginning.rstrip(".").rpartition(".")
    found = resolve_name(owner)
    # the attributes of a class are those of its objects, which only they have
    assert isinstance(found, type) or resolve_name(f"{owner}.{attribute}")


def test_a_series_is_judged_by_its_kind() -> None:
    def leak(quantity: str, *values: float) -> float:
        return Series("owner", quantity, list(values)).leak

    rising = [100.0 * number for number in range(11)]
    assert leak("memfds", *rising) == 600
    assert leak("memfds", *rising[:10]) == 0  # too few to tell
    assert leak("_asyncio.FutureIter", 22, 29, 24, 25, 26, 27, 27, 26, 27, 28, 29) == 0
    assert leak("_asyncio.Future", *range(71, 467, 36)) == 216
    assert leak("private bytes", *rising) == 0
    assert leak("private bytes", *(2e7 * number for number in range(11))) == 120_000_000
    assert leak("items of duetlink.groups.lifecycle.departures.Departures._ends", *range(11)) == 0
    assert leak("items of duetlink.groups.lifecycle.departures.Departures._ends", *range(5, 22)) == 5


def test_what_was_not_seen_in_a_cycle_counts_as_none() -> None:
    samples = Samples()
    samples.add("owner", {"threads": 5})
    samples.add("owner", {"threads": 5, "duetlink.some.Thing": 1})
    samples.add("owner", {"threads": 6})
    assert samples.to_json()["processes"]["owner"]["values"] == {
        "duetlink.some.Thing": [0, 1, 0],
        "threads": [5, 5, 6],
    }
    assert len(samples.to_json()["processes"]["owner"]["times_s"]) == 3


def test_bars_go_from_the_least_to_the_largest() -> None:
    assert bars(range(8)) == "▁▂▃▄▅▆▇█"
    assert bars([5.0, 5.0, 5.0]) == "▁▁▁"
    assert bars([*[0.0] * 399, 7.0]) == "▁" * 39 + "█"


def test_the_chart_shows_what_is_judged_and_objects_that_leak() -> None:
    flat = Series("owner", "threads", [9.0] * 11)
    short = Series("newcomer", "threads", [9.0])
    still = Series("owner", "duetlink.some.Thing", [9.0] * 11)
    leaks = Series("owner", "duetlink.other.Thing", [float(number) for number in range(11)])
    assert [
        [cell.removeprefix("[bold red]") for cell in row[1:3]] for row in chart([still, leaks, short, flat])
    ] == [
        ["threads", "▁▁▁▁▁▁▁▁▁▁▁"],
        ["duetlink.other.Thing[/]", "▁▁▂▃▃▄▅▅▆▇█[/]"],
    ]
    assert str(leaks) == "owner: duetlink.other.Thing rose by 6, to 10"
