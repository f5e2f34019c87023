"""`duet.compression`, the configuration that both sides share, and `duet.tuning`, the decisions of their
tuners.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.attributes import KnownAttributes
from duetlink.base.quantities import count_text, rate_text, size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.data.codecs import Codec, codecs
from duetlink.data.tuning import Compression, Decision, Plan
from duetlink.data.tuning.compression import serves
from duetlink.duet.display import Displayed, Listing, Table
from duetlink.net.link.link import Link


@dataclasses.dataclass(frozen=True, slots=True)
class MadeChange:
    """One change of `duet.compression`: who made it, when it took effect here, and the new values."""

    by: str  # "you", or the peer's name
    when: datetime.datetime
    words: str  # such as "mode: manual, tensor: raw"


class SharedCompression(KnownAttributes, Displayed):
    """The configuration that both sides share: see `tuning.Compression` for what its fields mean.

    Each field can be set (`duet.compression.objective = "bytes"`); `set` changes several at once. A change is
    checked, sent to the peer, and in force on both sides when the call returns, or on neither:

    Raises:
        SettingError: the value cannot be used, or a side lacks that codec; the message says which can be.
        LinkClosed, CallTimeout: the peer could not be reached.
    """

    def __init__(self, link: Callable[[], Link], thread: LoopThread) -> None:
        self._link = link
        self._thread = thread

    @property
    def _now(self) -> Compression:
        return self._link().agreement.compression

    def set(self, /, **fields: Any) -> None:
        """Change these fields together. `codec` and `level` only need the roles that change."""
        self._thread.run(self._link().agreement.change(fields))

    def undo(self) -> None:
        """Undo the last change, whichever side made it."""
        self._thread.run(self._link().agreement.undo())

    @property
    def available(self) -> tuple[str, ...]:
        """The names of the codecs that both sides have."""
        return tuple(sorted(self._link().agreement.available))

    def codecs_for(self, role: str) -> tuple[Codec, ...]:
        """Return the codecs that can be chosen for a role and that both sides have, with their levels."""
        available = self._link().agreement.available
        return tuple(codec for codec in codecs() if codec.name in available and serves(codec, role))

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._now.version

    @property
    def last_change(self) -> MadeChange | None:
        """The latest change that took effect, whichever side made it; None if there was none."""
        link = self._link()
        change = link.agreement.latest
        if change is None:
            return None
        return MadeChange(
            link.peer_name if change.by_peer else "you",
            datetime.datetime.fromtimestamp(change.when_s, datetime.UTC),
            _new(change.before.to_wire(), change.after.to_wire()),
        )

    @property
    def mode(self) -> str:
        """`auto`: the tuner chooses codecs; `manual`: those of `codec` are used."""
        return self._now.mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self.set(mode=mode)

    @property
    def codec(self) -> Mapping[str, str]:
        """The codec's name, or `auto`, for each role: `bytes`, `tensor`, `gradient`."""
        return self._now.codec

    @codec.setter
    def codec(self, codec: Mapping[str, str]) -> None:
        self.set(codec=codec)

    @property
    def level(self) -> Mapping[str, int | None]:
        """The codec's level for each role; None for its default."""
        return self._now.level

    @level.setter
    def level(self, level: Mapping[str, int | None]) -> None:
        self.set(level=level)

    @property
    def lossless_only(self) -> bool:
        """True if objects that a sender marks as lossy are refused."""
        return self._now.lossless_only

    @lossless_only.setter
    def lossless_only(self, lossless_only: bool) -> None:
        self.set(lossless_only=lossless_only)

    @property
    def max_relative_error(self) -> float | None:
        """The largest relative error that a lossy codec may cause in an item of an object that its sender
        marked; None: any.
        """
        return self._now.max_relative_error

    @max_relative_error.setter
    def max_relative_error(self, max_relative_error: float | None) -> None:
        self.set(max_relative_error=max_relative_error)

    @property
    def rate_cap_bytes_per_s(self) -> float | None:
        """The largest rate at which each side sends over the network, as counted on the wire;
        None: no cap.
        """
        return self._now.rate_cap_bytes_per_s

    @rate_cap_bytes_per_s.setter
    def rate_cap_bytes_per_s(self, rate_cap_bytes_per_s: float | None) -> None:
        self.set(rate_cap_bytes_per_s=rate_cap_bytes_per_s)

    @property
    def objective(self) -> str:
        """The goal of `auto`: `throughput`, `latency`, `bytes` or `cpu`."""
        return self._now.objective

    @objective.setter
    def objective(self, objective: str) -> None:
        self.set(objective=objective)

    @property
    def pin(self) -> bool:
        """True if the plan in force stays as it is."""
        return self._now.pin

    @pin.setter
    def pin(self, pin: bool) -> None:
        self.set(pin=pin)

    def table(self) -> Table:
        """Return a table of the fields, and of the codecs that can be chosen."""
        rows = [(name, _text(value)) for name, value in self._now.to_wire().items()]
        if (change := self.last_change) is not None:
            at = change.when.astimezone().strftime("%H:%M:%S")
            rows.append(("last change", f"{change.by} set {change.words}, {at}"))
        return Table(
            "duet.compression", ("", ""), [*rows, ("codecs on both sides", ", ".join(self.available))]
        )


