"""The tables at the end of the demo. All numbers in them come from the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from duetlink.base.quantities import size_text
from duetlink.duet.answering.states import PERSON
from duetlink.duet.display import visible
from duetlink.groups.lifecycle.status import GroupStatus
from duetlink.tools.demo.errors import DemoFailed
from duetlink.tools.demo.screen import colour_of
from duetlink.tools.demo.summary import AnsweredRequest, Summary, times

_ANSWERS = {"approved": "green", "denied": "red", "withdrawn": "yellow", "pending": "yellow"}


@dataclass(frozen=True, slots=True)
class Pairing:
    """One duet as both sides report it. `name` is the owner's role, `owner` or `owner-NAME`."""

    name: str
    code: str
    owner: Summary
    scientist: Summary

    def check(self) -> None:
        """Raise DemoFailed unless both sides report the same bytes, complete transfers and a connection."""
        owner, scientist = self.owner, self.scientist
        if (owner.sent_bytes, owner.received_bytes) != (scientist.received_bytes, scientist.sent_bytes):
            raise DemoFailed(
                f"the two sides count differently: the {self.name} sent {owner.sent_bytes} and received "
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


def check_group(sides: Mapping[str, GroupStatus]) -> None:
    """Raise DemoFailed unless all remaining members have the same epoch, size and verifier."""
    there = {role: side for role, side in sides.items() if not side.state.startswith("closed")}
    seen = {(side.epoch, side.size, side.verifier) for side in there.values()}
    if len(seen) != 1 or {side.size for side in there.values()} != {len(there)}:
        reports = "; ".join(
            f"{role}: {side.state}, epoch {side.epoch} of {side.size}, verifier {side.verifier!r}"
            for role, side in sides.items()
        )
        raise DemoFailed(f"the members disagree about their group: {reports}")


def show_group(console: Console, code: str, sides: Mapping[str, GroupStatus], *, signaling: str) -> None:
    """Print the members of a group, and those who were in it at the end."""
    there = [side for side in sides.values() if not side.state.startswith("closed")]
    met = _table("How they met")
    met.add_column(style="dim")
    met.add_column(overflow="fold")
    met.add_row("signaling server", signaling)
    met.add_row("session code", Text(visible(code)).append("  for all of them", "dim"))
    verifier = Text(visible(there[0].verifier or "")).append("  ✓ the same at all who are there", "green")
    met.add_row("verifier", verifier)
    met.add_row("epochs", str(there[0].epoch))
    members = _table("Who was there at the end", "rank", "notebook", "state", "links")
    for role, side in sides.items():
        links = [
            f"{link.to} by {link.path or '?'}"
            + (f", {link.round_trip_s * 1000:.1f} ms" if link.round_trip_s is not None else "")
            for link in side.links
            if link.of == side.rank
        ]
        members.add_row(
            "" if side.rank is None else str(side.rank),
            Text(role, colour_of(role)),
            Text(visible(side.state)),
            Text("; ".join(links), "dim"),
        )
    for table in (met, members):
        console.print()
        console.print(table)


def pair(name: str, code: str, owner: Sequence[Summary], scientist: Sequence[Summary]) -> Pairing:
    """Find the duet that an owner's kernel and the scientist's kernel share. Raises DemoFailed."""
    if len(owner) != 1:
        raise DemoFailed(f"the {name}'s notebook has {len(owner)} duets, not one")
    seen = [side.verifier for side in scientist]
    if not owner[0].verifier or owner[0].verifier not in seen:
        raise DemoFailed(
            f"the {name} sees the verifier {owner[0].verifier!r}, the scientist {seen}: "
            "a third party may be between them"
        )
    return Pairing(name, code, owner[0], scientist[seen.index(owner[0].verifier)])


def show(console: Console, pairings: Sequence[Pairing], *, signaling: str) -> None:
    tables = [_link(pairing, signaling, several=len(pairings) > 1) for pairing in pairings]
    for table in (*tables, _requests(pairings), _transfers(pairings)):
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


def _link(pairing: Pairing, signaling: str, *, several: bool) -> Table:
    owner, scientist = pairing.owner, pairing.scientist
    table = _table(f"How the {pairing.name} and the scientist paired" if several else "How they paired")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("signaling server", signaling)
    code = Text(visible(pairing.code)).append("  works once, and is used up now", "dim")
    table.add_row("session code", code)
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


def _requests(pairings: Sequence[Pairing]) -> Table:
    owners = ("owner",) if len(pairings) > 1 else ()
    headers = ("object", "size", "the scientist's reason", "the owner's answer", "by")
    table = _table("What was asked for", *owners, *headers)
    for pairing in pairings:
        for request in pairing.owner.requests:
            answer = Text(request.state, _ANSWERS.get(request.state, ""))
            if request.answer_reason:
                answer.append(f": {visible(request.answer_reason)}", "default")
            table.add_row(
                *([Text(pairing.name, colour_of(pairing.name))] if owners else []),
                Text(visible(request.name)),
                _size(request),
                Text(visible(request.reason)),
                answer,
                # "you" would be unclear here: the reader has played all parts
                Text("the owner" if request.by == PERSON else visible(request.by), "dim"),
            )
    return table


def _size(request: AnsweredRequest) -> str:
    if request.is_number:
        return "one number"
    # 0 for a function that was not run, whose size is unknown
    return size_text(request.size_bytes) if request.size_bytes else ""


def _transfers(pairings: Sequence[Pairing]) -> Table:
    table = _table("What moved", "object", "direction", "size", "took", "rate", "path")
    for pairing in pairings:
        names = {"owner": pairing.name, "scientist": "scientist"}
        for sender, receiver in (
            (pairing.owner, pairing.scientist),
            (pairing.scientist, pairing.owner),
        ):
            for transfer in sender.transfers:
                if transfer.direction != "out":
                    continue
                direction = Text(names[sender.role], colour_of(sender.role))
                direction.append(" → ", "default").append(names[receiver.role], colour_of(receiver.role))
                table.add_row(
                    Text(visible(transfer.name)),
                    direction,
                    size_text(transfer.size_bytes),
                    *times(transfer),
                    transfer.path,
                )
    return table
