"""Groups as people use them: several members in one process, over real links."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import duetlink
from duetlink import errors
from duetlink.groups.api.group import Group
from duetlink.groups.membership import events
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import Prepare, to_wire
from duetlink.net.signaling import SessionCode
from duetlink.net.signaling.wordlist import EVEN, ODD
from duetlink.testing.faults import life_of, run_inside, stream_to

from .conftest import QUICK, TIMEOUT_S, MakeGroup, together, until, while_it_waits


def other_words(code: str | None) -> str:
    """The same number with other words."""
    right = SessionCode.parse(str(code))
    words = (next(word for word in ODD if word != right.words[0]), next(word for word in EVEN))
    return str(SessionCode(right.nameplate, words, right.server))


def test_four_meet_by_one_code_and_work(make_group: MakeGroup, private_audit_log: Path) -> None:
    groups = make_group(4)
    assert [(group.rank, group.size, group.epoch) for group in groups] == [(rank, 4, 1) for rank in range(4)]
    assert len({group.verifier for group in groups}) == 1
    names = [[member.name for member in group.members] for group in groups]
    assert names == [["member 0", "member 1", "member 2", "member 3"]] * 4
    assert repr(groups[2].members).splitlines()[3].split() == ["2", "member", "2", "this", "member"]
    assert "<td>member 1</td>" in groups[0].members._repr_html_()
    assert repr(groups[1]) == "<Group ready, rank 1 of 4, epoch 1>"

    sums = together(groups, lambda group: group.all_reduce(np.full(3, 1.0 + (group.rank or 0))))
    assert [found.tolist() for found in sums] == [[10.0] * 3] * 4
    sums = together(groups, lambda group: group.all_reduce(np.array([0.0, 1.5, 0.0]), codec="union"))
    assert [found.tolist() for found in sums] == [[0.0, 6.0, 0.0]] * 4
    assert [(report.way, report.union_items) for report in groups[2].sums] == [("union", 1)]
    means = together(groups, lambda group: group.average({"w": np.float64(group.rank)}, weight=group.rank))
    assert [float(found["w"]) for found in means] == [pytest.approx((0 + 1 + 4 + 9) / 6)] * 4

    def model(group: Group) -> Any:
        linear = torch.nn.Linear(2, 1)
        with torch.no_grad():
            linear.weight.fill_(float(group.rank or 0))
            linear.bias.fill_(2.0)
        assert group.average(linear) is linear
        return linear.weight.tolist(), linear.bias.tolist()

    assert together(groups, model) == [([[1.5, 1.5]], [2.0])] * 4
    assert together(groups, lambda group: group.all_gather(group.rank)) == [[0, 1, 2, 3]] * 4
    assert together(groups, lambda group: group.broadcast("" if group.rank else np.arange(2)))[
        0
    ].tolist() == [0, 1]
    place = [np.full(2, rank) for rank in range(4)]
    rank: Any = np.int64(3)
    together(groups, lambda group: group.broadcast(place[group.rank or 0], rank, in_place=True))
    assert [array.tolist() for array in place] == [[3, 3]] * 4
    assert together(groups, lambda group: group.gather(group.rank, 2)) == [None, None, [0, 1, 2, 3], None]
    assert together(groups, lambda group: group.reduce(group.rank, 1, "max")) == [None, 3, None, None]
    parts = together(groups, lambda group: group.reduce_scatter([1, 2, 3, 4]))
    assert parts == [4, 8, 12, 16]
    assert together(groups, lambda group: group.scatter([5, 6, 7, 8] if group.rank == 0 else None)) == [
        5,
        6,
        7,
        8,
    ]
    swapped = together(
        groups, lambda group: group.all_to_all([10 * (group.rank or 0) + to for to in range(4)])
    )
    assert swapped[1] == [1, 11, 21, 31]
    assert together(groups, lambda group: group.barrier()) == [None] * 4

    def pass_on(group: Group) -> Any:
        rank = group.rank or 0
        group.send(rank, (rank + 1) % 4)
        return group.recv((rank - 1) % 4).value

    assert together(groups, pass_on) == [3, 0, 1, 2]

    async def awaited() -> Any:
        operations = [group.awaitable.all_reduce(group.rank, "sum") for group in groups]
        return await asyncio.gather(*operations)

    assert asyncio.run(awaited()) == [6] * 4
    written = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    average = next(entry for entry in written if entry["kind"] == "group" and entry["name"] == "average")
    assert (average["size_bytes"], average["reason"]) == (8, "epoch 1")
    assert average["peer"].split(", ")[0] in ("0 member 0", "1 member 1")


def test_a_state_that_is_equal_moves_no_arrays_and_one_that_is_not_moves_what_differs(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = make_group(3)
    moved: list[int] = []
    from duetlink.groups.api import shared_state

    original = shared_state.sync

    async def counted(*arguments: Any) -> Any:
        result, moved_bytes = await original(*arguments)
        moved.append(moved_bytes)
        return result, moved_bytes

    monkeypatch.setattr(shared_state, "sync", counted)

    def state(group: Group) -> dict[str, Any]:
        return {"same": np.arange(1000.0), "odd": np.full(4, group.rank == 1, dtype=np.int16)}

    found = together(groups, lambda group: group.sync(state(group)))
    assert [each["odd"].tolist() for each in found] == [[0] * 4] * 3
    assert [each["same"].sum() for each in found] == [499500.0] * 3
    assert sorted(moved) == [0, 8, 8]
    moved.clear()
    together(groups, lambda group: group.sync({"x": torch.ones(5, dtype=torch.bfloat16)}))
    assert moved == [0, 0, 0]
    half = together(
        groups, lambda group: group.sync(torch.full((2, 2), group.rank == 0, dtype=torch.bfloat16))
    )
    assert [each.tolist() for each in half] == [[[0.0, 0.0], [0.0, 0.0]]] * 3


def test_a_member_that_forbids_the_local_path_shares_no_memory(make_group: MakeGroup) -> None:
    settings = dataclasses.replace(QUICK, only=("tcp", "channel"))
    groups = make_group(2, settings=settings)
    sums = together(groups, lambda group: group.all_reduce(np.full(3, 1.0 + (group.rank or 0))))
    assert [found.tolist() for found in sums] == [[3.0] * 3] * 2
    assert groups[0].explain("all_reduce", 24).chosen.algorithm != "shared"


def test_a_wrong_code_burns_the_seats_that_are_left(make_group: MakeGroup) -> None:
    with duetlink.group(size=3, name="ann", settings=QUICK) as launched:
        joined = duetlink.group(launched.code, name="ben", settings=QUICK)
        with pytest.raises(errors.WrongCode, match="burnt"):
            duetlink.group(other_words(launched.code), settings=QUICK)
        with pytest.raises(errors.WrongCode, match="seats that were left are burnt"):
            launched.wait_ready(10)
        with pytest.raises((errors.CodeUsed, errors.UnknownCode)):
            duetlink.group(launched.code, settings=QUICK)
        launched.close_doors()  # and go on with those who are in
        assert (launched.wait_ready(10).size, joined.wait_ready(10).size) == (2, 2)
        joined.close()


def test_why_a_group_will_never_be_whole_is_told_however_long_it_is_waited_for() -> None:
    settings = dataclasses.replace(QUICK, code_lifetime_s=1.0)
    with duetlink.group(size=3, settings=settings) as launched:
        for timeout_s in (30, None):
            with pytest.raises(errors.PairingTimeout, match="only 1 of 3 members have joined"):
                launched.wait_ready(timeout_s)


def test_a_full_group_is_closed_and_groups_and_duets_do_not_mix(make_group: MakeGroup) -> None:
    groups = make_group(2)
    for _ in range(2):  # and it stays so
        with pytest.raises(errors.GroupFull, match="the group is full"):
            duetlink.group(groups[0].code, settings=QUICK)
    with duetlink.launch(settings=QUICK) as duet:
        with pytest.raises(errors.IncompatiblePeer, match=r"code of a duet: duetlink\.join\(code\)"):
            duetlink.group(duet.code, name="ben", settings=QUICK)
        until(lambda: "ben tried to join this duet as a group" in str(duet.state))
    with duetlink.group(size=2, settings=QUICK) as waiting:
        with pytest.raises(errors.IncompatiblePeer, match=r"code of a group.*: duetlink\.group\(code\)"):
            duetlink.join(str(waiting.code), name="eve", settings=QUICK)
        with duetlink.group(waiting.code, name="ben", settings=QUICK) as ben:  # the seat is free again
            assert (waiting.wait_ready(TIMEOUT_S).size, ben.wait_ready(TIMEOUT_S).size) == (2, 2)
    assert together(groups, lambda group: group.all_reduce(1)) == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 1}, "2 to 16"),
        ({"size": 17}, "2 to 16"),
        ({"code": "7-crossover-clockwork", "size": 3}, "give only the code"),
        ({"size": 2, "on_loss": "shrug"}, "on_loss"),
        ({"size": 2, "only": ("everything",)}, "only"),
        ({"size": 2, "signaling": "paste"}, "by hand"),
        ({"size": 2, "only": "average"}, r"only=\('average',\)"),
        ({"size": 2.5}, "2 to 16 members, not 2.5"),
        ({"size": "4"}, "2 to 16 members, not '4'"),
        ({"size": 2, "name": 7}, "not 7"),
        ({"size": 2, "patience_s": "long"}, "not 'long'"),
        ({"code": 4}, "say size=4"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_opened(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((errors.SettingError, errors.MalformedCode), match=words):
        duetlink.group(**arguments)


def test_operations_that_are_not_among_those_allowed_are_refused(make_group: MakeGroup) -> None:
    groups = make_group(2, only=("average", "sum"))
    refused = together(groups, lambda group: group.all_gather(1))
    assert [type(error) for error in refused] == [errors.OperationRefused] * 2
    assert [type(error) for error in together(groups, lambda group: group.all_reduce(1, "max"))] == [
        errors.OperationRefused
    ] * 2
    assert together(groups, lambda group: group.all_reduce(2)) == [4, 4]
    assert together(groups, lambda group: group.average(np.float64(3))) == [3.0, 3.0]
    once: Any = iter(("sum",))
    with (
        duetlink.group(size=2, only=once, settings=QUICK) as waiting,
        pytest.raises(errors.OperationRefused, match=r"only=\('sum',\)"),
    ):
        waiting.all_gather(1)


def test_a_call_that_cannot_be_made_is_refused_here_and_the_others_wait_for_one_that_can(
    make_group: MakeGroup,
) -> None:
    ann, ben = make_group(2)
    waiting: list[Any] = []
    other = threading.Thread(target=lambda: waiting.append(ben.all_reduce(1, timeout_s=TIMEOUT_S)))
    other.start()
    for call, words in (
        (lambda: ann.all_reduce(1, "summ", timeout_s=5), "no operation 'summ'; there are sum, mean"),
        (lambda: ann.all_reduce(1, algorithm="rign", timeout_s=5), "no algorithm 'rign'; it has naive"),
        (lambda: ann.gather(1, root=2, timeout_s=5), "no rank 2 in a group of 2; ranks are 0 to 1"),
        (lambda: ann.broadcast(1, root="0", timeout_s=5), "no rank '0'"),  # type: ignore[arg-type]
        (lambda: ann.send(1, 0, timeout_s=5), "rank 0 is this member"),
        (lambda: ann.send(1, 1, tag=-19, timeout_s=5), "tag is -19"),
        (lambda: ann.recv(1, tag="a", timeout_s=5), "tag is 'a'"),  # type: ignore[arg-type]
        (lambda: ann.barrier(timeout_s="5"), "timeout_s is '5'"),  # type: ignore[arg-type]
        (lambda: ann.average(1.0, weight=float("nan"), timeout_s=5), "weight is nan"),
        (lambda: ann.explain("all_reduce", 8, density=7), "density of 7"),
    ):
        with pytest.raises(errors.SettingError, match=words):
            call()
    with pytest.raises(errors.UnsupportedValue, match=r"not ndarray; list\(array\)"):
        ann.all_to_all(np.ones((2, 3)), timeout_s=5)  # type: ignore[arg-type]
    with pytest.raises(errors.UnsupportedValue, match=r"give its state_dict\(\)"):
        ann.all_reduce(torch.nn.Linear(2, 1), timeout_s=5)
    with pytest.raises(errors.LocalProtocolError, match=r"no event loop runs here.*call group\.all_reduce"):
        ann.awaitable.all_reduce(1)
    assert ann.all_reduce(2, timeout_s=TIMEOUT_S) == 3
    other.join()
    assert waiting == [3]


def test_whoever_is_left_of_two_is_told_whom_it_lost(make_group: MakeGroup) -> None:
    ann, _ = make_group(2)

    async def lose() -> None:
        life_of(ann).feed(events.Gone(1))

    run_inside(ann, lose())
    for call in (ann.barrier, lambda: ann.wait_members(3, 5)):
        with pytest.raises(errors.NoMajority, match=r"lost rank 1 \(member 1\): 1 of the 2 members"):
            call()


def test_whoever_launched_may_leave_and_the_others_go_on(make_group: MakeGroup) -> None:
    groups = make_group(3)
    words = groups[1].verifier
    groups[0].close()
    rest = groups[1:]
    assert together(rest, lambda group: group.all_reduce(1)) == [2, 2]
    assert [(group.rank, group.size, group.epoch) for group in rest] == [(0, 2, 2), (1, 2, 2)]
    assert [member.name for member in rest[0].members] == ["member 1", "member 2"]
    assert [group.verifier for group in rest] == [words, words]
    assert groups[0].state.startswith("closed")
    assert [member.state for member in groups[0].members] == ["this member"]
    with pytest.raises(errors.LinkClosed, match="group is closed"):
        groups[0].barrier()


def test_an_open_group_takes_newcomers_between_operations(make_group: MakeGroup) -> None:
    with duetlink.group(name="ann", settings=QUICK) as ann:
        ben = duetlink.group(ann.code, name="ben", settings=QUICK)
        until(
            lambda: [member.state for member in ann.members] == ["this member", "waiting for the next epoch"]
        )
        both = [ann, ben]
        together(both, lambda group: group.admit())
        assert together(both, lambda group: group.average(1.0 + (group.rank or 0))) == [1.5, 1.5]
        eve = duetlink.group(ann.code, name="eve", settings=QUICK)
        # the next average takes her in, and she is in that very average
        results: list[Any] = []
        late = threading.Thread(target=lambda: results.append(eve.average(6.0)))
        until(lambda: [member.state for member in ann.members][2:] == ["waiting for the next epoch"])
        late.start()
        assert (
            together(both, lambda group: group.average(float(group.rank or 0))) == [pytest.approx(7 / 3)] * 2
        )
        late.join(TIMEOUT_S)
        assert results == [pytest.approx(7 / 3)]
        assert [group.epoch for group in (ann, ben, eve)] == [2, 2, 2]
        assert len({group.verifier for group in (ann, ben, eve)}) == 1
        eve.close()
        ben.close()


def test_members_that_call_different_things_both_hear_of_it_and_go_on(make_group: MakeGroup) -> None:
    groups = make_group(2)

    def different(group: Group) -> Any:
        return group.all_reduce(np.ones(3)) if group.rank else group.barrier()

    found = together(groups, different)
    assert [type(error) for error in found] == [errors.OperationMismatch] * 2
    assert "barrier" in str(found[1])
    assert "all_reduce" in str(found[0])
    assert together(groups, lambda group: group.all_reduce(1)) == [2, 2]


def test_an_operation_that_takes_too_long_ends_everywhere_with_its_input_as_it_was(
    make_group: MakeGroup,
) -> None:
    groups = make_group(3)
    given = np.ones(100_000)

    def call(group: Group) -> Any:
        if group.rank == 2:
            return None
        return group.all_reduce(given if group.rank == 0 else np.ones(100_000), in_place=True, timeout_s=0.3)

    found = together(groups, call)
    assert isinstance(found[0], errors.CallTimeout | errors.OperationAborted)
    assert isinstance(found[1], errors.CallTimeout | errors.OperationAborted)
    assert given.sum() == 100_000
    until(lambda: [group.epoch for group in groups] == [2, 2, 2])
    assert together(groups, lambda group: group.all_reduce(1)) == [3, 3, 3]


def test_a_member_that_speaks_for_another_is_put_out_and_the_others_go_on(make_group: MakeGroup) -> None:
    groups = make_group(3)
    hostile = life_of(groups[2])

    async def lie() -> None:
        hostile.links.send(1, pb.GroupMessage(linked=pb.Linked(seat=1)))
        hostile.links.send(0, pb.GroupMessage(agreement=to_wire(Prepare(1, (1, 0), ()))))

    run_inside(groups[2], lie())
    rest = groups[:2]
    found = together(rest, lambda group: group.all_reduce(1))
    assert [(type(error), error.rank, error.name) for error in found] == [
        (errors.PeerLost, 2, "member 2")
    ] * 2
    assert together(rest, lambda group: group.all_reduce(1)) == [2, 2]
    until(lambda: groups[2].state.startswith("closed"))
    with pytest.raises(errors.GroupOver):
        groups[2].barrier()


def test_a_member_that_sends_no_messages_of_an_operation_is_put_out(make_group: MakeGroup) -> None:
    groups = make_group(3)
    together(groups, lambda group: group.barrier())
    epoch = life_of(groups[2]).open_epoch
    assert epoch is not None

    async def spoil() -> None:
        stream = await stream_to(epoch.mesh, 0)
        await stream.send(b"no head of a message", memoryview(b""))

    run_inside(groups[2], spoil())
    rest = groups[:2]
    found = together(rest, lambda group: group.all_reduce(1))
    assert isinstance(found[0], errors.RemoteProtocolError | errors.PeerLost)
    assert isinstance(found[1], errors.PeerLost)
    assert found[1].rank == 2
    assert together(rest, lambda group: group.all_reduce(1)) == [2, 2]


def test_with_on_loss_continue_the_sum_is_tried_again_among_who_is_left(make_group: MakeGroup) -> None:
    groups = make_group(3, on_loss="continue")
    together(groups, lambda group: group.barrier())
    rest = groups[:2]

    def leave() -> None:
        threading.Event().wait(0.2)
        groups[2].close()

    leaving = threading.Thread(target=leave)
    leaving.start()  # while the others wait for its part
    assert together(rest, lambda group: group.all_reduce(np.ones(2)).tolist()) == [[2.0, 2.0]] * 2
    leaving.join()


def test_who_tries_all_seats_at_once_has_one_guess(make_group: MakeGroup) -> None:
    with duetlink.group(size=4, settings=QUICK) as launched:
        wrong = other_words(launched.code)

        def guess(_: int) -> Any:
            try:
                return duetlink.group(wrong, settings=QUICK)
            except errors.DuetError as error:
                return error

        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(guess, range(3)))
        kinds = sorted(type(error).__name__ for error in found)
        assert kinds.count("WrongCode") >= 1
        assert set(kinds) <= {"WrongCode", "LinkClosed", "CodeUsed", "UnknownCode"}
        with pytest.raises(errors.WrongCode):
            launched.wait_ready(10)


def test_a_member_whose_audit_log_cannot_be_written_gives_nothing_until_it_can(tmp_path: Path) -> None:
    logs = [tmp_path / f"member-{number}" / "audit.jsonl" for number in range(2)]
    settings = [dataclasses.replace(QUICK, audit_path=str(log)) for log in logs]
    directory, kept = logs[1].parent, tmp_path / "kept"

    def break_log() -> None:
        directory.rename(kept)
        directory.write_text("")  # a file, in which there can be no log

    def mend_log() -> None:
        directory.unlink()
        kept.rename(directory)

    with duetlink.group(size=2, settings=settings[0], patience_s=1.0) as first:
        groups = [first, duetlink.group(first.code, settings=settings[1], patience_s=1.0)]
        together(groups, lambda group: group.wait_ready(TIMEOUT_S))
        break_log()
        for _ in range(2):  # the second time as the first
            gave = while_it_waits(first, lambda group: group.all_reduce(1), lambda: groups[1].all_reduce(1))
            assert isinstance(gave[0], errors.OperationAborted)
            assert isinstance(gave[1], errors.AuditUnavailable)
            assert "gave up all_reduce at" in str(gave[0])
            assert "its audit log cannot be written (reported by" in str(gave[0])
            assert str(tmp_path) not in str(gave[0])
            assert "nothing leaves until it can" in str(gave[1])
        mend_log()
        assert together(groups, lambda group: group.all_reduce(1)) == [2, 2]
        written = [json.loads(line)["kind"] for line in logs[1].read_text().splitlines()]
        assert written == ["opened", "connected", "group"]
        break_log()
        groups[1].close()  # what is left of it is freed all the same
        assert groups[1].state.startswith("closed: this side closed the group")
