"""Panels in two real kernels: clicks are done while a cell runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.widgets.kernel import Kernel, pair

pytestmark = pytest.mark.slow

# each until a file is there: an interrupt does not end every one of them in every release of ipykernel
SLEEPS = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.2)"
SPINS = "import os\nwhile not os.path.exists({!r}): sum(range(100_000))"
AWAITS = "import asyncio, os\nwhile not os.path.exists({!r}): await asyncio.sleep(0.2)"


@pytest.fixture(scope="module")
def kernels() -> Iterator[tuple[Kernel, Kernel]]:
    made = pair()
    yield made
    for kernel in made:
        kernel.close()


@pytest.mark.parametrize("cell", [SLEEPS, SPINS, AWAITS], ids=["sleeps", "spins", "awaits"])
def test_a_click_is_done_while_a_cell_runs(kernels: tuple[Kernel, Kernel], cell: str, tmp_path: Path) -> None:
    owner, scientist = kernels
    end = tmp_path / "end"
    number = owner.begin(cell.format(str(end)))
    for objective in ("bytes", "throughput") * 3:
        # what the panel writes of its own accord meanwhile must not change the way of the next click
        scientist.click("set_compression", pin=objective == "bytes")
        while "tuning" not in owner.hear().get("traits", {}):
            pass
        ack, _ = owner.click("set_compression", objective=objective)
        assert (ack["ok"], ack["error"]) == (True, "")
    assert not owner.ended(number)
    end.touch()
    owner.wait_ended(number)
    assert scientist.run("print(duet.compression.objective)").strip() == "throughput"


def test_a_request_is_approved_while_a_cell_runs(kernels: tuple[Kernel, Kernel], tmp_path: Path) -> None:
    end = tmp_path / "end"
    owner, scientist = kernels
    owner.run("import numpy as np; _ = duet.share(np.arange(5), 'x')")
    scientist.run("asked = duet.wait_object('x', 20).request('to add them up')")
    number = owner.begin(SPINS.format(str(end)))
    detail, _ = owner.click("request_detail", number=0)
    assert detail["result"]["preview"] == "array([0, 1, 2, 3, 4])"
    ack, _ = owner.click("approve", number=0, revision=1)
    assert ack["ok"]
    assert scientist.run("print(asked.result(20).sum())").strip() == "10"
    assert not owner.ended(number)
    end.touch()
    owner.wait_ended(number)


def test_launch_shows_the_panel_and_leaves_no_code_in_the_output() -> None:
    kernel = Kernel()
    try:
        outputs = []
        kernel.client.execute_interactive(
            "import duetlink; duet = duetlink.launch(); duet",
            output_hook=lambda message: outputs.append((message["header"]["msg_type"], message["content"])),
            timeout=60,
        )
        shown = [content["data"] for kind, content in outputs if kind == "display_data"]
        # by launch, and as the last line: a panel, and a table for where panels are not shown
        assert [sorted(data) for data in shown] == [
            ["application/vnd.jupyter.widget-view+json", "text/plain"],
            ["text/html", "text/plain"],
        ] * 2
        panels, tables = shown[::2], shown[1::2]
        assert panels[0] == panels[1]
        assert all("waiting" in table["text/plain"] for table in tables)
        code = kernel.run("print(duet.code)").strip()
        assert code.count("-") == 2
        assert not any(code in str(content) for kind, content in outputs)
    finally:
        kernel.close()


def run_as_cell(kernel: Kernel, code: str, cell_id: str | None) -> str:
    """Run `code` as a front end does that gives its cells an id, or gives none; returns what it printed."""
    client = kernel.client
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    metadata = {} if cell_id is None else {"cellId": cell_id}
    message = client.session.msg("execute_request", content, metadata=metadata)
    client.shell_channel.send(message)
    printed = []
    while True:
        heard = client.get_iopub_msg(timeout=60)
        if heard["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        assert heard["header"]["msg_type"] != "error", heard["content"]
        if heard["header"]["msg_type"] == "stream":
            printed.append(heard["content"]["text"])
        if heard["header"]["msg_type"] == "status" and heard["content"]["execution_state"] == "idle":
            return "".join(printed)


@pytest.mark.parametrize("ids", [("cell 1", "cell 2"), (None, None)], ids=["ids", "texts"])
def test_running_the_cell_again_replaces_the_duet_that_it_made(ids: tuple[str | None, str | None]) -> None:
    kernel = Kernel()
    shown = "print([duet.state for duet in duetlink.duets], old.state)"
    try:
        run_as_cell(kernel, "import duetlink", "import")
        run_as_cell(kernel, "duet = duetlink.launch()", ids[0])
        run_as_cell(kernel, "old = duet", "old")
        run_as_cell(kernel, "duet = duetlink.launch()", ids[0])
        states = run_as_cell(kernel, shown, "states")
        assert states.startswith("['waiting'] closed: ")
        assert "the cell that made this duet was run again" in states
        said = run_as_cell(kernel, "other = duetlink.launch(); old = duet", ids[1])
        assert "1 other duet is open; see duetlink.duets" in said
        run_as_cell(kernel, "duet = duetlink.launch(keep=True)", ids[0])
        states = run_as_cell(kernel, shown, "states")
        assert states.startswith("['waiting', 'waiting', 'waiting'] waiting")
        run_as_cell(kernel, "duetlink.duets.close()", "close")
        assert run_as_cell(kernel, "print(len(duetlink.duets))", "count").strip() == "0"
    finally:
        kernel.close()
