"""What leads from JupyterLab's notification to a request, and who has changed what: the page's half."""

from __future__ import annotations

from dataclasses import asdict, replace

from playwright.sync_api import expect

from duetlink_widgets.contract import Asked, Foreign
from tests.widgets.component import states
from tests.widgets.component.conftest import Show

CAPTION = "Show what lab asks for in the panel"
# what JupyterLab makes of a notification's action
BUTTON = "caption => document.body.append(Object.assign(document.createElement('button'), {title: caption}))"
PRESS = "caption => document.querySelector(`button[title='${caption}']`).click()"


def test_review_in_the_notification_leads_to_the_request_and_not_to_its_answer(show: Show) -> None:
    shown = show(traits=states.TRAITS | {"key": "a1"})
    shown.page.evaluate(
        "model.widget_manager.context ="
        " {path: 'study/owner.ipynb', model: {cells: {get: (index) => ({id: `cell ${index}`})}}}"
    )
    shown.page.evaluate("document.querySelector('main').dataset.windowedListIndex = 3")
    first, second = shown.view("first"), shown.view("second")
    asked = Asked("asked", Foreign("lab"), Foreign("ages.mean()"), Foreign("just curious"), False)
    shown.receive(asdict(asked))
    [notified] = shown.page.evaluate("model.notified")
    assert notified["args"]["options"]["actions"] == [
        {
            "label": "Review",
            "caption": CAPTION,
            "commandId": "rendermime:handle-local-link",
            "args": {"path": "study/owner.ipynb", "id": "#cell-id=cell 3"},
        }
    ]
    for caption in ("Close", CAPTION):
        expect(first.get_by_role("tab", name="Link")).to_have_attribute("aria-selected", "true")
        shown.page.evaluate(BUTTON, caption)
        shown.page.evaluate(PRESS, caption)
        shown.settle()
    expect(first.get_by_role("tab", name="Requests")).to_have_attribute("aria-selected", "true")
    expect(first.get_by_role("button", name="scans", exact=True)).to_be_focused()
    expect(second.get_by_role("tab", name="Link")).to_have_attribute("aria-selected", "true")


def test_elsewhere_than_in_a_notebook_the_notification_has_the_button_all_the_same(show: Show) -> None:
    shown = show()
    view = shown.view()
    asked = Asked("asked", Foreign("lab"), Foreign("x"), Foreign(""), False)
    shown.receive(asdict(asked))
    [notified] = shown.page.evaluate("model.notified")
    assert notified["args"]["options"]["actions"][0]["args"] == {}
    shown.page.evaluate(BUTTON, CAPTION)
    shown.page.evaluate(PRESS, CAPTION)
    expect(view.get_by_role("tab", name="Requests")).to_have_attribute("aria-selected", "true")


def test_the_controls_say_who_set_what_and_when(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Throughput")
    controls = view.get_by_role("region", name="Compression")
    expect(controls).to_contain_text("the same on both sides")
    changed = replace(
        states.TUNING, changed_by=Foreign("lab\u202e"), changed_words="tensor: raw", changed_s=states.NOW_S
    )
    shown.change(tuning=asdict(changed))
    expect(controls).to_contain_text("lab\\u202e set tensor: raw, 14:13:20")


def test_the_log_fills_the_width_where_its_rows_are_stacked(show: Show) -> None:
    """In a container of its own, which is narrower than the panel, it was taken for one in a side panel."""
    shown = show()
    view = shown.view(width=720)
    shown.open_tab(view, "Audit")
    shown.receive(states.ack(shown.command(), result=asdict(states.AUDIT)))
    row = view.get_by_role("table", name="Audit log").get_by_role("row").nth(1)
    box = row.bounding_box()
    assert box is not None
    assert box["width"] > 640
