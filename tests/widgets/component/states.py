"""Literal states of a duet, as the panel's kernel half would send them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from duetlink_widgets.contract import (
    HISTORY_COLUMNS,
    SCHEMA,
    Ack,
    AskedState,
    AuditPage,
    AuditRow,
    Code,
    CodecChoice,
    CompressionFields,
    DecisionRow,
    Decisions,
    Export,
    Foreign,
    GroupGoneRow,
    GroupLinkRow,
    GroupMemberRow,
    GroupOperation,
    GroupState,
    GroupSum,
    GroupTick,
    History,
    LinkState,
    Notice,
    OwnRequestRow,
    PathRow,
    PolicyDraft,
    PolicyRow,
    RequestDetail,
    RequestRow,
    RequestsState,
    Running,
    SharedRow,
    SharedState,
    Tick,
    TransferRow,
    TransfersState,
    TuningState,
)

NOW_S = 1_790_000_000  # Unix time of every test: 2026-09-21
EPOCH_S = NOW_S - 900

Message = dict[str, Any]

WAITING = LinkState(
    schema=SCHEMA,
    role="owner",
    state="waiting",
    why=Foreign(""),
    gives_up_in_s=None,
    invited=False,
    peer=None,
    verifier=None,
    path=None,
    paths=[],
    reconnects=0,
    paused=False,
    sent_bytes=0,
    received_bytes=0,
    saved_bytes=0,
    summary="waiting for the peer",
)
CONNECTED = replace(
    WAITING,
    state="connected",
    peer=Foreign("Sven's notebook"),
    verifier="amber tulip seven",
    path="tcp",
    paths=[
        PathRow("local", "down", Foreign("the peer is on another host"), None, False),
        PathRow("tcp", "up", Foreign(""), 118.4e6, False),
        PathRow("punched", "down", Foreign("both NATs choose a new port for each destination"), None, False),
        PathRow("udp", "up", Foreign(""), 64.2e6, False, 0.012),
        PathRow("relay", "idle", Foreign("costs its operator; opened when nothing else is up"), None, False),
        PathRow("channel", "up", Foreign(""), 8.1e6, True),
    ],
    reconnects=1,
    sent_bytes=7_312_000_000,
    received_bytes=1_204_000,
    saved_bytes=4_118_000_000,
    summary="connected to Sven's notebook by tcp; 7.31 GB sent, 1.2 MB received",
)

CODECS = [
    CodecChoice("raw", ["bytes", "tensor", "gradient"], True, 0, 0, 0),
    CodecChoice("lz4", ["bytes", "tensor"], True, 0, 12, 0),
    CodecChoice("zstd", ["bytes", "tensor"], True, 1, 19, 3),
    CodecChoice("pcodec", ["tensor"], True, 0, 12, 8),
    CodecChoice("topk", ["gradient"], False, 1, 100, 10),
]
COMPRESSION = CompressionFields(
    mode="auto",
    codec={"bytes": "auto", "tensor": "auto", "gradient": "auto"},
    level={"bytes": None, "tensor": None, "gradient": None},
    lossless_only=False,
    max_relative_error=None,
    rate_cap_bytes_per_s=None,
    objective="throughput",
    pin=False,
    version=4,
)
TUNING = TuningState(COMPRESSION, CODECS, "zstd 3", None)

REQUESTS = RequestsState(
    pending=2,
    total=31,
    rows=[
        RequestRow(
            number=28,
            state="pending",
            who=Foreign("Sven's notebook"),
            name="scans",
            revision=3,
            kind="numpy array",
            detail="float64 (512, 512, 34)",
            size_bytes=71_303_168,
            lossy="",
            reason=Foreign("the mean intensity per slice, for figure 2"),
            answer_reason="",
            times=1,
            arrived_s=NOW_S - 42,
            answered_s=None,
        ),
        RequestRow(
            number=29,
            state="pending",
            who=Foreign("Sven's notebook"),
            name="gradients/layer 4",
            revision=1,
            kind="torch tensor",
            detail="float32 (4096, 1024)",
            size_bytes=16_777_216,
            lossy="fp8: at most 6.25% off",
            reason=Foreign(""),
            answer_reason="",
            times=3,
            arrived_s=NOW_S - 7,
            answered_s=None,
        ),
        RequestRow(
            number=27,
            state="denied",
            who=Foreign("Sven's notebook"),
            name="patients",
            revision=1,
            kind="pandas DataFrame",
            detail="1204 rows, 18 columns",
            size_bytes=173_376,
            lossy="",
            reason=Foreign("to look around"),
            answer_reason="names are in it; ask for patients_anonymous",
            times=1,
            arrived_s=NOW_S - 400,
            answered_s=NOW_S - 380,
            by="you",
        ),
        RequestRow(
            number=26,
            state="approved",
            who=Foreign("Sven's notebook"),
            name="labels",
            revision=2,
            kind="numpy array",
            detail="int64 (1204,)",
            size_bytes=9_632,
            lossy="",
            reason=Foreign("training"),
            answer_reason="",
            times=2,
            arrived_s=NOW_S - 800,
            answered_s=NOW_S - 790,
            by="policy small labels",
        ),
    ],
    policies=[
        PolicyRow("no patients", "deny", "tags patient", ""),
        PolicyRow(
            "small labels", "approve", "assets labels*; up to 10 kB; 20 times", "2 times, 2,408 elements"
        ),
        PolicyRow("the rest", "ask", "any request", ""),
    ],
)
ASKED = AskedState(
    pending=1,
    total=12,
    rows=[
        OwnRequestRow(11, "pending", Foreign("ages.mean()"), "for table 1", Foreign(""), NOW_S - 30.0, None),
        OwnRequestRow(
            10,
            "denied",
            Foreign("patients"),
            "",
            Foreign("names are in it"),
            NOW_S - 90.0,
            NOW_S - 80.0,
        ),
        OwnRequestRow(
            9, "complete", Foreign("labels"), "training", Foreign(""), NOW_S - 200.0, NOW_S - 199.0
        ),
    ],
)
SHARED = SharedState(
    total=5,
    rows=[
        SharedRow(
            Foreign("people"), "peer", Foreign("pandas.DataFrame"), Foreign("400 rows × 3 columns"), 12_800,
            Foreign("a survey of 2025"), Foreign("auto"), Foreign("epsilon 1 of 3 left"), True,
        ),
        SharedRow(
            Foreign("photos"), "peer", Foreign("list"), Foreign("12 items"), 3_000_000, Foreign(""),
            Foreign(""), Foreign(""), False,
        ),
        SharedRow(
            Foreign("weights"), "mine", Foreign("numpy.ndarray"), Foreign("float32 (64, 64)"), 16_384,
            Foreign(""), Foreign("zeros"), Foreign(""), True,
        ),
    ],
)  # fmt: skip
DRAFT = PolicyDraft(
    name="like request 28",
    words="assets scans; tags pilot, ct; kinds numpy array; peers Sven's notebook; no other tags;"
    " up to 71.3 MB; up to 8,912,896 elements; 10 times; until 2026-09-22 00:00:00+00:00",
    count=10,
    until_s=NOW_S + 35_200.0,
)
DETAIL = RequestDetail(
    number=28,
    revision=3,
    reason=Foreign("the mean intensity per slice, for figure 2" + "; and its spread" * 20),
    description="CT scans of the pilot, one slice per plane",
    tags=["pilot", "ct"],
    preview="[[-1024. -1024.  -998.]\n [-1024.  -871.   -12.]\n [ -990.    44.   120.]]",
    code=Foreign("dense = scans[scans > -900]\ndense.mean(axis=0)"),
    group=412,
)

RUNNING = TransferRow(
    number=12,
    name=Foreign("scans"),
    direction="out",
    size_bytes=71_303_168,
    done_bytes=0,
    wire_bytes=0,
    path="tcp",
    state="running",
    why=Foreign(""),
    paused_here=False,
    paused_there=False,
    duration_s=0.0,
    can_retry=False,
)
TRANSFERS = TransfersState(
    running=2,
    total=14,
    rows=[
        RUNNING,
        replace(
            RUNNING,
            number=11,
            name=Foreign("weights"),
            direction="in",
            size_bytes=4_000_000,
            paused_here=True,
        ),
        replace(
            RUNNING,
            number=10,
            name=Foreign("labels"),
            size_bytes=9_632,
            done_bytes=9_632,
            wire_bytes=2_101,
            state="complete",
            duration_s=0.02,
        ),
        replace(
            RUNNING,
            number=9,
            name=Foreign("patients"),
            direction="in",
            size_bytes=173_376,
            done_bytes=65_536,
            wire_bytes=30_120,
            path="relay",
            state="failed",
            why=Foreign("the relay refused: 508 Insufficient Capacity"),
            duration_s=3.1,
            can_retry=True,
        ),
    ],
)

ENTRY = AuditRow(
    number=0,
    when_s=NOW_S - 900.0,
    kind="opened",
    state="",
    peer=Foreign(""),
    name=Foreign(""),
    revision=None,
    size_bytes=None,
    left_bytes=None,
    by="",
    words=Foreign(""),
    path="",
)
_OF_SCANS = replace(
    ENTRY, peer=Foreign("Sven's notebook"), name=Foreign("scans"), revision=3, size_bytes=71_303_168
)
AUDIT = AuditPage(
    file="/home/olga/.local/share/duetlink/audit.jsonl",
    total=1234,
    rows=[
        replace(
            _OF_SCANS,
            number=1240,
            when_s=NOW_S - 12.0,
            kind="release",
            state="cancelled",
            left_bytes=31_400_000,
            by="you",
            path="tcp",
        ),
        replace(_OF_SCANS, number=1239, when_s=NOW_S - 20.5, kind="answer", state="approved", by="you"),
        replace(
            _OF_SCANS,
            number=1238,
            when_s=NOW_S - 42.0,
            kind="request",
            words=Foreign("the mean intensity per slice, for figure 2"),
        ),
        replace(
            _OF_SCANS,
            number=1237,
            when_s=NOW_S - 790.0,
            kind="release",
            state="complete",
            name=Foreign("labels"),
            revision=2,
            size_bytes=9_632,
            left_bytes=9_632,
            by="policy small labels",
            path="tcp",
        ),
        replace(
            ENTRY,
            number=1236,
            when_s=NOW_S - 800.0,
            kind="policy",
            state="added",
            name=Foreign("small labels"),
            words=Foreign("approve: assets labels*; up to 10 kB; 20 times"),
        ),
        replace(
            ENTRY,
            number=1235,
            when_s=NOW_S - 890.0,
            kind="connected",
            peer=Foreign("Sven's notebook"),
            words=Foreign("amber tulip seven"),
        ),
        replace(ENTRY, number=1234, when_s=NOW_S - 90_000.0),
        replace(ENTRY, number=-1, when_s=0.0, kind="unreadable"),
    ],
)
VERIFIED = "/home/olga/.local/share/duetlink/audit.jsonl: 1,241 entries, none changed, none missing"
EXPORT = Export("duetlink-audit.csv", "kind,number\nopened,0\n")

TRAITS: dict[str, Any] = {
    "link": asdict(CONNECTED),
    "tuning": asdict(TUNING),
    "requests": asdict(REQUESTS),
    "transfers": asdict(TRANSFERS),
}
_NAMES = ("Ada", "Ben", "Cleo")
_LINKS = (
    GroupLinkRow(0, 1, "tcp", 0.0124, 94_000_000.0, True),
    GroupLinkRow(0, 2, "relay", 0.081, 6_200_000.0, True),
    GroupLinkRow(1, 0, "tcp", 0.0131, 91_000_000.0, False),
    GroupLinkRow(1, 2, "udp", 0.044, None, False),
    GroupLinkRow(2, 0, "relay", 0.083, 5_900_000.0, False),
)
GROUP = GroupState(
    schema=SCHEMA,
    state="ready",
    why=Foreign(""),
    verifier="amber tulip seven",
    epoch=4,
    rank=0,
    size=3,
    members=[
        *(
            GroupMemberRow(rank, Foreign(name), "connected" if rank else "this member")
            for rank, name in enumerate(_NAMES)
        ),
        GroupMemberRow(None, Foreign("Dan"), "waiting for the next epoch"),
    ],
    links=list(_LINKS),
    gone=[
        GroupGoneRow(
            2,
            Foreign("Eve"),
            NOW_S - 300.0,
            "silent",
            Foreign("the peer has been silent for 20 s, and it did not come back within 10 s (patience_s)"),
        ),
        GroupGoneRow(1, Foreign("Fay"), NOW_S - 100.0, "notebook closed", Foreign("")),
    ],
    sum=GroupSum("auto", "union", 0.05, 1_000_000, 16_200_000, "float32[4,000,000] among 3 members: union"),
)
GROUP_TICK = asdict(
    GroupTick(
        "group_tick",
        1,
        GroupOperation("average at cell 3:2", 4.2, 30_000_000, 64_000_000, [2]),
        [0.0, 0.4, 12.0, 0.0],
    )
)

EMPTY_TRAITS: dict[str, Any] = {
    "link": asdict(WAITING),
    "tuning": asdict(TuningState(None, [], None, None)),
    "requests": asdict(RequestsState(0, 0, [])),
    "asked": asdict(AskedState(0, 0, [])),
    "shared": asdict(SharedState(0, [])),
    "transfers": asdict(TransfersState(0, 0, [])),
}

CODE = asdict(
    Code(
        "code",
        "7-crossover-clockwork",
        "duet = duetlink.join('7-crossover-clockwork')",
        NOW_S + 582.0,
        False,
    )
)


def decisions() -> Message:
    """How a tuner came to zstd, by way of lz4; and one of the peer's."""
    first = DecisionRow(
        side="here",
        number=0,
        when_s=NOW_S - 268.4,
        name=Foreign("labels"),
        path="tcp",
        before="",
        after="raw 0, 1 MB, 1 thread",
        codec="raw",
        level=0,
        chunk_bytes=1_000_000,
        workers=1,
        why=Foreign(
            "How fast the link is, is not known yet, and no codec is worth it for this object: as it is."
        ),
        predicted_bytes_per_s=None,
        measured_bytes_per_s=41.2e6,
    )
    rows = [
        first,
        replace(
            first,
            number=1,
            when_s=NOW_S - 190.0,
            name=Foreign("scans"),
            before="raw 0, 1 MB, 1 thread",
            after="lz4 0, 2 MB, 2 threads",
            codec="lz4",
            why=Foreign(
                "The link carries 41.2 MB/s, and lz4 0 encodes it at 612 MB/s per worker to 61.0%:"
                " 1.64 times as fast as raw."
            ),
            predicted_bytes_per_s=67.5e6,
            measured_bytes_per_s=64.9e6,
        ),
        replace(
            first,
            side="peer",
            when_s=NOW_S - 120.0,
            name=Foreign("weights"),
            after="pcodec 8, 2 MB, 2 threads",
            codec="pcodec",
            level=8,
            why=Foreign("The link carries 40 MB/s, and pcodec 8 encodes it at 210 MB/s per worker to 38.2%."),
            predicted_bytes_per_s=104e6,
            measured_bytes_per_s=None,
        ),
        replace(
            first,
            number=2,
            when_s=NOW_S - 64.5,
            name=Foreign("scans"),
            before="lz4 0, 2 MB, 2 threads",
            after="zstd 3, 2 MB, 2 threads",
            codec="zstd",
            level=3,
            why=Foreign(
                "The link became slower. The link carries 31.0 MB/s, and zstd 3 encodes it at 288 MB/s per"
                " worker to 41.3%: 2.42 times as fast as raw."
            ),
            predicted_bytes_per_s=75.1e6,
            measured_bytes_per_s=74.0e6,
        ),
    ]
    return asdict(Decisions("decisions", True, rows))


