"""What a person meets in a real IPython kernel: completions, short tracebacks, a line while `get` waits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.widgets.kernel import WAIT_S, Kernel

_BEGIN = """
import os, signal, threading
import pandas as pd
import duetlink
from duetlink.base.drawing import screen, waiting

screen.DELAY_S = 0.2
owner = duetlink.launch(name="clinic")
duet = duetlink.join(owner.code, name="lab")
frame = pd.DataFrame({"town": ["Bonn", "Jena"], "income": [1.0, 2.0]})
owner.share(frame, "people", mock="auto")
people = duet.wait_object("people", 20)
show = waiting.WaitingLine.show

def show_and_press_stop(line):
    was_shown = line._is_shown
    show(line)
    if line._is_shown and not was_shown:  # a moment later, when the call waits again
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


@dataclass
class Ran:
    """What a cell showed."""

    traceback: list[str] = field(default_factory=list)
    displayed: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)


class Session:
    """A kernel in which an owner and a scientist are linked."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        kernel.run(_BEGIN)

    def run(self, code: str) -> Ran:
        ran = Ran()

        def hook(message: dict[str, Any]) -> None:
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "error":
                text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"]))
                ran.traceback = text.split("\n")
            elif kind in ("display_data", "update_display_data"):
                shown = ran.displayed if kind == "display_data" else ran.updated
                shown.append(content["data"]["text/plain"])

        self._kernel.client.execute_interactive(code, timeout=WAIT_S, output_hook=hook)
        return ran

    def interrupt(self, code: str) -> Ran:
        """Run what waits until it has said so, and then press the stop button."""
        self.run("waiting.WaitingLine.show = show_and_press_stop")
        ran = self.run(code)
        self.run("waiting.WaitingLine.show = show")
        return ran

    def complete(self, code: str) -> list[str]:
        """What TAB at the end of `code` offers."""
        reply = self._kernel.client.complete(code, len(code), reply=True, timeout=WAIT_S)
        return [match.rpartition(".")[2] for match in reply["content"]["matches"]]

    def keys(self, code: str) -> list[str]:
        """What TAB offers between brackets."""
        return [match.strip("[]'") for match in self.complete(code)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    directory: Path = tmp_path_factory.mktemp("ipython")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(directory / "runtime"))
        patch.setenv("IPYTHONDIR", str(directory / "ipython"))
        patch.setenv("DUETLINK_AUDIT_PATH", "")
        kernel = Kernel()
        try:
            yield Session(kernel)
        finally:
            kernel.close()


@pytest.mark.parametrize("pointer", ["people", 'duet.store["people"]', 'duet.wait_object("people")'])
def test_completion_offers_what_a_pointer_can_do(session: Session, pointer: str) -> None:
    assert {"get", "request", "description"} <= set(session.complete(f"{pointer}."))


def test_completion_offers_the_names_of_the_mock(session: Session) -> None:
    assert {"groupby", "income", "town", "mean"} <= set(session.complete("people."))
    assert {"groupby", "income"} <= set(session.complete('total = duet.store["people"].'))
    for column in ("people.income", "people['income']", 'duet.store["people"].income'):
        assert "median" in session.complete(f"{column}.med")
    assert "contains" in session.complete("people.town.str.con")
    assert "income" in session.keys("people['")
    assert "people" in session.keys("duet.store['")
    assert "income" in session.keys('duet.store["people"]["in')


def test_the_traceback_of_an_expected_error_is_short(session: Session) -> None:
    denied = session.run(
        "threading.Thread(target=lambda: owner.wait_request(20).deny('what for?')).start()\n"
        "people.get(reason='curious')"
    )
    assert len(denied.traceback) <= 10, denied.traceback
    assert denied.traceback[-1] == "RequestDenied: the owner denied 'people': what for?"
    assert any("----> 2 people.get(reason='curious')" in line for line in denied.traceback)
    mistyped = session.run("duetlink.join('7-cherokex-clockwork')")
    assert len(mistyped.traceback) <= 10, mistyped.traceback
    assert "did you mean 'cherokee'?" in mistyped.traceback[-1]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "people.to_csv('x')",
            r"UnknownAttribute: 'to_csv' of a DataFrame is in no list.*\.get\(reason=…\)\.to_csv",
        ),
        (
            "people.groupbuy",
            "UnknownAttribute: 'groupbuy' of a DataFrame does not exist; did you mean 'groupby'",
        ),
        ("duet.shar", "UnknownAttribute: a Duet has no attribute 'shar'; did you mean 'share'"),
        ("duetlink.lunch()", "UnknownAttribute: duetlink has no attribute 'lunch'; did you mean 'launch'"),
        ("duet.compression.rate_cap_bytes_per_s = '40MB'", "SettingError: "),
        ("duetlink.Settings(listen='eth0')", "SettingError: listen 'eth0'"),
    ],
)
def test_the_traceback_of_a_wrong_name_or_setting_is_the_line_and_the_message(
    session: Session, code: str, message: str
) -> None:
    failed = session.run(code)
    assert len(failed.traceback) <= 7, failed.traceback
    assert re.match(message, failed.traceback[-1]), failed.traceback
    assert any(f"----> 1 {code}" in line for line in failed.traceback)
    assert "<string>" not in "\n".join(failed.traceback)


def test_a_traceback_keeps_the_users_own_functions(session: Session) -> None:
    session.run("def ask():\n    return bool(people.income.sum() > 3)\n")
    asked = session.run("def study():\n    return ask()\n\nstudy()")
    text = "\n".join(asked.traceback)
    for line in ("study()", "return ask()", "return bool(people.income.sum() > 3)"):
        assert line in text
    assert "duetlink/" not in text
    assert "PrivateValue: bool of result" in asked.traceback[-1]
    assert len(asked.traceback) <= 12, asked.traceback  # of three frames


def test_all_frames_are_there_when_they_are_asked_for(session: Session) -> None:
    session.run("%xmode Verbose")
    asked = session.run("bool(people.income.sum() > 3)")
    session.run("%xmode Context")
    assert "duetlink/duet/asking/pointers/remote.py" in "\n".join(asked.traceback)


def test_an_interrupted_get_says_what_it_waited_for_and_ends_in_few_lines(session: Session) -> None:
    interrupted = session.interrupt("people.get(reason='curious')")
    assert interrupted.displayed == ["asked clinic for 'people' … (interrupt to withdraw the request)"]
    (updated,) = interrupted.updated
    assert re.fullmatch(r"asked clinic for 'people': interrupted after \d+ s", updated)
    assert len(interrupted.traceback) <= 10, interrupted.traceback
    assert interrupted.traceback[-1].startswith("KeyboardInterrupt")
    waited = session.interrupt("owner.wait_request()")
    assert waited.displayed == ["waiting for a request of lab … (interrupt to stop waiting)"]
    assert len(waited.traceback) <= 10, waited.traceback
