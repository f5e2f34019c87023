"""Convert a duet to the traits of its panel: from the public interface of `Duet` to the contract's
classes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any, TypeVar, cast

from duetlink import Duet
from duetlink.base.quantities import size_text
from duetlink.data.codecs import Codec
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.requests.own_requests import WAITING, OwnRequest
from duetlink.duet.compression import MadeDecision
from duetlink.duet.display import by_words
from duetlink.duet.store import Listed, listed
from duetlink.duet.transfers import SharedTransfer
from duetlink.errors import DuetError, LinkClosed
from duetlink.net.link.traffic import Statistics
from duetlink_widgets.contract import (
    SCHEMA,
    Answered,
    Asked,
    AskedState,
    CodecChoice,
    CompressionFields,
    DecisionRow,
    Foreign,
    LinkState,
    OwnRequestRow,
    PathRow,
    PolicyRow,
    RequestRow,
    RequestsState,
    SharedRow,
    SharedState,
    TransferRow,
    TransfersState,
    TuningState,
)

_REQUESTS_BYTES = 9 * 1024  # largest size of a trait's rows; older requests are only in duet.requests
_POLICIES_BYTES = 3 * 1024
_TRANSFERS_BYTES = 5 * 1024
_ASKED_BYTES = 4 * 1024
_SHARED_BYTES = 5 * 1024
_LONGEST_TEXT = 160  # characters of one cell

Row = TypeVar("Row", RequestRow, TransferRow, PolicyRow, OwnRequestRow, SharedRow)


def link_state(duet: Duet) -> LinkState:
    """Return the state of the header and the `Link` tab."""
    state, _, why = duet.state.partition(": ")
    now = duet.statistics()
    paths = [
        PathRow(
            path.name,
            cast(Any, path.state),
            _foreign(path.why),
            path.bytes_per_s,
            path.at_least,
            None if path.loss is None else round(path.loss, 3),
        )
        for path in now.paths
    ]
    moved = now.sent_bytes + now.received_bytes
    return LinkState(
        schema=SCHEMA,
        role=cast(Any, duet.role),
        state=cast(Any, state),
        why=_foreign(why),
        gives_up_in_s=duet.gives_up_in_s,
        invited=duet.invited,
        peer=None if duet.peer is None else _foreign(duet.peer),
        verifier=duet.verifier,
        path=now.path if state == "connected" else None,
        paths=paths,
        reconnects=now.reconnects,
        paused=duet.paused,
        sent_bytes=now.sent_bytes,
        received_bytes=now.received_bytes,
        saved_bytes=max(0, moved - now.sent_wire_bytes - now.received_wire_bytes) if moved else 0,
        summary=_summary(duet, now),
    )


def _summary(duet: Duet, now: Statistics) -> str:
    at = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    peer = f" to {duet.peer}" if duet.peer else ""
    return (
        f"duetlink {duet.role}{peer}, {duet.state}; sent {size_text(now.sent_bytes)}, "
        f"received {size_text(now.received_bytes)}; as of {at}"
    )


def tuning_state(duet: Duet, decisions: Iterable[MadeDecision]) -> TuningState:
    """Return the state of the `Throughput` tab's controls. Raises LinkClosed if there is no peer."""
    compression = duet.compression
    fields = CompressionFields(
        mode=cast(Any, compression.mode),
        codec=dict(compression.codec),
        level=dict(compression.level),
        lossless_only=compression.lossless_only,
        max_relative_error=compression.max_relative_error,
        rate_cap_bytes_per_s=compression.rate_cap_bytes_per_s,
        objective=cast(Any, compression.objective),
        pin=compression.pin,
        version=compression.version,
    )
    roles: dict[str, list[str]] = {}
    choices: dict[str, Codec] = {}
    for role in ("bytes", "tensor", "gradient"):
        for codec in compression.codecs_for(role):
            roles.setdefault(codec.name, []).append(role)
            choices[codec.name] = codec
    latest = {decision.side: decision.after.codec for decision in decisions}
    change = compression.last_change
    return TuningState(
        fields,
        [_choice(codec, roles[name]) for name, codec in choices.items()],
        latest.get("here"),
        latest.get("peer"),
        None if change is None else _foreign(change.by),
        "" if change is None else change.words,
        0.0 if change is None else change.when.timestamp(),
    )


