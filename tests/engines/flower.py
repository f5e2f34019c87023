"""Flower: a SuperLink at one side, a SuperNode at each of two peers, one federated round."""

from __future__ import annotations

import contextlib
from pathlib import Path

import duetlink
from tests.engines.programs import Programs, wait_listening
from tests.free_port import free_port

APP = Path(__file__).parent / "flower_app"


def run(programs: Programs) -> str:
    port = free_port()
    (programs.directory / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    programs.start("flower-superlink", "--insecure", "--port", str(port))
    wait_listening(port)
    with contextlib.ExitStack() as stack:
        shared, opened = [], []
        for number in (1, 2):
            coordinator = stack.enter_context(duetlink.launch(name="coordinator"))
            site = stack.enter_context(duetlink.join(str(coordinator.code), name=f"site {number}"))
            shared.append(coordinator.share_port(port, "superlink"))
            opened.append(site.open_port("superlink"))
            programs.start(
                "flower-supernode",
                "--insecure",
                "--superlink",
                opened[-1].address,
                "--port",
                str(free_port()),
                "--node-config",
                f"number={number}",
            )
        said = programs.run("flwr", "run", str(APP), "here", "--stream")
        # each site adds its own number, 1 and 2, to zeros; one round averages them
        assert "RESULT 1.5 1.5" in said, said
        assert all(end.total_connections > 0 and end.refused_connections == 0 for end in [*shared, *opened])
        moved = [(end.sent_bytes, end.received_bytes) for end in shared]
        assert all(sent > 8000 and received > 8000 for sent, received in moved)  # the model, both ways
        return f"one round of FedAvg with two sites; sent and received {moved}"
