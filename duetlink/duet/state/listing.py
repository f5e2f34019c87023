"""Tables of what is kept, for the command `duetlink state`: all names, or the contents of one."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from duetlink.base.quantities import size_text
from duetlink.duet.answering.states import PENDING
from duetlink.duet.display import Table
from duetlink.duet.state.contents import Contents
from duetlink.duet.state.directory import StateDirectory, state_directories
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.state import read
from duetlink.errors import StateBroken, StateUnavailable

_SHOWN = 100  # requests, the latest ones


def contents_of(state: StateDirectory) -> Contents:
    """Return the present contents, also while a kernel uses the state. Raises StateBroken, StateUnavailable:
    there is none.
    """
    if not state.exists():
        raise StateUnavailable(
            f"nothing is kept under the name {state.name!r} in {state.directory.parent}; see `duetlink state "
            "list` for what is"
        )
    file = StateFile.open(state.file, read_only=True)
    try:
        return read(file)
    finally:
        file.close()


def list_table(states: Path) -> Table:
    """Return a table with a row for each name, and how much it holds."""
    rows = []
    for state in state_directories(states):
        try:
            if state.exists():
                rows.append(_row(state))
        except (StateBroken, StateUnavailable) as error:
            rows.append(
                (
                    state.name,
                    f"cannot be read: duetlink state show {state.name}",
                    "",
                    "",
                    "",
                    _why(error),
                )
            )
    headers = ("name", "in use by", "changed", "assets", "policies", "requests")
    return Table(f"Kept in {states}", headers, rows, "nothing; duetlink.launch(resume=…) keeps something")


def tables(state: StateDirectory) -> Sequence[Table]:
    """Return tables of the contents of one name."""
    contents = contents_of(state)
    return [_assets(contents), _policies(contents), _requests(contents), _grants(contents)]


def _row(state: StateDirectory) -> tuple[str, ...]:
    contents = contents_of(state)
    changed = max(path.stat().st_mtime for path in state.directory.glob(f"{state.file.name}*"))
    pending = sum(request.state == PENDING for request in contents.requests)
    return (
        state.name,
        (state.holder() or "another process") if state.is_held() else "",
        datetime.datetime.fromtimestamp(changed).isoformat(" ", "minutes"),
        str(sum(record.shared for record in contents.assets.values())),
        str(len(contents.policies)),
        f"{pending} pending of {len(contents.requests)}",
    )


def _why(error: Exception) -> str:
    return "damaged" if isinstance(error, StateBroken) else str(error)


def _assets(contents: Contents) -> Table:
    rows = [
        (
            record.info.name,
            str(record.info.revision),
            f"{record.info.kind} {record.info.detail}",
            size_text(record.info.size_bytes),
            record.info.description,
            ", ".join(record.info.tags),
            record.info.mock,
            record.fingerprint[:16],
        )
        for record in contents.assets.values()
        if record.shared
    ]
    headers = ("name", "revision", "type", "size", "description", "tags", "mock", "fingerprint")
    return Table("Assets, without their content", headers, rows, "none")


def _policies(contents: Contents) -> Table:
    rows = [
        (str(index), policy.name, policy.action, policy.words(), contents.usage[policy.name].words())
        for index, policy in enumerate(contents.policies)
    ]
    headers = ("#", "name", "action", "which requests, how much", "has let out")
    return Table("Policies", headers, rows, "none")


def _requests(contents: Contents) -> Table:
    rows = [
        (
            str(request.number),
            request.state,
            request.peer_name,
            request.asset.name,
            request.reason,
            request.by,
            request.answer_reason,
            request.arrived.astimezone().strftime("%Y-%m-%d %H:%M"),
        )
        for request in contents.requests[-_SHOWN:]
    ]
    number = len(contents.requests)
    title = "Requests" if number <= _SHOWN else f"Requests, the latest {_SHOWN} of {number:,}"
    headers = ("#", "state", "who", "object", "reason", "by", "answer", "when")
    return Table(title, headers, rows, "none")


def _grants(contents: Contents) -> Table:
    rows = [
        (peer, name, str(revision), str(number)) for (peer, name, revision), number in contents.grants.items()
    ]
    return Table(
        "Granted by a person, also for the next time",
        ("who", "object", "revision", "request"),
        rows,
        "nothing",
    )
