"""A peer's words are text: they run nothing, hide nothing and push nothing aside."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from duetlink_widgets.contract import Foreign
from tests.widgets.component import states
from tests.widgets.component.conftest import Show

pytestmark = pytest.mark.slow

MARKUP = (
    "<img src=x onerror=\"document.body.dataset.hit = 'hit'\"><script>document.body.dataset.hit = 1</script>"
)
BIDI = "invoice\u202egnp.exe\u2066\u200b\x07\x1b[31m\ud800 \u2028\n\t"
LONG = "w" * 10_000
ZALGO = "z" + "\u0300\u0301\u0489" * 400


def traits_of(words: str) -> dict[str, Any]:
    foreign = Foreign(words)
    link = replace(
        states.CONNECTED,
        peer=foreign,
        why=foreign,
        paths=[replace(path, why=foreign) for path in states.CONNECTED.paths],
    )
    rows = [
        replace(
            row,
            who=foreign,
            reason=foreign,
            name=words,
            detail=words,
            lossy=words,
            answer_reason=words,
            by=words,
        )
        for row in states.REQUESTS.rows
    ]
    policies = [replace(states.REQUESTS.policies[0], name=words, words=words, used=words)]
    transfers = [replace(row, name=foreign, why=foreign) for row in states.TRANSFERS.rows]
    return {
        "link": asdict(link),
        "tuning": asdict(states.TUNING),
        "requests": asdict(replace(states.REQUESTS, rows=rows, policies=policies)),
        "transfers": asdict(replace(states.TRANSFERS, rows=transfers)),
    }


@pytest.mark.parametrize("width", [700, 1000])
@pytest.mark.parametrize("words", [MARKUP, BIDI, LONG, ZALGO], ids=["markup", "bidi", "long", "zalgo"])
def test_hostile_words_are_shown_as_text(show: Show, words: str, width: int) -> None:
    shown = show(traits=traits_of(words), width=width)
    view = shown.view()
    shown.greet()
    rows = [row | {"name": words, "why": words, "before": words} for row in states.decisions()["rows"]]
    shown.receive({"kind": "decisions", "reset": True, "rows": rows})
    for title in ("Link", "Throughput", "Requests", "Transfers", "Audit"):
        shown.open_tab(view, title)
        if title == "Requests":
            shown.pass_s(0.6)
            view.locator(".open").first.click()
            shown.settle()
            detail = replace(states.DETAIL, reason=Foreign(words * 2), preview=words, tags=[words] * 3)
            shown.receive(states.ack(shown.command(), result=asdict(detail)))
            shown.pass_s(0.6)
            view.get_by_role("button", name=re.compile("^Approve")).first.click()
            shown.receive(states.ack(shown.command(), error=words))
            view.get_by_role("button", name=re.compile("^Approve like")).first.click()
            shown.settle()
            draft = replace(states.DRAFT, name=words, words=words)
            shown.receive(states.ack(shown.command(), result=asdict(draft)))
            view.get_by_role("button", name=re.compile("^Remove policy")).first.click()
            shown.settle()
        if title == "Audit":
            row = {"kind": words, "state": words, "by": words, "path": words}
            rows = [
                asdict(one) | row | {"peer": words, "name": words, "words": words}
                for one in states.AUDIT.rows
            ]
            page = asdict(states.AUDIT) | {"file": words, "rows": rows}
            shown.receive(states.ack(shown.command(), result=page))
            shown.settle()
            view.get_by_role("button", name="Verify").click()
            shown.receive(states.ack(shown.command(), error=words))
            shown.settle()
        everything = shown.page.evaluate(
            """() => [...document.querySelectorAll(".duetlink-panel *")].flatMap((element) =>
              [...element.attributes].map(({ value }) => value)).join("") + document.body.textContent"""
        )
        hidden = re.findall(
            r"[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202e\u2028\u2066\ud800]", everything
        )
        assert hidden == []
        assert shown.page.locator(".duetlink-panel :is(img, script, a, iframe)").count() == 0
        assert shown.page.evaluate("document.body.dataset.hit") is None
        sideways = "({ scrollWidth, clientWidth }) => scrollWidth - clientWidth"
        assert view.evaluate(sideways) == 0
        assert shown.page.evaluate(f"({sideways})(document.documentElement)") == 0
        shown_lengths = shown.page.evaluate(
            "[...document.querySelectorAll('.words')].map((one) => one.textContent.length)"
        )
        assert max(shown_lengths) <= 4001


def test_a_name_stays_in_its_row(show: Show) -> None:
    shown = show(traits=traits_of(LONG), width=700)
    view = shown.view()
    box = view.locator("header").bounding_box()
    assert box is not None
    assert box["height"] < 200
