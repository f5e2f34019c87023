"""A bug report of a real duet: what happened is in it, and nothing that anybody has said or computed."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aioice.ice import get_host_addresses

import duetlink
from duetlink import Policy
from duetlink.base.events import Event
from duetlink.errors import OperationFailed, RequestDenied
from duetlink.settings import Settings

SECRET = "geheim"  # in every name, reason, source text and value of this test
NUMBER = 86753091.25


def test_a_bug_report_has_no_value_no_code_no_address_and_no_text_of_a_person(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "duetlink")
    settings = Settings(only=("tcp",), allow_pickle=False)
    with (
        duetlink.log_to(tmp_path / "report.jsonl") as log,
        duetlink.launch(name="geheim-olga", settings=settings) as owner,
        duetlink.join(str(owner.code), name="geheim-sven", settings=settings) as scientist,
    ):
        code, verifier = str(owner.code), str(owner.verifier)
        owner.share(
            np.full(200_000, NUMBER),
            "geheim-numbers",
            description="geheim words",
            tags=["geheim-tag"],
            mock=np.full(3, NUMBER),
        )
        pointer: Any = scientist.wait_object("geheim-numbers", 30)
        asked = pointer.request("a geheim reason")
        owner.wait_request(30).deny("a geheim answer")
        with pytest.raises(RequestDenied):
            asked.result(30)
        owner.policies.add(Policy("approve", name="geheim-policy", assets="geheim*"))
        assert pointer.get(reason="geheim")[0] == NUMBER

        @scientist.remote
        def geheim_function(numbers):  # type: ignore[no-untyped-def]
            class GeheimError(Exception):
                pass

            print("geheim output")
            if len(numbers) > 3:  # on the real data only
                raise GeheimError(f"geheim {numbers[0]}")

        owner.policies.clear()
        failing = geheim_function(pointer).submit("geheim")
        request = owner.wait_request(30)
        with pytest.raises(OperationFailed):
            request.run()
        request.fail("message")
        with pytest.raises(OperationFailed):
            failing.result(30)
        scientist.send({"geheim": "geheim"}, "geheim-gift")
        owner.wait_object("geheim-gift", 30)
        scientist.compression.set(lossless_only=True)
        owner.close("geheim reason to close")
    written = log.path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in written.splitlines()]
    seen = {line["event"] for line in lines}
    assert seen >= {
        "duet_state_changed", "ice_servers_chosen", "link_opened", "link_ended", "path_opened",
        "address_dialled", "transfer_began", "transfer_finished", "compression_changed",
        "policy_decided", "request_stepped", "room_started", "room_ended",
    }  # fmt: skip
    messages = "\n".join(record.getMessage() for record in caplog.records if hasattr(record, "event"))
    assert messages.count("\n") > 20
    words = [word for word in re.split(r"[^a-z]+", f"{code} {verifier}".lower()) if len(word) > 3]
    assert len(words) >= 4
    # two of the 512 words that codes are made of are also names of fields
    fields = {field for kind in Event.__subclasses__() for field in kind.__struct_fields__}
    words = [word for word in words if word not in fields]
    for text in (written.lower(), messages.lower()):
        assert SECRET not in text
        assert "8675309" not in text
        assert code.lower() not in text
        assert [word for word in words if re.search(rf"\b{word}\b", text)] == []
        addresses = [*get_host_addresses(use_ipv4=True, use_ipv6=True), "127.0.0.1", "::1"]
        assert [address for address in addresses if address in text] == []
