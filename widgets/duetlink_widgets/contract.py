"""The messages and traits between the panel's kernel side and its page.

`js/src/contract.ts` is generated from this file.

Traits contain what a saved notebook may show: coarse state, no secrets, at most 32 KiB together. Only Python
writes them. Everything else is a message, `{"kind": ..., ...}`:

    page -> kernel   hello, visible, poll, command
    kernel -> page   code, history, decisions, tick, group_tick, ack, notice, asked, answered

Peers' words are in fields of type `Foreign`: the page shows them as text, with characters that could hide or
reorder text made visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NewType

from duetlink.net.link import history

SCHEMA = 1
TRAIT_LIMIT_BYTES = 32 * 1024
HISTORY_S = history.KEPT_S
TICK_S = 0.25
VISIBLE_LEASE_S = 30.0  # a page counts as visible for this time after each `visible` message
PAGE_SIGN_S = 10.0  # interval of `visible` messages

# Columns of a history row, float32 each; NaN for unknown values. Rates are bytes per second over that second.
# The first column is the start of the second, counted from `History.epoch_s`.
HISTORY_COLUMNS = (
    "second",
    "sent",
    "received",
    "sent_wire",
    "received_wire",
    "round_trip_s",
    "queued_bytes",
)

Foreign = NewType("Foreign", str)


# -- traits ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path. `why` is the reason that it is down.

    The speed, and the share of datagrams `lost` in the last seconds, are None if they were not measured.
    """

    name: str
    state: Literal["opening", "up", "down", "idle", "unknown"]
    why: Foreign
    bytes_per_s: float | None
    at_least: bool
    lost: float | None = None


@dataclass(frozen=True, slots=True)
class LinkState:
    """Trait `link`."""

    schema: int
    role: Literal["owner", "scientist"]
    state: Literal["waiting", "pairing", "connected", "reconnecting", "closed"]
    why: Foreign
    gives_up_in_s: float | None  # while it is reconnecting
    invited: bool  # the peer is lost, and a new code invites a replacement
    peer: Foreign | None
    verifier: str | None
    path: str | None  # "local", "tcp", "punched", "udp", "relay", "channel"
    paths: list[PathRow]
    reconnects: int
    paused: bool  # this side sends nothing
    sent_bytes: int
    received_bytes: int
    saved_bytes: int  # bytes saved by codecs and deduplication, both ways
    summary: str  # one readable line for a notebook that is opened without a kernel


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec that both sides have, and the roles that it can be chosen for."""

    name: str
    roles: list[Literal["bytes", "tensor", "gradient"]]
    lossless: bool
    least_level: int
    most_level: int
    default_level: int


@dataclass(frozen=True, slots=True)
class CompressionFields:
    """`duet.compression`. `codec` and `level` are by role; codec "auto" leaves a role to the tuner."""

    mode: Literal["auto", "manual"]
    codec: dict[str, str]
    level: dict[str, int | None]
    lossless_only: bool
    max_relative_error: float | None
    rate_cap_bytes_per_s: float | None
    objective: Literal["throughput", "latency", "bytes", "cpu"]
    pin: bool
    version: int


@dataclass(frozen=True, slots=True)
class TuningState:
    """Trait `tuning`; `compression` is None before there is a peer.

    The codecs in force are those of the latest decision of either side, None if nothing has been encoded yet.
    `changed_by` is who made the latest change, "you" or the peer's name; None if there was none.
    """

    compression: CompressionFields | None
    codecs: list[CodecChoice]
    sending_codec: str | None
    receiving_codec: str | None
    changed_by: Foreign | None = None
    changed_words: str = ""  # such as "mode: manual, tensor: raw"
    changed_s: float = 0.0  # Unix time


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request of the peer. Long texts are cut here; the command `request_detail` returns them in full."""

    number: int
    state: Literal["pending", "running", "approved", "denied", "withdrawn", "expired", "failed"]
    who: Foreign
    name: str
    revision: int
    kind: str
    detail: str
    size_bytes: int
    lossy: str
    reason: Foreign
    answer_reason: str
    times: int
    arrived_s: float  # Unix time
    answered_s: float | None
    by: str = ""  # who answered: "you", or "policy NAME"
    function: str = ""  # name of the function to run; empty if the object exists already
    one_number: bool = False
    made: bool = True  # the result is known: the object exists, or the function has been run
    progress: float | None = None  # progress from 0 to 1, as the function reports it
    running: str = ""  # step, time and memory of its run, in words; empty if it does not run
    failure: str = ""  # where and how its last run here failed, without the data; not sent to the peer
    privacy: str = ""  # the claimed cost, "epsilon 2 at delta 1e-05"; empty if it claims none
    budgets: str = ""  # budgets of the assets that pay for it, before and after, in words
    refusal: str = ""  # the reason that it cannot be approved; empty if it can


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One rule that answers requests. `words` describe it; `used` is what it has released."""

    name: str
    action: Literal["approve", "deny", "ask"]
    words: str
    used: str


@dataclass(frozen=True, slots=True)
class RequestsState:
    """Trait `requests`: pending requests, oldest first, then the latest answered ones."""

    pending: int
    total: int
    rows: list[RequestRow]
    policies: list[PolicyRow] = field(default_factory=list)  # in the order in which they are checked


@dataclass(frozen=True, slots=True)
class OwnRequestRow:
    """One request of this side; `number` counts them in the order of asking."""

    number: int
    state: Literal["asking", "pending", "approved", "denied", "withdrawn", "complete", "failed"]
    name: Foreign
    reason: str
    answer_reason: Foreign
    asked_s: float  # Unix time
    answered_s: float | None


@dataclass(frozen=True, slots=True)
class AskedState:
    """Trait `asked`: this side's requests, pending ones first, then the latest."""

    pending: int
    total: int
    rows: list[OwnRequestRow]


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One object of the store. `look` says that `shared_detail` can show it or its mock."""

    name: Foreign
    whose: Literal["peer", "received", "mine", "awaiting"]
    kind: Foreign
    detail: Foreign
    size_bytes: int
    description: Foreign
    mock: Foreign
    budget: Foreign
    look: bool


@dataclass(frozen=True, slots=True)
class SharedState:
    """Trait `shared`: the objects that either side shares or has given, this side's own first."""

    total: int
    rows: list[SharedRow]


