"""Everything public of the owner's side, read while the scientist calls all that it can name by commands to a
terminal: no text that comes out of it is one.
"""

from __future__ import annotations

import contextlib
import datetime
import html
import logging
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import duetlink
from duetlink import Policy
from duetlink.duet.duet import Duet
from duetlink.duet.objects import offering

# sets the clipboard, erases, goes up, reorders, hides
HOSTILE = "a\x1b]52;c;cm0=\x07\x1b[2K\x1b[1A\u202eb\u2028c\rd\x08e\x9b8mf"
PLAIN = (int, float, complex, bool, bytes, type(None), datetime.datetime, datetime.date, type)
# takes no argument, changes nothing, and returns something to read
CALLED = {"preview", "table", "to_pandas", "words", "statistics", "status", "history", "like_this", "row"}
# what addresses an object is as its owner gave it; a pointer's attributes are those of its columns
UNREAD = {"Pointer", "Thread"}


def test_no_text_of_the_owners_side_is_a_command_to_its_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offering, "check_description", lambda *described: None)
    caplog.set_level(logging.INFO, "duetlink")
    with duetlink.launch(name="Olga") as owner, duetlink.join(str(owner.code), name=HOSTILE) as scientist:
        owner.wait_connected(10)
        mock = pd.DataFrame({"age": [1.0, 2.0, 3.0], "hiv": [0.0, 1.0, 0.0]})
        owner.share(mock.head(2) + 40.0, "people", mock=mock)
        people: Any = scientist.wait_object("people", 10)
        hostile = people.rename(columns={"age": HOSTILE, "hiv": f"{HOSTILE}\n"})
        owner.policies.add(Policy("approve", name="all", assets="people", announce=True, log=True, count=1))
        hostile.get(reason=HOSTILE, timeout_s=60)
        owner.policies.clear()

        pending = [hostile.request(HOSTILE), people.request(HOSTILE), says(scientist)(people).submit(HOSTILE)]
        wait_pending(owner, 3)
        for request in owner.requests.pending:
            if request.lineage is not None:
                with_failure(request.run)
        scientist.share([1], HOSTILE, description=f"{HOSTILE}\n{HOSTILE}", tags=[HOSTILE])
        scientist.send({HOSTILE: HOSTILE}, f"gift {HOSTILE}", description=HOSTILE, tags=[HOSTILE])
        owner.wait_object(HOSTILE, 10)
        read = list(texts(owner, "duet", ()))
        for one in pending:
            one.withdraw()
        assert len(owner.requests) == 4
        scientist.close(HOSTILE)
        read += texts(owner, "closed duet", ())
    printed = capsys.readouterr()
    read += [("stdout", printed.out), ("stderr", printed.err), ("the log", caplog.text)]
    assert sum("\\x1b]52" in text for _, text in read) > 30  # it was read
    assert "mean" not in caplog.text
    commands = sorted({where for where, text in read if is_command(text)})
    assert commands == [], ascii(printed.out)


def says(duet: Duet) -> Any:
    @duet.remote
    def speaks(frame: Any) -> float:
        if len(frame) == 2:  # at the owner
            print("a\x1b]52;c;cm0=\x07\x1b[2K")
            raise ValueError("a\x1b]52;c;cm0=\x07\x1b[2K")
        return 1.0

    return speaks


def wait_pending(owner: Duet, count: int) -> None:
    while len(owner.requests.pending) < count:
        owner.wait_request(60)


def with_failure(run: Callable[[], None]) -> None:
    with contextlib.suppress(duetlink.errors.OperationFailed):
        run()


def texts(found: Any, where: str, seen: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    """Every text that is there to be read, with the way to it."""
    if isinstance(found, str):
        yield where, found
    elif (
        isinstance(found, PLAIN)
        or callable(found)
        or seen.count(type(found)) > 1
        or type(found).__name__ in UNREAD
    ):
        return
    elif isinstance(found, (np.ndarray, pd.DataFrame)):
        yield f"{where} as text", str(found.to_string() if isinstance(found, pd.DataFrame) else found)
    else:
        seen = (*seen, type(found))
        yield f"repr of {where}", read_by(lambda: repr(found))
        yield f"str of {where}", read_by(lambda: str(found))
        if isinstance(found, Mapping):
            for key, value in found.items():
                yield from texts(key, f"key of {where}", seen)
                yield from texts(value, f"{where}[…]", seen)
        elif isinstance(found, Sequence) or hasattr(type(found), "__iter__"):
            for item in found:
                yield from texts(item, f"{where}[…]", seen)
        if type(found).__module__.startswith("duetlink"):
            yield from members(found, where, seen)


def members(found: Any, where: str, seen: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    if hasattr(found, "_repr_html_"):
        yield f"HTML of {where}", html.unescape(read_by(found._repr_html_))
    for name in dir(type(found)):
        if name.startswith("_"):
            continue
        member = read_by(lambda: getattr(found, name))  # noqa: B023
        value = read_by(member) if callable(member) and name in CALLED else member
        yield from texts(value, f"{where}.{name}", seen)


def read_by(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except duetlink.DuetError as error:
        return str(error)


def is_command(text: str) -> bool:
    return any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") and letter != "\n" for letter in text)