def _choice(codec: Codec, roles: list[str]) -> CodecChoice:
    levels = codec.levels
    return CodecChoice(
        codec.name, cast(Any, roles), codec.lossless, levels.start, levels.stop - 1, codec.level
    )


def requests_state(duet: Duet) -> RequestsState:
    """Return the state of the `Requests` tab."""
    requests = duet.requests
    waiting = [request for request in requests if request.state in ("pending", "running")]
    answered = [request for request in requests if request.state not in ("pending", "running")]
    rows = (_request_row(request) for request in chain(waiting, reversed(answered)))
    return RequestsState(
        len(waiting),
        len(requests),
        _within(rows, _REQUESTS_BYTES),
        _within(_policy_rows(duet), _POLICIES_BYTES),
    )


def _policy_rows(duet: Duet) -> Iterator[PolicyRow]:
    policies = duet.policies
    for policy in policies:
        used = policies.usage(policy.name)
        yield PolicyRow(policy.name, cast(Any, policy.action), _cut(policy.words()), used)


def _request_row(request: Request) -> RequestRow:
    asset = request.asset
    budgets, refused = _budgets(request)
    has_run = asset.is_unmade and request.function
    detail = f"{asset.detail}; said to make of mocks: {request.mock_result}" if has_run else asset.detail
    return RequestRow(
        number=request.number,
        state=cast(Any, request.state),
        who=_foreign(request.peer),
        name=_cut(asset.name),
        revision=asset.revision,
        kind=_cut(asset.kind),
        detail=_cut(detail),
        size_bytes=asset.size_bytes,
        lossy=_cut(asset.lossy),
        reason=_foreign(request.reason),
        answer_reason=_cut(request.answer_reason),
        times=request.times,
        arrived_s=request.arrived.timestamp(),
        answered_s=request.answered.timestamp() if request.answered is not None else None,
        by=by_words(request.by),
        function=_cut(request.function),
        one_number=asset.is_number,
        made=not asset.is_unmade,
        progress=request.progress if request.state == "running" else None,
        running=request.running,
        failure=_cut(request.failure),
        privacy=request.privacy,
        budgets=_cut(budgets),
        refusal=_cut(refused),
    )


def _budgets(request: Request) -> tuple[str, str]:
    """Return the effect of a function's claim on budgets, and the reason that it cannot be approved."""
    if not request.privacy or request.state not in ("pending", "running"):
        return "", ""
    try:
        charges, refused = request.charges, request.refusal
    except DuetError:  # its text names a file of this side, and traits are saved with the notebook
        return "", "the ledger of privacy budgets cannot be read; request.charges says why"
    return "; ".join(map(str, charges)) or "charged when it was run", refused


def asked(request: Request) -> Asked:
    """Return the message about a new request, for users who do not look at the panel."""
    name = Foreign(_cut(request.asset.name))
    return Asked("asked", _foreign(request.peer), name, _foreign(request.reason), bool(request.function))


def answered(duet: Duet, request: OwnRequest) -> Answered:
    """Return the message about an answered request of this side, for users who do not look at the panel."""
    answer = "denied" if request.state == "denied" else "approved"
    who = _foreign(duet.peer or "the peer")
    return Answered(
        "answered", who, _foreign(request.name), cast(Any, answer), _foreign(request.answer_reason)
    )


def asked_state(duet: Duet) -> AskedState:
    """Return the state of this side's part of the `Requests` tab."""
    own = duet.asked
    ended = [request for request in own if request.state not in WAITING]
    rows = (_own_row(request) for request in chain(own.pending, reversed(ended)))
    total = max((request.number for request in own), default=-1) + 1
    return AskedState(len(own.pending), total, _within(rows, _ASKED_BYTES))


