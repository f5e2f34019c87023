"""The panel in two people's notebooks, in a real JupyterLab and in Notebook 7, used as they would."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, expect

from duetlink.settings import PATHS
from tests.browser.cell import Cell
from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import Frontend, NotebookPage

pytestmark = pytest.mark.slow

# until the test says so through the file system
BUSY = """
import os
while not os.path.exists({end!r}):
    sum(range(100_000))
"""


def panel(cell: Cell) -> Locator:
    """What a cell shows of its duet."""
    return cell.output.get_by_role("region", name="Duet")


def tab(shown: Locator, name: str) -> Locator:
    """Open a tab; returns what it holds."""
    shown.get_by_role("tab", name=re.compile(name)).click()
    return shown.get_by_role("tabpanel")


def link(
    open_notebook: OpenNotebook, frontend: Frontend = "lab", only: tuple[str, ...] = PATHS
) -> tuple[NotebookPage, NotebookPage, Locator, Locator]:
    """An owner and a scientist, connected by the code that the owner's panel shows, each with a panel."""
    owner = open_notebook("owner", frontend)
    scientist = open_notebook("scientist", frontend)
    setting = f"import duetlink\nfrom duetlink.settings import Settings\nsettings = Settings(only={only})\n"
    mine = panel(owner.run(f"{setting}duet = duetlink.launch(name='Olga', settings=settings)"))
    line = mine.get_by_text("duet = duetlink.join").inner_text()
    joining = line.replace(")", ", name='Sven', settings=settings)")
    theirs = panel(scientist.run(f"{setting}{joining}"))
    for shown, peer in ((mine, "Sven"), (theirs, "Olga")):
        expect(shown.locator("header")).to_contain_text("Connected")
        expect(shown.locator("header")).to_contain_text(peer)
    return owner, scientist, mine, theirs


@pytest.mark.parametrize("frontend", ["lab", "notebook"])
def test_pairing_and_requests_answered_while_a_cell_is_busy_until_the_kernel_ends(
    open_notebook: OpenNotebook, frontend: Frontend, tmp_path: Path
) -> None:
    owner, scientist, mine, theirs = link(open_notebook, frontend)
    owner.run("import numpy as np\n_ = duet.share(np.arange(1000.0), 'x', description='numbers')")
    end = tmp_path / "end"
    busy = owner.begin(BUSY.format(end=str(end)))
    scientist.run("asked = duet.wait_object('x', 60).request('its <b>sum</b>')")
    expect(mine.locator("header")).to_contain_text("1 request")
    requests = tab(mine, "Requests")
    expect(requests).to_contain_text("its <b>sum</b>")
    requests.get_by_role("button", name="x", exact=True).click()
    expect(requests).to_contain_text("numbers")
    requests.get_by_role("button", name="Approve x", exact=True).click()
    expect(requests).to_contain_text("approved")
    assert busy.is_running()
    end.touch()
    assert scientist.run("print(asked.result(60).sum())").text() == "499500.0"
    busy.wait()

    # by Enter, which submits no form inside JupyterLab
    owner.run("_ = duet.share([1], 'y')")
    scientist.run("refused = duet.wait_object('y', 60).request('all of it')")
    requests.get_by_role("button", name="Deny…").click()
    reason = requests.get_by_label("Reason to deny y")
    reason.fill("not yet")
    # for half a second after the list has changed, nothing is answered
    expect(requests.get_by_role("button", name="Deny", exact=True)).to_be_enabled()
    reason.press("Enter")
    expect(tab(theirs, "Requests").get_by_role("table", name="Asked by you")).to_contain_text("not yet")
    expect(tab(theirs, "Shared")).to_contain_text("numbers")
    cap = tab(mine, "Throughput").get_by_label("rate cap")
    cap.fill("7")
    cap.press("Enter")
    expect(tab(theirs, "Throughput").get_by_label("rate cap")).to_have_value("7")

    owner.begin("import os; os._exit(1)")
    expect(mine).to_have_attribute("data-gone", "true", timeout=10_000)
    expect(mine.locator("header")).to_contain_text("The kernel does not answer")


def test_the_code_is_shown_where_all_cells_were_run_at_once(
    open_notebook: OpenNotebook, tmp_path: Path
) -> None:
    """As by Run All: what the panel asks for first waits behind the cells, the second of which never ends."""
    owner = open_notebook("owner", "lab")
    end = tmp_path / "end"
    launched = owner.begin("import duetlink\nduet = duetlink.launch(name='Olga')")
    busy = owner.begin(BUSY.format(end=str(end)))
    expect(panel(launched).get_by_text("duet = duetlink.join")).to_be_visible()
    assert busy.is_running()
    end.touch()
    busy.wait()


def test_a_codec_chosen_on_one_panel_is_seen_on_the_other(open_notebook: OpenNotebook) -> None:
    _, scientist, mine, theirs = link(open_notebook)
    throughput, other = tab(mine, "Throughput"), tab(theirs, "Throughput")
    throughput.get_by_role("radio", name="Manual").check()
    throughput.get_by_label("tensor", exact=True).select_option("zstd")
    expect(other.get_by_role("radio", name="Manual")).to_be_checked()
    expect(other.get_by_label("tensor", exact=True)).to_have_value("zstd")
    assert scientist.run("print(duet.compression.codec['tensor'])").text() == "zstd"
    other.get_by_role("button", name="Undo").click()
    expect(throughput.get_by_label("tensor", exact=True)).to_have_value("auto")


