"""What a report looks like: in JSON, whose shape is kept, in a terminal, in a notebook."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from duetlink.net.paths.path_selector import PathStatus
from duetlink.net.stun.trouble import MAX_FOREIGN, foreign
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.link import link_findings
from duetlink.tools.doctor.report import Report

GOLDEN = Path(__file__).with_name("report.json")

REPORT = Report(
    (
        Finding("addresses", "ok", "IPv4 192.0.2.2; no IPv6.", "", {"ipv4": ["192.0.2.2"], "public": ()}),
        Finding("udp", "ok", "UDP goes out, and answers come back.", "", {"asked": 1, "answered": 1}),
        Finding(
            "nat",
            "limited",
            "Behind a NAT.",
            "configure a TURN server",
            {"mapping": "address-dependent"},
        ),
        Finding("stun", "ok", "stun:s answers.", "", {"url": "stun:s:3478", "transport": "udp"}),
        Finding("turn", "failed", "turn:a is <dead>.", "wake it", {"url": "turn:a:3478", "transport": "udp"}),
        Finding("turn", "ok", "turn:b relays.", "", {"url": "turn:b:443", "transport": "tls"}),
        Finding("signaling", "unknown", "Not asked."),
    ),
    1.2345,
)


def test_the_json_is_what_it_was_when_its_schema_was_made() -> None:
    assert json.loads(REPORT.json()) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def shown(width: int, report: Report = REPORT) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, force_terminal=False).print(report)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_all_of_it_within_its_width(width: int) -> None:
    lines = shown(width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for finding in REPORT.findings:
        assert finding.words in text
    assert "→ configure a TURN server" in text
    assert lines[-1] == "Most peers can be reached from here, by relay."


def test_a_name_that_repeats_is_shown_once() -> None:
    assert [line.split()[:2] for line in shown(80) if "turn:" in line and "relays by" not in line] == [
        ["turn", "failed"],
        ["ok", "turn:b"],
    ]


def test_text_is_what_a_terminal_shows() -> None:
    assert str(REPORT).splitlines() == shown(100)
    assert repr(REPORT) == str(REPORT)


def test_html_is_escaped() -> None:
    html = REPORT._repr_html_()
    assert "turn:a is &lt;dead&gt;." in html
    assert "<dead>" not in html
    assert html.count("<pre") == html.count("</pre>") == 1
    hostile = Report((Finding("turn", "failed", "<script>alert(1)</script>", "<b>", {"url": "u"}),), 0.0)
    assert "<script>" not in hostile._repr_html_()


def test_characters_that_hide_or_reorder_are_shown_as_escapes_at_every_depth() -> None:
    finding = Finding(
        "n\n", "ok", "a\x1b[2Jb", "c\u202ed", {"k\r": ["\u200b", {"deep": "\x00", "number": 7}]}
    )
    assert finding.to_json() == {
        "name": "n\\n",
        "outcome": "ok",
        "words": "a\\x1b[2Jb",
        "advice": "c\\u202ed",
        "details": {"k\\r": ["\\u200b", {"deep": "\\x00", "number": 7}]},
    }


def test_a_servers_words_are_cut() -> None:
    assert foreign("short") == "short"
    assert foreign("x" * 1000) == "x" * MAX_FOREIGN + "…"


# -- a link's paths ------------------------------------------------------------------------------------------


def test_each_path_of_a_link_and_how_to_get_a_better_one() -> None:
    findings = link_findings(
        [
            PathStatus("tcp", "down", "no address answers"),
            PathStatus("punched", "opening"),
            PathStatus("udp", "up", bytes_per_s=84.25e6),
            PathStatus("relay", "idle", "not needed: both sides are on one host"),
            PathStatus("channel", "up"),
        ],
        "udp",
    )
    assert [(finding.name, finding.outcome, finding.words) for finding in findings] == [
        ("path tcp", "limited", "Down: no address answers."),
        ("path punched", "unknown", "Being opened."),
        (
            "path udp",
            "ok",
            "Up, and the best there is: it carries this link's arrays; 84.2 MB/s when last measured.",
        ),
        ("path relay", "ok", "Idle: not needed: both sides are on one host."),
        ("path channel", "ok", "Up, in reserve."),
    ]
    # only what is better than udp is worth working for
    assert [bool(finding.advice) for finding in findings] == [True, True, False, False, False]
