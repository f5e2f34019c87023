from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.errors import MalformedCode
from duetlink.net.signaling.code import MAX_NAMEPLATE, SessionCode
from duetlink.net.signaling.wordlist import EVEN, ODD

CODE = SessionCode(7, ("crossover", "clockwork"))


@pytest.mark.parametrize(
    "text",
    [
        "7-crossover-clockwork",
        "  7-Crossover-CLOCKWORK \n",
        "7 crossover clockwork",
        "7 - crossover - clockwork",
        "7\u2013crossover\u2014clockwork",
        "07-crossover-clockwork",
        "7_crossover_clockwork-",
    ],
)
def test_a_code_is_read_as_people_type_it(text: str) -> None:
    assert SessionCode.parse(text) == CODE


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("192.0.2.2:4000", "ws://192.0.2.2:4000"),
        ("lab.example.org:80", "ws://lab.example.org:80"),
        ("[2001:db8::1]:4000", "ws://[2001:db8::1]:4000"),
        ("wss://host.example/Some/Path", "wss://host.example/Some/Path"),
        ("ws://[::1]:9", "ws://[::1]:9"),
    ],
)
def test_a_code_carries_its_server(server: str, url: str) -> None:
    code = SessionCode.parse(f" 7 Crossover clockwork @ {server} ")
    assert (code.server, code.url) == (server, url)
    assert str(code) == f"7-crossover-clockwork@{server}"
    assert SessionCode.parse(str(code)) == code


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("crossover-clockwork", "starts with a number"),
        ("\u0667-crossover-clockwork", "starts with a number"),
        ("0-crossover-clockwork", "1 to 999999"),
        ("1234567-crossover-clockwork", "starts with a number"),
        ("7", "2 words, this has 0"),
        ("7-crossover", "2 words, this has 1"),
        ("7-crossover-clockwork-tiger", "2 words, this has 3"),
        ("7-crosover-clockwork", "did you mean 'crossover'"),
        ("7-crossover-clockwrok", "did you mean 'clockwork'"),
        ("7-crossover-qqqqqq", "looks like 7-crossover-clockwork"),
        ("7-clockwork-crossover", "wrong order"),
        ("7-crossover-clockwork@", "host:port"),
        ("7-crossover-clockwork@host", "host:port"),
        ("7-crossover-clockwork@host:0", "1 to 65535"),
        ("7-crossover-clockwork@host:65536", "1 to 65535"),
        ("7-crossover-clockwork@[1::2::3]:1", "IPv6"),
        ("7-crossover-clockwork@::1:80", "brackets"),
        ("7-crossover-clockwork@http://host", "ws://host"),
        ("7-crossover-clockwork@wss://", "ws://host"),
        ("7-crossover-clockwork@wss://user:pw@host", "no user"),
        ("7-crossover-clockwork@wss://host/?q", "no user"),
        ("7-crossover-clockwork@ws://ho st", "not allowed in an address"),
        ("7-crossover-clockwork@ws://host:99999", "not a URL"),
        ("x" * 2000, "2000 characters"),
    ],
)
def test_what_is_no_code_is_refused_with_a_hint(text: str, says: str) -> None:
    with pytest.raises(MalformedCode, match=says):
        SessionCode.parse(text)


def test_the_words_are_not_in_the_repr() -> None:
    assert repr(CODE) == "<SessionCode 7-…>"
    assert repr([CODE]) == "[<SessionCode 7-…>]"


def test_generated_codes_differ_and_follow_the_lists() -> None:
    codes = [SessionCode.generate(3) for _ in range(200)]
    assert len(set(codes)) > 150  # 65,536 possibilities
    assert all(code.words[0] in ODD and code.words[1] in EVEN for code in codes)


@given(st.integers(1, MAX_NAMEPLATE), st.sampled_from(ODD), st.sampled_from(EVEN))
def test_every_code_survives_being_written_and_read(nameplate: int, first: str, second: str) -> None:
    code = SessionCode(nameplate, (first, second))
    assert SessionCode.parse(str(code)) == code
    assert SessionCode.parse(str(code).upper().replace("-", "  ")) == code


@given(
    st.one_of(st.text(), st.text().map("7-crossover-clockwork@".__add__), st.from_regex(r"\d+-\w+-\w+@.*"))
)
def test_no_text_raises_anything_but_malformed_code(text: str) -> None:
    try:
        code = SessionCode.parse(text)
    except MalformedCode as error:
        assert len(str(error)) < 600  # noqa: PT017  not every text is malformed
    else:
        assert SessionCode.parse(str(code)) == code
