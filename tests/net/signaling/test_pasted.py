"""A code is taken out of whatever people paste around it."""

from __future__ import annotations

import pytest

from duetlink.net.signaling.pasted import code_in

CODE = "7-crossover-clockwork"
PLACE = f"{CODE}@192.0.2.2:45587"
BY_HAND = "duet1:eyJhIjogMX0="


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CODE, CODE),
        (f"  {CODE}\n", CODE),
        (f'"{CODE}"', CODE),
        (f"“{CODE}”", CODE),
        (f"`{CODE}`", CODE),
        (f'duetlink.join("{CODE}")', CODE),
        (f'duet = duetlink.join("{PLACE}")', PLACE),
        (f"duet = duetlink.join( '{PLACE}', name=\"lab\" )\n", PLACE),
        (f'>>> duet = duetlink.join("{CODE}")', CODE),
        (f'In [3]: duet = duetlink.join("{CODE}")', CODE),
        (f">>> {CODE}", CODE),
        (f"In [12]: {CODE}", CODE),
        (f"duetlink.join({CODE})", CODE),
        (f"duet = duetlink.join(“{CODE}”)", CODE),
        (f'duet = duetlink.join("{CODE}', CODE),
        (f'group = duetlink.group("{CODE}")', CODE),
        (f'duet.accept("{BY_HAND}")', BY_HAND),
        (BY_HAND, BY_HAND),
        ("7 Crossover Clockwork", "7 Crossover Clockwork"),
        ("", ""),
        ("join()", ""),
    ],
)
def test_the_code_is_found_in_what_is_pasted(text: str, code: str) -> None:
    assert code_in(text) == code


def test_a_text_that_is_far_too_long_is_left_to_who_refuses_it() -> None:
    text = "join(" * 20_000
    assert code_in(text) is text
