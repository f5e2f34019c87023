"""Follow a group and write its trait and its ticks to the panel."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from duetlink.errors import SettingError
from duetlink.groups.api.group import Group
from duetlink.groups.lifecycle.status import (
    GoneStatus,
    GroupStatus,
    LinkStatus,
    MemberStatus,
    OperationStatus,
    SumStatus,
)
from duetlink_widgets.contract import (
    SCHEMA,
    Code,
    Foreign,
    GroupGoneRow,
    GroupLinkRow,
    GroupMemberRow,
    GroupOperation,
    GroupState,
    GroupSum,
    GroupTick,
)
from duetlink_widgets.pages import Outlet, Pages

_PUBLISH_EVERY = 4  # ticks; speeds and round trips change all the time
_LONGEST_TEXT = 160  # characters
_LONGEST_REPORT = 1000
_GONE_SHOWN_S = 600.0  # long enough for a user who returns to the notebook after a few minutes


class GroupFeed(Pages):
    """Follows a group for an outlet, from construction until `close`."""

    def __init__(self, group: Group, outlet: Outlet) -> None:
        super().__init__(outlet)
        self._group = group
        self._sequence = itertools.count()
        self.begin()
        self._unwatch = group.watch(self.changed)

    def close(self) -> None:
        self._unwatch()
        super().close()

    def _publish_now(self) -> None:
        self._outlet.publish({"group": asdict(group_state(self._group.status()))})

    def _send_all(self) -> None:
        code = self._group.code
        if code is not None:
            line = f"group = duetlink.group('{code}')"  # as that of a duet: it may be pasted between quotes
            self._outlet.say(asdict(Code("code", code, line, 0.0, False)))

    def _tick(self) -> None:
        sequence, now = next(self._sequence), self._group.status()
        if sequence % _PUBLISH_EVERY == 0:
            self._outlet.publish({"group": asdict(group_state(now))})
        operation = None if now.operation is None else _operation(now.operation)
        waited = [round(member.waited_s, 1) for member in now.members]
        self._outlet.say(asdict(GroupTick("group_tick", sequence, operation, waited)))

    def _run(self, name: object, args: object) -> Any:
        command = COMMANDS.get(name) if isinstance(name, str) else None
        if command is None or not isinstance(args, Mapping):
            raise SettingError(
                f"the panel knows no command {name!r}; reload the page if duetlink was updated"
            )
        return command(self._group)


COMMANDS: dict[str, Callable[[Group], None]] = {
    "close_doors": lambda group: group.close_doors(),
    "leave": lambda group: group.close("left in the panel"),
}


def group_state(now: GroupStatus) -> GroupState:
    state, _, why = now.state.partition(": ")
    return GroupState(
        SCHEMA,
        state,
        _foreign(why),
        now.verifier,
        now.epoch,
        now.rank,
        now.size,
        [_member(member) for member in now.members],
        [_link(link) for link in now.links],
        [_gone(one) for one in now.gone if one.when_s > time.time() - _GONE_SHOWN_S],
        None if now.sum is None else _sum(now.sum),
    )


def _member(member: MemberStatus) -> GroupMemberRow:
    return GroupMemberRow(member.rank, _foreign(member.name), member.state)


def _link(link: LinkStatus) -> GroupLinkRow:
    round_trip_s = None if link.round_trip_s is None else round(link.round_trip_s, 4)
    rate = None if link.bytes_per_s is None else float(round(link.bytes_per_s, -4))
    return GroupLinkRow(link.of, link.to, link.path, round_trip_s, rate, link.now)


def _operation(operation: OperationStatus) -> GroupOperation:
    return GroupOperation(
        operation.call[:_LONGEST_TEXT],
        operation.elapsed_s,
        operation.done_bytes,
        operation.total_bytes,
        list(operation.waiting_for),
        operation.codec[:_LONGEST_TEXT],
    )


def _gone(one: GoneStatus) -> GroupGoneRow:
    return GroupGoneRow(one.rank, _foreign(one.name), round(one.when_s, 1), one.how, _foreign(one.why))


def _sum(now: SumStatus) -> GroupSum:
    return GroupSum(
        now.codec[:_LONGEST_TEXT],
        now.way,
        now.density,
        now.sent_bytes,
        now.dense_bytes,
        now.text[:_LONGEST_REPORT],
    )


def _foreign(text: str) -> Foreign:
    return Foreign(text[:_LONGEST_TEXT])
