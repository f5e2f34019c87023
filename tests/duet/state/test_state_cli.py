"""`duetlink state`: what a person sees of what is kept, and how it is deleted."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duetlink import Policy
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.kept_asset import KeptAsset
from duetlink.duet.state import records
from duetlink.duet.state.asset_record import asset_to_json
from duetlink.duet.state.directory import StateDirectory
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.policy_record import policy_to_json, usage_to_json
from duetlink.duet.state.request_record import request_to_json
from duetlink.tools.cli import main


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return tmp_path / "states"


def run(states: Path, *arguments: str, answer: str = "") -> Result:
    environment = {"COLUMNS": "200", "DUETLINK_STATE_PATH": str(states)}
    return CliRunner().invoke(main, ("state", *arguments), env=environment, input=answer)


@pytest.fixture
def clinic(states: Path) -> StateDirectory:
    """One asset, one policy, two requests, one grant."""
    place = StateDirectory(states, "clinic")
    place.hold()
    file = StateFile.create(place.file)
    info = AssetInfo("ages", 3, "numpy.ndarray", "int64 (9,)", 72, "of all", ("raw",), mock="synthetic")
    gone = KeptAsset(AssetInfo("gone", 1, "", "", 0), "", shared=False)
    noon = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
    policy = {"policy": policy_to_json(Policy("approve", name="losses", tags="loss", count=9))}
    found: dict[records.Key, object] = {
        records.key("asset", "ages"): asset_to_json(KeptAsset(info, "c0ffee" * 4, shared=True)),
        records.key("asset", "gone"): asset_to_json(gone),
        records.key("policy", "losses"): policy | {"usage": usage_to_json(Usage(2, 20, 4))},
        records.key("order"): ["losses"],
        records.key("grant", "Sven", "ages", 3): 1,
    }
    for number, state in enumerate(("pending", "approved")):
        request = Incoming(number, info, None, "Sven", "to \x1b[2J plot", noon, None, (), state)
        found[records.key("request", number)] = request_to_json(request)
    file.write({key: records.dump(record) for key, record in found.items()}, sync=True)
    file.close()
    place.release()
    return place


def test_nothing_kept_says_how_something_would_be(states: Path) -> None:
    result = run(states, "list")
    assert result.exit_code == 0
    assert f"Kept in {states}" in result.output
    assert "launch(resume=" in result.output


def test_list_shows_each_name_in_numbers(states: Path, clinic: StateDirectory) -> None:
    line = next(line for line in run(states, "list").output.splitlines() if line.startswith("clinic"))
    assert line.split()[-6:] == ["1", "1", "1", "pending", "of", "2"]
    clinic.hold()
    assert f"this process, {os.getpid()}" in run(states, "list").output
    clinic.release()


def test_list_goes_on_behind_a_damaged_one(states: Path, clinic: StateDirectory) -> None:
    (states / "broken").mkdir()
    (states / "broken" / "state.sqlite").write_bytes(b"")
    (states / "empty").mkdir()
    lines = run(states, "list").output.splitlines()
    names = [line.split()[0] for line in lines if line.startswith(("broken", "clinic", "empty"))]
    assert names == ["broken", "clinic"]
    assert "damaged" in next(line for line in lines if line.startswith("broken"))


def test_show_has_all_of_it_with_foreign_words_made_harmless(states: Path, clinic: StateDirectory) -> None:
    clinic.hold()  # also while a kernel uses it
    result = run(states, "show", "clinic")
    clinic.release()
    assert result.exit_code == 0
    for shown in ("ages", "int64 (9,)", "synthetic", "c0ffee", "losses", "2 times, 4 elements", "Sven"):
        assert shown in result.output
    assert "to \\x1b[2J plot" in result.output
    assert "\x1b" not in result.output
    assert "gone" not in result.output


def test_show_of_what_is_not_there(states: Path, clinic: StateDirectory) -> None:
    result = run(states, "show", "study")
    assert result.exit_code == 1
    assert "error: nothing is kept under the name 'study'" in result.stderr
    assert "error: '../clinic' cannot be the name" in run(states, "show", "../clinic").stderr


def test_show_of_a_damaged_one_says_what_to_do(states: Path, clinic: StateDirectory) -> None:
    clinic.file.write_bytes(clinic.file.read_bytes()[:5000])
    result = run(states, "show", "clinic")
    assert result.exit_code == 1
    assert "damaged" in result.stderr
    assert "duetlink state forget clinic" in result.stderr


def test_forget_asks_and_deletes(states: Path, clinic: StateDirectory) -> None:
    clinic.ledger.write_text(json.dumps({"spent": 1}))
    result = run(states, "forget", "clinic", answer="n\n")
    assert result.exit_code == 1
    assert "privacy spent" in result.output
    assert clinic.exists()
    assert run(states, "forget", "clinic", answer="y\n").exit_code == 0
    assert list(states.iterdir()) == []
    result = run(states, "forget", "clinic", "--yes")
    assert result.exit_code == 1
    assert "nothing is kept" in result.stderr


def test_forget_deletes_a_damaged_one(states: Path, clinic: StateDirectory) -> None:
    clinic.file.unlink()
    clinic.ledger.write_text("")
    assert run(states, "forget", "clinic", "--yes").exit_code == 0
    assert list(states.iterdir()) == []


def test_forget_leaves_what_is_in_use(states: Path, clinic: StateDirectory) -> None:
    clinic.hold()
    result = run(states, "forget", "clinic", "--yes")
    clinic.release()
    assert result.exit_code == 1
    assert f"in use by this process, {os.getpid()}" in result.stderr
    assert clinic.exists()


def test_settings_show_where_it_is(states: Path) -> None:
    result = CliRunner().invoke(
        main, ["settings"], env={"COLUMNS": "400", "DUETLINK_STATE_PATH": "/kept/here"}
    )
    (row,) = (line for line in result.output.splitlines() if line.startswith("state_path"))
    assert row.split()[1] == "/kept/here"
    assert "DUETLINK_STATE_PATH" in result.output