def history() -> tuple[Message, list[float]]:
    """Fifteen minutes: nothing, then 72 MB/s with waves, an outage, and the peer's answer."""
    message = asdict(History("history", SCHEMA, float(EPOCH_S), list(HISTORY_COLUMNS)))
    return message, [value for second in range(900) for value in row(second)]


def row(second: int) -> Iterator[float]:
    """One second of `history`."""
    up = second > 600
    cut = 780 <= second < 800
    wave = 1 + 0.25 * math.sin(second / 9) + 0.05 * math.sin(second * 2.3)
    sent = 58e6 * wave if up and not cut else 0.0
    received = 21e6 * wave if 770 < second < 780 or second > 840 else 0.0
    yield second
    yield sent
    yield received
    yield sent / 2.4
    yield received / 1.2
    yield math.nan if cut else 0.012 * (2 - wave) + 0.002
    yield 4e6 * max(0.0, wave - 0.8) if sent else 0.0


def tick(sequence: int, done_bytes: int = 31_400_000, duration_s: float = 8.25) -> Message:
    """Of a transfer that runs, and another that is paused."""
    return asdict(
        Tick(
            "tick",
            sequence,
            58.3e6,
            21.04e6,
            24.2e6,
            17.5e6,
            0.0124,
            [
                Running(12, done_bytes, int(done_bytes / 2.4), "tcp", duration_s),
                Running(11, 1_200_000, 800_000, "tcp", 2.0),
            ],
        )
    )


def ack(command: Message, error: str = "", result: Any = None) -> Message:
    return asdict(Ack("ack", command["command_id"], not error, error, result))


def notice(text: str) -> Message:
    return asdict(Notice("notice", text))
