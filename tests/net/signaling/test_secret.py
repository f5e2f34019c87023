from __future__ import annotations

import contextlib
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import LocalProtocolError, RemoteProtocolError, WrongCode
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.secret import KeyAgreement, SessionKey

CODE = SessionCode(7, ("crossover", "clockwork"))


def agree(owners: SessionCode, scientists: SessionCode) -> tuple[SessionKey, SessionKey]:
    owner, scientist = KeyAgreement(owners, Role.OWNER), KeyAgreement(scientists, Role.SCIENTIST)
    return owner.finish(scientist.message), scientist.finish(owner.message)


def fixed_pair() -> tuple[SessionKey, SessionKey]:
    return SessionKey.from_secret(b"s" * 32, Role.OWNER), SessionKey.from_secret(b"s" * 32, Role.SCIENTIST)


def test_the_same_code_gives_the_same_key() -> None:
    owner, scientist = agree(CODE, SessionCode(7, CODE.words, server="192.0.2.2:1"))
    assert owner.verifier() == scientist.verifier()
    assert owner.derive("reconnect", 48) == scientist.derive("reconnect", 48)
    assert scientist.open(owner.seal(b"a")) == b"a"
    assert owner.open(scientist.seal(b"b")) == b"b"


def test_two_agreements_on_one_code_give_different_keys() -> None:
    assert agree(CODE, CODE)[0].derive("x", 32) != agree(CODE, CODE)[0].derive("x", 32)


@pytest.mark.parametrize("other", [SessionCode(7, ("crossover", "cobra")), SessionCode(8, CODE.words)])
def test_other_words_or_another_number_give_another_key(other: SessionCode) -> None:
    owner, scientist = agree(CODE, other)
    with pytest.raises(WrongCode, match="words do not match"):
        owner.open(scientist.seal(b"a"))
    with pytest.raises(WrongCode):
        scientist.open(owner.seal(b"a"))


def test_an_agreement_is_good_for_one_guess() -> None:
    owner = KeyAgreement(CODE, Role.OWNER)
    with pytest.raises(WrongCode):
        owner.finish(b"B" + bytes(32))
    with pytest.raises(LocalProtocolError, match="one guess"):
        owner.finish(KeyAgreement(CODE, Role.SCIENTIST).message)


def test_reflected_and_same_side_messages_are_refused() -> None:
    owner = KeyAgreement(CODE, Role.OWNER)
    with pytest.raises(WrongCode):
        owner.finish(owner.message)
    owner = KeyAgreement(CODE, Role.OWNER)
    with pytest.raises(WrongCode):
        owner.finish(b"B" + owner.message[1:])


@settings(max_examples=40, deadline=None)
@given(st.one_of(st.binary(max_size=40), st.binary(min_size=32, max_size=32).map(b"B".__add__)))
def test_any_key_exchange_message_gives_a_key_or_wrong_code(message: bytes) -> None:
    with contextlib.suppress(WrongCode):
        KeyAgreement(CODE, Role.OWNER).finish(message)


@pytest.mark.parametrize(
    "point", [bytes(32), b"\x01" + bytes(31), b"\xff" * 32, b"\xec" + b"\xff" * 30 + b"\x7f"]
)
def test_points_of_small_order_are_refused(point: bytes) -> None:
    with pytest.raises(WrongCode):
        KeyAgreement(CODE, Role.OWNER).finish(b"B" + point)


def test_replayed_reordered_and_dropped_messages_do_not_open() -> None:
    owner, scientist = fixed_pair()
    first, second, third = (owner.seal(text) for text in (b"1", b"2", b"3"))
    with pytest.raises(WrongCode):
        scientist.open(second)
    assert scientist.open(first) == b"1"
    for wrong in (first, third):
        with pytest.raises(RemoteProtocolError):
            scientist.open(wrong)
    assert scientist.open(second) == b"2"
    assert scientist.open(third) == b"3"


def test_a_reflected_message_does_not_open() -> None:
    owner, _ = fixed_pair()
    with pytest.raises(WrongCode):
        owner.open(owner.seal(b"x"))


@given(st.binary(max_size=300), st.data())
def test_a_changed_bit_does_not_open_and_the_true_message_still_does(
    text: bytes, data: st.DataObject
) -> None:
    owner, scientist = fixed_pair()
    sealed = owner.seal(text)
    assert len(sealed) == len(text) + 16
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    changed = bytearray(sealed)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WrongCode):
        scientist.open(bytes(changed))
    assert scientist.open(sealed) == text


@given(st.binary(max_size=200))
def test_garbage_does_not_open(garbage: bytes) -> None:
    with pytest.raises(WrongCode):
        fixed_pair()[0].open(garbage)


def test_derived_keys_depend_on_the_label_and_have_their_size() -> None:
    owner, _ = fixed_pair()
    assert len({owner.derive(label, 32) for label in ("a", "b", "seal owner", "verifier")}) == 4
    assert [len(owner.derive("a", size)) for size in (1, 32, 8160)] == [1, 32, 8160]
    for size in (0, 8161):
        with pytest.raises(LocalProtocolError, match="8160"):
            owner.derive("a", size)


def test_golden_values_never_change() -> None:
    # two versions of duetlink must agree on these for ever
    owner, _ = fixed_pair()
    assert (owner.verifier(), owner.derive("a", 4).hex(), owner.seal(b"").hex()) == GOLDEN


def test_the_secret_shows_nowhere() -> None:
    owner, _ = fixed_pair()
    assert repr(owner) == "<SessionKey owner>"
    assert repr(KeyAgreement(CODE, Role.OWNER)) == "<KeyAgreement owner>"
    assert re.fullmatch(r"[a-z]+-[a-z]+-[a-z]+", owner.verifier())
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(owner)
    with pytest.raises(LocalProtocolError, match="32 bytes"):
        SessionKey.from_secret(b"short", Role.OWNER)


GOLDEN = ("microwave-blowtorch-adviser", "d4c41fcc", "58dbd77c4c3f280f801b444cafc56a06")
