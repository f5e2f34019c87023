"""Jobs of torch that meet as a group: what a URL may say, wrong codes and sizes, and the Store."""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duetlink.errors import (
    GroupError,
    LimitExceeded,
    MalformedCode,
    OperationRefused,
    PeerLost,
    RemoteProtocolError,
    SettingError,
    WrongCode,
)
from duetlink.groups.api.opening import open_group
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.torch.backend import DuetlinkBackend
from duetlink.groups.torch.face import Face
from duetlink.groups.torch.group_links import GroupLinks
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.job import TorchJob
from duetlink.groups.torch.rendezvous import UrlArguments, meet
from duetlink.groups.torch.store_contents import MOST_HELD_BYTES, Op, Question, StoreContents
from duetlink.net.link.shared_endpoint import shared_endpoint
from duetlink.net.streams.frames import Message
from tests.groups.conftest import QUICK, TIMEOUT_S, MakeGroup, together


def test_a_url_says_the_code_and_the_size() -> None:
    assert UrlArguments.parse("duetlink://?size=3") == UrlArguments(None, 3)
    assert UrlArguments.parse("duetlink://7-crossover-clockwork@[::1]:4000?size=2&name=ann") == UrlArguments(
        "7-crossover-clockwork@[::1]:4000", 2, "ann"
    )
    assert UrlArguments.parse("duetlink://?world_size=4&signaling=wss://example.org/") == UrlArguments(
        None, 4, None, "wss://example.org/"
    )