@dataclasses.dataclass(frozen=True, slots=True)
class MadeDecision:
    """One decision of a tuner of either side. Rates are bytes of arrays per second."""

    number: int  # counted by that side
    side: str  # the sender: "here" or "peer"
    when: datetime.datetime
    name: str  # of the object
    path: str
    before: Plan | None
    after: Plan
    why: str
    predicted_bytes_per_s: float | None
    measured_bytes_per_s: float | None


class DecisionTable(Listing[MadeDecision]):
    """`duet.tuning.decisions`: the decisions of both tuners, oldest first."""

    def table(self) -> Table:
        """Return a table with one row for each decision."""
        headers = ("when", "sender", "object", "path", "from", "to", "why", "predicted", "measured")
        rows = [
            (
                decision.when.astimezone().strftime("%H:%M:%S"),
                decision.side,
                decision.name,
                decision.path,
                _plan(decision.before),
                _plan(decision.after),
                decision.why,
                _rate(decision.predicted_bytes_per_s),
                _rate(decision.measured_bytes_per_s),
            )
            for decision in self
        ]
        return Table("Decisions of the tuners", headers, rows)


class TuningView:
    """`duet.tuning`: the decisions of both tuners."""

    def __init__(self, link: Callable[[], Link]) -> None:
        self._link = link

    @property
    def decisions(self) -> DecisionTable:
        """The latest decisions on both sides. Raises LinkClosed before a peer is connected."""
        tuning = self._link().tuning
        # the clocks differ, so the peer's decisions get the time of their arrival
        offset_s = time.time() - time.monotonic()
        made = [_made("here", decision, decision.when_s + offset_s) for decision in tuning.mine]
        made += [_made("peer", decision, arrived_s + offset_s) for decision, arrived_s in tuning.theirs()]
        return DecisionTable(sorted(made, key=lambda decision: decision.when))

    def __repr__(self) -> str:
        return repr(self.decisions)

    def _repr_html_(self) -> str:
        return self.decisions._repr_html_()


def _made(side: str, decision: Decision, when_s: float) -> MadeDecision:
    return MadeDecision(
        decision.number,
        side,
        datetime.datetime.fromtimestamp(when_s, datetime.UTC),
        decision.name,
        decision.path,
        decision.before,
        decision.after,
        decision.why,
        decision.predicted,
        decision.measured,
    )


def _plan(plan: Plan | None) -> str:
    if plan is None:
        return ""
    return f"{plan.codec} {plan.level}, {size_text(plan.chunk_bytes)}, {count_text(plan.workers, 'thread')}"


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else rate_text(bytes_per_s)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{role}: {_text(of_role)}" for role, of_role in value.items())
    return "none" if value is None else str(value)


def _new(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Describe the differences between two configurations, both in the form of `to_wire`."""
    words = []
    for name, value in after.items():
        if name == "version" or value == before[name]:
            continue
        if name == "rate_cap_bytes_per_s":
            words.append("no rate cap" if value is None else f"rate cap: {rate_text(value)}")
        elif isinstance(value, dict):
            what = "" if name == "codec" else f"{name} of "
            words += [f"{what}{role}: {_text(of)}" for role, of in value.items() if of != before[name][role]]
        else:
            words.append(f"{name.replace('_', ' ')}: {_text(value)}")
    return ", ".join(words)
