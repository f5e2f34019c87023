"""`duetlink.group`: from one code to a group of notebooks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from duetlink.duet.announcement import show_text
from duetlink.errors import PanelUnavailable
from duetlink.groups.api.group import Group
from duetlink.groups.api.opening import open_group
from duetlink.net.signaling.pasted import code_in
from duetlink.panel import in_notebook
from duetlink.settings import Settings


def group(
    code: str | None = None,
    *,
    size: int | None = None,
    name: str | None = None,
    signaling: str | None = None,
    settings: Settings | None = None,
    on_loss: str = "raise",
    patience_s: float = 10.0,
    only: Sequence[str] | None = None,
) -> Group:
    """Open a group and show its code for the other members; or join the group that waits under `code`.

    The founder, who opens the group, gets it at once. It begins when all members have joined: see
    `group.wait_ready()`, or call an operation, which waits. A member who joins gets the group connected to
    all other members.

    Args:
        code: the code that the founder gave you, such as "7-crossover-clockwork". None opens a new group.
        size: the number of members, 2 to 16. Without it the group is open until `group.close_doors()` or up
            to 16 members, and later members wait for `group.admit()` or the next `group.average()`.
        name: the name that the other members see.
        signaling: `ws://` or `wss://` address of a signaling server. Default: `DUETLINK_SIGNALING`, else the
            founder's kernel runs one for as long as the founder is in the group.
        settings: default `Settings.from_environment()`.
        on_loss: with "raise", the loss of a member ends the running operation with PeerLost at every member,
            once; the next operation runs among the remaining members. "continue" repeats it automatically.
        patience_s: seconds for which a member may be unreachable before it counts as lost.
        only: the operations that may be called here, such as ("average", "sum"); others raise
            OperationRefused. "sum" means all_reduce, reduce and reduce_scatter with sum or mean;
            "secure_sum" means all_reduce and average with secure=True.

    Raises:
        SettingError: an argument or variable cannot be used.
        MalformedCode, UnknownCode, CodeUsed, WrongCode: the code cannot be used; the message says why.
        GroupFull, CodeUnattended: the group is full, or no member admits others at the moment.
        IncompatiblePeer: it is the code of a duet, or the versions do not fit.
        SignalingUnavailable, SignalingRefused: the signaling server cannot be reached, or has no room.
        PortUnavailable: a port that the settings fix cannot be used.
        PairingError: the members were found, but could not be connected.
        AuditUnavailable: the audit log cannot be written.
    """
    settings = Settings.from_environment() if settings is None else settings
    if signaling is not None:
        settings = dataclasses.replace(settings, signaling=signaling)
    code = None if code is None else code_in(code)
    made = open_group(code, settings, size=size, name=name, on_loss=on_loss, patience_s=patience_s, only=only)
    try:
        _show(made, size, opened=code is None)
    except BaseException:
        made.close()
        raise
    return made


def _show(made: Group, size: int | None, *, opened: bool) -> None:
    """Show the panel in a notebook, where the code is not saved to the file; elsewhere print the code."""
    if in_notebook():
        with contextlib.suppress(PanelUnavailable):
            made.panel()
            return
    if not opened:
        return
    line = f"group = duetlink.group('{made.code}')"  # single quotes: the line may be pasted into "…"
    who = "everybody who may come" if size is None else f"the {size - 1} who may come"
    show_text(
        f"Send this line to {who}:\n\n    {line}\n\nThen compare the words of group.verifier.", code=line
    )