@pytest.mark.parametrize(
    "url",
    [
        "duetlink://7-crossover-clockwork",
        "duetlink://?size=three",
        "duetlink://?size=3&world_size=2",
        "duetlink://?size=3&rank=1",
        "duetlink://?size=3&color=red",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(SettingError):
        next(meet(url))


def test_what_is_no_code_and_a_size_that_no_group_has_are_refused() -> None:
    with pytest.raises(MalformedCode):
        next(meet("duetlink://crossover?size=3"))
    with pytest.raises(SettingError, match="2 to 16 members, not 40"):
        next(meet("duetlink://?size=40"))


def test_a_wrong_code_and_a_wrong_size_are_told() -> None:
    with open_group(None, QUICK, size=2) as launched, ThreadPoolExecutor(1) as pool:
        code = str(launched.code)
        joining = pool.submit(lambda: next(meet(f"duetlink://{code}?size=3", timedelta(seconds=TIMEOUT_S))))
        with pytest.raises(SettingError, match="the group has 2 members, and size=3 was asked for"):
            joining.result(TIMEOUT_S)
    with open_group(None, QUICK, size=2) as launched:
        number, first, rest = str(launched.code).split("-", 2)
        last, at, server = rest.partition("@")
        wrong = "-".join((number, first, "aardvark" if last != "aardvark" else "absurd"))
        with pytest.raises((WrongCode, MalformedCode)):
            next(meet(f"duetlink://{wrong}{at}{server}?size=2"))


def test_a_store_of_a_group_at_hand(make_group: MakeGroup) -> None:
    groups = make_group(3)
    stores: list[GroupStore] = together(groups, GroupStore)
    assert [(store.rank, store.size) for store in stores] == [(0, 3), (1, 3), (2, 3)]
    stores[1].set("a", "one")
    assert [store.get("a") for store in stores] == [b"one"] * 3
    assert together(stores, lambda store: store.add("n", 2)) != [2, 2, 2]
    assert stores[2].get("n") == b"6"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(stores[2].wait, ["a", "late"], timedelta(seconds=TIMEOUT_S))
        stores[1].set("late", b"")
        assert waiting.result(TIMEOUT_S) is None
    assert stores[1].compare_set("a", "other", "two") == b"one"
    assert stores[1].compare_set("new", "", "three") == b"three"
    assert stores[2].num_keys() == 4
    assert stores[2].delete_key("a")
    assert not stores[2].delete_key("a")
    stores[1].set_timeout(timedelta(milliseconds=50))
    with pytest.raises(GroupError, match=r"Timed out after 0\.05 s: no rank has set 'a'"):
        stores[1].get("a")
    groups[0].close()
    with pytest.raises(PeerLost):
        stores[1].get("n")


def test_how_a_sum_of_a_job_went_is_told_by_its_group(make_group: MakeGroup) -> None:
    groups = make_group(2)
    stores: list[Any] = together(groups, GroupStore)

    def summed(store: GroupStore) -> float:
        job = TorchJob(store.rank, store.size, shared_endpoint.use().thread, GroupLinks(store), QUICK, 1)
        try:
            collectives = job.thread.run(job.enter("all", [0, 1], TIMEOUT_S))
            found: Any = job.thread.run(collectives.all_reduce(np.ones(4), ReduceOptions(codec="union")))
            job.thread.run(collectives.close())
        finally:
            job.close()
        return float(found[3])

    assert together(stores, summed) == [2.0, 2.0]
    for group in groups:
        shown = group.status().sum
        assert shown is not None
        assert (shown.codec, shown.text) == ("union", str(group.sums[-1]))


def test_a_job_is_refused_where_only_some_operations_are_allowed_and_is_in_the_audit_log(
    tmp_path: Path,
) -> None:
    log = tmp_path / "audit.jsonl"
    settings = dataclasses.replace(QUICK, audit_path=str(log))
    launched = open_group(None, settings, size=2, name="ann")
    joined = open_group(str(launched.code), QUICK, name="ben", only=("sum",))
    try:
        with pytest.raises(OperationRefused, match=r"torch\.distributed is not among what this group allows"):
            GroupStore(joined)
        GroupStore(launched)
    finally:
        together([launched, joined], lambda group: group.close())
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(e["name"], e["peer"]) for e in entries if e["kind"] == "group"] == [
        ("torch.distributed", "1 ben")
    ]


def test_the_backend_for_a_later_torch_has_what_its_base_looks_for() -> None:
    """By the names that torch 2.14's `Backend` calls in Python; torch 2.13 cannot construct one."""
    looked_for = [
        "broadcast",
        "allreduce",
        "allreduce_sparse",
        "allreduce_coalesced",
        "reduce",
        "allgather",
        "all_gather_single",
        "allgather_coalesced",
        "all_gather_single_coalesced",
        "gather",
        "scatter",
        "reduce_scatter",
        "reduce_scatter_single",
        "reduce_scatter_single_coalesced",
        "all_to_all_single",
        "alltoall",
        "send",
        "recv",
        "recv_anysource",
        "barrier",
        "monitored_barrier",
        "reconfigure",
        "get_reconfigure_handle",
        "supports_reconfigure",
        "set_timeout",
        "abort",
        "shutdown",
        "getBackendName",
    ]
    assert set(looked_for) <= vars(Face).keys() | vars(DuetlinkBackend).keys()


async def test_a_member_cannot_fill_the_keepers_memory() -> None:
    contents = StoreContents()
    part = bytes(MOST_HELD_BYTES // 8)
    for number in range(7):
        await contents.answer(Op.SET, [b"%d" % number, part], 1.0)
    with pytest.raises(GroupError, match="no room for 'more'"):
        await contents.answer(Op.SET, [b"more", part], 1.0)
    await contents.answer(Op.DELETE, [b"0"], 1.0)
    await contents.answer(Op.SET, [b"more", part], 1.0)
    with pytest.raises(GroupError, match="'more' holds no number"):
        await contents.answer(Op.ADD, [b"more", b"1"], 1.0)
    # the largest number that Python reads; it does not write the next one
    await contents.answer(Op.SET, [b"large", b"9" * 4300], 1.0)
    with pytest.raises(GroupError, match="'large' holds no number"):
        await contents.answer(Op.ADD, [b"large", b"1"], 1.0)


def test_what_is_no_question_is_refused() -> None:
    head, body = Question(Op.SET, 5, 1.0, (b"key", b"value")).to_wire()
    assert Question.from_wire(_message(head, body)).fields == (b"key", b"value")
    for wrong in (
        (head, body[:-1]),
        (head, body + b"\0"),
        (head, body[:7]),
        (b"\x09" + head[1:], body),
        (head[:-8] + b"\xff" * 8, body),
    ):
        with pytest.raises(RemoteProtocolError):
            Question.from_wire(_message(*wrong))
    with pytest.raises(LimitExceeded):
        Question.from_wire(_message(head, bytes(9_000_000)))
    # what waits for its keys is held, and 1,024 questions of one member may wait
    with pytest.raises(LimitExceeded, match="bytes of keys"):
        Question.from_wire(_message(*Question(Op.WAIT, 5, 1.0, (b"k" * 70_000,)).to_wire()))


def _message(head: bytes, body: bytes) -> Any:
    return Message(head, memoryview(body))
