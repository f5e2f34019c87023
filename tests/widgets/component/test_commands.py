"""Clicks: what they send, and what is shown until the kernel has answered."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import Shown

pytestmark = pytest.mark.slow


def test_a_button_is_disabled_until_the_ack_and_says_when_the_kernel_is_busy(show: Show) -> None:
    shown = show()
    view = shown.view()
    view.get_by_role("button", name="Pause sending").click()
    command = shown.command()
    assert (command["name"], command["args"]) == ("pause", {})
    expect(view.get_by_role("button", name="Pause sending")).to_be_disabled()
    expect(view.get_by_role("button", name="Pause sending")).to_be_focused()
    shown.pass_s(0.65)
    expect(view.get_by_role("button", name="Kernel busy…")).to_have_count(0)
    shown.pass_s(0.1)
    busy = view.get_by_role("button", name="Kernel busy…")
    expect(busy).to_be_disabled()
    busy.click(force=True)
    assert len(shown.sent("command")) == 1
    shown.pass_s(600)
    shown.receive(states.tick(1))  # it is there, and only busy
    expect(busy).to_be_disabled()
    shown.change(link=asdict(replace(states.CONNECTED, paused=True)))
    shown.receive(states.ack(command))
    view.get_by_role("button", name="Resume sending").click()
    assert shown.command()["name"] == "resume"


def test_disconnect_is_confirmed_in_the_panel(show: Show) -> None:
    shown = show()
    view = shown.view()
    header = view.locator("header")
    header.get_by_role("button", name="Disconnect").click()
    shown.settle()
    expect(header.get_by_role("group", name="End this duet?")).to_be_visible()
    expect(header.get_by_role("button", name="Stay")).to_be_focused()
    assert shown.sent("command") == []
    shown.page.keyboard.press("Escape")
    shown.settle()
    expect(header.get_by_role("button", name="Disconnect")).to_be_focused()
    header.get_by_role("button", name="Disconnect").click()
    header.get_by_role("group").get_by_role("button", name="Disconnect").click()
    assert shown.command()["name"] == "disconnect"


def test_transfers_are_paused_resumed_cancelled_and_retried(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Transfers")
    view.get_by_role("button", name="Pause scans").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("pause_transfer", {"number": 12})
    view.get_by_role("button", name="Resume weights").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("resume_transfer", {"number": 11})
    view.get_by_role("button", name="Retry patients").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("retry_transfer", {"number": 9})
    view.get_by_role("button", name="Cancel weights").click()
    assert shown.command()["name"] == "retry_transfer"
    view.get_by_role("button", name="Cancel it").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("cancel_transfer", {"number": 11})


def open_compression(shown: Shown, **fields: Any) -> Locator:
    change_compression(shown, **fields)
    view = shown.view()
    shown.open_tab(view, "Throughput")
    return view.get_by_role("region", name="Compression")


def change_compression(shown: Shown, **fields: Any) -> None:
    shown.change(tuning=asdict(replace(states.TUNING, compression=replace(states.COMPRESSION, **fields))))


def test_in_auto_the_codecs_are_read_only_and_what_is_in_force_is_shown(show: Show) -> None:
    shown = show()
    controls = open_compression(shown)
    expect(controls).to_contain_text("zstd 3 out, – in")
    for role in ("bytes", "tensor", "gradient"):
        expect(controls.get_by_label(role, exact=True)).to_be_disabled()
    expect(controls.get_by_label("objective")).to_be_enabled()


@pytest.mark.parametrize(
    ("label", "choice", "change"),
    [
        ("objective", "fewest bytes", {"objective": "bytes"}),
        ("bytes", "lz4", {"codec": {"bytes": "lz4"}, "level": {"bytes": None}}),
        ("gradient", "topk (lossy)", {"codec": {"gradient": "topk"}, "level": {"gradient": None}}),
    ],
)
def test_a_choice_is_a_command_with_what_changes(
    show: Show, label: str, choice: str, change: dict[str, Any]
) -> None:
    shown = show()
    controls = open_compression(shown, mode="manual")
    controls.get_by_label(label, exact=True).select_option(label=choice)
    assert (shown.command()["name"], shown.command()["args"]) == ("set_compression", change)


def test_levels_are_those_of_the_codec(show: Show) -> None:
    shown = show()
    codec = {"bytes": "auto", "tensor": "zstd", "gradient": "raw"}
    controls = open_compression(shown, mode="manual", codec=codec)
    level = controls.get_by_label("level for tensor")
    expect(level.locator("option")).to_have_count(20)
    expect(level.locator("option").first).to_have_text("level 3, its default")
    level.select_option(label="level 7")
    assert shown.command()["args"] == {"level": {"tensor": 7}}
    expect(level).to_have_value("7")
    expect(controls.get_by_label("level for bytes")).to_be_disabled()
    expect(controls.get_by_label("level for gradient")).to_be_disabled()
    # what only changes bytes back is not offered where nothing may be changed
    change_compression(shown, mode="manual", lossless_only=True, version=5)
    expect(controls.get_by_label("gradient", exact=True).locator("option")).to_have_text(["auto", "raw"])


def test_switches_and_numbers(show: Show) -> None:
    shown = show()
    controls = open_compression(shown)
    controls.get_by_role("radio", name="Manual").check()
    assert shown.command()["args"] == {"mode": "manual"}
    shown.receive(states.ack(shown.command()))
    controls.get_by_label("lossless only").check()
    assert shown.command()["args"] == {"lossless_only": True}
    shown.receive(states.ack(shown.command()))
    controls.get_by_label("keep the codecs in force").check()
    assert shown.command()["args"] == {"pin": True}
    shown.receive(states.ack(shown.command()))
    cap = controls.get_by_label("rate cap")
    cap.fill("2.5")
    assert shown.command()["args"] == {"pin": True}  # not yet: it is being typed
    cap.press("Enter")
    assert shown.command()["args"] == {"rate_cap_bytes_per_s": 2.5e6}
    shown.receive(states.ack(shown.command()))
    change_compression(shown, rate_cap_bytes_per_s=2.5e6, version=5)
    cap.fill("")
    cap.blur()
    assert shown.command()["args"] == {"rate_cap_bytes_per_s": None}
    shown.receive(states.ack(shown.command()))
    controls.get_by_label("greatest error").fill("7")
    controls.get_by_label("greatest error").press("Enter")
    assert shown.command()["args"] == {"max_relative_error": 0.07}
    change_compression(shown, max_relative_error=0.07, version=6)
    expect(controls.get_by_label("greatest error")).to_have_value("7")
    shown.receive(states.ack(shown.command()))
    controls.get_by_role("button", name="Undo").click()
    assert shown.command()["name"] == "undo_compression"


def test_a_control_shows_what_the_kernel_says(show: Show) -> None:
    shown = show()
    controls = open_compression(shown)
    objective = controls.get_by_label("objective")
    # the peer's change
    change_compression(shown, objective="latency", version=5)
    expect(objective).to_have_value("latency")
    expect(controls.get_by_title("change 5", exact=True)).to_have_text("the same on both sides")
    # one of ours that is refused
    objective.select_option("cpu")
    expect(objective).to_have_value("cpu")
    shown.receive(states.ack(shown.command(), "the peer could not be told"))
    expect(objective).to_have_value("latency")
    expect(controls.get_by_role("alert")).to_contain_text("the peer could not be told")
    # one that is taken: the trait comes before the ack
    objective.select_option("bytes")
    change_compression(shown, objective="bytes", version=6)
    shown.receive(states.ack(shown.command()))
    expect(objective).to_have_value("bytes")
    expect(controls.get_by_role("alert")).to_have_count(0)


def test_choices_made_while_the_kernel_is_busy_are_sent_one_after_the_other(show: Show) -> None:
    shown = show()
    controls = open_compression(shown)
    controls.get_by_label("objective").select_option("bytes")
    controls.get_by_label("lossless only").check()
    shown.pass_s(0.8)
    expect(controls).to_contain_text("Kernel busy…")
    first = shown.command()
    assert first["args"] == {"objective": "bytes"}
    change_compression(shown, objective="bytes", version=5)
    shown.receive(states.ack(first))
    shown.settle()
    assert shown.command()["args"] == {"lossless_only": True}
    change_compression(shown, objective="bytes", lossless_only=True, version=6)
    shown.receive(states.ack(shown.command()))
    expect(controls.get_by_label("lossless only")).to_be_checked()


def test_before_there_is_a_peer_there_is_nothing_to_agree_on(show: Show) -> None:
    shown = show(traits=states.EMPTY_TRAITS)
    view = shown.view()
    shown.open_tab(view, "Throughput")
    expect(view).to_contain_text("Both sides agree on it once they are connected.")
    expect(view).to_contain_text("Nothing has moved yet.")
    expect(view.get_by_role("img")).to_have_count(0)
