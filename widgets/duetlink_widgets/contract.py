"""What the panel's two halves say to each other. `js/src/contract.ts` is generated from this file.

Traits hold what a saved notebook may show: coarse, without secrets, 32 KiB together at most. Python alone
writes them. All else are messages, `{"kind": ..., ...}`:

    page -> kernel   hello, visible, poll, command
    kernel -> page   code, history, decisions, tick, group_tick, ack, notice, asked, answered

Peers' words are in fields of type `Foreign`: the page shows them as text, with what could hide or reorder
characters made visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NewType

from duetlink.net.link import history

SCHEMA = 1
TRAIT_LIMIT_BYTES = 32 * 1024
HISTORY_S = history.KEPT_S
TICK_S = 0.25
VISIBLE_LEASE_S = 30.0  # a page that shows the panel says so again within this time
PAGE_SIGN_S = 10.0  # ... and does it this often

# Of a history row, float32 each; what is not known is NaN. Rates are bytes per second over that second.
# The first is the start of the second, counted from `History.epoch_s`.
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
    """One rung of the ladder. `why` keeps it down; its speed, and the share of datagrams that were `lost` in
    the last seconds, are None where nothing measured them.
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
    invited: bool  # a new code waits for whoever takes the place of the peer, which is lost
    peer: Foreign | None
    verifier: str | None
    path: str | None  # "local", "tcp", "punched", "udp", "relay", "channel"
    paths: list[PathRow]
    reconnects: int
    paused: bool  # this side sends nothing
    sent_bytes: int
    received_bytes: int
    saved_bytes: int  # what codecs and deduplication kept off the wire, both ways
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
    """Trait `tuning`; `compression` is None before there is a peer. The codecs in force are those of the
    latest decision of either side, None where nothing has been encoded yet. `changed_by` made the latest
    change, "you" or the peer by its name; None where there was none.
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
    """One request of the peer. Long texts are cut here; the command `request_detail` has all of them."""

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
    function: str = ""  # its name, where one is to be run; else what is asked for is there already
    one_number: bool = False
    made: bool = True  # what would leave is known: an object is there, or the function has been run
    progress: float | None = None  # how far a function is by its own word, from 0 to 1
    running: str = ""  # how far its run is, in words: step, time, memory; empty: it does not run
    failure: str = ""  # where and how its last run here failed, without the data; the peer does not know
    privacy: str = ""  # what it claims to cost, "epsilon 2 at delta 1e-05"; empty: it claims nothing
    budgets: str = ""  # of the assets that pay for it, in words: before and after
    refusal: str = ""  # why it cannot be approved; empty: it can


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One rule that answers requests; `words` say which and how much, `used` what it has let out."""

    name: str
    action: Literal["approve", "deny", "ask"]
    words: str
    used: str


@dataclass(frozen=True, slots=True)
class RequestsState:
    """Trait `requests`: the pending ones first, oldest first, then the latest of those that are answered."""

    pending: int
    total: int
    rows: list[RequestRow]
    policies: list[PolicyRow] = field(default_factory=list)  # in the order in which they are looked at


@dataclass(frozen=True, slots=True)
class OwnRequestRow:
    """One request of this side's; `number` is its place in the order of asking."""

    number: int
    state: Literal["asking", "pending", "approved", "denied", "withdrawn", "complete", "failed"]
    name: Foreign
    reason: str
    answer_reason: Foreign
    asked_s: float  # Unix time
    answered_s: float | None


@dataclass(frozen=True, slots=True)
class AskedState:
    """Trait `asked`: what this side has asked for, the pending ones first, then the latest."""

    pending: int
    total: int
    rows: list[OwnRequestRow]


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One object of the store. `look`: it is here or has a mock, which `shared_detail` shows."""

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
    """Trait `shared`: what either side shares or has given, this side's own first."""

    total: int
    rows: list[SharedRow]


@dataclass(frozen=True, slots=True)
class TransferRow:
    """One transfer. `paused_here` and `paused_there` say who keeps it back; it runs where neither does."""

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
    """Trait `transfers`: running ones first, then the latest that ended. Progress comes with the ticks."""

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
    """One direction of the link between two ranks. What nobody has measured or told is None; what is not of
    `now` was told at the beginning of the epoch.
    """

    of: int
    to: int
    path: str | None
    round_trip_s: float | None
    bytes_per_s: float | None
    now: bool


