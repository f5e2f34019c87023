"""`python -m tests.browser.shots`: the README's pictures of the panel, from a real JupyterLab. With names
(`two-notebooks panel`) only those.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.chromium import run_chromium
from tests.browser.conftest import OpenNotebook
from tests.browser.film import Film
from tests.browser.jupyter import JupyterServer
from tests.browser.test_panel import link, panel, tab

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 1120

# what crosses while the picture is taken, at 6 MB/s on the wire
SEND = """
import numpy as np
random = np.random.default_rng(7)
weights = random.normal(size=18_000_000).astype("float32")
duet.compression.rate_cap_bytes_per_s = 6e6
duet.send(np.maximum(weights, 0), "activations")
duet.send(np.round(random.normal(size=12_000_000) * 100, 1), "decimals")
duet.send(random.integers(0, 40, 24_000_000), "counts")
duet.send(weights, "weights")
"""


LAUNCH = """import numpy as np
import duetlink

duet = duetlink.launch(name="clinic")"""
SHARE = """ages = np.random.default_rng(7).normal(47, 12, 400).round()
mock = duetlink.Mock(bounds=(18, 80))
_ = duet.share(ages, "ages", description="of 400 donors", mock=mock)"""
WORK = """ages = duet.wait_object("ages")
mean = ages[ages > 40].mean()
print("of the mock:", mean.mock.round(1))"""
ASK = """print("of the real data:", mean.get(reason="for table 1").round(1))"""


def take_panel(opener: OpenNotebook) -> None:
    """Throughput while arrays cross, and a request."""
    owner, scientist, mine, _ = link(opener, only=("tcp", "channel"))
    sending = owner.begin(SEND)
    tab(mine, "Throughput").get_by_role("radio", name="1 min").check()  # there once something moves
    expect(tab(mine, "Throughput").get_by_role("table")).to_contain_text("weights", timeout=120_000)
    owner.picture(DOCS / "panel-throughput.png", mine)
    sending.wait(120)
    owner.run(
        "scans = random.normal(size=(3000, 3000))\n"
        "_ = duet.share(scans, 'scans', description='72 MB of noise', tags=['demo'])"
    )
    scientist.run("asked = duet.wait_object('scans', 60).request('column means; only they come back')")
    requests = tab(mine, "Requests")
    requests.get_by_role("button", name="scans", exact=True).click()
    expect(requests).to_contain_text("array(")
    expect(requests.get_by_role("button", name="Approve scans")).to_have_attribute("aria-disabled", "false")
    owner.picture(DOCS / "panel-requests.png", mine)


def take_two_notebooks(opener: OpenNotebook) -> None:
    """Both sides from the launch to the value, side by side, moving."""
    sizes: dict[str, Any] = {"width": 640, "height": 790, "frontend": "notebook"}
    owner = opener("owner", cells=[LAUNCH, SHARE], **sizes)
    scientist = opener("scientist", cells=["import duetlink"], **sizes)
    film = Film({"the owner's notebook": owner, "the scientist's notebook": scientist})
    film.shoot(1.5)
    mine = panel(owner.run_cell(0))
    line = mine.get_by_text("duet = duetlink.join").inner_text()
    film.shoot(3)
    scientist.run_cell(0)
    theirs = panel(scientist.run(line.replace(")", ', name="lab")')))
    expect(theirs.locator("header")).to_contain_text("Connected")
    expect(mine.locator("header")).to_contain_text("Connected")
    film.shoot(2.5)
    owner.run_cell(1)
    tab(theirs, "Shared")
    expect(theirs).to_contain_text("ages")
    film.shoot(2.5)
    scientist.run(WORK)
    film.shoot(2.5)
    asking = scientist.begin(ASK)
    requests = tab(mine, "Requests")
    expect(requests).to_contain_text("np.float64")
    approve = requests.get_by_role("button", name="Approve ages[ages > 40].mean()", exact=True)
    expect(approve).to_have_attribute("aria-disabled", "false", timeout=60_000)
    film.shoot(3)
    film.shoot(1.2, click=approve)
    approve.click()
    asking.wait(60)
    expect(requests).to_contain_text("approved")
    asking.element.scroll_into_view_if_needed()
    film.shoot(4)
    film.save(DOCS / "two-notebooks.gif")


SHOTS: dict[str, Callable[[OpenNotebook], None]] = {"panel": take_panel, "two-notebooks": take_two_notebooks}


def main(names: list[str]) -> None:
    for name in names or SHOTS:
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = stack.enter_context(contextlib.closing(JupyterServer(directory)))
            browser = stack.enter_context(run_chromium(directory / "chromium"))
            opener = OpenNotebook(browser, server, width=WIDTH, height=1000)
            SHOTS[name](opener)
            for page in opener.pages:
                page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
