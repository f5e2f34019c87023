"""An alarm for our words: how docstrings open, names that were retired, class names that stand twice.

It understands nothing. A docstring that passes may still be a bad one; one that does not is read again.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import duetlink

from .test_floors import ROOT, parsed
from .test_public_api import DEEP

PACKAGES = ("duetlink", "gossip/duetlink_gossip", "widgets/duetlink_widgets")
MOST_DIALECT = 0.03  # of all docstrings: some such openings are right, as "At most 64 of them"

# A clause or a fragment where a sentence or a plain noun should begin.
OPENS_AS_CLAUSE = re.compile(
    r"(What|Who|Whose|Whom|How|Which|Whether|Where|When|Why|Whoever|Whatever"
    r"|Of|As|That|Those|It|But|And|Or|None|In|At|By|For|From|To|With|Until|Once|Again|So|If|There|Not|Also"
    r"|Only|Then|Both|Beside|Within)\b"
)
DIALECT = re.compile(
    r"\b(whoever|nobody|so many|anew|who waits|somebody|whom|spoilt|beside)\b", re.IGNORECASE
)

# Private nouns, and what the field calls them.
RETIRED = {
    "Landing": "ReceiveBuffer",
    "Ladder": "PathSelector",
    "Course": "CodecController",
    "Outlook": "PathEstimate",
    "Subject": "DataProfile",
    "Lifeline": "Reconnector",
    "Workbench": "RemoteSession",
    "Workplace": "RemoteSession",
    "Desk": "CommandHandler",
    "CarrierDesk": "CarrierCommands",
    "Standing": "MemberState",
    "Party": "Participants",
    "Letter": "ReceivedOffer",
    "Manner": "CollectiveOptions",
    "Parcel": "FlightBatch or FrameBatch",
    "Twin": "MockBuilder",
    "StatePlace": "StateDirectory",
    "Acquaintance": "PeerFacts",
    "Probation": "Trial",
    "Stretch": "RateMeter",
    "ladder": "path_selector",
    "lifeline": "reconnector",
    "workbench": "remote_session",
    "landing": "receive_buffer",
    "spoilt": "aborted",
}


@functools.cache
def sources() -> dict[Path, ast.Module]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT): parsed(path) for path in paths if not path.name.endswith("_pb2.py")}


def docstrings(tree: ast.Module) -> list[tuple[str, str]]:
    """Each docstring of a file, with the name of what it describes."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                found.append((getattr(node, "name", "the module"), text))
    return found


def is_dialect(docstring: str) -> bool:
    opening = docstring.partition("\n\n")[0]
    return OPENS_AS_CLAUSE.match(opening) is not None or DIALECT.search(opening) is not None


def defined(tree: ast.Module) -> set[str]:
    """Names that a file gives: to classes, functions, parameters, variables and attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return {name.lstrip("_") for name in names}


@pytest.mark.parametrize(
    "text", ["Whether it is open.", "Of one transfer.", "Wait for whoever comes.", "None for what is none."]
)
def test_the_alarm_finds_dialect(text: str) -> None:
    assert is_dialect(text)


@pytest.mark.parametrize(
    "text", ["Return the rank.", "Bytes per second.\n\nOf one path.", "Offers of a peer."]
)
def test_the_alarm_passes_plain_words(text: str) -> None:
    assert not is_dialect(text)


def test_docstrings_open_in_plain_words() -> None:
    texts = [(path, name, text) for path, tree in sources().items() for name, text in docstrings(tree)]
    found = [f"{path}, {name}: {text.splitlines()[0]}" for path, name, text in texts if is_dialect(text)]
    assert len(texts) > 1000
    assert len(found) <= MOST_DIALECT * len(texts), "\n".join(found)


def test_a_retired_name_is_found() -> None:
    tree = ast.parse("class Landing: ...\ndef f(ladder, *, rest):\n    self._workbench = 1\n")
    assert defined(tree) & RETIRED.keys() == {"Landing", "ladder", "workbench"}


def test_no_retired_name_comes_back() -> None:
    used = {
        f"{path}: {name} is {RETIRED[name]}"
        for path, tree in sources().items()
        for name in defined(tree) & RETIRED.keys()
    }
    assert used == set()


def test_a_class_name_stands_once_within_a_wing() -> None:
    names: Counter[tuple[str, str]] = Counter()
    for path, tree in sources().items():
        wing = "/".join(path.parts[:2])
        names.update((wing, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert sorted(name for name, number in names.items() if number > 1) == []


def test_a_class_name_stands_once_in_the_public_api() -> None:
    homes: dict[str, set[str]] = {}
    for module, names in {**DEEP, "duetlink": " ".join(duetlink.__all__)}.items():
        for name in names.split():
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type):
                homes.setdefault(name, set()).add(f"{found.__module__}.{found.__qualname__}")
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
