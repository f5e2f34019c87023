"""`python -m tests.browser.shots`: the README's pictures of the panel, from a real JupyterLab."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chromium import run_chromium
from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter import JupyterServer
from tests.browser.test_panel import link, tab

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


def main() -> None:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(contextlib.closing(JupyterServer(directory)))
        browser = stack.enter_context(run_chromium(directory / "chromium"))
        opener = OpenNotebook(browser, server, width=WIDTH, height=1000)
        owner, scientist, mine, _ = link(opener, only=("tcp", "channel"))
        for page in opener.pages:
            stack.callback(page.close)
        tab(mine, "Throughput").get_by_role("radio", name="1 min").check()
        sending = owner.begin(SEND)
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
        expect(requests.get_by_role("button", name="Approve scans")).to_have_attribute(
            "aria-disabled", "false"
        )
        owner.picture(DOCS / "panel-requests.png", mine)


if __name__ == "__main__":
    main()
