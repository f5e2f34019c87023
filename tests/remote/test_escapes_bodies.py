"""Encoded values and messages whose only purpose is to end, or to occupy, the process that reads them.

`tests/fuzz` makes more of them, and tries them in processes that may die.
"""

from __future__ import annotations

import pytest

from duetlink.data import values
from duetlink.errors import MalformedValue
from tests.fuzz.make_corpus import made
from tests.remote.attempts import LIMITED, REFUSED, each, elsewhere

CATEGORY = "bodies made to end or occupy whoever reads them"
BODIES = {
    name.partition("/")[2].replace("-", " "): body
    for name, body in made().items()
    if name.startswith(("values/", "arrow/"))
}


@each(CATEGORY, REFUSED, BODIES)
def test_a_hostile_body_is_refused_before_anything_is_read_of_it(name: str) -> None:
    with pytest.raises(MalformedValue):
        values.decode(bytearray(BODIES[name]))


DECODING = "tests/duet/test_decoding.py"
FRAGMENTS = "tests/base/wire/test_fragments.py"
for outcome, test, names in (
    (REFUSED, f"{DECODING}::test_no_gift_ends_the_owner_s_process", ("all of them, given over a link",)),
    (
        LIMITED,
        f"{DECODING}::test_a_body_that_ends_or_occupies_the_process_does_no_more",
        ("a crash that no check knows of", "a body that is read for ever"),
    ),
    (
        REFUSED,
        f"{FRAGMENTS}::test_a_fragment_that_announces_more_must_bring_something",
        ("fragments of messages that bring nothing",),
    ),
    (
        REFUSED,
        f"{FRAGMENTS}::test_a_message_comes_in_so_many_fragments_at_most",
        ("a message in millions of fragments",),
    ),
):
    elsewhere(CATEGORY, outcome, test, *names)
