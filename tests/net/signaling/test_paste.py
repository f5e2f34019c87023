from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import (
    DuetError,
    IncompatiblePeer,
    LocalProtocolError,
    MalformedCode,
    SignalingRefused,
    WrongCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.hello import SignalingHello
from duetlink.net.signaling.paste import PasteOwner, PasteScientist

ANA = SignalingHello(1, 3, "0.3.0", "ana", frozenset({"tcp"}))
BEN = SignalingHello(2, 5, "0.5.0", "ben", frozenset({"tcp", "relay"}))


def blob_of(wire: pb.PasteBlob) -> str:
    body = wire.SerializeToString()
    return "duet1:" + base64.urlsafe_b64encode(body + hashlib.sha256(body).digest()[:4]).decode().rstrip("=")


def test_both_sides_share_a_key_after_one_text_each_way() -> None:
    owner = PasteOwner(ANA, b"offer")
    scientist = PasteScientist(owner.blob, BEN)
    theirs = owner.accept(scientist.answer(b"answer"))
    mine = scientist.paired
    assert (mine.hello, mine.payload, mine.protocol) == (ANA, b"offer", 3)
    assert mine.features == {"tcp"}
    assert (theirs.hello, theirs.payload, theirs.protocol, theirs.features) == (
        BEN,
        b"answer",
        3,
        frozenset({"tcp"}),
    )
    assert mine.key.verifier() == theirs.key.verifier()
    assert theirs.key.open(mine.key.seal(b"more")) == b"more"
    assert mine.key.open(theirs.key.seal(b"back")) == b"back"


def test_texts_survive_what_mail_programs_do_to_them() -> None:
    owner = PasteOwner(ANA, bytes(500))
    wrapped = "\r\n".join(owner.blob[at : at + 60] for at in range(0, len(owner.blob), 60))
    scientist = PasteScientist(f' "{wrapped}"\n', BEN)
    assert owner.accept(f"`{scientist.answer(b'x')}`").payload == b"x"


def test_two_answers_to_one_text_have_different_keys() -> None:
    owner = PasteOwner(ANA, b"")
    one, two = PasteScientist(owner.blob, BEN), PasteScientist(owner.blob, BEN)
    assert one.paired.key.verifier() != two.paired.key.verifier()
    assert one.answer(b"same") != two.answer(b"same")


def test_each_half_is_used_once() -> None:
    owner = PasteOwner(ANA, b"")
    scientist = PasteScientist(owner.blob, BEN)
    answer = scientist.answer(b"")
    owner.accept(answer)
    with pytest.raises(LocalProtocolError):
        owner.accept(answer)
    with pytest.raises(LocalProtocolError):
        scientist.answer(b"")


def test_a_mistake_can_be_corrected() -> None:
    owner, other = PasteOwner(ANA, b""), PasteOwner(ANA, b"")
    answer = PasteScientist(owner.blob, BEN).answer(b"right")
    for wrong, kind, says in (
        (owner.blob, MalformedCode, "this is an owner's text"),
        (answer[:-5], MalformedCode, "copy the whole"),
        (PasteScientist(other.blob, BEN).answer(b""), WrongCode, "another text"),
    ):
        with pytest.raises(kind, match=says):
            owner.accept(wrong)
    assert owner.accept(answer).payload == b"right"
    with pytest.raises(MalformedCode, match="not an owner's text"):
        PasteScientist(answer, BEN)


def test_incompatible_versions_are_told() -> None:
    with pytest.raises(IncompatiblePeer):
        PasteScientist(PasteOwner(SignalingHello(1, 1, "0.1"), b"").blob, BEN)


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(SignalingRefused):
        PasteOwner(ANA, bytes(65537))
    with pytest.raises(MalformedCode, match="200000 characters"):
        PasteScientist("x" * 200_000, BEN)


@pytest.mark.parametrize("public_key", [b"", bytes(31), bytes(32), b"\x01" + bytes(31)])
def test_keys_that_are_none_are_refused(public_key: bytes) -> None:
    with pytest.raises(MalformedCode, match="no valid key"):
        PasteScientist(blob_of(pb.PasteBlob(secret=bytes(32), public_key=public_key)), BEN)


def test_a_changed_introduction_under_a_right_checksum_is_detected() -> None:
    wire = pb.PasteBlob(secret=b"s" * 32, public_key=b"p" * 32, sealed=b"x" * 40)
    with pytest.raises(WrongCode):
        PasteScientist(blob_of(wire), BEN)


@given(st.data())
def test_a_blob_cut_or_changed_anywhere_is_refused(data: st.DataObject) -> None:
    blob = PasteOwner(ANA, b"offer").blob
    at = data.draw(st.integers(0, len(blob) - 1))
    changed = blob[:at] + data.draw(st.sampled_from(["", "A", "!", "é", "\x00"])) + blob[at + 1 :]
    if changed == blob:
        return
    for wrong in (changed, blob[:at]):
        with pytest.raises(MalformedCode):
            PasteScientist(wrong, BEN)


@settings(max_examples=200)
@given(
    st.one_of(
        st.text(), st.text().map("duet1:".__add__), st.from_regex(r"duet1:[A-Za-z0-9_-]+", fullmatch=True)
    )
)
def test_no_text_raises_anything_but_malformed_code(text: str) -> None:
    with pytest.raises(MalformedCode):
        PasteScientist(text, BEN)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=80))
def test_no_content_under_a_right_checksum_raises_a_foreign_error(
    secret: bytes, public: bytes, sealed: bytes
) -> None:
    blob = blob_of(pb.PasteBlob(secret=secret, public_key=public, sealed=sealed))
    owner = PasteOwner(ANA, b"")
    for use in (lambda: PasteScientist(blob, BEN), lambda: owner.accept(blob)):
        with pytest.raises(DuetError):
            use()