@dataclass(frozen=True, slots=True)
class GroupGoneRow:
    """A member that has gone in the last minutes; `rank` is that of the epoch before. `why` is how its link
    ended here, empty where only others know.
    """

    rank: int | None
    name: Foreign
    when_s: float  # Unix time
    how: Literal["left", "notebook closed", "silent", "put out", "lost by others"]
    why: Foreign


@dataclass(frozen=True, slots=True)
class GroupSum:
    """The newest sum of this epoch that was called with a codec of sums. `density` is None where nobody has
    looked, `dense_bytes` 0 where members share memory; `text` is all that `group.sums` has of it.
    """

    codec: str
    way: str
    density: float | None
    sent_bytes: int
    dense_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class GroupState:
    """Trait `group`: members by rank, then those who wait; links between all ranks; who has gone, the newest
    last.
    """

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
    """A session code that waits for somebody: never in a trait, so that no saved notebook holds it."""

    kind: Literal["code"]
    code: str
    line: str  # what the peer runs
    expires_s: float  # Unix time
    by_hand: bool


@dataclass(frozen=True, slots=True)
class History:
    """Rows of `columns` in one float32 buffer, all that there is; they replace what the page has."""

    kind: Literal["history"]
    schema: int
    epoch_s: float  # Unix time
    columns: list[str]


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision of a tuner; plans in words. Told again, same `side` and `number`, once measured."""

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
    """Decisions, oldest first: all of them where `reset`, else what is new or was measured since."""

    kind: Literal["decisions"]
    reset: bool
    rows: list[DecisionRow]


@dataclass(frozen=True, slots=True)
class Running:
    """Where a running transfer is."""

    number: int
    done_bytes: int
    wire_bytes: int
    path: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Four times a second while the panel is on a screen. The buffer holds history rows: the latest again, as
    it grows, and those that are new.
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
    """What runs in a group; `waiting_for` are ranks."""

    call: str
    elapsed_s: float
    done_bytes: int
    total_bytes: int
    waiting_for: list[int]
    codec: str = ""  # of an all_reduce that was called with one


@dataclass(frozen=True, slots=True)
class GroupTick:
    """The tick of a group's panel. `waited_s`: how long operations have waited for each of
    `GroupState.members` in this epoch.
    """

    kind: Literal["group_tick"]
    sequence: int
    operation: GroupOperation | None
    waited_s: list[float]


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer to one command. `error` is for the person who clicked; `result` as the command says."""

    kind: Literal["ack"]
    command_id: str  # not `id`: ipykernel keeps each `id` of what a comm sends, to route a reply
    ok: bool
    error: str
    result: Any


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to be told outside the panel as well. Holds none of the peer's words."""

    kind: Literal["notice"]
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A new request, to be told outside the panel as well: who asks for what, and why. `run`: `what` is a
    function, to be run here.
    """

    kind: Literal["asked"]
    who: Foreign
    what: Foreign
    why: Foreign
    run: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The peer has answered a request of this side's: to be told outside the panel as well."""

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
    """Whether any view of this page is on the screen; said again every PAGE_SIGN_S while it is."""

    kind: Literal["visible"]
    page: str  # a random name of the page's
    on: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """Where nothing arrives by itself: answered with one tick."""

    kind: Literal["poll"]


@dataclass(frozen=True, slots=True)
class Command:
    """A click. Answered with an Ack of the same `command_id`, once.

    approve            {number, revision}            the revision that was seen
    run_request        {number, revision}            here, and only here
    stop_request       {number}                      its run
    fail               {number, tell}                tells "that" it failed, the "type", the "message"
    deny               {number, reason}
    request_detail     {number}                      -> RequestDetail
    policy_like        {number, count}               -> PolicyDraft: what `add_policy_like` would add
    add_policy_like    {number, revision, count}     answers the request, and others like it
    remove_policy      {name}
    withdraw           {number}                      one of this side's own requests
    shared_detail      {name, whose}                 -> str: its mock, or what was given
    audit              {text, kind}                  -> AuditPage: entries with that text, of that kind
    verify_audit       {}                            -> str: that nothing was changed; fails where it was
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
    """The latest entries that were asked for, newest first; `total` is how many there are."""

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
    """All that there is to know before an answer. `preview` is of this side's own object and stays here."""

    number: int
    revision: int
    reason: Foreign
    description: str
    tags: list[str]
    preview: str
    code: Foreign = Foreign("")  # how the peer made it, or the function it asks to run; empty for an object
    group: int | None = 1  # of how many rows it is made, at the least; None: of none
    log: Foreign = Foreign("")  # what a function has printed here, and how it failed; stays here
