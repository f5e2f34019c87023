"""How `pytest -n` spreads the tests over its processes: file by file, the longest first.

Tests of one file share what the file has made: a lab with eighteen notebooks, a browser, three ranks of
torch. A process that gets a part of a file makes all of it again. Files whose tests share nothing and are
long are spread test by test, so that none of them is what everybody waits for at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

# in this order, ahead of all others: minutes each
LONG = (
    "tests/soak/",
    "tests/browser/",
    "tests/lab/test_networks.py",
    "tests/widgets/component/",
    "tests/groups/test_torch_backend.py",
    "tests/tools/demo/",
    "tests/lab/",
    "tests/remote/test_interference",
    "tests/fuzz/",
)
# their files share one browser
TOGETHER = ("tests/widgets/component/",)
# their tests share nothing
APART = ("tests/fuzz/", "tests/remote/test_interference", "tests/tools/demo/test_lessons.py")


def scope(nodeid: str) -> str:
    """What goes to one process as a whole: a folder, a file, or one test."""
    for folder in TOGETHER:
        if nodeid.startswith(folder):
            return folder
    return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Order the items: the long ones, then the files with tests that are marked slow, then the others."""
    slow = {scope(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> int:
        for number, beginning in enumerate(LONG):
            if item.nodeid.startswith(beginning):
                return number
        return len(LONG) + (scope(item.nodeid) not in slow)

    items.sort(key=rank)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out scopes in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by the number of tests, whatever they take

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)
