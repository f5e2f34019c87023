"""What a person sees of a value before it leaves: always something, on lines of its own, in bounded time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink.duet.objects.asset import Content
from duetlink.duet.objects.preview import preview_of, preview_text


class Panic(BaseException):
    """As of a library in Rust."""


class Raising:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __repr__(self) -> str:
        raise self._error


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (-17, "-17"),
        (2**64, "18446744073709551616"),
        (1 << 20_000, "0x1" + "0" * 400),
        ([-(1 << 20_000)], "[-0x1" + "0" * 400),
        (Raising(ValueError("no")), "not shown: its repr raises ValueError"),
        ({"a": [Raising(Panic("no"))]}, "not shown: its repr raises Panic"),
    ],
    ids=range(6),
)
def test_it_never_raises(obj: Any, shown: str) -> None:
    assert preview_text(obj).startswith(shown)


def test_a_long_integer_says_its_bits() -> None:
    assert preview_text(1 << 20_000).endswith("… (20,001 bits)")


def test_an_interrupt_is_no_text() -> None:
    with pytest.raises(KeyboardInterrupt):
        preview_text(Raising(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("\x1b]52;c;cm0gLXJmIH4=\x07", r"\x1b]52;c;cm0gLXJmIH4=\x07"),
        ("a\u202egpj", r"a\u202egpj"),
        ("a\rb\x08", r"a\rb\x08"),
        ("\u2066x", r"\u2066x"),
    ],
)
def test_labels_of_the_peer_s_command_no_terminal_and_move_nothing(label: str, shown: str) -> None:
    text = preview_of(Content.of(pd.DataFrame({label: [41]})))
    assert shown in text
    assert all(character == "\n" or character.isprintable() for character in text)


def test_lines_stay_lines() -> None:
    assert preview_text(np.array([[1, 2], [3, 4]])) == "array([[1, 2],\n       [3, 4]])"