def _own_row(request: OwnRequest) -> OwnRequestRow:
    return OwnRequestRow(
        request.number,
        cast(Any, request.state),
        _foreign(request.name),
        _cut(request.reason),
        _foreign(request.answer_reason),
        request.asked.timestamp(),
        None if request.answered is None else request.answered.timestamp(),
    )


def shared_state(duet: Duet) -> SharedState:
    """Return the state of the `Shared` tab."""
    entries = listed(duet.store)
    return SharedState(len(entries), _within(map(_shared_row, entries), _SHARED_BYTES))


def _shared_row(one: Listed) -> SharedRow:
    whose, said = one
    return SharedRow(
        _foreign(said.name),
        whose,
        _foreign(said.kind),
        _foreign(said.detail),
        said.size_bytes,
        _foreign(said.description),
        _foreign(said.mock_words),
        _foreign(said.budget),
        whose == "received" or (whose != "awaiting" and bool(said.mock_words)),
    )


def transfers_state(duet: Duet) -> TransfersState:
    """Return the state of the `Transfers` tab."""
    transfers = list(duet.transfers)
    running = [transfer for transfer in transfers if transfer.state == "running"]
    ended = [transfer for transfer in transfers if transfer.state != "running"]
    rows = (_transfer_row(transfer) for transfer in chain(running, reversed(ended)))
    total = max((transfer.number for transfer in transfers), default=-1) + 1
    return TransfersState(len(running), total, _within(rows, _TRANSFERS_BYTES))


def _transfer_row(transfer: SharedTransfer) -> TransferRow:
    return TransferRow(
        number=transfer.number,
        name=_foreign(transfer.name),
        direction=cast(Any, transfer.direction),
        size_bytes=transfer.size_bytes,
        done_bytes=transfer.done_bytes,
        wire_bytes=transfer.wire_bytes,
        path=transfer.path,
        state=cast(Any, transfer.state),
        why=_foreign(transfer.why),
        paused_here=transfer.paused_here,
        paused_there=transfer.paused_there,
        duration_s=transfer.duration_s,
        can_retry=transfer.can_retry,
    )


def decision_row(decision: MadeDecision) -> DecisionRow:
    plan = decision.after
    return DecisionRow(
        number=decision.number,
        side=cast(Any, decision.side),
        when_s=decision.when.timestamp(),
        name=_foreign(decision.name),
        path=decision.path,
        before="" if decision.before is None else f"{decision.before.codec} {decision.before.level}",
        after=f"{plan.codec} {plan.level}",
        codec=plan.codec,
        level=plan.level,
        chunk_bytes=plan.chunk_bytes,
        workers=plan.workers,
        why=_foreign(decision.why),
        predicted_bytes_per_s=decision.predicted_bytes_per_s,
        measured_bytes_per_s=decision.measured_bytes_per_s,
    )


def decisions(duet: Duet) -> list[MadeDecision]:
    """Return all decisions that are kept, oldest first; none if there is no peer."""
    try:
        return list(duet.tuning.decisions)
    except LinkClosed:
        return []


State = LinkState | TuningState | RequestsState | AskedState | SharedState | TransfersState


def as_trait(state: State) -> dict[str, Any]:
    """Return the state as JSON values, without NaN or infinity."""
    wire: dict[str, Any] = json.loads(json.dumps(asdict(state), allow_nan=False))
    return wire


def _within(rows: Iterable[Row], limit_bytes: int) -> list[Row]:
    """Return the first rows that together take at most `limit_bytes` of JSON."""
    kept = []
    for row in rows:
        limit_bytes -= len(json.dumps(asdict(row), ensure_ascii=False).encode())
        if limit_bytes < 0:
            break
        kept.append(row)
    return kept


def _foreign(text: str) -> Foreign:
    return Foreign(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