def test_a_transfer_is_watched_paused_and_resumed_to_its_end(open_notebook: OpenNotebook) -> None:
    owner, scientist, mine, theirs = link(open_notebook, only=("tcp", "channel"))
    owner.run("duet.compression.rate_cap_bytes_per_s = 4e6; import numpy as np")
    sending = owner.begin("duet.send(np.random.default_rng(1).normal(size=4_000_000), 'noise')")
    transfers = tab(theirs, "Transfers")
    expect(transfers.get_by_role("progressbar")).to_be_visible()
    transfers.get_by_role("button", name="Pause").click()
    expect(tab(mine, "Transfers")).to_contain_text("paused")
    transfers.get_by_role("button", name="Resume").click()
    owner_side = tab(mine, "Throughput")
    expect(owner_side.get_by_role("img").first).to_be_visible()
    sending.wait()
    expect(transfers).to_contain_text("complete")
    assert scientist.run("print(duet.store['noise'].get().size)").text() == "4000000"


def test_the_page_is_loaded_again_and_the_history_is_there(open_notebook: OpenNotebook) -> None:
    owner, _, mine, _ = link(open_notebook)
    owner.run("duet.send(list(range(100_000)), 'numbers')")
    owner.reload()
    expect(mine.locator("header")).to_contain_text("Connected")
    expect(tab(mine, "Transfers")).to_contain_text("numbers")
    throughput = tab(mine, "Throughput")
    throughput.get_by_role("button", name="Show as table").first.click()
    expect(throughput.get_by_role("table").first).to_be_visible()


def test_letters_pressed_on_the_panel_do_not_edit_the_notebook(open_notebook: OpenNotebook) -> None:
    owner, _, mine, _ = link(open_notebook)
    expect(owner.page.locator(".jp-Notebook")).to_have_class(re.compile("jp-mod-commandMode"))
    cells = owner.count_cells()
    places = [
        mine.get_by_role("button", name="Disconnect"),
        mine.get_by_role("tab", name="Link"),
        mine.get_by_role("tabpanel"),
        mine,
    ]
    for place in places:
        place.focus()
        # insert above and below, cut, delete: each alone, since an undo of all of them would hide it
        for keys in ("a", "b", "x", "dd"):
            for key in keys:
                owner.page.keyboard.press(key)
            expect(place).to_be_focused()
            assert owner.count_cells() == cells


def test_it_is_used_by_keyboard_alone(open_notebook: OpenNotebook) -> None:
    owner, scientist, mine, _ = link(open_notebook)
    owner.run("_ = duet.share([1, 2, 3], 'x')")
    scientist.run("asked = duet.wait_object('x', 60).request('to see them')")
    expect(mine.locator("header")).to_contain_text("1 request")
    mine.get_by_role("tab", name="Link").focus()
    press = owner.page.keyboard.press
    for _ in range(3):
        press("ArrowRight")
    press("Enter")
    requests = mine.get_by_role("tabpanel")
    expect(requests).to_contain_text("to see them")
    for _ in range(30):
        press("Tab")
        if owner.page.evaluate("document.activeElement?.textContent") == "Approve":
            break
    # for half a second after the list has changed, nothing is answered
    expect(requests.get_by_role("button", name="Approve x", exact=True)).to_have_attribute(
        "aria-disabled", "false"
    )
    press("Enter")
    expect(requests).to_contain_text("approved")
    assert scientist.run("print(asked.result(60))").text() == "[1, 2, 3]"


@pytest.mark.parametrize("frontend", ["lab", "notebook"])
def test_a_saved_notebook_holds_no_code_and_shows_a_readable_state(
    open_notebook: OpenNotebook, frontend: Frontend
) -> None:
    owner = open_notebook("owner", frontend)
    mine = panel(owner.run("import duetlink\nduet = duetlink.launch(name='Olga')"))
    code = mine.locator("code.code").inner_text()
    assert code.count("-") == 2
    owner.page.evaluate("notebookPage.panel().context.save()")
    saved = owner.saved()
    assert code.split("@")[0] not in saved
    outputs = json.loads(saved)["cells"][1]["outputs"]
    assert "waiting" in "".join(outputs[1]["data"]["text/plain"])
    expect(owner.page.locator(".duetlink-kept")).to_be_hidden()  # the panel is there
    owner.run("duet.close()")
    expect(mine.locator("header")).to_contain_text("Closed")
    # the panel hears of it by itself, the output below it by another message
    owner.page.wait_for_function(
        "JSON.stringify(notebookPage.panel().context.model.toJSON()).includes('closed the duet')"
    )
    owner.page.evaluate("notebookPage.panel().context.save()")
    outputs = json.loads(owner.saved())["cells"][1]["outputs"]
    assert "closed" in "".join(outputs[1]["data"]["text/html"])
    page, _ = HTMLExporter().from_notebook_node(nbformat.reads(owner.saved(), as_version=4))
    assert "this side closed the duet" in page
    assert code.split("@")[0] not in page
    # another day, another kernel
    owner.end_kernel()
    owner.load()
    expect(owner.page.locator(".duetlink-kept")).to_contain_text("this side closed the duet")
    expect(owner.page.locator(".duetlink-kept")).to_be_visible()
    expect(owner.page.get_by_text("model not found")).to_be_hidden()


def test_a_new_request_is_announced_outside_the_panel(open_notebook: OpenNotebook) -> None:
    owner, scientist, _, _ = link(open_notebook)
    owner.run("_ = duet.share([1], 'x')")
    scientist.run("asked = duet.wait_object('x', 60).request('why')")
    notifications = owner.page.locator(".jp-Notification-Status")
    expect(notifications).to_contain_text("1")
    notifications.click()
    expect(owner.page.locator(".jp-Notification-Center")).to_contain_text("Sven asks for x: “why”")