@dataclass(frozen=True, slots=True)
class TransferRow:
    """One transfer. `paused_here` and `paused_there` are the sides that pause it; it runs if neither does."""

    number: int
    name: Foreign
    direction: Literal["in", "out"]
    size_bytes: int
    done_bytes: int
    wire_bytes: int
    path: str
    state: Literal["running", "complete", "cancelled", "failed"]
    why: Foreign
    paused_here: bool
    paused_there: bool
    duration_s: float
    can_retry: bool


@dataclass(frozen=True, slots=True)
class TransfersState:
    """Trait `transfers`: running ones first, then the latest that ended. Ticks have the progress."""

    running: int
    total: int
    rows: list[TransferRow]


@dataclass(frozen=True, slots=True)
class GroupMemberRow:
    """One member of a group; `rank` is None while it waits for the next epoch."""

    rank: int | None
    name: Foreign
    state: str  # "this member", "connected", "reconnecting", …


@dataclass(frozen=True, slots=True)
class GroupLinkRow:
    """One direction of the link between two ranks. Values that were not measured or reported are None.

    `now` is False for values that were reported at the beginning of the epoch.
    """

    of: int
    to: int
    path: str | None
    round_trip_s: float | None
    bytes_per_s: float | None
    now: bool


@dataclass(frozen=True, slots=True)
class GroupGoneRow:
    """A member that has left in the last minutes; `rank` is that of the epoch before.

    `why` is how its link ended here, empty if only other members know.
    """

    rank: int | None
    name: Foreign
    when_s: float  # Unix time
    how: Literal["left", "notebook closed", "silent", "put out", "lost by others"]
    why: Foreign


@dataclass(frozen=True, slots=True)
class GroupSum:
    """The newest sum of this epoch that was called with a codec.

    `density` is None if it was not measured, `dense_bytes` 0 if members share memory. `text` is the full
    report of `group.sums`.
    """

    codec: str
    way: str
    density: float | None
    sent_bytes: int
    dense_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class GroupState:
    """Trait `group`: members by rank, then waiting ones; the links; members that have left, newest last."""

    schema: int
    state: str  # "waiting", "ready", "changing" or "closed"
    why: Foreign
    verifier: str | None
    epoch: int
    rank: int | None
    size: int
    members: list[GroupMemberRow]
    links: list[GroupLinkRow]
    gone: list[GroupGoneRow] = field(default_factory=list)
    sum: GroupSum | None = None


# -- messages to the page --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Code:
    """A session code that a peer can still use; never in a trait, so that no saved notebook contains it."""

    kind: Literal["code"]
    code: str
    line: str  # what the peer runs
    expires_s: float  # Unix time
    by_hand: bool


@dataclass(frozen=True, slots=True)
class History:
    """Rows of `columns` in one float32 buffer. They replace all rows that the page has."""

    kind: Literal["history"]
    schema: int
    epoch_s: float  # Unix time
    columns: list[str]


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision of a tuner, with plans in words. It is sent again with the measured rate."""

    number: int
    side: Literal["here", "peer"]
    when_s: float  # Unix time
    name: Foreign
    path: str
    before: str
    after: str
    codec: str
    level: int
    chunk_bytes: int
    workers: int
    why: Foreign
    predicted_bytes_per_s: float | None
    measured_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions, oldest first: all of them if `reset`, else those that are new or newly measured."""

    kind: Literal["decisions"]
    reset: bool
    rows: list[DecisionRow]


