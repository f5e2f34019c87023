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
    """Open a group and show the one code for all who may come; or join the group that waits under `code`.

    Whoever opens it gets the group at once, and it begins when all are there: see `group.wait_ready()`, or
    just call an operation, which waits. Whoever joins gets it connected to everybody who is there.

    Args:
        code: what whoever opened the group has told you, such as "7-crossover-clockwork".
        size: how many members it has, 2 to 16. Without it, it is open until `group.close_doors()`, or up to
            16, and those who come later wait for `group.admit()` or the next `group.average()`.
        name: what the others see as your name.
        signaling: `ws://` or `wss://` address of a signaling server. Default: `DUETLINK_SIGNALING`, else
            whoever opens the group has one in this kernel, for as long as they are in it.
        settings: default `Settings.from_environment()`.
        on_loss: "raise" has the loss of a member end what runs with PeerLost at everybody, once; the next
            operation runs among those who are left. "continue" tries again by itself.
        patience_s: how long a member may be out of reach before it counts as lost.
        only: the operations that may be called here, such as ("average", "sum"); others raise
            OperationRefused. "sum" stands for all_reduce, reduce and reduce_scatter with sum or mean;
            "secure_sum" for all_reduce and average with secure=True.

    Raises:
        SettingError: an argument or variable cannot be used.
        MalformedCode, UnknownCode, CodeUsed, WrongCode: what is wrong with the code, and what to do.
        GroupFull, CodeUnattended: there is no room, or nobody lets anybody in just now.
        IncompatiblePeer: it is the code of a duet, or the versions do not fit.
        SignalingUnavailable, SignalingRefused: the signaling server cannot be reached, or has no room.
        PortUnavailable: nothing can listen at a port that the settings fix.
        PairingError: those who are there were met, but no connection came about.
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
    """In a notebook the panel, which leaves no code in the file; elsewhere the line for the others."""
    if in_notebook():
        with contextlib.suppress(PanelUnavailable):
            made.panel()
            return
    if not opened:
        return
    line = f"group = duetlink.group('{made.code}')"  # so that it may be pasted between double quotes as well
    who = "everybody who may come" if size is None else f"the {size - 1} who may come"
    show_text(
        f"Send this line to {who}:\n\n    {line}\n\nThen compare the words of group.verifier.", code=line
    )
