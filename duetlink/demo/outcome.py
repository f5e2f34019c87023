"""The tables at the end of the demo, made of what the two kernels told and nothing else."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from duetlink.demo.errors import DemoFailed
from duetlink.demo.screen import COLOURS
from duetlink.demo.summary import Summary, times
from duetlink.duet.display import size_text, visible

_ANSWERS = {"approved": "green", "denied": "red", "withdrawn": "yellow", "pending": "yellow"}


def check(owner: Summary, scientist: Summary) -> None:
    """Raise DemoFailed unless the two sides tell of one and the same duet, with nothing left open."""
    if not owner.verifier or owner.verifier != scientist.verifier:
        raise DemoFailed(
            f"the two sides see different verifiers, {owner.verifier!r} and {scientist.verifier!r}: "
            "somebody is in between"
        )
    if (owner.sent_bytes, owner.received_bytes) != (scientist.received_bytes, scientist.sent_bytes):
        raise DemoFailed(
            f"the two sides count differently: the owner sent {owner.sent_bytes} and received "
            f"{owner.received_bytes} bytes, the scientist received {scientist.received_bytes} and sent "
            f"{scientist.sent_bytes}"
        )
    for side in (owner, scientist):
        if unfinished := [entry.name for entry in side.transfers if entry.state != "complete"]:
            raise DemoFailed(
                f"on the {side.role}'s side, transfers are not complete: {', '.join(unfinished)}"
            )
        if side.state != "connected":
            raise DemoFailed(f"at the end the {side.role}'s duet was not connected but {side.state}")


def show(console: Console, owner: Summary, scientist: Summary, *, signaling: str, code: str) -> None:
    """Print the tables."""
    for table in (
        _link(owner, scientist, signaling, code),
        _requests(owner),
        _transfers(owner, scientist),
    ):
        console.print()
        console.print(table)
    console.print("timed by the sender, from its offer until the receiver had all of it", style="dim")


def _table(title: str, *headers: str) -> Table:
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=None,
        pad_edge=False,
        show_header=bool(headers),
        header_style="dim",
        padding=(0, 2, 0, 0),
    )
    for header in headers:
        numeric = header in ("size", "took", "rate")
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    return table


def _link(owner: Summary, scientist: Summary, signaling: str, code: str) -> Table:
    table = _table("How they paired")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("signaling server", signaling)
    table.add_row("session code", Text(visible(code)).append("  works once, and is used up now", "dim"))
    verifier = Text(visible(owner.verifier)).append("  ✓ the same on both sides", "green")
    table.add_row("verifier", verifier)
    paths = Text(owner.path, "bold")
    if owner.path != scientist.path:
        paths = Text(f"{owner.path} (owner), {scientist.path} (scientist)", "bold")
    table.add_row("path for arrays", paths)
    trips = Text()
    for side in (owner, scientist):
        if side.round_trip_s is not None:
            trips.append(f"{side.round_trip_s * 1000:.1f} ms").append(f" from the {side.role}   ", "dim")
    table.add_row("control channel", trips)
    return table


def _requests(owner: Summary) -> Table:
    table = _table("What was asked for", "object", "size", "the scientist's reason", "the owner's answer")
    for request in owner.requests:
        answer = Text(request.state, _ANSWERS.get(request.state, ""))
        if request.answer_reason:
            answer.append(f": {visible(request.answer_reason)}", "default")
        table.add_row(
            Text(visible(request.name)), size_text(request.size_bytes), Text(visible(request.reason)), answer
        )
    return table


def _transfers(owner: Summary, scientist: Summary) -> Table:
    table = _table("What moved", "object", "direction", "size", "took", "rate", "path")
    for sender, receiver in ((owner, scientist), (scientist, owner)):
        for transfer in sender.transfers:
            if transfer.direction == "out":
                direction = Text(sender.role, COLOURS[sender.role])
                direction.append(" → ", "default").append(receiver.role, COLOURS[receiver.role])
                table.add_row(
                    Text(visible(transfer.name)),
                    direction,
                    size_text(transfer.size_bytes),
                    *times(transfer),
                    transfer.path,
                )
    return table