@dataclass(frozen=True, slots=True)
class Running:
    """The progress of a running transfer."""

    number: int
    done_bytes: int
    wire_bytes: int
    path: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Sent four times a second while the panel is visible.

    The buffer contains history rows: the latest one again, as it grows, and new ones.
    """

    kind: Literal["tick"]
    sequence: int
    sent_bytes_per_s: float
    received_bytes_per_s: float
    sent_wire_bytes_per_s: float
    received_wire_bytes_per_s: float
    round_trip_s: float | None
    running: list[Running]


@dataclass(frozen=True, slots=True)
class GroupOperation:
    """The operation that runs in a group; `waiting_for` are ranks."""

    call: str
    elapsed_s: float
    done_bytes: int
    total_bytes: int
    waiting_for: list[int]
    codec: str = ""  # the codec of an all_reduce that was called with one


@dataclass(frozen=True, slots=True)
class GroupTick:
    """The tick of a group's panel.

    `waited_s` is how long operations have waited for each of `GroupState.members` in this epoch.
    """

    kind: Literal["group_tick"]
    sequence: int
    operation: GroupOperation | None
    waited_s: list[float]


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer to one command. `error` is shown to the user; `result` depends on the command."""

    kind: Literal["ack"]
    command_id: str  # not `id`, which ipykernel keeps for each message of a comm, to route the reply
    ok: bool
    error: str
    result: Any


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that is also shown outside the panel. Contains none of the peer's words."""

    kind: Literal["notice"]
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A new request, also shown outside the panel: `who` asks for `what`, and why.

    `run` says that `what` is a function to be run here.
    """

    kind: Literal["asked"]
    who: Foreign
    what: Foreign
    why: Foreign
    run: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The peer's answer to a request of this side, also shown outside the panel."""

    kind: Literal["answered"]
    who: Foreign
    what: Foreign
    answer: Literal["approved", "denied"]
    why: Foreign


# -- messages to the kernel ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """A page has begun to show the panel: answered with code, history and decisions."""

    kind: Literal["hello"]
    schema: int


@dataclass(frozen=True, slots=True)
class Visible:
    """`on` says that a view of this page is visible; repeated every PAGE_SIGN_S while it is."""

    kind: Literal["visible"]
    page: str  # a random name of the page's
    on: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """A request for one tick, from pages that get no messages on their own."""

    kind: Literal["poll"]


@dataclass(frozen=True, slots=True)
class Command:
    """A click. Answered once, with an Ack of the same `command_id`.

    approve            {number, revision}            the revision that the user saw
    run_request        {number, revision}            runs it here, and releases nothing
    stop_request       {number}                      stops its run
    fail               {number, tell}                says "that" it failed, the "type", or the "message"
    deny               {number, reason}
    request_detail     {number}                      -> RequestDetail
    policy_like        {number, count}               -> PolicyDraft: what `add_policy_like` would add
    add_policy_like    {number, revision, count}     answers the request, and others like it
    remove_policy      {name}
    withdraw           {number}                      one of this side's own requests
    shared_detail      {name, whose}                 -> str: its mock, or what was given
    audit              {text, kind}                  -> AuditPage: entries with that text, of that kind
    verify_audit       {}                            -> str: the log is unchanged; fails if it is not
    export_audit       {ending}                      -> Export: of this duet, as "jsonl" or "csv"
    set_compression    fields of CompressionFields   those that change; `codec`, `level` by role
    undo_compression   {}
    pause, resume      {}                            all that this side sends
    pause_transfer, resume_transfer, cancel_transfer, retry_transfer   {number}
    disconnect         {}
    reconnect          {}                            looks for the peer at once
    invite             {}                            makes a new code for a duet whose peer is lost
    close_doors, leave {}                            of a group
    """

    kind: Literal["command"]
    command_id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A policy that would approve a request and others like it, before it is in force."""

    name: str
    words: str
    count: int
    until_s: float  # Unix time


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One entry of the audit log."""

    number: int
    when_s: float  # Unix time
    kind: str
    state: str
    peer: Foreign
    name: Foreign
    revision: int | None
    size_bytes: int | None
    left_bytes: int | None
    by: str
    words: Foreign
    path: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """The latest matching entries, newest first; `total` is the number of all matching entries."""

    file: str
    total: int
    rows: list[AuditRow]


@dataclass(frozen=True, slots=True)
class Export:
    """A file to save."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """The full details of a request. `preview` shows this side's own object and is not sent to the peer."""

    number: int
    revision: int
    reason: Foreign
    description: str
    tags: list[str]
    preview: str
    code: Foreign = Foreign("")  # the peer's computation, or the function to run; empty for an object
    group: int | None = 1  # least number of rows that it is made of; None if of no rows
    log: Foreign = Foreign("")  # output of the function's run here, and its error; not sent to the peer
