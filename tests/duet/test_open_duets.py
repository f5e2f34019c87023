"""A kernel knows its duets: what is open, what a cell that is run again replaces, and what is said of it."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import duetlink
from duetlink import errors
from duetlink.duet.announcement import show_disconnected
from duetlink.duet.cell import Run, current_run, run_of_request
from duetlink.duet.open_duets import OpenDuets
from tests.conftest import DuetPair


def request(number: str, source: str = "duet = launch()", cell_id: str | None = None) -> dict[str, Any]:
    return {
        "header": {"msg_type": "execute_request", "msg_id": number},
        "metadata": {} if cell_id is None else {"cellId": cell_id},
        "content": {"code": source},
    }


class Fake:
    """A duet that only remembers why it was closed."""

    def __init__(self, among: OpenDuets[Any], run: Run | None) -> None:
        self.role, self.state = "owner", "waiting"
        self.peer: str | None = None
        self.reasons: list[str] = []
        self._among = among
        among.add(self, run)

    def close(self, reason: str = "") -> None:
        self.reasons.append(reason)
        self.state = "closed: by this side"
        self._among.discard(self)


# -- which cell ----------------------------------------------------------------------------------------------


def test_a_cell_is_known_by_the_id_that_the_front_end_gives_whatever_its_text() -> None:
    first = run_of_request(request("1", "duet = launch()", "c1"))
    again = run_of_request(request("2", "duet = launch(name='Olga')", "c1"))
    other = run_of_request(request("3", "duet = launch()", "c2"))
    assert first is not None
    assert again is not None
    assert other is not None
    assert again.repeats(first)
    assert not other.repeats(first)
    assert not first.repeats(first)  # two duets of one run


def test_without_an_id_a_cell_is_known_by_its_text() -> None:
    first, again, other = (
        run_of_request(request(number, source))
        for number, source in (("1", "duet = launch()"), ("2", "duet = launch()"), ("3", "launch()"))
    )
    assert first is not None
    assert again is not None
    assert other is not None
    assert again.repeats(first)
    assert not other.repeats(first)


@pytest.mark.parametrize(
    "message",
    [{}, {"header": {"msg_type": "comm_msg", "msg_id": "1"}}, {"header": {"msg_type": "execute_request"}}],
)
def test_what_runs_no_cell_has_none(message: dict[str, Any]) -> None:
    assert run_of_request(message) is None


def shell(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(**attributes))
    )


def test_in_a_terminal_the_text_that_ipython_keeps_is_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for count in (1, 2):
        shell(monkeypatch, execution_count=count, user_ns={"In": ["", "launch()", "launch()"][: count + 1]})
        runs.append(current_run())
    assert runs[0] is not None
    assert runs[1] is not None
    assert runs[1].repeats(runs[0])
    shell(monkeypatch, execution_count=3, user_ns={"In": ["", "launch()", "launch()"]})  # not kept
    assert current_run() is None


def test_outside_ipython_there_is_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert current_run() is None


# -- what is replaced ----------------------------------------------------------------------------------------


def test_another_run_of_a_cell_replaces_what_the_earlier_ones_made() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    first, twin = Fake(duets, Run("c1", "1")), Fake(duets, Run("c1", "1"))
    other, script = Fake(duets, Run("c2", "2")), Fake(duets, None)
    duets.replace(Run("c1", "3"))
    assert first.reasons == twin.reasons == ["the cell that made this duet was run again"]
    assert list(duets) == [other, script]


def test_only_peers_that_were_connected_are_named_as_disconnected() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    ada, left, waiting = (Fake(duets, Run("c1", "1")) for _ in range(3))
    ada.peer, ada.state = "Ada", "reconnecting: the peer has been silent for 12 s"
    left.peer, left.state = "Bob", "closed: the peer closed the link"
    assert waiting.peer is None
    assert duets.replace(Run("c1", "2")) == ["Ada"]
    assert duets.replace(Run("c1", "3")) == []


def test_a_peers_name_is_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    show_disconnected(["Ada\x1b[2J", "Bob"], "join")
    assert capsys.readouterr().out == (
        "Ada\\x1b[2J and Bob were disconnected, because this cell was run again. "
        "join(…, keep=True) opens a second duet next to the first and disconnects no one.\n"
    )


def test_the_same_run_and_what_is_no_cell_replace_nothing() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    made = [Fake(duets, Run("c1", "1")), Fake(duets, None)]
    duets.replace(Run("c1", "1"))
    duets.replace(None)
    assert list(duets) == made


def test_what_one_cell_makes_in_one_run_is_not_made_elsewhere() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    one, two = Fake(duets, Run("c1", "1")), Fake(duets, Run("c1", "1"))
    elsewhere, script = Fake(duets, Run("c2", "2")), Fake(duets, None)
    assert duets.others(two) == [elsewhere, script]
    assert duets.others(script) == [one, two, elsewhere]


def test_a_duet_that_has_ended_by_itself_is_not_listed_and_is_closed_with_the_others() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    ended, open_ = Fake(duets, None), Fake(duets, None)
    ended.state = "closed: the peer closed the link"
    assert list(duets) == [open_]
    duets.close("enough")
    assert ended.reasons == open_.reasons == ["enough"]


def test_closing_them_one_after_the_other_meets_them_all() -> None:
    duets: OpenDuets[Fake] = OpenDuets()
    made = [Fake(duets, None) for _ in range(3)]
    for duet in duets:
        duet.close()
    assert [duet.reasons for duet in made] == [[""], [""], [""]]


# -- as people meet it ---------------------------------------------------------------------------------------


def closes(duet: duetlink.Duet) -> str:
    while not duet.state.startswith("closed"):
        threading.Event().wait(0.01)
    return duet.state


def test_the_open_duets_are_listed_as_a_table_and_closed(duets: DuetPair) -> None:
    owner, scientist = duets
    assert list(duetlink.duets) == [owner, scientist]
    text, page = repr(duetlink.duets), duetlink.duets._repr_html_()
    for word in ("owner", "scientist", "Olga", "Sven", "connected"):
        assert word in text
        assert word in page
    assert str(owner.code) not in text + page
    duetlink.duets[0].close("that was all")
    assert "that was all" in closes(scientist)
    assert list(duetlink.duets) == []
    duetlink.duets.close()
    assert repr(duetlink.duets) == "duets of this kernel: none is open; see duetlink.launch and duetlink.join"


def test_a_launch_says_what_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    with duetlink.launch():
        assert "open" not in capsys.readouterr().out
        with duetlink.launch():
            assert "1 other duet is open; see duetlink.duets" in capsys.readouterr().out
            with duetlink.launch():
                assert "2 other duets are open; see duetlink.duets" in capsys.readouterr().out


def run_cell(monkeypatch: pytest.MonkeyPatch, cell_id: str, number: str) -> None:
    monkeypatch.setattr("duetlink.session.current_run", lambda: Run(cell_id, number))


def test_a_launch_cell_run_again_replaces_its_duet_and_the_both_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cell(monkeypatch, "c1", "1")
    old = duetlink.launch(resume="clinic")
    run_cell(monkeypatch, "c2", "2")
    scientist = duetlink.join(str(old.code), name="Ada")
    assert scientist.peer == "clinic"  # no other name was given
    run_cell(monkeypatch, "c1", "3")
    capsys.readouterr()
    new = duetlink.launch(resume="clinic")  # what it keeps is free again
    assert (
        "Ada was disconnected, because this cell was run again. "
        "launch(…, keep=True) opens a second duet next to the first and disconnects no one."
    ) in capsys.readouterr().out
    assert "the cell that made this duet was run again" in closes(scientist)
    assert "the cell that made this duet was run again" in old.state
    assert list(duetlink.duets) == [new]
    run_cell(monkeypatch, "c1", "4")
    kept = duetlink.launch(keep=True)
    assert "disconnected" not in capsys.readouterr().out
    assert list(duetlink.duets) == [new, kept]
    duetlink.duets.close()
    scientist.close()


def test_a_join_cell_run_again_with_a_used_code_keeps_the_duet_that_it_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = duetlink.launch()
    run_cell(monkeypatch, "c1", "1")
    joined = duetlink.join(str(owner.code))
    run_cell(monkeypatch, "c1", "2")
    with pytest.raises((errors.CodeUsed, errors.UnknownCode)):
        duetlink.join(str(owner.code))
    assert joined.state == "connected"
    run_cell(monkeypatch, "c3", "3")
    another = duetlink.launch()
    run_cell(monkeypatch, "c1", "4")
    replaced_by = duetlink.join(str(another.code))
    assert "the cell that made this duet was run again" in joined.state
    assert "the cell that made this duet was run again" in closes(owner)
    assert replaced_by.state == "connected"
    duetlink.duets.close()
